//! Any bytes as what a log reads from others: an export, a record, and a segment on disk.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((which, rest)) = bytes.split_first() else { return };
    match which % 3 {
        0 => talaria_fuzz::log::export(rest),
        1 => talaria_fuzz::log::record(rest),
        _ => talaria_fuzz::log::segment(rest),
    }
});
