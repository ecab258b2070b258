//! A session key, and any bytes as a message encrypted with it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::messages::decrypted(bytes));
