//! OpenPGP certificates as a store needs them: cut from a stream, brought into one canonical form,
//! joined, verified once, summed up, and named by the terms they are found by.
//!
//! Nothing here opens a file, starts a socket or reads a clock: bytes and times are arguments.

mod armor;
mod cert;
mod critical;
mod ed25519;
mod error;
mod fields;
mod fingerprint;
mod hash;
mod key;
mod limits;
mod minimal;
mod packet;
mod revoker;
mod served;
mod signature;
mod split;
mod stored;
mod summary;
mod terms;
pub mod user_id;
mod verify;
mod view;

pub use armor::{Armor, Block, enarmor};
pub use cert::{Cert, PACKETS_MAX};
pub use critical::{Context, Incomprehensible};
pub use ed25519::{Job, ed25519_verdicts};
pub use error::{Reason, Reject};
pub use fingerprint::{Fingerprint, KeyId, Keygrip};
pub use hash::{Digest, Hasher, sha256};
pub use key::{Curve, KEY_BYTES_MAX, Key};
pub use limits::Limits;
pub use packet::{PACKET_BYTES_MAX, PacketRef, Tag, first_packet};
pub use revoker::{DesignatedRevocation, RevokerState};
pub use served::Serving;
pub use signature::{ISSUERS_MAX, Revoker, Signature, kind};
pub use split::{BATCH_BYTES, Batch, CERT_BYTES_MAX, Item, Splitter};
pub use summary::{
    Capabilities, Gnupg, KeySummary, RevokerSummary, Span, Summary, UserIdContent, UserIdSummary,
    Validity,
};
pub use terms::text as search_text;
pub use terms::{Handle, Terms};
pub use verify::{
    Certified, Earlier, KeySetup, VERIFIER, Verdict, Verification, carried_over, complete, renew,
    renewed, verdicts,
};
pub use view::{UnknownView, View};
