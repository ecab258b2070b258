//! `--encrypt`: a message to keys of the home directory, in the format of gpg 2.2.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use talaria_message::{
    ArmorWriter, Cipher, Compression, EncryptOptions, Label, Literal, MessageError, Naming, Profile,
};

use crate::algorithm::{self, CIPHERS, COMPRESSIONS};
use crate::code::{Code, Exit, cause};
use crate::framing::{self, Header, tag};
use crate::gpg::ends::{self, Counted, Input, Output};
use crate::gpg::handover::Reason;
use crate::gpg::preferred;
use crate::gpg::recipients::{Recipient, Recipients};
use crate::gpg::sealing::Sealing;
use crate::gpg::start::Started;
use crate::progress::Progress;

/// GnuPG writes the length of no longer content, in bytes.
const LENGTH_MAX: u64 = 0xffff_ffff - 65536;

/// The longest name in a message, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The level of compression without a wish.
const LEVEL: u32 = 6;

/// GnuPG's number of the digest at the end of the message.
const SHA1: u8 = 2;

/// How the message is made.
struct How {
    options: EncryptOptions,
    to: talaria_message::Recipients,
    /// Texts about what the recipients do not prefer.
    warnings: Vec<String>,
    cipher: u8,
}

/// An encryption whose recipients were looked for.
pub(crate) struct Encryption {
    recipients: Recipients,
    input: Input,
    /// The name of the input as it was given, and its name in texts.
    name: Option<OsString>,
    shown: String,
    /// The name of the output in texts.
    output_name: String,
    /// How, and where to; `None` without recipients or without an input.
    how: Option<(How, Output)>,
}

impl Encryption {
    /// Finds the recipients, and opens the files.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must encrypt.
    pub(crate) fn find(started: &Started, words: &[OsString]) -> Result<Self, Reason> {
        let Started { session, settings, .. } = started;
        let needs = |what: &str| Reason::Undone(format!("an encryption {what}"));
        if settings.verbose > 0 {
            return Err(needs("with all texts"));
        }
        let name = match words {
            [] => None,
            [name] if name == "-" => None,
            [name] => Some(name.as_os_str()),
            _ => return Err(Reason::Usage("usage: gpg [options] --encrypt [filename]".to_owned())),
        };
        let input = Input::find(name, session.specials);
        let input = input.ok_or_else(|| needs("of such an input"))?;
        let recipients = Recipients::find(started)?;
        let end = if settings.armor { ".asc" } else { ".gpg" };
        let output_name = ends::output_name(settings.output.as_ref(), name, end);
        let how = match (&recipients.found, &input) {
            (Ok(found), Input::Standard(_) | Input::File(..)) => {
                let how = How::choose(&settings.sealing, found, &input, name, session.now)?;
                let output = ends::output(&output_name, session.specials, settings.yes);
                Some((how, output.ok_or_else(|| needs("to such an output"))?))
            }
            _ => None,
        };
        let shown = name.map_or("[stdin]".into(), |name| name.to_string_lossy().into_owned());
        let output_name = output_name.to_string_lossy().into_owned();
        let name = words.first().cloned();
        Ok(Self { recipients, input, name, shown, output_name, how })
    }

    /// Writes the message.
    ///
    /// # Errors
    ///
    /// [`Exit`] with 2 if there is none, which was reported then.
    pub(crate) fn write(self, started: &Started) -> Result<(), Exit> {
        let Started { session, settings, .. } = started;
        started.begin();
        if let Some(number) = settings.sealing.passphrase {
            pass_line(number);
        }
        let Self { recipients, input, name, shown, output_name, how } = self;
        let fail = |number: u32, text: &str| {
            session.status.failure("encrypt", number);
            session.log.error(format!("{shown}: encryption failed: {text}"));
            Err(Exit(2))
        };
        recipients.report(session);
        if let Err(code) = &recipients.found {
            return fail(code.number(), code.text());
        }
        let input = match input.file() {
            Ok(file) => file,
            Err(code) => {
                session.log.error(format!("can't open '{shown}': {}", code.text()));
                return fail(code.whole_number(), code.text());
            }
        };
        let Some((how, output)) = how else { return Err(Exit(2)) };
        let mut progress = Progress::begin(session, name.as_deref(), &input);
        let count = Arc::default();
        let input = Counted { file: input, count: Arc::clone(&count) };
        how.warnings.iter().for_each(|text| session.log.info(text));
        session.status.line(&format!("BEGIN_ENCRYPTION {SHA1} {}", how.cipher));
        if let Err(error) = how.seal(input, output, settings.armor, session.now) {
            let what = match &error {
                MessageError::Write(_) => format!("error writing to '{output_name}'"),
                _ => format!("error reading '{shown}'"),
            };
            session.log.error(format!("{what}: {}", cause(&error)));
            return fail(Code::General.whole_number(), Code::General.text());
        }
        progress.add(usize::try_from(count.load(Ordering::Relaxed)).unwrap_or(usize::MAX));
        progress.end(session);
        session.status.line("END_ENCRYPTION");
        if session.log.has_errors() { Err(Exit(2)) } else { Ok(()) }
    }
}

impl How {
    /// Chooses the algorithms by the preferences of the recipients.
    fn choose(
        sealing: &Sealing,
        recipients: &[Recipient],
        input: &Input,
        name: Option<&OsStr>,
        now: u32,
    ) -> Result<Self, Reason> {
        let needs = |what: String| Reason::Undone(format!("an encryption {what}"));
        let all: Vec<_> = recipients.iter().map(|one| one.preferred.clone()).collect();
        let mut warnings = Vec::new();
        let preferred = preferred::cipher(&all, sealing.cipher, &sealing.personal.ciphers);
        let cipher = sealing.cipher.or(preferred);
        let (cipher, number) = match cipher {
            Some(7) => (Cipher::Aes128, 7),
            Some(8) => (Cipher::Aes192, 8),
            Some(9) => (Cipher::Aes256, 9),
            other => return Err(needs(format!("with cipher {}", other.unwrap_or_default()))),
        };
        if preferred != Some(number) && !sealing.is_expert {
            let name = algorithm::name(&CIPHERS, number);
            warnings.push(violates(&format!("symmetric cipher {name} ({number})")));
        }
        let compression = compression(sealing, &all, input, &mut warnings)?;
        let mut to = talaria_message::Recipients::default();
        for Recipient { body, is_hidden, .. } in recipients {
            let is_hidden = *is_hidden || sealing.hides_all;
            let naming = if is_hidden { Naming::Hidden } else { Naming::Named };
            to.add_key(body, naming).map_err(|error| needs(format!("to such a key: {error}")))?;
        }
        let mut options = EncryptOptions::default();
        options.profile = Some(Profile::Rfc4880);
        options.cipher = Some(cipher);
        options.compression = compression;
        let name = name.filter(|_| matches!(input, Input::File(..)));
        let name = sealing.file_name.as_deref().or(name).map(base).unwrap_or_default();
        if name.len() > NAME_BYTES_MAX {
            return Err(needs("with such a long name".to_owned()));
        }
        options.literal = Literal { text: false, name, date: now };
        options.size = match input {
            Input::File(_, bytes) => Some(*bytes).filter(|bytes| (1..LENGTH_MAX).contains(bytes)),
            _ => None,
        };
        options.threads = 1;
        Ok(Self { options, to, warnings, cipher: number })
    }

    /// Writes the message.
    fn seal(
        &self,
        input: impl Read + Send,
        output: Output,
        is_armored: bool,
        now: u32,
    ) -> Result<(), MessageError> {
        output.write(|mut output| self.seal_to(input, &mut output, is_armored, now))
    }

    fn seal_to(
        &self,
        input: impl Read + Send,
        output: &mut (impl Write + Send),
        is_armored: bool,
        now: u32,
    ) -> Result<(), MessageError> {
        let Self { options, to, .. } = self;
        if is_armored {
            let mut armored = ArmorWriter::new(output, Label::Message)?;
            talaria_message::encrypt(input, &mut armored, to, &mut [], options, now)?;
            return armored.finish().map(drop);
        }
        talaria_message::encrypt(input, output, to, &mut [], options, now).map(drop)
    }
}

fn violates(what: &str) -> String {
    format!("WARNING: forcing {what} violates recipient preferences")
}

/// The compression: none for a file that is compressed, or else one that all recipients accept.
fn compression(
    sealing: &Sealing,
    all: &[preferred::Preferred],
    input: &Input,
    warnings: &mut Vec<String>,
) -> Result<Compression, Reason> {
    let is_level = |level: &Option<i32>| level.is_none_or(|level| (-1..=9).contains(&level));
    if !is_level(&sealing.level) || !is_level(&sealing.bzip2_level) {
        return Err(Reason::Undone("such a level of compression".to_owned()));
    }
    let level = |level: Option<i32>| {
        level.and_then(|level| u32::try_from(level).ok()).filter(|&level| level > 0)
    };
    let wanted = if sealing.level == Some(0) { Some(0) } else { sealing.compression };
    if wanted == Some(0) || matches!(input, Input::File(file, _) if is_compressed(file)) {
        return Ok(Compression::None);
    }
    let preferred = preferred::compression(all, wanted, &sealing.personal.compressions);
    let number = wanted.or(preferred).unwrap_or_default();
    if preferred != Some(number) && !sealing.is_expert {
        let name = algorithm::name(&COMPRESSIONS, number);
        warnings.push(violates(&format!("compression algorithm {name} ({number})")));
    }
    let zlib = level(sealing.level).unwrap_or(LEVEL);
    Ok(match number {
        1 => Compression::Zip(zlib),
        2 => Compression::Zlib(zlib),
        3 if sealing.bzip2_level == Some(0) => {
            return Err(Reason::Undone("such a level of compression".to_owned()));
        }
        3 => Compression::Bzip2(level(sealing.bzip2_level).unwrap_or(LEVEL)),
        _ => Compression::None,
    })
}

/// Whether a file begins as compressed ones do (`is_file_compressed` of GnuPG).
fn is_compressed(file: &File) -> bool {
    let mut start = [0; 6];
    if file.read_exact_at(&mut start, 0).is_err() {
        return false;
    }
    let is_archive = [&b"BZh"[..], b"\x1f\x8b\x08", b"PK\x03\x04"];
    is_archive.iter().any(|magic| start.starts_with(magic))
        || matches!(framing::header(&mut &start[..]), Ok(Header::Packet(tag::COMPRESSED, _)))
}

/// The name of a file without its folder.
fn base(name: &OsStr) -> Vec<u8> {
    let bytes = name.as_bytes();
    let start = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    OsString::from_vec(bytes[start..].to_vec()).into_vec()
}

/// Reads a line, as gpg does with a passphrase that it does not need. What follows stays unread.
fn pass_line(number: i32) {
    let Ok(mut file) = talaria_disk::duplicate(number) else { return };
    let mut byte = [0];
    while file.read(&mut byte).is_ok_and(|read| read == 1) && byte[0] != b'\n' {}
}
