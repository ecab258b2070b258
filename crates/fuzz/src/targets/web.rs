//! Any bytes as a certificate in the web of trust, and as the scope of a trust signature.

use std::hint::black_box;

use talaria_cert::{Cert, Span, Summary, Verification, verdicts};
use talaria_trust::{
    Introducer, IntroducerCert, Level, Rules, Scope, Standing, Subject, certifiers, evaluate,
    issuers,
};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let scope = Scope::new(bytes);
    black_box((scope.has(b"Alice <alice@example.org>"), scope.has(bytes)));
    let Ok(cert) = Cert::parse(bytes) else { return };
    let verdicts = verdicts(&[&cert], Verification::Full).concat();
    let named = issuers(&cert);
    // Each issuer is a different introducer; every other one has a scope.
    let introducers: Vec<[IntroducerCert; 1]> = named
        .iter()
        .map(|id| {
            let [.., at] = id.0.to_be_bytes();
            let level = Level::from_number(at % 7).unwrap_or_default();
            let scope = at.is_multiple_of(2).then(|| scope.clone());
            let introducer = Introducer { depth: at % 6, level, reach: at % 3, scope };
            [IntroducerCert { cert: i64::from(at), introducer }]
        })
        .collect();
    for now in [0, 1_740_000_000, u32::MAX - 1] {
        let summary = Summary::evaluate(&cert, &verdicts, now);
        let subject = Subject::of(&cert, &summary, Rules::default().gnupg, now);
        assert_eq!(subject.user_ids.len(), summary.user_ids.len());
        let speaking = |id| match named.binary_search(&id) {
            Ok(at) => &introducers[at][..],
            Err(_) => &[],
        };
        for owner in [Level::Unknown, Level::Full, Level::Ultimate] {
            let rules = Rules::default();
            let standing = evaluate(&subject, owner, rules, now, speaking, |_, _, _| true);
            let Standing { levels, introducer, holds: Span { from, until } } = &standing;
            assert_eq!(levels.len(), summary.user_ids.len());
            assert!(*from <= now && now < *until);
            assert!(introducer.as_ref().is_none_or(|found| found.depth < rules.depth));
            // Forged certifications have no effect.
            let alone = evaluate(&subject, Level::Full, rules, now, speaking, |_, _, _| false);
            assert_eq!(alone.level(), Level::Unknown);
        }
        black_box(certifiers(&subject, now, speaking, |_, _, _| true));
    }
}
