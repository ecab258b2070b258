//! Signatures of other keys that the owner of a certificate has attested: a signature of type 0x16
//! on a user ID has a list of their digests (draft-dkg-openpgp-1pa3pc, section 3). So the owner
//! chooses which of them are given out.

use std::collections::{HashMap, HashSet};

use crate::hash::Hasher;
use crate::identity::{Variant, Variants};
use crate::signature::{Signature, Subpackets, kind};

/// The subpacket with the digests.
const ATTESTED: u8 = 37;

/// Most hash algorithms with which signatures are compared with the attestations of one component.
const HASHES_MAX: usize = 2;

/// The signatures on one component that its newest attestation names. Several attestations of one
/// second are one.
#[derive(Default)]
pub(crate) struct Attested {
    /// The digests, by hash algorithm.
    digests: HashMap<u8, HashSet<Vec<u8>>>,
}

impl Attested {
    /// `own` are the good signatures of the owner on the component.
    pub(crate) fn by<'a>(own: impl IntoIterator<Item = Signature<'a>>) -> Self {
        let mut newest: Vec<Signature<'a>> = Vec::new();
        for signature in own.into_iter().filter(|signature| signature.kind == kind::ATTESTATION) {
            let created = newest.first().map_or(0, |first| first.created);
            if signature.created > created {
                newest.clear();
            }
            if signature.created >= created {
                newest.push(signature);
            }
        }
        let mut digests: HashMap<u8, HashSet<Vec<u8>>> = HashMap::new();
        for signature in newest {
            if digests.len() == HASHES_MAX && !digests.contains_key(&signature.hash) {
                continue;
            }
            let length = Hasher::new(signature.hash)
                .and_then(Hasher::finish)
                .map_or(usize::MAX, |digest| digest.as_bytes().len());
            let lists = Subpackets(signature.hashed_area).flatten();
            for list in lists.filter(|subpacket| subpacket.kind == ATTESTED) {
                let named = list.body.chunks_exact(length).map(<[u8]>::to_vec);
                digests.entry(signature.hash).or_default().extend(named);
            }
        }
        Self { digests }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.digests.values().all(HashSet::is_empty)
    }

    /// Whether the owner has attested the signature of this packet. The unhashed area does not
    /// matter.
    pub(crate) fn names(&self, variant: &Variant<'_>) -> bool {
        let Some(signature) = &variant.signature else { return false };
        self.digests.iter().any(|(&hash, named)| {
            let digest = digest_of(signature, variant.body, hash);
            digest.is_some_and(|digest| named.contains(&digest))
        })
    }

    /// Whether the owner has attested a packet of the signature.
    pub(crate) fn names_one(&self, variants: &Variants<'_>) -> bool {
        variants.0.iter().any(|variant| self.names(variant))
    }
}

/// The digest of a signature in an attestation: that of its packet without an unhashed area (RFC
/// 9580, section 5.2.4).
fn digest_of(signature: &Signature<'_>, body: &[u8], hash: u8) -> Option<Vec<u8>> {
    let head: &[u8] = if signature.version == 3 { &[] } else { signature.hashed };
    let empty: &[u8] = match signature.version {
        3 => &[],
        6 => &[0; 4],
        _ => &[0; 2],
    };
    let rest = body.get(head.len() + empty.len() + signature.unhashed_area.len()..)?;
    let length = u32::try_from(head.len() + empty.len() + rest.len()).ok()?;
    let mut hasher = Hasher::checked(hash)?;
    hasher.update(&[0x88]);
    hasher.update(&length.to_be_bytes());
    [head, empty, rest].into_iter().for_each(|part| hasher.update(part));
    Some(hasher.finish()?.as_bytes().to_vec())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::limits::samples::{OWN, signature};

    /// An attestation of some signatures, by their bodies.
    pub(crate) fn attestation(created: u32, signatures: &[Vec<u8>], text: &[u8]) -> Vec<u8> {
        let mut list = vec![ATTESTED];
        for body in signatures {
            let read = Signature::parse(body).unwrap();
            list.extend(digest_of(&read, body, 8).unwrap());
        }
        let mut subpacket = vec![255];
        subpacket.extend(u32::try_from(list.len()).unwrap().to_be_bytes());
        subpacket.extend(list);
        let mut body = signature(kind::ATTESTATION, created, OWN, text);
        let length = u16::try_from(16 + subpacket.len()).unwrap().to_be_bytes();
        body.splice(22..22, subpacket);
        body.splice(4..6, length);
        body
    }

    fn names(own: &[Vec<u8>], of: &[u8]) -> bool {
        let own = own.iter().map(|body| Signature::parse(body).unwrap());
        let variants = Variants::of([(1, of)].into_iter());
        Attested::by(own).names_one(&variants[0])
    }

    #[test]
    fn the_newest_attestation_decides() {
        let [one, two] = [7, 8].map(|signer| signature(0x10, 1, signer, b""));
        let first = attestation(5, std::slice::from_ref(&one), b"");
        let second = attestation(6, std::slice::from_ref(&two), b"");
        let same_time = attestation(6, std::slice::from_ref(&one), b"");
        assert!(names(std::slice::from_ref(&first), &one));
        assert!(!names(std::slice::from_ref(&first), &two));
        assert!(!names(&[first.clone(), second.clone()], &one));
        assert!(names(&[second.clone(), first], &two));
        assert!(names(&[second.clone(), same_time.clone()], &one));
        assert!(names(&[second, same_time], &two));
        // The owner can take all back.
        assert!(!names(
            &[attestation(7, &[], b""), attestation(6, std::slice::from_ref(&one), b"")],
            &one
        ));
        assert!(Attested::by([Signature::parse(&attestation(7, &[], b"")).unwrap()]).is_empty());
    }

    #[test]
    fn an_unhashed_area_changes_no_digest() {
        let plain = signature(0x10, 1, 7, b"text");
        let mut other = plain.clone();
        other[23] = 3;
        other.splice(24..24, [2, 100, 1]);
        let own = [attestation(5, std::slice::from_ref(&plain), b"")];
        assert!(names(&own, &other));
        let mut changed = plain;
        *changed.last_mut().unwrap() ^= 1;
        assert!(!names(&own, &changed));
    }
}
