//! `--decrypt`, and calls without a command: what a message is, and where its content goes.
//!
//! A message is looked at before anything else, and stays unread: if it is not processed here, the
//! real gpg must find all of it. So a regular file is opened a second time, and what waits in a
//! pipe is copied.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{SpliceFlags, tee};

use crate::algorithm;
use crate::armor::{Armor, may_be_armored};
use crate::compressed;
use crate::data::beside;
use crate::descriptor;
use crate::framing::{self, Body, Header, tag};
use crate::gpg::handover::Reason;
use crate::gpg::passphrase::Place;
use crate::gpg::request::Settings;
use crate::log::Log;
use crate::session::Session;

/// The maximum number of compressed packets in each other, and of markers before a message, that
/// are looked through.
const DEPTH_MAX: usize = 4;

/// The number of bytes that are read at once.
const READ_BYTES: usize = 4096;

/// The number of bytes in a pipe that are looked at: what fits into one.
const PIPE_BYTES: usize = 64 << 10;

/// The time for more to come through a pipe whose first bytes say too little.
const PATIENCE: Duration = Duration::from_millis(100);

/// The maximum number of recipients of a message that is decrypted here.
const RECIPIENTS_MAX: usize = 256;

/// The maximum length of a line with a passphrase in front of a message, in bytes.
const LINE_BYTES_MAX: u64 = 1024;

/// The maximum length of a session key for a recipient, in bytes.
const WRAPPED_BYTES_MAX: u64 = 8 << 10;

/// What a message is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Content with signatures.
    Signed,
    /// It begins with a signature.
    Signature,
    /// It is encrypted to keys that it names, in the format of gpg 2.2.
    Encrypted(Vec<Recipient>),
    /// It is encrypted to a passphrase alone, in the format of gpg 2.2.
    Symmetric(Stretch),
    /// Anything else.
    Other,
}

/// A key that a message names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Recipient {
    pub(crate) id: u64,
    pub(crate) algorithm: u8,
}

/// How a message turns a passphrase into a key, in the numbers of GnuPG.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stretch {
    pub(crate) cipher: u8,
    pub(crate) mode: u8,
    pub(crate) digest: u8,
    /// The key only opens the session key.
    pub(crate) is_wrapped: bool,
}

/// A message that was looked at.
pub(crate) struct Looked {
    pub(crate) kind: Kind,
    /// The place of its content; `None` for a signature in a file of its own.
    pub(crate) output: Option<OsString>,
    pub(crate) seen: Seen,
    /// The first bytes, as many as a pipe holds.
    pub(crate) start: Vec<u8>,
}

/// Where a message was looked at.
pub(crate) enum Seen {
    /// In a regular file, from this place on.
    File(File, u64),
    Pipe,
}

impl Seen {
    /// The length of the message in bytes; `None` if it cannot be opened again.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            Self::File(file, place) => {
                file.metadata().ok().map(|meta| meta.len().saturating_sub(*place))
            }
            Self::Pipe => None,
        }
    }

    /// The size of a buffer to read it with: not much larger than it is.
    pub(crate) fn buffer_bytes(&self) -> usize {
        const BYTES_MAX: usize = 256 << 10;
        let bytes = self.bytes().and_then(|bytes| usize::try_from(bytes).ok());
        bytes.map_or(BYTES_MAX, |bytes| bytes.saturating_add(1).clamp(READ_BYTES, BYTES_MAX))
    }

    /// Opens the message again.
    ///
    /// # Errors
    ///
    /// The errors of the system.
    pub(crate) fn again(&self) -> io::Result<File> {
        let Self::File(file, place) = self else { return Err(io::ErrorKind::NotSeekable.into()) };
        // Another description of the same file has a place of its own.
        let mut again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        again.seek(SeekFrom::Start(*place))?;
        Ok(again)
    }
}

/// What is done with a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Plain {
    /// The content is written to the standard output, or to `--output`.
    Decrypt,
    /// The content is written to a file with the name of the message without its end.
    Default,
}

/// Looks at the message that `words` name, and says where its content goes.
///
/// # Errors
///
/// [`Reason`] if the real gpg is needed.
pub(crate) fn look(
    plain: Plain,
    settings: &Settings,
    words: &[OsString],
) -> Result<Looked, Reason> {
    let command = match plain {
        Plain::Decrypt => "--decrypt",
        Plain::Default => "a call without a command",
    };
    let other = || Reason::Undone(format!("{command} for this message"));
    let (name, []) = words.split_at(words.len().min(1)) else { return Err(other()) };
    let name = name.first().map(OsString::as_os_str);
    let passphrase = settings.passphrase.as_ref();
    let is_behind_line = passphrase.is_some_and(|passphrase| {
        passphrase.place == Place::Descriptor(0) && name.is_none_or(|name| name == "-")
    });
    let seen = see(name, settings.specials, is_behind_line).ok_or_else(other)?;
    let (kind, seen, start) = seen;
    if let Some(passphrase) = passphrase
        && settings.has_read_descriptor()
        && !matches!(kind, Kind::Encrypted(_) | Kind::Symmetric(_))
    {
        return Err(passphrase.reason());
    }
    let output = match (&kind, plain) {
        (Kind::Signed | Kind::Encrypted(_) | Kind::Symmetric(_), Plain::Decrypt) => {
            Some(settings.output.clone().unwrap_or_else(|| OsString::from("-")))
        }
        (Kind::Signed | Kind::Encrypted(_) | Kind::Symmetric(_), Plain::Default)
            if settings.output.is_some() =>
        {
            settings.output.clone()
        }
        (Kind::Signed | Kind::Encrypted(_) | Kind::Symmetric(_), Plain::Default) => {
            let output = match name {
                Some(name) if !descriptor::is_pipe(name, settings.specials) => {
                    without_end(name).ok_or_else(other)?
                }
                _ => OsString::from("-"),
            };
            if output != "-" && !settings.yes && Path::new(&output).exists() {
                return Err(other());
            }
            Some(output)
        }
        // gpg asks for the data unless there is a file with the usual name.
        (Kind::Signature, Plain::Default) => {
            let data = name.and_then(|name| beside(name, settings.specials));
            data.filter(|data| File::open(data).is_ok()).map(|_| None).ok_or_else(other)?
        }
        _ => return Err(other()),
    };
    Ok(Looked { kind, output, seen, start })
}

/// What a file or a pipe holds, behind its first line or from its start, and its first bytes; `None`
/// for anything else.
fn see(
    name: Option<&OsStr>,
    specials: bool,
    is_behind_line: bool,
) -> Option<(Kind, Seen, Vec<u8>)> {
    let name = name.unwrap_or("-".as_ref());
    // Somebody may wait for a reader of a pipe with a name, and must not see one come and go.
    if !descriptor::is_pipe(name, specials) && !Path::new(name).is_file() {
        return None;
    }
    let mut file = descriptor::open(name, specials).ok()?;
    let kind_of_file = file.metadata().ok()?.file_type();
    if kind_of_file.is_file() {
        let place = file.stream_position().ok()?;
        let mut seen = Seen::File(file, place);
        if is_behind_line {
            let line = BufReader::new(seen.again().ok()?.take(LINE_BYTES_MAX)).skip_until(b'\n');
            let Seen::File(_, place) = &mut seen else { return None };
            *place += line.ok()? as u64;
        }
        let mut start = Vec::with_capacity(seen.buffer_bytes().min(PIPE_BYTES + 1));
        seen.again().ok()?.take(PIPE_BYTES as u64).read_to_end(&mut start).ok()?;
        let mut is_short = false;
        let found = match kind(Start { bytes: &start, is_short: &mut is_short }) {
            Kind::Other if is_short && start.len() == PIPE_BYTES => kind(seen.again().ok()?),
            found => found,
        };
        return Some((found, seen, start));
    }
    // At a terminal, gpg says first that it waits.
    if !kind_of_file.is_fifo() {
        return None;
    }
    let started = Instant::now();
    loop {
        let (mut bytes, is_all) = waiting(&file)?;
        let count = bytes.len();
        if is_behind_line {
            let line = bytes.iter().position(|&byte| byte == b'\n').map_or(count, |at| at + 1);
            bytes.drain(..line);
        }
        let mut is_short = false;
        let kind = kind(Start { bytes: &bytes, is_short: &mut is_short });
        let may_be_more = is_short && !is_all && count < PIPE_BYTES;
        if kind != Kind::Other || !may_be_more || started.elapsed() > PATIENCE {
            return Some((kind, Seen::Pipe, bytes));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A copy of what waits in a pipe, and whether nothing can follow; `None` for anything else.
fn waiting(pipe: &File) -> Option<(Vec<u8>, bool)> {
    let mut polled = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut polled, None).ok()?;
    let is_all = polled[0].revents().contains(PollFlags::HUP);
    let (copy, into) = rustix::pipe::pipe().ok()?;
    let bytes = tee(pipe, &into, PIPE_BYTES, SpliceFlags::empty()).ok()?;
    drop(into);
    let mut copied = Vec::with_capacity(bytes);
    File::from(copy).read_to_end(&mut copied).ok()?;
    Some((copied, is_all))
}

/// The start of a message, and whether more of it was asked for.
struct Start<'a> {
    bytes: &'a [u8],
    is_short: &'a mut bool,
}

impl Read for Start<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(out)?;
        *self.is_short |= read == 0 && !out.is_empty();
        Ok(read)
    }
}

/// The name of a message without its end.
fn without_end(name: &OsStr) -> Option<OsString> {
    let name = name.to_str()?;
    let ends = [".gpg", ".pgp", ".sig", ".asc", ".sign"];
    let rest = ends.iter().find_map(|end| name.strip_suffix(end)).filter(|rest| !rest.is_empty());
    rest.map(OsString::from)
}

/// What a message is by its start.
fn kind(input: impl Read) -> Kind {
    let mut input = BufReader::with_capacity(READ_BYTES, input);
    let Ok(start) = input.fill_buf() else { return Kind::Other };
    if !may_be_armored(&start[..start.len().min(2)]) {
        return first(&mut input, DEPTH_MAX);
    }
    // Nobody is to hear of the armor twice.
    let session = Session::new(Log::silent(), 0);
    let mut armor = Armor::new(&session, input);
    match first(&mut armor, DEPTH_MAX) {
        Kind::Other if armor.signed_text().is_some() => Kind::Signed,
        kind => kind,
    }
}

/// What a message is by its first packets.
fn first(source: &mut dyn Read, depth: usize) -> Kind {
    let (mut recipients, mut stretch, mut markers) = (Vec::new(), None, 0);
    loop {
        let Ok(Header::Packet(tag, length)) = framing::header(source) else { return Kind::Other };
        let mut body = Body::new(source, length);
        match tag {
            tag::WRAPPED if recipients.len() < RECIPIENTS_MAX => {
                let body = body.read_small(WRAPPED_BYTES_MAX).unwrap_or_default();
                match recipient(&body) {
                    Some(recipient) => recipients.push(recipient),
                    None => return Kind::Other,
                }
            }
            tag::STRETCHED if recipients.is_empty() && stretch.is_none() => {
                let body = body.read_small(WRAPPED_BYTES_MAX).unwrap_or_default();
                match self::stretch(&body) {
                    Some(found) => stretch = Some(found),
                    None => return Kind::Other,
                }
            }
            tag::ENCRYPTED => {
                let version = framing::byte(&mut body).ok().flatten();
                return match stretch {
                    _ if version != Some(1) => Kind::Other,
                    Some(stretch) if recipients.is_empty() => Kind::Symmetric(stretch),
                    None if !recipients.is_empty() => Kind::Encrypted(recipients),
                    _ => Kind::Other,
                };
            }
            tag::MARKER if markers < DEPTH_MAX => {
                markers += 1;
                if body.skip().is_err() {
                    return Kind::Other;
                }
            }
            _ if !recipients.is_empty() || stretch.is_some() => return Kind::Other,
            tag::ONE_PASS => return Kind::Signed,
            tag::SIGNATURE => return Kind::Signature,
            tag::COMPRESSED if depth > 0 => {
                let algorithm = framing::byte(&mut body).ok().flatten().unwrap_or(0xff);
                let inner = BufReader::with_capacity(READ_BYTES, &mut body);
                let Some(mut plain) = compressed::reader(algorithm, inner) else {
                    return Kind::Other;
                };
                // A signature in there has its content there, too.
                return match first(&mut plain, depth - 1) {
                    Kind::Signed => Kind::Signed,
                    _ => Kind::Other,
                };
            }
            _ => return Kind::Other,
        }
    }
}

/// What a session key for a passphrase needs; `None` if that is not done here.
fn stretch(body: &[u8]) -> Option<Stretch> {
    let &[4, cipher, mode, digest, ref rest @ ..] = body else { return None };
    let salt_bytes = match mode {
        0 => 0,
        1 => 8,
        3 => 9,
        _ => return None,
    };
    let wrapped = rest.get(salt_bytes..)?;
    let is_known = matches!(cipher, 2 | 7..=9 | 11..=13) && algorithm::digest_bytes(digest) > 0;
    is_known.then_some(Stretch { cipher, mode, digest, is_wrapped: !wrapped.is_empty() })
}

/// The recipient of a session key; `None` if it is hidden, or of a kind that is not decrypted here.
fn recipient(body: &[u8]) -> Option<Recipient> {
    const RSA: u8 = 1;
    const ELGAMAL: u8 = 16;
    const ECDH: u8 = 18;
    let (&[3], rest) = body.split_first_chunk()? else { return None };
    let (id, rest) = rest.split_first_chunk()?;
    let (id, &algorithm) = (u64::from_be_bytes(*id), rest.first()?);
    let is_known = id != 0 && matches!(algorithm, RSA | ELGAMAL | ECDH);
    is_known.then_some(Recipient { id, algorithm })
}
