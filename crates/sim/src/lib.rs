//! A simulator of disks that lose power, fail and fill, for the store and for the files that
//! talaria writes itself.
//!
//! The simulator runs the real store on the real file system, through a layer that records what
//! SQLite and the store do to files (`vfs`, `record`). From the recording, it computes the files
//! that a power cut or a kill can leave behind (`disk`), opens them with the real store, and
//! compares the content with a small model (`model`). One number, the seed, decides everything: the
//! operations, the faults, the cuts, and what each cut loses.
//!
//! # What is recorded
//!
//! - Everything that SQLite does to a database, its journal and its write-ahead log: opening and
//!   creating, writes, truncations, syncs, deletions, and syncs of the folder.
//! - What the store does without SQLite through its `place` module: the sync, the rename and the
//!   sync of the folder with which a finished database gets its name, setting a database aside, and
//!   removing leftovers.
//!
//! - What talaria writes besides the store: outputs, keys, dumps, backups, logs (`own`). Each step
//!   is recorded: making a file, with a name or without, writes, syncs, first names, renaming,
//!   removal, and making and syncing folders.
//!
//! The index of the log (`-shm`) is not recorded, since SQLite makes it again. Sorted runs of a
//! build are not recorded, since they are files without names. Other names that come or go, such as
//! that of a temporary file that was not used, are found by listing the folder after each
//! operation.
//!
//! # What a power cut leaves
//!
//! - A sync of a file makes all its earlier writes and truncations durable, and the creation of the
//!   file, as on ext4.
//! - Each later write is kept, lost, or torn at sectors of 512 bytes, in any combination.
//!   Truncations are kept or lost.
//! - Names that were made, changed or removed since the last sync of their folder are there or not,
//!   in any combination except one: steps on the same name keep their order. A file is there if its
//!   folders are. The sync of a file makes no folder durable.
//! - A file without a name is gone.
//! - A sync that fails promises nothing. A later sync of the file that succeeds makes up for it.
//!   SQLite relies on this when it recovers a log, although Linux does not promise it after an
//!   error of the disk.
//!
//! A kill keeps everything.
//!
//! # The signed log
//!
//! `log` has a simulation of its own: twenty nodes with disks, clocks and a network, attackers
//! among them.

mod disk;
mod log;
mod model;
mod numbers;
mod operation;
mod own;
mod pages;
mod record;
mod run;
mod vfs;

pub use log::{Defect, LogFailure, LogReport, run_log};
pub use numbers::Numbers;
pub use operation::{Copy, Operation};
pub use own::{Own, cut_own, fail_own, sample_own};
pub use pages::{PagesFailure, PagesReport, Rot, run_pages};
pub use record::Fault;
pub use run::{Failure, Report, Script, Syncs, run};
