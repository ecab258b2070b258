//! The keyrings, and the search for a key in them.
//!
//! A keyring is read from its start for each search, up to the key: only the names of keys are
//! computed on the way, and only the certificate that was found is kept in memory and evaluated.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::Access;
use talaria_cert::{CERT_BYTES_MAX, Fingerprint, Key, KeyId, PacketRef, Tag, packets};
use talaria_gnupg::{Keybox, is_keybox};

use crate::catalog::Catalog;
use crate::code::Code;
use crate::framing::{self, Header, Length};
use crate::keyblock::{KeyState, Keyblock, damage};
use crate::session::Session;
use crate::signature::SignaturePacket;

/// The longest packet of a key that is read, in bytes.
const KEY_PACKET_BYTES_MAX: u64 = 64 << 10;

/// The number of bytes of a keyring that are read at once.
const READ_BYTES: usize = 128 << 10;

/// The name of the key that a signature is by.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Issuer {
    /// The fingerprint, which goes before the key ID.
    fingerprint: Option<[u8; 20]>,
    key_id: u64,
}

impl Issuer {
    /// The issuer that a signature names.
    pub(crate) fn of(signature: &SignaturePacket) -> Self {
        Self { fingerprint: signature.fingerprint, key_id: signature.key_id }
    }

    fn by_fingerprint(fingerprint: [u8; 20]) -> Self {
        let KeyId(key_id) = Fingerprint::V4(fingerprint).key_id();
        Self { fingerprint: Some(fingerprint), key_id }
    }

    /// How well a key fits: by its fingerprint, or else by its key ID.
    fn fits(&self, fingerprint: &Fingerprint) -> Option<Fit> {
        match fingerprint {
            Fingerprint::V4(bytes) if Some(*bytes) == self.fingerprint => Some(Fit::Fingerprint),
            Fingerprint::V4(_) if fingerprint.key_id() == KeyId(self.key_id) => Some(Fit::KeyId),
            _ => None,
        }
    }

    /// The number of GnuPG's searches: one for each name.
    fn searches(&self) -> usize {
        1 + usize::from(self.fingerprint.is_some())
    }

    /// The key in a certificate that was found.
    pub(crate) fn key<'k>(&self, keyblock: &'k Keyblock) -> Option<&'k KeyState> {
        let by = |fit| keyblock.find(|key| self.fits(&key.fingerprint) == Some(fit));
        by(Fit::Fingerprint).or_else(|| by(Fit::KeyId))
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fit {
    Fingerprint,
    KeyId,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Packets,
    Keybox,
}

/// The keyrings of a program.
pub(crate) struct Keyrings {
    rings: Vec<(PathBuf, Kind)>,
    /// gpg makes the first keyring if it does not exist.
    makes_first: bool,
    /// gpg would have made one.
    has_empty: bool,
    found: HashMap<Issuer, Rc<Keyblock>>,
}

impl Keyrings {
    /// The keyrings with these names, or else the default one in the home directory `home`. One
    /// that cannot be used is reported, and left out.
    pub(crate) fn open(session: &Session, names: &[OsString], home: &Path) -> Self {
        let mut this = Self::none();
        if names.is_empty() {
            this.add_default(session, home);
        }
        for name in names {
            this.add(session, name, home);
        }
        this
    }

    fn none() -> Self {
        let (rings, found) = (Vec::new(), HashMap::new());
        Self { rings, makes_first: false, has_empty: false, found }
    }

    /// The keyrings of gpg: that of the home directory, if it is wanted or there is no other, and
    /// those with these names. gpg makes the first one if it does not exist; here it is empty.
    pub(crate) fn of_home(
        session: &Session,
        own: Option<&Path>,
        names: &[OsString],
        home: &Path,
    ) -> Self {
        let mut this = Self { makes_first: true, ..Self::none() };
        if let Some(own) = own {
            this.add(session, own.as_os_str(), home);
        }
        for name in names {
            this.add(session, name, home);
        }
        this
    }

    /// All certificates by their places; `None` if a keyring cannot be opened.
    pub(crate) fn catalog(&self) -> Option<Catalog> {
        let mut catalog = Catalog::default();
        for (path, kind) in &self.rings {
            let file = File::open(path).ok()?;
            match kind {
                Kind::Keybox => catalog.add_keybox(file),
                Kind::Packets => catalog.add_packets(file),
            }
        }
        Some(catalog)
    }

    fn add(&mut self, session: &Session, url: &OsStr, home: &Path) {
        let bytes = url.as_bytes();
        let (kind, name) = if let Some(name) = bytes.strip_prefix(b"gnupg-ring:") {
            (Some(Kind::Packets), name)
        } else if let Some(name) = bytes.strip_prefix(b"gnupg-kbx:") {
            (Some(Kind::Keybox), name)
        } else if bytes.contains(&b':') {
            session.log.error(format!("invalid key resource URL '{}'", url.to_string_lossy()));
            return refused(session, "(null)", &Code::General);
        } else {
            (None, bytes)
        };
        let name = Path::new(OsStr::from_bytes(name));
        let path = if name.as_os_str().as_bytes().contains(&b'/') {
            expanded(name)
        } else {
            home.join(name)
        };
        self.register(session, path, kind);
    }

    fn add_default(&mut self, session: &Session, home: &Path) {
        let (keybox, ring) = (home.join("trustedkeys.kbx"), home.join("trustedkeys.gpg"));
        let path = if !keybox.exists() && ring.exists() { ring } else { keybox };
        if !path.exists() {
            session.log.error("unknown type of key resource 'trustedkeys.kbx'");
            return refused(session, &path.to_string_lossy(), &Code::General);
        }
        self.register(session, path, None);
    }

    fn register(&mut self, session: &Session, path: PathBuf, kind: Option<Kind>) {
        let may = |access| rustix::fs::access(&path, access).is_ok();
        let is_first = self.rings.is_empty() && !self.has_empty;
        if self.makes_first && is_first && !may(Access::EXISTS) {
            self.has_empty = path.parent().is_some_and(Path::is_dir);
            if self.has_empty {
                return;
            }
        }
        let refused = if !may(Access::EXISTS) {
            Some(("No such file or directory", NO_FILE))
        } else if !may(Access::READ_OK) {
            Some(("Permission denied", NO_ACCESS))
        } else {
            None
        };
        if let Some((why, number)) = refused {
            session.log.error(format!("keyblock resource '{}': {why}", path.display()));
            return session.status.line(&format!("ERROR add_keyblock_resource {number}"));
        }
        let kind = kind.unwrap_or_else(|| kind_of(&path));
        if !self.rings.iter().any(|(known, _)| *known == path) {
            self.rings.push((path, kind));
        }
    }

    /// The certificate with the key of an issuer, from the first keyring that has it.
    pub(crate) fn find(&mut self, session: &Session, issuer: Issuer) -> Option<Rc<Keyblock>> {
        if let Some(found) = self.found.get(&issuer) {
            return Some(Rc::clone(found));
        }
        let raw = self.raw(session, issuer)?;
        if let Some(why) = damage(&raw) {
            report_damage(session, issuer, &why);
            return None;
        }
        let revoker = |by: Fingerprint| {
            let Fingerprint::V4(by) = by else { return None };
            let raw = self.raw(session, Issuer::by_fingerprint(by))?;
            Some(talaria_cert::first_packet(&raw)?.body.to_vec())
        };
        let keyblock = Rc::new(Keyblock::read(session, &raw, revoker)?);
        issuer.key(&keyblock)?;
        self.found.insert(issuer, Rc::clone(&keyblock));
        Some(keyblock)
    }

    /// The packets of the certificate.
    fn raw(&self, session: &Session, issuer: Issuer) -> Option<Vec<u8>> {
        if self.rings.is_empty() && self.has_empty {
            return None;
        }
        if self.rings.is_empty() {
            let line = format!("ERROR keydb_search {KEYRING_OPEN}");
            (0..issuer.searches()).for_each(|_| session.status.line(&line));
            return None;
        }
        let mut by_id = None;
        for (path, kind) in &self.rings {
            let found = File::open(path).map_err(Failure::Read).and_then(|file| match kind {
                Kind::Packets => in_packets(&file, issuer),
                Kind::Keybox => in_keybox(file, issuer).map_err(Failure::Read),
            });
            match found {
                Ok(Some((Fit::Fingerprint, raw))) => return Some(raw),
                Ok(Some((Fit::KeyId, raw))) => {
                    if issuer.fingerprint.is_none() {
                        return Some(raw);
                    }
                    by_id = by_id.or(Some(raw));
                }
                Ok(None) => {}
                Err(Failure::Read(error)) => {
                    let text = Code::system(&error);
                    session.log.info(format!("{}: read error: {}", path.display(), text.text()));
                }
                Err(Failure::Damaged(why)) => {
                    report_damage(session, issuer, &why);
                    return None;
                }
                Err(Failure::Invalid(why)) => {
                    for _ in 0..issuer.searches() {
                        session.log.error(&why);
                        session.log.error("keydb_search failed: Invalid packet");
                    }
                    return None;
                }
            }
        }
        by_id
    }
}

/// GnuPG's numbers of the errors that a file does not exist, and that it may not be read.
const NO_FILE: u32 = 0x0200_8051;
const NO_ACCESS: u32 = 0x0200_8001;
/// GnuPG's number of the error that there is no keyring.
const KEYRING_OPEN: u32 = 0x0200_000d;

/// Reports a certificate that was found and cannot be read.
fn report_damage(session: &Session, issuer: Issuer, why: &str) {
    for _ in 0..issuer.searches() {
        if !why.is_empty() {
            session.log.error(why);
        }
        session.log.error("keyring_get_keyblock: read error: Invalid packet");
        session.log.error("keydb_get_keyblock failed: Invalid keyring");
        session.log.error("keydb_search failed: Invalid keyring");
    }
}

fn refused(session: &Session, name: &str, code: &Code) {
    session.log.error(format!("keyblock resource '{name}': {}", code.text()));
    let number = 2 << 24 | code.number();
    session.status.line(&format!("ERROR add_keyblock_resource {number}"));
}

/// A name with the home directory of the user in place of `~/`.
pub(crate) fn expanded(name: &Path) -> PathBuf {
    match (name.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => name.to_owned(),
    }
}

fn kind_of(path: &Path) -> Kind {
    let mut head = Vec::new();
    let _ = File::open(path).and_then(|file| file.take(12).read_to_end(&mut head));
    if is_keybox(&head) { Kind::Keybox } else { Kind::Packets }
}

/// Why a keyring cannot be searched.
enum Failure {
    Read(io::Error),
    /// It has something else than packets, described by GnuPG's text.
    Invalid(String),
    /// The same, directly behind the certificate that was found: GnuPG cannot read that.
    Damaged(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

type Found = Option<(Fit, Vec<u8>)>;

/// Searches a sequence of packets.
fn in_packets(file: &File, issuer: Issuer) -> Result<Found, Failure> {
    let length = file.metadata()?.len();
    let capacity = usize::try_from(length).unwrap_or(READ_BYTES).clamp(1, READ_BYTES);
    let mut input = BufReader::with_capacity(capacity, file);
    // The start of the certificate that is being read, and of the best one so far with its end.
    let (mut start, mut at) = (0, 0);
    let mut best: Option<(Fit, u64, u64)> = None;
    let (mut in_best, mut ends_best) = (false, false);
    let mut body = Vec::new();
    loop {
        let mut counted = Counted { input: &mut input, count: 0 };
        let header = framing::header(&mut counted)?;
        let (tag, bytes) = match header {
            Header::Packet(tag, Length::Definite(bytes)) => (tag, bytes),
            Header::End => break,
            Header::Invalid(why) if in_best => return Err(Failure::Damaged(why)),
            Header::Invalid(why) => return Err(Failure::Invalid(why)),
            Header::Packet(tag, _) => {
                let why = format!("[don't know]: partial length invalid for packet type {tag}");
                return Err(Failure::Invalid(why));
            }
        };
        let tag = Tag(tag);
        if tag.is_primary() {
            ends_best = std::mem::take(&mut in_best);
            start = at;
        }
        if ends_best && bytes > KEY_PACKET_BYTES_MAX {
            return Err(Failure::Damaged(String::new()));
        }
        at += counted.count + bytes;
        let is_key = matches!(tag, Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY);
        if (is_key || ends_best) && bytes <= KEY_PACKET_BYTES_MAX {
            body.clear();
            input.by_ref().take(bytes).read_to_end(&mut body)?;
            let key = Key::parse(PacketRef { tag, body: &body });
            if std::mem::take(&mut ends_best) {
                // GnuPG reads the key of the next certificate, too.
                if !key.as_ref().is_ok_and(|key| key.version <= 4) {
                    return Err(Failure::Damaged(String::new()));
                }
                if best.is_some_and(|(fit, ..)| fit == Fit::Fingerprint)
                    || issuer.fingerprint.is_none()
                {
                    break;
                }
            }
            let key = key.ok().filter(|_| is_key);
            let fit = key.filter(|key| key.version == 4);
            let fit = fit.and_then(|key| issuer.fits(&key.fingerprint()));
            let is_better = matches!(
                (fit, best),
                (Some(Fit::Fingerprint), Some((Fit::KeyId, ..))) | (Some(_), None)
            );
            if let Some(fit) = fit.filter(|_| is_better) {
                best = Some((fit, start, at));
                in_best = true;
            }
        } else {
            input.seek_relative(i64::try_from(bytes).unwrap_or(i64::MAX))?;
        }
        if in_best && let Some((_, _, end)) = &mut best {
            *end = at;
        }
    }
    let Some((fit, start, end)) = best else { return Ok(None) };
    let end = end.min(length);
    let bytes = end.saturating_sub(start);
    if bytes > CERT_BYTES_MAX as u64 {
        return Ok(None);
    }
    let mut raw = vec![0; usize::try_from(bytes).unwrap_or(0)];
    file.read_exact_at(&mut raw, start)?;
    Ok(Some((fit, raw)))
}

/// A reader that counts.
struct Counted<'a, R> {
    input: &'a mut R,
    count: u64,
}

impl<R: io::Read> io::Read for Counted<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out)?;
        self.count += read as u64;
        Ok(read)
    }
}

/// Searches a keybox.
fn in_keybox(file: File, issuer: Issuer) -> io::Result<Found> {
    let mut best = None;
    let mut keybox = Keybox::new(file);
    // A key counts if GnuPG's table leads to it.
    let is_named = |name: &[u8; 20]| issuer.fits(&Fingerprint::V4(*name)).is_some();
    while let Some(raw) = keybox.find(is_named)? {
        let fit = packets(&raw).map_while(Result::ok).find_map(|packet| {
            let is_key = matches!(packet.tag, Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY);
            let key = is_key.then(|| Key::parse(packet).ok()).flatten();
            issuer.fits(&key.filter(|key| key.version == 4)?.fingerprint())
        });
        match fit {
            Some(Fit::Fingerprint) => return Ok(Some((Fit::Fingerprint, raw))),
            Some(Fit::KeyId) if best.is_none() => {
                best = Some((Fit::KeyId, raw));
                if issuer.fingerprint.is_none() {
                    break;
                }
            }
            _ => {}
        }
    }
    Ok(best)
}
