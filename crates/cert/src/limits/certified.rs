//! Verdicts on the signatures of other keys, when a certificate is read.

use std::collections::HashMap;

use crate::cert::Cert;
use crate::limits::bounds::Limits;
use crate::limits::issuers::Issuers;
use crate::limits::makers::others_exceed;
use crate::limits::time::TimeLeft;
use crate::tag::Tag;
use crate::verdict::Verdict;

/// The time of [`Cert::certified`].
const CERTIFIED: TimeLeft = TimeLeft {
    finding_ns: 100_000_000,
    verifying_ns: 200_000_000,
    ranking_ns: 500_000_000,
    needed_ns: 0,
    is_cut: false,
};

impl Cert {
    /// The verdicts, with [`Verdict::Certified`] for those signatures of other keys, on components
    /// that the owner has signed, that one of the `issuers` made, as was verified. One that has
    /// this verdict already, and names its issuer in the bytes that are signed, keeps it if there
    /// is such a key. If there are more signatures of other keys than `unranked` admits, as
    /// [`Limits`] count, those of keys that the owner has certified get [`Verdict::Mutual`].
    ///
    /// `verdicts` are those on all signatures, in canonical order. The cost is that of verifying
    /// each signature that does not have the verdict, and at most 0.3 s by the model of
    /// [`Self::cost`]: a few thousand usual signatures. Signatures beyond it do not get the
    /// verdict. To find those of keys that the owner has certified may take 0.5 s more.
    #[must_use]
    pub fn certified(
        &self,
        verdicts: &[Verdict],
        unranked: usize,
        issuers: &mut dyn Issuers,
    ) -> Vec<Verdict> {
        let mut parts = self.parts(verdicts, &Limits::default());
        parts.retain(|part| part.is_bound);
        let certified = parts.iter_mut().flat_map(|part| &mut part.candidates);
        for candidate in certified.filter(|candidate| candidate.verdict == Verdict::Certified) {
            let issuer = candidate.variants.signature().and_then(|s| s.signed_issuer);
            if !issuer.is_some_and(|id| issuers.has(id)) {
                candidate.verdict = Verdict::Foreign;
            }
        }
        let mut left = CERTIFIED;
        self.verify_others(&mut parts, issuers, &mut left);
        if others_exceed(&parts, unranked) {
            self.rank_certified(&mut parts, issuers, &mut left);
        }
        let mut judged: HashMap<usize, Verdict> = HashMap::new();
        for candidate in parts.iter().flat_map(|part| &part.candidates) {
            let verdict =
                if candidate.by_class == 1 { Verdict::Mutual } else { Verdict::Certified };
            let right = candidate.variants.0.iter().filter(|variant| {
                candidate.verdict == Verdict::Certified
                    && candidate.verdict_on(variant, Verdict::Certified) == Verdict::Certified
            });
            judged.extend(right.map(|variant| (variant.at, verdict)));
        }
        let signatures = self.packets().enumerate().filter(|(_, p)| p.tag == Tag::SIGNATURE);
        let judge = |((at, _), &verdict)| match verdict {
            _ if judged.contains_key(&at) => judged[&at],
            Verdict::Certified => Verdict::Foreign,
            other => other,
        };
        signatures.zip(verdicts).map(judge).collect()
    }
}
