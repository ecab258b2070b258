//! Any bytes as certificates in a store, and as a signature by one of them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::known::stored(bytes));
