//! The components of a certificate in the order of GnuPG's listings: that of the keyring, with the
//! primary attribute in front of the user IDs.

use std::collections::{HashMap, HashSet};

use talaria_cert::{Key, PacketRef, Signature, Summary, Tag, packets};

use crate::keyblock::{UserIdName, user_ids_of};

/// The packets of a certificate in this order, less GnuPG's own notes.
fn arranged<'r>(raw: &'r [u8], summary: &Summary) -> Vec<PacketRef<'r>> {
    let all = packets(raw).map_while(Result::ok).filter(|packet| packet.tag != Tag::TRUST);
    let mut all: Vec<PacketRef<'_>> = all.collect();
    let end = |from: usize| {
        let signatures = all[from + 1..].iter().take_while(|packet| packet.tag == Tag::SIGNATURE);
        from + 1 + signatures.count()
    };
    let known = user_ids_of(summary);
    let primary = (0..all.len()).filter(|&at| all[at].tag == Tag::USER_ATTRIBUTE).find(|&at| {
        let found = UserIdName::of_packet(all[at]).and_then(|name| known.get(&name));
        let says_so = |packet: &PacketRef<'_>| {
            Signature::parse(packet.body).is_some_and(|signature| {
                signature.primary_user_id && found.is_some_and(|id| id.created == signature.created)
            })
        };
        all[at + 1..end(at)].iter().any(says_so)
    });
    let first = all.iter().position(|packet| UserIdName::of_packet(*packet).is_some());
    if let (Some(first), Some(primary)) = (first, primary) {
        let end = end(primary);
        all[first..end].rotate_right(end - primary);
    }
    all
}

/// The packets of a certificate in this order, and its summary in the same.
pub(crate) fn in_order<'r>(raw: &'r [u8], summary: &Summary) -> (Vec<PacketRef<'r>>, Summary) {
    let arranged = arranged(raw, summary);
    let mut summary = summary.clone();
    let (mut keys, mut user_ids) = (HashMap::new(), HashMap::new());
    for (place, packet) in arranged.iter().enumerate() {
        if let Some(name) = UserIdName::of_packet(*packet) {
            user_ids.entry(name).or_insert(place);
        } else if packet.tag == Tag::PUBLIC_SUBKEY
            && let Ok(key) = Key::parse(*packet)
        {
            keys.entry(key.fingerprint()).or_insert(place);
        }
    }
    summary.subkeys.sort_by_key(|found| keys.get(&found.fingerprint).copied());
    summary.user_ids.sort_by_key(|found| user_ids.get(&UserIdName::of(found)).copied());
    let revokers: HashSet<&[u8]> =
        summary.revokers.iter().map(|found| found.revoker.fingerprint.as_bytes()).collect();
    let lengths: HashSet<usize> = revokers.iter().map(|name| name.len()).collect();
    let mut places = HashMap::new();
    for length in lengths {
        for (place, part) in raw.windows(length).enumerate() {
            if revokers.contains(part) {
                places.entry(part).or_insert(place);
            }
        }
    }
    drop(revokers);
    summary.revokers.sort_by_key(|found| places.get(found.revoker.fingerprint.as_bytes()));
    (arranged, summary)
}
