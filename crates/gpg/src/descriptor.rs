//! Files by name or by descriptor number: `-` is the standard input, `-&9` is the descriptor 9 if
//! special file names are enabled.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use talaria_disk::duplicate;

/// The descriptor that a special file name stands for.
fn special(name: &OsStr) -> Option<i32> {
    let digits = name.to_str()?.strip_prefix("-&")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(i32::MAX))
}

/// Whether a name stands for a descriptor and not for a file.
pub(crate) fn is_pipe(name: &OsStr, specials: bool) -> bool {
    name == "-" || specials && special(name).is_some()
}

/// Opens an input.
///
/// # Errors
///
/// The errors of the system.
pub(crate) fn open(name: &OsStr, specials: bool) -> io::Result<File> {
    if name == "-" {
        return duplicate(0);
    }
    match special(name).filter(|_| specials) {
        Some(number) => duplicate(number),
        None => File::open(name),
    }
}

/// Opens an output, and empties a file that exists.
///
/// # Errors
///
/// The errors of the system.
pub(crate) fn create(name: &OsStr, specials: bool) -> io::Result<File> {
    if name == "-" {
        return duplicate(1);
    }
    match special(name).filter(|_| specials) {
        Some(number) => duplicate(number),
        None => File::create(name),
    }
}
