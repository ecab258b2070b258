//! Numbers of snapshots, in words.

use crate::render::counted;

/// The number of snapshots, in words.
pub(super) fn counted_snapshots(count: usize) -> String {
    counted(count, "snapshot")
}
