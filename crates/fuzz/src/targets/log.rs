//! Any bytes as what a log reads from others: an export, a record, a segment on disk, a snapshot,
//! and what is encrypted.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    match which % 5 {
        0 => crate::log::export(rest),
        1 => crate::log::record(rest),
        2 => crate::log::segment(rest),
        3 => crate::log::snapshot(rest),
        _ => talaria_log::check_encrypted(rest),
    }
}
