//! Facts about a repository that are no errors, and that its user must know.

use std::fmt;
use std::sync::Arc;

use talaria_backup::{BackupError, DocumentStanding, Id, Irregularity};
use talaria_cert::timestamp;
use talaria_message::openpgp::Fingerprint;

/// A fact about a repository that is no error, and that its user must know.
///
/// The text is one plain sentence. All but [`Notice::FirstUse`] are warnings.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// Nothing is known of the repository here, and the caller has not named its owner. If this is
    /// not the owner that the user expects, somebody has replaced the repository.
    FirstUse {
        /// The owner that the repository names.
        owner: Fingerprint,
    },
    /// The signer of the configuration is compromised, or had expired before: somebody else may
    /// have signed.
    DoubtfulConfiguration {
        /// The signer.
        signer: Fingerprint,
        /// The reason.
        why: String,
    },
    /// The clock of this machine is behind the repository: it says a time before the configuration.
    ClockBehind {
        /// What the clock says, in seconds since 1970.
        now: u32,
        /// The time of the configuration.
        configuration: u32,
    },
    /// The keys of an epoch are not there, so what was encrypted in it cannot be read.
    MissingKeys(Arc<BackupError>),
    /// A document cannot be read: a snapshot, an index, a record of a drill.
    Unreadable(BackupError),
    /// A fault in the chain of a client.
    Irregular(Irregularity),
    /// The snapshot that the user named is not known to be good.
    NotGood {
        /// The snapshot.
        id: Id,
        /// Whose word it is.
        standing: DocumentStanding,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstUse { owner } => {
                write!(f, "First use of this repository here. Its owner is {}.", owner.to_hex())
            }
            Self::DoubtfulConfiguration { signer, why } => {
                let signer = signer.to_hex();
                write!(f, "the configuration of the repository is signed by {signer}, and {why}.")
            }
            Self::ClockBehind { now, configuration } => write!(
                f,
                "the clock of this machine says {}, and the repository has a configuration of {}. Reading goes on.",
                timestamp(*now),
                timestamp(*configuration)
            ),
            Self::MissingKeys(error) => error.fmt(f),
            Self::Unreadable(error) => error.fmt(f),
            Self::Irregular(irregularity) => write!(f, "{irregularity}."),
            Self::NotGood { id, standing } => write!(f, "snapshot {id} is {standing}."),
        }
    }
}
