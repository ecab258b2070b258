//! Any bytes as a keyring.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::ring(bytes));
