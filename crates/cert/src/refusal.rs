//! Why a certificate is not taken.

use crate::split::CERT_BYTES_MAX;

/// Why a readable certificate was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IngestRefusal {
    /// The certificate was deleted and blocked.
    #[error("the certificate is blocked")]
    Blocked,
    /// The store has another primary key with the same fingerprint (possible in version 3, or with
    /// a collision of SHA-1).
    #[error("the store has another primary key with the same fingerprint")]
    OtherPrimaryKey,
    /// The merged certificate is above [`CERT_BYTES_MAX`] or [`crate::PACKETS_MAX`].
    #[error(
        "merged with the copy in the store, the certificate has more than {CERT_BYTES_MAX} bytes"
    )]
    TooLarge,
    /// The certificate has more signatures in the name of its owner than are looked at
    /// ([`crate::Limits::signatures`]).
    #[error("the certificate has more signatures in the name of its owner than this server reads")]
    TooManySignatures,
    /// The bytes of the stored copy are not those that were written.
    #[error("the copy in the store is damaged")]
    DamagedCopy,
}
