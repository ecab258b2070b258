//! Sources of certificates: any file, folder, stream or server. The content decides the format.
//!
//! A source passes its data to a sink in batches, so that memory use is bounded whatever the size
//! of the input.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use talaria_cert::{Address, Armor, BATCH_BYTES, Fingerprint, Item, Reason, Splitter};
use talaria_gnupg as gnupg;
use talaria_store::{Access, Cursor, FileKind, Order, Store, file_kind};

use crate::compressed::{Compression, MAGIC_BYTES};
use crate::error::Error;

/// The maximum length of inputs that are held in memory as a whole (a server's answer, a trust
/// database, a list of owner trust): 64 MiB.
const WHOLE_BYTES_MAX: u64 = 64 << 20;

/// An input for an import.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Input {
    /// A file or folder.
    Path(PathBuf),
    /// Standard input.
    Stdin,
    /// A URL that returns certificates.
    Url(String),
}

impl Input {
    /// Parses a user's argument: a path, `-`, or an `http`, `https`, `hkp` or `hkps` URL.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "-" => Self::Stdin,
            _ if text.starts_with("http://") || text.starts_with("https://") => {
                Self::Url(text.to_owned())
            }
            _ => Self::Path(text.into()),
        }
    }

    /// The URL of an HKP keyserver's answer to a search.
    #[must_use]
    pub fn keyserver(server: &str, search: &str) -> Self {
        let base = match server.split_once("://") {
            Some(("hkps", rest)) => format!("https://{rest}"),
            Some(("hkp", rest)) => {
                let host = rest.trim_end_matches('/');
                let port = if host.rsplit(']').next().is_some_and(|h| h.contains(':')) {
                    ""
                } else {
                    ":11371"
                };
                format!("http://{host}{port}")
            }
            Some(_) => server.to_owned(),
            None => format!("https://{server}"),
        };
        let digits = search.strip_prefix("0x").unwrap_or(search);
        let id = matches!(digits.len(), 8 | 16 | 32 | 40 | 64)
            && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let search = if id { format!("0x{digits}") } else { percent(search) };
        let base = base.trim_end_matches('/');
        Self::Url(format!("{base}/pks/lookup?op=get&options=mr&search={search}"))
    }

    /// The Web Key Directory URLs for a mail address: first by the advanced method
    /// (draft-koch-openpgp-webkey-service, section 3.1), then by the direct one.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] if `address` is no mail address.
    pub fn wkd(address: &str) -> Result<[Self; 2], Error> {
        let error = || Error::Address { address: address.to_owned() };
        // A domain that still contains non-ASCII characters could be mapped to another domain on
        // its way.
        let read: Address = address.parse().map_err(|_| error())?;
        let domain = std::str::from_utf8(read.domain()).ok().filter(|domain| domain.is_ascii());
        let domain = domain.ok_or_else(error)?;
        // The draft lowercases the local part for its hash only.
        let (local, _) =
            address.trim().trim_matches(['<', '>']).split_once('@').ok_or_else(error)?;
        let hash = talaria_cert::user_id::web_key_hash(local);
        let local = percent(local);
        Ok([
            Self::Url(format!(
                "https://openpgpkey.{domain}/.well-known/openpgpkey/{domain}/hu/{hash}?l={local}"
            )),
            Self::Url(format!("https://{domain}/.well-known/openpgpkey/hu/{hash}?l={local}")),
        ])
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Stdin => f.write_str("standard input"),
            Self::Url(url) => f.write_str(url),
        }
    }
}

fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The detected format of an input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InputKind {
    /// Packets, certificate after certificate: a keyring, an SKS dump, `pubring.gpg`.
    Keyring,
    /// A keyring in ASCII armor, in one or more blocks.
    Armor,
    /// GnuPG's keybox.
    Keybox,
    /// The database of GnuPG's keyboxd.
    Keyboxd,
    /// The text output of `gpg --export-ownertrust`.
    Ownertrust,
    /// GnuPG's trust database.
    Trustdb,
    /// A GnuPG home directory.
    Home,
    /// A shared certificate directory (pgp.cert.d).
    CertDirectory,
    /// Another store of talaria.
    Store,
    /// An empty input.
    Empty,
}

impl InputKind {
    /// The name of the format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keyring => "keyring",
            Self::Armor => "armored keyring",
            Self::Keybox => "keybox",
            Self::Keyboxd => "keyboxd database",
            Self::Ownertrust => "ownertrust",
            Self::Trustdb => "trust database",
            Self::Home => "GnuPG home directory",
            Self::CertDirectory => "certificate directory",
            Self::Store => "talaria store",
            Self::Empty => "empty",
        }
    }
}

/// A position in an input.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// An offset in bytes.
    Offset(u64),
    /// A line number, counted from 1.
    Line(u64),
    /// A file in a folder.
    File(PathBuf),
    /// A certificate in a database.
    Cert(Fingerprint),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "offset {offset}"),
            Self::Line(line) => write!(f, "line {line}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Cert(fingerprint) => write!(f, "{fingerprint}"),
        }
    }
}

/// An item of an input.
#[derive(Debug)]
pub(crate) enum Piece {
    /// The packets of a certificate.
    Cert(Place, Vec<u8>),
    /// An item that is no certificate.
    Rejected(Place, Reason),
    /// The body of a stand-alone revocation, which names the certificate to revoke as its issuer.
    Revocation(Place, Vec<u8>),
    /// An owner trust value for a certificate.
    Ownertrust(Fingerprint, u8),
}

/// The consumer of the items of a source. `bytes` is the number of input bytes read so far.
pub(crate) type Sink<'a> = dyn FnMut(Vec<Piece>, u64) -> Result<(), Error> + 'a;

/// Reads the whole `input`.
pub(crate) fn read(input: &Input, sink: &mut Sink<'_>) -> Result<InputKind, Error> {
    let io = |source| Error::reading(input, source);
    match input {
        Input::Stdin => read_stream(input, io::stdin().lock(), sink),
        Input::Url(url) => {
            let answer = ureq::get(url).call().map_err(|error| match error {
                ureq::Error::StatusCode(404) => Error::Absent { url: url.clone() },
                source => Error::Http { url: url.clone(), source: Box::new(source) },
            })?;
            read_stream(input, answer.into_body().into_reader().take(WHOLE_BYTES_MAX), sink)
        }
        Input::Path(path) if path.is_dir() => read_folder(path, sink),
        Input::Path(path) => {
            match file_kind(path).map_err(io)? {
                FileKind::Store => return read_store(path, sink),
                FileKind::Database => return read_keyboxd(path, sink),
                FileKind::Empty | FileKind::Other => {}
            }
            let mut file = File::open(path).map_err(io)?;
            let mut head = [0; 4096];
            let n = fill(&mut file, &mut head).map_err(io)?;
            read_stream(input, head[..n].chain(file), sink)
        }
    }
}

/// The total size in bytes of all files of an input; 0 if it is unknown beforehand.
pub(crate) fn size(input: &Input) -> u64 {
    match input {
        Input::Path(path) => match fs::metadata(path) {
            Ok(meta) if meta.is_file() && compression(path).is_none() => meta.len(),
            _ => 0,
        },
        Input::Stdin | Input::Url(_) => 0,
    }
}

/// The compression format of a file.
pub(crate) fn compression(path: &Path) -> Option<Compression> {
    let mut head = [0; MAGIC_BYTES];
    let n = File::open(path).and_then(|mut file| fill(&mut file, &mut head)).ok()?;
    Compression::of(&head[..n])
}

pub(crate) fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match input.read(&mut buffer[n..]) {
            Ok(0) => break,
            Ok(read) => n += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

/// Reads a stream, decompresses it if necessary, and detects its format by the first bytes.
fn read_stream(
    input: &Input,
    mut stream: impl Read,
    sink: &mut Sink<'_>,
) -> Result<InputKind, Error> {
    let io = |source| Error::reading(input, source);
    let mut head = [0; MAGIC_BYTES];
    let n = fill(&mut stream, &mut head).map_err(io)?;
    let whole = head[..n].chain(stream);
    match Compression::of(&head[..n]) {
        Some(compression) => read_content(input, compression.content(whole), sink),
        None => read_content(input, whole, sink),
    }
}

/// Reads an uncompressed stream and detects its format by the first bytes.
fn read_content(
    input: &Input,
    mut stream: impl Read,
    sink: &mut Sink<'_>,
) -> Result<InputKind, Error> {
    let io = |source| Error::reading(input, source);
    let unrecognised = |what| Error::Unrecognised { name: input.to_string(), what };
    let mut head = vec![0; 4096];
    let n = fill(&mut stream, &mut head).map_err(io)?;
    head.truncate(n);
    let whole = head.clone();
    let mut stream = io::Cursor::new(whole).chain(stream);
    match head.first() {
        None => Ok(InputKind::Empty),
        _ if gnupg::is_keybox(&head) => {
            read_keybox(input, &mut stream, sink)?;
            Ok(InputKind::Keybox)
        }
        _ if gnupg::is_trustdb(&head) => {
            let mut bytes = Vec::new();
            stream.take(WHOLE_BYTES_MAX).read_to_end(&mut bytes).map_err(io)?;
            push_ownertrusts(gnupg::read_trustdb(&bytes)?, sink)?;
            Ok(InputKind::Trustdb)
        }
        Some(first) if first & 0x80 != 0 => {
            read_packets(input, stream, Place::Offset, sink)?;
            Ok(InputKind::Keyring)
        }
        _ if gnupg::is_ownertrust(&head) => {
            let mut text = String::new();
            stream.take(WHOLE_BYTES_MAX).read_to_string(&mut text).map_err(io)?;
            push_ownertrusts(gnupg::read_ownertrust(&text)?, sink)?;
            Ok(InputKind::Ownertrust)
        }
        _ if head.starts_with(b"SQLite format 3\0") => {
            Err(unrecognised("a database can only be read from a file, not from a stream"))
        }
        _ => {
            read_armor(input, stream, sink)?;
            Ok(InputKind::Armor)
        }
    }
}

fn push_ownertrusts(entries: Vec<(Fingerprint, u8)>, sink: &mut Sink<'_>) -> Result<(), Error> {
    sink(entries.into_iter().map(|(f, value)| Piece::Ownertrust(f, value)).collect(), 0)
}

fn read_packets(
    input: &Input,
    stream: impl Read,
    place: impl Fn(u64) -> Place,
    sink: &mut Sink<'_>,
) -> Result<(), Error> {
    let io = |source| Error::reading(input, source);
    let mut splitter = Splitter::new(stream, BATCH_BYTES);
    while let Some(batch) = splitter.next_batch().map_err(io)? {
        let pieces = batch.items.iter().map(|item| match item {
            Item::Cert(at) => {
                Piece::Cert(place(batch.offset + at.start as u64), batch.bytes[at.clone()].to_vec())
            }
            Item::Rejected(reject) => match batch.revocation(reject) {
                Some(body) => Piece::Revocation(place(reject.offset), body.to_vec()),
                None => Piece::Rejected(place(reject.offset), reject.reason.clone()),
            },
        });
        let pieces = pieces.collect();
        sink(pieces, batch.offset + batch.bytes.len() as u64)?;
    }
    Ok(())
}

/// Reads armored blocks. Errors give the line in which the block starts.
fn read_armor(input: &Input, stream: impl Read, sink: &mut Sink<'_>) -> Result<(), Error> {
    use std::cell::RefCell;
    use std::rc::Rc;

    /// The splitter reads from the armor while this function asks the armor for its current block.
    struct Shared<R>(Rc<RefCell<Armor<R>>>);
    impl<R: io::BufRead> Read for Shared<R> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0.borrow_mut().read(out)
        }
    }

    let armor = Rc::new(RefCell::new(Armor::new(BufReader::with_capacity(1 << 16, stream))));
    let line = |offset: u64| {
        let armor = armor.borrow();
        let blocks = armor.blocks();
        let behind = blocks.partition_point(|block| block.decoded <= offset);
        Place::Line(behind.checked_sub(1).map_or(1, |at| blocks[at].line))
    };
    read_packets(input, Shared(Rc::clone(&armor)), line, sink)?;
    let armor = armor.borrow();
    if armor.blocks().is_empty() {
        return Err(Error::Unrecognised {
            name: input.to_string(),
            what: "no OpenPGP data found: neither packets nor ASCII armor nor a keybox",
        });
    }
    let damage = armor.damage().iter();
    let damage = damage.map(|&line| Piece::Rejected(Place::Line(line), Reason::Armor { line }));
    sink(damage.collect(), 0)
}

fn read_keybox(input: &Input, stream: &mut dyn Read, sink: &mut Sink<'_>) -> Result<(), Error> {
    let io = |source| Error::reading(input, source);
    let mut pieces = Vec::new();
    let mut held = 0;
    for entry in gnupg::Keybox::new(stream) {
        let (offset, entry) = entry.map_err(io)?;
        let place = Place::Offset(offset);
        pieces.push(match entry {
            Ok(keyblock) => {
                held += keyblock.len();
                Piece::Cert(place, keyblock)
            }
            Err(reason) => Piece::Rejected(place, reason),
        });
        if held >= BATCH_BYTES {
            sink(std::mem::take(&mut pieces), offset)?;
            held = 0;
        }
    }
    sink(pieces, 0)
}

/// Collects items and passes them on in batches.
struct Collector<'a, 'b> {
    pieces: Vec<Piece>,
    held: usize,
    read: u64,
    sink: &'a mut Sink<'b>,
}

impl<'a, 'b> Collector<'a, 'b> {
    fn new(sink: &'a mut Sink<'b>) -> Self {
        Self { pieces: Vec::new(), held: 0, read: 0, sink }
    }

    fn push(&mut self, place: Place, keyblock: Vec<u8>) -> Result<(), Error> {
        self.held += keyblock.len();
        self.read += keyblock.len() as u64;
        self.pieces.push(Piece::Cert(place, keyblock));
        if self.held >= BATCH_BYTES { self.finish() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.held = 0;
        (self.sink)(std::mem::take(&mut self.pieces), self.read)
    }
}

/// Reads an SQLite file: a store of talaria or of keyboxd.
fn read_store(path: &Path, sink: &mut Sink<'_>) -> Result<InputKind, Error> {
    let mut collector = Collector::new(sink);
    let store = Store::open(path, Access::Read)?;
    let mut ids = Vec::new();
    store.walk(&mut Cursor::start(Order::Insertion), |row| {
        ids.push((row.id, row.summary.fingerprint()));
        std::ops::ControlFlow::Continue(())
    })?;
    for (id, fingerprint) in ids {
        if let Some(stored) = store.stored(id)? {
            collector.push(Place::Cert(fingerprint), stored.cert.into_bytes())?;
        }
    }
    collector.finish()?;
    push_ownertrusts(store.web().ownertrusts()?, sink)?;
    Ok(InputKind::Store)
}

fn read_keyboxd(path: &Path, sink: &mut Sink<'_>) -> Result<InputKind, Error> {
    let mut collector = Collector::new(sink);
    if !gnupg::is_keyboxd(path) {
        return Err(Error::Unrecognised {
            name: path.display().to_string(),
            what: "a SQLite database, but neither that of keyboxd nor a talaria store",
        });
    }
    let mut number = 0;
    let mut failed = None;
    gnupg::read_keyboxd(path, |keyblock| {
        number += 1;
        let place = Place::Offset(number - 1);
        match collector.push(place, keyblock) {
            Ok(()) => std::ops::ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                std::ops::ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    collector.finish()?;
    Ok(InputKind::Keyboxd)
}

fn read_folder(path: &Path, sink: &mut Sink<'_>) -> Result<InputKind, Error> {
    if let Some(home) = gnupg::Home::open(path)? {
        for file in home.files() {
            read(&Input::Path(file), sink)?;
        }
        return Ok(InputKind::Home);
    }
    if gnupg::is_certd(path) {
        let mut collector = Collector::new(sink);
        for entry in gnupg::read_certd(path)? {
            let (file, bytes) = entry?;
            collector.push(Place::File(file), bytes)?;
        }
        collector.finish()?;
        return Ok(InputKind::CertDirectory);
    }
    Err(Error::Unrecognised {
        name: path.display().to_string(),
        what: "a folder, but neither a GnuPG home directory nor a certificate directory",
    })
}
