//! Any bytes as the text of an index of a backup.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::backup::index(bytes));
