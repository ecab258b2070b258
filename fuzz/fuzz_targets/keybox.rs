//! Any bytes as a keybox.

#![no_main]

use std::hint::black_box;

use talaria_gnupg::{Keybox, is_keybox};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    black_box(is_keybox(bytes));
    for entry in Keybox::new(bytes) {
        let Ok((offset, entry)) = entry else { break };
        assert!(offset <= bytes.len() as u64);
        if let Ok(keyblock) = entry {
            talaria_fuzz::ring(&keyblock);
        }
    }
});
