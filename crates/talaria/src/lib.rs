//! talaria as a library: the operations that need more than the store.
//!
//! The command line is built on this crate, and other programs can embed it. The crate prints
//! nothing.
//!
//! Reading a message and checking it with the certificates of a store. Long content that must wait
//! for its signatures goes to temporary files, encrypted:
//!
//! ```
//! # use talaria::message::Encryptor;
//! # use talaria::message::openpgp::cert::CertBuilder;
//! # use talaria::message::openpgp::serialize::SerializeInto as _;
//! # use talaria::store::Access;
//! # use talaria::Stores;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let now = u32::try_from(std::time::UNIX_EPOCH.elapsed()?.as_secs())?;
//! # let (alice, _) = CertBuilder::general_purpose(Some("<alice@example.org>")).generate()?;
//! # let path = folder.path().join("certs.pgp");
//! # std::fs::write(&path, alice.to_vec()?)?;
//! # let mut sealed = Vec::new();
//! # Encryptor::new(now).passphrase("pass").sign(&alice)?.write(&b"text"[..], &mut sealed)?;
//! let stores = Stores::open(&[path], Access::Read, now)?;
//! let alice = stores.parsed(&"<alice@example.org>".parse()?, now)?.remove(0);
//!
//! let lookup = talaria::lookup(Some(stores), Vec::new(), now);
//! let decryptor = talaria::decryptor(now).passphrase("pass").lookup(lookup);
//! let mut plain = Vec::new();
//! decryptor.signed_by(&[&alice]).to_writer(&sealed[..], &mut plain)?;
//! assert_eq!(plain, b"text");
//! # Ok(())
//! # }
//! ```
//!
//! Importing certificates, and choosing one by name as `talaria certify` does:
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use talaria::store::Access;
//! use talaria::{ImportOptions, Input, Monitor, Stores, import};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("certs.db");
//! # let ring = concat!(env!("CARGO_MANIFEST_DIR"), "/../cert/tests/fixtures/alice-and-bob.asc");
//! let now = 1_800_000_000;
//! let mut stores = Stores::open(&[path], Access::Create, now)?;
//! // The input may be a keyring, a dump, a GnuPG home or another store: the content decides.
//! let options = ImportOptions::new(now);
//! let stop = AtomicBool::new(false);
//! let monitor = &mut Monitor { report: &mut |_| {}, stop: &stop };
//! import(stores.writable()?, &[Input::parse(ring)], options, monitor)?;
//!
//! // The user IDs that `talaria certify bob@example.org` would certify: exact matches only.
//! let rules = talaria::message::Rules::default();
//! let bob = stores.certifiable("bob@example.org", &[], rules, now)?;
//! assert_eq!(bob.user_ids[0].value(), b"Bob <bob@example.org>");
//! assert!(stores.certifiable("example.org", &[], rules, now).is_err());
//! # Ok(())
//! # }
//! ```

pub mod agent;
pub mod backup;
mod belief;
mod believed;
mod build;
mod certify;
mod compressed;
mod confirmed;
mod dump;
pub mod embed;
mod error;
mod export;
#[doc(hidden)]
pub mod fuzz;
mod import;
pub mod keys;
mod log_session;
mod messages;
mod only;

mod parsed;
mod progress;
mod recipients;
mod repair;
mod required;
mod signer_beliefs;
mod signers;
mod source;
mod stats;
pub mod status;
mod stores;
pub mod tofu;
mod token;
mod trust;
mod unlocking;

pub use belief::{Belief, Doubt, Trust};
pub use build::{BuildReport, build};
pub use certify::{Certifiable, Certified, CertifyOutcome};
pub use compressed::WindowTooLarge;
pub use confirmed::{Confirmation, Confirmations};
pub use dump::{DumpOptions, Dumped, Extent, dump};
pub use error::{Error, StoreFolderKind, describe};
pub use export::{ExportOptions, Exported, Format, OnDamage, Signatures, Skipped, export};
pub use import::{FileReport, ImportOptions, Rejected, import};
pub use log_session::{
    LogAuthor, NewGrant, NewLog, Revoked, log_author, log_certificate, log_grant, log_revoke,
};
pub use messages::{Recipient, certificates_in, decryptor, lookup};
pub use parsed::{described, with_key};
pub use progress::{Monitor, Progress};
pub use recipients::{
    Accepted, FoundRecipient, FoundRecipients, RecipientOptions, RefusedRecipient, encrypted_to,
};
pub use repair::{RepairOptions, Repaired, repair};
pub use required::RequiredSigners;
pub use signer_beliefs::SignerBeliefs;
pub use signers::{Certifier, OwnKeys};
pub use source::{Input, InputKind, Place};
pub use stats::{Statistics, algorithm, statistics};
pub use stores::{Bookmark, BookmarkError, Opened, Stores};
pub use token::{Token, TokenError};
pub use trust::{Judge, Judged, JudgedId, TrustModel, ValidityReason, doubts};
pub use unlocking::{LockedKey, unlocker};

pub use talaria_cert as cert;
pub use talaria_cert::{day, parse_day, timestamp};
pub use talaria_disk::{NewFile, Readers, TEMPORARY};
pub use talaria_gnupg as gnupg;
pub use talaria_log as log;
pub use talaria_log_net as log_net;
pub use talaria_message as message;
pub use talaria_store as store;
pub use talaria_trust as trust_models;
