//! The database file of a store: identifying it without disturbing its users, and moving a finished file to its
//! name.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, RenameFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use crate::error::StoreError;
use crate::new_file::NewFile;
use crate::schema;
use crate::witness::{self, FileStep};

/// The first octets of every SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Length of a database header, and the offset of the application ID in it (sqlite.org/fileformat.html, section
/// 1.3).
const HEADER_BYTES: usize = 100;
const APPLICATION_AT: usize = 68;

/// Open files of stores, by device and inode.
///
/// When a process closes any descriptor of a file, the system drops all locks that the process has on that file.
/// Another process could then remove the log of a store that is in use here. Descriptors of stores are
/// therefore never closed. Those of other files are, so that a folder of any number of files can be read.
static KEPT: LazyLock<Mutex<HashMap<Inode, Vec<File>>>> = LazyLock::new(Mutex::default);

/// Device and number of a file.
type Inode = (u64, u64);

/// The files of a store that is open: nothing else knows where its log is. They are noted once, to notice when their names lead
/// to other files: a change would go to a file without a name, and be gone with the process.
#[derive(Clone, Debug)]
pub struct OpenFiles {
    path: PathBuf,
    database: Inode,
    /// The name of the database without symbolic links, which SQLite follows: its log, index and journal are beside this one.
    target: PathBuf,
    log_path: PathBuf,
    /// The write-ahead log, which is there as long as a connection has it open.
    log: Cell<Option<Inode>>,
}

impl OpenFiles {
    /// Notes which file has the name `path`: before and after SQLite opens it, with the same result.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        // The program may change its folder, as SQLite knows.
        let path = std::path::absolute(path)?;
        let target = fs::canonicalize(&path)?;
        let log_path = beside(&target, "-wal");
        Ok(Self { database: inode(&path)?, path, target, log_path, log: Cell::new(None) })
    }

    /// Whether both values are about the same database.
    pub(crate) fn is_same_database(&self, other: &Self) -> bool {
        self.database == other.database
    }

    /// The database, without symbolic links.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The write-ahead log of the database.
    pub(crate) fn log_path(&self) -> &Path {
        &self.log_path
    }

    /// Whether the database has a log that is not empty.
    pub(crate) fn has_log(&self) -> bool {
        has_content(&self.log_path)
    }

    /// The journal that a killed process may have left.
    pub(crate) fn journal_path(&self) -> PathBuf {
        beside(&self.target, "-journal")
    }

    /// Whether the database has the journal of a killed process.
    pub(crate) fn has_journal(&self) -> bool {
        has_content(&self.journal_path())
    }

    /// Whether this process may make files beside the database.
    pub(crate) fn may_make_files(&self) -> bool {
        rustix::fs::access(folder_of(&self.target), rustix::fs::Access::WRITE_OK).is_ok()
    }

    /// The log is about to be deleted and made again by this connection.
    pub(crate) fn renew_log(&self) {
        self.log.set(None);
    }

    /// Checks that the names still lead to the same files. The first log that is seen is the one that is open, so the first call
    /// comes soon after opening. A store that is open keeps its log, so the check needs no lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::Moved`].
    pub fn check(&self) -> Result<(), StoreError> {
        let log = inode(&self.log_path).ok();
        if self.log.get().is_none() {
            self.log.set(log);
        }
        if self.log.get() == log && inode(&self.path).is_ok_and(|now| now == self.database) {
            return Ok(());
        }
        Err(StoreError::Moved { path: self.path.clone() })
    }

    /// How the database has a second name at the moment, if it has one.
    #[must_use]
    pub fn second_name(&self) -> Option<SecondName> {
        let found =
            rustix::fs::statx(CWD, &self.target, AtFlags::empty(), StatxFlags::NLINK).ok()?;
        if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            Some(SecondName::Mount)
        } else if found.stx_nlink > 1 {
            Some(SecondName::HardLink { names: found.stx_nlink })
        } else {
            None
        }
    }
}

/// How a database has a second name. SQLite names the log after the database, so each name has a log of its own, and connections
/// under different names do not know of each other. A symbolic link is no second name, and neither is another mount of the folder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SecondName {
    /// The file has several hard links.
    HardLink {
        /// The number of its names.
        names: u32,
    },
    /// The file itself is a mount point, as of containers that get the file and not its folder.
    Mount,
}

impl fmt::Display for SecondName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HardLink { names } => write!(f, "has {names} names (hard links)"),
            Self::Mount => f.write_str("is mounted as a single file"),
        }
    }
}

fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.len() > 0)
}

/// The folder of a file.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn inode(path: &Path) -> io::Result<Inode> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

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
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
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
        Ok(()) if head[APPLICATION_AT..][..4] == schema::APPLICATION.to_be_bytes()[4..] => {
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

/// The name of a file beside a database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Refuses a path that has no database, but the log or journal of one. SQLite would apply that file to the next
/// database at this path.
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

/// Renames a database together with its log, which has changes that the file has not. No file at the new names is replaced.
pub(crate) fn set_aside(path: &Path, aside: &Path) -> Result<(), StoreError> {
    let io = |source| StoreError::Io { action: "set aside", path: path.to_owned(), source };
    for suffix in ["", "-wal", "-journal", "-shm"] {
        let (from, to) = (beside(path, suffix), beside(aside, suffix));
        let rename = FileStep::Rename { from: &from, to: &to };
        match witness::take(rename, || rename_to_free(&from, &to)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Renames the finished database `new` to `target`, and syncs the file and its new name. If `target` exists by
/// then, it stays, and so does `new`. The removal of earlier files is synced before: after a power cut, SQLite would apply
/// a journal of the old database to the new one.
pub(crate) fn put_in_place(new: &Path, target: &Path) -> Result<(), StoreError> {
    refuse_leftovers(target)?;
    let io = |source| StoreError::Io { action: "move into place", path: target.to_owned(), source };
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    let folder = folder_of(target);
    let sync_folder = || witness::take(FileStep::SyncFolder(folder), || sync(folder)).map_err(io);
    witness::take(FileStep::Sync(new), || sync(new)).map_err(io)?;
    sync_folder()?;
    witness::take(FileStep::Rename { from: new, to: target }, || rename_to_free(new, target))
        .map_err(io)?;
    sync_folder()
}

/// Writes a new database, which appears at `target` when it is complete and on disk. If `target` exists by then, it stays. Nothing is
/// left of an unfinished one. The removal of earlier files is synced before, as in [`put_in_place`].
pub(crate) fn write_in_place(database: &[u8], target: &Path) -> Result<(), StoreError> {
    refuse_leftovers(target)?;
    let write = || {
        let mut file = NewFile::beginning(target)?;
        file.write_all(database)?;
        let folder = folder_of(target);
        witness::take(FileStep::SyncFolder(folder), || File::open(folder)?.sync_all())?;
        file.keep(false)
    };
    write().map_err(|source| StoreError::Io { action: "make", path: target.to_owned(), source })
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

/// Removes a database and the files beside it, if they are there. An error comes with the file that cannot be removed.
pub(crate) fn remove_database(path: &Path) -> Result<(), (PathBuf, io::Error)> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let file = beside(path, suffix);
        match witness::take(FileStep::Remove(&file), || fs::remove_file(&file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err((file, error)),
            _ => {}
        }
    }
    Ok(())
}

/// The kind of network file system that a file is on. SQLite cannot keep a store whole there if programs on several
/// computers use it: they share no memory, and locks are not reliable.
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

    #[test]
    fn network_file_systems_are_recognised() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(-0x1ac_b2be), Some("SMB"));
        // ext4, and the file system of the temporary folder.
        assert_eq!(network_kind(0xef53), None);
        assert_eq!(network_file_system(&std::env::temp_dir()), None);
    }
}
