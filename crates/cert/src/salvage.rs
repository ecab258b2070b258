//! Recovering from damaged bytes what its owner's signatures still prove.

use crate::cert::Cert;
use crate::fingerprint::Fingerprint;
use crate::packet::{self, Header, PacketRef};
use crate::tag::Tag;
use crate::verdict::{Verdict, Verification};
use crate::verify::verdicts;

impl Cert {
    /// The part of the certificate in the damaged `bytes` that good self-signatures prove: the
    /// primary key, the components with a good self-signature, and their good signatures.
    /// Signatures by others are not in it, since nothing here tells a damaged one from a good one.
    ///
    /// `None` if the primary key is not that of `fingerprint`, or if no self-signature is good.
    #[must_use]
    pub fn salvage(bytes: &[u8], fingerprint: Fingerprint) -> Option<Self> {
        let mut framed = Vec::with_capacity(bytes.len());
        for packet in readable(bytes) {
            packet::write(&mut framed, packet.tag, packet.body);
        }
        let cert = Self::parse(&framed).ok().filter(|cert| cert.fingerprint() == fingerprint)?;
        let verdicts = verdicts(&[&cert], Verification::Full).into_iter().next()?;
        let mut verdicts = verdicts.into_iter();
        let is_good: Vec<Option<bool>> = cert
            .packets()
            .map(|packet| {
                (packet.tag == Tag::SIGNATURE).then(|| verdicts.next() == Some(Verdict::Good))
            })
            .collect();
        if !is_good.contains(&Some(true)) {
            return None;
        }
        let has_good = |at: usize| {
            is_good[at + 1..].iter().map_while(|is_good| *is_good).any(|is_good| is_good)
        };
        Some(cert.retain(|at, _| is_good[at].unwrap_or_else(|| has_good(at))))
    }
}

/// The packets of `bytes`, without those whose header is damaged. After such a header, packets
/// begin again at the first byte from which all packets to the end can be framed. Takes time and
/// memory in proportion to the number of bytes, whatever they are.
fn readable(bytes: &[u8]) -> Vec<PacketRef<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if let Some((packet, next)) = framed(bytes, at) {
            found.push(packet);
            at = next;
        } else if let Some(next) = next_framed(bytes, at + 1) {
            at = next;
        } else {
            break;
        }
    }
    found
}

/// The packet at a byte, and the byte after it. `None` if its header is damaged.
fn framed(bytes: &[u8], at: usize) -> Option<(PacketRef<'_>, usize)> {
    let header = Header::read(&bytes[at..]).ok()??;
    let body = at + header.len;
    let next = body.checked_add(header.body)?;
    Some((PacketRef { tag: header.tag, body: bytes.get(body..next)? }, next))
}

/// The first byte from `start` on from which all packets to the end can be framed.
fn next_framed(bytes: &[u8], start: usize) -> Option<usize> {
    let mut is_framed = vec![false; bytes.len() + 1];
    is_framed[bytes.len()] = true;
    let mut first = None;
    for at in (start..bytes.len()).rev() {
        if framed(bytes, at).is_some_and(|(_, next)| is_framed[next]) {
            is_framed[at] = true;
            first = Some(at);
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RING: &[u8] = include_bytes!("../tests/fixtures/alice-and-bob.asc");

    fn alice() -> Cert {
        let mut splitter = crate::Splitter::new(crate::Armor::new(RING), crate::BATCH_BYTES);
        let batch = splitter.next_batch().unwrap().unwrap();
        let raw = batch.certs().next().unwrap().1.to_vec();
        Cert::parse(&raw).unwrap()
    }

    #[test]
    fn an_undamaged_certificate_is_salvaged_with_all_its_own_signatures() {
        let cert = alice();
        let salvaged = Cert::salvage(cert.as_bytes(), cert.fingerprint()).unwrap();
        let own = verdicts(&[&cert], Verification::Full)[0]
            .iter()
            .filter(|&&verdict| verdict == Verdict::Good)
            .count();
        assert!(own >= 1);
        assert_eq!(salvaged.signature_count(), own);
    }

    proptest! {
        /// Whatever one byte becomes, everything that is salvaged was in the certificate, and is
        /// signed.
        #[test]
        fn nothing_damaged_is_salvaged(at in any::<prop::sample::Index>(), flip in 1u8..) {
            let cert = alice();
            let mut bytes = cert.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            if let Some(salvaged) = Cert::salvage(&bytes, cert.fingerprint()) {
                let before: Vec<_> = cert.packets().collect();
                for packet in salvaged.packets() {
                    // The bytes of a signature that are not signed can change.
                    prop_assert!(packet.tag == Tag::SIGNATURE || before.contains(&packet));
                }
                let verdicts = verdicts(&[&salvaged], Verification::Full);
                prop_assert!(verdicts[0].iter().all(|&verdict| verdict == Verdict::Good));
            }
        }

        /// Packets are found again after a damaged header, as trying each byte in turn finds them.
        #[test]
        fn packets_begin_again_where_all_can_be_framed(
            lengths in prop::collection::vec(0u8..9, 0..20),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let mut bytes = Vec::new();
            for length in lengths {
                packet::write(&mut bytes, Tag::USER_ID, &vec![0xcd; usize::from(length)]);
            }
            for (at, byte) in flips.into_iter().filter(|_| !bytes.is_empty()).collect::<Vec<_>>() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            for start in 0..bytes.len() {
                let slow = (start..bytes.len())
                    .find(|&at| packet::packets(&bytes[at..]).all(|packet| packet.is_ok()));
                prop_assert_eq!(next_framed(&bytes, start), slow);
            }
        }

        /// Any bytes are read in bounded time and give no certificate, or a signed one.
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(Cert::salvage(&bytes, alice().fingerprint()).is_none());
        }
    }
}
