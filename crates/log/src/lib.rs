//! The signed log: a small replicated database in which every change carries an OpenPGP signature.
//!
//! The core is pure: time, randomness and keys are arguments. It decides which entries are admitted and which count
//! (`docs/decisions/0006-log-validity.md`), and merges them. `files` keeps a log in a folder. The format is in
//! `docs/formats/log.md`.

mod action;
mod certificate;
mod clock;
mod entry;
mod files;
mod genesis;
mod graph;
mod log;
mod merge;
mod merkle;
mod name;
mod octets;
mod record;
mod refusal;
mod signature;
mod state;
mod value;

pub use action::{
    Action, Change, DataAction, FieldChange, Grant, HEADS_MAX, NAME_OCTETS_MAX, Operations,
    REPLACED_MAX, Revocation, Side, Target,
};
pub use certificate::{CERTIFICATE_OCTETS_MAX, Certificate};
pub use clock::Clock;
pub use entry::{ENTRY_OCTETS_MAX, Entry, LINKS_MAX, VALUE_OCTETS_MAX};
pub use files::{
    EXPORT_MAGIC, Exported, FRAME_OCTETS_MAX, Frame, Imported, LogError, LogFolder, ProofFiles,
    Recovered, SEGMENT_OCTETS, Scan, Tail, Verified, read_export, scan,
};
pub use genesis::{Genesis, Limits, MergeRule, OWNERS_MAX, Pattern, RULES_MAX, WITNESSES_MAX};
pub use log::{
    AHEAD_MS, DraftError, ForkEvidence, GenesisError, Log, Maker, Offered, Outcome, Standing,
    WAITING_MAX, WAITING_OCTETS_MAX,
};
pub use merge::Content;
pub use merkle::{is_included, root};
pub use name::{ChainName, EntryId, KeyName, NotAnId, ObjectId};
pub use octets::Malformed;
pub use record::{
    BATCH_MAX, Evidence, RECORD_OCTETS_MAX, Signed, SignedStatement, Statement, batch, read_record,
    to_records,
};
pub use refusal::Refusal;
pub use signature::{BadSignature, PACKET_OCTETS_MAX, StoredSignature};
pub use state::{ObjectInfo, State};
pub use value::{Float, Value};
