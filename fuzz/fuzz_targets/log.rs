//! Any bytes as what a log reads from others: an export, a record, a segment on disk, a snapshot, and what is encrypted.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((which, rest)) = bytes.split_first() else { return };
    match which % 5 {
        0 => talaria_fuzz::log::export(rest),
        1 => talaria_fuzz::log::record(rest),
        2 => talaria_fuzz::log::segment(rest),
        3 => talaria_fuzz::log::snapshot(rest),
        _ => talaria_log::check_encrypted(rest),
    }
});
