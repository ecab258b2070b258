//! The content of a message that is made here: its name, its length and its compression, as gpg
//! chooses them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;

use talaria_message::{
    ArmorWriter, Compression, EncryptOptions, Label, Literal, MessageError, Recipients, SigningKey,
    encrypt,
};

use crate::algorithm::{self, COMPRESSIONS};
use crate::framing::{self, Header, tag};
use crate::gpg::ends::Input;
use crate::gpg::handover::Reason;
use crate::gpg::preferred::{self, Preferred};
use crate::gpg::sealing::Sealing;

/// GnuPG writes the length of no longer content, in bytes.
const LENGTH_MAX: u64 = 0xffff_ffff - 65536;

/// The longest name in a message, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The level of compression without a wish.
const LEVEL: u32 = 6;

/// The number of the compression without a wish.
const ZIP: u8 = 1;

/// What is to be in a message.
pub(crate) struct Content<'a> {
    pub(crate) input: &'a Input,
    /// The name of the input.
    pub(crate) name: Option<&'a OsStr>,
    pub(crate) is_signed: bool,
}

impl Content<'_> {
    /// How it is written, for recipients with these preferences.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must write it.
    pub(crate) fn options(
        &self,
        sealing: &Sealing,
        all: &[Preferred],
        now: u32,
        warnings: &mut Vec<String>,
    ) -> Result<EncryptOptions, Reason> {
        let Self { input, name, is_signed } = *self;
        let is_compressed =
            !is_signed && matches!(input, Input::File(file, _) if is_compressed(file));
        let mut options = EncryptOptions::default();
        options.compression = compression(sealing, all, is_compressed, warnings)?;
        let name = sealing.file_name.as_deref().or(name).map(base).unwrap_or_default();
        if name.len() > NAME_BYTES_MAX {
            return Err(Reason::Undone("a message with such a long name".to_owned()));
        }
        options.literal = Literal { text: false, name, date: now };
        options.size = match input {
            Input::File(_, bytes) => Some(*bytes).filter(|bytes| (1..LENGTH_MAX).contains(bytes)),
            _ => None,
        };
        options.threads = 1;
        Ok(options)
    }
}

/// A warning of an algorithm that a recipient has not asked for.
pub(crate) fn violates(what: &str) -> String {
    format!("WARNING: forcing {what} violates recipient preferences")
}

/// The compression: none for a file that is compressed, or else one that all recipients accept.
/// Without recipients, it is ZIP.
fn compression(
    sealing: &Sealing,
    all: &[Preferred],
    is_compressed: bool,
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
    if wanted == Some(0) || is_compressed {
        return Ok(Compression::None);
    }
    let preferred = preferred::compression(all, wanted, &sealing.personal.compressions);
    let number = wanted.or(preferred).unwrap_or(if all.is_empty() { ZIP } else { 0 });
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

/// Writes a message.
pub(crate) fn seal(
    input: impl Read + Send,
    output: &mut (impl Write + Send),
    to: &Recipients,
    keys: &mut [SigningKey],
    options: &EncryptOptions,
    is_armored: bool,
    now: u32,
) -> Result<(), MessageError> {
    if is_armored {
        let mut armored = ArmorWriter::new(output, Label::Message)?;
        encrypt(input, &mut armored, to, keys, options, now)?;
        return armored.finish().map(drop);
    }
    encrypt(input, output, to, keys, options, now).map(drop)
}
