//! Generating and changing keys, in memory: generate, certify, add user IDs and subkeys, renew, revoke, lock.
//!
//! Certificates, times and passphrases are the input; signatures and packets are the output. The caller
//! merges them into the certificate and stores it. Nothing here opens a file or reads a clock.
//!
//! New signatures are dated `now`, or one second after the signature that they replace if that is later. Of
//! two signatures with the same date, readers may follow either.
//!
//! ```
//! use talaria_message::make::{self, CertifyOptions, GenerateOptions, Protection};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (policy, now) = (talaria_message::policy(), 1_800_000_000);
//! let key = |name: &str| {
//!     let mut options = GenerateOptions::default();
//!     options.user_ids = vec![name.to_owned()];
//!     make::generate(&options, &Protection::Unprotected, now)
//! };
//! let (alice, bob) = (key("<alice@example.org>")?.cert, key("<bob@example.org>")?.cert);
//!
//! // Alice has compared Bob's fingerprint with him.
//! let mut signer = make::certifier(&alice, policy, now, &mut |_, _| None)?;
//! for user_id in make::certifiable(&bob, policy, now)? {
//!     let says = CertifyOptions::default();
//!     let certification = make::certify(&bob, &user_id, &mut signer, &says, now)?;
//!     let bob = bob.clone().insert_packets([certification])?.0;
//!     assert!(make::is_certified(&bob, &user_id, &alice, &says, policy, now));
//! }
//! # Ok(())
//! # }
//! ```

mod certify;
mod generate;
mod protect;
mod renew;
mod revoke;
mod subkey;
mod user_id;

use std::time::{Duration, SystemTime};

use openpgp::cert::ValidCert;
use openpgp::crypto::{KeyPair, Password};
use openpgp::packet::Key;
use openpgp::packet::key::{PublicParts, SecretParts, UnspecifiedRole};
use openpgp::policy::Policy;
use sequoia_openpgp as openpgp;

pub use certify::{
    CertifyOptions, Introduction, certifiable, certifier, certify, is_certified, may_certify,
};
pub use generate::{GenerateOptions, Generated, KeyAlgorithm, KeyProfile, KeyUses, generate};
pub use protect::{Protection, SecretKey, is_stub, protected, unlocked, with_secrets};
pub use renew::{RenewOptions, renew, set_expiry};
pub use revoke::{RevocationReason, Revoked, revoke};
pub use subkey::{SubkeyOptions, SubkeyUse, add_subkey};
pub use user_id::{Rank, add_user_id};

use crate::error::MessageError;
use crate::keys::{AskForKey, unlock};
use crate::revoked::{Revocations, evaluated};

/// The reason why a key could not be made or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// A certificate has expired, or is not valid yet.
    #[error("{name} is not valid now")]
    NotAlive {
        /// The fingerprint of the certificate.
        name: String,
        /// The reason, with the end or the start of the validity.
        source: openpgp::anyhow::Error,
    },
    /// A primary key may not certify the user IDs of others.
    #[error("{name} may not certify")]
    MayNotCertify {
        /// The fingerprint of the certificate.
        name: String,
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

type Result<T> = std::result::Result<T, MakeError>;

impl MakeError {
    fn failed(source: openpgp::anyhow::Error) -> Self {
        Self::Failed(source)
    }
}

/// `cert` at the time `now`, if it is neither revoked nor expired.
fn alive<'c>(cert: &'c openpgp::Cert, policy: &'c dyn Policy, now: u32) -> Result<ValidCert<'c>> {
    let valid = valid(cert, policy, now)?;
    let name = || cert.fingerprint().to_hex();
    valid.alive().map_err(|source| MakeError::NotAlive { name: name(), source })?;
    Ok(valid)
}

/// `cert` at the time `now`, if it is not revoked. It may have expired.
fn valid<'c>(cert: &'c openpgp::Cert, policy: &'c dyn Policy, now: u32) -> Result<ValidCert<'c>> {
    let name = || cert.fingerprint().to_hex();
    let valid = evaluated(cert, policy, at(now))
        .map_err(|source| MakeError::Invalid { name: name(), source })?;
    let revocations = Revocations::of(cert, policy, &mut |_| Vec::new(), now);
    if revocations.end(&valid) { Err(MakeError::Revoked { name: name() }) } else { Ok(valid) }
}

/// The unlocked primary key of `cert`, and the passphrase that unlocked it.
fn primary(cert: &openpgp::Cert, ask: &mut AskForKey<'_>) -> Result<(KeyPair, Option<Password>)> {
    let key = cert.primary_key().key().role_as_unspecified().clone().parts_into_secret();
    let key = key.map_err(|_| MakeError::NoSecret { name: cert.fingerprint().to_hex() })?;
    opened(key, ask)
}

/// The unlocked key pair of `key`, and the passphrase that unlocked it, if the key was locked.
fn opened(
    key: Key<SecretParts, UnspecifiedRole>,
    ask: &mut AskForKey<'_>,
) -> Result<(KeyPair, Option<Password>)> {
    let mut used = None;
    let mut noting = |asked: usize, key: &Key<PublicParts, UnspecifiedRole>| {
        used = ask(asked, key);
        used.clone()
    };
    let pair = unlock(key, &mut noting).map_err(MakeError::Locked)?;
    Ok((pair, used))
}

fn at(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into())
}

/// `now`, or one second after `earlier` if that is later.
fn after(earlier: Option<SystemTime>, now: u32) -> SystemTime {
    let next = earlier.map(|earlier| earlier + Duration::from_secs(1));
    next.map_or(at(now), |next| next.max(at(now)))
}
