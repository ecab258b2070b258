//! Moving a finished database to its name, and another one out of its way.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use talaria_disk::{
    NewFile, Readers, beside, folder_of, remove_if_there, rename_to_free, sync_file, sync_folder,
};

use crate::error::StoreError;
use crate::open_files::has_content;

/// Refuses a path that has no database, but the log or journal of one. SQLite would apply that file
/// to the next database at this path.
pub(crate) fn refuse_leftovers(path: &Path) -> Result<(), StoreError> {
    if path.exists() {
        return Ok(());
    }
    for suffix in ["-wal", "-journal"] {
        let log = beside(path, suffix);
        if has_content(&log) {
            return Err(StoreError::Orphan { path: path.to_owned(), log });
        }
    }
    Ok(())
}

/// Renames a database together with its log, which has changes that the file has not. No file at
/// the new names is replaced.
pub(crate) fn set_aside(path: &Path, aside: &Path) -> Result<(), StoreError> {
    let io = |source| StoreError::Io { action: "set aside", path: path.to_owned(), source };
    for suffix in ["", "-wal", "-journal", "-shm"] {
        let (from, to) = (beside(path, suffix), beside(aside, suffix));
        match rename_to_free(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Renames the finished database `new` to `target`, and syncs the file and its new name. If
/// `target` exists by then, it stays, and so does `new`. The removal of earlier files is synced
/// before: after a power cut, SQLite would apply a journal of the old database to the new one.
pub(crate) fn put_in_place(new: &Path, target: &Path) -> Result<(), StoreError> {
    refuse_leftovers(target)?;
    let io = |source| StoreError::Io { action: "move into place", path: target.to_owned(), source };
    let put = || {
        sync_file(new)?;
        sync_folder(folder_of(target))?;
        rename_to_free(new, target)?;
        sync_folder(folder_of(target))
    };
    put().map_err(io)
}

/// Writes a new database, which appears at `target` when it is complete and on disk. If `target`
/// exists by then, it stays. Nothing is left of an unfinished one. The removal of earlier files is
/// synced before, as in [`put_in_place`].
pub(crate) fn write_in_place(database: &[u8], target: &Path) -> Result<(), StoreError> {
    refuse_leftovers(target)?;
    let write = || {
        let mut file = NewFile::beginning(target)?;
        file.write_all(database)?;
        sync_folder(folder_of(target))?;
        file.keep(Readers::Usual)
    };
    write().map_err(|source| StoreError::Io { action: "make", path: target.to_owned(), source })
}

/// Removes a database and the files beside it, if they are there. An error comes with the file that
/// cannot be removed.
pub(crate) fn remove_database(path: &Path) -> Result<(), (PathBuf, io::Error)> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let file = beside(path, suffix);
        if let Err(error) = remove_if_there(&file) {
            return Err((file, error));
        }
    }
    Ok(())
}

/// The kind of network file system that a file is on. SQLite cannot keep a store whole there if
/// programs on several computers use it: they share no memory, and locks are not reliable.
pub(crate) fn network_file_system(path: &Path) -> Option<&'static str> {
    network_kind(rustix::fs::statfs(path).ok()?.f_type)
}

/// The network file system of a type, as statfs(2) lists them.
fn network_kind(file_system: i64) -> Option<&'static str> {
    // A type has 32 bits, of which some systems extend the sign.
    match file_system & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        0x0102_1997 => Some("9P"),
        0x7375_7245 => Some("Coda"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn put_in_place_replaces_no_existing_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("new"), "new").unwrap();
        fs::write(path("store"), "first").unwrap();
        assert!(matches!(
            put_in_place(&path("new"), &path("store")),
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists
        ));
        assert_eq!(fs::read(path("store")).unwrap(), b"first");
        assert_eq!(fs::read(path("new")).unwrap(), b"new");
        put_in_place(&path("new"), &path("other")).unwrap();
        assert!(!path("new").exists());
        fs::write(path("new"), "new").unwrap();
        fs::write(path("third-wal"), "frames").unwrap();
        let refused = put_in_place(&path("new"), &path("third"));
        assert!(matches!(refused, Err(StoreError::Orphan { .. })));
        assert!(path("new").exists() && !path("third").exists());
    }

    #[test]
    fn network_file_systems_are_recognised() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(-0x1ac_b2be), Some("SMB"));
        // ext4, and the file system of the temporary folder.
        assert_eq!(network_kind(0xef53), None);
        assert_eq!(network_file_system(&std::env::temp_dir()), None);
    }
}
