//! Making and changing keys, in memory: generate, certify, add user IDs and subkeys, renew, revoke, lock.
//!
//! Certificates, times and passphrases go in, signatures and packets come out; the caller joins them into the
//! certificate and keeps it. Nothing here opens a file or reads a clock.
//!
//! New signatures are dated `now`, or one second behind the one that they take the place of if that is later:
//! of two with the same date, readers may follow either.
//!
//! ```
//! use talaria_message::make::{self, Certification, GenerateOptions, Protection};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (policy, now) = (talaria_message::policy(), 1_800_000_000);
//! let key = |name: &str| {
//!     let options = GenerateOptions { user_ids: vec![name.to_owned()], ..Default::default() };
//!     make::generate(&options, &Protection::Unprotected, now)
//! };
//! let (alice, bob) = (key("<alice@example.org>")?.cert, key("<bob@example.org>")?.cert);
//!
//! // Alice has compared Bob's fingerprint with him.
//! let mut signer = make::certifier(&alice, policy, now, &mut |_, _| None)?;
//! for user_id in make::certifiable(&bob, policy, now)? {
//!     let says = Certification::default();
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
    Certification, Introduction, certifiable, certifier, certify, is_certified, may_certify,
};
pub use generate::{GenerateOptions, Generated, KeyAlgorithm, KeyProfile, KeyUses, generate};
pub use protect::{Protection, SecretKey, is_stub, protected, unlocked, with_secrets};
pub use renew::{RenewOptions, renew, set_expiry};
pub use revoke::{RevocationReason, Revoked, revoke};
pub use subkey::{SubkeyOptions, SubkeyUse, add_subkey};
pub use user_id::{Rank, add_user_id};

use crate::error::MessageError;
use crate::keys::{AskForKey, unlock};
use crate::revoked::Revocations;

/// Why a key could not be made or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// A certificate has no valid self-signature, or only ones that are too weak.
    #[error("{name} is not valid")]
    Invalid {
        /// Its fingerprint.
        name: String,
        /// Why not.
        source: openpgp::anyhow::Error,
    },
    /// A certificate is revoked.
    #[error("{name} is revoked")]
    Revoked {
        /// Its fingerprint.
        name: String,
    },
    /// A certificate has expired, or begins later.
    #[error("{name} is not valid now")]
    NotAlive {
        /// Its fingerprint.
        name: String,
        /// What it says of its time.
        source: openpgp::anyhow::Error,
    },
    /// A primary key may not certify the user IDs of others.
    #[error("{name} may not certify")]
    MayNotCertify {
        /// Its fingerprint.
        name: String,
    },
    /// A certificate comes without the secret that is needed.
    #[error("{name}: the secret key is missing")]
    NoSecret {
        /// Its fingerprint.
        name: String,
    },
    /// No passphrase unlocks a key.
    #[error(transparent)]
    Locked(MessageError),
    /// A certificate has a user ID already.
    #[error("{name} has the user ID {user_id} already")]
    UserIdExists {
        /// The fingerprint of the certificate.
        name: String,
        /// The user ID.
        user_id: String,
    },
    /// A text cannot be a user ID.
    #[error("a user ID {0}")]
    UserId(&'static str),
    /// An end of validity that is not behind the beginning.
    #[error("it would end before it begins")]
    EndsTooEarly,
    /// A key or signature could not be made.
    #[error("the signature could not be made")]
    Failed(#[source] openpgp::anyhow::Error),
}

type Result<T> = std::result::Result<T, MakeError>;

impl MakeError {
    fn failed(source: openpgp::anyhow::Error) -> Self {
        Self::Failed(source)
    }
}

/// `cert` as it is at `now`, if it is neither revoked nor expired.
fn alive<'c>(cert: &'c openpgp::Cert, policy: &'c dyn Policy, now: u32) -> Result<ValidCert<'c>> {
    let valid = valid(cert, policy, now)?;
    let name = || cert.fingerprint().to_hex();
    valid.alive().map_err(|source| MakeError::NotAlive { name: name(), source })?;
    Ok(valid)
}

/// `cert` as it is at `now`, if it is not revoked. It may have expired.
fn valid<'c>(cert: &'c openpgp::Cert, policy: &'c dyn Policy, now: u32) -> Result<ValidCert<'c>> {
    let name = || cert.fingerprint().to_hex();
    let valid = cert
        .with_policy(policy, at(now))
        .map_err(|source| MakeError::Invalid { name: name(), source })?;
    let revocations = Revocations::of(cert, policy, &mut |_| Vec::new(), now);
    if revocations.end(&valid) { Err(MakeError::Revoked { name: name() }) } else { Ok(valid) }
}

/// The primary key of `cert`, unlocked, and the passphrase that it is locked with.
fn primary(cert: &openpgp::Cert, ask: &mut AskForKey<'_>) -> Result<(KeyPair, Option<Password>)> {
    let key = cert.primary_key().key().role_as_unspecified().clone().parts_into_secret();
    let key = key.map_err(|_| MakeError::NoSecret { name: cert.fingerprint().to_hex() })?;
    opened(key, ask)
}

/// A pair of `key`, and the passphrase that unlocked it, if it was locked.
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

/// `now`, or a second behind `earlier`.
fn after(earlier: Option<SystemTime>, now: u32) -> SystemTime {
    let next = earlier.map(|earlier| earlier + Duration::from_secs(1));
    next.map_or(at(now), |next| next.max(at(now)))
}
