//! Reduces the unhashed area of a signature to the subpackets that are useful there.
//!
//! A signature does not cover its unhashed area. Anybody may write into that area, also subpackets
//! that make other programs refuse the whole signature. A revocation must not become ineffective in
//! this way.

use std::borrow::Cow;

use crate::packet::write_length;
use crate::signature::{Signature, Subpacket, Subpackets};

pub(crate) const ISSUER: u8 = 16;
pub(crate) const EMBEDDED_SIGNATURE: u8 = 32;
pub(crate) const ISSUER_FINGERPRINT: u8 = 33;

/// The body of a signature packet whose unhashed area has only well-formed issuers and embedded
/// signatures. The signed part stays unchanged, and so does the verdict on the signature.
///
/// `None` if the fields of the signature do not fit.
#[must_use]
pub fn plain_signature(body: &[u8]) -> Option<Vec<u8>> {
    plain(body, true)
}

fn plain(body: &[u8], embedded: bool) -> Option<Vec<u8>> {
    let signature = Signature::parse(body)?;
    if signature.version == 3 {
        return Some(body.to_vec());
    }
    let mut area = Vec::new();
    for subpacket in Subpackets(signature.unhashed_area).flatten() {
        let Subpacket { kind, critical, body } = subpacket;
        if let Some(body) = useful(kind, body, embedded) {
            write(&mut area, kind | u8::from(critical) << 7, &body);
        }
    }
    let width = if signature.version == 6 { 4 } else { 2 };
    let behind = signature.hashed.len() + width + signature.unhashed_area.len();
    let length = u32::try_from(area.len()).ok()?.to_be_bytes();
    // Lengths that were written with too many bytes become shorter, so the area never grows.
    Some([signature.hashed, &length[4 - width..], &area, &body[behind..]].concat())
}

/// The body of a subpacket in the form that may stay in an unhashed area. `None` if it is dropped.
fn useful(kind: u8, body: &[u8], embedded: bool) -> Option<Cow<'_, [u8]>> {
    let fits = match (kind, body) {
        (ISSUER, id) => id.len() == 8,
        (ISSUER_FINGERPRINT, [4, fingerprint @ ..]) => fingerprint.len() == 20,
        (ISSUER_FINGERPRINT, [5 | 6, fingerprint @ ..]) => fingerprint.len() == 32,
        (EMBEDDED_SIGNATURE, body) if embedded => return plain(body, false).map(Cow::Owned),
        _ => false,
    };
    fits.then_some(Cow::Borrowed(body))
}

/// Appends a subpacket (RFC 9580, section 5.2.3.7) to an area.
pub(crate) fn write(area: &mut Vec<u8>, kind: u8, body: &[u8]) {
    write_length(area, body.len() + 1, 16_319);
    area.push(kind);
    area.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A signature of version 4 or 6 with the given areas, followed by `rest`.
    fn signature(version: u8, hashed: &[u8], unhashed: &[u8], rest: &[u8]) -> Vec<u8> {
        let area = |area: &[u8]| {
            let length = u32::try_from(area.len()).unwrap().to_be_bytes();
            [&length[if version == 6 { 0 } else { 2 }..], area].concat()
        };
        [&[version, 0x13, 22, 8][..], &area(hashed), &area(unhashed), rest].concat()
    }

    fn subpackets(list: &[(u8, &[u8])]) -> Vec<u8> {
        let mut area = Vec::new();
        list.iter().for_each(|(kind, body)| write(&mut area, *kind, body));
        area
    }

    #[test]
    fn only_issuers_and_embedded_signatures_stay() {
        let rest = [7, 7, 0, 8, 0xff, 0, 8, 0xff];
        let v4 = [&[4][..], &[1; 20]].concat();
        let long = [&[6][..], &[2; 34]].concat();
        let back = |unhashed: &[u8]| signature(4, &[5, 2, 0, 0, 0, 1], unhashed, &rest);
        let many = vec![3; 300];
        let dirty = subpackets(&[
            (16, &[1; 8]),
            (16, &[1; 7]),
            (33, &v4),
            (33, &long),
            (32, &back(&subpackets(&[(33, &long), (16, &[5; 8]), (32, &back(&[]))]))),
            (32, b"no signature"),
            (0xbc, b"unknown"),
            (20, &many),
        ]);
        let clean =
            subpackets(&[(16, &[1; 8]), (33, &v4), (32, &back(&subpackets(&[(16, &[5; 8])])))]);
        for version in [4, 6] {
            let rest =
                if version == 6 { [&rest[..2], &[0], &rest[2..]].concat() } else { rest.to_vec() };
            let hashed = subpackets(&[(2, &[0, 0, 0, 9]), (0xbc, b"unknown")]);
            // A last subpacket that is longer than its area.
            for end in [&[][..], &[90, 16, 1]] {
                let dirty = [&dirty, end].concat();
                assert_eq!(
                    plain_signature(&signature(version, &hashed, &dirty, &rest)),
                    Some(signature(version, &hashed, &clean, &rest)),
                );
            }
        }
    }

    proptest! {
        /// The signed part, the digest prefix and the numbers stay. A second run changes nothing.
        #[test]
        fn the_signed_part_is_kept(
            hashed in proptest::collection::vec(any::<u8>(), 0..40),
            unhashed in proptest::collection::vec(any::<u8>(), 0..400),
            version in prop_oneof![Just(4u8), Just(6)],
        ) {
            let body = signature(version, &hashed, &unhashed, &[1, 2, 0, 9, 1, 1]);
            let Some(plain) = plain_signature(&body) else { return Ok(()) };
            let (before, after) = (Signature::parse(&body).unwrap(), Signature::parse(&plain).unwrap());
            prop_assert_eq!(before.hashed, after.hashed);
            prop_assert_eq!(before.digest_prefix, after.digest_prefix);
            prop_assert_eq!(before.salt, after.salt);
            prop_assert_eq!(before.numbers, after.numbers);
            prop_assert!(plain.len() <= body.len());
            prop_assert_eq!(plain_signature(&plain), Some(plain));
        }

        #[test]
        fn any_bytes_are_read(body: Vec<u8>) {
            let _ = plain_signature(&body);
        }
    }
}
