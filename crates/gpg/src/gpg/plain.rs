//! `--decrypt`, and calls without a command, for messages that are only signed.
//!
//! What a file holds is looked at before anything else. Only a regular file can be looked at: the
//! real gpg must find it unread.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use crate::armor::{Armor, may_be_armored};
use crate::compressed;
use crate::data::beside;
use crate::descriptor;
use crate::framing::{self, Body, Header, tag};
use crate::gpg::handover::Reason;
use crate::gpg::request::Settings;
use crate::log::Log;
use crate::session::Session;

/// The maximum number of compressed packets in each other, and of markers before a message, that
/// are looked through.
const DEPTH_MAX: usize = 4;

/// The number of bytes that are read at once.
const READ_BYTES: usize = 4096;

/// What a message is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// Content with signatures.
    Signed,
    /// It begins with a signature.
    Signature,
    /// Anything else.
    Other,
}

/// What is done with a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Plain {
    /// The content is written to the standard output, or to `--output`.
    Decrypt,
    /// The content is written to a file with the name of the message without its end.
    Default,
}

/// Whether the files named by `words` are only signed, and where their content goes.
///
/// # Errors
///
/// [`Reason`] if the real gpg is needed.
pub(crate) fn output(
    plain: Plain,
    settings: &Settings,
    words: &[OsString],
) -> Result<Option<OsString>, Reason> {
    let command = match plain {
        Plain::Decrypt => "--decrypt",
        Plain::Default => "a call without a command",
    };
    let other = || Reason::Undone(format!("{command} for this message"));
    let (name, []) = words.split_at(words.len().min(1)) else { return Err(other()) };
    let name = name.first().map(OsString::as_os_str);
    let file = open(name, settings.specials).ok_or_else(other)?;
    match (kind(file), plain) {
        (Kind::Signed, Plain::Decrypt) => {
            Ok(Some(settings.output.clone().unwrap_or_else(|| OsString::from("-"))))
        }
        (Kind::Signed, Plain::Default) if settings.output.is_some() => Ok(settings.output.clone()),
        (Kind::Signed, Plain::Default) => {
            let output = match name {
                None => OsString::from("-"),
                Some(name) => without_end(name).ok_or_else(other)?,
            };
            if output != "-" && !settings.yes && Path::new(&output).exists() {
                return Err(other());
            }
            Ok(Some(output))
        }
        // gpg asks for the data unless there is a file with the usual name.
        (Kind::Signature, Plain::Default) => {
            let data = name.and_then(|name| beside(name, settings.specials));
            data.filter(|data| File::open(data).is_ok()).map(|_| None).ok_or_else(other)
        }
        _ => Err(other()),
    }
}

/// A regular file, of its own or as the standard input, from where it would be read.
fn open(name: Option<&OsStr>, specials: bool) -> Option<File> {
    let name = name.unwrap_or("-".as_ref());
    let is_regular = |file: &File| file.metadata().is_ok_and(|meta| meta.is_file());
    if name != "-" {
        let file = Some(name).filter(|name| !descriptor::is_pipe(name, specials));
        return File::open(file?).ok().filter(is_regular);
    }
    // Another description of the same file has a place of its own.
    let place = rustix::fs::seek(std::io::stdin(), rustix::fs::SeekFrom::Current(0)).ok()?;
    let mut file = File::open("/proc/self/fd/0").ok().filter(is_regular)?;
    file.seek(SeekFrom::Start(place)).ok()?;
    Some(file)
}

/// The name of a message without its end; `-` for a pipe.
fn without_end(name: &OsStr) -> Option<OsString> {
    if name == "-" {
        return Some(name.to_owned());
    }
    let name = name.to_str()?;
    let ends = [".gpg", ".pgp", ".sig", ".asc", ".sign"];
    let rest = ends.iter().find_map(|end| name.strip_suffix(end)).filter(|rest| !rest.is_empty());
    rest.map(OsString::from)
}

/// What a file holds.
fn kind(file: File) -> Kind {
    let mut input = BufReader::with_capacity(READ_BYTES, file);
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

/// What a message is by its first packet.
fn first(source: &mut dyn Read, depth: usize) -> Kind {
    for _ in 0..DEPTH_MAX {
        let Ok(Header::Packet(tag, length)) = framing::header(source) else { return Kind::Other };
        let mut body = Body::new(source, length);
        match tag {
            tag::ONE_PASS => return Kind::Signed,
            tag::SIGNATURE => return Kind::Signature,
            tag::MARKER => {
                if body.skip().is_err() {
                    return Kind::Other;
                }
            }
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
    Kind::Other
}
