//! Any text as ASCII armor, and any bytes armored.

use std::io::{BufReader, Read as _};

use talaria_cert::{Armor, enarmor};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let (whole, damage) = decode(bytes, 1 << 16);
    // The size of the buffer does not matter.
    assert_eq!(decode(bytes, 7), (whole.clone(), damage));
    assert!(whole.len() <= bytes.len());
    crate::ring(&whole);
    if !bytes.is_empty() {
        assert_eq!(decode(enarmor(bytes).as_bytes(), 64), (bytes.to_vec(), Vec::new()));
    }
}

fn decode(text: &[u8], buffer_bytes: usize) -> (Vec<u8>, Vec<u64>) {
    let mut armor = Armor::new(BufReader::with_capacity(buffer_bytes, text));
    let mut out = Vec::new();
    armor.read_to_end(&mut out).expect("a slice can be read");
    assert!(armor.blocks().iter().all(|block| block.decoded <= out.len() as u64));
    (out, armor.damage().to_vec())
}
