//! Inputs and outputs of commands: files or the standard streams, with progress and interruption.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use talaria::message::Spool;
use talaria::{Error, Monitor, Progress};

use crate::descriptor;
use crate::error::CliError;
use crate::progress;

/// The buffer size in octets for reading lines and lengths. Larger reads, such as the bulk of a binary
/// message, bypass the buffer.
const BUFFER_BYTES: usize = 8 << 10;
/// The wanted capacity of a pipe in octets, if the system allows it.
const PIPE_BYTES: usize = 1 << 20;

/// The user types the input, so no progress is shown between the lines.
static TYPED: AtomicBool = AtomicBool::new(false);

/// An input: a file or standard input.
pub(crate) struct Source {
    file: File,
    /// The size of a regular file in octets.
    pub(crate) size: Option<u64>,
}

/// Refuses an output that is also the input, because writing would overwrite the input.
pub(crate) fn check_distinct(input: Option<&Path>, output: Option<&Path>) -> Result<(), CliError> {
    use std::os::unix::fs::MetadataExt as _;
    let (Some(input), Some(output)) = (input, output) else { return Ok(()) };
    let (Ok(one), Ok(other)) = (std::fs::metadata(input), std::fs::metadata(output)) else {
        return Ok(());
    };
    if one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        return Err(CliError::SameFile { path: output.to_owned() });
    }
    Ok(())
}

impl Source {
    /// Opens an input; `None` and `-` are standard input.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, CliError> {
        let (name, file) = match path {
            Some(path) if path != Path::new("-") => {
                let name = path.display().to_string();
                let file = descriptor::open(path).map_err(|error| failed("read", &name, error))?;
                (name, file)
            }
            _ => {
                let name = "standard input".to_owned();
                if io::stdin().is_terminal() {
                    TYPED.store(true, Ordering::Relaxed);
                    let _alone = progress::terminal();
                    crate::error::say(format_args!(
                        "Reading from the terminal. To end the input, press Ctrl-D."
                    ));
                }
                let owned = io::stdin().as_fd().try_clone_to_owned();
                (name.clone(), File::from(owned.map_err(|error| failed("read", &name, error))?))
            }
        };
        let metadata = file.metadata().map_err(|error| failed("read", &name, error))?;
        if metadata.is_dir() {
            return Err(failed("read", &name, io::ErrorKind::IsADirectory.into()));
        }
        let size = metadata.is_file().then_some(metadata.len());
        widen(&file);
        Ok(Self { file, size })
    }

    /// The input with a progress counter.
    pub(crate) fn watched(self, watch: &Watch) -> Watched {
        Watched { file: self.file, watch: watch.clone() }
    }

    /// The input with a progress counter and a buffer, to look at its start.
    pub(crate) fn buffered(self, watch: &Watch) -> impl BufRead + Send + use<> {
        BufReader::with_capacity(BUFFER_BYTES, self.watched(watch))
    }
}

/// The system's text for a file error, without the file name that the error itself may contain.
fn plain(error: &io::Error) -> io::Error {
    use rustix::io::Errno;
    let code = match error.kind() {
        io::ErrorKind::NotFound => Errno::NOENT,
        io::ErrorKind::PermissionDenied => Errno::ACCESS,
        io::ErrorKind::NotADirectory => Errno::NOTDIR,
        io::ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
        io::ErrorKind::StorageFull => Errno::NOSPC,
        kind => return kind.into(),
    };
    code.into()
}

fn failed(action: &'static str, name: &str, source: io::Error) -> CliError {
    CliError::Operation(Error::Io { action, name: name.to_owned(), source })
}

/// Enlarges a pipe: with a larger pipe the programs at its ends switch less often.
fn widen(file: &File) {
    let _ = rustix::pipe::fcntl_setpipe_size(file, PIPE_BYTES);
}

/// A file for content that must not be released yet. Nobody else can open it, and its data is encrypted.
pub(crate) fn spool() -> io::Result<Box<dyn Spool>> {
    Ok(Box::new(tempfile::tempfile()?))
}

/// The number of octets read, and the stop flag.
#[derive(Clone)]
pub(crate) struct Watch {
    read: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// An input with a progress counter, which fails when the work is to stop.
pub(crate) struct Watched {
    file: File,
    watch: Watch,
}

impl Read for Watched {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.watch.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other(Error::Interrupted));
        }
        let read = self.file.read(buf)?;
        self.watch.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The grace period of stopped work before the process ends.
const PATIENCE: Duration = Duration::from_millis(300);

/// Runs `work` on a thread and shows its progress. An interrupt ends the work even if it waits for a pipe or
/// for a passphrase. Then the unfinished `output` is removed.
pub(crate) fn watched<T: Send>(
    cx: &crate::context::Context,
    size: Option<u64>,
    output: &Unfinished,
    work: impl FnOnce(&Watch) -> Result<T, CliError> + Send,
) -> Result<T, CliError> {
    let watch = Watch { read: Arc::default(), stop: Arc::default() };
    let is_terminal = output.to_terminal || TYPED.load(Ordering::Relaxed);
    cx.asking(is_terminal, |monitor: &mut Monitor<'_>| {
        std::thread::scope(|scope| {
            let (done, ended) = mpsc::channel();
            let watch = &watch;
            scope.spawn(move || done.send(work(watch)));
            let mut stopped: Option<Instant> = None;
            loop {
                match ended.recv_timeout(Duration::from_millis(100)) {
                    Ok(result) => return result,
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    // The thread panicked; the scope passes the panic on.
                    Err(mpsc::RecvTimeoutError::Disconnected) => return Err(CliError::Stopped),
                }
                if monitor.stop.load(Ordering::Relaxed) {
                    watch.stop.store(true, Ordering::Relaxed);
                    if stopped.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                        end(output.path.as_deref(), cx.json);
                    }
                }
                (monitor.report)(Progress {
                    bytes: watch.read.load(Ordering::Relaxed),
                    bytes_total: size.unwrap_or(0),
                    ..Progress::default()
                });
            }
        })
    })
}

/// Removes an unfinished output and ends the process.
fn end(unfinished: Option<&Path>, json: bool) -> ! {
    if let Some(path) = unfinished {
        let _ = std::fs::remove_file(path);
    }
    progress::leave();
    let error = CliError::Stopped;
    error.report(json);
    // `std::process::exit` would run exit handlers while threads still work.
    signal_hook::low_level::exit(error.status().into())
}

/// An unfinished output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished {
    /// The temporary file of the output.
    path: Option<PathBuf>,
    /// The output goes to a terminal, where progress would disturb its lines.
    to_terminal: bool,
}

/// An output: a file that appears when it is complete, or a stream: standard output, a pipe, a device.
pub(crate) enum Target {
    Stream(File),
    File { temporary: tempfile::NamedTempFile, path: PathBuf },
}

impl Target {
    /// Opens an output; `None` and `-` are standard output. Binary data to a terminal is refused.
    pub(crate) fn open(path: Option<&Path>, binary: bool) -> Result<Self, CliError> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            let stdout = io::stdout();
            if binary && stdout.is_terminal() {
                return Err(CliError::Usage(
                    "not writing binary data to a terminal; use --armor, --output FILE or a pipe"
                        .into(),
                ));
            }
            let file = File::from(stdout.as_fd().try_clone_to_owned()?);
            widen(&file);
            return Ok(Self::Stream(file));
        };
        let named = |error| failed("write", &path.display().to_string(), error);
        if let Some(file) = descriptor::named(path) {
            return Ok(Self::Stream(file.map_err(named)?));
        }
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            // A device or a pipe must not be replaced by a file.
            return Ok(Self::Stream(File::options().write(true).open(path).map_err(named)?));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let temporary = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
            // The original error names the temporary file, which would confuse the user.
            .map_err(|error| named(plain(&error)))?;
        Ok(Self::File { temporary, path: path.to_owned() })
    }

    /// The unfinished state of the output, for its removal.
    pub(crate) fn unfinished(&self) -> Unfinished {
        match self {
            Self::Stream(file) => Unfinished { path: None, to_terminal: file.is_terminal() },
            Self::File { temporary, .. } => {
                Unfinished { path: Some(temporary.path().to_owned()), to_terminal: false }
            }
        }
    }

    /// Whether the output disappears unless [`Self::keep`] is called.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Finishes the output: a file gets its final name and is on disk.
    pub(crate) fn keep(self, private: bool) -> Result<(), CliError> {
        use std::os::unix::fs::PermissionsExt as _;
        let Self::File { temporary, path } = self else { return Ok(()) };
        let name = path.display().to_string();
        let named = |error| failed("write", &name, error);
        if !private {
            // Temporary files are private; this file gets the user's usual permissions.
            let mask = rustix::process::umask(rustix::fs::Mode::empty());
            rustix::process::umask(mask);
            let mode = 0o666 & !mask.bits();
            let permissions = std::fs::Permissions::from_mode(mode);
            temporary.as_file().set_permissions(permissions).map_err(named)?;
        }
        temporary.as_file().sync_all().map_err(named)?;
        temporary.persist(&path).map_err(|error| named(error.error))?;
        Ok(())
    }
}

impl Write for Target {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(file) => file.write(data),
            Self::File { temporary, .. } => temporary.as_file_mut().write(data),
        }
    }

    fn write_vectored(&mut self, data: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Stream(file) => file.write_vectored(data),
            Self::File { temporary, .. } => temporary.as_file_mut().write_vectored(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
