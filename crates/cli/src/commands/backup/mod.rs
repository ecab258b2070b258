//! `talaria backup`

mod attest;
mod check;
mod client;
mod copy;
mod create;
mod diff;
mod drill;
mod find;
mod forget;
mod init;
mod key;
mod list;
mod ls;
mod metrics;
mod mount;
mod people;
mod place;
mod protect;
mod prune;
mod repair;
mod restore;
mod signer;
mod stats;
mod tools;

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Subcommand;
use talaria::message::openpgp::{Cert, Fingerprint};
use talaria::message::{Secrets, SigningKey};
use talaria::store::Access;
use talaria_backup::{
    BackupError, BackupProgress, DocumentStanding, Expected, Id, Irregularity, Keys, Listed,
    LocalCopies, Reader, Repository, Role, State, heads, irregularities, select,
};

use self::place::{is_remote, open_place, place_name};
use crate::context::Context;
use crate::error::{CliError, shell_word};
use crate::folders::data_folder;
use crate::keys::{KeyArgs, certificate};
use crate::passphrase::PassphraseArgs;
use crate::render::counted;
use crate::services::networks;
use crate::terminal::Paint;

/// Back up files, encrypted to OpenPGP keys
///
/// A repository holds snapshots of files. Content that is in several snapshots is stored once. Everything is
/// encrypted to OpenPGP certificates, and snapshots are signed. The provider of the storage can neither read nor
/// forge them. docs/formats/backup.md shows how to recover files with gpg alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Repository: a folder, or a URL (s3://, sftp://, webdav://, webdavs://; see docs/backup.md)
    #[arg(long, global = true, env = "TALARIA_REPO", value_name = "REPO")]
    repo: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Create(create::Args),
    List(list::Args),
    Ls(ls::Args),
    Find(find::Args),
    Diff(diff::Args),
    Restore(restore::Args),
    Drill(drill::Args),
    Copy(copy::Args),
    Mount(mount::Args),
    Check(check::Args),
    Stats(stats::Args),
    Key(key::Args),
    Client(client::Args),
    Signer(signer::Args),
    Forget(forget::Args),
    Protect(protect::Args),
    Attest(attest::Args),
    Prune(prune::Args),
    Repair(repair::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let place = args.repo.as_deref().ok_or_else(|| {
        CliError::Usage(
            "name the repository: --repo FOLDER or --repo URL, or set TALARIA_REPO".into(),
        )
    })?;
    let other = match &args.command {
        Command::Copy(args) => args.from(),
        _ => place,
    };
    if is_remote(place) || is_remote(other) {
        // Before anything is opened or asked for.
        networks()?;
    }
    match &args.command {
        Command::Init(args) => init::run(args, place, cx),
        Command::Create(args) => create::run(args, place, cx),
        Command::List(args) => list::run(args, place, cx),
        Command::Ls(args) => ls::run(args, place, cx),
        Command::Find(args) => find::run(args, place, cx),
        Command::Diff(args) => diff::run(args, place, cx),
        Command::Restore(args) => restore::run(args, place, cx),
        Command::Drill(args) => drill::run(args, place, cx),
        Command::Copy(args) => copy::run(args, place, cx),
        Command::Mount(args) => mount::run(args, place, cx),
        Command::Check(args) => check::run(args, place, cx),
        Command::Stats(args) => stats::run(args, place, cx),
        Command::Key(args) => key::run(args, place, cx),
        Command::Client(args) => client::run(args, place, cx),
        Command::Signer(args) => signer::run(args, place, cx),
        Command::Forget(args) => forget::run(args, place, cx),
        Command::Protect(args) => protect::run(args, place, cx),
        Command::Attest(args) => attest::run(args, place, cx),
        Command::Prune(args) => prune::run(args, place, cx),
        Command::Repair(args) => repair::run(args, place, cx),
    }
}

/// How a command gets into a repository.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AccessArgs {
    /// Fingerprint of the expected owner of the repository
    #[arg(long, value_name = "FINGERPRINT", value_parser = parse_fingerprint)]
    owner: Option<Fingerprint>,
    /// Folder of this machine's records of repositories [default: in the XDG data folder]
    #[arg(long, env = "TALARIA_BACKUP_STATE", value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Identifier of a snapshot that must be there, as `list --json` gives it, so that an old state of the repository is noticed
    /// (can be repeated)
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    expect_head: Vec<Id>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

fn parse_fingerprint(text: &str) -> Result<Fingerprint, String> {
    let parsed: Result<Fingerprint, _> = text.parse();
    match parsed {
        Ok(fingerprint @ (Fingerprint::V4(_) | Fingerprint::V6(_))) => Ok(fingerprint),
        _ => Err("a fingerprint has 40 or 64 hexadecimal digits".into()),
    }
}

fn parse_id(text: &str) -> Result<Id, String> {
    text.parse().map_err(|_| "an identifier has 64 hexadecimal digits".into())
}

/// Seconds of a duration such as `30d`.
fn parse_duration(text: &str) -> Result<u32, String> {
    let refused = || "a duration is a number with h, d, w or y, such as 30d".to_owned();
    let split = text.len().checked_sub(1).filter(|at| text.is_char_boundary(*at));
    let (number, unit) = text.split_at(split.ok_or_else(refused)?);
    let seconds = match unit {
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "y" => 366 * 86_400,
        _ => return Err(refused()),
    };
    let number: u32 = number.parse().map_err(|_| refused())?;
    number.checked_mul(seconds).ok_or_else(|| "the duration is too long".into())
}

/// An open repository, and the user's place in it.
struct Session {
    repository: Repository,
    state: State,
    keys: Keys,
    /// The certificates of the user's secret keys.
    own: Vec<Cert>,
}

impl AccessArgs {
    /// The folder of the state of all repositories.
    fn state_folder(&self) -> Result<PathBuf, CliError> {
        let default = || data_folder().map(|folder| folder.join("backup"));
        let folder = self.state.clone().or_else(default);
        folder.ok_or(CliError::NoHome { what: "what is known of the repository" })
    }

    /// Opens the repository in `place`, and decrypts its keys.
    fn open(&self, place: &Path, cx: &Context) -> Result<Session, CliError> {
        self.open_with(place, is_remote(place), cx)
    }

    /// Like [`Self::open`], and everything is read from the storage itself, even if this machine has copies.
    fn open_storage(&self, place: &Path, cx: &Context) -> Result<Session, CliError> {
        self.open_with(place, false, cx)
    }

    fn open_with(&self, place: &Path, copies: bool, cx: &Context) -> Result<Session, CliError> {
        let mut backend = open_place(place)?;
        let id = Repository::id_in(&*backend).map_err(|error| match error {
            BackupError::Missing { .. } => CliError::Missing(format!(
                "{} is not a backup repository; to make one: talaria backup --repo {} init",
                place.display(),
                shell_word(place)
            )),
            error => error.into(),
        })?;
        let folder = self.state_folder()?;
        let name = place_name(place);
        // A user who gives the owner's fingerprint knows which repository to expect.
        if self.owner.is_none() {
            State::check_place(&folder, &name, id)?;
        }
        let mut state = State::open(&folder, id)?;
        if copies {
            backend = Arc::new(LocalCopies::new(backend, state.folder().join("copies")));
        }
        let first_use = state.expected.owner.is_none();
        let owner = self.owner.clone().or_else(|| state.expected.owner.clone());
        let expected = Expected { owner, configuration: state.expected.configuration };
        let stores = cx.stores(Access::Read).ok();
        let mut known = |fingerprint: &Fingerprint| {
            let stores = stores.as_ref()?;
            let found = stores.parsed(&fingerprint.to_hex().parse().ok()?, cx.now).ok()?;
            found.into_iter().find(|cert| cert.fingerprint() == *fingerprint)
        };
        let mut repository = Repository::open(backend, &expected, &mut known, cx.now)?;
        repository.set_scratch(state.scratch());
        State::remember_place(&folder, &name, id)?;
        let owner = repository.config().owner.clone();
        if first_use && self.owner.is_none() {
            cx.status(format_args!(
                "First use of this repository here. Its owner is {}.\n  If that is not the owner you expect, somebody \
                 has replaced the repository.",
                owner.to_hex()
            ));
        }
        if let DocumentStanding::Doubtful(signer, why) = repository.standing() {
            let warning = Paint::stderr().doubtful("Warning");
            cx.status(format_args!(
                "{warning}: the configuration of the repository is signed by {}, and {why}.",
                signer.to_hex()
            ));
        }
        let own = self.keys.certs(cx)?;
        let keys = self.unlock(&repository, &own, cx)?;
        for missing in keys.missing() {
            let warning = Paint::stderr().doubtful("Warning");
            cx.status(format_args!("{warning}: {missing}"));
        }
        state.remember(&owner, repository.config().number, &talaria_backup::Heads::new())?;
        let session = Session { repository, state, keys, own };
        session.expect(&self.expect_head, cx)?;
        Ok(session)
    }

    fn unlock(
        &self,
        repository: &Repository,
        own: &[Cert],
        cx: &Context,
    ) -> Result<Keys, CliError> {
        let given = self.passphrase.given()?;
        let (keys, elsewhere) = self.keys.decryption(&given, cx)?;
        let mut secrets = Secrets { keys, elsewhere, ..Secrets::default() };
        let mut recipients: Vec<Fingerprint> = own.iter().map(Cert::fingerprint).collect();
        if secrets.elsewhere.is_some() {
            // The agent knows which of these it has.
            let config = repository.config();
            recipients.extend(config.readers.iter().chain(&config.clients).cloned());
        }
        Ok(repository.unlock(&mut secrets, &recipients)?)
    }

    /// The key that signs, which must have a role: the one called `wanted`, or the only one of the user.
    fn signer(
        &self,
        wanted: Option<&str>,
        session: &Session,
        role: Role,
        cx: &Context,
    ) -> Result<(SigningKey, Cert), CliError> {
        let config = session.repository.config();
        let may = |name: &Fingerprint| config.has_role(name, role);
        let what = format!("has the role \"{}\" in", role.name());
        self.signer_who(wanted, session, &may, &what, cx)
    }

    /// The signer of new snapshots; none in a repository without signatures, unless a key is `wanted`.
    fn client(
        &self,
        wanted: Option<&str>,
        session: &Session,
        cx: &Context,
    ) -> Result<(Option<Fingerprint>, Option<SigningKey>), CliError> {
        if !session.repository.config().signed && wanted.is_none() {
            return Ok((None, None));
        }
        let (signer, cert) = self.signer(wanted, session, Role::Create, cx)?;
        Ok((Some(cert.fingerprint()), Some(signer)))
    }

    /// As [`Self::signer`], for a key of somebody who reads the repository.
    fn reader_signer(
        &self,
        wanted: Option<&str>,
        session: &Session,
        cx: &Context,
    ) -> Result<(SigningKey, Cert), CliError> {
        let config = session.repository.config();
        let may = |name: &Fingerprint| config.readers.contains(name) || config.owner == *name;
        self.signer_who(wanted, session, &may, "is a reader of", cx)
    }

    fn signer_who(
        &self,
        wanted: Option<&str>,
        session: &Session,
        may: &dyn Fn(&Fingerprint) -> bool,
        what: &str,
        cx: &Context,
    ) -> Result<(SigningKey, Cert), CliError> {
        let given = self.passphrase.given()?;
        let name = if let Some(name) = wanted {
            name.to_owned()
        } else {
            let able = session.own.iter().filter(|cert| may(&cert.fingerprint()));
            let able: Vec<&Cert> = able.collect();
            match able[..] {
                [cert] => cert.fingerprint().to_hex(),
                [] => {
                    return Err(CliError::Missing(format!(
                        "none of your keys {what} this repository; its owner is {}",
                        session.repository.config().owner.to_hex()
                    )));
                }
                ref many => {
                    return Err(CliError::WhichSigner {
                        can: "do this here",
                        candidates: many.iter().map(|cert| talaria::described(cert)).collect(),
                    });
                }
            }
        };
        let signer = self.keys.signers(&[name], &given, cx)?.remove(0);
        let cert = certificate(&signer, &session.own, cx)?;
        Ok((signer, cert))
    }
}

impl Session {
    /// Refuses a repository that lacks one of these snapshots: somebody has put back an old state. A snapshot that somebody with
    /// the right to do so has forgotten is not missing.
    fn expect(&self, heads: &[Id], cx: &Context) -> Result<(), CliError> {
        if heads.is_empty() {
            return Ok(());
        }
        let (listed, forgotten, _) = self.repository.survey(&self.keys, cx.now)?;
        let is_there = |head: &Id| {
            let is_it = |one: &Listed| one.id == *head && one.standing.counts();
            forgotten.contains(head) || listed.iter().any(is_it)
        };
        match heads.iter().find(|head| !is_there(head)) {
            None => Ok(()),
            Some(head) => Err(BackupError::Damaged {
                name: "the repository".into(),
                why: format!(
                    "the expected snapshot {head} is missing; somebody may have put back an old state"
                ),
            }
            .into()),
        }
    }

    /// All snapshots, oldest first. Says what is wrong with them, and remembers the newest of each client.
    fn snapshots(&mut self, cx: &Context) -> Result<(Vec<Listed>, Vec<Irregularity>), CliError> {
        let (listed, forgotten, unreadable) = self.repository.survey(&self.keys, cx.now)?;
        let warning = Paint::stderr().doubtful("Warning");
        for error in &unreadable {
            cx.status(format_args!("{warning}: {error}"));
        }
        let wrong = irregularities(&listed, &forgotten, &self.state.heads);
        for irregularity in &wrong {
            cx.status(format_args!("{warning}: {irregularity}."));
        }
        let config = self.repository.config();
        self.state.remember(&config.owner, config.number, &heads(&listed))?;
        Ok((listed, wrong))
    }
}

impl Session {
    /// The snapshot with this name, and a reader of the repository.
    fn read(
        &mut self,
        name: &str,
        client: Option<&Fingerprint>,
        cx: &Context,
    ) -> Result<(Listed, Reader), CliError> {
        let (listed, _) = self.snapshots(cx)?;
        let listed = select(&listed, name, client)?.clone();
        let warning = Paint::stderr().doubtful("Warning");
        if !matches!(listed.standing, DocumentStanding::Good(_) | DocumentStanding::Past(..)) {
            let standing = standing_in_words(&listed.standing);
            cx.status(format_args!("{warning}: snapshot {} is {standing}.", listed.id));
        }
        Ok((listed, self.reader(cx)?))
    }

    /// A reader of the repository. Says which indexes cannot be read.
    fn reader(&self, cx: &Context) -> Result<Reader, CliError> {
        let (reader, unreadable) = self.repository.reader(&self.keys, cx.now)?;
        for error in unreadable {
            cx.status(format_args!("{}: {error}", Paint::stderr().doubtful("Warning")));
        }
        Ok(reader)
    }
}

/// The name of the machine: the one that is given, or what the system says.
fn host_name(given: Option<&str>) -> Vec<u8> {
    given.map_or_else(
        || rustix::system::uname().nodename().to_bytes().to_vec(),
        |given| given.as_bytes().to_vec(),
    )
}

/// A path as trees have it: absolute, without the leading slash.
fn tree_path(path: &Path) -> Vec<u8> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let bytes = absolute.as_os_str().as_bytes();
    let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
    bytes.strip_suffix(b"/").unwrap_or(bytes).to_vec()
}

/// How often the counters are shown, and an interrupt is looked for.
const TURN: Duration = Duration::from_millis(100);

/// Runs long work, shows its progress, and cancels it on an interrupt.
fn with_progress<T: Send>(
    cx: &Context,
    work: impl FnOnce(&Arc<BackupProgress>) -> Result<T, BackupError> + Send,
) -> Result<T, CliError> {
    let progress = Arc::new(BackupProgress::default());
    cx.long(|monitor| {
        std::thread::scope(|scope| {
            let (done, result) = mpsc::channel();
            let work_progress = &progress;
            let worker = scope.spawn(move || {
                // It is received below.
                let _ = done.send(work(work_progress));
            });
            loop {
                match result.recv_timeout(TURN) {
                    Ok(result) => return Ok(result?),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if monitor.stop.load(Ordering::Relaxed) {
                    progress.cancel();
                }
                (monitor.report)(talaria::Progress {
                    bytes: progress
                        .bytes
                        .load(Ordering::Relaxed)
                        .max(progress.read_bytes.load(Ordering::Relaxed)),
                    ..talaria::Progress::default()
                });
            }
            match worker.join() {
                Ok(()) => unreachable!("the work sends a result unless it panics"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    })
}

/// The client whose snapshots are meant.
#[derive(Clone, Debug, clap::Args)]
struct ClientArgs {
    /// Only snapshots of the client with this fingerprint; needed for `latest` if there are several clients
    #[arg(long, value_name = "FINGERPRINT", value_parser = parse_fingerprint)]
    client: Option<Fingerprint>,
}

impl ClientArgs {
    /// Whether a snapshot counts and is of the client, if there is one.
    fn wants(&self, listed: &Listed) -> bool {
        listed.standing.counts()
            && self
                .client
                .as_ref()
                .is_none_or(|client| listed.snapshot.client.as_ref() == Some(client))
    }
}

/// Whose word a snapshot is, in words.
fn standing_in_words(standing: &DocumentStanding) -> String {
    match standing {
        DocumentStanding::Good(_) => "good".into(),
        DocumentStanding::Past(_, why) => format!("good when it was made; since then: {why}"),
        DocumentStanding::Doubtful(_, why) => format!("doubtful: {why}"),
        DocumentStanding::Unsigned => "unsigned".into(),
        DocumentStanding::Foreign(why) => format!("does not count: {why}"),
    }
}

/// The number of snapshots, in words.
fn counted_snapshots(count: usize) -> String {
    counted(count, "snapshot")
}
