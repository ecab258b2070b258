//! Any bytes as a tombstone, plan, lease, attestation or verdict.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::backup::signed(bytes));
