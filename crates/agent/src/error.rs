//! Errors of gpg-agent.

use std::path::PathBuf;
use std::{fmt, io};

use talaria_cert::ErrorKind;

/// The reason why gpg-agent did not carry out a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// No agent is running, and none may be started.
    #[error("gpg-agent is not running")]
    Absent,
    /// GnuPG has no home directory yet, so there is no agent, and there are no keys.
    #[error("GnuPG has no home directory {}, so gpg-agent has no keys", home.display())]
    NoHome {
        /// The path of the directory.
        home: PathBuf,
    },
    /// GnuPG's program gpgconf, which knows the agent's socket and starts the agent, cannot be run.
    #[error("cannot run gpgconf")]
    Gpgconf(#[source] io::Error),
    /// gpgconf cannot start the agent, or does not know its socket.
    #[error("gpgconf cannot reach gpg-agent: {0}")]
    NotStarted(String),
    /// The connection to the agent failed.
    #[error("cannot talk to gpg-agent at {}", socket.display())]
    Io {
        /// The path of the agent's socket.
        socket: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The agent or the user refused the request.
    #[error("gpg-agent refuses: {0}")]
    Refused(Refusal),
    /// The answer of the agent cannot be understood.
    #[error("gpg-agent sent an invalid answer: {0}")]
    Malformed(&'static str),
}

impl AgentError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(_) => ErrorKind::UnusableKey,
            Self::Absent
            | Self::NoHome { .. }
            | Self::Gpgconf(_)
            | Self::NotStarted(_)
            | Self::Io { .. }
            | Self::Malformed(_) => ErrorKind::KeyHolder,
        }
    }

    /// Whether the agent has refused, by an error or one of its causes: the passphrase is wrong, or
    /// the user said no.
    #[must_use]
    pub fn is_refusal(error: &(dyn std::error::Error + 'static)) -> bool {
        Refusal::of(error).is_some()
    }
}

/// The refusal of the agent, with a remedy where one is known.
#[derive(Debug)]
pub struct Refusal {
    /// The number of libgpg-error, with the error source.
    pub(super) number: u32,
    /// The code of libgpg-error, without the error source.
    pub(super) code: u16,
    pub(super) text: String,
}

impl Refusal {
    /// The number of the error in GnuPG, with its source.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The text of the error in GnuPG.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.rsplit_once(" <").map_or(&self.text, |(text, _)| text)
    }

    /// The refusal among the causes of an error.
    #[must_use]
    pub fn of<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Self> {
        std::iter::successors(Some(error), |error| error.source()).find_map(|error| {
            match error.downcast_ref() {
                Some(AgentError::Refused(refusal)) => Some(refusal),
                _ => None,
            }
        })
    }

    pub(super) const BAD_PIN: u16 = 87;
    const CARD_REMOVED: u16 = 110;
    const CARD_NOT_PRESENT: u16 = 112;
    pub(super) const NO_SCDAEMON: u16 = 119;
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)?;
        to.write_str(match self.code {
            Self::BAD_PIN => "; `gpg --card-status` shows the number of remaining tries",
            Self::CARD_REMOVED | Self::CARD_NOT_PRESENT => {
                "; the key is on a card: insert it, and check that `gpg --card-status` shows it"
            }
            Self::NO_SCDAEMON => "; the key is on a card, which needs GnuPG's scdaemon",
            _ => "",
        })
    }
}
