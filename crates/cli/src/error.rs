//! Errors of the commands, and what each of them means for the caller.

use std::error::Error;
use std::io;

use talaria::agent::AgentError;
use talaria::backup::{BackupError, ClientError};
use talaria::cert::ErrorKind;
use talaria::message::{MessageError, MessageKind};
use talaria::status;
use talaria::store::StoreError;
use talaria_log::{LogError, UpdateError, WitnessError};
use talaria_log_net::{KeyError, NetError};
use talaria_server::{ConfigError, ServeError};

use crate::outcome::Outcome;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Operation(talaria::Error),
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
    Serve(ServeError),
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
    #[error("{}: {error}", input_name(name.as_deref()))]
    In {
        /// `None` for standard input.
        name: Option<String>,
        error: Box<CliError>,
    },
    /// A file has keys, and none of them is secret.
    #[error("{name}: there is no secret key in it")]
    NoSecretKey { name: String },
    /// A passphrase is empty.
    #[error("the passphrase from {origin} is empty")]
    EmptyPassphrase { origin: String },
    /// The user stopped work on a message.
    #[error("interrupted")]
    Stopped,
    /// An error of the library, and the commands that say more about it.
    #[error("{error}; {more}")]
    With { error: Box<talaria::Error>, more: String },
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

impl From<talaria::Error> for CliError {
    fn from(error: talaria::Error) -> Self {
        match error {
            talaria::Error::Log(error) => error.into(),
            talaria::Error::Witness(error) => error.into(),
            error => Self::Operation(error),
        }
    }
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

impl From<BackupError> for CliError {
    fn from(error: BackupError) -> Self {
        ClientError::from(error).into()
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::WhichSigner { candidates } => {
                Self::WhichSigner { can: "do this here", candidates }
            }
            ClientError::NotMember { .. } => {
                Self::Missing(format!("{error}: use a fingerprint from talaria backup key list"))
            }
            ClientError::Undrilled { .. } => {
                Self::Missing(format!("{error}; to do one: talaria backup drill"))
            }
            ClientError::Halved { .. } => {
                let how = "look with --dry-run, then use --yes";
                BackupError::Refused(format!("{error}: {how}")).into()
            }
            error => Self::Operation(error.into()),
        }
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

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Config(error) => Self::Config(error),
            other => Self::Serve(other),
        }
    }
}

/// The name of an input; `None` is standard input.
pub(crate) fn input_name(name: Option<&str>) -> &str {
    name.unwrap_or("standard input")
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

    /// Replaces the error of a closed output pipe. A command that must check its whole input has
    /// not succeeded if the reader of its output ended early: it does not know whether the message
    /// is complete, nor who signed it.
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
        Self::In { name: name.map(|name| name.display().to_string()), error: Box::new(self) }
    }

    /// The candidates for an ambiguous or inexact name.
    pub(crate) fn candidates(&self) -> &[String] {
        match self {
            Self::Ambiguous { candidates, .. }
            | Self::ManyObjects { candidates, .. }
            | Self::WhichSigner { candidates, .. }
            | Self::SecondKey { candidates, .. }
            | Self::Operation(
                talaria::Error::Ambiguous { candidates, .. }
                | talaria::Error::Inexact { candidates, .. }
                | talaria::Error::InexactUserId { candidates, .. }
                | talaria::Error::Unconfirmed { candidates, .. }
                | talaria::Error::WhichSigner { candidates, .. },
            ) => candidates,
            Self::In { error, .. } => error.candidates(),
            _ => &[],
        }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Output(error)
            | Self::Log(LogError::Io { source: error, .. })
            | Self::Operation(
                talaria::Error::Io { source: error, .. }
                | talaria::Error::Message(MessageError::Write(error)),
            ) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::In { error, .. } => error.is_broken_pipe(),
            _ => false,
        }
    }

    /// The exit status, and the name in JSON.
    pub(crate) fn outcome(&self) -> Outcome {
        let kind = match self {
            Self::In { error, .. } => return error.outcome(),
            Self::Declined => return Outcome::DECLINED,
            Self::Unconfirmed { .. } => return Outcome::UNCONFIRMED,
            Self::Operation(error) => error.kind(),
            Self::With { error, .. } => error.kind(),
            Self::Log(error) => error.kind(),
            Self::Witness(error) => error.kind(),
            Self::Net(error) => error.kind(),
            Self::NodeKey(error) => error.kind(),
            Self::Unchecked(error) | Self::NotRebuilt(error) | Self::StoreBackup(error) => {
                error.kind()
            }
            Self::Serve(error) => match error {
                ServeError::Config(_) => ErrorKind::Malformed,
                ServeError::Store(cause) => {
                    cause.downcast_ref().map_or(ErrorKind::Io, StoreError::kind)
                }
                ServeError::Listen { .. }
                | ServeError::Tls(_)
                | ServeError::Peer(_)
                | ServeError::Audit(_)
                | ServeError::Runtime(_)
                | ServeError::Writer(_)
                | ServeError::WriterPanicked => ErrorKind::Io,
            },
            Self::Ambiguous { .. } | Self::ManyObjects { .. } | Self::WhichSigner { .. } => {
                ErrorKind::Ambiguous
            }
            Self::Missing(_) => ErrorKind::NotFound,
            Self::Usage(_)
            | Self::EmptyPassphrase { .. }
            | Self::NoHome { .. }
            | Self::SameFile { .. }
            | Self::SecondKey { .. } => ErrorKind::Usage,
            Self::Config(_)
            | Self::Settings(_)
            | Self::Detached { .. }
            | Self::OtherContent { .. }
            | Self::NoSecretKey { .. }
            | Self::Updates(_) => ErrorKind::Malformed,
            Self::Output(_)
            | Self::ReaderGone
            | Self::Exists { .. }
            | Self::Program(_)
            | Self::Bench(_) => ErrorKind::Io,
            Self::Stopped => ErrorKind::Interrupted,
        };
        match kind {
            // A refusal of gpg-agent comes through the library for messages, which does not know
            // the agent.
            ErrorKind::KeyHolder if AgentError::is_refusal(self) => ErrorKind::UnusableKey.into(),
            kind => kind.into(),
        }
    }
}
