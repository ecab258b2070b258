//! Files by name or by descriptor number: `-` is the standard input, `-&9` is the descriptor 9 if
//! special file names are enabled.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

/// A duplicate of the descriptor with this number. It shares the position in the file.
///
/// # Errors
///
/// If the descriptor does not exist, or the process has too many descriptors.
#[expect(unsafe_code, reason = "there is no safe way from a number to a descriptor")]
pub(crate) fn duplicate(number: i32) -> io::Result<File> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::BADF.raw_os_error()));
    }
    // SAFETY: The number is only passed to `fcntl`, which fails if no descriptor has this number,
    // before any other use. The borrowed descriptor is neither kept nor closed; its owner stays the
    // same.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(borrowed, 3)?))
}

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
