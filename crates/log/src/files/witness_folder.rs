//! A witness in a folder: its key, and for each log the tree that it cosigned last
//! (`docs/formats/log.md`, Folder of a witness).

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use talaria_cert::{ErrorKind, sha256};
use talaria_disk::{
    NewFile, Readers, beside, create_folder, folder_of, remove, replace, try_sync_folder,
};

use super::file::open_lock;
use crate::bytes::Malformed;
use crate::genesis::WITNESSES_MAX;
use crate::name::EntryId;
use crate::note::{NoteKey, NoteKind, NoteLine, NoteSecret, TreeHead, hash, number};
use crate::witness::{Objection, WitnessRequest, Witnessed};

/// Longest file of a key, in bytes.
const KEY_BYTES_MAX: u64 = 1024;

/// The reason why a witness could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessError {
    /// An operation on a file failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is something where a witness or a key is to be made.
    #[error("{} exists already", path.display())]
    Occupied {
        /// The file or folder.
        path: PathBuf,
    },
    /// The name cannot name a key.
    #[error("{0:?} cannot name a witness: a name has 1 to 255 bytes, no spaces and no +")]
    Name(String),
    /// A file is not what the program wrote.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A file with a key has none.
    #[error("{} has no key for checkpoints", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A file has a key that is not of a witness.
    #[error("{} is not the key of a witness: talaria log witness init makes one", path.display())]
    NotAWitness {
        /// The file.
        path: PathBuf,
    },
    /// A log is to have more than [`WITNESSES_MAX`] witnesses.
    #[error("a log has at most {WITNESSES_MAX} witnesses")]
    Many,
    /// The number of witnesses who must cosign is no majority of the witnesses.
    #[error(
        "{wanted} cosigners are not possible: their number is a majority of the witnesses, from {majority} to {count}"
    )]
    Cosigners {
        /// The number that was wanted.
        wanted: u8,
        /// The smallest number.
        majority: u8,
        /// The number of witnesses.
        count: usize,
    },
    /// The witness does not know the log.
    #[error("this witness does not know the log {origin}")]
    Unknown {
        /// The origin in the request.
        origin: String,
    },
    /// The witness knows the log with another key.
    #[error("this witness knows the log {origin} with another key")]
    OtherKey {
        /// The origin.
        origin: String,
    },
    /// The request is none.
    #[error("{name} is no request to a witness: {source}")]
    Request {
        /// The name of the file.
        name: String,
        /// The reason.
        source: Malformed,
    },
    /// The witness does not cosign.
    #[error(transparent)]
    Objection(#[from] Objection),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

impl WitnessError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Objection(_) | Self::Unknown { .. } | Self::OtherKey { .. } => ErrorKind::Refused,
            Self::Occupied { .. } => ErrorKind::Exists,
            Self::Name(_) | Self::NotAWitness { .. } | Self::Many | Self::Cosigners { .. } => {
                ErrorKind::Usage
            }
            Self::NoKey { .. } => ErrorKind::UnfitKey,
            Self::Request { .. } => ErrorKind::Malformed,
            Self::Damaged { .. } => ErrorKind::Store,
            Self::Io { .. } | Self::Random => ErrorKind::Io,
        }
    }
}

/// A witness in a folder.
pub struct WitnessFolder {
    folder: PathBuf,
    key: NoteSecret,
    _lock: File,
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WitnessError + use<> {
    let path = path.to_owned();
    move |source| WitnessError::Io { action, path, source }
}

/// Makes a key for notes.
///
/// # Errors
///
/// [`WitnessError::Name`]; [`WitnessError::Random`].
pub(super) fn make_note_key(name: &str, kind: NoteKind) -> Result<NoteSecret, WitnessError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|_| WitnessError::Random)?;
    let key = NoteSecret::new(name, kind, &seed);
    seed.fill(0);
    key.ok_or_else(|| WitnessError::Name(name.to_owned()))
}

/// The file beside a secret key for notes that has its public part.
#[must_use]
pub fn public_path(path: &Path) -> PathBuf {
    beside(path, ".pub")
}

/// Writes a secret key for notes to a new file that only its owner can read, and the public key to
/// [`public_path`]. Both are on disk when this returns.
///
/// # Errors
///
/// [`WitnessError::Occupied`] if there is a file; [`WitnessError::Io`].
pub(super) fn write_note_key(path: &Path, key: &NoteSecret) -> Result<(), WitnessError> {
    write_new(path, Readers::Owner, &key.to_text())?;
    let public = write_new(&public_path(path), Readers::Usual, &key.public().to_string());
    if public.is_err() {
        // Nothing knows this key yet.
        let _ = remove(path);
    }
    public
}

fn write_new(path: &Path, readers: Readers, line: &str) -> Result<(), WitnessError> {
    let write = || {
        let mut file = NewFile::beginning(path)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.keep(readers)
    };
    match write() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(WitnessError::Occupied { path: path.to_owned() })
        }
        written => written.map_err(io("write", path)),
    }
}

/// Reads a secret key for notes.
///
/// # Errors
///
/// [`WitnessError::NoKey`]; [`WitnessError::Io`].
pub fn read_note_key(path: &Path) -> Result<NoteSecret, WitnessError> {
    read_key(path)
}

/// Reads a public key for notes.
///
/// # Errors
///
/// [`WitnessError::NoKey`]; [`WitnessError::Io`].
pub fn read_public_note_key(path: &Path) -> Result<NoteKey, WitnessError> {
    read_key(path)
}

fn read_key<T: std::str::FromStr>(path: &Path) -> Result<T, WitnessError> {
    let no_key = || WitnessError::NoKey { path: path.to_owned() };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io("read", path))?;
    file.take(KEY_BYTES_MAX).read_to_end(&mut bytes).map_err(io("read", path))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| no_key())?;
    text.trim_end().parse().map_err(|_| no_key())
}

impl WitnessFolder {
    /// Makes a witness with a new key in a folder that does not exist.
    ///
    /// # Errors
    ///
    /// [`WitnessError`].
    pub fn create(folder: &Path, name: &str) -> Result<Self, WitnessError> {
        let key = make_note_key(name, NoteKind::Timed)?;
        match create_folder(folder, 0o777) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(WitnessError::Occupied { path: folder.to_owned() });
            }
            made => made.map_err(io("make", folder))?,
        }
        let logs = folder.join("logs");
        create_folder(&logs, 0o777).map_err(io("make", &logs))?;
        let above = folder_of(folder);
        try_sync_folder(above).map_err(io("write", above))?;
        write_note_key(&folder.join("key"), &key)?;
        Self::open(folder)
    }

    /// Opens a witness, and waits until no other process has it open.
    ///
    /// # Errors
    ///
    /// [`WitnessError`].
    pub fn open(folder: &Path) -> Result<Self, WitnessError> {
        let path = folder.join("key");
        let key = read_note_key(&path)?;
        if key.public().kind != NoteKind::Timed {
            return Err(WitnessError::NoKey { path });
        }
        let path = folder.join("lock");
        let lock = open_lock(&path).map_err(io("open", &path))?;
        lock.lock().map_err(io("lock", &path))?;
        Ok(Self { folder: folder.to_owned(), key, _lock: lock })
    }

    /// The public key of the witness.
    #[must_use]
    pub fn public(&self) -> NoteKey {
        self.key.public()
    }

    fn path_of(&self, origin: &str) -> PathBuf {
        self.folder.join("logs").join(EntryId(sha256(&[origin.as_bytes()])).to_string())
    }

    /// Lets the witness cosign a log, by the key of its checkpointer. A log that it knows stays as
    /// it is.
    ///
    /// # Errors
    ///
    /// [`WitnessError::OtherKey`] if it knows the log with another key.
    pub fn trust(&self, log: &NoteKey) -> Result<(), WitnessError> {
        match self.known(&log.name)? {
            Some(known) if known.key == *log => Ok(()),
            Some(_) => Err(WitnessError::OtherKey { origin: log.name.clone() }),
            None => self.keep(&Witnessed { key: log.clone(), last: None }),
        }
    }

    /// The log with this origin, as the witness knows it.
    ///
    /// # Errors
    ///
    /// [`WitnessError::Damaged`]; [`WitnessError::Io`].
    pub fn known(&self, origin: &str) -> Result<Option<Witnessed>, WitnessError> {
        let path = self.path_of(origin);
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8(bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io("read", &path)(error)),
        };
        let read = || {
            let (key, rest) = text.split_once('\n')?;
            let key: NoteKey = key.parse().ok().filter(|key: &NoteKey| key.name == origin)?;
            let last = match rest.split_inclusive('\n').collect::<Vec<_>>()[..] {
                [] => None,
                [named, size, root] if named == format!("{origin}\n") => Some(TreeHead {
                    origin: origin.to_owned(),
                    size: number(size.strip_suffix('\n')?)?,
                    root: hash(root.strip_suffix('\n')?)?,
                }),
                _ => return None,
            };
            Some(Witnessed { key, last })
        };
        read().map(Some).ok_or(WitnessError::Damaged { path })
    }

    /// Brings the state of a log to disk.
    fn keep(&self, log: &Witnessed) -> Result<(), WitnessError> {
        let path = self.path_of(&log.key.name);
        let mut text = format!("{}\n", log.key);
        if let Some(last) = &log.last {
            text.push_str(&last.to_string());
        }
        replace(&path, text.as_bytes(), Readers::Usual).map_err(io("write", &path))
    }

    /// Cosigns the checkpoint of a request, read from the file `name`, at `time` in seconds
    /// since 1970. The new state is on disk when this returns.
    ///
    /// # Errors
    ///
    /// [`WitnessError::Objection`] if the checkpoint does not follow the last one; the other errors
    /// of files.
    pub fn cosign(&self, request: &str, name: &str, time: u64) -> Result<NoteLine, WitnessError> {
        let request = WitnessRequest::read(request)
            .map_err(|source| WitnessError::Request { name: name.to_owned(), source })?;
        let origin = &request.note.head.origin;
        let known = self.known(origin)?;
        let mut log = known.ok_or_else(|| WitnessError::Unknown { origin: origin.clone() })?;
        let line = log.cosign(&request, &self.key, time)?;
        self.keep(&log)?;
        Ok(line)
    }
}
