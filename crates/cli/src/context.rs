//! What every command needs: where the stores are, the time, and how to talk to the user.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use talaria::keys::KeyStore;
use talaria::message::keep_secrets_in_memory;
use talaria::message::openpgp::policy::StandardPolicy;
use talaria::store::Access;
use talaria::{Monitor, Progress, Stores};

use crate::cli::Global;
use crate::error::CliError;
use crate::progress::{self, Shown, Stopping};

/// Signals that ask to stop: an interrupt, the end of a service, and a terminal that is closed, unless `nohup`
/// says otherwise.
fn stopping() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM].into_iter().chain((!ignores_hangups()).then_some(SIGHUP))
}

/// Whether the process was started to go on without its terminal (proc(5), `SigIgn`).
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// The surroundings of a command.
pub(crate) struct Context {
    paths: Vec<PathBuf>,
    keys: PathBuf,
    pub(crate) json: bool,
    quiet: bool,
    /// Seconds since 1970.
    pub(crate) now: u32,
    is_clock: bool,
    stop: Arc<AtomicBool>,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Self {
        let clock = || {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
        };
        let paths = if global.store.is_empty() {
            vec![data_folder().join("certs.db")]
        } else {
            global.store.clone()
        };
        let keys = global.keys.clone().unwrap_or_else(|| data_folder().join("keys"));
        Self {
            paths,
            keys,
            json: global.json,
            quiet: global.quiet,
            now: global.faked_time.unwrap_or_else(clock),
            is_clock: global.faked_time.is_none(),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// What makes a key or a signature too weak to count.
    #[expect(clippy::unused_self, reason = "a choice of the user's, once there is one")]
    pub(crate) fn policy(&self) -> &'static StandardPolicy<'static> {
        talaria::message::policy()
    }

    /// Waits until `time` if that is a matter of seconds, and time passes.
    pub(crate) fn wait_until(&self, time: SystemTime) {
        const LONGEST: Duration = Duration::from_secs(5);
        if let Ok(left) = time.duration_since(SystemTime::now())
            && self.is_clock
            && left <= LONGEST
        {
            std::thread::sleep(left);
        }
    }

    /// The path of the store that is written to.
    pub(crate) fn path(&self) -> &PathBuf {
        &self.paths[0]
    }

    /// Opens the stores.
    pub(crate) fn stores(&self, access: Access) -> Result<Stores, CliError> {
        if access == Access::Create {
            self.make_folder()?;
        }
        Ok(Stores::open(&self.paths, access, self.now)?)
    }

    /// The secret keys of the user.
    pub(crate) fn keys(&self) -> Result<KeyStore, CliError> {
        keep_secrets_in_memory();
        Ok(KeyStore::open(&self.keys)?)
    }

    /// Makes the folder of the store that is written to, if it is missing.
    pub(crate) fn make_folder(&self) -> Result<(), CliError> {
        if let Some(folder) = self.path().parent()
            && !folder.as_os_str().is_empty()
        {
            std::fs::create_dir_all(folder).map_err(|source| talaria::Error::Io {
                action: "make",
                name: folder.display().to_string(),
                source,
            })?;
        }
        Ok(())
    }

    /// Says something that is not a result.
    pub(crate) fn status(&self, message: fmt::Arguments<'_>) {
        if !self.quiet {
            let _alone = progress::terminal();
            let _ = writeln!(io::stderr(), "{message}");
        }
    }

    /// Runs long work and shows its progress; the first interrupt asks it to stop, the second ends the
    /// process.
    pub(crate) fn long<T>(&self, work: impl FnOnce(&mut Monitor<'_>) -> T) -> T {
        self.long_at(self.visible(false), work)
    }

    /// The same of work whose output goes to standard output meanwhile.
    pub(crate) fn long_writing<T>(&self, work: impl FnOnce(&mut Monitor<'_>) -> T) -> T {
        let is_terminal = io::stdout().is_terminal();
        self.long_at(if is_terminal { Shown::Never } else { self.visible(false) }, work)
    }

    /// The same of work that says in a log what it is at.
    pub(crate) fn long_in_steps<T>(&self, work: impl FnOnce(&mut Monitor<'_>) -> T) -> T {
        self.long_at(self.visible(true), work)
    }

    fn long_at<T>(&self, shown: Shown, work: impl FnOnce(&mut Monitor<'_>) -> T) -> T {
        for signal in stopping() {
            let stop = Arc::clone(&self.stop);
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, stop);
        }
        self.stop_on_signals();
        let stop = &self.stop;
        progress::shown(shown, Stopping::Asked, stop, |report| work(&mut Monitor { report, stop }))
    }

    /// Runs long work that may ask the user, and shows its progress unless its output goes to a terminal; an
    /// interrupt asks it to stop.
    pub(crate) fn asking<T>(
        &self,
        to_terminal: bool,
        work: impl FnOnce(&mut Monitor<'_>) -> T,
    ) -> T {
        self.stop_on_signals();
        let shown = if to_terminal { Shown::Never } else { self.visible(false) };
        let stop = &self.stop;
        progress::shown(shown, Stopping::Asked, stop, |report| work(&mut Monitor { report, stop }))
    }

    fn stop_on_signals(&self) {
        for signal in stopping() {
            let _ = signal_hook::flag::register(signal, Arc::clone(&self.stop));
        }
    }

    /// Runs long work and shows its progress; an interrupt ends the process.
    pub(crate) fn shown<T>(&self, work: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> T {
        self.stop_on_signals();
        progress::shown(self.visible(false), Stopping::Ended, &self.stop, work)
    }

    /// Runs a step that takes long in a large store and reports nothing; an interrupt ends the process.
    pub(crate) fn step<T>(&self, step: &'static str, work: impl FnOnce() -> T) -> T {
        self.shown(|report| {
            report(Progress { step: Some(step), ..Progress::default() });
            work()
        })
    }

    /// Where progress is shown; `steps` says that a log names each step.
    fn visible(&self, steps: bool) -> Shown {
        match Shown::on_stderr(steps) {
            // Programs that read JSON are not told in words.
            Shown::Log { .. } if self.json => Shown::Never,
            _ if self.quiet => Shown::Never,
            shown => shown,
        }
    }
}

/// Where store and keys of a user are who names no other place.
fn data_folder() -> PathBuf {
    let data = std::env::var_os("XDG_DATA_HOME").filter(|path| !path.is_empty()).map_or_else(
        || {
            let home = std::env::var_os("HOME").unwrap_or_default();
            PathBuf::from(home).join(".local/share")
        },
        PathBuf::from,
    );
    data.join("talaria")
}
