//! Any bytes as a stored summary.

use std::hint::black_box;

use talaria_cert::{Fingerprint, Summary};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let fingerprint = Fingerprint::V4([7; 20]);
    if let Some(summary) = Summary::read(fingerprint, bytes) {
        let mut stored = Vec::new();
        summary.write(&mut stored);
        assert_eq!(Summary::read(fingerprint, &stored).as_ref(), Some(&summary));
        black_box((summary.primary_user_id(), talaria_cert::search_text(&summary)));
        for now in [0, 1_740_000_000, u32::MAX] {
            black_box((summary.validity(now), summary.usable(now)));
        }
    }
    // A fingerprint has its own stored form.
    if let Some((fingerprint, rest)) = Fingerprint::from_stored(bytes) {
        assert_eq!([&fingerprint.to_stored(), rest].concat(), bytes);
    }
}
