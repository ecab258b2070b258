//! Options of the measurement.

use std::path::{Path, PathBuf};

use crate::measure::own_program;

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct RatiosOptions {
    /// The CSV file with the ratios of an earlier run.
    pub recorded: PathBuf,
    /// Whether to write the ratios of this run into that file.
    pub record: bool,
    /// Pairs of runs of each task.
    pub pairs: usize,
    /// The talaria executable.
    pub program: PathBuf,
    /// A keyring in OpenPGP's own format.
    pub keyring: PathBuf,
    /// A folder with a short path, since gpg has its sockets there.
    pub scratch: PathBuf,
}

impl Default for RatiosOptions {
    fn default() -> Self {
        Self {
            recorded: "crates/bench/ratios.csv".into(),
            record: false,
            pairs: 9,
            program: own_program(),
            keyring: "/usr/share/keyrings/debian-keyring.gpg".into(),
            scratch: scratch(),
        }
    }
}

/// Where file systems in memory are.
const MEMORY: &str = "/dev/shm";
/// Bytes that all tasks need.
const ROOM: u64 = 2 << 30;
/// The number by which the system names a file system in memory.
const TMPFS: i64 = 0x0102_1994;

/// Whether a folder is on a file system in memory.
///
/// What the kernel spends on a disk depends on the state of its file system: 4,000 new files cost
/// rsync 1.0 to 2.1 s there, and 0.2 to 0.3 s in memory.
pub(super) fn is_in_memory(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|found| found.f_type == TMPFS)
}

/// A file system in memory, if there is one with room, or else the temporary folder.
fn scratch() -> PathBuf {
    let memory = Path::new(MEMORY);
    let has_room = rustix::fs::statvfs(memory)
        .is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) >= ROOM);
    if has_room && is_in_memory(memory) { memory.to_owned() } else { std::env::temp_dir() }
}
