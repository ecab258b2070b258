//! The context of every command: the paths of the stores, the time, and the output to the user.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use talaria::cert::{Gnupg, Rules};
use talaria::keys::KeyStore;
use talaria::message::keep_secrets_in_memory;
use talaria::store::Access;
use talaria::{Monitor, Progress, Stores};
use talaria_server::Operator;

use crate::error::CliError;
use crate::folders::data_folder;
use crate::global::Global;
use crate::progress::{self, Shown, Stopping};
use crate::terminal::{Form, Output};

/// The signals that stop work: an interrupt, the end of a service, and the hangup of the terminal,
/// unless `nohup` ignores it.
fn stopping() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM].into_iter().chain((!ignores_hangups()).then_some(SIGHUP))
}

/// Whether the process ignores hangups of its terminal (proc(5), `SigIgn`).
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// The destination of the content that a command writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Content {
    /// Standard output.
    OnStdout,
    /// A file, or no content at all.
    Elsewhere,
}

/// The context of a command.
pub(crate) struct Context {
    /// The paths of the stores; empty if the user has named none and there is no default.
    paths: Vec<PathBuf>,
    /// The folder of secret keys; `None` if the user has named none and there is no default.
    keys: Option<PathBuf>,
    /// The user's choice.
    rules: Option<Rules>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// The current time in seconds since 1970.
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
            data_folder().map(|folder| folder.join("certs.db")).into_iter().collect()
        } else {
            global.store.clone()
        };
        let default_keys = || data_folder().map(|folder| folder.join("keys"));
        let keys = global.keys.clone().or_else(default_keys);
        Self {
            paths,
            keys,
            rules: global.policy,
            json: global.json,
            quiet: global.quiet,
            now: global.faked_time.unwrap_or_else(clock),
            is_clock: global.faked_time.is_none(),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// The rules by which certificates count.
    pub(crate) fn rules(&self) -> Rules {
        self.rules.unwrap_or_default()
    }

    /// The rules of GnuPG by which certificates count in its formats, unless the user has chosen
    /// others.
    pub(crate) fn rules_of_gnupg(&self) -> Rules {
        self.rules.unwrap_or(Rules::Gnupg(Gnupg::default()))
    }

    /// The current time in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        if !self.is_clock {
            return u64::from(self.now) * 1000;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits until `time` if it is at most a few seconds ahead, and if the clock is real.
    pub(crate) fn wait_until(&self, time: SystemTime) {
        const LONGEST: Duration = Duration::from_secs(5);
        if let Ok(left) = time.duration_since(SystemTime::now())
            && self.is_clock
            && left <= LONGEST
        {
            std::thread::sleep(left);
        }
    }

    /// The path of the store to write to.
    ///
    /// # Errors
    ///
    /// [`CliError::NoHome`] if the user has named no store and there is no default.
    pub(crate) fn path(&self) -> Result<&PathBuf, CliError> {
        self.paths.first().ok_or(CliError::NoHome { what: "the store" })
    }

    /// Opens the stores.
    pub(crate) fn stores(&self, access: Access) -> Result<Stores, CliError> {
        if access == Access::Create {
            self.make_folder()?;
        }
        self.path()?;
        let stores = Stores::open(&self.paths, access, self.now)?.judged_by(self.rules());
        for opened in stores.iter() {
            if let Some(found) = opened.store.upgraded_from() {
                self.status(format_args!(
                    "Upgraded {} from store format {found} to {}.",
                    opened.path.display(),
                    talaria::store::FORMAT
                ));
            }
            if access != Access::Read
                && let Some(kind) = opened.store.network_file_system()
            {
                self.status(format_args!(
                    "{} is on a network file system ({kind}). Use it from this computer only: programs on several computers \
                     damage a store.",
                    opened.path.display()
                ));
            }
            if let Some(name) = opened.store.second_name() {
                self.status(format_args!(
                    "{} {name}. Changes by programs that use another name are not seen here.",
                    opened.path.display()
                ));
            }
        }
        Ok(stores)
    }

    /// Opens what a keyserver keeps, for the commands of its operator.
    pub(crate) fn operator(&self, access: talaria_server::Access) -> Result<Operator, CliError> {
        let kind = match access {
            talaria_server::Access::Read => Access::Read,
            talaria_server::Access::Write => Access::Write,
            talaria_server::Access::Create => Access::Create,
        };
        // Says what is to be said about the file, and closes it.
        self.stores(kind)?.writable()?;
        Ok(Operator::open(self.path()?, access)?)
    }

    /// Opens the user's key store, and completes or takes back a key whose generation was
    /// interrupted.
    pub(crate) fn keys(&self) -> Result<KeyStore, CliError> {
        keep_secrets_in_memory();
        let folder = self.keys.as_ref().ok_or(CliError::NoHome { what: "secret keys" })?;
        let keys = KeyStore::open(folder)?;
        // A killed `key generate` has left work. A store that cannot be read is no reason to keep
        // the keys from the user.
        if keys.is_unsettled()?
            && let Ok(stores) = self.stores(Access::Read)
        {
            keys.settle(&stores)?;
        }
        Ok(keys)
    }

    /// Creates the folder of the store to write to, if it does not exist.
    pub(crate) fn make_folder(&self) -> Result<(), CliError> {
        if let Some(folder) = self.path()?.parent()
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

    /// Prints a command's report as JSON, if the user wants JSON: on standard output, unless
    /// content goes there.
    pub(crate) fn report(
        &self,
        content: Content,
        json: &serde_json::Value,
    ) -> Result<(), CliError> {
        match content {
            _ if !self.json => {}
            Content::Elsewhere => writeln!(self.report_stdout(), "{json}")?,
            Content::OnStdout => crate::stderr::say_json(json),
        }
        Ok(())
    }

    /// The form of the results of a command.
    pub(crate) fn form(&self) -> Form {
        Form::json_or_text(self.json)
    }

    /// Standard output for the results of a command. Text for people is folded to the width of a
    /// terminal.
    pub(crate) fn stdout(&self) -> Output {
        Output::stdout(self.form())
    }

    /// Like [`Self::stdout`], for a report on work whose exit status tells how it went. If the
    /// reader goes away, the command goes on without the report, so that it has the same effect and
    /// the same status.
    pub(crate) fn report_stdout(&self) -> Output {
        self.stdout().without_reader()
    }

    /// Prints a status message, which is not a result.
    pub(crate) fn status(&self, message: fmt::Arguments<'_>) {
        if !self.quiet {
            let _alone = progress::terminal();
            crate::stderr::say(message);
        }
    }

    /// Runs long work and shows its progress. The first interrupt asks the work to stop, the second
    /// ends the process.
    pub(crate) fn long<T>(&self, work: impl FnOnce(&mut Monitor<'_>) -> T) -> T {
        self.long_at(self.visible(false), work)
    }

    /// Like [`Self::long`], for work that also writes to standard output.
    pub(crate) fn long_writing<T>(&self, work: impl FnOnce(&mut Monitor<'_>) -> T) -> T {
        let is_terminal = io::stdout().is_terminal();
        self.long_at(if is_terminal { Shown::Never } else { self.visible(false) }, work)
    }

    /// Like [`Self::long`], for work whose steps are named in a log.
    pub(crate) fn long_in_steps<T>(&self, work: impl FnOnce(&mut Monitor<'_>) -> T) -> T {
        self.long_at(self.visible(true), work)
    }

    /// The flag that the first interrupt sets. The second ends the process.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        for signal in stopping() {
            let stop = Arc::clone(&self.stop);
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, stop);
        }
        self.stop_on_signals();
        Arc::clone(&self.stop)
    }

    fn long_at<T>(&self, shown: Shown, work: impl FnOnce(&mut Monitor<'_>) -> T) -> T {
        let stop = &*self.stop_flag();
        progress::shown(shown, Stopping::Asked, stop, |report| work(&mut Monitor { report, stop }))
    }

    /// Runs long work that may ask the user, and shows its progress unless its output goes to a
    /// terminal. An interrupt asks the work to stop.
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

    /// Runs long work and shows its progress. An interrupt ends the process.
    pub(crate) fn shown<T>(&self, work: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> T {
        self.stop_on_signals();
        progress::shown(self.visible(false), Stopping::Ended, &self.stop, work)
    }

    /// Runs a step that may take long and does not report progress. An interrupt ends the process.
    pub(crate) fn step<T>(&self, step: &'static str, work: impl FnOnce() -> T) -> T {
        self.shown(|report| {
            report(Progress { step: Some(step), ..Progress::default() });
            work()
        })
    }

    /// The place for progress; with `steps` a log names each step.
    fn visible(&self, steps: bool) -> Shown {
        match Shown::on_stderr(steps) {
            // Programs that read JSON expect no lines in words.
            Shown::Log { .. } if self.json => Shown::Never,
            _ if self.quiet => Shown::Never,
            shown => shown,
        }
    }
}
