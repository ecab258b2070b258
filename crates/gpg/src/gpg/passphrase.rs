//! The passphrase that a program gives: `--passphrase`, `--passphrase-fd` and `--passphrase-file`.
//! GnuPG reads it in any case, and uses it with `--pinentry-mode loopback` only.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;

use talaria_message::openpgp::crypto::Password;

use crate::gpg::handover::Reason;

/// The maximum length of a passphrase, in bytes: that of gpg-agent.
const BYTES_MAX: usize = 255;

/// Where a passphrase is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Text(OsString),
    /// The first line of a file.
    File(OsString),
    /// The next line of a descriptor.
    Descriptor(i32),
}

/// A passphrase that was given.
#[derive(Clone, Debug)]
pub(crate) struct Passphrase {
    pub(crate) place: Place,
    /// The option, if its effect on a task is not implemented.
    reason: Reason,
}

impl Passphrase {
    /// A passphrase in a place. The error is that GnuPG must say what is wrong with it.
    pub(crate) fn new(place: Place, reason: Reason) -> Result<Self, Reason> {
        match &place {
            Place::File(name) if File::open(name).is_err() => Err(reason),
            _ => Ok(Self { place, reason }),
        }
    }

    /// Whether it stands on the command line itself.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.place, Place::Text(_))
    }

    /// That it is not implemented.
    pub(crate) fn reason(&self) -> Reason {
        self.reason.clone()
    }

    /// Reads it. What follows in a descriptor stays unread.
    pub(crate) fn read(&self) -> Password {
        match &self.place {
            Place::Text(text) => text.as_bytes().into(),
            Place::File(name) => File::open(name).map_or_else(|_| "".into(), line),
            Place::Descriptor(number) => {
                talaria_disk::duplicate(*number).map_or_else(|_| "".into(), line)
            }
        }
    }
}

/// Reads a line, byte by byte.
fn line(mut file: File) -> Password {
    let (mut line, mut byte) = (Vec::with_capacity(BYTES_MAX), [0]);
    while file.read(&mut byte).is_ok_and(|read| read == 1) && byte[0] != b'\n' {
        if line.len() < BYTES_MAX {
            line.push(byte[0]);
        }
    }
    line.into()
}
