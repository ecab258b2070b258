//! The acceptance policy: the one place that decides whether a document with signatures is
//! accepted.
//!
//! A [`SignatureReport`] describes one signature. [`Facts`] count all signatures of a document by
//! outcome, and an [`Acceptance`] turns the reports into one answer. Every command and every
//! language binding asks this module.

use std::fmt;

use sequoia_openpgp::Fingerprint;

use crate::verify::report::{Outcome, SignatureReport};

/// A policy that decides whether a document with signatures is accepted.
///
/// A signature that is not good never helps a document. Only [`Outcome::Bad`] counts against it,
/// and only under a policy that says so.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Acceptance {
    /// At least one signature is good, whatever the others are. The Stateless OpenPGP interface has
    /// this rule.
    AnyValid,
    /// No signature is bad, and at least one is good unless unsigned documents are accepted: the
    /// default. Signatures of unknown keys and signatures that do not count are reported, but
    /// decide nothing.
    NoneBad(Unsigned),
    /// Each of these signers made a good signature, whatever the other signatures are.
    Expected(Vec<ExpectedSigner>),
}

/// A signer whose good signature is required.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExpectedSigner {
    /// The certificates or keys of the signer. A good signature by one of them is enough.
    pub any_of: Vec<Fingerprint>,
    /// A name for people, if the fingerprints are too many to show.
    pub name: Option<String>,
}

impl From<Fingerprint> for ExpectedSigner {
    fn from(fingerprint: Fingerprint) -> Self {
        Self { any_of: vec![fingerprint], name: None }
    }
}

impl fmt::Display for ExpectedSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            return f.write_str(name);
        }
        let names: Vec<String> = self.any_of.iter().map(Fingerprint::to_hex).collect();
        f.write_str(&names.join(" or "))
    }
}

impl ExpectedSigner {
    /// The certificates or keys of the signer that made a good signature.
    pub fn found<'s>(
        &'s self,
        reports: &'s [SignatureReport],
    ) -> impl Iterator<Item = &'s Fingerprint> {
        self.any_of.iter().filter(|name| good_one(reports, name).is_some())
    }
}

/// The verdict on a document that has neither a good nor a bad signature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unsigned {
    /// The document is accepted: a recipient who decrypts wants to read it, signed or not.
    Accepted,
    /// The document is refused: a user who verifies wants to know the signer.
    Refused,
}

/// The number of signatures of a document for each outcome.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// Good signatures that count.
    pub good: usize,
    /// Signatures that the key did not make over this document.
    pub bad: usize,
    /// Signatures whose key is in no known certificate.
    pub no_key: usize,
    /// Signatures by certificates that the user has called bad.
    pub distrusted: usize,
    /// Signatures that the key made, but that do not count.
    pub not_counted: usize,
    /// Signatures that cannot be checked.
    pub unchecked: usize,
}

impl Facts {
    /// Counts the outcomes of all signatures of a document.
    #[must_use]
    pub fn of(reports: &[SignatureReport]) -> Self {
        let mut facts = Self::default();
        for report in reports {
            *match report.outcome {
                Outcome::Good => &mut facts.good,
                Outcome::Bad => &mut facts.bad,
                Outcome::NoKey => &mut facts.no_key,
                Outcome::Distrusted => &mut facts.distrusted,
                Outcome::NotCounted(_) => &mut facts.not_counted,
                Outcome::Unchecked(_) => &mut facts.unchecked,
            } += 1;
        }
        facts
    }

    /// The number of signatures.
    #[must_use]
    pub fn count(&self) -> usize {
        self.good + self.bad + self.no_key + self.distrusted + self.not_counted + self.unchecked
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.good, "good"),
            (self.bad, "bad"),
            (self.no_key, "by unknown keys"),
            (self.distrusted, "by certificates that you called bad"),
            (self.not_counted, "that do not count"),
            (self.unchecked, "that cannot be checked"),
        ];
        let mut parts = parts.iter().filter(|(count, _)| *count > 0);
        match parts.next() {
            None => f.write_str("none"),
            Some((count, what)) => {
                write!(f, "{count} {what}")?;
                parts.try_for_each(|(count, what)| write!(f, ", {count} {what}"))
            }
        }
    }
}

/// The reason why a document is not accepted.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAccepted {
    /// The document has no signature.
    #[error("no signature found")]
    Unsigned,
    /// At least one signature is bad.
    #[error("a signature is bad (signatures: {facts})")]
    Bad {
        /// The outcomes of all signatures.
        facts: Facts,
    },
    /// At least one signature is by a certificate that the user has called bad.
    #[error("a signature is by a certificate that you called bad (signatures: {facts})")]
    Distrusted {
        /// The outcomes of all signatures.
        facts: Facts,
    },
    /// No signature is good.
    #[error("no signature is good (signatures: {facts})")]
    NoneGood {
        /// The outcomes of all signatures.
        facts: Facts,
    },
    /// At least one expected signer made no good signature.
    #[error("there is no good signature from {} (signatures: {facts})", names(missing))]
    Missing {
        /// The expected signers without a good signature.
        missing: Vec<ExpectedSigner>,
        /// The outcomes of all signatures.
        facts: Facts,
    },
}

fn names(signers: &[ExpectedSigner]) -> String {
    signers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Acceptance {
    /// Decides whether a document with these signatures is accepted.
    ///
    /// # Errors
    ///
    /// [`NotAccepted`] with the reason for the refusal.
    pub fn decide(&self, reports: &[SignatureReport]) -> Result<Facts, NotAccepted> {
        let facts = Facts::of(reports);
        match self {
            Self::AnyValid if facts.good > 0 => Ok(facts),
            Self::NoneBad(_) if facts.bad > 0 => Err(NotAccepted::Bad { facts }),
            Self::NoneBad(_) if facts.distrusted > 0 => Err(NotAccepted::Distrusted { facts }),
            Self::NoneBad(_) if facts.good > 0 => Ok(facts),
            Self::NoneBad(Unsigned::Accepted) => Ok(facts),
            Self::AnyValid | Self::NoneBad(Unsigned::Refused) if facts.count() == 0 => {
                Err(NotAccepted::Unsigned)
            }
            Self::AnyValid | Self::NoneBad(Unsigned::Refused) => {
                Err(NotAccepted::NoneGood { facts })
            }
            Self::Expected(signers) => {
                let is_missing = |signer: &&ExpectedSigner| signer.found(reports).next().is_none();
                let missing: Vec<_> = signers.iter().filter(is_missing).cloned().collect();
                if signers.is_empty() || !missing.is_empty() {
                    Err(NotAccepted::Missing { missing, facts })
                } else {
                    Ok(facts)
                }
            }
        }
    }

    /// The report that explains the decision. Show this one where there is room for one signature
    /// only. `None` without signatures.
    #[must_use]
    pub fn decisive(&self, reports: &[SignatureReport]) -> Option<usize> {
        let first = |outcome: &Outcome| reports.iter().position(|one| one.outcome == *outcome);
        let good = || first(&Outcome::Good);
        let place = match self {
            Self::AnyValid => good(),
            Self::NoneBad(_) => {
                first(&Outcome::Bad).or_else(|| first(&Outcome::Distrusted)).or_else(good)
            }
            Self::Expected(signers) => {
                let mut names = signers.iter().flat_map(|signer| &signer.any_of);
                names.find_map(|name| good_one(reports, name)).or_else(good)
            }
        };
        place.or((!reports.is_empty()).then_some(0))
    }
}

/// The index of a good signature made by this certificate or key.
fn good_one(reports: &[SignatureReport], signer: &Fingerprint) -> Option<usize> {
    let name = signer.to_hex();
    let is_of = |report: &SignatureReport| {
        let of = |signer: &crate::verify::report::Signer| {
            signer.certificate == name || signer.key == name
        };
        report.is_good() && report.signer.as_ref().is_some_and(of)
    };
    reports.iter().position(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::report::{NotCounted, Signer};

    const ALICE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const MALLORY: &str = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";

    fn report(certificate: &str, outcome: Outcome) -> SignatureReport {
        let signer =
            Signer { certificate: certificate.into(), key: certificate.into(), user_id: None };
        let signer = (outcome != Outcome::NoKey).then_some(signer);
        SignatureReport { outcome, signer, ..SignatureReport::unreadable("") }
    }

    fn expected(names: &[&str]) -> Acceptance {
        let signer = |name: &&str| ExpectedSigner::from(name.parse::<Fingerprint>().unwrap());
        Acceptance::Expected(names.iter().map(signer).collect())
    }

    /// Each row is a mix of signatures that an attacker can produce, with the verdict of each
    /// policy.
    #[test]
    fn each_policy_decides_every_mix_of_signatures() {
        use Outcome::{Bad, Distrusted, Good, NoKey};
        let verify = Acceptance::NoneBad(Unsigned::Refused);
        let decrypt = Acceptance::NoneBad(Unsigned::Accepted);
        let weak = || Outcome::NotCounted(NotCounted::Expired);
        let odd = || Outcome::Unchecked("odd".into());
        // Columns: the reports; then the verdicts of any valid, verify, decrypt, expected Alice.
        let rows: Vec<(Vec<SignatureReport>, [bool; 4])> = vec![
            (vec![], [false, false, true, false]),
            (vec![report(ALICE, Good)], [true, true, true, true]),
            (vec![report(MALLORY, Good)], [true, true, true, false]),
            (vec![report(ALICE, Bad)], [false, false, false, false]),
            (vec![report(MALLORY, NoKey)], [false, false, true, false]),
            (vec![report(ALICE, weak())], [false, false, true, false]),
            (vec![report(ALICE, odd())], [false, false, true, false]),
            (vec![report(ALICE, Good), report(MALLORY, Bad)], [true, false, false, true]),
            (vec![report(MALLORY, Bad), report(ALICE, Good)], [true, false, false, true]),
            (vec![report(ALICE, Bad), report(MALLORY, Good)], [true, false, false, false]),
            (vec![report(ALICE, Good), report(MALLORY, NoKey)], [true, true, true, true]),
            (vec![report(ALICE, weak()), report(MALLORY, Good)], [true, true, true, false]),
            (vec![report(ALICE, Good), report(MALLORY, odd())], [true, true, true, true]),
            (vec![report(ALICE, Distrusted)], [false, false, false, false]),
            (vec![report(ALICE, Good), report(MALLORY, Distrusted)], [true, false, false, true]),
            (vec![report(MALLORY, Good), report(ALICE, Distrusted)], [true, false, false, false]),
        ];
        for (reports, wanted) in rows {
            let policies = [&Acceptance::AnyValid, &verify, &decrypt, &expected(&[ALICE])];
            let said = policies.map(|policy| policy.decide(&reports).is_ok());
            assert_eq!(said, wanted, "{:?}", Facts::of(&reports));
            for policy in policies {
                // A document that is not accepted must never show a report that is good on its own.
                let shown = policy.decisive(&reports);
                assert_eq!(shown.is_none(), reports.is_empty());
                if policy.decide(&reports).is_ok() && Facts::of(&reports).good > 0 {
                    assert!(reports[shown.unwrap()].is_good());
                }
            }
        }
    }

    #[test]
    fn the_refusal_names_each_missing_signer() {
        let reports = [report(ALICE, Outcome::Good)];
        let both = expected(&[ALICE, MALLORY]);
        let Err(NotAccepted::Missing { missing, .. }) = both.decide(&reports) else { panic!() };
        assert_eq!(missing, [MALLORY.parse::<Fingerprint>().unwrap().into()]);
        // An empty list of expected signers is the caller's mistake and must not accept every
        // document.
        assert!(expected(&[]).decide(&reports).is_err());
    }

    #[test]
    fn one_good_signature_is_enough_for_a_signer_with_several_certificates() {
        let any_of = [ALICE, MALLORY].map(|name| name.parse().unwrap()).to_vec();
        let both = Acceptance::Expected(vec![ExpectedSigner { any_of, name: None }]);
        assert!(both.decide(&[report(MALLORY, Outcome::Good)]).is_ok());
        let refused = both.decide(&[report(MALLORY, Outcome::Bad)]).unwrap_err().to_string();
        assert!(refused.contains(&format!("from {ALICE} or {MALLORY} ")), "{refused}");
    }
}
