//! Any bytes as the content of a pack.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::backup::pack(bytes));
