//! Any bytes as GnuPG's `pubring.gpg`: a keyring in which trust packets follow each packet.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_fuzz::ring(bytes));
