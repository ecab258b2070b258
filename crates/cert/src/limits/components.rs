//! The components that the owner has not bound.

use std::collections::BTreeSet;

use crate::classes::{CLASSES, admitted, class_of};
use crate::hash::sha256;
use crate::limits::bounds::Limits;
use crate::limits::fitting::Fitting;
use crate::packet::PacketRef;

/// Drops components that the owner has not bound, above their limit: the smallest SHA-256 stay.
pub(super) fn drop_unbound(parts: &mut Vec<Fitting<'_>>, limits: &Limits) {
    let mut unbound: Vec<(usize, [u8; 32], usize)> = parts
        .iter()
        .filter(|part| !part.is_bound)
        .map(|part| (class_of(part.packet.body.len()), name_of(part.packet), part.at))
        .collect();
    unbound.sort_unstable();
    let mut counts = [0; CLASSES];
    let mut gone = BTreeSet::new();
    for (class, _, at) in unbound {
        counts[class] += 1;
        if counts[class] > admitted(limits.components, class) {
            gone.insert(at);
        }
    }
    parts.retain(|part| !gone.contains(&part.at));
}

pub(super) fn name_of(component: PacketRef<'_>) -> [u8; 32] {
    sha256(&[&[component.tag.0], component.body])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::samples::{OWN, cert, judged, keep, signature, user_id};

    #[test]
    fn components_of_strangers_do_not_displace_those_of_the_owner() {
        let good = signature(0x13, 1, OWN, b"good");
        let names: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n, 1]).collect();
        let stray = |name: &'static [u8]| user_id(name, vec![signature(0x10, 5, 7, name)]);
        let mut parts: Vec<_> = names.iter().map(|name| user_id(name, vec![])).collect();
        parts.extend([stray(b"s1"), stray(b"s2"), user_id(b"owner", vec![good.clone()])]);
        let whole = cert(&parts);
        let limits = Limits { components: 9, ..Limits::default() };
        let kept = keep(&whole, &judged(&whole, &[good]), &limits);
        assert_eq!(kept.user_ids().count(), 10);
        assert!(kept.user_ids().any(|name| name == b"owner"));
    }
}
