//! Errors of the use of a backup repository.

use talaria_backup::{BackupError, Id};
use talaria_cert::ErrorKind;
use talaria_message::openpgp::Fingerprint;

use crate::backup::authority::Authority;
use crate::backup::time_span::time_span;

/// The reason why a repository was not used, or is not as it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The repository, its storage or a file reported an error.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// There is no repository in the place.
    #[error("{place} is not a backup repository")]
    NoRepository {
        /// The place.
        place: String,
    },
    /// A snapshot that the user expects is not there.
    #[error(
        "the repository is damaged or was changed: the expected snapshot {head} is missing; somebody may have put \
         back an old state"
    )]
    HeadMissing {
        /// The identifier of the snapshot.
        head: Id,
    },
    /// None of the user's certificates may do this in the repository.
    #[error("none of your keys {authority} this repository; its owner is {}", owner.to_hex())]
    NoAuthority {
        /// The missing authority.
        authority: Authority,
        /// The owner, who could do it.
        owner: Fingerprint,
    },
    /// Several of the user's certificates may do this in the repository.
    #[error("you have {} keys that can do this here: choose one", candidates.len())]
    WhichSigner {
        /// The certificates: fingerprints and names.
        candidates: Vec<String>,
    },
    /// A name stands for no reader or client of the repository, or for several.
    #[error("{query} is not one reader or client of the repository")]
    NotMember {
        /// The name.
        query: String,
    },
    /// A client would lose more than half of its snapshots.
    #[error(
        "client {} would lose more than half of its snapshots",
        client.as_ref().map_or("none".into(), Fingerprint::to_hex)
    )]
    Halved {
        /// The client; `None` for snapshots without a signature.
        client: Option<Fingerprint>,
    },
    /// The newest snapshots of clients are too old, or there is no snapshot at all.
    #[error("there is no snapshot of {} from the last {}", whose(clients), time_span(*age_max_s))]
    Stale {
        /// The names of the clients; empty if there is no snapshot.
        clients: Vec<String>,
        /// The allowed age in seconds.
        age_max_s: u32,
    },
    /// The last restore drills of clients are too old, have failed, or were never done.
    #[error("there was no good restore drill in the last {}: {}", time_span(*age_max_s), last(drills))]
    Undrilled {
        /// The clients and their last drills, in words; empty if there is no snapshot.
        drills: Vec<String>,
        /// The allowed age in seconds.
        age_max_s: u32,
    },
}

impl ClientError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Backup(error) => error.kind(),
            Self::HeadMissing { .. } => ErrorKind::Store,
            Self::WhichSigner { .. } => ErrorKind::Ambiguous,
            Self::Halved { .. } => ErrorKind::Refused,
            Self::NoRepository { .. }
            | Self::NoAuthority { .. }
            | Self::NotMember { .. }
            | Self::Stale { .. }
            | Self::Undrilled { .. } => ErrorKind::NotFound,
        }
    }
}

fn whose(clients: &[String]) -> String {
    if clients.is_empty() { "anybody".into() } else { clients.join(", ") }
}

fn last(drills: &[String]) -> String {
    if drills.is_empty() { "there is no snapshot".into() } else { drills.join(", ") }
}
