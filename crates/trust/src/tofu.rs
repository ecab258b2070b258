//! Trust on first use, as in `GnuPG` (its `tofu.c`, with the same behaviour).
//!
//! A binding consists of an address and a certificate. The first certificate seen for an address
//! gets basic trust. If there is a second certificate for the address, and no evidence that both
//! belong together, the user must decide about each of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use talaria_cert::Fingerprint;

use crate::level::Level;

/// The user's decision about a binding.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Policy {
    /// No decision: the result depends on the observations.
    #[default]
    Auto = 1,
    /// The binding is correct.
    Good = 2,
    /// The user does not know, and does not want to be asked.
    Unknown = 3,
    /// The binding is wrong.
    Bad = 4,
    /// The user wants to be asked.
    Ask = 5,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Good, Self::Unknown, Self::Bad, Self::Ask];

    /// The policy with one of `GnuPG`'s numbers.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&policy| policy as u8 == number)
    }

    /// The name of the policy.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::Bad => "bad",
            Self::Ask => "ask",
        }
    }

    /// The trust level of a binding with this policy, where no user can be asked.
    #[must_use]
    pub fn level(self) -> Level {
        match self {
            Self::Auto => Level::Marginal,
            Self::Good => Level::Full,
            Self::Unknown => Level::Unknown,
            Self::Bad => Level::Never,
            Self::Ask => Level::Undefined,
        }
    }
}

/// The effective decision about a binding that is recorded under several spellings of one address,
/// such as the two spellings of an internationalized domain: the user's strictest decision.
/// [`Policy::Auto`] if there is none.
pub fn strictest(policies: impl IntoIterator<Item = Policy>) -> Policy {
    let strictness = |policy: &Policy| match policy {
        Policy::Auto => 0,
        Policy::Good => 1,
        Policy::Unknown => 2,
        Policy::Ask => 3,
        Policy::Bad => 4,
    };
    policies.into_iter().max_by_key(strictness).unwrap_or_default()
}

/// The certificates for one address. The decisions about all of them share one list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rivals {
    /// The certificates in the order of their fingerprints, each with whether it is a rival of the
    /// others.
    certs: Vec<(Fingerprint, bool)>,
    /// Places in `certs` of two certificates that have certified each other: sorted, each pair in
    /// both orders.
    mutual: Vec<(usize, usize)>,
    /// Whether mutual certifications may be missing, because there were too many to look at.
    pub cut_off: bool,
}

impl Rivals {
    /// Certificates, each with whether it is a rival of the others.
    pub fn new(certs: impl IntoIterator<Item = (Fingerprint, bool)>) -> Self {
        let mut certs: Vec<(Fingerprint, bool)> = certs.into_iter().collect();
        // Of two equal ones, one that is a rival comes first and stays.
        certs.sort_unstable_by_key(|&(fingerprint, is_rival)| (fingerprint, !is_rival));
        certs.dedup_by_key(|(fingerprint, _)| *fingerprint);
        Self { certs, mutual: Vec::new(), cut_off: false }
    }

    /// The certificates in the order of their fingerprints.
    #[must_use]
    pub fn fingerprints(&self) -> impl ExactSizeIterator<Item = Fingerprint> {
        self.certs.iter().map(|(fingerprint, _)| *fingerprint)
    }

    /// The place of a certificate.
    #[must_use]
    pub fn place(&self, fingerprint: Fingerprint) -> Option<usize> {
        self.certs.binary_search_by_key(&fingerprint, |(fingerprint, _)| *fingerprint).ok()
    }

    /// Adds pairs of places whose certificates have certified each other for the address.
    #[must_use]
    pub fn with_mutual(mut self, pairs: impl IntoIterator<Item = (usize, usize)>) -> Self {
        self.mutual.extend(pairs.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]));
        self.mutual.sort_unstable();
        self.mutual.dedup();
        self
    }

    /// The rivals that have certified each other with the certificate at a place.
    fn partners(&self, place: usize) -> impl Iterator<Item = usize> {
        let start = self.mutual.partition_point(|(one, _)| *one < place);
        let pairs = self.mutual[start..].iter().take_while(move |(one, _)| *one == place);
        pairs.map(|(_, other)| *other).filter(|other| self.certs[*other].1)
    }

    /// The places of the rivals that belong to the owner of the certificate at a place: those that
    /// certified each other with it. In the order of fingerprints, this extends to those that
    /// certified each other with one of them.
    fn of_owner(&self, place: usize) -> BTreeSet<usize> {
        let mut ours: BTreeSet<usize> = self.partners(place).collect();
        let mut next = ours.first().copied();
        while let Some(one) = next {
            ours.extend(self.partners(one).filter(|&other| other > one && other != place));
            next = ours.range(one + 1..).next().copied();
        }
        ours
    }
}

/// The rivals of a certificate that conflict with it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Conflicts {
    rivals: Arc<Rivals>,
    /// The place of the certificate itself.
    own: Option<usize>,
    /// The places of rivals that belong to its owner.
    ours: BTreeSet<usize>,
}

impl Conflicts {
    /// The fingerprints in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Fingerprint> {
        let certs = self.rivals.certs.iter().enumerate();
        let conflicting = certs.filter(|(place, (_, is_rival))| {
            *is_rival && Some(*place) != self.own && !self.ours.contains(place)
        });
        conflicting.map(|(_, (fingerprint, _))| *fingerprint)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether every rival conflicts.
    #[must_use]
    pub fn is_everybody(&self) -> bool {
        self.ours.is_empty()
    }

    /// Whether mutual certifications may be missing, because there were too many to look at. Some
    /// of the conflicts may be none then.
    #[must_use]
    pub fn cut_off(&self) -> bool {
        self.rivals.cut_off
    }
}

/// The result for a binding.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decision {
    /// The effective policy.
    pub policy: Policy,
    /// Other certificates for the same address, if they are the reason to ask the user.
    pub conflicts: Conflicts,
    /// Whether the certificate is the user's own.
    pub own: bool,
}

impl Decision {
    /// The trust level of the binding; `default` is the policy of bindings without a decision.
    #[must_use]
    pub fn level(&self, default: Policy) -> Level {
        match self.policy {
            _ if self.own => Level::Ultimate,
            Policy::Auto => default.level(),
            policy => policy.level(),
        }
    }
}

/// Facts about a binding besides the user's policy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Evidence {
    /// Whether the certificate is ultimately trusted.
    pub own: bool,
    /// Whether an ultimately trusted key certified the user ID.
    pub certified: bool,
}

/// Decides about a binding of the certificate `cert`. `rivals` gives the certificates for the
/// address; it is asked only if the decision depends on them.
pub fn decide(
    recorded: Policy,
    known: Evidence,
    cert: Fingerprint,
    rivals: impl FnOnce() -> Arc<Rivals>,
) -> Decision {
    let own = known.own;
    let decided = |policy| Decision { policy, conflicts: Conflicts::default(), own };
    if recorded != Policy::Auto && recorded != Policy::Ask {
        return decided(recorded);
    }
    if recorded == Policy::Auto && (own || known.certified) {
        return decided(Policy::Good);
    }
    let rivals = rivals();
    let place = rivals.place(cert);
    let ours = place.map(|place| rivals.of_owner(place)).unwrap_or_default();
    let conflicts = Conflicts { rivals, own: place, ours };
    let policy = if conflicts.is_empty() { recorded } else { Policy::Ask };
    Decision { policy, conflicts, own }
}

/// The validity of a certificate, given the levels of its bindings in the order of its user IDs.
/// `None` stands for an expired user ID.
#[must_use]
pub fn best(levels: impl IntoIterator<Item = Option<Level>>) -> Level {
    let mut best = None;
    for level in levels.into_iter().flatten() {
        best = Some(match (best, level) {
            (_, Level::Never) => Level::Never,
            (None, level) => level,
            (Some(best), level) => level.max(best),
        });
    }
    best.unwrap_or(Level::Never)
}

/// The statistics of a binding.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct History {
    /// Number of verified signatures or encrypted messages.
    pub count: u64,
    /// Time of the first one, in seconds since 1970; 0 for never.
    pub first: u32,
    /// Time of the last one.
    pub last: u32,
    /// Number of different days.
    pub days: u64,
}

impl History {
    /// Computes the statistics of a list of times, in any order.
    #[must_use]
    pub fn of(times: impl IntoIterator<Item = u32>) -> Self {
        const DAY: u32 = 86400;
        let mut times: Vec<u32> = times.into_iter().collect();
        times.sort_unstable();
        let mut days: Vec<u32> = times.iter().map(|time| time / DAY).collect();
        days.dedup();
        Self {
            count: times.len() as u64,
            first: times.first().copied().unwrap_or_default(),
            last: times.last().copied().unwrap_or_default(),
            days: days.len() as u64,
        }
    }
}

/// The amount of observations, in `GnuPG`'s numbers: 1 none, 2 too few, 3 enough for basic trust, 4
/// many.
#[must_use]
pub fn amount(signatures: History, encryptions: History) -> u8 {
    const BASIC: u64 = 2 * 4;
    const FULL: u64 = 2 * 21;
    let square = |days: u64| days.saturating_mul(days);
    match square(signatures.days).saturating_add(square(encryptions.days)) {
        0 => 1,
        seen if seen < BASIC * BASIC => 2,
        seen if seen < FULL * FULL => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprints(count: u8) -> Vec<Fingerprint> {
        (1..=count).map(|n| Fingerprint::V4([n; 20])).collect()
    }

    #[test]
    fn the_strictest_policy_wins() {
        use Policy::{Ask, Auto, Bad, Good, Unknown};
        for (policies, expected) in [
            (&[][..], Auto),
            (&[Auto, Auto], Auto),
            (&[Auto, Good], Good),
            (&[Good, Unknown], Unknown),
            (&[Ask, Unknown, Good], Ask),
            (&[Good, Bad, Ask], Bad),
        ] {
            assert_eq!(strictest(policies.iter().copied()), expected);
        }
    }

    /// The decision about the first certificate, with the others as rivals.
    fn about_the_first(
        recorded: Policy,
        known: Evidence,
        count: u8,
        mutual: &[(usize, usize)],
    ) -> Decision {
        let certs = fingerprints(count);
        let rivals = Rivals::new(certs.iter().map(|cert| (*cert, true)));
        let rivals = Arc::new(rivals.with_mutual(mutual.iter().copied()));
        decide(recorded, known, certs[0], || rivals)
    }

    fn conflicts(decision: &Decision) -> Vec<Fingerprint> {
        decision.conflicts.iter().collect()
    }

    #[test]
    fn two_certificates_for_one_address_conflict() {
        let unknown = Evidence::default();
        let alone = about_the_first(Policy::Auto, unknown, 1, &[]);
        assert_eq!((alone.policy, alone.level(Policy::Auto)), (Policy::Auto, Level::Marginal));
        assert_eq!(alone.level(Policy::Good), Level::Full);
        let question = about_the_first(Policy::Auto, unknown, 3, &[]);
        assert_eq!(question.policy, Policy::Ask);
        assert_eq!(conflicts(&question), fingerprints(3)[1..]);
        let bad = about_the_first(Policy::Bad, unknown, 3, &[]);
        assert_eq!((bad.policy, bad.level(Policy::Auto)), (Policy::Bad, Level::Never));
        let known = Evidence { own: false, certified: true };
        assert_eq!(about_the_first(Policy::Auto, known, 3, &[]).policy, Policy::Good);
        let own = Evidence { own: true, certified: false };
        let own = about_the_first(Policy::Auto, own, 3, &[]);
        assert_eq!(own.level(Policy::Bad), Level::Ultimate);
    }

    #[test]
    fn certificates_that_certify_each_other_do_not_conflict() {
        let unknown = Evidence::default();
        let chain = about_the_first(Policy::Auto, unknown, 4, &[(0, 1), (1, 3)]);
        assert_eq!(conflicts(&chain), [fingerprints(4)[2]]);
        // The chain is followed in the order of fingerprints only, as in GnuPG.
        let back = about_the_first(Policy::Auto, unknown, 4, &[(0, 3), (1, 3)]);
        assert_eq!(conflicts(&back), fingerprints(4)[1..3]);
        let all = (0..4).flat_map(|one| (0..one).map(move |other| (one, other)));
        let all = about_the_first(Policy::Auto, unknown, 4, &all.collect::<Vec<_>>());
        assert_eq!((all.policy, all.conflicts.is_empty()), (Policy::Auto, true));
    }

    /// The decisions about a list of any length, compared with a search through all pairs.
    #[test]
    fn a_shared_list_decides_as_a_search_through_all_pairs() {
        for seed in 0..2000_u64 {
            let mut draw = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut bit = |one_in: u64| {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (draw >> 33) % one_in == 0
            };
            let certs = fingerprints(2 + u8::try_from(seed % 7).unwrap());
            let pairs: Vec<(usize, usize)> = (0..certs.len())
                .flat_map(|one| (0..one).map(move |other| (other, one)))
                .filter(|_| bit(3))
                .collect();
            let is_rival: Vec<bool> = certs.iter().map(|_| !bit(4)).collect();
            let rivals = Rivals::new(certs.iter().copied().zip(is_rival.iter().copied()));
            let rivals = Arc::new(rivals.with_mutual(pairs.iter().copied()));
            for (at, cert) in certs.iter().enumerate() {
                let others = (0..certs.len()).filter(|other| *other != at && is_rival[*other]);
                let all: Vec<usize> = std::iter::once(at).chain(others).collect();
                let mut ours = vec![false; all.len()];
                ours[0] = true;
                for one in 0..all.len() {
                    for other in one + 1..all.len() {
                        let (low, high) = (all[one].min(all[other]), all[one].max(all[other]));
                        ours[other] |= ours[one] && pairs.contains(&(low, high));
                    }
                }
                let expected: Vec<Fingerprint> = all
                    .iter()
                    .zip(&ours)
                    .filter(|(_, ours)| !**ours)
                    .map(|(at, _)| certs[*at])
                    .collect();
                let decision =
                    decide(Policy::Auto, Evidence::default(), *cert, || Arc::clone(&rivals));
                assert_eq!(conflicts(&decision), expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn the_best_binding_counts_unless_one_is_never() {
        use Level::{Full, Marginal, Never, Undefined};
        assert_eq!(best([Some(Marginal), Some(Full), None]), Full);
        assert_eq!(best([None]), Never);
        assert_eq!(best([]), Never);
        assert_eq!(best([Some(Full), Some(Never)]), Never);
        assert_eq!(best([Some(Never), Some(Undefined)]), Never);
        assert_eq!(best([Some(Never), Some(Marginal)]), Marginal);
    }

    #[test]
    fn days_with_signatures_decide_the_amount() {
        let day = |n: u32| n * 86400 + 7;
        let few = History::of((0..3).map(day).chain([day(1), day(2) + 5]));
        assert_eq!((few.count, few.first, few.last, few.days), (5, 7, day(2) + 5, 3));
        assert_eq!(amount(History::default(), History::default()), 1);
        assert_eq!(amount(few, History::default()), 2);
        assert_eq!(amount(History::of((0..8).map(day)), few), 3);
        assert_eq!(amount(History::of((0..42).map(day)), few), 4);
    }
}
