//! A certificate: its packets in canonical order, and the union of two copies.
//!
//! A certificate is a set of components (user IDs, attributes, subkeys, packets of unknown kinds),
//! each with a set of signatures on it. The canonical form writes that set in one order. Two copies
//! with the same content therefore have the same bytes, and the union of two copies is the union of
//! their sets. This module judges no signature and loses no packet. [`crate::verify`] decides which
//! signatures are good.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::Reason;
use crate::fingerprint::Fingerprint;
use crate::hash::md5;
use crate::key::Key;
use crate::packet::{self, PacketRef, packets};
use crate::signature::kind;
use crate::tag::Tag;

/// Maximum number of packets in a certificate: a million, so that the memory kept per packet stays
/// small beside the largest certificate.
pub const PACKETS_MAX: usize = 1 << 20;

/// A certificate in canonical form. Clones share its bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cert {
    /// The canonical bytes.
    bytes: Arc<Vec<u8>>,
    /// The places of the packets in the canonical bytes.
    index: Arc<Vec<PacketRange>>,
    fingerprint: Fingerprint,
}

/// The bytes of a certificate that is being written, packet by packet in canonical order.
struct CertWriter {
    bytes: Vec<u8>,
    index: Vec<PacketRange>,
}

impl CertWriter {
    fn with_capacity(bytes: usize, packets: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), index: Vec::with_capacity(packets) }
    }

    fn push(&mut self, packet: PacketRef<'_>) {
        packet::write(&mut self.bytes, packet.tag, packet.body);
        let end = self.bytes.len();
        let body = offset(end - packet.body.len());
        self.index.push(PacketRange { tag: packet.tag, body, end: offset(end) });
    }

    fn finish(self, fingerprint: Fingerprint) -> Cert {
        Cert { bytes: Arc::new(self.bytes), index: Arc::new(self.index), fingerprint }
    }
}

/// A packet within the canonical bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct PacketRange {
    tag: Tag,
    body: u32,
    end: u32,
}

/// A component and the bodies of the signatures on it, in ascending order without duplicates.
#[derive(Clone, Debug)]
struct Component<'a> {
    packet: PacketRef<'a>,
    signatures: Vec<&'a [u8]>,
}

/// The order of components: the primary key, user IDs, attributes, subkeys, then all other kinds.
fn rank(tag: Tag) -> u8 {
    match tag {
        Tag::PUBLIC_KEY => 0,
        Tag::USER_ID => 1,
        Tag::USER_ATTRIBUTE => 2,
        Tag::PUBLIC_SUBKEY => 3,
        Tag(other) => other | 0x40,
    }
}

fn order(a: &PacketRef<'_>, b: &PacketRef<'_>) -> Ordering {
    rank(a.tag).cmp(&rank(b.tag)).then_with(|| a.body.cmp(b.body))
}

/// Whether a signature can only be one on the primary key, wherever it stands.
fn is_for_primary(body: &[u8]) -> bool {
    match *body {
        [2 | 3, _, kind, ..] | [4..=6, kind, ..] => {
            matches!(kind, kind::DIRECT_KEY | kind::KEY_REVOCATION)
        }
        _ => false,
    }
}

impl Cert {
    /// Reads one certificate: a primary key and all packets that follow it.
    ///
    /// Packets that are local to a keyring (trust, marker) are dropped, and so is the secret part
    /// of a secret key. All other packets are kept, also those of unknown kinds.
    ///
    /// Key revocations and direct-key signatures belong to the primary key wherever they stand, for
    /// example at the end.
    ///
    /// # Errors
    ///
    /// When a packet is cut off or the primary key is malformed.
    pub fn parse(raw: &[u8]) -> Result<Self, Reason> {
        Self::read(raw, is_for_primary)
    }

    /// As [`Self::parse`], but signatures belong to the component before them, as
    /// [`Self::from_canonical`] reads them. Earlier releases stored key revocations behind user IDs
    /// and subkeys.
    ///
    /// # Errors
    ///
    /// When a packet is cut off or the primary key is malformed.
    pub fn parse_in_place(raw: &[u8]) -> Result<Self, Reason> {
        Self::read(raw, |_| false)
    }

    fn read(raw: &[u8], is_for_primary: impl Fn(&[u8]) -> bool) -> Result<Self, Reason> {
        let mut components: Vec<Component<'_>> = Vec::with_capacity(4);
        for (number, packet) in packets(raw).enumerate() {
            if number == PACKETS_MAX {
                return Err(Reason::TooManyPackets { max: PACKETS_MAX });
            }
            let PacketRef { tag, body } = packet?;
            match tag {
                Tag::SIGNATURE => {
                    let component = if is_for_primary(body) {
                        components.first_mut()
                    } else {
                        components.last_mut()
                    };
                    component.ok_or(Reason::NoPrimary { tag: tag.0 })?.signatures.push(body);
                }
                tag if tag.is_ignored() => {}
                tag if components.is_empty() != tag.is_primary() => {
                    return Err(Reason::NoPrimary { tag: tag.0 });
                }
                Tag::SECRET_KEY | Tag::SECRET_SUBKEY => {
                    let body = Key::parse(PacketRef { tag, body })?.body;
                    let tag = if tag.is_primary() { Tag::PUBLIC_KEY } else { Tag::PUBLIC_SUBKEY };
                    components.push(Component {
                        packet: PacketRef { tag, body },
                        signatures: Vec::new(),
                    });
                }
                tag => components
                    .push(Component { packet: PacketRef { tag, body }, signatures: Vec::new() }),
            }
        }
        let Some(primary) = components.first() else { return Err(Reason::NoPrimary { tag: 0 }) };
        let key = Key::parse(primary.packet)?;
        key.check_size()?;
        let fingerprint = key.fingerprint();
        if !components.is_sorted_by(|a, b| order(&a.packet, &b.packet).is_lt()) {
            components.sort_by(|a, b| order(&a.packet, &b.packet));
            components.dedup_by(|again, first| {
                let same = again.packet == first.packet;
                if same {
                    first.signatures.append(&mut again.signatures);
                }
                same
            });
        }
        for component in &mut components {
            if !component.signatures.is_sorted_by(|a, b| a < b) {
                component.signatures.sort_unstable();
                component.signatures.dedup();
            }
        }
        Ok(Self::write(&components, fingerprint, raw.len()))
    }

    /// Reads canonical bytes from [`Self::as_bytes`], without sorting them again.
    ///
    /// # Errors
    ///
    /// When the bytes are not those of a certificate in canonical form.
    pub fn from_canonical(bytes: Vec<u8>) -> Result<Self, Reason> {
        let mut index = Vec::with_capacity(bytes.len() / 300 + 4);
        let mut at = 0;
        for packet in packets(&bytes) {
            let packet = packet?;
            let header = match packet.body.len() {
                0..=191 => 2,
                192..=8383 => 3,
                _ => 6,
            };
            let body = at + header;
            at = body + packet.body.len();
            index.push(PacketRange { tag: packet.tag, body: offset(body), end: offset(at) });
        }
        let Some(first) = index.first() else { return Err(Reason::NoPrimary { tag: 0 }) };
        let primary = bytes.get(first.body as usize..first.end as usize);
        let primary = PacketRef { tag: first.tag, body: primary.ok_or(Reason::MalformedKey)? };
        if at != bytes.len() || first.tag != Tag::PUBLIC_KEY {
            return Err(Reason::NoPrimary { tag: first.tag.0 });
        }
        let fingerprint = Key::parse(primary)?.fingerprint();
        Ok(CertWriter { bytes, index }.finish(fingerprint))
    }

    fn write(components: &[Component<'_>], fingerprint: Fingerprint, hint: usize) -> Self {
        let packets = components.iter().map(|component| 1 + component.signatures.len()).sum();
        let mut cert = CertWriter::with_capacity(hint + 16, packets);
        for component in components {
            cert.push(component.packet);
            for body in &component.signatures {
                cert.push(PacketRef { tag: Tag::SIGNATURE, body });
            }
        }
        cert.finish(fingerprint)
    }

    /// The certificate as a stream of packets, in canonical order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the canonical bytes, without copying them if there is no clone.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        Arc::unwrap_or_clone(self.bytes)
    }

    /// The fingerprint of the primary key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The packets in canonical order.
    #[must_use]
    pub fn packets(&self) -> impl DoubleEndedIterator<Item = PacketRef<'_>> + ExactSizeIterator {
        self.index.iter().map(|place| PacketRef {
            tag: place.tag,
            body: &self.bytes[place.body as usize..place.end as usize],
        })
    }

    /// The number of signature packets.
    #[must_use]
    pub fn signature_count(&self) -> usize {
        self.index.iter().filter(|place| place.tag == Tag::SIGNATURE).count()
    }

    /// The primary key and the subkeys, as far as they can be read.
    pub fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        self.packets()
            .filter(|packet| matches!(packet.tag, Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY))
            .filter_map(|packet| Key::parse(packet).ok())
    }

    /// The user IDs, without attributes.
    pub fn user_ids(&self) -> impl Iterator<Item = &[u8]> {
        self.packets().filter(|packet| packet.tag == Tag::USER_ID).map(|packet| packet.body)
    }

    fn components(&self) -> Vec<Component<'_>> {
        let mut components: Vec<Component<'_>> = Vec::new();
        for packet in self.packets() {
            match components.last_mut() {
                Some(component) if packet.tag == Tag::SIGNATURE => {
                    component.signatures.push(packet.body);
                }
                _ => components.push(Component { packet, signatures: Vec::new() }),
            }
        }
        components
    }

    /// The union of two copies of a certificate: every component and signature that either copy
    /// has, without duplicates.
    ///
    /// Commutative, associative and idempotent. The cost is linear in the size of both copies.
    ///
    /// # Panics
    ///
    /// If the two are not copies of the same certificate, which is a bug of the caller.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        assert_eq!(
            self.fingerprint, other.fingerprint,
            "only copies of one certificate are joined"
        );
        if self.bytes == other.bytes {
            return self.clone();
        }
        let (ours, theirs) = (self.components(), other.components());
        let joined = merge(
            ours,
            theirs,
            |a, b| order(&a.packet, &b.packet),
            |a, b| Component {
                packet: a.packet,
                signatures: merge(a.signatures, b.signatures, std::cmp::Ord::cmp, |a, _| a),
            },
        );
        Self::write(&joined, self.fingerprint, self.bytes.len().max(other.bytes.len()))
    }

    /// The certificate with one more signature on its primary key, given as the body of its packet.
    #[must_use]
    pub fn with_direct_signature(&self, body: &[u8]) -> Self {
        let mut components = self.components();
        if let Some(primary) = components.first_mut()
            && let Err(at) = primary.signatures.binary_search(&body)
        {
            primary.signatures.insert(at, body);
        }
        Self::write(&components, self.fingerprint, self.bytes.len() + body.len())
    }

    /// The digest by which SKS names this exact content of a certificate: MD5 over all packets,
    /// sorted by tag and body. The tag and the length come before each packet, as 32-bit big-endian
    /// numbers.
    #[must_use]
    pub fn sks_digest(&self) -> [u8; 16] {
        sks_digest(self.packets().collect())
    }

    /// The certificate reduced to the packets for which `keep` returns `true`. A component that
    /// goes takes its signatures along. The primary key always stays.
    #[must_use]
    pub fn retain(&self, mut keep: impl FnMut(usize, PacketRef<'_>) -> bool) -> Self {
        let mut out = CertWriter::with_capacity(self.bytes.len(), 0);
        let mut component_kept = true;
        for (at, packet) in self.packets().enumerate() {
            let kept = at == 0 || keep(at, packet);
            if packet.tag != Tag::SIGNATURE {
                component_kept = kept;
            }
            if kept && component_kept {
                out.push(packet);
            }
        }
        out.finish(self.fingerprint)
    }
}

/// The digest of [`Cert::sks_digest`] over a list of packets.
pub(crate) fn sks_digest(mut packets: Vec<PacketRef<'_>>) -> [u8; 16] {
    packets.sort_unstable();
    let lengths: Vec<[u8; 8]> = packets
        .iter()
        .map(|packet| (u64::from(packet.tag.0) << 32 | packet.body.len() as u64).to_be_bytes())
        .collect();
    md5(packets.iter().zip(&lengths).flat_map(|(packet, length)| [&length[..], packet.body]))
}

/// Merges two ascending lists; `join` combines two equal items into one.
fn merge<T>(
    a: Vec<T>,
    b: Vec<T>,
    order: impl Fn(&T, &T) -> Ordering,
    join: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        match order(x, y) {
            Ordering::Less => out.extend(a.next()),
            Ordering::Greater => out.extend(b.next()),
            Ordering::Equal => out.extend(a.next().zip(b.next()).map(|(x, y)| join(x, y))),
        }
    }
    out.extend(a);
    out.extend(b);
    out
}

/// An offset into a certificate, which has at most [`crate::CERT_BYTES_MAX`] bytes per copy.
fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("certificates stay far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reject, Splitter};
    use proptest::prelude::*;

    /// The smallest version 4 RSA key.
    const PRIMARY: &[u8] = &[4, 0, 0, 0, 1, 1, 0, 9, 1, 1, 0, 2, 3];

    /// Starts of signatures that belong on the primary key.
    const FOR_PRIMARY: [&[u8]; 3] = [&[4, 0x20], &[6, 0x1f, 1], &[3, 5, 0x20]];

    fn signature() -> impl Strategy<Value = Vec<u8>> {
        let for_primary = prop::sample::select(FOR_PRIMARY.map(<[u8]>::to_vec).to_vec());
        let on_subkey = Just(vec![4, 0x28]);
        prop_oneof![4 => prop::collection::vec(0u8..3, 0..4), 1 => for_primary, 1 => on_subkey]
    }

    /// A component with signatures. There are only a few different ones, so that copies overlap.
    fn component() -> impl Strategy<Value = (u8, Vec<u8>, Vec<Vec<u8>>)> {
        let tag = prop_oneof![Just(13u8), Just(14), Just(17), Just(21), Just(40), Just(63)];
        let body = prop::collection::vec(0u8..3, 0..3);
        (tag, body, prop::collection::vec(signature(), 0..4))
    }

    /// A copy of always the same certificate: any components in any order, some of them repeated.
    fn raw() -> impl Strategy<Value = Vec<u8>> {
        let direct = prop::collection::vec(signature(), 0..3);
        (direct, prop::collection::vec(component(), 0..6)).prop_map(|(direct, components)| {
            let mut out = Vec::new();
            packet::write(&mut out, Tag::PUBLIC_KEY, PRIMARY);
            direct.iter().for_each(|body| packet::write(&mut out, Tag::SIGNATURE, body));
            for (tag, body, signatures) in components {
                packet::write(&mut out, Tag(tag), &body);
                signatures.iter().for_each(|body| packet::write(&mut out, Tag::SIGNATURE, body));
            }
            out
        })
    }

    fn copy() -> impl Strategy<Value = Cert> {
        raw().prop_map(|raw| Cert::parse(&raw).unwrap())
    }

    /// The certificate as a set of pairs of component and signature, and of bare components,
    /// without ignored packets.
    fn set(raw: &[u8]) -> std::collections::BTreeSet<(PacketRef<'_>, Option<&[u8]>)> {
        let mut component = None;
        let mut pairs = std::collections::BTreeSet::new();
        for packet in packets(raw) {
            let packet = packet.unwrap();
            if packet.tag == Tag::SIGNATURE {
                pairs.insert((component.unwrap(), Some(packet.body)));
            } else if !packet.tag.is_ignored() {
                component = Some(packet);
                pairs.insert((packet, None));
            }
        }
        pairs
    }

    proptest! {
        /// The canonical form has every packet of its input that is not ignored, known or not, and
        /// no others.
        #[test]
        fn canonical_form_loses_nothing(raw in raw()) {
            let cert = Cert::parse(&raw).unwrap();
            let primary = PacketRef { tag: Tag::PUBLIC_KEY, body: PRIMARY };
            let expected = set(&raw).into_iter().map(|(component, body)| {
                let is_for_primary = body.is_some_and(|body| FOR_PRIMARY.contains(&body));
                (if is_for_primary { primary } else { component }, body)
            });
            prop_assert_eq!(set(cert.as_bytes()), expected.collect());
            prop_assert_eq!(&Cert::parse(cert.as_bytes()).unwrap(), &cert);
            prop_assert_eq!(&Cert::from_canonical(cert.as_bytes().to_vec()).unwrap(), &cert);
        }

        /// Earlier releases left signatures where they stood.
        #[test]
        fn stored_certificates_stay_as_they_are(a in raw(), b in raw()) {
            let [old, other] = [&a, &b].map(|raw| Cert::parse_in_place(raw).unwrap());
            prop_assert_eq!(set(old.as_bytes()), set(&a));
            prop_assert_eq!(&Cert::from_canonical(old.as_bytes().to_vec()).unwrap(), &old);
            prop_assert_eq!(&Cert::parse_in_place(old.as_bytes()).unwrap(), &old);
            // It does not matter when they get their new form.
            let joined = Cert::parse(old.union(&other).as_bytes()).unwrap();
            prop_assert_eq!(joined, Cert::parse(&a).unwrap().union(&Cert::parse(&b).unwrap()));
        }

        /// Gossip delivers copies in any order and repeatedly.
        #[test]
        fn union_ignores_order_and_repetition(a in copy(), b in copy(), c in copy()) {
            prop_assert_eq!(a.union(&b), b.union(&a));
            prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
            prop_assert_eq!(a.union(&a), a);
        }

        /// The union contains the packets of both copies, and no others.
        #[test]
        fn the_union_has_the_components_of_both(a in copy(), b in copy()) {
            let joined = a.union(&b);
            let expected = set(a.as_bytes()).union(&set(b.as_bytes())).copied().collect();
            prop_assert_eq!(set(joined.as_bytes()), expected);
            prop_assert_eq!(&Cert::parse(joined.as_bytes()).unwrap(), &joined);
        }

        /// Any bytes are split and parsed without a panic, and a parsed certificate is canonical.
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let mut input = Vec::new();
            packet::write(&mut input, Tag::PUBLIC_KEY, PRIMARY);
            input.extend_from_slice(&bytes);
            let mut splitter = Splitter::new(&input[..], 16);
            let mut rejects: Vec<Reject> = Vec::new();
            while let Some(batch) = splitter.next_batch().unwrap() {
                rejects.extend(batch.rejects().cloned());
                for (_, raw) in batch.certs() {
                    if let Ok(cert) = Cert::parse(raw) {
                        let again = Cert::parse(cert.as_bytes()).unwrap();
                        prop_assert_eq!(again, cert);
                    }
                }
            }
        }
    }

    /// Packets of three bytes each must not take a hundred bytes of memory each without limit.
    #[test]
    fn the_refusal_of_too_many_packets_names_the_certificate() {
        let mut raw = Vec::new();
        packet::write(&mut raw, Tag::PUBLIC_KEY, PRIMARY);
        raw.extend(std::iter::repeat_n([0xc2, 0], PACKETS_MAX - 1).flatten());
        assert!(Cert::parse(&raw).is_ok());
        raw.extend_from_slice(&[0xc2, 0]);
        assert_eq!(Cert::parse(&raw), Err(Reason::TooManyPackets { max: PACKETS_MAX }));
    }

    /// `cat key.pgp revocation.pgp` puts the revocation behind a user ID or a subkey.
    #[test]
    fn revocations_at_the_end_are_on_the_primary_key() {
        let [revocation, direct, subkey_revocation] = [&[4, 0x20], &[4, 0x1f], &[4, 0x28]];
        let (user_id, user_id_body) = (Tag::USER_ID, b"Alice");
        let mut raw = Vec::new();
        packet::write(&mut raw, Tag::PUBLIC_KEY, PRIMARY);
        packet::write(&mut raw, user_id, user_id_body);
        for body in [revocation, direct, subkey_revocation] {
            packet::write(&mut raw, Tag::SIGNATURE, body);
        }
        let cert = Cert::parse(&raw).unwrap();
        let components = cert.components();
        assert_eq!(components[0].signatures, [direct, revocation]);
        assert_eq!(components[1].signatures, [subkey_revocation]);
    }

    /// Signatures behind them are on the component before them.
    #[test]
    fn ignored_packets_are_dropped() {
        let with = |ignored: &[(Tag, &[u8])]| {
            let mut raw = Vec::new();
            packet::write(&mut raw, Tag::PUBLIC_KEY, PRIMARY);
            packet::write(&mut raw, Tag::USER_ID, b"Alice");
            ignored.iter().for_each(|(tag, body)| packet::write(&mut raw, *tag, body));
            packet::write(&mut raw, Tag::SIGNATURE, &[4, 0x13]);
            Cert::parse(&raw).unwrap()
        };
        for ignored in [(Tag::TRUST, &[1, 2][..]), (Tag::MARKER, b"PGP"), (Tag::PADDING, &[0; 40])]
        {
            assert_eq!(with(&[ignored]), with(&[]));
        }
        assert_eq!(with(&[]).components()[1].signatures.len(), 1);
    }
}
