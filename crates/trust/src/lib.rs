//! Trust models: they decide whether a certificate belongs to the address in its user ID.
//!
//! The input is facts and a time; the output is decisions and their reasons. This crate opens no
//! file and reads no clock. [`evaluate`] computes `GnuPG`'s web of trust.
//!
//! ```
//! use talaria_cert::{
//!     Armor, BATCH_BYTES, Cert, CertificationVerifier, Key, KeySetup, Splitter, Summary, Verdict, Verification, verdicts,
//! };
//! use talaria_trust::{Introducer, IntroducerCert, Level, Rules, Subject, evaluate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Alice has certified that Bob's certificate is his.
//! let ring = include_bytes!(concat!(
//!     env!("CARGO_MANIFEST_DIR"),
//!     "/../cert/tests/fixtures/alice-and-bob.asc"
//! ));
//! let mut certs = Vec::new();
//! let mut splitter = Splitter::new(Armor::new(&ring[..]), BATCH_BYTES);
//! while let Some(batch) = splitter.next_batch()? {
//!     certs.extend(batch.certs().filter_map(|(_, raw)| Cert::parse(raw).ok()));
//! }
//! let named = |name: &str| certs.iter().find(|cert| cert.user_ids().any(|id| id.starts_with(name.as_bytes())));
//! let (alice, bob) = named("Alice").zip(named("Bob")).ok_or("they are in it")?;
//!
//! let now = 1_800_000_000;
//! let summary = Summary::evaluate(bob, &verdicts(&[bob], Verification::Full)[0], now);
//! let rules = Rules::default();
//! let subject = Subject::of(bob, &summary, rules.gnupg, now);
//!
//! // Alice's key is our own.
//! let introducer = Introducer { depth: 0, level: Level::Ultimate, reach: 0, scope: None };
//! let own = [IntroducerCert { cert: 1, introducer }];
//! let primary = alice.packets().next().ok_or("it has a key")?;
//! let (key, setup) = (Key::parse(primary)?, KeySetup::default());
//! let mut certified = CertificationVerifier::new(bob).ok_or("it can be read")?;
//!
//! let standing = evaluate(
//!     &subject,
//!     Level::Unknown,
//!     rules,
//!     now,
//!     |id| if id == alice.fingerprint().key_id() { &own } else { &[] },
//!     // Whether Alice really made the signature.
//!     |_, user_id, signature| {
//!         certified.by(&key, &setup, user_id.packet, signature.body) == Verdict::Good
//!     },
//! );
//! assert_eq!(standing.levels, [Level::Full]);
//! # Ok(())
//! # }
//! ```

pub mod flow;
mod level;
mod pgp;
mod scope;
mod subject;
pub mod tofu;

pub use level::Level;
pub use pgp::{Introducer, IntroducerCert, Rules, Standing, certifiers, evaluate};
pub use scope::Scope;
pub use subject::{Certification, Subject, SubjectId, issuers};
