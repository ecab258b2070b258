//! A choice of a receiver, and any content of a session key that is wrapped with its public key.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::messages::wrapped(bytes));
