//! File descriptors that the caller has opened, given by number.
//!
//! A descriptor is duplicated, not opened again by a path. A socket cannot be opened by a path, and
//! child processes of Node.js get sockets. The duplicate shares the position in the file, as with a
//! shell's redirection.

use std::fs::File;
use std::io;
use std::path::Path;

use talaria_disk::duplicate;

/// The descriptor number in a path such as `/dev/fd/3`; `None` for paths of files.
fn number(path: &Path) -> Option<i32> {
    let path = path.to_str()?;
    match path {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let digits = path.strip_prefix("/dev/fd/").or_else(|| path.strip_prefix("/proc/self/fd/"))?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// A duplicate of the descriptor that a path names; `None` for paths of files.
pub(crate) fn named(path: &Path) -> Option<io::Result<File>> {
    number(path).map(duplicate)
}

/// Opens a file for reading, or duplicates the descriptor that its path names.
///
/// # Errors
///
/// The errors of [`File::open`].
pub(crate) fn open(path: &Path) -> io::Result<File> {
    named(path).unwrap_or_else(|| File::open(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_is_read_and_written_by_its_number() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let path = format!("/dev/fd/{}", far.as_raw_fd());
        assert!(File::open(&path).is_err(), "sockets cannot be opened by a path");
        let mut file = open(Path::new(&path)).unwrap();
        near.write_all(b"in").unwrap();
        file.write_all(b"out").unwrap();
        let mut read = [0; 3];
        file.read_exact(&mut read[..2]).unwrap();
        assert_eq!(&read[..2], b"in");
        near.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"out");
    }

    #[test]
    fn only_some_paths_name_descriptors() {
        assert_eq!(number(Path::new("/dev/fd/")), None);
        assert_eq!(number(Path::new("/dev/fd/+1")), None);
        assert_eq!(number(Path::new("/dev/fd/17")), Some(17));
        assert_eq!(number(Path::new("/dev/full")), None);
    }
}
