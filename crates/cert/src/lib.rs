//! OpenPGP certificates as a store needs them: split from a stream, brought into canonical form,
//! merged, verified once, summarized, and indexed by search terms.
//!
//! This crate opens no file and no socket, and reads no clock: bytes and times are arguments.
//!
//! ```
//! use talaria_cert::{Armor, BATCH_BYTES, Cert, Splitter, Summary, Validity, Verification, verdicts};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Two certificates; Alice has certified Bob's.
//! let ring = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/alice-and-bob.asc"));
//! let now = 1_800_000_000;
//! let mut splitter = Splitter::new(Armor::new(&ring[..]), BATCH_BYTES);
//! while let Some(batch) = splitter.next_batch()? {
//!     for (_offset, raw) in batch.certs() {
//!         let cert = Cert::parse(raw)?;
//!         let good = verdicts(&[&cert], Verification::Full).remove(0);
//!         let summary = Summary::evaluate(&cert, &good, now);
//!         assert_eq!(summary.validity(now), Validity::Valid);
//!         assert_eq!(cert.union(&cert.minimal(&good)), cert);
//!         println!("{} has {} user IDs", cert.fingerprint(), summary.user_ids.len());
//!     }
//! }
//! # Ok(())
//! # }
//! ```

pub mod address;
mod arithmetic;
mod armor;
mod attestation;
mod back;
mod cert;
mod claims;
mod classes;
mod copies;
mod cost;
mod critical;
mod date;
mod domain;
mod ed25519;
mod error;
mod error_kind;
mod fields;
mod fingerprint;
mod folding;
mod hash;
pub mod hex;
mod holding;
mod identity;
mod judge;
mod key;
mod limits;
pub mod merge;
mod minimal;
mod packet;
mod peer;
mod query;
mod redaction;
mod refusal;
mod revoker;
mod rules;
mod salvage;
mod served;
mod signature;
mod spelling;
mod split;
mod stored;
mod summary;
mod tag;
mod terms;
mod timestamp;
mod unhashed;
pub mod user_id;
mod verdict;
mod verified;
mod verify;
mod view;
mod visible;
mod work;

pub use address::{Address, AddressError, Addressee};
pub use armor::{Armor, Block, Enarmor, enarmor};
pub use cert::{Cert, PACKETS_MAX};
pub use claims::Claims;
pub use critical::{Context, Incomprehensible, KNOWN_NOTATIONS, LOG_NOTATION, is_known_subpacket};
pub use date::{day, parse_day, parse_timestamp, timestamp, year};
pub use ed25519::{Ed25519Key, Job, ed25519_verdicts};
pub use error::{Reason, Reject};
pub use error_kind::ErrorKind;
pub use fingerprint::{Fingerprint, KeyId, Keygrip};
pub use hash::{HashValue, Hasher, digest_name, sha1, sha256};
pub use holding::Holding;
pub use identity::NUMBER_BITS_MAX;
pub use judge::{Fault, Judge, Purpose, Use, Why};
pub use key::{Curve, KEY_BYTES_MAX, Key};
pub use limits::bounds::Limits;
pub use limits::issuers::Issuers;
pub use packet::{PACKET_BYTES_MAX, PacketRef, first_packet, packets};
pub use peer::Peer;
pub use query::{Matcher, Query, QueryError};
pub use redaction::{Redacted, Redaction};
pub use revoker::{DesignatedRevocation, RevokerState};
pub use rules::{Gnupg, Rules, RulesError, Weak};
pub use served::DESIGNATED_MAX;
pub use served::{Serving, ThirdParty, USER_ID_BYTES_MAX};
pub use signature::{ISSUERS_MAX, Revoker, Signature, Subpacket, Subpackets, kind};
pub use split::{BATCH_BYTES, Batch, CERT_BYTES_MAX, Item, Splitter};
pub use summary::{
    Capabilities, KeySummary, Preferences, RevokerSummary, Span, Summary, UserIdContent,
    UserIdSummary, Validity,
};
pub use tag::Tag;
pub use terms::{Handle, Terms};
pub use terms::{
    keygrips as keygrip_handles, keys as key_handles, keys_of_damaged as key_handles_of_damaged,
    text as search_text,
};
pub use timestamp::Timestamp;
pub use unhashed::plain_signature;
pub use verdict::{Verdict, Verification};
pub use verified::Verified;
pub use verify::{
    CertificationVerifier, Earlier, KeySetup, VERIFIER, carried_over, complete, renew, renewed,
    verdicts,
};
pub use view::{UnknownView, View};
pub use work::{TooCostly, Work};
