//! A log in a folder (`docs/formats/log.md`, Folder).
//!
//! Append-only segments are the truth. An entry is acknowledged after its group is on disk; all who
//! wait share one sync. Opening a log reads its index and the segments behind it, up to the last
//! whole group, and checks no signature again.

mod announce;
mod bodies;
mod checkpointer;
mod compact;
mod disk;
mod encrypt;
mod error;
mod exchange;
mod file;
mod folder;
mod folder_replica;
mod follow;
mod index_file;
mod instance;
mod listeners;
mod load;
mod put;
mod read;
mod witness_folder;
mod write_snapshot;

pub use announce::EVENTS_BYTES_MAX;
pub use checkpointer::NewCheckpointer;
pub use compact::{CompactStep, Compacted};
pub use error::LogError;
pub use exchange::{
    EXPORT_MAGIC, Exported, Imported, ProofFiles, REFUSED_KEPT_MAX, SNAPSHOTS_CHECKED_MAX,
    Verified, VerifiedSnapshots, read_export,
};
pub use file::NODE_KEY;
pub use folder::LogFolder;
pub use folder_replica::FolderReplica;
pub use follow::Follower;
pub use load::Recovered;
pub use put::{PutError, Signing, deletable};
pub use witness_folder::{
    WitnessError, WitnessFolder, public_path, read_note_key, read_public_note_key,
};
pub use write_snapshot::SnapshotWritten;
