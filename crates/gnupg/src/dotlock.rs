//! GnuPG's lock beside a file, so that gpg and we do not write it at once.
//!
//! A lock on `FILE` is a file `FILE.lock` that is a hard link to one of a unique name. It holds the
//! process ID in ten places, a newline, the name of the machine and a newline. A lock whose process
//! is gone from the same machine is stale and is taken away.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use talaria_disk::beside;

use crate::error::GnupgError;

/// How long a lock is waited for: 60 s. GnuPG waits for ever.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// First and longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(500));

/// More is not read of a lock.
const LOCK_BYTES_MAX: u64 = 1 << 10;

/// A lock that is held; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Dotlock {
    lock: PathBuf,
    unique: PathBuf,
}

impl Dotlock {
    /// Waits until no other process holds the lock on `path`, and takes it.
    pub(crate) fn take(path: &Path) -> Result<Self, GnupgError> {
        Self::take_within(path, WAIT_MAX)
    }

    fn take_within(path: &Path, wait_max: Duration) -> Result<Self, GnupgError> {
        static TAKEN: AtomicU32 = AtomicU32::new(1);
        let host = host();
        let me = std::process::id();
        let folder = path.parent().unwrap_or(Path::new(""));
        let number = TAKEN.fetch_add(1, Ordering::Relaxed);
        // GnuPG has an address where we have a number.
        let unique = folder.join(format!(".#lk0x{number:08x}.{host}.{me}"));
        let held = Self { lock: beside(path, ".lock"), unique };
        let failed = GnupgError::io("lock", path);
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&held.unique)
            .and_then(|mut file| file.write_all(format!("{me:>10}\n{host}\n").as_bytes()));
        if let Err(source) = written {
            held.give_up();
            return Err(failed(source));
        }
        let (started, mut pause) = (Instant::now(), PAUSE.0);
        let error = loop {
            match fs::hard_link(&held.unique, &held.lock) {
                Ok(()) => return Ok(held),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => break failed(error),
                Err(_) => {}
            }
            let holder = match read(&held.lock) {
                Ok(holder) => holder,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => break failed(error),
            };
            if holder.is_gone(&host) && fs::remove_file(&held.lock).is_ok() {
                continue;
            }
            if started.elapsed() >= wait_max {
                let holder = format!("{} on {}", holder.pid, holder.host);
                break GnupgError::Locked { path: path.to_owned(), holder };
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        };
        held.give_up();
        Err(error)
    }

    /// Takes away the unique file and leaves the lock alone, which is not ours.
    fn give_up(mut self) {
        let _ = fs::remove_file(&self.unique);
        self.unique = PathBuf::new();
    }
}

impl Drop for Dotlock {
    fn drop(&mut self) {
        if self.unique.as_os_str().is_empty() {
            return;
        }
        // Nothing can be done about a failure: a lock that stays is stale once we are gone.
        let _ = fs::remove_file(&self.lock);
        let _ = fs::remove_file(&self.unique);
    }
}

/// The owner recorded in a lock file.
struct Holder {
    pid: i32,
    host: String,
}

impl Holder {
    fn is_gone(&self, host: &str) -> bool {
        self.host == host
            && Pid::from_raw(self.pid)
                .is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
    }
}

fn read(lock: &Path) -> io::Result<Holder> {
    let mut text = Vec::new();
    fs::File::open(lock)?.take(LOCK_BYTES_MAX).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let (pid, host) = text.split_once('\n').unwrap_or((&text, ""));
    // A lock file without a process number counts as held by a living process.
    let pid = pid.trim().parse().ok().filter(|&pid| pid > 0).unwrap_or(0);
    Ok(Holder { pid, host: host.trim_end_matches('\n').to_owned() })
}

/// The name of the machine, as GnuPG writes it into a lock.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() || name.contains('/') { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_and_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pubring.kbx");
        let held = Dotlock::take(&path).unwrap();
        let text = fs::read_to_string(folder.path().join("pubring.kbx.lock")).unwrap();
        assert_eq!(text, format!("{:>10}\n{}\n", std::process::id(), host()));
        let error = Dotlock::take_within(&path, Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, GnupgError::Locked { .. }), "{error}");
        drop(held);
        drop(Dotlock::take(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_stale_lock_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pubring.kbx");
        let lock = folder.path().join("pubring.kbx.lock");
        // A process that has ended, and was waited for, is gone.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = child.id();
        child.wait().unwrap();
        fs::write(&lock, format!("{gone:>10}\n{}\n", host())).unwrap();
        drop(Dotlock::take_within(&path, Duration::ZERO).unwrap());
        fs::write(&lock, format!("{gone:>10}\nanother-machine\n")).unwrap();
        assert!(Dotlock::take_within(&path, Duration::ZERO).is_err());
        assert!(lock.exists(), "what may be held elsewhere stays");
    }
}
