//! Outputs of commands: a file that appears when it is complete, or a stream.
//!
//! Every file that a command writes for the user goes through [`Target`]. An existing file is only
//! replaced if the user says so; a pipe or a device is written to and never replaced by a file.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use talaria_disk::{NewFile, Readers};

use crate::context::Content;
use crate::descriptor;
use crate::error::{CliError, failed};
use crate::pipe::widen;

/// The output that the user chose.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct OutputArgs {
    /// Write to FILE instead of standard output; the file appears when it is complete
    #[arg(id = "output", long = "output", short, value_name = "FILE")]
    pub(crate) path: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    pub(crate) overwrite: bool,
}

impl OutputArgs {
    /// The file of the output; `None` is standard output.
    fn file(&self) -> Option<&Path> {
        self.path.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// The destination of the content.
    pub(crate) fn content(&self) -> Content {
        if self.file().is_some() { Content::Elsewhere } else { Content::OnStdout }
    }

    fn existing(&self) -> Existing {
        Existing::with_overwrite(self.overwrite)
    }

    /// Refuses an output that is also the input, and an existing file that must not be replaced.
    /// Commands ask before they start to work, so that no work and no passphrase is in vain.
    ///
    /// # Errors
    ///
    /// [`CliError::SameFile`] and [`CliError::Exists`].
    pub(crate) fn check(&self, input: Option<&Path>) -> Result<(), CliError> {
        let Some(path) = self.file() else { return Ok(()) };
        if let Some(input) = input {
            check_distinct(input, path)?;
        }
        self.existing().check(path)
    }

    /// Opens the output. Binary data to a terminal is refused.
    ///
    /// # Errors
    ///
    /// [`CliError::Exists`], and if the file cannot be made.
    pub(crate) fn open(&self, binary: bool) -> Result<Target, CliError> {
        match self.file() {
            Some(path) => Target::file(path, self.existing()),
            None => Target::stdout(binary),
        }
    }
}

/// Refuses an output that is also the input, because writing would overwrite the input.
pub(crate) fn check_distinct(input: &Path, output: &Path) -> Result<(), CliError> {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(one), Ok(other)) = (std::fs::metadata(input), std::fs::metadata(output)) else {
        return Ok(());
    };
    if one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        return Err(CliError::SameFile { path: output.to_owned() });
    }
    Ok(())
}

/// The fate of a file that exists where an output goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Existing {
    /// The command fails.
    Refused,
    /// The output replaces the file, when the output is complete.
    Replaced,
}

impl Existing {
    /// The fate for this value of the option `--overwrite`.
    pub(crate) fn with_overwrite(overwrite: bool) -> Self {
        if overwrite { Self::Replaced } else { Self::Refused }
    }

    /// The fate of the file `path` for a text that talaria generates: an earlier version of the
    /// text, which `is_ours` recognises, is replaced; another file only with `--overwrite`.
    pub(crate) fn of_generated(
        path: &Path,
        overwrite: bool,
        is_ours: impl Fn(&str) -> bool,
    ) -> Self {
        let is_ours = || std::fs::read_to_string(path).is_ok_and(|text| is_ours(&text));
        Self::with_overwrite(overwrite || is_ours())
    }

    /// Refuses `path` if it is a file that must not be replaced.
    ///
    /// # Errors
    ///
    /// [`CliError::Exists`].
    pub(crate) fn check(self, path: &Path) -> Result<(), CliError> {
        // A symbolic link without a target has a name, too.
        let is_there = self == Self::Refused && path.symlink_metadata().is_ok();
        let is_stream = is_stream(path);
        if is_there && !is_stream && !path.is_dir() {
            return Err(CliError::Exists { path: path.to_owned() });
        }
        Ok(())
    }
}

/// Whether the path names an open descriptor, a pipe or a device, which must not be replaced by a
/// file.
fn is_stream(path: &Path) -> bool {
    descriptor::named(path).is_some()
        || path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// The system's text for a file error, without the file name that the error itself may contain.
fn plain(error: &io::Error) -> io::Error {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Errno::NOENT,
        io::ErrorKind::PermissionDenied => Errno::ACCESS,
        io::ErrorKind::NotADirectory => Errno::NOTDIR,
        io::ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
        io::ErrorKind::StorageFull => Errno::NOSPC,
        io::ErrorKind::FileTooLarge => Errno::FBIG,
        kind => return kind.into(),
    };
    code.into()
}

/// An unfinished output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished {
    /// The temporary name of the output, if it has one.
    pub(crate) path: Option<PathBuf>,
    /// The output goes to a terminal, where progress would disturb its lines.
    pub(crate) to_terminal: bool,
}

/// An output: a file that appears when it is complete, or a stream: standard output, a pipe, a
/// device.
pub(crate) enum Target {
    Stream(File),
    File {
        file: NewFile,
        /// The name that the user chose.
        path: PathBuf,
    },
}

impl Target {
    /// Standard output. Binary data to a terminal is refused.
    fn stdout(binary: bool) -> Result<Self, CliError> {
        let stdout = io::stdout();
        if binary && stdout.is_terminal() {
            return Err(CliError::Usage(
                "not writing binary data to a terminal; use --armor, --output FILE or a pipe"
                    .into(),
            ));
        }
        let file = File::from(stdout.as_fd().try_clone_to_owned()?);
        widen(&file);
        Ok(Self::Stream(file))
    }

    /// The output with this path.
    ///
    /// # Errors
    ///
    /// [`CliError::Exists`], and if the file cannot be made.
    pub(crate) fn file(path: &Path, existing: Existing) -> Result<Self, CliError> {
        let named = |error: io::Error| failed("write", &path.display().to_string(), error);
        if let Some(file) = descriptor::named(path) {
            return Ok(Self::Stream(file.map_err(named)?));
        }
        if is_stream(path) {
            return Ok(Self::Stream(File::options().write(true).open(path).map_err(named)?));
        }
        existing.check(path)?;
        let file = match existing {
            Existing::Refused if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Existing::Refused => NewFile::beginning(path),
            Existing::Replaced => NewFile::replacing(path),
        };
        // The original error names the temporary file, which would confuse the user.
        let file = file.map_err(|error| named(plain(&error)))?;
        Ok(Self::File { file, path: path.to_owned() })
    }

    /// The unfinished state of the output, for its removal.
    pub(crate) fn unfinished(&self) -> Unfinished {
        match self {
            Self::Stream(file) => Unfinished { path: None, to_terminal: file.is_terminal() },
            Self::File { file, .. } => {
                Unfinished { path: file.temporary().map(Path::to_owned), to_terminal: false }
            }
        }
    }

    /// Whether the output disappears unless [`Self::keep`] is called.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Finishes the output: a file gets its final name and is on disk. A private file is readable
    /// only by the user. A file that replaces another one has at most the permissions of that one.
    ///
    /// # Errors
    ///
    /// [`CliError::Exists`] if there is a file by now that must not be replaced; errors of writing.
    pub(crate) fn keep(self, private: bool) -> Result<(), CliError> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::File { file, path } => file
                .keep(if private { Readers::Owner } else { Readers::Usual })
                .map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => CliError::Exists { path },
                    _ => failed("write", &path.display().to_string(), error),
                }),
        }
    }
}

impl Write for Target {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(file) => file.write(data),
            Self::File { file, .. } => file.write(data),
        }
    }

    fn write_vectored(&mut self, data: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Stream(file) => file.write_vectored(data),
            Self::File { file, .. } => file.write_vectored(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(path: &Path, existing: Existing) -> Result<(), CliError> {
        let mut target = Target::file(path, existing)?;
        target.write_all(b"new")?;
        target.keep(false)
    }

    #[test]
    fn a_file_is_replaced_only_if_the_user_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let (path, symlink) = (folder.path().join("out"), folder.path().join("link"));
        std::os::unix::fs::symlink(&path, &symlink).unwrap();
        // A link without a target is a name, too.
        assert!(matches!(
            write(&symlink, Existing::Refused),
            Err(CliError::Exists { path }) if path == symlink
        ));
        let target = Target::file(&path, Existing::Refused).unwrap();
        fs::write(&path, "old").unwrap();
        assert!(matches!(target.keep(false), Err(CliError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert!(write(&symlink, Existing::Refused).is_err());
        write(&symlink, Existing::Replaced).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(Target::file(folder.path(), Existing::Refused).is_err());
        assert!(Target::file(folder.path(), Existing::Replaced).is_err());
    }

    #[test]
    fn devices_and_descriptors_are_never_replaced() {
        for path in ["/dev/null", "/dev/stdout", "/dev/fd/1"] {
            for existing in [Existing::Refused, Existing::Replaced] {
                existing.check(Path::new(path)).unwrap();
                let target = Target::file(Path::new(path), existing).unwrap();
                assert!(!target.is_held(), "{path}");
            }
        }
    }
}
