//! Inputs of commands: files or standard input, with progress and interruption.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use talaria::message::Spool;
use talaria::{Error, Monitor, Progress};
use talaria_disk::TemporaryFile;

use crate::error::{CliError, failed};
use crate::output::Unfinished;
use crate::pipe::widen;
use crate::{descriptor, progress};

/// The buffer size in bytes for reading lines and lengths. Larger reads, such as the bulk of a
/// binary message, bypass the buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// The user types the input, so no progress is shown between the lines.
static TYPED: AtomicBool = AtomicBool::new(false);

/// An input: a file or standard input.
pub(crate) struct Source {
    file: File,
    /// The size of a regular file in bytes.
    pub(crate) size: Option<u64>,
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
                TYPED.store(io::stdin().is_terminal(), Ordering::Relaxed);
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

    /// The same input for a second reading, if it is a regular file.
    pub(crate) fn again(&self) -> Option<Again> {
        self.size?;
        let mut file = self.file.try_clone().ok()?;
        let start = file.stream_position().ok()?;
        Some(Again { file: Arc::new(file), start })
    }

    /// The input without a progress counter. An interrupt ends the process.
    pub(crate) fn plain(self) -> File {
        self.file
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

/// A regular file that is read a second time.
pub(crate) struct Again {
    file: Arc<File>,
    start: u64,
}

impl Again {
    /// A reader from the place on at which the first one began.
    pub(crate) fn open(&self) -> Box<dyn Read + Send> {
        Box::new(ReadAt { file: Arc::clone(&self.file), at: self.start })
    }
}

/// A reader with a place of its own in a file.
struct ReadAt {
    file: Arc<File>,
    at: u64,
}

impl Read for ReadAt {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buf, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A file for content that must not be released yet. Nobody else can open it, and its data is
/// encrypted.
pub(crate) fn spool() -> io::Result<Box<dyn Spool>> {
    Ok(Box::new(TemporaryFile::new()?))
}

/// The number of bytes read, and the stop flag.
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

/// Runs `work` on a thread and shows its progress. An interrupt ends the work even if it waits for
/// a pipe or for a passphrase. Then the unfinished `output` is removed.
pub(crate) fn watched<T: Send>(
    cx: &crate::context::Context,
    size: Option<u64>,
    output: &Unfinished,
    work: impl FnOnce(&Watch) -> Result<T, CliError> + Send,
) -> Result<T, CliError> {
    let watch = Watch { read: Arc::default(), stop: Arc::default() };
    if TYPED.load(Ordering::Relaxed) {
        let _alone = progress::terminal();
        crate::stderr::say(format_args!(
            "Reading from the terminal. To end the input, press Ctrl-D."
        ));
    }
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
    signal_hook::low_level::exit(error.outcome().status.into())
}
