//! The log of the process, on standard error. It never makes the server wait, and never fails it.
//!
//! Lines go to a queue in memory, and a thread writes them. If the reader of the log does not read,
//! the queue gets full, and further lines are lost. If the log cannot be written (its reader has
//! gone, its disk is full), lines are lost, too. Lost lines are counted, and once the log can be
//! written again, one line has their number.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::panic::PanicHookInfo;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use prometheus::IntCounter;
use talaria_cert::user_id::{visible_json, visible_text};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::Log;

/// Bytes of lines that wait to be written.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// Bytes that are written at once. A pipe takes so many whole, so that lines of other writers do
/// not come between.
const WRITE_BYTES: usize = 4096;

/// The time that waiting lines get at the end of the process.
const FLUSH: Duration = Duration::from_secs(1);

/// The pause before writing again to a descriptor that does not block and takes nothing at the
/// moment.
const PAUSE: Duration = Duration::from_millis(10);

/// Lines lost since the start of the process, which has one log.
pub(crate) static LOST: LazyLock<IntCounter> = LazyLock::new(|| {
    let (name, help) = ("log_lines_lost_total", "Log lines that could not be written.");
    IntCounter::new(name, help).expect("a good name")
});

/// The log of the process. Lines that wait are written when this value is dropped, for up to a
/// second.
#[derive(Debug)]
#[must_use = "at the end of the value, the last lines are written"]
pub struct LogGuard {
    queue: Arc<Queue>,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.queue.flush(FLUSH);
    }
}

/// Starts the log of the process, on standard error. A second call does nothing.
///
/// Panics go to the log, too, because the usual message would wait for the reader of standard
/// error.
pub fn start_log(log: &Log) -> LogGuard {
    let queue = Arc::new(Queue::default());
    let filter =
        EnvFilter::try_new(directives(&log.level)).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .log_internal_errors(false)
        .with_writer(Lines { queue: Arc::clone(&queue), harmless: harmless_text });
    // Not the handle of the standard library: a write that waits would keep its lock.
    let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let started = match log.format.as_str() {
        "json" => {
            let lines = Lines { queue: Arc::clone(&queue), harmless: visible_json };
            builder.json().flatten_event(true).with_writer(lines).try_init()
        }
        _ => builder.try_init(),
    };
    if let (Ok(()), Ok(stderr)) = (started, stderr) {
        let queue = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("talaria-log".into());
        if thread.spawn(move || queue.write_to(stderr, notice)).is_ok() {
            std::panic::set_hook(Box::new(log_panic));
        }
    }
    LogGuard { queue }
}

/// A level alone is that of talaria. Libraries say nothing then: clients decide how much they have
/// to say, such as a warning for each odd frame of HTTP/2.
fn directives(level: &str) -> String {
    let is_alone = !level.contains(['=', ',', '[']);
    if is_alone { format!("off,talaria={level}") } else { level.to_owned() }
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let literal = payload.downcast_ref::<&str>().copied();
    let message = literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = message.unwrap_or_default();
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or_default();
    tracing::error!(defect = message, place, thread, "a thread panicked");
}

/// The line of the log about lost lines, in its format.
fn notice(lost: u64) -> Vec<u8> {
    OWN.set(Some(Vec::new()));
    tracing::error!(lost, "log lines were lost: the log was full, or its reader too slow");
    OWN.take().unwrap_or_default()
}

thread_local! {
    /// The buffer in which the writing thread collects its own lines.
    static OWN: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Takes lines of the log, one with each write.
#[derive(Clone, Debug)]
struct Lines {
    queue: Arc<Queue>,
    /// Makes a line without any effect of others on a terminal.
    harmless: fn(&str) -> Cow<'_, str>,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let shown = [(self.harmless)(text).as_bytes(), b"\n"].concat();
        let is_own =
            OWN.with_borrow_mut(|own| own.as_mut().map(|own| own.extend(&shown)).is_some());
        if !is_own {
            self.queue.add(&shown);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line whose parts of others have no effect on a terminal and end no line. The formatter has
/// made escapes of their escape characters already, so those in the line are its own colours.
fn harmless_text(line: &str) -> Cow<'_, str> {
    if !line.contains('\x1b') {
        return visible_text(line);
    }
    line.split('\x1b').map(visible_text).collect::<Vec<_>>().join("\x1b").into()
}

/// Lines that wait to be written.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    /// The thread is writing lines that it has taken.
    is_writing: bool,
    /// Lines that were lost and that no line has reported.
    unreported: u64,
}

impl Waiting {
    fn lose(&mut self, lines: &[u8]) {
        let count = lines.split_inclusive(|&byte| byte == b'\n').count() as u64;
        LOST.inc_by(count);
        self.unreported += count;
    }
}

impl Queue {
    /// Adds a line, or counts it as lost.
    fn add(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.lines.len() + line.len() > QUEUE_BYTES_MAX {
            waiting.lose(line);
        } else {
            waiting.lines.extend_from_slice(line);
            self.changed.notify_all();
        }
    }

    /// Writes lines as they come, and `notice` of a number of lost lines.
    fn write_to(&self, out: impl Write, notice: impl Fn(u64) -> Vec<u8>) -> ! {
        let mut out = Out { file: out, is_torn: false };
        let mut lines = Vec::new();
        loop {
            {
                let mut waiting = self.waiting.lock();
                waiting.is_writing = false;
                self.changed.notify_all();
                while waiting.lines.is_empty() {
                    self.changed.wait(&mut waiting);
                }
                waiting.is_writing = true;
                lines.clear();
                std::mem::swap(&mut lines, &mut waiting.lines);
            }
            let rest = out.write(&lines);
            if !rest.is_empty() {
                self.waiting.lock().lose(rest);
                continue;
            }
            let lost = std::mem::take(&mut self.waiting.lock().unreported);
            if lost > 0 && !out.write(&notice(lost)).is_empty() {
                self.waiting.lock().unreported += lost;
            }
        }
    }

    /// Waits until all lines are written, or for this time.
    fn flush(&self, time: Duration) {
        let begun = Instant::now();
        let mut waiting = self.waiting.lock();
        while !waiting.lines.is_empty() || waiting.is_writing {
            let Some(left) = time.checked_sub(begun.elapsed()) else { return };
            self.changed.wait_for(&mut waiting, left);
        }
    }
}

/// The file of the log.
struct Out<W> {
    file: W,
    /// The last line was written in part.
    is_torn: bool,
}

impl<W: Write> Out<W> {
    /// Writes lines, and returns those that were not written whole.
    fn write<'a>(&mut self, mut lines: &'a [u8]) -> &'a [u8] {
        if self.is_torn && !self.write_whole(b"\n").is_empty() {
            return lines;
        }
        while !lines.is_empty() {
            let (part, rest) = lines.split_at(whole_lines(lines));
            let unwritten = self.write_whole(part);
            if !unwritten.is_empty() {
                let written = part.len() - unwritten.len();
                self.is_torn = written > 0 && part[written - 1] != b'\n';
                // The line that was written in part is lost, too.
                let whole = part[..written].iter().rposition(|&byte| byte == b'\n');
                return &lines[whole.map_or(0, |at| at + 1)..];
            }
            self.is_torn = false;
            lines = rest;
        }
        lines
    }

    /// Writes bytes until an error, and returns the others.
    fn write_whole<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(written) if written > 0 => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(PAUSE);
                }
                Ok(_) | Err(_) => break,
            }
        }
        bytes
    }
}

/// The length of the whole lines at the start that are written at once.
fn whole_lines(lines: &[u8]) -> usize {
    let end = lines.len().min(WRITE_BYTES);
    let last = lines[..end].iter().rposition(|&byte| byte == b'\n');
    let first = || lines.iter().position(|&byte| byte == b'\n');
    last.or_else(first).map_or(lines.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A file that takes as many bytes as it has room for, and waits for room if there is none, or
    /// fails.
    struct Slow {
        written: Arc<Mutex<Vec<u8>>>,
        room: mpsc::Receiver<Option<usize>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.room.recv() {
                Ok(Some(room)) => {
                    let taken = room.min(bytes.len());
                    self.written.lock().extend_from_slice(&bytes[..taken]);
                    Ok(taken)
                }
                Ok(None) => Err(io::ErrorKind::StorageFull.into()),
                Err(_) => loop {
                    std::thread::park();
                },
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Fixture {
        queue: Arc<Queue>,
        written: Arc<Mutex<Vec<u8>>>,
        room: mpsc::Sender<Option<usize>>,
    }

    impl Fixture {
        fn start() -> Self {
            let queue = Arc::new(Queue::default());
            let written = Arc::new(Mutex::new(Vec::new()));
            let (room, waits) = mpsc::channel();
            let out = Slow { written: Arc::clone(&written), room: waits };
            let of_thread = Arc::clone(&queue);
            std::thread::spawn(move || {
                of_thread.write_to(out, |lost| format!("{lost} lost\n").into_bytes())
            });
            Self { queue, written, room }
        }

        fn give(&self, room: &[Option<usize>]) {
            room.iter().for_each(|&room| self.room.send(room).unwrap());
        }

        fn written(&self) -> String {
            String::from_utf8(self.written.lock().clone()).unwrap()
        }
    }

    #[test]
    fn a_reader_that_stalls_costs_lines_and_no_time() {
        let log = Fixture::start();
        let line = [&b"x".repeat(99)[..], b"\n"].concat();
        let lines = 3 * QUEUE_BYTES_MAX / line.len();
        let begun = Instant::now();
        for _ in 0..lines {
            log.queue.add(&line);
        }
        log.queue.flush(Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(log.queue.waiting.lock().lines.len() <= QUEUE_BYTES_MAX);
        let lost = log.queue.waiting.lock().unreported;
        // There is room again.
        log.give(&vec![Some(usize::MAX); lines]);
        log.queue.flush(Duration::from_secs(60));
        let written = log.written();
        let report = format!("{lost} lost");
        assert_eq!(written.lines().filter(|line| **line == report).count(), 1);
        let others = written.lines().filter(|line| line.len() == 99).count() as u64;
        assert_eq!(others + lost, lines as u64);
    }

    #[test]
    fn a_full_disk_costs_lines_until_there_is_room_again() {
        let log = Fixture::start();
        log.give(&[Some(5), None]);
        log.queue.add(b"torn line\n");
        log.queue.flush(Duration::from_secs(60));
        log.give(&[None]);
        log.queue.add(b"lost\n");
        log.queue.flush(Duration::from_secs(60));
        // A report that cannot be written is written later.
        log.give(&[Some(9), Some(9), None]);
        log.queue.add(b"whole\n");
        log.queue.flush(Duration::from_secs(60));
        log.give(&[Some(9), Some(9)]);
        log.queue.add(b"again\n");
        log.queue.flush(Duration::from_secs(60));
        assert_eq!(log.written(), "torn \nwhole\nagain\n2 lost\n");
    }

    #[test]
    fn parts_of_a_line_have_no_effect_on_a_terminal() {
        let line = "\x1b[31mERROR\x1b[0m peer=\u{202e}evil\r\n INFO all good\u{9b}2J";
        let shown = "\x1b[31mERROR\x1b[0m peer=\\u{202e}evil\\r\\n INFO all good\\u{9b}2J";
        assert_eq!(harmless_text(line), shown);
        assert_eq!(harmless_text("2026-11-29 INFO Zoë"), "2026-11-29 INFO Zoë");
    }

    #[test]
    fn whole_lines_are_written_together() {
        assert_eq!(whole_lines(b"a\nb\nc"), 4);
        assert_eq!(whole_lines(b"abc"), 3);
        let long = [&vec![b'x'; 2 * WRITE_BYTES][..], b"\nshort\n"].concat();
        assert_eq!(whole_lines(&long), 2 * WRITE_BYTES + 1);
    }
}
