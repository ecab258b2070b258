//! Certificates and signatures for tests, and what limits leave of them.

use proptest::prelude::*;

use crate::cert::Cert;
use crate::limits::bounds::Limits;
use crate::packet;
use crate::signature::Signature;
use crate::tag::Tag;
use crate::verdict::Verdict;
use crate::work::Work;

/// The smallest version 4 RSA key.
const PRIMARY: &[u8] = &[4, 0, 0, 0, 1, 1, 0, 9, 1, 1, 0, 2, 3];

/// The signer number of the primary key. Other numbers are other keys.
pub(crate) const OWN: u64 = 0;

pub(crate) const NOW: u32 = 1_000_000;

/// A component with the signatures on it.
pub(crate) type TestPart<'a> = (Tag, &'a [u8], Vec<Vec<u8>>);

pub(crate) fn cert(parts: &[TestPart<'_>]) -> Cert {
    let mut raw = Vec::new();
    packet::write(&mut raw, Tag::PUBLIC_KEY, PRIMARY);
    for (tag, body, signatures) in parts {
        if *tag != Tag::PUBLIC_KEY {
            packet::write(&mut raw, *tag, body);
        }
        signatures.iter().for_each(|body| packet::write(&mut raw, Tag::SIGNATURE, body));
    }
    Cert::parse(&raw).unwrap()
}

/// A version 4 signature with a signed issuer, and with `text` as its number.
pub(crate) fn signature(kind: u8, created: u32, signer: u64, text: &[u8]) -> Vec<u8> {
    variant(kind, created, signer, text, &[])
}

/// The same with an unhashed area.
pub(crate) fn variant(
    kind: u8,
    created: u32,
    signer: u64,
    text: &[u8],
    unhashed: &[u8],
) -> Vec<u8> {
    let signer = if signer == OWN { cert(&[]).fingerprint().key_id().0 } else { signer };
    let mut body = vec![4, kind, 1, 8, 0, 16];
    body.extend([5, 2]);
    body.extend(created.to_be_bytes());
    body.extend([9, 16]);
    body.extend(signer.to_be_bytes());
    body.extend(u16::try_from(unhashed.len()).unwrap().to_be_bytes());
    body.extend(unhashed);
    body.extend([0, 0]);
    body.extend(u16::try_from(8 * (text.len() + 1)).unwrap().to_be_bytes());
    body.push(0xff);
    body.extend(text);
    body
}

pub(crate) fn user_id(body: &[u8], signatures: Vec<Vec<u8>>) -> TestPart<'_> {
    (Tag::USER_ID, body, signatures)
}

pub(crate) fn bodies(cert: &Cert) -> impl Iterator<Item = &[u8]> {
    cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE).map(|packet| packet.body)
}

pub(crate) fn has(cert: &Cert, body: &[u8]) -> bool {
    bodies(cert).any(|there| there == body)
}

/// A verdict for each signature. For self-signatures it depends on their identity.
pub(crate) fn any_verdicts(cert: &Cert) -> Vec<Verdict> {
    let id = cert.fingerprint().key_id();
    let judge = |body: &[u8]| match Signature::parse(body) {
        None => Verdict::Malformed,
        Some(signature) if !signature.names(id) => Verdict::Foreign,
        Some(signature) => match signature.id()[0] % 5 {
            0 => Verdict::Bad,
            1 => Verdict::Unsupported,
            2 => Verdict::Misplaced,
            _ => Verdict::Good,
        },
    };
    bodies(cert).map(judge).collect()
}

/// The verdicts with only these signatures good.
pub(crate) fn judged(cert: &Cert, good: &[Vec<u8>]) -> Vec<Verdict> {
    let id = cert.fingerprint().key_id();
    let good: Vec<[u8; 32]> =
        good.iter().map(|body| Signature::parse(body).unwrap().id()).collect();
    let judge = |body: &[u8]| match Signature::parse(body) {
        None => Verdict::Malformed,
        Some(signature) if good.contains(&signature.id()) => Verdict::Good,
        Some(signature) if signature.names(id) => Verdict::Bad,
        Some(_) => Verdict::Foreign,
    };
    bodies(cert).map(judge).collect()
}

pub(crate) fn nobody() -> Vec<(Cert, Vec<Verdict>)> {
    Vec::new()
}

pub(crate) fn unbounded() -> Work {
    Work::UNBOUNDED
}

/// The certificate within limits, if no other key is known.
pub(crate) fn keep(cert: &Cert, verdicts: &[Verdict], limits: &Limits) -> Cert {
    let kept = cert.within(verdicts, limits, NOW, &mut unbounded(), &mut nobody());
    kept.map_or_else(|| cert.clone(), |(kept, _)| kept)
}

/// A direct-key signature of the owner that names a revoker.
pub(crate) fn naming(revoker: [u8; 20]) -> Vec<u8> {
    let mut body = signature(0x1f, 1, OWN, b"good");
    body.splice(22..22, [&[23, 12, 0x80, 1][..], &revoker].concat());
    body[5] += 24;
    body
}

/// A signature whose issuers are only in bytes that anybody can change.
pub(crate) fn hinted(kind: u8, text: &[u8], issuers: &[u64]) -> Vec<u8> {
    let own = cert(&[]).fingerprint().key_id().0;
    let hints = issuers.iter().flat_map(|&issuer| {
        let issuer = if issuer == OWN { own } else { issuer };
        [&[9, 16][..], &issuer.to_be_bytes()].concat()
    });
    let hints: Vec<u8> = hints.collect();
    let mut body = vec![4, kind, 1, 8, 0, 6, 5, 2, 0, 0, 0, 1];
    body.extend(u16::try_from(hints.len()).unwrap().to_be_bytes());
    body.extend(hints);
    body.extend([0, 0]);
    body.extend(u16::try_from(8 * (text.len() + 1)).unwrap().to_be_bytes());
    body.push(0xff);
    body.extend(text);
    body
}

fn any_signature() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(vec![0x10u8, 0x13, 0x16, 0x18, 0x1f, 0x20, 0x28, 0x30, 0x40]);
    let text = prop_oneof![
        9 => prop::collection::vec(0u8..2, 0..3),
        1 => prop::collection::vec(0u8..2, 1020..1100),
    ];
    let unhashed = prop_oneof![
        3 => Just(vec![]),
        2 => prop::collection::vec(0u8..2, 1..3).prop_map(|text| [&[3, 100][..], &text, &[0, 0]].concat()[..4].to_vec()),
        // Longer than a signature of the first size class.
        1 => (0u8..2).prop_map(|byte| [&[255, 0, 0, 4, 1, 100][..], &[byte; 1024]].concat()),
    ];
    prop_oneof![
        9 => (kinds, 0u32..5, 0u64..3, text, unhashed)
            .prop_map(|(k, t, s, x, u)| variant(k, t, s, &x, &u)),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ]
}

pub(crate) fn any_cert() -> impl Strategy<Value = Cert> {
    let tag = prop::sample::select(vec![6u8, 13, 13, 13, 14, 17, 21, 40]);
    let body = prop::collection::vec(0u8..3, 0..3);
    let signatures = prop::collection::vec(any_signature(), 0..8);
    prop::collection::vec((tag, body, signatures), 0..8).prop_map(|parts| {
        let (mut direct, rest): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|(tag, ..)| *tag == 6);
        direct.extend(rest);
        let parts: Vec<TestPart<'_>> =
            direct.iter().map(|(tag, body, s)| (Tag(*tag), &body[..], s.clone())).collect();
        cert(&parts)
    })
}
