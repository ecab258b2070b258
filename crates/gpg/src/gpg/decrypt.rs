//! `--decrypt`, and calls without a command, for messages that are encrypted to keys of gpg-agent or to
//! the passphrase of the caller.
//!
//! Nothing is written of a message that was changed: all of it is checked first. If it is signed,
//! too, its content is written unless a signature is bad.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::thread;

use talaria_message::{Again, Message, MessageError, Opened, ReadLimits, Release, Secrets, Spool};

use crate::algorithm::{self, CIPHERS};
use crate::code::{Code, Exit, cause};
use crate::descriptor;
use crate::gpg::handover::Reason;
use crate::gpg::plain::{Kind, Plain, Seen, Stretch};
use crate::gpg::start::Started;
use crate::gpg::unlock::{Holders, Unlocked, list, unlock};
use crate::gpg::verify;
use crate::pass::pass;
use crate::process::{Processor, Source};
use crate::progress::Progress;
use crate::session::Session;

/// Messages up to this length are decrypted without a thread of their own, in bytes.
const SHORT_BYTES: u64 = 1 << 20;

/// The number of bytes of a message that are read at once.
const READ_BYTES: usize = 256 << 10;

/// A decryption whose keys were looked for.
pub(crate) struct Decryption {
    plain: Plain,
    way: Way,
    seen: Seen,
}

/// What opens a message.
enum Way {
    /// Nothing: only the keys are listed.
    List(Holders),
    /// The keys that it names; and the session key, or why there is none, in GnuPG's words.
    Keys(Holders, Result<Box<Unlocked>, String>),
    /// A passphrase of the caller.
    Passphrase(Stretch),
}

impl Decryption {
    /// Finds the session key of a message of this kind with these first bytes.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must decrypt it.
    pub(crate) fn find(
        started: &Started,
        plain: Plain,
        kind: &Kind,
        (seen, start): (Seen, Vec<u8>),
    ) -> Result<Self, Reason> {
        let settings = &started.settings;
        let reason = settings.unless_verifying.clone().or(settings.unless_decrypting.clone());
        reason.map_or(Ok(()), Err)?;
        let undone = |what: &str| Reason::Undone(format!("a decryption {what}"));
        if settings.verbose > 1 {
            return Err(undone("with all texts"));
        }
        let way = match kind {
            Kind::Encrypted(named) if settings.list_only.is_some() => {
                Way::List(list(started, named)?)
            }
            Kind::Encrypted(named) => {
                let (holders, unlocked) = unlock(started, named, start)?;
                Way::Keys(holders, unlocked.map(Box::new))
            }
            Kind::Symmetric(stretch) if settings.has_loopback() && settings.list_only.is_none() => {
                Way::Passphrase(*stretch)
            }
            _ => return Err(undone("by a passphrase")),
        };
        Ok(Self { plain, way, seen })
    }

    /// Decrypts the message.
    ///
    /// # Errors
    ///
    /// [`Exit`] with 1 after a bad signature, and 2 after anything else that is wrong.
    pub(crate) fn write(self, started: &Started, words: &[OsString]) -> Result<(), Exit> {
        let session = &started.session;
        verify::begin(started, self.plain);
        let name = words.first().map(OsString::as_os_str);
        let file = match descriptor::open(name.unwrap_or("-".as_ref()), session.specials) {
            Ok(file) => file,
            Err(error) => {
                let code = Code::system(&error);
                let shown = name.unwrap_or_default().to_string_lossy();
                session.log.error(format!("can't open '{shown}': {}", code.text()));
                session.log.error(format!("decrypt_message failed: {}", code.text()));
                return Err(Exit(2));
            }
        };
        let mut progress = Progress::begin(session, name, &file);
        let input = progress.counted(file);
        let input = BufReader::with_capacity(self.seen.buffer_bytes(), input);
        let opened = match self.way {
            Way::List(holders) => {
                holders.tell(session)?;
                session.status.line("BEGIN_DECRYPTION");
                session.status.line("END_DECRYPTION");
                return verify::status(session);
            }
            Way::Keys(holders, unlocked) => {
                holders.tell(session)?;
                session.status.line("BEGIN_DECRYPTION");
                let unlocked = unlocked.map_err(|why| fail(session, &why))?;
                let number = unlocked.cipher() as u8;
                session.chat(|| format!("{} encrypted data", algorithm::name(&CIPHERS, number)));
                session.status.line(&format!("DECRYPTION_INFO 2 {number} 0"));
                let packets = Message::new(input).and_then(Message::into_packets);
                packets.and_then(|packets| unlocked.again(packets))
            }
            Way::Passphrase(stretch) => {
                stretch.tell(session);
                let passwords = started.settings.passwords();
                let mut secrets = Secrets { passwords, ..Secrets::default() };
                let packets = Message::new(input).and_then(Message::into_packets);
                let limits = ReadLimits::default();
                packets.and_then(|packets| Opened::new(packets, &mut secrets, limits))
            }
        };
        let opened = opened.map_err(|error| not_opened(session, &error))?;
        let mut processor = verify::processor(started, words);
        processor.needs_signature = false;
        processor.output.release_unsigned();
        process(&mut processor, opened, &self.seen)?;
        progress.end(session);
        for line in ["DECRYPTION_OKAY", "GOODMDC", "END_DECRYPTION"] {
            session.status.line(line);
        }
        if processor.output.is_whole() && !session.has_bad() {
            processor.output.release(session);
        }
        verify::status(session)
    }
}

impl Stretch {
    /// Says that a message is for a passphrase.
    fn tell(self, session: &Session) {
        let Self { cipher, mode, digest, is_wrapped } = self;
        let what = if is_wrapped { "session key" } else { "data" };
        let name = algorithm::name(&CIPHERS, cipher);
        if !session.quiet {
            session.log.info(format!("{name}.CFB encrypted {what}"));
        }
        session.status.line(&format!("NEED_PASSPHRASE_SYM {cipher} {mode} {digest}"));
        if !session.quiet {
            session.log.info("encrypted with 1 passphrase");
        }
        session.status.line("BEGIN_DECRYPTION");
        if is_wrapped {
            session.chat(|| format!("{name} encrypted data"));
        }
        session.status.line(&format!("DECRYPTION_INFO 2 {cipher} 0"));
    }
}

/// Processes the content of a message: a short one is decrypted first, and a long one meanwhile.
fn process<R: Read + Send>(
    processor: &mut Processor<'_>,
    opened: Opened<R>,
    seen: &Seen,
) -> Result<(), Exit> {
    let session = processor.session;
    let spool = || -> io::Result<Box<dyn Spool>> { Ok(Box::new(tempfile::tempfile()?)) };
    let again = || -> Result<Box<dyn Read + Send>, MessageError> {
        let file = seen.again().map_err(MessageError::Read)?;
        let file = BufReader::with_capacity(seen.buffer_bytes(), file);
        Ok(Box::new(Message::new(file)?.into_packets()?))
    };
    let bytes = seen.bytes();
    let again = bytes.is_some().then_some(&again as Again<'_>);
    let checked = Release::Checked { spool: &spool, again };
    let release = if processor.output.is_unseen() { Release::Streamed } else { checked };
    let (processed, written) = if bytes.is_some_and(|bytes| bytes <= SHORT_BYTES) {
        let mut content = Vec::new();
        let written = opened.write_packets(&mut content, release, 1);
        let is_some = written.is_ok() && !content.is_empty();
        (is_some.then(|| packets(processor, &content[..])).transpose()?, written)
    } else {
        thread::scope(|scope| {
            let (mut writer, mut reader) = pass();
            let threads = thread::available_parallelism().map_or(1, usize::from);
            let writing = scope.spawn(move || {
                opened.write_packets(&mut writer, release, threads)?;
                writer.finish();
                Ok(())
            });
            let processed = if reader.wait() {
                Some(packets(processor, BufReader::with_capacity(READ_BYTES, reader))?)
            } else {
                drop(reader);
                None
            };
            let written = writing.join().unwrap_or(Err(MessageError::Tampered("a bug")));
            Ok((processed, written))
        })?
    };
    match (processed, written) {
        (Some(Ok(())), Ok(())) => Ok(()),
        // The rest of a message that cannot be processed is not read.
        (Some(Err(code)), Ok(()) | Err(MessageError::Write(_))) => Err(fail(session, code.text())),
        (_, Err(error)) => Err(not_opened(session, &error)),
        (None, Ok(())) => Err(fail(session, Code::BadData.text())),
    }
}

/// Processes the packets in a message.
fn packets(processor: &mut Processor<'_>, input: impl BufRead) -> Result<Result<(), Code>, Exit> {
    let session = processor.session;
    processor.message(&mut Source::Packets(input)).inspect_err(|_| verify::ended(session))
}

/// Says that a message whose session key is known was changed, or cannot be read.
fn not_opened(session: &Session, error: &MessageError) -> Exit {
    use MessageError::{NoSecret, Tampered, Truncated, Unopened};
    if matches!(error, NoSecret { .. }) {
        session.status.line("ERROR symkey_decrypt.maybe_error 11_BAD_PASSPHRASE");
        return fail(session, "Bad session key");
    }
    if !matches!(error, Tampered(_) | Truncated(_) | Unopened { .. }) {
        return fail(session, &cause(error));
    }
    session.log.error("WARNING: encrypted message has been manipulated!");
    for line in ["BADMDC", "DECRYPTION_FAILED", "END_DECRYPTION"] {
        session.status.line(line);
    }
    Exit(2)
}

/// Says that a decryption failed.
fn fail(session: &Session, why: &str) -> Exit {
    session.status.line("DECRYPTION_FAILED");
    session.log.error(format!("decryption failed: {why}"));
    session.status.line("END_DECRYPTION");
    Exit(2)
}
