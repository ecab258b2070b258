//! Certificates with Ed448 keys of version 5, as GnuPG 2.4 writes them.

use std::collections::BTreeSet;

use talaria_cert::{
    Cert, Earlier, Serving, Tag, ThirdParty, Verdict, Verification, renewed, verdicts,
};

const CERT: &[u8] = include_bytes!("../fixtures/gnupg-2.4-ed448.pgp");
const LISTING: &str = include_str!("../fixtures/gnupg-2.4-ed448.txt");

#[test]
fn an_ed448_certificate_is_read_as_gnupg_lists_it() {
    let cert = Cert::parse(CERT).unwrap();
    let fields = |kind: &'static str, at: usize| {
        let lines = LISTING.lines().filter(move |line| line.starts_with(kind));
        lines.map(move |line| line.split(':').nth(at).unwrap().to_owned())
    };
    let fingerprints: BTreeSet<String> =
        cert.keys().map(|key| key.fingerprint().to_string()).collect();
    assert_eq!(fingerprints, fields("fpr", 9).collect());
    assert!(fields("sig", 1).all(|judged| judged == "!"));
    let judged = verdicts(&[&cert], Verification::Full).remove(0);
    assert_eq!(judged, vec![Verdict::Good; fields("sig", 1).count()]);
    // All of it is served, byte by byte.
    let serving =
        Serving { third_party: ThirdParty::All, foreign_signatures: 100, attributes: false };
    assert_eq!(cert.served(&judged, serving), None);
}

/// Verifier 5 could not verify them.
#[test]
fn earlier_verdicts_on_ed448_signatures_are_renewed() {
    let cert = Cert::parse(CERT).unwrap();
    let unsupported = vec![Verdict::Unsupported; cert.signature_count()];
    for (verifier, expected) in [(4, Verdict::Good), (5, Verdict::Good), (6, Verdict::Unsupported)]
    {
        let earlier = Earlier { verdicts: &unsupported, verifier };
        let judged = renewed(&[(&cert, earlier)], Verification::Full);
        assert_eq!(judged, [vec![expected; unsupported.len()]]);
    }
}

#[test]
fn a_changed_ed448_signature_is_bad() {
    let original = Cert::parse(CERT).unwrap();
    let mut raw = Vec::new();
    for packet in original.packets() {
        let mut body = packet.body.to_vec();
        if packet.tag == Tag::SIGNATURE {
            // Within the second number.
            let at = body.len() - 20;
            body[at] ^= 1;
        }
        raw.extend([0xc0 | packet.tag.0, 255]);
        raw.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        raw.extend(body);
    }
    let cert = Cert::parse(&raw).unwrap();
    let judged = verdicts(&[&cert], Verification::Full).remove(0);
    assert_eq!(judged, vec![Verdict::Bad; cert.signature_count()]);
}
