#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| talaria_fuzz::targets::query::run(octets));
