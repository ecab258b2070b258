//! Any bytes as a certificate that is limited and served.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::kept(bytes));
