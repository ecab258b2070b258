//! The speed of a listing: a guard against slow formatting.

use std::time::{Duration, Instant};

use talaria_cert::{
    Capabilities, Fingerprint, KeySummary, Span, Summary, UserIdContent, UserIdSummary,
};
use talaria_gnupg::{Colons, write_cert};

fn summary(number: u32) -> Summary {
    let key = |part: u8, capabilities| KeySummary {
        fingerprint: Fingerprint::V4([part.wrapping_add(number.to_be_bytes()[3]); 20]),
        algorithm: 22,
        bits: 255,
        curve: talaria_cert::Curve::from_number(8),
        created: 1_600_000_000,
        expires: 1_900_000_000,
        capabilities: Capabilities(capabilities),
        revoked: false,
        bound: true,
    };
    Summary {
        primary: key(0, Capabilities::CERTIFY | Capabilities::SIGN),
        user_ids: vec![UserIdSummary {
            content: UserIdContent::Text(format!("Alice {number} <a{number}@example.org>").into()),
            created: 1_600_000_000,
            expires: 0,
            revoked: false,
            primary: true,
        }],
        subkeys: vec![key(1, Capabilities::ENCRYPT)],
        revokers: Vec::new(),
        signatures: 2,
        checked: true,
        holds: Span { from: 0, until: u32::MAX },
    }
}

/// 10,000 certificates take about 10 ms on a slow core. The limit is far above, for a busy machine.
#[test]
fn a_long_listing_is_written_quickly() {
    let summaries: Vec<_> = (0..10_000).map(summary).collect();
    let mut out = Vec::with_capacity(8 << 20);
    let best = (0..5)
        .map(|_| {
            out.clear();
            let started = Instant::now();
            for summary in &summaries {
                write_cert(&mut out, summary, &Colons::default(), 1_700_000_000);
            }
            started.elapsed()
        })
        .min()
        .unwrap();
    println!("10,000 certificates, {} bytes: {best:?}", out.len());
    let first = out.split(|&b| b == b'\n').next().unwrap();
    assert_eq!(
        String::from_utf8_lossy(first),
        "pub:-:255:22:0000000000000000:1600000000:1900000000::-:::scESC:::::ed25519:::0:"
    );
    assert!(best < Duration::from_millis(250), "{best:?}");
}
