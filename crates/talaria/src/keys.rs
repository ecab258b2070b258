//! The key store: secret keys in a private folder, one file per certificate.
//!
//! `docs/formats/keys.md` describes the layout. A file is a binary transferable secret key (RFC
//! 9580, section 10.2), named by the fingerprint of its certificate: `FINGERPRINT.pgp`. Its secrets
//! are encrypted with a passphrase by the means of OpenPGP, unless the user has chosen no
//! passphrase. talaria refuses the folder and its files if other users may access them. To change a
//! file, talaria writes a complete new one to disk and renames it. A writer holds a lock on the
//! folder, and removes the temporary files of writers that were killed.
//!
//! Unlocked keys are never written to disk and end with the process. Sequoia keeps them encrypted
//! in memory between uses and overwrites them on drop. An Ed25519 key that is ready to sign is in
//! memory a second time, not encrypted ([`talaria_message::SigningKey`]). The program itself must
//! prevent that the system writes pages of memory to disk:
//! [`talaria_message::keep_secrets_in_memory`].
//!
//! The certificates of other people are not in the key store but in the certificate store, which
//! also has the public parts of these keys.

mod change;
mod findings;
mod generate;
mod key_store;
mod public;
pub(crate) mod questions;

pub use talaria_message::make::{
    GenerateOptions, Generated, KeyAlgorithm, KeyProfile, Protection, Rank, RevocationReason,
    SubkeyOptions, SubkeyUse,
};

pub use self::change::{
    Added, MadeRevocation, Revocation, RevocationTarget, Subkey, revocation, unlocked,
};
pub use self::findings::{Finding, KeyPart, Problem, findings};
pub use self::generate::NewKey;
pub use self::key_store::{Imported, KeyStore, is_unprotected, read_keys};
pub use self::public::summary;
pub use self::questions::{can_certify, can_sign, certifier, names};
