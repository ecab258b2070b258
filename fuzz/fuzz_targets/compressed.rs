//! Any bytes as a compressed file, and as an xz file with the right checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria::fuzz::decompress(bytes));
