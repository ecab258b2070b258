//! How firmly a certificate holds a key, by which a look-up of the key finds its owner first.
//!
//! Anybody can make a certificate that has somebody else's key as a subkey. Only the subkey itself
//! can make a back signature, and only keys that can sign make one.

use crate::cert::Cert;
use crate::fingerprint::{Fingerprint, KeyId};
use crate::key::Key;
use crate::packet::PacketRef;
use crate::served::{Hints, few_embedded};
use crate::signature::{Signature, kind};
use crate::tag::Tag;
use crate::verdict::Verdict;

/// How a certificate holds a key, the firmest way first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Holding {
    /// It is the primary key.
    Primary = 0,
    /// It is a subkey that is bound to the primary key and has signed it.
    SignedBack = 1,
    /// It is a subkey that is bound to the primary key; or a primary key of version 3, which
    /// anybody can make with any key ID.
    Bound = 2,
    /// It is a subkey that is not bound, as far as its signatures were verified.
    Unbound = 3,
}

impl Holding {
    /// How a certificate holds its primary key.
    #[must_use]
    pub fn of_primary_key(fingerprint: Fingerprint) -> Self {
        match fingerprint {
            Fingerprint::V3(..) => Self::Bound,
            _ => Self::Primary,
        }
    }
}

/// A subkey.
struct Held<'a> {
    packet: PacketRef<'a>,
    id: KeyId,
    holding: Holding,
}

/// A back signature that is to be tried. They are tried in this order: those in the newest binding
/// of each subkey first, since nobody else can make a binding, and then those that have fewer
/// others beside them.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
struct Tried<'a> {
    newer_bindings: usize,
    beside: usize,
    subkey: usize,
    body: &'a [u8],
}

impl Cert {
    /// How the certificate holds its keys, in the order of the key IDs, each once. `verdicts` are
    /// those on all signatures, in canonical order. The back signatures of all subkeys together are
    /// verified for a bounded time, by the model of [`Self::cost`], so the result depends on
    /// nothing else.
    #[must_use]
    pub fn holdings(&self, verdicts: &[Verdict]) -> Vec<(KeyId, Holding)> {
        let mut verdicts = verdicts.iter().copied();
        let mut packets = self.packets().peekable();
        let (mut held, mut tried) = (Vec::new(), Vec::new());
        while let Some(component) = packets.next() {
            let is_subkey = component.tag == Tag::PUBLIC_SUBKEY;
            let key = is_subkey.then(|| Key::parse(component).ok()).flatten();
            let mut bindings: Vec<Signature<'_>> = Vec::new();
            while let Some(packet) = packets.next_if(|packet| packet.tag == Tag::SIGNATURE) {
                let is_good = verdicts.next() == Some(Verdict::Good);
                if is_good && key.is_some() {
                    bindings.extend(
                        Signature::parse(packet.body).filter(|s| s.kind == kind::SUBKEY_BINDING),
                    );
                }
            }
            let Some(key) = key else { continue };
            tried.extend(back_signatures(held.len(), &bindings));
            let holding = if bindings.is_empty() { Holding::Unbound } else { Holding::Bound };
            held.push(Held { packet: component, id: key.fingerprint().key_id(), holding });
        }
        tried.sort_unstable();
        tried.dedup();
        if !tried.is_empty()
            && let Some(mut hints) = Hints::of_bounded_cost(self)
        {
            for Tried { subkey, body, .. } in tried {
                let held = &mut held[subkey];
                if held.holding == Holding::Bound
                    && hints.verifies_back(held.packet, body).is_some()
                {
                    held.holding = Holding::SignedBack;
                }
            }
        }
        let primary = self.fingerprint();
        let subkeys = held.iter().map(|held| (held.id, held.holding));
        let mut holdings: Vec<(KeyId, Holding)> =
            subkeys.chain([(primary.key_id(), Holding::of_primary_key(primary))]).collect();
        holdings.sort_unstable();
        holdings.dedup_by_key(|(id, _)| *id);
        holdings
    }
}

/// The back signatures in the bindings of a subkey with a number.
fn back_signatures<'a>(subkey: usize, bindings: &[Signature<'a>]) -> Vec<Tried<'a>> {
    let mut times: Vec<u32> = bindings.iter().map(|binding| binding.created).collect();
    times.sort_unstable_by(|one, other| other.cmp(one));
    times.dedup();
    let mut tried = Vec::new();
    for binding in bindings {
        let newer_bindings = times.partition_point(|time| *time > binding.created);
        for area in [binding.hashed_area, binding.unhashed_area] {
            let back = few_embedded(area);
            tried.extend(back.map(|(beside, body)| Tried { newer_bindings, beside, subkey, body }));
        }
    }
    tried
}
