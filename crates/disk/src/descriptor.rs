//! File descriptors that the caller of a program has opened, given by number.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

/// A duplicate of the descriptor with this number. It shares the position in the file, as with a
/// shell's redirection.
///
/// # Errors
///
/// If the descriptor does not exist, or the process has too many descriptors.
#[expect(unsafe_code, reason = "there is no safe way from a number to a descriptor")]
pub fn duplicate(number: i32) -> io::Result<File> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::BADF.raw_os_error()));
    }
    // SAFETY: The number is only passed to `fcntl`, which fails if no descriptor has this number,
    // before any other use. The borrowed descriptor is neither kept nor closed; its owner stays the
    // same.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(borrowed, 3)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_descriptor_is_an_error() {
        assert!(duplicate(-1).is_err());
        assert!(duplicate(i32::MAX).is_err());
    }
}
