//! Encrypted, deduplicated backup in packs that are ordinary OpenPGP messages.
//!
//! The byte-level description of a repository is `docs/formats/backup.md`. The modules at the top
//! of this crate are pure: storage is a [`Backend`], and times and keys are arguments. Only the
//! modules in `files` (walking, restoring, the local folder) touch the file system.
//!
//! ```
//! use std::sync::Arc;
//!
//! use talaria_backup::{
//!     BackupProgress, CreateOptions, EpochProfile, Expected, Folder, InitOptions, Repository,
//!     RestoreOptions, State, Tree, restore,
//! };
//! use talaria_message::make::{GenerateOptions, Protection, generate};
//! use talaria_message::{Secrets, decryption_keys, Rules, signing_key};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let now = 1_795_381_506;
//! # let folder = tempfile::tempdir()?;
//! # let (place, source) = (folder.path().join("repository"), folder.path().join("letters"));
//! # let (state, target) = (folder.path().join("state"), folder.path().join("restored"));
//! std::fs::create_dir(&source)?;
//! std::fs::write(source.join("first"), "Dear Bob")?;
//!
//! // Alice owns the repository, and she can read it.
//! let alice = generate(&GenerateOptions::default(), &Protection::Unprotected, now)?.cert;
//! let mut signer = signing_key(&alice, Rules::default(), now, &mut |_, _| None)?;
//! let readers = [alice.clone()];
//! let profile = EpochProfile::Rfc9580;
//! let options = InitOptions { owner: &alice, readers: &readers, profile, signed: true };
//! let backend = Arc::new(Folder::new(&place));
//! Repository::init(backend.clone(), &options, &mut signer, now)?;
//!
//! let repository = Repository::open(backend, &Expected::default(), &mut |_| None, now)?;
//! let keys = decryption_keys([&alice], |_, _| None);
//! let mut secrets = Secrets { keys, ..Secrets::default() };
//! let keys = repository.unlock(&mut secrets, &[alice.fingerprint()])?;
//!
//! // A snapshot of the folder.
//! let options = CreateOptions { paths: vec![source.clone()], threads: 2, ..Default::default() };
//! let mut state = State::open(&state, repository.id())?;
//! let client = (&alice.fingerprint(), signer);
//! let progress = Arc::default();
//! let run = repository.create(&keys, Some(client), &mut state, &options, &progress, now)?;
//!
//! // The folder from the snapshot. Paths in snapshots have no slash at their begin.
//! let (chunks, _) = repository.reader(&keys, now)?;
//! let tree = Tree::new(&chunks, run.snapshot.root);
//! let subfolder = source.as_os_str().as_encoded_bytes()[1..].to_vec();
//! let options = RestoreOptions { subfolder, ..Default::default() };
//! let report = restore(&tree, &target, &options, &BackupProgress::default(), &|_, _| {})?;
//! assert_eq!(report.failed, 0);
//! assert_eq!(std::fs::read_to_string(target.join("first"))?, "Dear Bob");
//! # Ok(())
//! # }
//! ```

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
mod diff;
mod document;
mod drill;
mod entry;
mod epoch;
mod error;
mod files;
mod forget;
mod forgotten;
mod gaps;
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
pub use chain::{Evidence, Irregularity, heads, irregularities};
pub use check::ReadData;
pub use check::checked::{Checked, Problem};
pub use chunks::{CHUNK_BYTES_MAX, ReadChunks, WriteChunks};
pub use config::{Epoch, RepositoryConfig, Role};
pub use diff::{Difference, diff};
pub use document::DocumentStanding;
pub use drill::{Drill, Rehearsed, parse_drill, rehearse};
pub use entry::{Entry, Extent, Meta, Node, Time};
pub use epoch::EpochProfile;
pub use error::BackupError;
pub use files::{
    BackupRun, Cache, CacheWriter, Cached, Copied, CopyReport, CopySource, CreateOptions,
    FileChange, FileCounts, Folder, Found, LocalCopies, Mapping, Mismatch, Mount, Mounted,
    Overwrite, Owners, PathSelection, RestoreEvent, RestoreOptions, RestoreReport, RunLock,
    ScratchFolder, Seen, Stamp, State, Stranger, Stream, Tell, VerifyReport, Walk, WalkItem,
    WalkOptions, Walked, find, map_folders, parse_path_list, restore, verify,
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
