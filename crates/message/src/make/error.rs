//! Errors of making and changing keys.

use sequoia_openpgp as openpgp;
use talaria_cert::Why;

use crate::error::MessageError;

/// The reason why a key could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// A certificate has no valid self-signature, or only self-signatures that are too weak.
    #[error("{name} is not valid")]
    Invalid {
        /// The fingerprint of the certificate.
        name: String,
        /// The reason.
        source: openpgp::anyhow::Error,
    },
    /// A certificate is revoked.
    #[error("{name} is revoked")]
    Revoked {
        /// The fingerprint of the certificate.
        name: String,
    },
    /// A certificate may not be used for the purpose.
    #[error("{name}: {why}")]
    Unusable {
        /// The fingerprint of the certificate.
        name: String,
        /// The reason.
        why: Why,
    },
    /// The secret key is missing from a certificate.
    #[error("{name}: the secret key is missing")]
    NoSecret {
        /// The fingerprint of the certificate.
        name: String,
    },
    /// No passphrase unlocks a key.
    #[error(transparent)]
    Locked(MessageError),
    /// The certificate already has the user ID.
    #[error("{name} already has the user ID {user_id}")]
    UserIdExists {
        /// The fingerprint of the certificate.
        name: String,
        /// The user ID.
        user_id: String,
    },
    /// A text is not allowed as a user ID.
    #[error("a user ID {0}")]
    UserId(&'static str),
    /// The expiry time is not after the start of the validity.
    #[error("the expiry date is before the creation date")]
    EndsTooEarly,
    /// Making a key or a signature failed.
    #[error("cannot create the signature")]
    Failed(#[source] openpgp::anyhow::Error),
}

pub(super) type Result<T> = std::result::Result<T, MakeError>;

impl MakeError {
    pub(super) fn failed(source: openpgp::anyhow::Error) -> Self {
        Self::Failed(source)
    }
}
