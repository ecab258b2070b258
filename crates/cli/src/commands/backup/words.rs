//! What is known of snapshots, in words.

use talaria_backup::DocumentStanding;

use crate::render::counted;

/// Whose word a snapshot is, in words.
pub(super) fn standing_in_words(standing: &DocumentStanding) -> String {
    match standing {
        DocumentStanding::Good(_) => "good".into(),
        DocumentStanding::Past(_, why) => format!("good when it was made; since then: {why}"),
        DocumentStanding::Doubtful(_, why) => format!("doubtful: {why}"),
        DocumentStanding::Unsigned => "unsigned".into(),
        DocumentStanding::Foreign(why) => format!("does not count: {why}"),
    }
}

/// The number of snapshots, in words.
pub(super) fn counted_snapshots(count: usize) -> String {
    counted(count, "snapshot")
}
