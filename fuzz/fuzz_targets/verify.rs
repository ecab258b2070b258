//! Any bytes as a signed message, a signed text, or a detached signature.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::messages::verified(bytes));
