//! Any bytes as a keybox.

use std::hint::black_box;

use talaria_gnupg::{Keybox, is_keybox};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    black_box(is_keybox(bytes));
    for entry in Keybox::new(bytes) {
        let Ok((offset, entry)) = entry else { break };
        assert!(offset <= bytes.len() as u64);
        if let Ok(keyblock) = entry {
            crate::ring(&keyblock);
        }
    }
}
