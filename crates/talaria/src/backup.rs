//! Backup repositories as programs use them.
//!
//! Everything of the crate `talaria_backup` is here, and with it what a front end must not decide
//! for itself: whether a repository is the one that the user knows ([`Client`]), what the user must
//! be told ([`Notice`]), which of the user's keys may do something ([`Authority`]), and whether the
//! backups are as recent as they should be ([`Health`]). Nothing is printed, and no clock is read.
//!
//! ```
//! use std::sync::Arc;
//!
//! use talaria::backup::{Client, ClientOptions, Folder, Notice, ReadFrom};
//! # use talaria::backup::{CreateOptions, EpochProfile, InitOptions};
//! # use talaria::message::make::{GenerateOptions, Protection, generate};
//! # use talaria::message::{Rules, Secrets, decryption_keys, signing_key};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let now = 1_795_381_506;
//! # let folder = tempfile::tempdir()?;
//! # let (place, state) = (folder.path().join("repository"), folder.path().join("state"));
//! # let alice = generate(&GenerateOptions::default(), &Protection::Unprotected, now)?.cert;
//! # let mut signer = signing_key(&alice, Rules::default(), now, &mut |_, _| None)?;
//! # let readers = [alice.clone()];
//! # let profile = EpochProfile::Rfc9580;
//! # let options = InitOptions { owner: &alice, readers: &readers, profile, signed: true };
//! # let other = folder.path().join("other machine");
//! # let known = (&*other, || "repository".to_owned());
//! # Client::init(Arc::new(Folder::new(&place)), known, &options, &mut signer, now)?;
//! # let keys = decryption_keys([&alice], |_, _| None);
//! # let secrets = Secrets { keys, ..Secrets::default() };
//! // The user's certificates and secrets come from a key store, for example.
//! let options = ClientOptions {
//!     backend: Arc::new(Folder::new(&place)),
//!     place: place.display().to_string(),
//!     state: &state,
//!     owner: None,
//!     heads: &[],
//!     read_from: ReadFrom::Storage,
//!     known: &mut |_| None,
//!     own: vec![alice.clone()],
//!     secrets,
//! };
//! let mut notices = Vec::new();
//! let mut tell = |notice| notices.push(notice);
//! let mut client = Client::open(options, now, &mut tell)?;
//! # let by = Some((&alice.fingerprint(), signer));
//! # let create = CreateOptions { paths: vec![place.clone()], threads: 2, ..Default::default() };
//! # let (keys, progress) = (&client.keys, Arc::default());
//! # client.repository.create(keys, by, &mut client.state, &create, &progress, now)?;
//!
//! let (snapshots, irregularities) = client.snapshots(now, &mut tell)?;
//! assert_eq!((snapshots.len(), irregularities.len()), (1, 0));
//!
//! // Is there a snapshot of each client from the last day?
//! client.health(now, &mut tell)?.require_snapshots(86_400)?;
//! let tomorrow = now + 100_000;
//! assert!(client.health(tomorrow, &mut tell)?.require_snapshots(86_400).is_err());
//!
//! // The user has never used this repository here, and should know whose it is.
//! assert!(matches!(&notices[..], [Notice::FirstUse { owner }] if *owner == alice.fingerprint()));
//! # Ok(())
//! # }
//! ```

mod authority;
mod client;
pub(crate) mod error;
mod forget;
mod health;
mod metrics;
mod notice;
mod time_span;

pub use talaria_backup::*;

pub use authority::Authority;
pub use client::{Client, ClientOptions, ReadFrom, counting};
pub use error::ClientError;
pub use forget::{ForgetPlan, ToForget};
pub use health::{ClientHealth, Health};
pub use metrics::Metrics;
pub use notice::Notice;
pub use time_span::time_span;
