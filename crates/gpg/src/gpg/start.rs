//! The start of a task that is done here: what it needs of the home directory is looked at, and only
//! then the outputs are opened.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use talaria_gnupg::{Home, Source};

use crate::catalog::Catalog;
use crate::gpg::handover::Reason;
use crate::gpg::manner::Manner;
use crate::gpg::plain::Plain;
use crate::gpg::request::Settings;
use crate::gpg::trust::{Trust, Verbosity};
use crate::keyring::Keyrings;
use crate::log::Log;
use crate::session::Session;
use crate::time;

/// A task that is done here.
pub(crate) struct Started {
    /// Texts that come before all others.
    texts: Vec<String>,
    pub(crate) session: Session,
    pub(crate) settings: Settings,
    /// The keyring of the home directory, if it is used.
    pub(crate) own: Option<PathBuf>,
}

/// Starts a task with these words behind the options. `content` says what is done with a message
/// among them, and where its content goes.
///
/// # Errors
///
/// [`Reason`] if the home directory, or an output that exists, needs the real gpg.
pub(crate) fn start(
    settings: Settings,
    words: &[OsString],
    has_stopped: bool,
    content: Option<(Plain, Option<OsString>)>,
) -> Result<Started, Reason> {
    let plain = content.as_ref().map(|(plain, _)| *plain);
    let home = &settings.home;
    let own = own_keyring(home)?;
    let now = time::now();
    let verbosity = Verbosity { verbose: settings.verbose > 0, quiet: settings.quiet };
    let trust = Trust::load(home, &settings.web, &verbosity, now)?;
    if let Some(output) = &settings.output {
        let is_pipe = crate::descriptor::is_pipe(output, settings.specials);
        if !is_pipe && output != "/dev/null" && !settings.yes && Path::new(output).exists() {
            return Err(Reason::Needed(format!("a word about '{}'", output.to_string_lossy())));
        }
    }
    let mut session = Session::new(Log::new("gpg"), now);
    if let Some(file) = settings.status.and_then(|number| talaria_disk::duplicate(number).ok()) {
        session.status.to_file(file);
    }
    if settings.exits_on_write_error {
        session.status.end_on_error();
    }
    if let Some(file) = settings.logger.and_then(|number| talaria_disk::duplicate(number).ok()) {
        session.log.to_file(file);
    }
    session.verbose = settings.verbose;
    session.quiet = settings.quiet;
    session.ignores_time_conflict = settings.ignores_time_conflict;
    session.specials = settings.specials;
    session.output = content.map_or_else(|| settings.output.clone(), |(_, output)| output);
    session.weak.clone_from(&settings.weak);
    session.keyid_format = settings.keyid_format;
    session.gpg = Some(Manner {
        trust,
        shown: settings.shown,
        with_fingerprint: settings.with_fingerprint,
        is_verifying: plain.is_none(),
        is_batch: settings.batch,
        has_progress: settings.has_progress
            && session.status.is_wanted()
            && plain != Some(Plain::Default),
    });
    let mut texts = Vec::new();
    if !session.quiet && !has_stopped {
        for word in words.iter().filter(|word| word.as_bytes().starts_with(b"--")) {
            let word = word.to_string_lossy();
            texts.push(format!("Note: '{word}' is not considered an option"));
        }
    }
    let own = Some(own).filter(|_| settings.default_keyring || settings.keyrings.is_empty());
    Ok(Started { texts, session, settings, own })
}

impl Started {
    /// Writes what comes before all else: from here on, nothing is handed over.
    pub(crate) fn begin(&self) {
        warn_of_permissions(&self.settings);
        self.texts.iter().for_each(|text| self.session.log.info(text));
    }
}

impl Started {
    /// The certificates of all keyrings. The error says what is in the way.
    pub(crate) fn catalog(&self) -> Result<Catalog, &'static str> {
        let Self { session, settings, own, .. } = self;
        let silent = Session::new(Log::silent(), session.now);
        let own = own.as_deref();
        let keyrings = Keyrings::of_home(&silent, own, &settings.keyrings, &settings.home);
        if silent.log.has_errors() {
            return Err("without a keyring");
        }
        keyrings.catalog().ok_or("of a damaged keyring")
    }
}

/// The keyring of a home directory, which may not exist.
fn own_keyring(home: &Path) -> Result<PathBuf, Reason> {
    let needs = |what: &str| Reason::Needed(format!("{what} of {}", home.display()));
    let found = Home::open(home).map_err(|_| needs("a readable keyring"))?;
    if found.as_ref().is_some_and(|found| found.uses_keyboxd) {
        return Err(needs("the database"));
    }
    let keyring = match found.as_ref().and_then(Home::source) {
        Some(Source::Keyboxd(_)) => return Err(needs("the database")),
        Some(Source::Keybox(path) | Source::Ring(path)) => path.to_owned(),
        None => home.join("pubring.kbx"),
    };
    Ok(keyring)
}

/// Warns of a home directory that others may look into.
fn warn_of_permissions(settings: &Settings) {
    let Ok(meta) = settings.home.metadata() else { return };
    if !settings.warns_of_permissions || !meta.is_dir() {
        return;
    }
    let what = if meta.uid() != rustix::process::getuid().as_raw() {
        "ownership"
    } else if meta.mode() & 0o077 != 0 {
        "permissions"
    } else {
        return;
    };
    let log = Log::new("gpg");
    log.info(format!("WARNING: unsafe {what} on homedir '{}'", settings.home.display()));
}
