//! Progress of long work: a line on a terminal, or occasional lines in a log.
//!
//! The line appears after a second and is never wider than the terminal. It disappears when the
//! work is done or other text is written. If the output of the work goes to a terminal, there is no
//! line.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use talaria::Progress;

use crate::terminal::{columns, cut, width};

/// Work shorter than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// If the work still runs this long after a request to stop, the line says that it is stopping.
const STOPPING: Duration = Duration::from_millis(500);
/// The interval between updates of the line.
const REDRAWN: Duration = Duration::from_millis(100);
/// The interval between lines in a log.
const LOGGED: Duration = Duration::from_secs(10);
/// The part that must be done, and the minimum time, before the remaining time is estimated.
const ESTIMATED: (f64, Duration) = (0.02, Duration::from_secs(2));

/// A lock for writing to the terminal or asking the user. The value tells whether the progress line
/// is visible.
static TERMINAL: Mutex<bool> = Mutex::new(false);

/// Locks the terminal and clears the progress line.
pub(crate) fn terminal() -> MutexGuard<'static, bool> {
    let mut drawn = TERMINAL.lock();
    clear(&mut drawn);
    drawn
}

/// Clears the progress line before the process ends, unless a question is on the terminal.
pub(crate) fn leave() {
    if let Some(mut drawn) = TERMINAL.try_lock() {
        clear(&mut drawn);
    } else if io::stderr().is_terminal() {
        // Leave the question on the terminal and begin a new line for the following text.
        let _ = writeln!(io::stderr());
    }
}

fn clear(drawn: &mut bool) {
    if std::mem::take(drawn) {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

/// The place where progress is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shown {
    /// No progress.
    Never,
    /// A line on the terminal of standard error.
    Line,
    /// Lines of text, because standard error is no terminal.
    Log {
        /// Also write a line when a step begins.
        steps: bool,
    },
}

impl Shown {
    /// The place for progress that depends on whether standard error is a terminal.
    pub(crate) fn on_stderr(steps: bool) -> Self {
        if io::stderr().is_terminal() { Self::Line } else { Self::Log { steps } }
    }
}

/// The reaction when the user asks to stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stopping {
    /// The work ends as soon as it can.
    Asked,
    /// The process ends.
    Ended,
}

/// Runs `work` and shows the progress that it reports.
pub(crate) fn shown<T>(
    shown: Shown,
    stopping: Stopping,
    stop: &AtomicBool,
    work: impl FnOnce(&mut dyn FnMut(Progress)) -> T,
) -> T {
    let state = Mutex::new(State::new(Instant::now()));
    let locked = || state.lock();
    thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut waited = Duration::ZERO;
            while ended.recv_timeout(REDRAWN) == Err(mpsc::RecvTimeoutError::Timeout) {
                if stop.load(Ordering::Relaxed) {
                    if stopping == Stopping::Ended {
                        drop(terminal());
                        signal_hook::low_level::exit(130);
                    }
                    drop(terminal());
                    waited += REDRAWN;
                    if shown == Shown::Line && waited == STOPPING {
                        let _ = writeln!(io::stderr(), "Stopping …");
                    }
                    continue;
                }
                draw(shown, &mut locked());
            }
            drop(terminal());
        });
        // Dropped when the work is done or panics.
        let _running = running;
        work(&mut |progress| {
            let mut state = locked();
            let is_new = state.report(progress, Instant::now());
            if is_new && shown == (Shown::Log { steps: true }) {
                log(&mut state);
            }
        })
    })
}

/// Updates the shown progress if it is time.
fn draw(shown: Shown, state: &mut State) {
    let now = Instant::now();
    match shown {
        Shown::Never => {}
        Shown::Line => {
            // The holder of the lock asks the user, which may take some time.
            let Some(mut drawn) = TERMINAL.try_lock() else {
                state.begun = now;
                return;
            };
            if state.reported && now - state.begun >= PATIENCE {
                let line = state.line(columns().saturating_sub(1), now);
                let _ = write!(io::stderr(), "\r{line}\x1b[K");
                *drawn = true;
            }
        }
        Shown::Log { .. } => {
            if state.reported && now - state.logged >= LOGGED {
                log(state);
            }
        }
    }
}

fn log(state: &mut State) {
    let now = Instant::now();
    state.logged = now;
    let _ = writeln!(io::stderr(), "talaria: {}", state.words(now));
}

/// The reported progress.
#[derive(Debug)]
struct State {
    progress: Progress,
    reported: bool,
    /// The start of the work, later by the time that questions to the user took.
    begun: Instant,
    /// The start of the current step, and the progress at that time.
    step: (Instant, Progress),
    logged: Instant,
}

impl State {
    fn new(now: Instant) -> Self {
        let progress = Progress::default();
        Self { progress, reported: false, begun: now, step: (now, progress), logged: now }
    }

    /// Records a report. Returns whether a new step begins.
    fn report(&mut self, progress: Progress, now: Instant) -> bool {
        let is_new = !self.reported || progress.step != self.progress.step;
        if is_new {
            self.step = (now, progress);
        }
        (self.progress, self.reported) = (progress, true);
        is_new
    }

    /// The completed part of this step, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a picture for people")]
    fn part(&self) -> Option<f64> {
        let Progress { bytes, bytes_total, step, .. } = self.progress;
        // The input bytes read so far tell nothing about a later step.
        let is_said = bytes_total > 0 && (step.is_none() || bytes < bytes_total);
        is_said.then(|| (bytes as f64 / bytes_total as f64).min(1.0))
    }

    /// The estimated remaining time of this step at its present pace.
    fn left(&self, now: Instant) -> Option<Duration> {
        let (since, start) = self.step;
        let total = self.progress.bytes_total;
        let done = self.progress.bytes.checked_sub(start.bytes)?;
        let all = total.checked_sub(start.bytes)?;
        let elapsed = now - since;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let (done, all) = (done as f64, all as f64);
        let enough = self.part().is_some() && elapsed >= ESTIMATED.1 && done >= all * ESTIMATED.0;
        enough.then(|| elapsed.mul_f64((all - done).max(0.0) / done.max(1.0)))
    }

    /// The certificates per second in this step.
    fn rate(&self, now: Instant) -> Option<u64> {
        let (since, start) = self.step;
        let seconds = (now - since).as_secs();
        let certs = self.progress.certs.checked_sub(start.certs)?;
        certs.checked_div(seconds).filter(|rate| *rate > 0)
    }

    /// The line in at most `columns` columns. Less important parts are left out first.
    fn line(&self, columns: usize, now: Instant) -> String {
        const BAR: usize = 24;
        let mut parts = self.parts(now);
        let bar = |cells: usize| self.part().map(|part| bar(part, cells));
        let length = |parts: &[String]| parts.iter().map(|part| width(part) + 2).sum::<usize>();
        while parts.len() > 2 && length(&parts) > columns {
            parts.remove(2);
        }
        let room = columns.saturating_sub(length(&parts));
        if room >= 8
            && let Some(bar) = bar(room.min(BAR))
        {
            parts.insert(1, bar);
        }
        cut(&parts.join("  "), columns)
    }

    /// The progress as a sentence.
    fn words(&self, now: Instant) -> String {
        let parts = self.parts(now);
        match &parts[1..] {
            [] => parts[0].clone(),
            rest => format!("{}: {}", parts[0], rest.join(", ")),
        }
    }

    /// The parts of the line in their order: the step, the amount, then the optional parts.
    fn parts(&self, now: Instant) -> Vec<String> {
        let Progress { bytes, bytes_total, certs, step, steps } = self.progress;
        let step = step.unwrap_or("reading");
        let mut initial = step.chars();
        let first = initial.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
        let mut parts = vec![match steps {
            Some((at, all)) => format!("Step {at} of {all}: {step}"),
            None => format!("{first}{}", initial.as_str()),
        }];
        if self.part().is_some() {
            parts.push(format!("{} of {}", size(bytes), size(bytes_total)));
        } else if bytes > 0 && bytes_total == 0 {
            parts.push(size(bytes));
        }
        if certs > 0 {
            parts.push(format!("{} certificates", grouped(certs)));
        }
        let rate =
            self.rate(now).filter(|_| self.progress.bytes_total == 0 || self.part().is_some());
        if let Some(rate) = rate {
            parts.push(format!("{}/s", grouped(rate)));
        }
        match self.left(now) {
            Some(left) => parts.push(format!("{} left", clock(left))),
            None => parts.push(clock(now - self.begun)),
        }
        parts
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of some cells"
)]
fn bar(part: f64, cells: usize) -> String {
    let full = ((part * cells as f64) as usize).min(cells);
    format!("{}{}", "━".repeat(full), "─".repeat(cells - full))
}

/// A duration in the form of a clock.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// A number of bytes with its unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let mut amount = bytes as f64;
    while amount >= 1023.95 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{amount:.1} {}", UNITS[unit]),
    }
}

/// A number with commas between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn reading(bytes: u64, certs: u64) -> Progress {
        Progress { bytes, bytes_total: 100 * MIB, certs, ..Progress::default() }
    }

    #[test]
    fn the_progress_line_fits_every_width() {
        let begun = Instant::now();
        let mut state = State::new(begun);
        state.report(reading(0, 0), begun);
        let now = begun + Duration::from_secs(10);
        state.report(reading(25 * MIB, 1_234_567), now);
        for columns in 0..250 {
            let line = state.line(columns, now);
            assert!(width(&line) <= columns, "{columns}: {line:?}");
        }
        assert_eq!(
            state.line(110, now),
            "Reading  ━━━━━━──────────────────  25.0 MiB of 100.0 MiB  1,234,567 certificates  \
             123,456/s  0:30 left"
        );
        assert_eq!(state.line(44, now), "Reading  25.0 MiB of 100.0 MiB  0:30 left");
    }

    #[test]
    fn the_estimate_uses_only_the_work_of_this_run() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut state = State::new(begun);
        // An earlier run was interrupted in the middle.
        state.report(reading(50 * MIB, 10), begun);
        state.report(reading(60 * MIB, 20), at(1));
        assert_eq!(state.left(at(1)), None, "too early to tell");
        assert_eq!(state.left(at(5)), Some(Duration::from_secs(20)));
        // A step that does not count bytes has neither a completed part nor a remaining time.
        let indexing = Progress { step: Some("indexing words"), ..reading(100 * MIB, 30) };
        assert!(state.report(indexing, at(9)));
        assert!(!state.report(indexing, at(10)));
        assert_eq!((state.left(at(19)), state.part()), (None, None));
        assert_eq!(state.words(at(19)), "Indexing words: 30 certificates, 0:19");
    }

    #[test]
    fn figures_have_readable_units() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1024 * 1024 - 1), "1.0 MiB");
        let numbers = [7, 100, 999, 1_000, 12_345_678];
        assert_eq!(numbers.map(grouped), ["7", "100", "999", "1,000", "12,345,678"]);
        assert_eq!(clock(Duration::from_secs(3_725)), "1:02:05");
    }
}
