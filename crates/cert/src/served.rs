//! What a keyserver gives out of a certificate: only what its owner has signed, and a bounded part
//! of what others say about it.

use std::collections::HashMap;

use crate::verify::Verdict;
use crate::{Cert, Signature, Tag, kind};

/// What is given out beyond what the owner has signed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Serving {
    /// Signatures of others, on the whole certificate: the newest.
    pub foreign_signatures: usize,
    /// Whether user attributes (photos) are given out.
    pub attributes: bool,
}

impl Cert {
    /// The certificate as it is given out: self-signatures that are good, the components that one of
    /// these is on, and of each other signer on a component the newest signature and the newest
    /// revocation, as far as `serving` allows.
    ///
    /// `None` if nothing was cut. A signature that cannot be computed here is not given out.
    #[must_use]
    pub fn served(&self, verdicts: &[Verdict], serving: Serving) -> Option<Self> {
        let all_good = verdicts.iter().all(|&verdict| verdict == Verdict::Good);
        let mut keep = vec![true; self.packets().len()];
        // By component, signer and whether it revokes: the newest, and when it was made.
        let mut foreign: HashMap<(usize, u64, bool), (u32, usize)> = HashMap::new();
        let mut component = 0;
        let mut good = true;
        let mut verdicts = verdicts.iter();
        for (at, packet) in self.packets().enumerate() {
            if packet.tag != Tag::SIGNATURE {
                keep[component] &= good;
                component = at;
                // The primary key needs no signature on itself.
                good = at == 0;
                keep[at] = packet.tag != Tag::USER_ATTRIBUTE || serving.attributes;
                continue;
            }
            let verdict = verdicts.next().copied().unwrap_or(Verdict::Unchecked);
            good |= verdict == Verdict::Good;
            keep[at] = verdict == Verdict::Good;
            if verdict == Verdict::Foreign
                && let Some(signature) = Signature::parse(packet.body)
                && signature.exportable
                && let Some(signer) = signature.issuer
            {
                let revokes = signature.kind == kind::CERTIFICATION_REVOCATION;
                let newest = foreign.entry((component, signer.0, revokes)).or_insert((0, at));
                *newest = (*newest).max((signature.created, at));
            }
        }
        keep[component] &= good;
        let mut newest: Vec<(bool, u32, usize)> = foreign
            .into_iter()
            .map(|((_, _, revokes), (created, at))| (revokes, created, at))
            .collect();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        newest.iter().take(serving.foreign_signatures).for_each(|&(_, _, at)| keep[at] = true);
        if all_good && keep.iter().all(|&kept| kept) {
            return None;
        }
        Some(self.retain(|at, _| keep[at]))
    }
}
