//! Any bytes as the request of a client of a keyserver, or as the membership file of its operator.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| talaria_server::fuzz::read(bytes));
