//! Generating and changing keys, in memory: generate, certify, add user IDs and subkeys, renew,
//! revoke, lock.
//!
//! Certificates, times and passphrases are the input; signatures and packets are the output. The
//! caller merges them into the certificate and stores it. Nothing here opens a file or reads a
//! clock.
//!
//! New signatures are dated `now`, or one second after the signature that they replace if that is
//! later. Of two signatures with the same date, readers may follow either.
//!
//! ```
//! use talaria_message::make::{self, CertifyOptions, GenerateOptions, Protection};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (policy, now) = (talaria_message::Rules::default(), 1_800_000_000);
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
//!     assert!(make::is_certified(&bob, &user_id, &alice, &says, now));
//! }
//! # Ok(())
//! # }
//! ```

mod certify;
mod date;
mod error;
mod generate;
mod primary;
mod protect;
mod renew;
mod revoke;
mod subkey;
mod user_id;

pub use certify::{
    CertifyOptions, Introduction, certifiable, certifier, certify, is_certified, may_certify,
};
pub use error::MakeError;
pub use generate::{GenerateOptions, Generated, KeyAlgorithm, KeyProfile, KeyUses, generate};
pub use protect::{Protection, SecretKey, is_stub, protected, unlocked, with_secrets};
pub use renew::{RenewOptions, renew, set_expiry};
pub use revoke::{RevocationReason, Revoked, revoke};
pub use subkey::{SubkeyOptions, SubkeyUse, add_subkey};
pub use user_id::{Rank, add_user_id};
