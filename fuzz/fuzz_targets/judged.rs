//! Any bytes as certificates, and as signatures that they are to account for.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::known::judged(bytes));
