//! The parts of a certificate that a keyserver serves: only components that the owner has signed,
//! with a limited number of third-party signatures.

use std::collections::HashMap;

use crate::limits::is_revocation;
use crate::verify::Verdict;
use crate::{Cert, Signature, Tag, kind};

/// The parts to serve beyond those that the owner has signed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Serving {
    /// Maximum number of third-party signatures on the whole certificate: revocations first, then
    /// the newest.
    pub foreign_signatures: usize,
    /// Whether user attributes (photos) are served.
    pub attributes: bool,
}

impl Cert {
    /// The certificate as a keyserver serves it. It has the good, exportable self-signatures and the
    /// components that have such a signature. For each such component and each other signer, it has
    /// the newest signature and the newest revocation, up to the limit in `serving`.
    ///
    /// `None` if nothing was removed. Signatures that cannot be verified here are not served.
    #[must_use]
    pub fn served(&self, verdicts: &[Verdict], serving: Serving) -> Option<Self> {
        let mut keep = vec![false; self.packets().len()];
        // By component, signer and whether it is a revocation: creation time and index of the newest
        // signature.
        let mut foreign: HashMap<(usize, u64, bool), (u32, usize)> = HashMap::new();
        let (mut component, mut tag) = (0, Tag::PUBLIC_KEY);
        let mut verdicts = verdicts.iter();
        for (at, packet) in self.packets().enumerate() {
            if packet.tag != Tag::SIGNATURE {
                (component, tag) = (at, packet.tag);
                // The primary key stays even without a signature on it.
                keep[at] = at == 0;
                continue;
            }
            let verdict = verdicts.next().copied().unwrap_or(Verdict::Unchecked);
            let may_be_served = match verdict {
                Verdict::Good | Verdict::Foreign => {
                    tag != Tag::USER_ATTRIBUTE || serving.attributes
                }
                _ => false,
            };
            if !may_be_served {
                continue;
            }
            let Some(signature) = Signature::parse(packet.body).filter(|s| s.exportable) else {
                continue;
            };
            if verdict == Verdict::Good {
                keep[at] = true;
                keep[component] = true;
            } else if let Some(signer) = signature.issuer
                && (is_revocation(signature.kind) || certifies(signature.kind))
            {
                let revokes = is_revocation(signature.kind);
                let newest = foreign.entry((component, signer.0, revokes)).or_insert((0, at));
                *newest = (*newest).max((signature.created, at));
            }
        }
        let mut newest: Vec<(bool, u32, usize)> = foreign
            .into_iter()
            .filter(|&((component, ..), _)| keep[component])
            .map(|((_, _, revokes), (created, at))| (revokes, created, at))
            .collect();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        newest.iter().take(serving.foreign_signatures).for_each(|&(_, _, at)| keep[at] = true);
        if keep.iter().all(|&kept| kept) {
            return None;
        }
        Some(self.retain(|at, _| keep[at]))
    }
}

fn certifies(kind: u8) -> bool {
    kind::CERTIFICATION.contains(&kind) || kind == kind::DIRECT_KEY
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::tests::{OWN, any_cert, any_verdicts, bodies, cert, signature};
    use proptest::prelude::*;

    const ALL: Serving = Serving { foreign_signatures: usize::MAX, attributes: true };

    /// A version 4 signature that is not exportable.
    fn local(kind: u8, signer: u64) -> Vec<u8> {
        let v3 = signature(kind, 1, signer, b"");
        let mut body = vec![4, kind, 1, 8, 0, 9];
        body.extend([2, 4, 0, 5, 2, 0, 0, 0, 1]);
        body.extend([0, 10, 9, 16]);
        body.extend(&v3[7..15]);
        body.extend([0, 0]);
        body
    }

    fn with(verdict_of: impl Fn(&[u8]) -> Verdict, whole: &Cert, serving: Serving) -> Option<Cert> {
        let verdicts: Vec<_> = bodies(whole).map(verdict_of).collect();
        whole.served(&verdicts, serving)
    }

    #[test]
    fn only_components_with_a_good_signature_are_served() {
        let good = signature(0x13, 1, OWN, b"good");
        let other = signature(0x10, 9, 7, b"");
        let verdicts = [
            Verdict::Unchecked,
            Verdict::Bad,
            Verdict::Unsupported,
            Verdict::Weak,
            Verdict::Malformed,
            Verdict::Misplaced,
        ];
        for verdict in verdicts {
            let bad = signature(0x13, 2, OWN, b"");
            let whole = cert(&[
                (Tag::PUBLIC_KEY, b"", vec![bad.clone()]),
                (Tag::USER_ID, b"mine", vec![good.clone(), bad.clone(), other.clone()]),
                (Tag::USER_ID, b"not mine", vec![bad.clone(), other.clone()]),
                (Tag::USER_ID, b"nobody's", vec![]),
                (Tag::PUBLIC_SUBKEY, b"mine", vec![good.clone()]),
                (Tag::PUBLIC_SUBKEY, b"not mine", vec![bad.clone()]),
                (Tag(40), b"unknown", vec![other.clone()]),
            ]);
            let judge = |body: &[u8]| match body {
                body if body == good => Verdict::Good,
                body if body == bad => verdict,
                _ => Verdict::Foreign,
            };
            let expected = cert(&[
                (Tag::USER_ID, b"mine", vec![good.clone(), other.clone()]),
                (Tag::PUBLIC_SUBKEY, b"mine", vec![good.clone()]),
            ]);
            assert_eq!(with(judge, &whole, ALL), Some(expected.clone()));
            assert_eq!(with(judge, &expected, ALL), None);
        }
    }

    #[test]
    fn attributes_are_served_if_the_operator_enables_them() {
        let good = signature(0x13, 1, OWN, b"");
        let whole = cert(&[(Tag::USER_ATTRIBUTE, b"photo", vec![good])]);
        assert_eq!(whole.served(&[Verdict::Good], ALL), None);
        let none = Serving { attributes: false, ..ALL };
        assert_eq!(whole.served(&[Verdict::Good], none), Some(cert(&[])));
    }

    #[test]
    fn the_newest_certification_and_revocation_of_each_signer_are_served() {
        let good = signature(0x13, 1, OWN, b"");
        let of = |kind, time, signer| signature(kind, time, signer, b"");
        let whole = cert(&[
            (Tag::PUBLIC_KEY, b"", vec![of(0x20, 1, 7), of(0x1f, 5, 7), of(0x00, 9, 6)]),
            (
                Tag::USER_ID,
                b"mine",
                vec![
                    good.clone(),
                    of(0x10, 1, 7),
                    of(0x13, 2, 7),
                    of(0x30, 1, 7),
                    of(0x30, 3, 7),
                    of(0x10, 4, 8),
                ],
            ),
            (Tag::USER_ID, b"not mine", vec![of(0x10, 99, 7), of(0x10, 99, 9)]),
        ]);
        let judge = |body: &[u8]| if body == good { Verdict::Good } else { Verdict::Foreign };
        let newest = cert(&[
            (Tag::PUBLIC_KEY, b"", vec![of(0x20, 1, 7), of(0x1f, 5, 7)]),
            (
                Tag::USER_ID,
                b"mine",
                vec![good.clone(), of(0x13, 2, 7), of(0x30, 3, 7), of(0x10, 4, 8)],
            ),
        ]);
        assert_eq!(with(judge, &whole, ALL), Some(newest.clone()));
        assert_eq!(with(judge, &newest, ALL), None);
        // Signatures on components that are not served do not count.
        let few = Serving { foreign_signatures: 4, ..ALL };
        let expected = newest.retain(|_, packet| packet.body != of(0x13, 2, 7));
        assert_eq!(with(judge, &whole, few), Some(expected));
        let none = Serving { foreign_signatures: 0, ..ALL };
        let expected = cert(&[(Tag::USER_ID, b"mine", vec![good.clone()])]);
        assert_eq!(with(judge, &whole, none), Some(expected));
    }

    #[test]
    fn local_signatures_are_never_served() {
        let good = signature(0x13, 1, OWN, b"");
        let whole = cert(&[
            (Tag::USER_ID, b"a", vec![good.clone(), local(0x13, OWN), local(0x10, 7)]),
            (Tag::USER_ID, b"for this ring only", vec![local(0x13, OWN)]),
        ]);
        let theirs = local(0x10, 7);
        let judge = |body: &[u8]| if body == theirs { Verdict::Foreign } else { Verdict::Good };
        let expected = cert(&[(Tag::USER_ID, b"a", vec![good.clone()])]);
        assert_eq!(with(judge, &whole, ALL), Some(expected));
    }

    proptest! {
        #[test]
        fn selecting_the_served_part_twice_changes_nothing(
            whole in any_cert(), foreign_signatures in 0usize..8, attributes: bool,
        ) {
            let serving = Serving { foreign_signatures, attributes };
            let verdicts = any_verdicts(&whole);
            let Some(cut) = whole.served(&verdicts, serving) else { return Ok(()) };
            prop_assert_ne!(&cut, &whole);
            prop_assert_eq!(cut.union(&whole), whole.clone());
            let left = any_verdicts(&cut);
            prop_assert_eq!(cut.served(&left, serving), None);
            prop_assert!(left.iter().all(|v| matches!(v, Verdict::Good | Verdict::Foreign)));
            let foreign = left.iter().filter(|&&verdict| verdict == Verdict::Foreign).count();
            prop_assert!(foreign <= foreign_signatures);
        }
    }
}
