//! Any bytes as a certificate that is kept within limits and given out.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::kept(bytes));
