//! The pools in which signatures compete, and those that stay in each.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::classes::{CLASSES, admitted, class_of};
use crate::limits::bounds::Limits;
use crate::limits::components::name_of;
use crate::limits::fitting::Fitting;
use crate::limits::rank::{Pool, Rank};
use crate::limits::revokers::Revokers;
use crate::served::DESIGNATED_MAX;
use crate::signature::kind;
use crate::verdict::Verdict;

/// Seconds that a date may be ahead of the clock: one day.
pub(super) const AHEAD_S: u32 = 86_400;

/// Decides where each signature competes, and its rank there, except for the number of better ones
/// of its kind.
pub(super) fn assign_pools(parts: &mut [Fitting<'_>], revokers: &Revokers, tomorrow: u32) {
    for part in parts {
        let component = name_of(part.packet);
        for candidate in &mut part.candidates {
            let Some(signature) = candidate.variants.signature() else {
                candidate.pool = if part.is_bound { Pool::Bad } else { Pool::Stray };
                candidate.rank.component = if part.is_bound { [0; 32] } else { component };
                continue;
            };
            let created = if signature.created > tomorrow { 0 } else { signature.created };
            let is_hard = is_revocation(signature.kind) && signature.is_hard();
            let rank = &mut candidate.rank;
            match candidate.verdict {
                Verdict::Good if part.is_bound => {
                    candidate.pool = Pool::Own;
                    let names_revoker = signature.revokers().next().is_some();
                    rank.class = u8::from(!names_revoker);
                    (rank.is_soft, rank.created) = (!is_hard, Reverse(created));
                }
                _ if !part.is_bound => {
                    candidate.pool = Pool::Stray;
                    *rank = Rank { class: 0, component, ..Rank::unranked(rank.id) };
                }
                verdict if verdict.is_by_others() => {
                    candidate.pool = Pool::Foreign;
                    let is_key_revocation = part.at == 0 && signature.kind == kind::KEY_REVOCATION;
                    if is_key_revocation && candidate.designated(revokers).next().is_some() {
                        candidate.pool = Pool::Designated;
                    }
                    let rank = &mut candidate.rank;
                    if candidate.by.is_some() {
                        (rank.is_soft, rank.created) = (!is_hard, Reverse(created));
                    }
                    rank.class = if candidate.is_attested { 0 } else { candidate.by_class };
                }
                verdict => {
                    candidate.pool = Pool::Bad;
                    rank.class = u8::from(verdict != Verdict::Unsupported);
                }
            }
        }
    }
}

fn is_revocation(kind: u8) -> bool {
    matches!(kind, kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION | kind::CERTIFICATION_REVOCATION)
}

/// Chooses the signatures of the owner that stay, and with them the components that the owner has
/// bound.
pub(super) fn choose_own(parts: &mut [Fitting<'_>], limits: &Limits) {
    count_better(parts, &Revokers::new());
    let mut gone = BTreeSet::new();
    drop_above(parts, Pool::Own, limits.own_signatures, &mut gone);
    drop_all(parts, &gone);
    for part in parts.iter_mut().filter(|part| part.at > 0) {
        part.is_bound = part.candidates.iter().any(|c| c.pool == Pool::Own && c.binds());
    }
}

/// Chooses the signatures that stay in the other pools.
pub(super) fn choose_others(parts: &mut [Fitting<'_>], revokers: &Revokers, limits: &Limits) {
    count_better(parts, revokers);
    let mut gone = BTreeSet::new();
    // The first revocations of each named revoker stay. Others that a known key made compete with
    // all other signatures, and the rest is dropped, so that whoever has the key of the revoker
    // does not have to try many.
    for (at, part) in parts.iter_mut().enumerate() {
        for (number, candidate) in part.candidates.iter_mut().enumerate() {
            if candidate.pool == Pool::Designated && candidate.rank.behind >= DESIGNATED_MAX {
                candidate.pool = Pool::Foreign;
                if candidate.by.is_none() {
                    gone.insert((at, number));
                }
            }
            if candidate.pool == Pool::Foreign
                && candidate.by.is_some()
                && candidate.rank.behind >= limits.signatures_per_signer
            {
                gone.insert((at, number));
            }
        }
    }
    drop_above(parts, Pool::Foreign, limits.foreign_signatures, &mut gone);
    drop_above(parts, Pool::Bad, limits.bad_signatures, &mut gone);
    drop_above(parts, Pool::Stray, limits.bad_signatures, &mut gone);
    drop_all(parts, &gone);
}

/// The places of signatures: the number of the part, and the number in it.
type Places = BTreeSet<(usize, usize)>;

/// Adds to `gone` the signatures of a pool that are above its limit in their size class.
fn drop_above(parts: &[Fitting<'_>], pool: Pool, limit: usize, gone: &mut Places) {
    let mut ranked: [Vec<(Rank, usize, usize)>; CLASSES * CLASSES] = Default::default();
    for (at, part) in parts.iter().enumerate() {
        for (number, candidate) in part.candidates.iter().enumerate() {
            if candidate.pool == pool && !gone.contains(&(at, number)) {
                // Components that the owner has not bound compete by size, too.
                let component = match pool {
                    Pool::Stray => class_of(part.packet.body.len()),
                    _ => 0,
                };
                let class = CLASSES * component + candidate.size_class;
                ranked[class].push((candidate.rank, at, number));
            }
        }
    }
    for (class, mut ranked) in ranked.into_iter().enumerate() {
        ranked.sort_unstable();
        let over = ranked.into_iter().skip(admitted(limit, class % CLASSES));
        gone.extend(over.map(|(_, at, number)| (at, number)));
    }
}

fn drop_all(parts: &mut [Fitting<'_>], gone: &Places) {
    for (at, part) in parts.iter_mut().enumerate() {
        let mut number = 0;
        part.candidates.retain(|_| {
            number += 1;
            !gone.contains(&(at, number - 1))
        });
    }
}

/// Counts for each verified signature those that are better, of the same kind and size, on the same
/// component and by the same key; and for each revocation by a named revoker those in the same
/// name, where that number is the smallest.
fn count_better(parts: &mut [Fitting<'_>], revokers: &Revokers) {
    for part in parts {
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (number, candidate) in part.candidates.iter_mut().enumerate() {
            candidate.rank.behind = 0;
            let Some(signature) = candidate.variants.signature() else { continue };
            let kind = match signature.kind {
                kind if kind::CERTIFICATION.contains(&kind) => *kind::CERTIFICATION.start(),
                kind => kind,
            };
            let Rank { class, component, .. } = candidate.rank;
            let size = candidate.size_class;
            match candidate.pool {
                Pool::Designated => {
                    for by in candidate.designated(revokers) {
                        let group = (size, 0, [0; 32], kind, Some(by));
                        groups.entry(group).or_default().push(number);
                    }
                }
                Pool::Foreign if candidate.by.is_none() => {}
                Pool::Own | Pool::Foreign => {
                    let group = (size, class, component, kind, None);
                    groups.entry(group).or_default().push(number);
                }
                Pool::Bad | Pool::Stray => {}
            }
        }
        let mut behind: HashMap<usize, usize> = HashMap::new();
        for mut group in groups.into_values() {
            group.sort_unstable_by_key(|&number| part.candidates[number].rank);
            for (place, number) in group.into_iter().enumerate() {
                behind
                    .entry(number)
                    .and_modify(|least| *least = place.min(*least))
                    .or_insert(place);
            }
        }
        for (number, behind) in behind {
            part.candidates[number].rank.behind = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::samples::{NOW, OWN, bodies, cert, has, judged, keep, signature, user_id};
    use crate::tag::Tag;

    #[test]
    fn forged_signatures_displace_neither_good_ones_nor_each_other_by_date() {
        let good: Vec<_> = (1..=5).map(|time| signature(0x13, time, OWN, b"good")).collect();
        let forged = |n: u32| signature(0x20, u32::MAX - n, OWN, &n.to_be_bytes());
        let flood = cert(&[(Tag::PUBLIC_KEY, b"", (0..5000).map(forged).collect())]);
        let whole = cert(&[user_id(b"one", good.clone())]).union(&flood);
        let limits = Limits { own_signatures: 5, bad_signatures: 10, ..Limits::default() };
        let kept = keep(&whole, &judged(&whole, &good), &limits);
        assert!(good.iter().all(|body| has(&kept, body)));
        assert_eq!(bodies(&kept).count(), 15);
    }

    #[test]
    fn the_newest_self_signature_of_each_kind_stays_and_a_hard_revocation_before_others() {
        let revocation = |time, reason: u8| {
            let mut body = signature(0x20, time, OWN, b"");
            // A reason for the revocation, in the hashed area.
            body.splice(22..22, [2, 29, reason]);
            body[5] += 3;
            body
        };
        let one: Vec<_> = (1..=9).map(|time| signature(0x13, time, OWN, b"")).collect();
        let two: Vec<_> = (1..=9).map(|time| signature(0x13, 100 + time, OWN, b"")).collect();
        let late = signature(0x13, NOW + 2 * AHEAD_S, OWN, b"");
        let revocations = vec![revocation(1, 2), revocation(9, 3), revocation(8, 1)];
        let whole = cert(&[
            (Tag::PUBLIC_KEY, b"", revocations.clone()),
            user_id(b"one", [&one[..], &[late]].concat()),
            user_id(b"two", two.clone()),
        ]);
        let verdicts = vec![Verdict::Good; bodies(&whole).count()];
        let limits = Limits { own_signatures: 3, ..Limits::default() };
        let kept = keep(&whole, &verdicts, &limits);
        assert_eq!(bodies(&kept).count(), 3);
        for body in [&revocations[0], &one[8], &two[8]] {
            assert!(has(&kept, body));
        }
    }

    #[test]
    fn limits_are_those_of_a_size_class() {
        let sizes = [100, 2000, 20_000];
        let of = |size: usize, n: u8| {
            let mut body = signature(0x13, 1, 7, &[n; 5]);
            let area = vec![7; size];
            // A large subpacket in the hashed area.
            let mut packet = vec![255];
            packet.extend(u32::try_from(area.len() + 1).unwrap().to_be_bytes());
            packet.push(100);
            packet.extend(&area);
            let length = u16::try_from(16 + packet.len()).unwrap().to_be_bytes();
            body.splice(22..22, packet);
            body.splice(4..6, length);
            body
        };
        let all: Vec<_> =
            sizes.iter().flat_map(|&size| (0..30).map(move |n| of(size, n))).collect();
        let good = signature(0x13, 1, OWN, b"good");
        let whole = cert(&[user_id(b"one", [&all[..], std::slice::from_ref(&good)].concat())]);
        let limits = Limits { foreign_signatures: 16, ..Limits::default() };
        let kept = keep(&whole, &judged(&whole, &[good]), &limits);
        let count = |size: usize| {
            bodies(&kept).filter(|body| (size / 2..2 * size).contains(&body.len())).count()
        };
        assert_eq!((count(100), count(2000), count(20_000)), (16, 2, 1));
        assert_eq!(bodies(&kept).count(), 16 + 2 + 1 + 1);
    }
}
