//! Copies of one certificate, joined without a store.

use std::collections::{HashMap, HashSet};

use crate::cert::{Cert, PACKETS_MAX};
use crate::fingerprint::Fingerprint;
use crate::hash::sha256;
use crate::refusal::IngestRefusal;
use crate::split::CERT_BYTES_MAX;
use crate::tag::Tag;

/// Merges copies of one certificate within a batch. Returns each certificate once. For each input
/// it also returns the index of the merged certificate, and whether the input added anything to the
/// copies before it. The time grows with the bytes, not with the bytes times the copies.
#[must_use]
pub fn join_within(certs: Vec<Cert>) -> (Vec<Cert>, Vec<(usize, bool)>) {
    let mut groups: Vec<Group> = Vec::with_capacity(certs.len());
    let mut places = Vec::with_capacity(certs.len());
    let mut known: HashMap<Fingerprint, Vec<usize>> = HashMap::with_capacity(certs.len());
    for cert in certs {
        let same = known.entry(cert.fingerprint()).or_default();
        // A copy that fits none of the groups stays a certificate of its own in the batch, and is
        // refused when it is written.
        let place = same.iter().find_map(|&at| Some((at, groups[at].add(&cert)?)));
        places.push(place.unwrap_or((groups.len(), true)));
        if place.is_none() {
            same.push(groups.len());
            groups.push(Group::new(cert));
        }
    }
    (groups.into_iter().map(|group| union(group.copies)).collect(), places)
}

/// Copies of one certificate, with the same primary key. Their union is within the bounds of a
/// certificate.
struct Group {
    copies: Vec<Cert>,
    /// SHA-256 of each component, and of each signature with its component. Empty for a single
    /// copy.
    seen: HashSet<[u8; 32]>,
    bytes: usize,
    packets: usize,
}

impl Group {
    fn new(cert: Cert) -> Self {
        let (bytes, packets) = (cert.as_bytes().len(), cert.packets().len());
        Self { copies: vec![cert], seen: HashSet::new(), bytes, packets }
    }

    /// Adds a copy. Returns whether it has anything that the copies before it do not have, or
    /// `None` if it has another primary key, or the union would be too large.
    fn add(&mut self, cert: &Cert) -> Option<bool> {
        let first = &self.copies[0];
        if first.packets().next() != cert.packets().next() {
            return None;
        }
        if self.copies.last() == Some(cert) {
            return Some(false);
        }
        if self.seen.is_empty() {
            self.seen.extend(packet_digests(first));
        }
        let news: Vec<_> =
            packet_digests(cert).filter(|digest| !self.seen.contains(digest)).collect();
        if news.is_empty() {
            return Some(false);
        }
        let mut cert = cert.clone();
        self.bytes += cert.as_bytes().len();
        self.packets += cert.packets().len();
        if self.bytes > CERT_BYTES_MAX || self.packets > PACKETS_MAX {
            // The copies may have much in common.
            let whole = union(std::mem::take(&mut self.copies));
            let larger = joined(&whole, &cert);
            let fits = larger.is_ok();
            cert = larger.ok().flatten().unwrap_or(whole);
            (self.bytes, self.packets) = (cert.as_bytes().len(), cert.packets().len());
            self.copies.push(cert);
            if !fits {
                return None;
            }
        } else {
            self.copies.push(cert);
        }
        self.seen.extend(news);
        Some(true)
    }
}

/// The union of one or more copies, joined in pairs.
fn union(mut copies: Vec<Cert>) -> Cert {
    while copies.len() > 1 {
        let join = |pair: &[Cert]| match pair {
            [one, other] => one.union(other),
            rest => rest[0].clone(),
        };
        copies = copies.chunks(2).map(join).collect();
    }
    copies.swap_remove(0)
}

/// SHA-256 of each component, and of each signature with its component.
pub(crate) fn packet_digests(cert: &Cert) -> impl Iterator<Item = [u8; 32]> + '_ {
    let mut component = [0; 32];
    cert.packets().map(move |packet| {
        if packet.tag == Tag::SIGNATURE {
            return sha256(&[b"signature", &component, packet.body]);
        }
        component = sha256(&[b"component", &[packet.tag.0], packet.body]);
        component
    })
}

/// The union of the stored copy with a new one. `None` if the new copy adds nothing.
pub(crate) fn joined(ours: &Cert, theirs: &Cert) -> Result<Option<Cert>, IngestRefusal> {
    if ours.packets().next() != theirs.packets().next() {
        return Err(IngestRefusal::OtherPrimaryKey);
    }
    let joined = ours.union(theirs);
    if joined.as_bytes().len() > CERT_BYTES_MAX || joined.packets().len() > PACKETS_MAX {
        return Err(IngestRefusal::TooLarge);
    }
    Ok((joined.as_bytes() != ours.as_bytes()).then_some(joined))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A certificate with user IDs that have signatures. `0` and `1` are two certificates.
    fn cert(which: u8, parts: &[(u8, Vec<u8>)]) -> Cert {
        let mut raw = vec![0xc6, 13, 4, 0, 0, 0, which, 1, 0, 9, 1, 1, 0, 2, 3];
        for (name, signatures) in parts {
            raw.extend([0xcd, 1, *name]);
            for signature in signatures {
                raw.extend([0xc2, 2, 9, *signature]);
            }
        }
        Cert::parse(&raw).unwrap()
    }

    fn any_cert() -> impl Strategy<Value = Cert> {
        let part = (0u8..3, prop::collection::vec(0u8..4, 0..3));
        (0u8..2, prop::collection::vec(part, 0..4)).prop_map(|(which, parts)| cert(which, &parts))
    }

    proptest! {
        #[test]
        fn copies_in_a_batch_are_joined_as_one_by_one(
            certs in prop::collection::vec(any_cert(), 0..12),
        ) {
            let mut unique: Vec<Cert> = Vec::new();
            let mut places = Vec::new();
            for cert in &certs {
                let found = unique.iter().position(|one| one.fingerprint() == cert.fingerprint());
                if let Some(at) = found {
                    let larger = joined(&unique[at], cert).unwrap();
                    places.push((at, larger.is_some()));
                    unique[at] = larger.unwrap_or_else(|| unique[at].clone());
                } else {
                    places.push((unique.len(), true));
                    unique.push(cert.clone());
                }
            }
            prop_assert_eq!(join_within(certs), (unique, places));
        }
    }

    #[test]
    fn the_time_for_copies_does_not_grow_with_their_square() {
        let names: Vec<_> = (0..=255).map(|name| (name, vec![])).collect();
        let copies: Vec<Cert> = (0..20_000usize)
            .map(|at| {
                cert(0, &[names[at % 256].clone(), (7, vec![u8::try_from(at / 256).unwrap()])])
            })
            .collect();
        let (unique, places) = join_within(copies);
        assert_eq!((unique.len(), places.len()), (1, 20_000));
        assert_eq!(unique[0].packets().len(), 1 + 256 + 79);
    }
}
