//! Outputs of commands: a file that appears when it is complete, or a stream.
//!
//! Every file that a command writes for the user goes through [`Target`]. An existing file is only replaced if the user
//! says so; a pipe or a device is written to and never replaced by a file.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempPath;

use crate::context::Content;
use crate::descriptor;
use crate::error::CliError;
use crate::files::{failed, widen};

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

    /// Refuses an output that is also the input, and an existing file that must not be replaced. Commands ask before
    /// they start to work, so that no work and no passphrase is in vain.
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

    /// The fate of the file `path` for a text that talaria generates: an earlier version of the text, which `is_ours`
    /// recognises, is replaced; another file only with `--overwrite`.
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

/// Whether the path names an open descriptor, a pipe or a device, which must not be replaced by a file.
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

/// An output: a file that appears when it is complete, or a stream: standard output, a pipe, a device.
pub(crate) enum Target {
    Stream(File),
    File(NewFile),
}

/// A file that is being written. It has no name until it is complete, so that nothing is left of it if the process is
/// killed; where the file system cannot do this, it has a temporary name.
pub(crate) struct NewFile {
    file: File,
    temporary: Option<TempPath>,
    /// The name of the finished file.
    path: PathBuf,
    /// The file that it replaces.
    replaced: Option<Replaced>,
}

/// A file that an output replaces.
struct Replaced {
    /// Its path without symbolic links, which stay.
    path: PathBuf,
    /// Its permission bits.
    mode: u32,
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
        let replaced = match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                return Err(named(io::ErrorKind::IsADirectory.into()));
            }
            Ok(metadata) => Some(Replaced {
                path: path.canonicalize().map_err(named)?,
                mode: metadata.permissions().mode(),
            }),
            Err(_) => None,
        };
        let folder = folder(replaced.as_ref().map_or(path, |replaced| &replaced.path));
        // The original error names the temporary file, which would confuse the user.
        let (file, temporary) = unnamed(folder).map_err(|error| named(plain(&error)))?;
        Ok(Self::File(NewFile { file, temporary, path: path.to_owned(), replaced }))
    }

    /// The unfinished state of the output, for its removal.
    pub(crate) fn unfinished(&self) -> Unfinished {
        match self {
            Self::Stream(file) => Unfinished { path: None, to_terminal: file.is_terminal() },
            Self::File(new) => {
                let path = new.temporary.as_ref().map(|path| path.to_path_buf());
                Unfinished { path, to_terminal: false }
            }
        }
    }

    /// Whether the output disappears unless [`Self::keep`] is called.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Finishes the output: a file gets its final name and is on disk. A private file is readable only by the user.
    /// A file that replaces another one has at most the permissions of that one.
    ///
    /// # Errors
    ///
    /// [`CliError::Exists`] if there is a file by now that must not be replaced; errors of writing.
    pub(crate) fn keep(self, private: bool) -> Result<(), CliError> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::File(new) => new.keep(private),
        }
    }
}

impl NewFile {
    fn keep(mut self, private: bool) -> Result<(), CliError> {
        let path = self.path.clone();
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => CliError::Exists { path: path.clone() },
            _ => failed("write", &path.display().to_string(), error),
        };
        let usual = match &self.replaced {
            Some(replaced) => replaced.mode & 0o777,
            None => 0o666 & !mask(),
        };
        let mode = if private { usual & 0o600 } else { usual };
        let permissions = std::fs::Permissions::from_mode(mode);
        self.file.set_permissions(permissions).map_err(failed)?;
        self.file.sync_all().map_err(failed)?;
        let target = self.replaced.take().map(|replaced| replaced.path);
        self.name(target.as_deref()).map_err(failed)?;
        let folder = folder(target.as_deref().unwrap_or(&path));
        // A folder that may not be read cannot be synced; the file is complete anyway.
        File::open(folder).map_or(Ok(()), |folder| folder.sync_all()).map_err(failed)
    }

    /// Gives the file its name; with `target`, it replaces that file.
    fn name(self, target: Option<&Path>) -> io::Result<()> {
        match (self.temporary, target) {
            (Some(temporary), Some(target)) => {
                temporary.persist(target).map_err(|error| error.error)
            }
            (Some(temporary), None) => {
                temporary.persist_noclobber(&self.path).map_err(|error| error.error)
            }
            (None, None) => link(&self.file, &self.path),
            // A link cannot replace a file; a renaming can.
            (None, Some(target)) => tempfile::Builder::new()
                .make_in(folder(target), |name| link(&self.file, name))?
                .into_temp_path()
                .persist(target)
                .map_err(|error| error.error),
        }
    }
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The permission bits that the user takes from new files.
fn mask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.bits()
}

/// A new file in `folder` that only the user can read: without a name, or with a temporary name where the file system
/// has no files without names.
fn unnamed(folder: &Path) -> io::Result<(File, Option<TempPath>)> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        let file = File::from(file);
        if descriptor_path(&file).exists() {
            return Ok((file, None));
        }
    }
    let (file, path) = tempfile::NamedTempFile::new_in(folder)?.into_parts();
    Ok((file, Some(path)))
}

/// The path by which the system knows an open file (proc(5)).
fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Gives a file without a name this name; fails if there is a file of this name.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = descriptor_path(file);
    Ok(rustix::fs::linkat(CWD, &from, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

impl Write for Target {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.as_file().write(data)
    }

    fn write_vectored(&mut self, data: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.as_file().write_vectored(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Target {
    fn as_file(&mut self) -> &mut File {
        match self {
            Self::Stream(file) => file,
            Self::File(new) => &mut new.file,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(path: &Path, existing: Existing, private: bool) -> Result<(), CliError> {
        let mut target = Target::file(path, existing)?;
        target.write_all(b"new")?;
        target.keep(private)
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn an_unfinished_file_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let count = || fs::read_dir(folder.path()).unwrap().count();
        let path = folder.path().join("out");
        let mut target = Target::file(&path, Existing::Refused).unwrap();
        target.write_all(b"secret").unwrap();
        let named = target.unfinished().path.is_some();
        assert_eq!(count(), usize::from(named));
        drop(target);
        assert_eq!(count(), 0);
        // The other way, for file systems without such files.
        let (file, temporary) =
            tempfile::NamedTempFile::new_in(folder.path()).unwrap().into_parts();
        let new = NewFile { file, temporary: Some(temporary), path: path.clone(), replaced: None };
        new.keep(true).unwrap();
        assert_eq!((count(), mode(&path)), (1, 0o600));
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let target = Target::file(&path, Existing::Refused).unwrap();
        fs::write(&path, "old").unwrap();
        assert!(matches!(target.keep(false), Err(CliError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_replaced_file_keeps_its_link_and_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (path, symlink) = (folder.path().join("out"), folder.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &symlink).unwrap();
        assert!(matches!(
            write(&symlink, Existing::Refused, false),
            Err(CliError::Exists { path }) if path == symlink
        ));
        write(&symlink, Existing::Replaced, false).unwrap();
        assert!(symlink.symlink_metadata().unwrap().is_symlink());
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"new".to_vec(), 0o640));
        write(&path, Existing::Replaced, true).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        // A link without a target is a name, too.
        fs::remove_file(&path).unwrap();
        assert!(write(&symlink, Existing::Refused, false).is_err());
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
