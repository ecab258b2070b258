//! Errors of the commands. This module alone turns errors into text, a hint and an exit status.

use std::error::Error;
use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use talaria::agent::AgentError;
use talaria::cert::user_id::{hidden_characters, visible_json};
use talaria::gnupg::GnupgError;
use talaria::message::{Cost, MessageError, MessageKind};
use talaria::store::{SecondName, StoreError};
use talaria::{StoreFolderKind, status};
use talaria_backup::BackupError;
use talaria_backup_remote::is_url;
use talaria_log::{
    DraftError, LogError, Objection, Refusal, SignerError, SnapshotError, SyncError, Unreadable,
    UpdateError, WitnessError,
};
use talaria_log_net::{KeyError, NetError};
use talaria_server::ConfigError;

use crate::paint::{each_line, harmless};
use crate::terminal::{Paint, folded, stderr_columns};

/// The time that the report of a server's last error may take.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Operation(#[from] talaria::Error),
    /// A backup repository is not usable, or files could not be backed up or restored.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A log is not usable, or does not allow an entry.
    #[error(transparent)]
    Log(LogError),
    /// A witness of a log, or a key for checkpoints, is not usable.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    NodeKey(#[from] KeyError),
    /// A line of updates of a log is none.
    #[error("{0}")]
    Updates(String),
    /// Several objects of a log have this name.
    #[error("{name} is ambiguous: {} objects have this name", candidates.len())]
    ManyObjects { name: String, candidates: Vec<String> },
    /// Writing to standard output or standard error failed.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
    /// Arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The configuration of a server is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The user's settings file is invalid.
    #[error(transparent)]
    Settings(#[from] crate::config::SettingsError),
    /// A server could not be started.
    #[error(transparent)]
    Serve(talaria_server::ServeError),
    /// A program that `talaria` starts in its place does not run.
    #[error(transparent)]
    Program(#[from] talaria_programs::ProgramError),
    /// A benchmark could not run.
    #[error("{0}")]
    Bench(String),
    /// A named object does not exist.
    #[error("{0}")]
    Missing(String),
    /// The reader of the output ended before talaria had checked the whole message.
    #[error("the program that reads the output ended before the whole message was checked")]
    ReaderGone,
    /// A detached signature was given without its signed file.
    #[error("the input is a detached signature, and {}", file.as_deref().map_or_else(|| "no signed file is named".into(), |file| format!("the file {file} does not exist")))]
    Detached { file: Option<String> },
    /// A signed message is named like the signature of a file, and has other content.
    #[error("the input is a signed message, and its content is not that of {file}")]
    OtherContent { file: String },
    /// The user answered no to a question.
    #[error("stopped: you answered no")]
    Declined,
    /// An action that cannot be undone needs a confirmation, and there is no terminal to ask on.
    #[error("confirmation needed, but there is no terminal to ask on. {what}")]
    Unconfirmed { what: String },
    /// The user named no path, and there is no default path.
    #[error("the environment variable HOME is not set, so there is no default place for {what}")]
    NoHome { what: &'static str },
    /// An output would overwrite its own input.
    #[error("{} is both the input and the output", path.display())]
    SameFile { path: std::path::PathBuf },
    /// There is a file where an output goes, and the user has not said to replace it.
    #[error("{} exists already", path.display())]
    Exists { path: std::path::PathBuf },
    /// The user already has a key for the same address.
    #[error("you already have a key for {user_id}")]
    SecondKey { user_id: String, candidates: Vec<String> },
    /// An error with the name of the input.
    #[error("{name}: {error}")]
    In { name: String, error: Box<CliError> },
    /// The user stopped work on a message.
    #[error("interrupted")]
    Stopped,
    /// The user named no key, and no key can sign.
    #[error("you have no secret key that can sign")]
    NoSigner,
    /// The user named no key, and no key can certify.
    #[error("you have no secret key that can certify")]
    NoCertifier,
    /// The user named no key, and several keys can do it.
    #[error("you have {} keys that can {can}: choose one", candidates.len())]
    WhichSigner { can: &'static str, candidates: Vec<String> },
    /// `talaria check` could not read the store.
    #[error(transparent)]
    Unchecked(StoreError),
    /// `talaria check --rebuild` could not read the store.
    #[error(transparent)]
    NotRebuilt(StoreError),
    /// A store cannot be restored from its backup.
    #[error(transparent)]
    StoreBackup(StoreError),
    #[error("{query} is ambiguous: {count} certificates match")]
    Ambiguous { query: String, count: String, candidates: Vec<String> },
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self::Operation(error.into())
    }
}

impl From<MessageError> for CliError {
    fn from(error: MessageError) -> Self {
        // Stopped work reports the stop as an error of its input.
        if let MessageError::Read(source) = &error
            && source.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<talaria::Error>)
        {
            return Self::Stopped;
        }
        Self::Operation(error.into())
    }
}

impl From<LogError> for CliError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Update(UpdateError::Ambiguous { name, objects }) => {
                let one = |(object, creator)| format!("{object}, created by {creator}");
                Self::ManyObjects { name, candidates: objects.into_iter().map(one).collect() }
            }
            error => Self::Log(error),
        }
    }
}

impl From<UpdateError> for CliError {
    fn from(error: UpdateError) -> Self {
        LogError::from(error).into()
    }
}

impl From<talaria_server::ServeError> for CliError {
    fn from(error: talaria_server::ServeError) -> Self {
        match error {
            talaria_server::ServeError::Config(error) => Self::Config(error),
            other => Self::Serve(other),
        }
    }
}

/// The error of reading or writing what is called `name`.
pub(crate) fn failed(action: &'static str, name: &str, source: io::Error) -> CliError {
    CliError::Operation(talaria::Error::Io { action, name: name.to_owned(), source })
}

impl CliError {
    /// The status lines about an unexpected input with this start.
    pub(crate) fn no_data(&self, start: Option<&[u8]>) -> Vec<String> {
        match self {
            Self::Operation(talaria::Error::Message(MessageError::OtherKind {
                found: MessageKind::Packed,
                ..
            })) => status::unsigned(),
            Self::In { error, .. } => error.no_data(start),
            Self::Detached { .. }
            | Self::Operation(talaria::Error::Message(
                MessageError::OtherKind { .. } | MessageError::Malformed(_),
            )) => status::no_data(start),
            _ => Vec::new(),
        }
    }

    /// Replaces the error of a closed output pipe. A command that must check its whole input has not
    /// succeeded if the reader of its output ended early: it does not know whether the message is complete,
    /// nor who signed it.
    pub(crate) fn unread(self) -> Self {
        if self.is_broken_pipe() { Self::ReaderGone } else { self }
    }

    /// The error with the name of its input.
    pub(crate) fn of_input(self, name: Option<&std::path::Path>) -> Self {
        let about_input = match &self {
            Self::Detached { .. } | Self::OtherContent { .. } => true,
            Self::Operation(talaria::Error::Message(error)) => !matches!(
                error,
                MessageError::Key { .. }
                    | MessageError::Usage(_)
                    | MessageError::Secret(_)
                    | MessageError::Write(_)
            ),
            _ => false,
        };
        if !about_input {
            return self;
        }
        let name = name.filter(|name| *name != std::path::Path::new("-"));
        let name =
            name.map_or_else(|| "standard input".to_owned(), |name| name.display().to_string());
        Self::In { name, error: Box::new(self) }
    }

    /// Prints the error with its causes and a hint, and returns the exit status.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if self.is_broken_pipe() {
            // The reader of the output has ended, which is no failure.
            return ExitCode::SUCCESS;
        }
        let message = describe(self);
        let status = self.status();
        if json {
            report_json(self.kind(), status, &message, self.hint().as_deref(), self.candidates());
        } else {
            complain(format_args!("{message}"));
            self.candidates().iter().for_each(|line| say(format_args!("  {line}")));
            let hint = self.hint().unwrap_or_default();
            hint.lines().for_each(|line| say(format_args!("  {line}")));
        }
        ExitCode::from(status)
    }

    /// Like [`Self::report`], but gives up if nobody reads standard error, so that the process ends in any case.
    pub(crate) fn report_in_time(self, json: bool) -> ExitCode {
        let status = if self.is_broken_pipe() { 0 } else { self.status() };
        let (reported, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            self.report(json);
            let _ = reported.send(());
        });
        let _ = ended.recv_timeout(REPORT_TIME);
        ExitCode::from(status)
    }

    /// The name of the error in JSON.
    fn kind(&self) -> &'static str {
        match self {
            Self::Ambiguous { .. }
            | Self::ManyObjects { .. }
            | Self::WhichSigner { .. }
            | Self::Operation(
                talaria::Error::Ambiguous { .. }
                | talaria::Error::Inexact { .. }
                | talaria::Error::InexactUserId { .. },
            ) => "ambiguous",
            Self::Operation(
                talaria::Error::Unconfirmed { .. } | talaria::Error::Distrusted { .. },
            ) => "refused",
            Self::Declined | Self::Unconfirmed { .. } => "unconfirmed",
            Self::In { error, .. } => error.kind(),
            Self::Log(
                LogError::Draft(DraftError::Refused(_) | DraftError::Ended(_) | DraftError::Key(_))
                | LogError::Signer(SignerError::Policy(_)),
            ) => "refused",
            Self::Log(LogError::Update(
                UpdateError::NotReader { .. } | UpdateError::EncryptionLost(_),
            )) => "refused",
            Self::Log(LogError::Draft(
                DraftError::Expired { .. } | DraftError::NotCheckpointer | DraftError::Snapshot(_),
            )) => "refused",
            Self::Witness(WitnessError::Objection(_) | WitnessError::Unknown { .. }) => "refused",
            Self::Operation(talaria::Error::Message(
                MessageError::NotAccepted(_)
                | MessageError::Key { .. }
                | MessageError::NoSecret { .. },
            )) => "refused",
            _ => kind_of_status(self.status()),
        }
    }

    /// The candidates for an ambiguous or inexact name.
    fn candidates(&self) -> &[String] {
        match self {
            Self::Ambiguous { candidates, .. }
            | Self::ManyObjects { candidates, .. }
            | Self::WhichSigner { candidates, .. }
            | Self::SecondKey { candidates, .. }
            | Self::Operation(
                talaria::Error::Ambiguous { candidates, .. }
                | talaria::Error::Inexact { candidates, .. }
                | talaria::Error::InexactUserId { candidates, .. }
                | talaria::Error::Unconfirmed { candidates, .. },
            ) => candidates,
            Self::In { error, .. } => error.candidates(),
            _ => &[],
        }
    }

    fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Output(error)
            | Self::Log(LogError::Io { action: "write", source: error, .. })
            | Self::Operation(
                talaria::Error::Io { source: error, .. }
                | talaria::Error::Message(MessageError::Write(error)),
            ) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::In { error, .. } => error.is_broken_pipe(),
            _ => false,
        }
    }

    pub(crate) fn status(&self) -> u8 {
        use talaria::Error as E;
        match self {
            Self::In { error, .. } => error.status(),
            Self::Usage(_) | Self::NoHome { .. } | Self::SameFile { .. } => 2,
            Self::Unconfirmed { .. } | Self::SecondKey { .. } => 2,
            Self::Declined => 1,
            Self::Stopped => 130,
            Self::Config(_)
            | Self::Settings(_)
            | Self::Detached { .. }
            | Self::OtherContent { .. }
            | Self::Updates(_) => 3,
            Self::Serve(talaria_server::ServeError::Store(cause)) => {
                cause.downcast_ref().map_or(5, status_of_store)
            }
            Self::Output(_) | Self::ReaderGone | Self::Bench(_) | Self::Serve(_) => 5,
            Self::Program(_) => 5,
            Self::Exists { .. } => 5,
            Self::Ambiguous { .. } | Self::WhichSigner { .. } | Self::Missing(_) => 1,
            Self::ManyObjects { .. } => 1,
            Self::Log(error) => status_of_log(error),
            Self::Witness(error) => match error {
                WitnessError::Objection(_)
                | WitnessError::Unknown { .. }
                | WitnessError::OtherKey { .. }
                | WitnessError::Occupied { .. } => 1,
                WitnessError::Name(_)
                | WitnessError::NotAWitness { .. }
                | WitnessError::Many
                | WitnessError::Cosigners { .. } => 2,
                WitnessError::NoKey { .. } | WitnessError::Request { .. } => 3,
                WitnessError::Damaged { .. } => 4,
                _ => 5,
            },
            Self::Net(error) => status_of_net(error),
            Self::NodeKey(error) => match error {
                KeyError::NotAKey { .. } | KeyError::Readable { .. } => 3,
                _ => 5,
            },
            Self::NoSigner | Self::NoCertifier => 1,
            Self::Unchecked(error) | Self::NotRebuilt(error) | Self::StoreBackup(error) => {
                status_of_store(error)
            }
            Self::Backup(error) => match error {
                BackupError::Missing { .. }
                | BackupError::Damaged { .. }
                | BackupError::Newer { .. } => 4,
                BackupError::Exists { .. } | BackupError::Refused(_) | BackupError::Occupied => 1,
                BackupError::Empty | BackupError::NotFound(_) | BackupError::NoKey { .. } => 1,
                BackupError::Cancelled => 130,
                BackupError::Message { source, .. } => status_of_message(source),
                _ => 5,
            },
            Self::Operation(error) => match error {
                E::NotFound { .. } | E::Absent { .. } => 1,
                E::Inexact { .. }
                | E::InexactUserId { .. }
                | E::NoUserId { .. }
                | E::NoSubkey { .. } => 1,
                E::Unconfirmed { .. } | E::Distrusted { .. } => 1,
                E::Query(_)
                | E::Address { .. }
                | E::Keyring { .. }
                | E::Token { .. }
                | E::Bookmark => 2,
                E::Unrecognised { .. } | E::Dump { .. } | E::NoCertificates { .. } => 3,
                E::Window { .. } => 3,
                E::StoreFolder { .. } => 4,
                E::Gnupg(GnupgError::Io { .. }) => 5,
                E::Gnupg(GnupgError::Locked { .. } | GnupgError::UsesKeyboxd { .. }) => 4,
                E::Gnupg(_) | E::Foreign { .. } => 3,
                E::Store(error) => status_of_store(error),
                E::Ambiguous { .. } | E::NoKey { .. } | E::NoSecret { .. } => 1,
                E::Exposed { .. } | E::KeyFile { .. } => 4,
                E::KeyRefused { .. } => 3,
                E::Agent(AgentError::Refused(_)) => 1,
                E::Agent(_) => 4,
                E::Message(error) => status_of_message(error),
                E::Interrupted => 130,
                _ => 5,
            },
        }
    }

    /// The next step for the user.
    fn hint(&self) -> Option<String> {
        use talaria::Error as E;
        let hint = match self {
            Self::In { name, error } => return error.hint_for_input(name),
            Self::Ambiguous { .. } => "Use the fingerprint of one of them.",
            Self::NoSigner | Self::NoCertifier => {
                "Generate one: talaria key generate \"NAME <ADDRESS>\"\nImport one: talaria key import FILE\nOr use \
                 one of gpg-agent: --gpg-agent -u KEY"
            }
            Self::WhichSigner { .. } => "Choose one with -u FINGERPRINT.",
            Self::Declined => return None,
            Self::Output(error) if error.kind() == io::ErrorKind::FileTooLarge => LARGER_FILES,
            Self::Unconfirmed { .. } => "Add --yes to do it without a question.",
            Self::NoHome { .. } => "Set HOME, or name the files: --store FILE --keys FOLDER.",
            Self::SameFile { .. } => "Write to another file.",
            Self::Exists { .. } => "Write to another file, or replace it: add --overwrite.",
            Self::SecondKey { .. } => {
                "Your correspondents could not tell which key to use.\nTo change the expiry date: talaria key expire KEY WHEN\nTo \
                 generate a second key anyway: add --yes"
            }
            Self::Detached { .. } => "Name the signed file: talaria verify SIGNATURE FILE",
            Self::Stopped => "No file was written. The content on standard output is not complete.",
            Self::Serve(talaria_server::ServeError::Listen { source, .. }) => match source.kind() {
                io::ErrorKind::AddrInUse => {
                    "Another program listens on this address: `ss -ltnp` shows which. (An address of [::] also \
                     takes IPv4.) Choose another address with --listen."
                }
                io::ErrorKind::PermissionDenied => {
                    "Ports below 1024 need a privilege: CAP_NET_BIND_SERVICE, or a proxy in front."
                }
                io::ErrorKind::AddrNotAvailable => "No interface of this machine has the address.",
                _ => return None,
            },
            Self::Serve(
                talaria_server::ServeError::Store(cause)
                | talaria_server::ServeError::Writer(cause),
            ) => return cause.downcast_ref().and_then(hint_for_store),
            Self::Serve(talaria_server::ServeError::Audit(error)) => {
                return hint_for_file(&error.path.display().to_string(), &error.source);
            }
            Self::Serve(talaria_server::ServeError::Peer(error)) if has_hung_up(&error.what) => {
                "Check the host and its gossip port (11370, if you name none).\nThe peer answers only addresses that it knows: \
                 its operator must add the address of this machine as one of its peers."
            }
            Self::Serve(talaria_server::ServeError::Peer(_)) => {
                "Check the host and its gossip port (11370, if you name none), and the network connection."
            }
            Self::Config(
                ConfigError::Io { path, source } | ConfigError::File { path, source, .. },
            ) => {
                return hint_for_file(&path.display().to_string(), source);
            }
            Self::Program(error) => return Some(error.hint()),
            Self::Config(_) => "docs/server.toml has all settings with their defaults.",
            Self::Settings(_) => "Correct the file. To run without it: TALARIA_CONFIG= talaria …",
            Self::Unchecked(StoreError::Damaged { path, .. }) => {
                return Some(format!(
                    "Rebuild the indexes: talaria --store {} check --rebuild\nIf that fails:\n{RESTORE}",
                    shell_word(path)
                ));
            }
            Self::NotRebuilt(StoreError::Damaged { .. }) => RESTORE,
            Self::Unchecked(error) | Self::NotRebuilt(error) => return hint_for_store(error),
            Self::StoreBackup(error) => return hint_for_store_backup(error),
            Self::Operation(E::NotFound { query }) => return Some(import_hint(query)),
            Self::Operation(error) => return hint_for_operation(error),
            Self::Backup(error) => return hint_for_backup(error),
            Self::Log(error) => return hint_for_log(error),
            Self::Witness(error) => return hint_for_witness(error),
            Self::Net(error) => return hint_for_net(error),
            Self::NodeKey(KeyError::Readable { path, .. }) => {
                return Some(format!("Only you should: chmod 600 {}", shell_word(path)));
            }
            Self::NodeKey(KeyError::Io { path, source, .. }) => {
                return hint_for_file(&path.display().to_string(), source);
            }
            Self::Updates(_) => {
                "An update is one line: {\"object\": \"server-1\", \"field\": \"color\", \"value\": \"red\"}."
            }
            Self::ManyObjects { .. } => "Use the identity of one of them in place of the name.",
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// The next step for the user, with the input called `name`.
    fn hint_for_input(&self, name: &str) -> Option<String> {
        let quoted = shell_word(name);
        let file = if name == "standard input" { "FILE" } else { &quoted };
        Some(match self {
            Self::Detached { .. } => format!("Name the signed file: talaria verify {file} FILE"),
            Self::OtherContent { file: other } => format!(
                "Nothing is known about {other}. To write the signed content: talaria verify --output OUT {file}",
                other = shell_word(other)
            ),
            Self::Operation(talaria::Error::Message(error)) => match error {
                MessageError::OtherKind { found, .. } if hint_for(*found, file).is_some() => {
                    return hint_for(*found, file);
                }
                MessageError::Malformed(_) => DAMAGED.to_owned(),
                MessageError::OtherKind { .. } => format!(
                    "If {file} is the signed file: talaria verify SIGNATURE {file}\nTo encrypt it: talaria encrypt \
                     -r CERT {file}"
                ),
                _ => return self.hint(),
            },
            _ => return self.hint(),
        })
    }
}

/// The exit status for an error of a log.
fn status_of_log(error: &LogError) -> u8 {
    match error {
        LogError::NotALog { .. } | LogError::Occupied { .. } => 1,
        LogError::NotAnExport { .. } | LogError::DamagedExport { .. } => 3,
        LogError::OtherLog { .. } => 3,
        LogError::Unexpected { .. } | LogError::Genesis(_) => 3,
        LogError::Draft(DraftError::Key(error)) | LogError::Signer(SignerError::Policy(error)) => {
            status_of_message(error)
        }
        LogError::Signer(_) | LogError::Draft(DraftError::Signature(_)) => 3,
        LogError::Draft(_) => 1,
        LogError::Update(error) => match error {
            UpdateError::NoObject(_) | UpdateError::Ambiguous { .. } | UpdateError::NoEntry(_) => 1,
            UpdateError::Absent { .. } | UpdateError::NoDeletable(_) => 1,
            UpdateError::NotReader { .. } | UpdateError::EncryptionLost(_) => 1,
            _ => 2,
        },
        LogError::Readers { .. } => 2,
        LogError::Damaged { .. } | LogError::Stored { .. } | LogError::Failed => 4,
        LogError::NoSnapshot { .. } | LogError::SnapshotNotInForce { .. } => 1,
        LogError::BadSnapshot { .. } => 4,
        LogError::Snapshot { source, .. } => match source {
            SnapshotError::Malformed(_) | SnapshotError::OtherLog { .. } => 3,
            SnapshotError::Io(_) => 5,
            _ => 4,
        },
        _ => 5,
    }
}

/// The exit status for an error of a connection.
fn status_of_net(error: &NetError) -> u8 {
    match error {
        NetError::Own { .. } => 2,
        NetError::NotPublished { .. } | NetError::OwnNotPublished { .. } => 1,
        NetError::NotANode { .. } | NetError::OtherKey { .. } => 3,
        NetError::Sync(SyncError::OtherLog(_)) => 3,
        NetError::Sync(SyncError::Replica(error)) | NetError::Log(error) => status_of_log(error),
        NetError::Sync(error) if error.is_fault_of_peer() => 3,
        _ => 5,
    }
}

/// The exit status for an error of a message.
fn status_of_message(error: &MessageError) -> u8 {
    match error {
        MessageError::NoSecret { .. } | MessageError::Key { .. } | MessageError::NotAccepted(_) => {
            1
        }
        MessageError::Usage(_) => 2,
        MessageError::Read(_) | MessageError::Write(_) => 5,
        MessageError::Secret(error) if agent_refuses(&**error) => 1,
        MessageError::Secret(_) => 4,
        _ => 3,
    }
}

/// The text of an error with its causes. The name of an input occurs in it only once.
fn describe(error: &CliError) -> String {
    match error {
        CliError::In { name, error } => format!("{name}: {}", describe(error)),
        error => talaria::describe(error),
    }
}

/// Prints an error as JSON on standard error, because standard output is for results.
pub(crate) fn report_json(
    kind: &str,
    status: u8,
    message: &str,
    hint: Option<&str>,
    candidates: &[String],
) {
    say_json(&serde_json::json!({ "error": {
        "kind": kind, "exit_status": status, "message": message, "hint": hint, "candidates": candidates,
    } }));
}

/// The JSON name of errors with this exit status.
fn kind_of_status(status: u8) -> &'static str {
    match status {
        1 => "not_found",
        2 => "usage",
        3 => "bad_input",
        4 => "store",
        130 => "interrupted",
        _ => "io",
    }
}

/// A hint how to get a certificate that is not in the store.
fn import_hint(query: &str) -> String {
    let name = query.trim_start_matches('*');
    format!(
        "List all certificates: talaria list\nImport this one from a file: talaria import FILE\nOr from a keyserver: talaria \
         import --keyserver hkps://keys.openpgp.org {}",
        shell_word(name)
    )
}

fn hint_for_operation(error: &talaria::Error) -> Option<String> {
    use talaria::Error as E;
    let hint = match error {
        E::Ambiguous { .. } => "Use the fingerprint of one of them.",
        E::Inexact { .. } => "Use the fingerprint or the whole address.",
        E::Unconfirmed { open, .. } => {
            let how = "Anybody can make a certificate with this address. Compare the fingerprint with its owner, and use \
                       it in place of the address. To verify, the file of the certificate will do: --signer-file FILE";
            let confirm = open.as_ref().map(|fingerprint| {
                format!("\nOr confirm the certificate first: talaria certify --local {fingerprint}")
            });
            return Some(format!("{how}{}", confirm.unwrap_or_default()));
        }
        E::Distrusted { name } => {
            let fingerprint = name.split(' ').next().unwrap_or_default();
            return Some(format!(
                "To see your decisions: talaria tofu info {fingerprint}\nTo withdraw it: talaria tofu policy {fingerprint} auto"
            ));
        }
        E::InexactUserId { .. } => "Give the whole user ID.",
        E::NoKey { .. } => {
            "List your keys: talaria key list\nImport a key: talaria key import FILE\nOr use the keys of GnuPG: add \
             --gpg-agent"
        }
        E::NoSecret { .. } => {
            "Import the secret key: talaria key import FILE\nOr use the keys of GnuPG: add --gpg-agent"
        }
        E::Exposed { path, .. } => {
            return Some(format!(
                "Run: chmod go= {}\nIf somebody may have read it, change the passphrase or revoke the key.",
                shell_word(path)
            ));
        }
        E::KeyFile { .. } => "Restore it from a backup, or move it out of the folder.",
        E::Agent(AgentError::Absent) => "Start it with --gpg-agent.",
        E::Agent(AgentError::NoHome { .. }) => {
            "Leave out --gpg-agent. If the keys of GnuPG are in another folder, set GNUPGHOME; `gpg --list-keys` makes \
             the folder."
        }
        E::Agent(AgentError::NotStarted(_)) => {
            "See why: gpg-connect-agent --verbose /bye\nOr leave out --gpg-agent."
        }
        E::Agent(AgentError::Gpgconf(_)) => "Install GnuPG, or leave out --gpg-agent.",
        E::Message(error) => return hint_for_message(error),
        E::Store(error) => return hint_for_store(error),
        E::StoreFolder { path, what } => {
            return Some(match what {
                StoreFolderKind::GnupgHome => format!(
                    "To import it: talaria import {}\nTo use its keyring as it is: --store {}",
                    shell_word(path),
                    shell_word(path.join("pubring.kbx"))
                ),
                StoreFolderKind::Other => {
                    format!("Name a file in it: --store {}", shell_word(path.join("certs.db")))
                }
            });
        }
        E::NoCertificates { .. } => {
            "No store was made. talaria builds from keyrings and keyserver dumps; `gpg --list-packets FILE` or `file \
             FILE` shows what a file is."
        }
        E::Bookmark => "Start again without --after, or name the same store and certificates.",
        E::Dump { .. } => "Dump all certificates, without --incremental, to start anew.",
        E::Interrupted => {
            "All work reported as done is saved. Run the same command again to do the rest."
        }
        E::Keyring { .. } => {
            "Choose a store with --store, and import the keyring: talaria import FILE"
        }
        E::Token { .. } => "Print a token of this store: talaria changes",
        E::Query(_) => "See `talaria help` for the ways to name a certificate.",
        E::Address { .. } => "An address looks like alice@example.org.",
        E::Absent { .. } => "Check the spelling, or ask another server.",
        E::Http { .. } => "Check the address and the network connection, and try again.",
        E::Io { name, source, .. } => return hint_for_file(name, source),
        E::Gnupg(error) => return hint_for_gnupg(error),
        E::Foreign { source, .. } => return hint_for_gnupg(source),
        E::Window { name, source } => return Some(decompress(name, source.program)),
        E::NoUserId { name, .. } | E::NoSubkey { name, .. } => {
            let fingerprint = name.split(' ').next().unwrap_or_default();
            return Some(format!("List its user IDs and subkeys: talaria show {fingerprint}"));
        }
        E::Unrecognised { what, .. } if what.contains("OpenPGP keys") => {
            "A key file holds secret keys, binary or armored, as written by `talaria key export` or `gpg \
             --export-secret-keys`."
        }
        E::Unrecognised { name, what } if what.contains("secret key") => {
            return Some(format!("If it holds certificates: talaria import {}", shell_word(name)));
        }
        E::Unrecognised { .. } => {
            "talaria reads keyrings (binary or armored), SKS dumps, GnuPG's pubring.kbx, pubring.gpg, pubring.db and \
             owner trust, certificate directories and its own stores."
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn hint_for_message(error: &MessageError) -> Option<String> {
    let hint = match error {
        MessageError::OtherKind { found, .. } => return hint_for(*found, "FILE"),
        MessageError::Read(error) | MessageError::Write(error) => {
            return hint_for_file("", error);
        }
        MessageError::NoSecret { recipients, .. } if recipients.is_empty() => {
            "The passphrase is wrong or missing. Give it with --passphrase-file, --passphrase-fd or \
             --passphrase-env, or on a terminal."
        }
        MessageError::NoSecret { .. } => {
            "Import the secret key: talaria key import FILE\nOr name its file: add --key-file FILE\nOr use the keys of \
             GnuPG: add --gpg-agent"
        }
        MessageError::Tampered(_) | MessageError::Truncated(_) => {
            "Do not use any of its content. Download it again, or ask the sender."
        }
        MessageError::Unopened { .. } => {
            "Do not use any of its content. Download it again, or ask the sender to encrypt it again to your certificate: \
             talaria export --armor KEY"
        }
        MessageError::Unprotected => "Ask the sender to encrypt it again with a current program.",
        MessageError::OverLimit { what: Cost::Argon2, .. } => {
            "If you trust the sender, raise the limit with --max-argon2."
        }
        MessageError::OverLimit { what: Cost::Expansion, .. } => {
            "If you trust the sender, raise the limit on content with --max-expansion."
        }
        MessageError::Key { name, why } if why.contains("expired") => {
            let fingerprint = name.split(' ').next().unwrap_or_default();
            return Some(format!(
                "Ask the owner for an updated certificate, or fetch it: talaria import --keyserver \
                 hkps://keys.openpgp.org {fingerprint}\nIf it is your own: talaria key expire {fingerprint} 2y"
            ));
        }
        MessageError::Key { why, .. } if why.contains("revoked") => {
            "Ask the owner for the new certificate."
        }
        MessageError::Key { why, .. } if why.contains("passphrase") => {
            "Give the passphrase with --passphrase-file, --passphrase-fd or --passphrase-env, or run it on a terminal."
        }
        MessageError::Key { .. } => {
            "See what the certificate can be used for: talaria show FINGERPRINT"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn hint_for_gnupg(error: &GnupgError) -> Option<String> {
    let hint = match error {
        GnupgError::Io { path, source, .. } => {
            return hint_for_file(&path.display().to_string(), source);
        }
        GnupgError::NotTofudb { .. } => "GnuPG's database is ~/.gnupg/tofu.db.",
        GnupgError::NotTrustdb | GnupgError::Ownertrust { .. } => {
            "talaria reads GnuPG's trustdb.gpg and the output of `gpg --export-ownertrust`."
        }
        GnupgError::Locked { .. } => "Wait until gpg has ended, and try again.",
        _ => return None,
    };
    Some(hint.to_owned())
}

fn hint_for_backup(error: &BackupError) -> Option<String> {
    let hint = match error {
        BackupError::Occupied => {
            "Use it: talaria backup create FOLDER\nOr make another one: --repo with another place"
        }
        BackupError::Empty => "Make one: talaria backup create FOLDER",
        BackupError::NotFound(_) => {
            "List the snapshots: talaria backup list\nList their files: talaria backup ls SNAPSHOT"
        }
        BackupError::NoKey { .. } => {
            "Import the secret key of one of them: talaria key import FILE\nOr use the keys of GnuPG: add --gpg-agent"
        }
        BackupError::Damaged { .. } | BackupError::Missing { .. } => {
            "List the damage: talaria backup check --read-data"
        }
        BackupError::Storage { name, .. } if is_url(name) => {
            "Check the address and the network connection, and try again."
        }
        BackupError::Storage { name, source } | BackupError::File { path: name, source } => {
            return hint_for_file(name, source);
        }
        BackupError::Message { source, .. } => return hint_for_message(source),
        _ => return None,
    };
    Some(hint.to_owned())
}

fn hint_for_log(error: &LogError) -> Option<String> {
    let hint = match error {
        LogError::NotALog { path } => {
            let path = shell_word(path);
            return Some(format!(
                "Make a log: talaria log --log {path} init\nOr take a copy of one: talaria log --log {path} import FILE"
            ));
        }
        LogError::Occupied { .. } => "Name an empty folder, or one that does not exist.",
        LogError::NotAnExport { .. } => "Another node makes one: talaria log export -o FILE",
        LogError::DamagedExport { .. } => {
            "Get the file again, and import it again: what is known already does no harm."
        }
        LogError::OtherLog { .. } => {
            "Name the folder of that log with --log. To see which log a folder has: talaria log stats"
        }
        LogError::Unexpected { .. } => "Nothing was made. Ask the owner which log it is.",
        LogError::NoSnapshot { .. } => "List the snapshots: talaria log list --snapshots",
        LogError::SnapshotNotInForce { id, .. } => {
            return Some(format!("Other owners agree with it: talaria log approve {id}"));
        }
        LogError::BadSnapshot { .. } | LogError::Draft(DraftError::Snapshot(_)) => {
            "Do not sign it. An owner who has the right entries signs another one: talaria log snapshot make"
        }
        LogError::Snapshot { source: SnapshotError::OtherLog { .. }, .. } => {
            "Ask an owner for the identity of the log: talaria log stats"
        }
        LogError::Snapshot { source: SnapshotError::Malformed(_), .. } => {
            "A node of the log writes such a file: talaria log snapshot export -o FILE"
        }
        LogError::Snapshot { .. } => {
            "Do not trust the file. Ask an owner for another one: talaria log snapshot export -o FILE"
        }
        LogError::Damaged { .. } | LogError::Stored { .. } => {
            "Nothing was changed. Import the export of another node into a new folder, or restore a backup."
        }
        LogError::Failed | LogError::InUse { .. } => "Run the command again.",
        LogError::Draft(DraftError::Refused(refusal)) => return hint_for_refusal(refusal),
        LogError::Draft(DraftError::Links) => {
            "Each entry links to the newest entries of up to 8 devices. Put any change first, then do it again."
        }
        LogError::Draft(DraftError::Expired { .. }) => {
            "Ask an owner for a grant with the newer certificate: talaria log grant CERT"
        }
        LogError::Draft(DraftError::NotCheckpointer) => {
            "Name the file that was made with the log: talaria log init --checkpointer FILE"
        }
        LogError::Draft(DraftError::Ended(_)) => {
            "See why: talaria log history OBJECT\nAfter a fork, an owner chooses a branch: talaria log choose ENTRY"
        }
        LogError::Draft(DraftError::Key(error)) | LogError::Signer(SignerError::Policy(error)) => {
            return hint_for_message(error);
        }
        LogError::Update(error) => match error {
            UpdateError::NoObject(_) => "List the objects: talaria log list",
            UpdateError::Forked => {
                "To see them: talaria log verify\nTo name the last entry that counts: talaria log revoke AUTHOR --last ENTRY"
            }
            UpdateError::NoEntry(_) => {
                "Get it first: talaria log import FILE, or talaria log sync HOST:PORT"
            }
            UpdateError::Absent { .. } => "List the fields: talaria log get OBJECT",
            UpdateError::NotInteger(_) | UpdateError::Counter(_) => {
                "For example: talaria log put OBJECT FIELD -- -1"
            }
            UpdateError::NoDeletable(_) => {
                "Only values of `talaria log put --deletable` can be deleted for good. To see them all: talaria log history OBJECT"
            }
            UpdateError::NotReader { why: Unreadable::NoKey { .. }, .. } => {
                "Ask a reader, or begin an epoch whose readers include you: talaria log encrypt OBJECT FIELDS --to CERT"
            }
            UpdateError::EncryptionLost(_) => {
                "Encrypt it anew: talaria log encrypt OBJECT FIELDS --to CERT\nOr write it for all to read: talaria log encrypt OBJECT FIELDS --stop"
            }
            UpdateError::EncryptedCounter(_) => {
                "Encrypt fields of another rule, or leave the counter out of the pattern"
            }
            UpdateError::WhichElement(_) => "Name it: talaria log put --remove OBJECT FIELD VALUE",
            UpdateError::OneValue(_) => {
                "Leave out the value: talaria log put --remove OBJECT FIELD"
            }
            _ => return None,
        },
        LogError::Io { path, source, .. } => {
            return hint_for_file(&path.display().to_string(), source);
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for a connection.
fn hint_for_net(error: &NetError) -> Option<String> {
    let hint = match error {
        NetError::NotPublished { key } => {
            return Some(format!(
                "If it is a node of this log, an author publishes its key: talaria log node publish {key}"
            ));
        }
        NetError::OwnNotPublished { key } => {
            return Some(format!(
                "An author of the log publishes it: talaria log node publish {key}"
            ));
        }
        NetError::Sync(SyncError::OtherLog(_)) => {
            "To see which log a folder has: talaria log stats"
        }
        NetError::Listen { .. } => {
            "An address is HOST:PORT, such as 0.0.0.0:7711, and no other program has the port."
        }
        NetError::NotANode { .. } => {
            "Another node serves the log: talaria log serve --listen HOST:PORT"
        }
        NetError::Sync(SyncError::Replica(error)) | NetError::Log(error) => {
            return hint_for_log(error);
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for a witness.
fn hint_for_witness(error: &WitnessError) -> Option<String> {
    let hint = match error {
        WitnessError::Objection(Objection::Old { known, .. }) => {
            return Some(format!(
                "The log writes a request from there: talaria log checkpoint --old {known} --request FILE"
            ));
        }
        WitnessError::Objection(Objection::Inconsistent { .. }) => {
            "Keep the request: with the earlier one, it is evidence against the checkpointer."
        }
        WitnessError::Unknown { .. } => {
            "Let the witness cosign this log: talaria log witness trust DIR FILE"
        }
        WitnessError::NoKey { .. } => {
            "These make keys: talaria log init --checkpointer FILE, and talaria log witness init DIR NAME"
        }
        WitnessError::Occupied { .. } => "Name a file or folder that does not exist.",
        WitnessError::Request { .. } => "The log writes one: talaria log checkpoint --request FILE",
        WitnessError::Damaged { .. } => {
            "Nothing was cosigned. Restore the newest state from a backup, or make a new witness."
        }
        WitnessError::Io { path, source, .. } => {
            return hint_for_file(&path.display().to_string(), source);
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for an entry that the log does not allow.
fn hint_for_refusal(refusal: &Refusal) -> Option<String> {
    let hint = match refusal {
        Refusal::Stranger(_) | Refusal::NotGranted | Refusal::GrantNotInForce => {
            "See what you may do: talaria log list --grants\nAsk an owner for more: talaria log grant CERT"
        }
        Refusal::NotOwner => {
            "Ask an owner of the log to do it. To see the owners: talaria log stats"
        }
        Refusal::Revoked => {
            "An owner has ended this key or grant. Ask for another: talaria log grant CERT"
        }
        Refusal::TooLarge { .. } | Refusal::Malformed(_) => {
            "Store large values elsewhere, and put their hash and their place into the log."
        }
        Refusal::Algorithm(_) => {
            "Use a key that the log allows, such as Ed25519: talaria key generate"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn status_of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::NotFound(_) => 1,
        StoreError::Io { .. }
        | StoreError::Full { .. }
        | StoreError::TooLarge { .. }
        | StoreError::NoIndex { .. }
        | StoreError::Changed { .. } => 5,
        _ => 4,
    }
}

/// The remedy for damage that no rebuild of indexes repairs.
pub(crate) const RESTORE: &str = "Restore a backup of the store: talaria admin restore --overwrite BACKUP\nOr build a new store \
                                  from a keyring or a dump: talaria --store NEW build FILE…";

/// Whether a peer has ended the connection, as it does with addresses that are not those of its peers.
fn has_hung_up(what: &str) -> bool {
    ["closed the connection", "Connection reset", "Broken pipe"]
        .iter()
        .any(|text| what.contains(text))
}

/// The remedy for a store that `talaria admin restore` cannot restore.
fn hint_for_store_backup(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::Missing { .. } => {
            "Check the name of the backup. To write one: talaria admin backup FILE"
        }
        StoreError::Foreign { .. } => "Name a file that `talaria admin backup` wrote.",
        StoreError::Damaged { .. } | StoreError::DamagedCert { .. } => {
            "Restore another backup, or build a new store from a keyring or a dump: talaria --store NEW build FILE…"
        }
        StoreError::Outdated { path, .. } => {
            return Some(format!(
                "Make a copy of the backup, then upgrade it: talaria --store {} check --verify",
                shell_word(path)
            ));
        }
        error => return hint_for_store(error),
    };
    Some(hint.to_owned())
}

fn hint_for_store(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::Missing { .. } => "Make one: talaria import FILE… or talaria build FILE…",
        StoreError::Foreign { path } => {
            return Some(format!(
                "Name another file with --store, or import this one: talaria import {}",
                shell_word(path)
            ));
        }
        StoreError::Format { .. } => "Use a newer version of talaria. The file was not changed.",
        StoreError::DamagedCert { .. } => {
            "Repair it with a copy: talaria check --repair-from FILE\nOr with one from a keyserver: talaria check --keyserver URL"
        }
        StoreError::Outdated { .. } => {
            "Make a copy of the file, then upgrade it: talaria check --verify\nOlder versions cannot read it afterwards."
        }
        StoreError::Damaged { path, .. } => {
            return Some(format!(
                "List the damage, with a remedy for each kind: talaria --store {} check",
                shell_word(path)
            ));
        }
        StoreError::Orphan { log, .. } => {
            return Some(format!(
                "If the store was moved, put it back, or move {} to it. If it is gone, remove the log.",
                shell_word(log)
            ));
        }
        StoreError::Moved { .. } => {
            "The last change was not stored. Other running programs may have the old file open: end them, then try again."
        }
        StoreError::SecondName { path, name: SecondName::HardLink { .. } } => {
            return Some(format!(
                "Find the other names and remove them: find / -xdev -samefile {}\nFor a copy of the store: talaria admin backup FILE",
                shell_word(path)
            ));
        }
        StoreError::SecondName { name: SecondName::Mount, .. } => {
            "Mount the folder of the store instead of the file: the log is beside the store."
        }
        StoreError::NoIndex { path, log } => {
            return Some(format!(
                "Run a command that writes, as a user who may write to the folder. Or copy {} and {} to another folder, and use the copy.",
                shell_word(path),
                shell_word(log)
            ));
        }
        StoreError::Changed { .. } => "Try again.",
        StoreError::Busy { .. } => {
            "Another program is writing to the store. Try again when it has finished. To restore a backup, stop the keyserver first."
        }
        StoreError::Full { .. } => {
            "Free some space and try again. The data in the store is unharmed."
        }
        StoreError::TooLarge { .. } => LARGER_FILES,
        StoreError::ReadOnly { .. } => {
            "Check the permissions of the file and its folder, or use another --store."
        }
        StoreError::Io { action: "build", .. } => {
            "Build to another path (--store FILE), or add to it: talaria import FILE…"
        }
        StoreError::Io { path, source, .. } => {
            return hint_for_file(&path.display().to_string(), source);
        }
        StoreError::NotFound(fingerprint) => return Some(import_hint(&fingerprint.to_string())),
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for a compressed input that needs much memory.
pub(crate) fn decompress(name: &str, program: &str) -> String {
    let option = match program {
        "zstd" => " --long=31",
        _ => "",
    };
    format!("If you trust the file: {program} -dc{option} {} | talaria import -", shell_word(name))
}

/// The remedy for a file that would be larger than files may be.
const LARGER_FILES: &str =
    "Raise the limit on the size of files (ulimit -f), or use a file system with larger files.";

/// The remedy for a file that cannot be read or written.
fn hint_for_file(name: &str, error: &io::Error) -> Option<String> {
    if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) {
        return Some(
            "Open the file descriptor for the command, as the shell does: 3< FILE or 3> FILE."
                .to_owned(),
        );
    }
    Some(match error.kind() {
        io::ErrorKind::NotFound if name.contains("://") => {
            "talaria reads files, and URLs that start with https:// or http://.".to_owned()
        }
        io::ErrorKind::NotFound => match std::path::Path::new(name).parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
                format!("The folder does not exist: mkdir -p {}", shell_word(folder))
            }
            _ => "Check the spelling and the current folder.".to_owned(),
        },
        io::ErrorKind::PermissionDenied => {
            format!("Check the permissions: ls -ld {}", shell_word(name))
        }
        io::ErrorKind::IsADirectory => "Name a file in it.".to_owned(),
        io::ErrorKind::NotADirectory => "It is a file: name a folder.".to_owned(),
        io::ErrorKind::AlreadyExists => "Choose another name, or remove the file first.".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Free some space and try again.".to_owned()
        }
        io::ErrorKind::FileTooLarge => LARGER_FILES.to_owned(),
        _ => return None,
    })
}

/// The command for an input of this kind.
fn hint_for(kind: MessageKind, file: &str) -> Option<String> {
    Some(match kind {
        MessageKind::Encrypted => format!("To decrypt it: talaria decrypt {file}"),
        MessageKind::Signed | MessageKind::SignedText => {
            format!("To verify it and write its content: talaria verify --output OUT {file}")
        }
        MessageKind::DetachedSignature => {
            format!("To verify it: talaria verify {file} SIGNED-FILE")
        }
        MessageKind::Packed => {
            format!("To write its content, which nobody signed: talaria unpack {file}")
        }
        MessageKind::Certificate => format!("To import it: talaria import {file}"),
        MessageKind::SecretKey => format!("To import it: talaria key import {file}"),
        MessageKind::Damaged => DAMAGED.to_owned(),
        _ => return None,
    })
}

/// The hint for OpenPGP data that cannot be read.
const DAMAGED: &str = "Download it again, or ask the sender to send it again.";

/// Whether gpg-agent refused to use a key: the passphrase is wrong, or the user has said no.
fn agent_refuses(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(AgentError::Refused(_)) = error.downcast_ref() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A word for a shell command: quoted, if a shell would not take it as it is. Hidden characters are escapes of the shell.
pub(crate) fn shell_word(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "@%_+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    if hidden_characters(&text).all(|(_, is_hidden)| !is_hidden) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut word = "$'".to_owned();
    for (c, is_hidden) in hidden_characters(&text) {
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            _ if is_hidden => {
                for octet in c.encode_utf8(&mut [0; 4]).bytes() {
                    word.push_str(&format!("\\x{octet:02x}"));
                }
            }
            _ => word.push(c),
        }
    }
    word + "'"
}

/// Writes an error to standard error, with the name of the program. An error is one line, because its parts come from others, too.
pub(crate) fn complain(message: std::fmt::Arguments<'_>) {
    let message = message.to_string().replace('\n', r"\n");
    say(format_args!("{}: {message}", Paint::stderr().bad("talaria")));
}

/// Writes lines to standard error, without any effect of others on the terminal. A failure is ignored, because there is no other place to
/// report it; the exit status is the same anyway.
pub(crate) fn say(lines: std::fmt::Arguments<'_>) {
    let lines = each_line(lines.to_string().as_bytes(), harmless);
    let lines = String::from_utf8_lossy(&lines);
    match stderr_columns() {
        Some(columns) => write_line(&folded(&lines, columns)),
        None => write_line(&lines),
    }
}

/// Writes JSON to standard error.
pub(crate) fn say_json(json: &serde_json::Value) {
    write_line(&visible_json(&json.to_string()));
}

fn write_line(line: &str) {
    use std::io::Write as _;

    let _ = writeln!(std::io::stderr(), "{line}");
}
