//! Any bytes as certificates, and as signatures to verify with them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::known::judged(bytes));
