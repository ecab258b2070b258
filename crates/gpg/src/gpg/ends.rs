//! The two ends of a task: what it reads, and where it writes. Both are decided before the real gpg
//! can no longer do it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use talaria_disk::{NewFile, Readers};
use talaria_message::MessageError;

use crate::code::Code;
use crate::descriptor;

/// What is read.
pub(crate) enum Input {
    /// The standard input, or another descriptor.
    Standard(File),
    /// A regular file, with its length in bytes.
    File(File, u64),
    /// A file that cannot be opened.
    Failed(Code),
}

/// Where the output goes.
pub(crate) enum Output {
    Open(File),
    New(NewFile),
    /// Instead of a file that is there.
    Replacing(NewFile),
}

impl Input {
    /// Finds what is read: the standard input, a descriptor, or a regular file. `None` for anything
    /// else.
    pub(crate) fn find(name: Option<&OsStr>, specials: bool) -> Option<Self> {
        match name {
            None => talaria_disk::duplicate(0).ok().map(Self::Standard),
            Some(name) if descriptor::is_pipe(name, specials) => {
                descriptor::open(name, specials).ok().map(Self::Standard)
            }
            Some(name) => input(Path::new(name)),
        }
    }

    /// The open file.
    ///
    /// # Errors
    ///
    /// [`Code`] if it cannot be opened.
    pub(crate) fn file(self) -> Result<File, Code> {
        match self {
            Self::Standard(file) | Self::File(file, _) => Ok(file),
            Self::Failed(code) => Err(code),
        }
    }
}

impl Output {
    /// Writes by `write`. A new file appears when it is whole.
    pub(crate) fn write(
        mut self,
        write: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), MessageError>,
    ) -> Result<(), MessageError> {
        write(self.writer())?;
        self.keep().map_err(MessageError::Write)
    }

    /// The open file.
    pub(crate) fn writer(&mut self) -> &mut (dyn Write + Send) {
        match self {
            Self::Open(file) => file,
            Self::New(file) | Self::Replacing(file) => file,
        }
    }

    /// Lets a new file appear.
    ///
    /// # Errors
    ///
    /// The errors of the system.
    pub(crate) fn keep(self) -> io::Result<()> {
        match self {
            Self::Open(_) => Ok(()),
            // As gpg's, it is not synced. Scripts write one file after the other.
            Self::New(file) => file.name_unsynced(Readers::Usual),
            Self::Replacing(file) => file.keep(Readers::Usual),
        }
    }
}

/// What is read; `None` for a file that is not regular.
fn input(path: &Path) -> Option<Input> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() => None,
        Ok(_) => Some(match File::open(path).and_then(|file| Ok((file.metadata()?.len(), file))) {
            Ok((bytes, file)) => Input::File(file, bytes),
            Err(error) => Input::Failed(Code::system(&error)),
        }),
        Err(error) => Some(Input::Failed(Code::system(&error))),
    }
}

/// Opens an output that is a descriptor, or a file that is new or may be replaced; `None` for
/// anything else, and if gpg would ask or write into what a link leads to.
pub(crate) fn output(name: &OsStr, specials: bool, replaces: bool) -> Option<Output> {
    if descriptor::is_pipe(name, specials) || name == "/dev/null" {
        return descriptor::create(name, specials).ok().map(Output::Open);
    }
    let path = Path::new(name);
    match path.symlink_metadata() {
        Ok(meta) => {
            let is_own = meta.is_file()
                && meta.nlink() == 1
                && meta.uid() == rustix::process::geteuid().as_raw()
                && meta.gid() == rustix::process::getegid().as_raw();
            if !replaces || !is_own {
                return None;
            }
            NewFile::replacing(path).ok().map(Output::Replacing)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            NewFile::beginning(path).ok().map(Output::New)
        }
        Err(_) => None,
    }
}
