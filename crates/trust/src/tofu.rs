//! Trust on first use, as in `GnuPG` (its `tofu.c`, with the same behaviour).
//!
//! A binding consists of an address and a certificate. The first certificate seen for an address gets basic
//! trust. If there is a second certificate for the address, and no evidence that both belong together, the user
//! must decide about each of them.

use talaria_cert::Fingerprint;

use crate::Level;

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

/// The effective decision about a binding that is recorded under several spellings of one address, such as the
/// two spellings of an internationalized domain: the user's strictest decision. [`Policy::Auto`] if there is
/// none.
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

/// The result for a binding.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decision {
    /// The effective policy.
    pub policy: Policy,
    /// Other certificates for the same address, in the order of their fingerprints, if they are the reason to ask
    /// the user.
    pub conflicts: Vec<Fingerprint>,
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

/// Decides about a binding. `others` are the other certificates for the address, in ascending order. `mutual`
/// says whether two certificates certified each other for the address; index 0 is the certificate in question, 1
/// the first of `others`.
pub fn decide(
    recorded: Policy,
    known: Evidence,
    others: &[Fingerprint],
    mut mutual: impl FnMut(usize, usize) -> bool,
) -> Decision {
    let own = known.own;
    let decided = |policy| Decision { policy, conflicts: Vec::new(), own };
    if recorded != Policy::Auto && recorded != Policy::Ask {
        return decided(recorded);
    }
    if recorded == Policy::Auto && (own || known.certified) {
        return decided(Policy::Good);
    }
    // Keys that certified each other belong to one person. In the order of fingerprints, this extends to keys
    // that certified each other with one of those keys.
    let count = others.len() + 1;
    let mut ours = vec![false; count];
    ours[0] = true;
    for one in 0..count {
        if !ours[one] {
            continue;
        }
        for (other, ours) in ours.iter_mut().enumerate().skip(one + 1) {
            *ours = *ours || mutual(one, other);
        }
    }
    let conflicts: Vec<Fingerprint> = others
        .iter()
        .zip(&ours[1..])
        .filter(|(_, ours)| !**ours)
        .map(|(other, _)| *other)
        .collect();
    let policy = if conflicts.is_empty() { recorded } else { Policy::Ask };
    Decision { policy, conflicts, own }
}

/// The validity of a certificate, given the levels of its bindings in the order of its user IDs. `None` stands
/// for an expired user ID.
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

/// The amount of observations, in `GnuPG`'s numbers: 1 none, 2 too few, 3 enough for basic trust, 4 many.
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

    #[test]
    fn two_certificates_for_one_address_conflict() {
        let others = fingerprints(2);
        let alone = decide(Policy::Auto, Evidence::default(), &[], |_, _| false);
        assert_eq!((alone.policy, alone.level(Policy::Auto)), (Policy::Auto, Level::Marginal));
        assert_eq!(alone.level(Policy::Good), Level::Full);
        let question = decide(Policy::Auto, Evidence::default(), &others, |_, _| false);
        assert_eq!((question.policy, question.conflicts), (Policy::Ask, others.clone()));
        let bad = decide(Policy::Bad, Evidence::default(), &others, |_, _| false);
        assert_eq!((bad.policy, bad.level(Policy::Auto)), (Policy::Bad, Level::Never));
        let known = Evidence { own: false, certified: true };
        assert_eq!(decide(Policy::Auto, known, &others, |_, _| false).policy, Policy::Good);
        let own =
            decide(Policy::Auto, Evidence { own: true, certified: false }, &others, |_, _| false);
        assert_eq!(own.level(Policy::Bad), Level::Ultimate);
    }

    #[test]
    fn certificates_that_certify_each_other_do_not_conflict() {
        let others = fingerprints(3);
        let chain = |a, b| matches!((a, b), (0, 1) | (1, 3));
        let decision = decide(Policy::Auto, Evidence::default(), &others, chain);
        assert_eq!(decision.conflicts, [others[1]]);
        let all = decide(Policy::Auto, Evidence::default(), &others, |_, _| true);
        assert_eq!(all.policy, Policy::Auto);
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
