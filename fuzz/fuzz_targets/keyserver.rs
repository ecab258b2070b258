//! Any bytes as what a client of a keyserver sends, or its operator writes about peers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_server::fuzz::read(bytes));
