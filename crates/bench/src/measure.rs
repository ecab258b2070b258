//! The cost of a program or of a part of this one: wall time, CPU time, memory.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::{ClockId, clock_gettime};
use wait4::Wait4 as _;

use crate::error::BenchError;

/// The intervals for reading the memory of a running program: short ones first, since a look-up
/// takes a few milliseconds.
const WATCH_LEAST: Duration = Duration::from_micros(100);
const WATCH_MOST: Duration = Duration::from_millis(5);

/// The cost of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds on the clock.
    pub wall_s: f64,
    /// Seconds of CPU in the program itself.
    pub user_s: f64,
    /// Seconds of CPU in the kernel.
    pub system_s: f64,
    /// The most memory that was resident at a time, in bytes. 0 within this process.
    pub peak_bytes: u64,
    /// The most memory that was resident at a time and is not a part of a file, in bytes, as far as
    /// it was seen by looking every few milliseconds. 0 within this process.
    pub peak_anonymous_bytes: u64,
}

impl Cost {
    /// Adds the times of work that came after. Memory is not added.
    pub(crate) fn add(&mut self, later: Self) {
        self.wall_s += later.wall_s;
        self.user_s += later.user_s;
        self.system_s += later.system_s;
    }

    /// Seconds of CPU, in the program and in the kernel.
    #[must_use]
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// A program with its arguments, to be measured.
#[derive(Clone, Debug)]
pub struct ProgramRun {
    program: std::ffi::OsString,
    args: Vec<std::ffi::OsString>,
    environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    accepted: Vec<i32>,
    limit: Option<Duration>,
}

impl ProgramRun {
    /// A run of `program`; it must end with status 0.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            environment: Vec::new(),
            accepted: vec![0],
            limit: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// A shell that runs this between other commands: `before` and `after` have the pipes.
    #[must_use]
    pub(crate) fn in_shell(&self, before: &str, after: &str) -> Self {
        let words = std::iter::once(&self.program).chain(&self.args);
        let quoted =
            words.map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")));
        let line = format!("{before}{}{after}", quoted.collect::<Vec<_>>().join(" "));
        // A failure in the middle of a pipe is a failure.
        let shell = Self::new("bash").args(["-o", "pipefail", "-c", &line]);
        Self { environment: self.environment.clone(), ..shell }
    }

    /// Takes this status for success as well: a search that finds nothing.
    #[must_use]
    pub fn accept(mut self, status: i32) -> Self {
        self.accepted.push(status);
        self
    }

    /// Stops it after this time, which is then an error.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Runs it once, output thrown away.
    ///
    /// # Errors
    ///
    /// [`BenchError::Start`], [`BenchError::Failed`], or [`BenchError::Endless`] if it has a limit.
    pub fn measure(&self) -> Result<Cost, BenchError> {
        let start_error = |source| BenchError::Start {
            program: self.program.to_string_lossy().into_owned(),
            source,
        };
        let mut stderr = tempfile::tempfile().map_err(start_error)?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TALARIA_STORE")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr.try_clone().map_err(start_error)?);
        let start = Instant::now();
        let mut child = command.spawn().map_err(start_error)?;
        let (id, done) = (child.id(), AtomicBool::new(false));
        // A handle, since the number may be that of another process by the time it is used.
        let handle = i32::try_from(id).ok().and_then(Pid::from_raw);
        let handle = handle.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        let (used, (peak, anonymous, stopped), wall) = thread::scope(|scope| {
            // The kernel's peak of a child begins with the memory of its parent, so it
            // is looked at while the child runs.
            let watch = scope.spawn(|| {
                let (mut peak, mut anonymous, mut stopped) = (0, 0, false);
                while !done.load(Ordering::Relaxed) {
                    peak = memory(id, "VmHWM:").unwrap_or(peak);
                    anonymous = memory(id, "RssAnon:").unwrap_or(0).max(anonymous);
                    if !stopped && self.limit.is_some_and(|limit| start.elapsed() > limit) {
                        stopped = handle
                            .as_ref()
                            .is_some_and(|child| pidfd_send_signal(child, Signal::KILL).is_ok());
                    }
                    thread::sleep((start.elapsed() / 50).clamp(WATCH_LEAST, WATCH_MOST));
                }
                (peak, anonymous, stopped)
            });
            let used = child.wait4();
            let wall = start.elapsed();
            done.store(true, Ordering::Relaxed);
            (used, watch.join().unwrap_or_default(), wall)
        });
        let used = used.map_err(start_error)?;
        if stopped {
            let cpu = used.rusage.utime + used.rusage.stime;
            let after_s = self.limit.map_or(0, |limit| limit.as_secs());
            return Err(BenchError::Endless {
                command: self.command(),
                after_s,
                cpu_s: cpu.as_secs_f64(),
            });
        }
        if !used.status.code().is_some_and(|code| self.accepted.contains(&code)) {
            let mut bytes = Vec::new();
            let _ = stderr.seek(SeekFrom::Start(0)).and_then(|_| stderr.read_to_end(&mut bytes));
            let said = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(400)..]);
            return Err(BenchError::Failed {
                command: self.command(),
                status: used.status,
                stderr: said.trim().to_owned(),
            });
        }
        Ok(Cost {
            wall_s: wall.as_secs_f64(),
            user_s: used.rusage.utime.as_secs_f64(),
            system_s: used.rusage.stime.as_secs_f64(),
            peak_bytes: if peak > 0 { peak } else { used.rusage.maxrss },
            peak_anonymous_bytes: anonymous,
        })
    }

    /// Runs it `runs` times and returns the median of each figure.
    ///
    /// # Errors
    ///
    /// As [`Self::measure`].
    pub fn median(&self, runs: usize) -> Result<Cost, BenchError> {
        let costs: Result<Vec<Cost>, _> = (0..runs.max(1)).map(|_| self.measure()).collect();
        Ok(median(&costs?))
    }

    /// The command line, for messages.
    #[must_use]
    pub fn command(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// The number of syncs to the disk, counted by strace; `None` without strace.
    #[must_use]
    pub fn syncs(&self) -> Option<u64> {
        let report = tempfile::NamedTempFile::new().ok()?;
        Self::new("strace")
            .args(["-c", "-f", "--seccomp-bpf", "-e"])
            .arg("trace=fsync,fdatasync,sync_file_range,msync,syncfs,sync")
            .arg("-o")
            .arg(report.path())
            .arg("--")
            .arg(&self.program)
            .args(&self.args)
            .measure()
            .ok()?;
        // % time, seconds, usecs/call, calls, errors (mostly empty), syscall.
        let text = fs::read_to_string(report.path()).ok()?;
        let calls = text.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.last()?.contains("sync")).then(|| words.get(3)?.parse::<u64>().ok())?
        });
        Some(calls.sum())
    }
}

/// The program that users start, which is measured beside others. If this process runs in its
/// place, its path is the name of the process.
#[must_use]
pub fn own_program() -> PathBuf {
    let named = std::env::args_os().next().map(PathBuf::from);
    let named = named.filter(|name| name.is_absolute() && name.is_file());
    named.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| "talaria".into())
}

/// Memory of a running process in bytes: `VmRSS:` is what it has, `VmHWM:` the most it had,
/// `RssAnon:` what is not in files.
pub(crate) fn memory(id: u32, which: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(which))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The median of each figure, of at least one cost.
pub(crate) fn median(costs: &[Cost]) -> Cost {
    let middle = |figure: fn(&Cost) -> f64| {
        let mut all: Vec<f64> = costs.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let peak = |figure: fn(&Cost) -> u64| {
        let mut all: Vec<u64> = costs.iter().map(figure).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    Cost {
        wall_s: middle(|cost| cost.wall_s),
        user_s: middle(|cost| cost.user_s),
        system_s: middle(|cost| cost.system_s),
        peak_bytes: peak(|cost| cost.peak_bytes),
        peak_anonymous_bytes: peak(|cost| cost.peak_anonymous_bytes),
    }
}

/// The cost of `work` in this process, for all threads together. System time counts as user time.
pub fn in_process<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (start, cpu) = (Instant::now(), cpu_time());
    let result = work();
    let user_s = cpu_time().saturating_sub(cpu).as_secs_f64();
    (result, Cost { wall_s: start.elapsed().as_secs_f64(), user_s, ..Cost::default() })
}

/// CPU time of this process until now.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// CPU seconds that daemons have used whose command line has `name` and `home` in it. They are no
/// children of ours, so that the measurement of a program ([`ProgramRun`]) does not see them.
#[must_use]
pub fn daemon_cpu_s(name: &str, home: &Path) -> f64 {
    let Ok(processes) = fs::read_dir("/proc") else { return 0.0 };
    let home = home.to_string_lossy();
    processes
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let line = fs::read(path.join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            if !(line.contains(name) && line.contains(&*home)) {
                return None;
            }
            process_cpu_s(&path)
        })
        .sum()
}

/// CPU seconds that a running process has used, by its folder in /proc.
pub(crate) fn process_cpu_s(folder: &Path) -> Option<f64> {
    /// Kernel ticks in a second, as the interface of /proc has them on all machines.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name in brackets may have spaces in it; 14 and 15 are user and system time.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut ticks = rest.split_whitespace().skip(11).map_while(|word| word.parse().ok());
    Some((ticks.next().unwrap_or(0.0) + ticks.next().unwrap_or(0.0)) / TICKS)
}

/// The name and the version of a program, as it says them, if it is there.
pub(crate) fn version(program: &Path) -> Option<String> {
    // restic has a subcommand for it.
    let ask = |argument| {
        let output = Command::new(program).arg(argument).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = text.lines().next()?.split_whitespace();
        let words = words.filter(|word| !matches!(*word, "(GnuPG)" | "version"));
        Some(words.take(2).collect::<Vec<_>>().join(" "))
    };
    ask("--version").or_else(|| ask("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_charged_with_its_own_time_and_memory() {
        let ballast = vec![1u8; 200 << 20];
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        let cost = ProgramRun::new("sh").args(["-c", script]).median(1).unwrap();
        assert!(cost.cpu_s() > 0.02, "{cost:?}");
        assert!(cost.wall_s >= 0.9 * cost.cpu_s(), "{cost:?}");
        assert!(cost.peak_bytes < 100 << 20, "the parent's memory is not the child's: {cost:?}");
        // A short run, too: what the kernel says at its end would be that of this process.
        let cost = ProgramRun::new("sleep").arg("0.02").median(1).unwrap();
        assert!(cost.peak_bytes < 20 << 20, "{cost:?}");
        assert_eq!(ballast[ballast.len() / 2], 1);
    }

    #[test]
    fn the_error_of_a_failed_program_has_its_output() {
        let run = ProgramRun::new("sh").args(["-c", "echo so it is >&2; exit 3"]);
        match run.measure() {
            Err(BenchError::Failed { stderr, .. }) => assert_eq!(stderr, "so it is"),
            other => panic!("{other:?}"),
        }
        assert!(run.accept(3).measure().is_ok());
    }

    #[test]
    fn a_program_that_runs_too_long_is_killed() {
        let run = ProgramRun::new("sleep").arg("100").within(Duration::from_millis(50));
        assert!(matches!(run.measure(), Err(BenchError::Endless { .. })));
    }
}
