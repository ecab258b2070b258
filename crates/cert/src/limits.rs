//! Limits on the certificates of a keyserver, to which anybody may add packets.
//!
//! Anybody can forge thousands of signatures in the name of any key. The number of kept signatures is
//! therefore limited before any of them is verified. Signatures that are already known to be good stay
//! first, then revocations, then the newest. After verification, a tighter limit holds for signatures
//! that the owner did not make. These take no room from later signatures: once their limit is reached,
//! further ones change nothing. A certificate that has reached its limit still accepts revocations.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::{Cert, PacketRef, Signature, Tag, Verdict, kind};

/// Limits on one certificate. The default has no limits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Maximum bytes of the certificate.
    pub cert_bytes: usize,
    /// Maximum bytes of one packet. The primary key always stays, whatever its length.
    pub packet_bytes: usize,
    /// Maximum bytes of one user ID.
    pub user_id_bytes: usize,
    /// Maximum number of user IDs, attributes, subkeys and unknown components together. Components that
    /// are known to have no good self-signature do not count, see `bad_signatures`.
    pub components: usize,
    /// Whether user attributes (photos) are kept.
    pub attributes: bool,
    /// Maximum number of signatures in the name of the primary key. Signatures that it is known not to
    /// have made do not count, see `bad_signatures`. A few more revocations may come on top.
    pub own_signatures: usize,
    /// Maximum number of signatures in the name of the primary key that turn out not to be made by it, or
    /// cannot be checked. The same limit holds for components without a good self-signature.
    pub bad_signatures: usize,
    /// Maximum number of signatures of one other key on one component. As many revocations may come on
    /// top.
    pub signatures_per_signer: usize,
    /// Maximum number of signatures of other keys on the whole certificate.
    pub foreign_signatures: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cert_bytes: crate::CERT_BYTES_MAX,
            packet_bytes: usize::MAX,
            user_id_bytes: usize::MAX,
            components: usize::MAX,
            attributes: true,
            own_signatures: usize::MAX,
            bad_signatures: usize::MAX,
            signatures_per_signer: usize::MAX,
            foreign_signatures: usize::MAX,
        }
    }
}

/// Bytes that revocations may add to a certificate that has reached its limit.
const REVOCATION_BYTES: usize = 64 << 10;

/// Maximum number of revocations accepted at a time beyond a limit. They are verified afterwards, so
/// forged ones do not stay.
const REVOCATIONS: usize = 16;

/// The rank of a signature among those to keep: signatures of larger weight stay first.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct Weight {
    good: bool,
    revokes: bool,
    created: u32,
}

/// A signature packet that may be dropped.
struct Candidate {
    /// Index of the packet in the certificate.
    at: usize,
    component: usize,
    signer: u64,
    weight: Weight,
    bytes: usize,
}

/// The verdicts on a copy with verified signatures, by component and signature. Components can be large
/// and have many signatures, so each is looked up only once.
#[derive(Default)]
struct KnownVerdicts<'a>(HashMap<PacketRef<'a>, HashMap<&'a [u8], Verdict>>);

impl<'a> KnownVerdicts<'a> {
    fn of(cert: &'a Cert, verdicts: &[Verdict]) -> Self {
        let mut known: HashMap<PacketRef<'a>, HashMap<&'a [u8], Verdict>> = HashMap::new();
        let mut verdicts = verdicts.iter().copied();
        let mut packets = cert.packets().peekable();
        while let Some(component) = packets.next() {
            let on_it = known.entry(component).or_default();
            while let Some(packet) = packets.next_if(|packet| packet.tag == Tag::SIGNATURE) {
                on_it.insert(packet.body, verdicts.next().unwrap_or(Verdict::Unchecked));
            }
        }
        Self(known)
    }

    /// Whether the copy has the component, but no signature that binds it or may turn out to bind it.
    fn is_unbound(&self, component: PacketRef<'_>) -> bool {
        self.0.get(&component).is_some_and(|on_it| !on_it.values().copied().any(binds))
    }
}

impl Cert {
    /// The certificate within `limits`, or `None` if the packets that must stay already have too many
    /// bytes.
    ///
    /// `known` is an earlier copy with its verdicts. Its good self-signatures stay before others.
    #[must_use]
    pub fn within(&self, limits: &Limits, known: Option<(&Self, &[Verdict])>) -> Option<Self> {
        if self.is_within(limits) {
            return Some(self.clone());
        }
        let known =
            known.map(|(cert, verdicts)| KnownVerdicts::of(cert, verdicts)).unwrap_or_default();
        let mut keep = vec![true; self.packets().len()];
        let mut noise = self.choose_components(limits, &known, &mut keep);
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        let id = self.fingerprint().key_id();
        let mut component = 0;
        let mut on_it = None;
        let mut bad = 0;
        for (at, packet) in self.packets().enumerate() {
            if packet.tag != Tag::SIGNATURE {
                (component, on_it) = (at, known.0.get(&packet));
                continue;
            }
            if !keep[component] || packet.body.len() > limits.packet_bytes {
                keep[at] = false;
                continue;
            }
            let verdict = on_it.and_then(|on_it| on_it.get(packet.body)).copied();
            let signature = Signature::parse(packet.body);
            let candidate = Candidate {
                at,
                component,
                signer: signature.and_then(|s| s.issuer).map_or(0, |id| id.0),
                weight: Weight {
                    good: verdict == Some(Verdict::Good),
                    revokes: signature.is_some_and(|s| is_revocation(s.kind)),
                    created: signature.map_or(0, |signature| signature.created),
                },
                bytes: written_bytes(packet.body.len()),
            };
            if !signature.is_some_and(|signature| signature.names(id)) {
                foreign.push(candidate);
            } else if verdict.is_some_and(is_noise) && bad < limits.bad_signatures {
                bad += 1;
                noise.push(at);
            } else {
                own.push(candidate);
            }
        }
        choose_own(own, limits, &mut keep);
        let foreign = choose_foreign(foreign, limits, &mut keep);
        let mut cert = self.retain(|at, _| keep[at]);
        if cert.as_bytes().len() > limits.cert_bytes {
            // If there are too many bytes, the third-party signatures of least weight are dropped.
            let mut excess = cert.as_bytes().len() - limits.cert_bytes;
            for c in foreign.iter().rev() {
                if excess == 0 {
                    break;
                }
                keep[c.at] = false;
                excess = excess.saturating_sub(c.bytes);
            }
            cert = self.retain(|at, _| keep[at]);
        }
        if cert.as_bytes().len() > limits.cert_bytes {
            noise.iter().for_each(|&at| keep[at] = false);
            cert = self.retain(|at, _| keep[at]);
        }
        (cert.as_bytes().len() <= limits.cert_bytes).then_some(cert)
    }

    /// Marks the components to drop. Returns the remaining components that are known to have no good
    /// self-signature.
    fn choose_components(
        &self,
        limits: &Limits,
        known: &KnownVerdicts<'_>,
        keep: &mut [bool],
    ) -> Vec<usize> {
        let (mut counted, mut unbound) = (Vec::new(), Vec::new());
        for (at, packet) in self.packets().enumerate().skip(1) {
            if packet.tag == Tag::SIGNATURE {
                continue;
            }
            let too_large = packet.body.len() > limits.packet_bytes
                || packet.tag == Tag::USER_ID && packet.body.len() > limits.user_id_bytes
                || packet.tag == Tag::USER_ATTRIBUTE && !limits.attributes;
            if too_large {
                keep[at] = false;
            } else if known.is_unbound(packet) && unbound.len() < limits.bad_signatures {
                unbound.push(at);
            } else {
                counted.push((!known.0.contains_key(&packet), at));
            }
        }
        // New components are dropped first, and the last of them before the others.
        counted.sort_unstable();
        for &(_, at) in counted.iter().skip(limits.components) {
            keep[at] = false;
        }
        unbound
    }

    /// `self` with the revocations of `other` that `self` does not have, although `self` has reached its
    /// limit. Revocations of the primary key come first, then other revocations, each the newest first,
    /// as far as there is room. `None` if there is nothing to add.
    #[must_use]
    pub fn with_revocations_of(&self, other: &Self, limits: &Limits) -> Option<Self> {
        let here = KnownVerdicts::of(self, &[]);
        let id = self.fingerprint().key_id();
        let mut on_it = None;
        let mut revocations = Vec::new();
        for (at, packet) in other.packets().enumerate() {
            if packet.tag != Tag::SIGNATURE {
                on_it = here.0.get(&packet);
                continue;
            }
            let is_new = on_it.is_some_and(|on_it| !on_it.contains_key(packet.body));
            let signature = Signature::parse(packet.body)
                .filter(|signature| signature.names(id) && is_revocation(signature.kind));
            if let Some(signature) = signature
                && is_new
                && packet.body.len() <= limits.packet_bytes
            {
                let of_primary = signature.kind == kind::KEY_REVOCATION;
                revocations.push((Reverse((of_primary, signature.created)), at, packet.body.len()));
            }
        }
        revocations.sort_unstable();
        let bytes_max = limits.cert_bytes.saturating_add(REVOCATION_BYTES);
        let mut bytes = self.as_bytes().len();
        let taken: HashSet<usize> = revocations
            .iter()
            .filter(|&&(_, _, length)| {
                let fits = bytes + written_bytes(length) <= bytes_max;
                bytes += if fits { written_bytes(length) } else { 0 };
                fits
            })
            .take(REVOCATIONS)
            .map(|&(_, at, _)| at)
            .collect();
        if taken.is_empty() {
            return None;
        }
        let here: HashSet<PacketRef<'_>> = here.0.into_keys().collect();
        let revocations = other.retain(|at, packet| {
            if packet.tag == Tag::SIGNATURE { taken.contains(&at) } else { here.contains(&packet) }
        });
        Some(self.union(&revocations))
    }

    /// Drops signatures above the limit of bad signatures, and components above the limit of components
    /// without a good signature. Returns the rest with its verdicts. Packets of `known` stay first.
    #[must_use]
    pub fn without_noise(
        &self,
        limits: &Limits,
        verdicts: Vec<Verdict>,
        known: Option<&Self>,
    ) -> (Self, Vec<Verdict>) {
        if self.is_quiet(limits, &verdicts) {
            return (self.clone(), verdicts);
        }
        let known = known.map(|cert| KnownVerdicts::of(cert, &[])).unwrap_or_default();
        let mut keep = vec![true; self.packets().len()];
        // Each entry begins with its sort key; the smallest entries stay.
        let (mut unbound, mut noise) = (Vec::new(), Vec::new());
        let mut numbered = verdicts.iter().copied();
        let mut packets = self.packets().enumerate().peekable();
        while let Some((at, component)) = packets.next() {
            let on_it = known.0.get(&component);
            let (mut bound, mut uncomputable) = (at == 0, false);
            while let Some((on, packet)) = packets.next_if(|(_, p)| p.tag == Tag::SIGNATURE) {
                let verdict = numbered.next().unwrap_or(Verdict::Unchecked);
                let is_new = on_it.is_none_or(|on_it| !on_it.contains_key(packet.body));
                bound |= binds(verdict);
                uncomputable |= verdict == Verdict::Unsupported;
                if is_noise(verdict) {
                    noise.push((is_new, verdict != Verdict::Unsupported, on, at));
                }
            }
            if !bound {
                unbound.push((on_it.is_none(), !uncomputable, at));
            }
        }
        unbound.sort_unstable();
        unbound.iter().skip(limits.bad_signatures).for_each(|&(_, _, at)| keep[at] = false);
        noise.retain(|&(_, _, _, component)| keep[component]);
        noise.sort_unstable();
        noise.iter().skip(limits.bad_signatures).for_each(|&(_, _, at, _)| keep[at] = false);

        let mut kept = Vec::with_capacity(verdicts.len());
        let mut numbered = verdicts.into_iter();
        let mut component_kept = true;
        let cert = self.retain(|at, packet| {
            if packet.tag == Tag::SIGNATURE {
                let verdict = numbered.next().unwrap_or(Verdict::Unchecked);
                kept.extend((keep[at] && component_kept).then_some(verdict));
            } else {
                component_kept = keep[at];
            }
            keep[at]
        });
        (cert, kept)
    }

    /// Whether [`Self::without_noise`] certainly keeps all signatures. True for most certificates.
    #[must_use]
    pub fn is_quiet(&self, limits: &Limits, verdicts: &[Verdict]) -> bool {
        let is_few =
            verdicts.iter().filter(|&&verdict| is_noise(verdict)).count() <= limits.bad_signatures;
        is_few && components(self).count() - 1 <= limits.bad_signatures
    }

    /// Whether the certificate is certainly within the limits. True for most certificates, and decided
    /// without reading a signature.
    #[must_use]
    pub fn is_within(&self, limits: &Limits) -> bool {
        let (mut components, mut signatures) = (0usize, 0usize);
        for (at, packet) in self.packets().enumerate() {
            let fits = packet.body.len() <= limits.packet_bytes
                && (packet.tag != Tag::USER_ID || packet.body.len() <= limits.user_id_bytes)
                && (packet.tag != Tag::USER_ATTRIBUTE || limits.attributes);
            if !fits && at > 0 {
                return false;
            }
            if packet.tag == Tag::SIGNATURE {
                signatures += 1;
            } else {
                components += 1;
            }
        }
        self.as_bytes().len() <= limits.cert_bytes
            && components.saturating_sub(1) <= limits.components
            && signatures <= limits.own_signatures
            && signatures <= limits.foreign_signatures
            && signatures <= limits.signatures_per_signer
    }
}

/// Marks the signatures in the name of the primary key that are dropped.
fn choose_own(mut own: Vec<Candidate>, limits: &Limits, keep: &mut [bool]) {
    heaviest_first(&mut own);
    let mut revocations = 0;
    for c in own.iter().skip(limits.own_signatures) {
        keep[c.at] = c.weight.revokes && revocations < REVOCATIONS;
        revocations += usize::from(keep[c.at]);
    }
}

/// Marks the third-party signatures that are dropped. Returns the others, the heaviest first.
fn choose_foreign(
    mut foreign: Vec<Candidate>,
    limits: &Limits,
    keep: &mut [bool],
) -> Vec<Candidate> {
    heaviest_first(&mut foreign);
    let mut per_signer: HashMap<(usize, u64, bool), usize> = HashMap::new();
    let mut kept = 0;
    foreign.retain(|c| {
        let count = per_signer.entry((c.component, c.signer, c.weight.revokes)).or_default();
        *count += 1;
        let stays = *count <= limits.signatures_per_signer && kept < limits.foreign_signatures;
        kept += usize::from(stays);
        keep[c.at] = stays;
        stays
    });
    foreign
}

/// Bytes that a packet takes in a certificate: its body and the shortest header.
fn written_bytes(body: usize) -> usize {
    let header = match body {
        0..=191 => 2,
        192..=8383 => 3,
        _ => 6,
    };
    header + body
}

fn components(cert: &Cert) -> impl Iterator<Item = PacketRef<'_>> {
    cert.packets().filter(|packet| packet.tag != Tag::SIGNATURE)
}

/// Whether a signature binds its component to the owner, or may turn out to do so.
fn binds(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Good | Verdict::Unchecked)
}

/// Whether a signature in the name of the primary key is useless here.
fn is_noise(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Bad
        | Verdict::Unsupported
        | Verdict::Weak
        | Verdict::Malformed
        | Verdict::Misplaced => true,
        Verdict::Unchecked | Verdict::Good | Verdict::Foreign => false,
    }
}

pub(crate) fn is_revocation(kind: u8) -> bool {
    matches!(kind, kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION | kind::CERTIFICATION_REVOCATION)
}

fn heaviest_first(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|a, b| b.weight.cmp(&a.weight).then(a.at.cmp(&b.at)));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::packet;
    use proptest::prelude::*;

    /// The smallest version 4 RSA key.
    const PRIMARY: &[u8] = &[4, 0, 0, 0, 1, 1, 0, 9, 1, 1, 0, 2, 3];

    /// The signer number of the primary key. Other numbers are other keys.
    pub(crate) const OWN: u64 = 0;

    /// A component with the signatures on it.
    pub(crate) type Part<'a> = (Tag, &'a [u8], Vec<Vec<u8>>);

    pub(crate) fn cert(parts: &[Part<'_>]) -> Cert {
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

    /// A version 3 signature with `text` in place of its numbers.
    pub(crate) fn signature(kind: u8, created: u32, signer: u64, text: &[u8]) -> Vec<u8> {
        let signer = if signer == OWN { cert(&[]).fingerprint().key_id().0 } else { signer };
        let mut body = vec![3, 5, kind];
        body.extend(created.to_be_bytes());
        body.extend(signer.to_be_bytes());
        body.extend([1, 8, 0, 0]);
        body.extend(text);
        body
    }

    fn user_id(body: &[u8], signatures: Vec<Vec<u8>>) -> Part<'_> {
        (Tag::USER_ID, body, signatures)
    }

    /// Verdicts: good for signatures in `good`, else bad if the signature names the primary key.
    fn judged(cert: &Cert, good: &[Vec<u8>]) -> Vec<Verdict> {
        let id = cert.fingerprint().key_id();
        let judge = |body: &[u8]| match Signature::parse(body) {
            _ if good.iter().any(|good| good == body) => Verdict::Good,
            None => Verdict::Malformed,
            Some(signature) if signature.names(id) => Verdict::Bad,
            Some(_) => Verdict::Foreign,
        };
        bodies(cert).map(judge).collect()
    }

    pub(crate) fn bodies(cert: &Cert) -> impl Iterator<Item = &[u8]> {
        cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE).map(|packet| packet.body)
    }

    fn has(cert: &Cert, body: &[u8]) -> bool {
        bodies(cert).any(|there| there == body)
    }

    fn user_ids(cert: &Cert) -> Vec<&[u8]> {
        cert.user_ids().collect()
    }

    #[test]
    fn packets_above_their_bounds_go_with_the_signatures_on_them() {
        let fits = signature(0x13, 1, OWN, b"12345");
        let long = signature(0x13, 2, OWN, b"123456");
        let whole = cert(&[
            user_id(b"short", vec![fits.clone(), long.clone()]),
            user_id(b"a longer user ID", vec![fits.clone()]),
            (Tag::USER_ATTRIBUTE, b"photo", vec![fits.clone()]),
            (Tag::PUBLIC_SUBKEY, b"something of twenty-five", vec![fits.clone()]),
        ]);
        let of = |limits: Limits| whole.within(&limits, None).unwrap();
        assert_eq!(of(Limits::default()), whole);
        let cut = of(Limits { packet_bytes: 24, ..Limits::default() });
        assert_eq!(cut, whole.retain(|_, packet| packet.body != long));
        let cut = of(Limits { user_id_bytes: 5, ..Limits::default() });
        assert_eq!(cut, whole.retain(|_, packet| packet.body != b"a longer user ID"));
        let cut = of(Limits { attributes: false, ..Limits::default() });
        assert_eq!(cut, whole.retain(|_, packet| packet.tag != Tag::USER_ATTRIBUTE));
        // The primary key stays, whatever its length.
        assert_eq!(of(Limits { packet_bytes: 0, ..Limits::default() }), cert(&[]));
    }

    #[test]
    fn known_components_stay_if_there_are_too_many() {
        let own = |time| signature(0x13, time, OWN, b"");
        let known = cert(&[user_id(b"z owner", vec![own(1)])]);
        let verdicts = judged(&known, &[own(1)]);
        let flood = cert(&[user_id(b"a", vec![own(9)]), user_id(b"b", vec![own(9)])]);
        let limits = Limits { components: 2, ..Limits::default() };
        let cut = known.union(&flood).within(&limits, Some((&known, &verdicts))).unwrap();
        assert_eq!(user_ids(&cut), [&b"a"[..], b"z owner"]);
        let cut = known.union(&flood).within(&limits, None).unwrap();
        assert_eq!(user_ids(&cut), [b"a", b"b"]);
    }

    /// Components known to have no good self-signature take no room from the owner's new components.
    #[test]
    fn components_known_to_be_unsigned_do_not_count() {
        let own = |time| signature(0x13, time, OWN, b"");
        let here = cert(&[user_id(b"a", vec![own(9)]), user_id(b"owner", vec![own(1)])]);
        let verdicts = judged(&here, &[own(1)]);
        let limits = Limits { components: 2, bad_signatures: 1, ..Limits::default() };
        let more = here.union(&cert(&[user_id(b"owner 2", vec![own(2)])]));
        let cut = more.within(&limits, Some((&here, &verdicts))).unwrap();
        assert_eq!(cut, more);
    }

    #[test]
    fn each_signer_has_a_limit_of_signatures() {
        let other = |signer, time, kind| signature(kind, time, signer, b"");
        let whole = cert(&[
            user_id(
                b"one",
                vec![
                    other(7, 1, 0x10),
                    other(7, 2, 0x10),
                    other(7, 3, 0x10),
                    other(7, 1, 0x30),
                    other(7, 4, 0x30),
                    other(8, 1, 0x10),
                ],
            ),
            user_id(b"two", vec![other(7, 5, 0x10)]),
        ]);
        let limits = Limits { signatures_per_signer: 1, ..Limits::default() };
        let cut = whole.within(&limits, None).unwrap();
        let expected = [other(7, 3, 0x10), other(8, 1, 0x10), other(7, 4, 0x30), other(7, 5, 0x10)];
        assert_eq!(bodies(&cut).count(), 4);
        assert!(expected.iter().all(|body| has(&cut, body)));
        let limits = Limits { foreign_signatures: 3, ..Limits::default() };
        let cut = whole.within(&limits, None).unwrap();
        let expected = [other(7, 4, 0x30), other(7, 1, 0x30), other(7, 5, 0x10)];
        assert_eq!(bodies(&cut).count(), 3);
        assert!(expected.iter().all(|body| has(&cut, body)));
    }

    /// Third-party signatures of least weight are dropped first. The owner's signatures are not dropped
    /// for their length.
    #[test]
    fn third_party_signatures_are_dropped_first_to_save_bytes() {
        let own = signature(0x13, 1, OWN, &[0; 100]);
        let others: Vec<_> = (1..=10).map(|n| signature(0x10, n, 7, &[0; 100])).collect();
        let plain = cert(&[user_id(b"one", vec![own.clone()])]);
        let whole = plain.union(&cert(&[user_id(b"one", others.clone())]));
        let each = 100 + 19 + 2;
        let limits = |bytes| Limits { cert_bytes: bytes, ..Limits::default() };
        let cut = whole.within(&limits(plain.as_bytes().len() + 3 * each), None).unwrap();
        let expected = cert(&[user_id(b"one", others[7..].to_vec())]);
        assert_eq!(cut, plain.union(&expected));
        assert_eq!(whole.within(&limits(plain.as_bytes().len()), None), Some(plain.clone()));
        assert_eq!(whole.within(&limits(plain.as_bytes().len() - 1), None), None);
    }

    /// Signatures whose component is already dropped for the number of components do not count as saved
    /// bytes.
    #[test]
    fn signatures_of_a_dropped_component_save_no_bytes_twice() {
        let others =
            |n: u32| vec![signature(0x10, n, 7, &[0; 100]), signature(0x10, n, 8, &[0; 100])];
        let whole = cert(&[user_id(b"one", others(5)), user_id(b"two", others(1))]);
        let one = cert(&[user_id(b"one", vec![])]);
        let bytes = one.as_bytes().len() + 121;
        let limits = Limits { components: 1, cert_bytes: bytes, ..Limits::default() };
        let cut = whole.within(&limits, None).unwrap();
        assert_eq!(cut.as_bytes().len(), bytes);
    }

    /// Anybody can forge signatures that are newer than all others.
    #[test]
    fn known_good_signatures_survive_a_flood() {
        let good: Vec<_> = (1..=5).map(|time| signature(0x13, time, OWN, b"good")).collect();
        let known = cert(&[user_id(b"one", good.clone())]);
        let verdicts = judged(&known, &good);
        let forged = |signer: u64| -> Vec<Vec<u8>> {
            let text = |n: u32| n.to_be_bytes();
            (0..100_000)
                .map(|n| {
                    let signer = if signer == OWN { OWN } else { signer + u64::from(n) };
                    signature(0x13, u32::MAX - n, signer, &text(n))
                })
                .collect()
        };
        let limits = Limits {
            own_signatures: 50,
            bad_signatures: 10,
            foreign_signatures: 100,
            signatures_per_signer: 2,
            ..Limits::default()
        };
        for signer in [OWN, 1] {
            let flood = cert(&[user_id(b"one", forged(signer))]);
            let joined = known.union(&flood);
            let cut = joined.within(&limits, Some((&known, &verdicts))).unwrap();
            assert!(good.iter().all(|body| has(&cut, body)));
            assert_eq!(bodies(&cut).count(), if signer == OWN { 50 } else { 105 });
            let (quiet, left) = cut.without_noise(&limits, judged(&cut, &good), Some(&known));
            assert_eq!(left, judged(&quiet, &good));
            assert!(good.iter().all(|body| has(&quiet, body)));
            assert_eq!(bodies(&quiet).count(), if signer == OWN { 15 } else { 105 });
            // Receiving the same signatures again adds nothing, whichever of them were kept.
            let again = quiet.union(&flood).within(&limits, Some((&quiet, &left))).unwrap();
            let (again, _) = again.without_noise(&limits, judged(&again, &good), Some(&quiet));
            assert_eq!(again, quiet);
            // The noise does not displace a later signature by the owner, even one with an older date.
            let later = signature(0x13, 6, OWN, b"good");
            let later_cert = cert(&[user_id(b"one", vec![later.clone()])]);
            let joined = quiet.union(&later_cert);
            let cut = joined.within(&limits, Some((&quiet, &left))).unwrap();
            assert!(has(&cut, &later));
        }
    }

    /// A good signature does not bind other components that it is copied to.
    #[test]
    fn copies_of_good_signatures_on_other_components_are_not_good() {
        let good: Vec<_> = (1..=5).map(|time| signature(0x13, time, OWN, b"good")).collect();
        let known = cert(&[user_id(b"one", good.clone())]);
        let verdicts = judged(&known, &good);
        let names: Vec<Vec<u8>> = (0..20u8).map(|n| vec![n]).collect();
        let copies: Vec<_> = names.iter().map(|name| user_id(name, good[3..].to_vec())).collect();
        let joined = known.union(&cert(&copies));
        let limits = Limits { own_signatures: 5, ..Limits::default() };
        let cut = joined.within(&limits, Some((&known, &verdicts))).unwrap();
        assert_eq!(bodies(&cut).count(), 5);
        let of_one = cut.retain(|_, p| p.tag != Tag::USER_ID || p.body == b"one");
        assert_eq!(of_one, known);
    }

    #[test]
    fn a_revocation_is_accepted_at_every_limit() {
        let good: Vec<_> = (1..=5).map(|time| signature(0x13, 90 + time, OWN, b"good")).collect();
        let known = cert(&[user_id(b"one", good.clone())]);
        let verdicts = judged(&known, &good);
        let revocation = signature(0x20, 1, OWN, b"revoked");
        let revoked = cert(&[(Tag::PUBLIC_KEY, b"", vec![revocation.clone()])]);
        let joined = known.union(&revoked);
        let limits = Limits { own_signatures: 5, ..Limits::default() };
        assert_eq!(joined.within(&limits, Some((&known, &verdicts))), Some(joined.clone()));

        let limits = Limits { cert_bytes: known.as_bytes().len(), ..Limits::default() };
        assert_eq!(joined.within(&limits, Some((&known, &verdicts))), None);
        let flood: Vec<_> =
            (0..100_000u32).map(|n| signature(0x28, n, OWN, &n.to_be_bytes())).collect();
        let flood = cert(&[(Tag::PUBLIC_KEY, b"", flood), user_id(b"two", good.clone())]);
        let taken = known.with_revocations_of(&revoked.union(&flood), &limits).unwrap();
        assert!(has(&taken, &revocation));
        assert_eq!(taken.signature_count(), 5 + REVOCATIONS);
        assert_eq!(user_ids(&taken), [b"one"]);
        assert_eq!(joined.with_revocations_of(&revoked, &limits), None);
        let large = signature(0x20, 1, OWN, &vec![0; REVOCATION_BYTES]);
        let large = cert(&[(Tag::PUBLIC_KEY, b"", vec![large])]);
        assert_eq!(known.with_revocations_of(&large, &limits), None);
    }

    /// Kept but useless signatures are dropped first if there are too many bytes.
    #[test]
    fn noise_is_dropped_to_make_room_for_the_owner() {
        let good = signature(0x13, 1, OWN, b"good");
        let bad: Vec<_> = (0..3).map(|n| signature(0x13, 9, OWN, &[n; 100])).collect();
        let here = cert(&[
            user_id(b"one", [vec![good.clone()], bad].concat()),
            user_id(&[0; 100], vec![]),
        ]);
        let verdicts = judged(&here, std::slice::from_ref(&good));
        let limits = Limits {
            cert_bytes: here.as_bytes().len() + 5,
            bad_signatures: 3,
            ..Limits::default()
        };
        let new = cert(&[user_id(b"two", vec![signature(0x13, 2, OWN, b"good")])]);
        let cut = here.union(&new).within(&limits, Some((&here, &verdicts))).unwrap();
        assert_eq!(cut, cert(&[user_id(b"one", vec![good])]).union(&new));
    }

    #[test]
    fn bad_signatures_and_unsigned_components_are_limited() {
        let good = signature(0x13, 1, OWN, b"good");
        let bad: Vec<_> = (0..9).map(|n| signature(0x13, 2, OWN, &[n])).collect();
        let names: Vec<Vec<u8>> = (0..9u8).map(|n| vec![n]).collect();
        let mut parts: Vec<_> = names.iter().map(|name| user_id(name, vec![])).collect();
        parts.push(user_id(b"one", [bad, vec![good.clone()]].concat()));
        let whole = cert(&parts);
        let limits = Limits { bad_signatures: 4, ..Limits::default() };
        let mut verdicts = judged(&whole, std::slice::from_ref(&good));
        *verdicts.iter_mut().rfind(|verdict| **verdict == Verdict::Bad).unwrap() =
            Verdict::Unsupported;
        let (cut, left) = whole.without_noise(&limits, verdicts, None);
        assert_eq!(user_ids(&cut).len(), 5);
        assert!(has(&cut, &good));
        // Signatures that cannot be verified here may be good elsewhere.
        let mut expected = vec![Verdict::Bad; 3];
        expected.extend([Verdict::Unsupported, Verdict::Good]);
        let mut sorted = left.clone();
        sorted.sort_by_key(|v| (*v == Verdict::Good, *v == Verdict::Unsupported));
        assert_eq!(sorted, expected);
        assert_eq!(cut.without_noise(&limits, left.clone(), None), (cut, left));
    }

    fn any_signature() -> impl Strategy<Value = Vec<u8>> {
        let kinds = prop::sample::select(vec![0x10u8, 0x13, 0x18, 0x1f, 0x20, 0x28, 0x30, 0x40]);
        let text = prop::collection::vec(0u8..2, 0..40);
        prop_oneof![
            9 => (kinds, 0u32..5, 0u64..3, text).prop_map(|(k, t, s, x)| signature(k, t, s, &x)),
            1 => prop::collection::vec(any::<u8>(), 0..4),
        ]
    }

    pub(crate) fn any_cert() -> impl Strategy<Value = Cert> {
        let tag = prop::sample::select(vec![6u8, 13, 13, 13, 14, 17, 21, 40]);
        let body = prop::collection::vec(0u8..3, 0..30);
        let signatures = prop::collection::vec(any_signature(), 0..8);
        prop::collection::vec((tag, body, signatures), 0..8).prop_map(|parts| {
            let (mut direct, rest): (Vec<_>, Vec<_>) =
                parts.into_iter().partition(|(tag, ..)| *tag == 6);
            direct.extend(rest);
            let parts: Vec<Part<'_>> =
                direct.iter().map(|(tag, body, s)| (Tag(*tag), &body[..], s.clone())).collect();
            cert(&parts)
        })
    }

    /// A verdict for each signature. For self-signatures it depends on their content.
    pub(crate) fn any_verdicts(cert: &Cert) -> Vec<Verdict> {
        let id = cert.fingerprint().key_id();
        let judge = |body: &[u8]| match Signature::parse(body) {
            None => Verdict::Malformed,
            Some(signature) if !signature.names(id) => Verdict::Foreign,
            Some(_) => match body.iter().map(|&byte| usize::from(byte)).sum::<usize>() % 5 {
                0 => Verdict::Bad,
                1 => Verdict::Unsupported,
                2 => Verdict::Misplaced,
                _ => Verdict::Good,
            },
        };
        bodies(cert).map(judge).collect()
    }

    fn any_limits() -> impl Strategy<Value = Limits> {
        let counts = (0usize..8, 0usize..12, 0usize..6, 0usize..4, 0usize..12);
        (13usize..600, 0usize..80, 0usize..30, any::<bool>(), counts).prop_map(
            |(cert_bytes, packet_bytes, user_id_bytes, attributes, counts)| Limits {
                cert_bytes,
                packet_bytes,
                user_id_bytes,
                attributes,
                components: counts.0,
                own_signatures: counts.1,
                bad_signatures: counts.2,
                signatures_per_signer: counts.3,
                foreign_signatures: counts.4,
            },
        )
    }

    proptest! {
        /// The result is within the limits and a subset of the input, and a second run changes nothing.
        #[test]
        fn applying_the_limits_twice_equals_applying_them_once(
            here in any_cert(), more in any_cert(), limits in any_limits(), is_known: bool,
        ) {
            let verdicts = any_verdicts(&here);
            let known = is_known.then_some((&here, &verdicts[..]));
            let whole = here.union(&more);
            let Some(cut) = whole.within(&limits, known) else { return Ok(()) };
            prop_assert_eq!(cut.union(&whole), whole.clone());
            prop_assert_eq!(cut.within(&limits, known), Some(cut.clone()));
            prop_assert!(cut.as_bytes().len() <= limits.cert_bytes);
            prop_assert!(cut.packets().skip(1).all(|p| p.body.len() <= limits.packet_bytes));
            prop_assert!(cut.user_ids().all(|body| body.len() <= limits.user_id_bytes));
            let extra = if is_known { limits.bad_signatures } else { 0 };
            prop_assert!(components(&cut).count() <= 1 + limits.components + extra);
            let id = cut.fingerprint().key_id();
            let named = |body: &[u8]| Signature::parse(body).is_some_and(|s| s.names(id));
            let own = bodies(&cut).filter(|body| named(body)).count();
            prop_assert!(own <= limits.own_signatures + extra + REVOCATIONS);
            prop_assert!(bodies(&cut).count() - own <= limits.foreign_signatures);
        }

        /// Good self-signatures stay in all cases, up to the limits on their own number and length.
        #[test]
        fn good_signatures_are_kept(here in any_cert(), more in any_cert(), limits in any_limits()) {
            let limits = Limits { packet_bytes: usize::MAX, ..limits };
            let verdicts = any_verdicts(&here);
            let good = verdicts.iter().filter(|&&verdict| verdict == Verdict::Good).count();
            prop_assume!(good <= limits.own_signatures);
            let known = Some((&here, &verdicts[..]));
            let Some(cut) = here.union(&more).within(&limits, known) else { return Ok(()) };
            let left = KnownVerdicts::of(&cut, &[]);
            let before = KnownVerdicts::of(&here, &verdicts);
            for (component, on_it) in before.0 {
                let Some(now) = left.0.get(&component) else { continue };
                for (body, verdict) in on_it {
                    prop_assert!(verdict != Verdict::Good || now.contains_key(body));
                }
            }
        }

        /// Noise is limited, no other packets are dropped, and the returned verdicts belong to the
        /// remaining signatures.
        #[test]
        fn noise_is_bounded(whole in any_cert(), here in any_cert(), limits in any_limits()) {
            let verdicts = any_verdicts(&whole);
            let (cut, left) = whole.without_noise(&limits, verdicts.clone(), Some(&here));
            prop_assert_eq!(&left, &any_verdicts(&cut));
            let noise = left.iter().filter(|&&verdict| is_noise(verdict)).count();
            prop_assert!(noise <= limits.bad_signatures);
            let known = KnownVerdicts::of(&cut, &left);
            let unbound = components(&cut).skip(1).filter(|c| known.is_unbound(*c)).count();
            prop_assert!(unbound <= limits.bad_signatures);
            let good = |verdicts: &[Verdict]| {
                verdicts.iter().filter(|&&verdict| verdict == Verdict::Good).count()
            };
            prop_assert_eq!(good(&left), good(&verdicts));
            let again = cut.without_noise(&limits, left.clone(), Some(&here));
            prop_assert_eq!(again, (cut, left));
        }

        /// Revocations stay within their own limit.
        #[test]
        fn revocations_are_bounded(here in any_cert(), more in any_cert(), limits in any_limits()) {
            if let Some(joined) = here.with_revocations_of(&more, &limits) {
                prop_assert_eq!(joined.union(&here.union(&more)), here.union(&more));
                prop_assert!(joined.signature_count() <= here.signature_count() + REVOCATIONS);
                prop_assert!(joined.as_bytes().len() <= limits.cert_bytes + REVOCATION_BYTES);
                prop_assert_eq!(components(&joined).count(), components(&here).count());
            }
        }
    }
}
