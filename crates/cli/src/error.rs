//! The one place where errors become text, a hint and an exit status.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use talaria::agent::AgentError;
use talaria::gnupg::GnupgError;
use talaria::message::{MessageError, MessageKind};
use talaria::status;
use talaria::store::StoreError;

use crate::terminal::Paint;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Operation(#[from] talaria::Error),
    /// Writing to standard output or standard error.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
    /// The configuration of a server.
    #[error(transparent)]
    Config(#[from] talaria_server::ConfigError),
    /// The file of the user with options.
    #[error(transparent)]
    Settings(#[from] crate::config::SettingsError),
    /// A server could not be started.
    #[error(transparent)]
    Serve(talaria_server::ServeError),
    /// A benchmark could not be run.
    #[error("{0}")]
    Bench(String),
    /// Something that was named is not there.
    #[error("{0}")]
    Missing(String),
    /// Whoever read the output went away before a message was looked at to its end.
    #[error("the reader of the output went away before the message was checked to its end")]
    ReaderGone,
    /// A detached signature without the file that it is on.
    #[error("it is a detached signature, and there is no {}", file.as_deref().unwrap_or("file beside it"))]
    Detached { file: Option<String> },
    /// The user stopped work on a message.
    #[error("interrupted")]
    Stopped,
    /// There is nothing to sign with, and nothing is named.
    #[error("there is no secret key that can sign")]
    NoSigner,
    /// There is nothing to certify with, and nothing is named.
    #[error("there is no secret key that can certify")]
    NoCertifier,
    /// Several keys can sign, and none is named.
    #[error("{} keys can sign, and none is named", candidates.len())]
    WhichSigner { candidates: Vec<String> },
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
        // Work that was stopped says so through whatever it was reading.
        if let MessageError::Read(source) = &error
            && source.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<talaria::Error>)
        {
            return Self::Stopped;
        }
        Self::Operation(error.into())
    }
}

impl From<talaria_server::ServeError> for CliError {
    fn from(error: talaria_server::ServeError) -> Self {
        match error {
            talaria_server::ServeError::Config(error) => Self::Config(error),
            talaria_server::ServeError::Store(error) => error.into(),
            other => Self::Serve(other),
        }
    }
}

impl CliError {
    /// The status lines about an input that is not what was expected, by how it starts.
    pub(crate) fn no_data(&self, start: Option<&[u8]>) -> Vec<String> {
        match self {
            Self::Operation(talaria::Error::Message(MessageError::OtherKind {
                found: MessageKind::Packed,
                ..
            })) => status::unsigned(),
            Self::Detached { .. }
            | Self::Operation(talaria::Error::Message(
                MessageError::OtherKind { .. } | MessageError::Malformed(_),
            )) => status::no_data(start),
            _ => Vec::new(),
        }
    }

    /// As it is, unless the reader of the output went away: that is no success of a command that must look at
    /// all of its input before it can say that it is whole, and who signed it.
    pub(crate) fn unread(self) -> Self {
        if self.is_broken_pipe() { Self::ReaderGone } else { self }
    }

    /// Prints the error with its causes and what can be done, and gives the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        if self.is_broken_pipe() {
            // Whoever read the output has seen enough.
            return ExitCode::SUCCESS;
        }
        let prefix = Paint::stderr().bad("talaria");
        eprintln!("{prefix}: {}", talaria::describe(self));
        if let Self::Ambiguous { candidates, .. }
        | Self::WhichSigner { candidates }
        | Self::Operation(
            talaria::Error::Ambiguous { candidates, .. }
            | talaria::Error::Inexact { candidates, .. },
        ) = self
        {
            candidates.iter().for_each(|line| eprintln!("  {line}"));
        }
        if let Some(hint) = self.hint() {
            eprintln!("  {hint}");
        }
        ExitCode::from(self.status())
    }

    fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Output(error)
            | Self::Operation(
                talaria::Error::Io { source: error, .. }
                | talaria::Error::Message(MessageError::Write(error)),
            ) => error.kind() == io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }

    pub(crate) fn status(&self) -> u8 {
        use talaria::Error as E;
        match self {
            Self::Usage(_) | Self::WhichSigner { .. } => 2,
            Self::Stopped => 130,
            Self::Config(_) | Self::Settings(_) | Self::Detached { .. } => 3,
            Self::Output(_) | Self::ReaderGone | Self::Bench(_) | Self::Serve(_) => 5,
            Self::Ambiguous { .. } | Self::Missing(_) | Self::NoSigner | Self::NoCertifier => 1,
            Self::Operation(error) => match error {
                E::NotFound { .. } | E::Store(StoreError::NotFound(_)) => 1,
                E::Inexact { .. } | E::NoUserId { .. } | E::NoSubkey { .. } => 1,
                E::Query(_)
                | E::Address { .. }
                | E::Keyring { .. }
                | E::Token { .. }
                | E::Bookmark => 2,
                E::Unrecognised { .. } | E::Dump { .. } => 3,
                E::Gnupg(GnupgError::Io { .. }) => 5,
                E::Gnupg(GnupgError::Locked { .. } | GnupgError::UsesKeyboxd { .. }) => 4,
                E::Gnupg(_) | E::Foreign { .. } => 3,
                E::Store(StoreError::Io { .. } | StoreError::Full { .. }) => 5,
                E::Store(_) => 4,
                E::Ambiguous { .. } | E::NoKey { .. } | E::NoSecret { .. } => 1,
                E::Exposed { .. } | E::KeyFile { .. } => 4,
                E::KeyRefused { .. } => 3,
                E::Agent(AgentError::Refused(_)) => 1,
                E::Agent(_) => 4,
                E::Message(error) => match error {
                    MessageError::NoSecret { .. }
                    | MessageError::Key { .. }
                    | MessageError::NotAccepted(_) => 1,
                    MessageError::Usage(_) => 2,
                    MessageError::Read(_) | MessageError::Write(_) => 5,
                    MessageError::Secret(error) if agent_refuses(&**error) => 1,
                    MessageError::Secret(_) => 4,
                    _ => 3,
                },
                E::Interrupted => 130,
                _ => 5,
            },
        }
    }

    fn hint(&self) -> Option<&'static str> {
        use talaria::Error as E;
        Some(match self {
            Self::Ambiguous { .. } => "Name one of them by its fingerprint.",
            Self::NoSigner | Self::NoCertifier => {
                "Make one with `talaria key generate`, take one in with `talaria key import FILE`, or \
                 name one that gpg-agent has: --with KEY."
            }
            Self::WhichSigner { .. } => "Name one of them with --with.",
            Self::Detached { .. } => {
                "`talaria verify --signature SIGNATURE FILE` checks it on FILE."
            }
            Self::Stopped => "No file was written. What went to standard output is not complete.",
            Self::Serve(talaria_server::ServeError::Listen { source, .. }) => match source.kind() {
                io::ErrorKind::AddrInUse => {
                    "Another program listens there: `ss -ltnp` names it. (An address of [::] takes \
                     IPv4, too.) --listen takes another address."
                }
                io::ErrorKind::PermissionDenied => {
                    "Ports below 1024 need a privilege: CAP_NET_BIND_SERVICE, or a proxy in front."
                }
                io::ErrorKind::AddrNotAvailable => "No interface of this machine has the address.",
                _ => return None,
            },
            Self::Config(_) => "docs/server.toml has all settings with their defaults.",
            Self::Operation(error) => match error {
                E::Ambiguous { .. } => "Name one of them by its fingerprint.",
                E::Inexact { .. } => {
                    "If one of these is meant, name it by its fingerprint or by its whole address."
                }
                E::NoKey { .. } => {
                    "`talaria key list` names those that there are; `talaria key import FILE` takes one \
                     in, and --gpg-agent uses those of GnuPG."
                }
                E::Exposed { .. } => {
                    "`chmod go= PATH` takes that from them. If anybody may have read it, change its \
                     passphrase, or revoke the key."
                }
                E::Agent(AgentError::Absent) => "--gpg-agent starts it.",
                E::Agent(AgentError::Gpgconf(_)) => "Is GnuPG installed?",
                E::Message(MessageError::OtherKind { found, .. }) => return hint_for(*found),
                E::Message(MessageError::NoSecret { recipients, .. }) if recipients.is_empty() => {
                    "Give its passphrase with --passphrase-file, --passphrase-fd or --passphrase-env."
                }
                E::Message(MessageError::NoSecret { .. }) => {
                    "Name a file with the key with --key-file, or give the passphrase with \
                     --passphrase-file."
                }
                E::Message(MessageError::Tampered(_) | MessageError::Truncated(_)) => {
                    "Use nothing that came out of it. Fetch it again, or ask the sender."
                }
                E::Message(MessageError::Unopened) => {
                    "Fetch it again, or ask the sender whether it was for this key."
                }
                E::Message(MessageError::TooLarge { what, .. }) if what.contains("Argon2") => {
                    "If you trust the sender, --max-argon2 raises the limit."
                }
                E::Message(MessageError::TooLarge { .. }) => {
                    "If you trust the sender, --max-expansion raises the limit on content."
                }
                E::Store(StoreError::Missing { .. }) => {
                    "Make one with `talaria import FILE…` or `talaria build FILE…`."
                }
                E::Store(StoreError::Foreign { .. }) => {
                    "Name another file with --store, or import this one: `talaria import FILE`."
                }
                E::Store(StoreError::Format { .. }) => {
                    "Use a newer talaria. The file is untouched."
                }
                E::Store(StoreError::Damaged { .. }) => {
                    "`talaria check` names all that is damaged; `talaria check --rebuild` makes the \
                     indexes again."
                }
                E::Store(StoreError::Busy { .. }) => {
                    "Another program is writing to it. Try again when it is done."
                }
                E::Store(StoreError::Full { .. }) => {
                    "Free some space and try again. What was there is unharmed."
                }
                E::Store(StoreError::ReadOnly { .. }) => {
                    "Check the permissions of the file and its folder, or use another --store."
                }
                E::Store(StoreError::Io { action: "build", .. }) => {
                    "It exists already. Build to another path, or add to it with `talaria import`."
                }
                E::Bookmark => {
                    "Start again without --after, or name the same store and certificates."
                }
                E::Dump { .. } => "A dump of all certificates, without --incremental, starts anew.",
                E::Interrupted => {
                    "What was reported as done is done. The same command again does the rest."
                }
                E::Unrecognised { .. } => {
                    "talaria reads keyrings (binary or armored), SKS dumps, GnuPG's pubring.kbx, \
                     pubring.gpg, pubring.db and ownertrust, certificate directories and its own stores."
                }
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// What takes an input of this kind.
fn hint_for(kind: MessageKind) -> Option<&'static str> {
    Some(match kind {
        MessageKind::Encrypted => "`talaria decrypt` decrypts it and checks its signatures.",
        MessageKind::Signed | MessageKind::SignedText => {
            "`talaria verify --output OUT FILE` checks it and writes its content."
        }
        MessageKind::DetachedSignature => {
            "`talaria verify --signature SIGNATURE FILE` checks it on FILE."
        }
        MessageKind::Packed => "`talaria unpack` writes its content, which nobody signed.",
        MessageKind::Certificate => "`talaria import` takes it.",
        MessageKind::SecretKey => "`talaria key import` takes it.",
        _ => return None,
    })
}

/// Whether gpg-agent did not use a key: the passphrase is wrong, or the user has said no.
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
