//! Encrypted, deduplicated backup in packs that are ordinary OpenPGP messages.
//!
//! The byte-level description of a repository is `docs/formats/backup.md`. The modules at the top of this crate
//! are pure: storage is a [`Backend`], and times and keys are arguments. Only the modules in `files`
//! (walking, restoring, the local folder) touch the file system.

mod attest;
mod backend;
mod bundle;
mod catalog;
mod chain;
mod check;
mod chunker;
mod chunks;
mod compress;
mod config;
mod create;
mod document;
mod drill;
mod entry;
mod epoch;
mod error;
mod files;
mod forget;
mod forgotten;
mod id;
mod index;
mod lease;
mod listed;
mod located;
mod opener;
mod pack;
mod pages;
mod plan;
mod progress;
mod prune;
mod reading;
mod repair;
mod repository;
mod retention;
mod signed;
mod sink;
mod snapshot;
mod source;
mod stats;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod tree;
mod verified;
mod view;

pub use attest::parse_attestation;
pub use backend::{Backend, Object};
pub use catalog::{Reader, select};
pub use chain::{Irregularity, heads, irregularities};
pub use check::ReadData;
pub use check::checked::{Checked, Problem};
pub use chunks::{CHUNK_BYTES_MAX, ReadChunks, WriteChunks};
pub use config::{Epoch, RepositoryConfig, Role};
pub use document::DocumentStanding;
pub use drill::{Drill, Rehearsed, parse_drill, rehearse};
pub use entry::{Entry, Meta, Node, Part, Time};
pub use epoch::EpochProfile;
pub use error::BackupError;
pub use files::{
    BackupRun, Cache, CacheWriter, Cached, Copied, CopyReport, CopySource, CreateOptions,
    FileChange, FileCounts, Folder, LocalCopies, Mapping, Mismatch, Mount, Mounted, Overwrite,
    Owners, PathSelection, RestoreEvent, RestoreOptions, RestoreReport, RunLock, ScratchFolder,
    Seen, Stamp, State, Stream, Tell, VerifyReport, Walk, WalkItem, WalkOptions, Walked,
    map_folders, parse_path_list, restore, verify,
};
pub use forget::parse_tombstone;
pub use forgotten::{Forgotten, SnapshotName};
pub use id::{GroupSecret, Id, Identifiers, Kind, ObjectHash, RepositoryId};
pub use index::{IndexedPack, parse as parse_index, write as write_index};
pub use lease::{Patience, check_lease};
pub use listed::Listed;
pub use pack::{PackedChunk, parse as parse_pack};
pub use plan::parse_plan;
pub use progress::BackupProgress;
pub use prune::{PruneOptions, Pruned};
pub use repair::{RepairOptions, Repaired};
pub use repository::{Change, Expected, InitOptions, Keys, Repository};
pub use retention::{Fate, Grouping, Retention, decide, halved};
pub use snapshot::Heads;
pub use snapshot::{Head, Lineage, Original, Root, Snapshot};
pub use stats::Stats;
pub use table::{InMemory, Scratch, ScratchFile};
pub use tree::{ContentParts, ContentWriter, Entries, Tree, TreeWriter, is_beneath, path_order};
pub use verified::parse_verified;
pub use view::{Children, SnapshotView};
