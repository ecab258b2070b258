//! Remedies for files that cannot be read or written.

use std::io;

use crate::shell::shell_word;

/// The remedy for a file that would be larger than files may be.
pub(crate) const LARGER_FILES: &str =
    "Raise the limit on the size of files (ulimit -f), or use a file system with larger files.";

/// The remedy for a file that cannot be read or written.
pub(crate) fn file_hint(name: &str, error: &io::Error) -> Option<String> {
    if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) {
        return Some(
            "Open the file descriptor for the command, as the shell does: 3< FILE or 3> FILE."
                .to_owned(),
        );
    }
    Some(match error.kind() {
        io::ErrorKind::NotFound if name.contains("://") => {
            "talaria reads files, and URLs that start with https:// or http://.".to_owned()
        }
        io::ErrorKind::NotFound => match std::path::Path::new(name).parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
                format!("The folder does not exist: mkdir -p {}", shell_word(folder))
            }
            _ => "Check the spelling and the current folder.".to_owned(),
        },
        io::ErrorKind::PermissionDenied => {
            format!("Check the permissions: ls -ld {}", shell_word(name))
        }
        io::ErrorKind::IsADirectory => "Name a file in it.".to_owned(),
        io::ErrorKind::NotADirectory => "It is a file: name a folder.".to_owned(),
        io::ErrorKind::AlreadyExists => "Choose another name, or remove the file first.".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Free some space and try again.".to_owned()
        }
        io::ErrorKind::FileTooLarge => LARGER_FILES.to_owned(),
        _ => return None,
    })
}
