//! The signed log: a small replicated database in which every change carries an OpenPGP signature.
//!
//! The core is pure: time, randomness and keys are arguments. It decides which entries are admitted
//! and which count (`docs/decisions/0006-log-validity.md`), and merges them. `files` keeps a log in
//! a folder. The format is in `docs/formats/log.md`.
//!
//! ```
//! use talaria_log::{
//!     Action, Certificate, Change, Content, DataAction, FieldChange, Genesis, LogError, LogFolder,
//!     Maker, ObjectId, Value,
//! };
//! use talaria_message::make::{GenerateOptions, Protection, generate};
//! use talaria_message::openpgp::serialize::MarshalInto as _;
//! use talaria_message::{Rules, signing_key};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("fleet");
//! let now = 1_700_000_000;
//! let now_ms = u64::from(now) * 1000;
//! let cert = generate(&GenerateOptions::default(), &Protection::Unprotected, now)?.cert;
//! let certificate = Certificate::minimal(&cert.to_vec()?)?;
//! let mut key = signing_key(&cert, Rules::default(), now, &mut |_, _| None)?;
//!
//! // Alice owns the log.
//! let genesis = Genesis::new(vec![certificate.clone()], 1);
//! let mut maker = Maker::new(&certificate, &mut key, [0; 16]).ok_or("not her key")?;
//! let log = LogFolder::create(&path, &maker.begin(genesis, now_ms)?)?;
//! maker.chain.instance = log.instance();
//!
//! // The entry is on disk when `append` returns.
//! let object = ObjectId::of(log.id(), certificate.name(), "server-1");
//! let color = FieldChange::Set(Some(Value::String("red".to_owned())));
//! let change = Change::Field("color".to_owned(), color);
//! log.append(|log| {
//!     let entry = maker.make(log, Action::Data(DataAction { object, change }), now_ms)?;
//!     Ok::<_, LogError>((vec![entry], ()))
//! })?;
//! drop(log);
//!
//! let log = LogFolder::open(&path)?;
//! let red = log.read(|log| log.state().field(object, "color"))?;
//! assert_eq!(red, Some(Content::LastWriter(Value::String("red".to_owned()))));
//! assert!(log.verify()?.failed.is_empty());
//! # Ok(())
//! # }
//! ```

mod action;
mod bytes;
mod certificate;
mod checkpoint;
mod clock;
mod commitment;
mod deletable;
mod encrypted;
mod entry;
mod epoch;
mod files;
mod genesis;
mod graph;
mod items;
mod listen;
mod log;
mod merge;
mod merkle;
mod name;
mod node;
mod note;
mod plaintext;
mod record;
mod refusal;
mod segment;
mod signature;
mod snapshot;
mod snapshot_file;
mod stamp;
mod state;
mod sync;
mod tables;
mod value;
mod witness;

pub use action::{
    Action, Change, DataAction, FieldChange, Grant, HEADS_MAX, NAME_BYTES_MAX, Operations,
    REPLACED_MAX, Revocation, Side, Target,
};
pub use bytes::Malformed;
pub use certificate::{CERTIFICATE_BYTES_MAX, Certificate, SignerError};
pub use checkpoint::{BadCheckpoint, Checkpoint, Cosignatures};
pub use clock::Clock;
pub use commitment::Commitment;
pub use deletable::Opening;
pub use encrypted::{Encrypted, READERS_MAX, Unreadable, WrappedKey};
pub use entry::{ENTRY_BYTES_MAX, Entry, LINKS_MAX};
pub use epoch::EpochKeys;
pub use files::{
    CompactStep, Compacted, EVENTS_BYTES_MAX, EXPORT_MAGIC, Exported, FolderReplica, Follower,
    Imported, LogError, LogFolder, NODE_KEY, NewCheckpointer, ProofFiles, PutError,
    REFUSED_KEPT_MAX, Recovered, SNAPSHOTS_CHECKED_MAX, Signing, SnapshotWritten, Verified,
    VerifiedSnapshots, WitnessError, WitnessFolder, deletable, public_path, read_export,
    read_note_key, read_public_note_key,
};
pub use genesis::{
    GRACE_S, Genesis, Limits, MergeRule, OWNERS_MAX, Pattern, RULES_MAX, WITNESSES_MAX, Witness,
};
pub use listen::{Event, Interest, Kind, Patterns, Turn};
pub use log::{
    AHEAD_MS, CatchUp, CheckpointFork, CheckpointInfo, DraftError, Edit, ForkEvidence,
    GenesisError, Honoured, Known, Log, Maker, Offered, Outcome, Proposal, SnapshotInfo, Standing,
    Update, UpdateError, WAITING_BYTES_MAX, WAITING_MAX,
};
pub use merge::Content;
pub use merkle::{Edge, consistency, is_consistent, is_included, paths, root};
pub use name::{ChainName, EntryId, KeyName, NotAnId, ObjectId};
pub use node::{NODES_MAX, NodeKey};
pub use note::{
    KEY_NAME_BYTES_MAX, NOTE_BYTES_MAX, NOTE_LINES_MAX, NotANoteKey, Note, NoteKey, NoteKind,
    NoteLine, NoteSecret, TreeHead, origin,
};
#[doc(hidden)]
pub use plaintext::check_encrypted;
pub use record::{
    AuditPath, BATCH_MAX, Evidence, RECORD_BYTES_MAX, Signed, SignedStatement, Statement, batch,
    read_record, to_records,
};
pub use refusal::Refusal;
pub use segment::{
    FRAME_BYTES_MAX, Frame, SEGMENT_BYTES, Scan, Tail, frame as segment_frame,
    header as segment_header, scan,
};
pub use signature::{BadSignature, PACKET_BYTES_MAX, StoredSignature};
pub use snapshot::{BadSnapshot, EVIDENCE_MAX, Snapshot};
pub use snapshot_file::{SNAPSHOT_MAGIC, SnapshotError, SnapshotFile};
pub use state::{Encryption, EpochInfo, ObjectInfo, State};
pub use sync::{
    ALIVE_MS, ANNOUNCE_MS, ANSWER_MS, ENTRIES_BYTES_MAX, FRAME_MS, FRAMES_MAX, FRUITLESS_MAX,
    Farewell, Fetching, Frame as SyncFrame, HEADS_KEPT_MAX, HELLO_MS, IDLE_MS, LACKING_MAX,
    LEASE_MS, MemoryReplica, Mode, OUTPUT_LOW, PIECE_BYTES, REPEAT_MS, Replica, SEND_MS, Session,
    SessionReport, SyncError, Taken, Took, VALUES_MAX, VALUES_MS, VALUES_MS_MAX, WANT_MAX, begin,
    piece,
};
pub use value::{Float, VALUE_BYTES_MAX, Value};
pub use witness::{Objection, ProofText, WitnessRequest, Witnessed};
