//! Any bytes as the database of keyboxd.

#![no_main]

use std::hint::black_box;
use std::ops::ControlFlow;

use talaria_gnupg::{is_keyboxd, read_keyboxd};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = talaria_fuzz::scratch(bytes);
    black_box(is_keyboxd(file.path()));
    let mut count = 0;
    let _ = read_keyboxd(file.path(), |keyblock| -> ControlFlow<()> {
        talaria_fuzz::ring(&keyblock);
        talaria_fuzz::bounded(&mut count)
    });
});
