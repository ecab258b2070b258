//! Any bytes as the database of keyboxd.

use std::hint::black_box;
use std::ops::ControlFlow;

use talaria_gnupg::{is_keyboxd, read_keyboxd};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let file = crate::scratch(bytes);
    black_box(is_keyboxd(file.path()));
    let mut count = 0;
    let _ = read_keyboxd(file.path(), |keyblock| -> ControlFlow<()> {
        crate::ring(&keyblock);
        crate::bounded(&mut count)
    });
}
