//! The kind of a file, by its header. Looking at a store disturbs nobody who uses it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::format;

/// The first bytes of every SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Length of a database header, and the offset of the application ID in it
/// (sqlite.org/fileformat.html, section 1.3).
const HEADER_BYTES: usize = 100;
const APPLICATION_AT: usize = 68;

/// Device and number of a file.
type Inode = (u64, u64);

/// Open files of stores, by device and inode.
///
/// When a process closes any descriptor of a file, the system drops all locks that the process has
/// on that file. Another process could then remove the log of a store that is in use here.
/// Descriptors of stores are therefore never closed. Those of other files are, so that a folder of
/// any number of files can be read.
static KEPT: LazyLock<Mutex<HashMap<Inode, Vec<File>>>> = LazyLock::new(Mutex::default);

/// The kind of a file, judged by its header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    /// The file is empty.
    Empty,
    /// A store, of any format.
    Store,
    /// An SQLite database that is not a store.
    Database,
    /// Another file, or not a regular file.
    Other,
}

/// The kind of the file at `path`. The locks of this process on the file stay in force.
///
/// # Errors
///
/// If the file cannot be read.
pub fn file_kind(path: &Path) -> io::Result<FileKind> {
    let name = |meta: &fs::Metadata| -> Inode { (meta.dev(), meta.ino()) };
    let meta = fs::metadata(path)?;
    if !meta.is_file() {
        return Ok(FileKind::Other);
    }
    let mut kept = KEPT.lock();
    if let Some(file) = kept.get(&name(&meta)).and_then(|files| files.first()) {
        return kind_of(file);
    }
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let kind = kind_of(&file);
    // Meanwhile the name may have passed to another file that already has an open descriptor.
    let files = kept.entry(name(&meta)).or_default();
    let may_be_store = matches!(kind, Ok(FileKind::Store) | Err(_));
    if may_be_store || !files.is_empty() {
        files.push(file);
    } else {
        kept.remove(&name(&meta));
    }
    kind
}

fn kind_of(file: &File) -> io::Result<FileKind> {
    let mut head = [0; HEADER_BYTES];
    match file.read_exact_at(&mut head, 0) {
        Ok(()) if !head.starts_with(MAGIC) => Ok(FileKind::Other),
        Ok(()) if head[APPLICATION_AT..][..4] == format::APPLICATION.to_be_bytes()[4..] => {
            Ok(FileKind::Store)
        }
        Ok(()) => Ok(FileKind::Database),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let is_empty = file.metadata()?.len() == 0;
            Ok(if is_empty { FileKind::Empty } else { FileKind::Other })
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_decides_the_kind_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("empty"), "").unwrap();
        fs::write(path("short"), "SQLite").unwrap();
        fs::write(path("text"), "SQLite format 2 and more").unwrap();
        let database = [MAGIC, &[0; 84]].concat();
        fs::write(path("database"), &database).unwrap();
        fs::write(path("store"), [&database[..68], b"TALA", &database[72..]].concat()).unwrap();
        for (name, kind) in [
            ("empty", FileKind::Empty),
            ("short", FileKind::Other),
            ("text", FileKind::Other),
            ("database", FileKind::Database),
            ("store", FileKind::Store),
            (".", FileKind::Other),
        ] {
            for _ in 0..2 {
                assert_eq!(file_kind(&path(name)).unwrap(), kind, "{name}");
            }
        }
        assert!(file_kind(&path("missing")).is_err());
        // The kind of a formerly empty file is read again.
        fs::write(path("empty"), database).unwrap();
        assert_eq!(file_kind(&path("empty")).unwrap(), FileKind::Database);
    }

    #[test]
    fn descriptors_of_other_files_are_closed() {
        const FILES: usize = 1500;
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        let folder = tempfile::tempdir().unwrap();
        let before = open();
        for number in 0..FILES {
            let path = folder.path().join(number.to_string());
            let content = [MAGIC, &[0; 84]].concat();
            fs::write(&path, if number % 2 == 0 { &content[..] } else { b"" }).unwrap();
            file_kind(&path).unwrap();
        }
        // Other tests of this process open files at the same time.
        assert!(open() < before + FILES / 4);
    }
}
