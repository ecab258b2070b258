//! Names of files: the folder of a file, a name beside it, and a name that is free.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// The folder of a file.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The name of a file beside a database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Renames a file. Fails if there is a file of the new name.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return Ok(renamed?),
    }
    // The file system has no such renaming.
    rustix::fs::link(from, to).map_err(of_linking)?;
    fs::remove_file(from).inspect_err(|_| drop(fs::remove_file(to)))
}

/// The error of making a hard link where nothing else gives a file its name.
fn of_linking(error: Errno) -> io::Error {
    match error {
        Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP => {
            let what = "its file system can neither make hard links nor rename a file without replacing another one";
            io::Error::new(io::ErrorKind::Unsupported, what)
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_links_is_not_called_read_only() {
        for error in [Errno::PERM, Errno::NOSYS, Errno::OPNOTSUPP] {
            let error = of_linking(error);
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert!(error.to_string().contains("can neither make hard links nor"), "{error}");
        }
        for error in [Errno::ACCESS, Errno::ROFS, Errno::EXIST] {
            assert_eq!(of_linking(error).raw_os_error(), Some(error.raw_os_error()));
        }
    }
}
