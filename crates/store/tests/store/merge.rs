//! The pure part of a write, on another engine: a map keeps the same certificates as the store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use talaria_cert::merge::{Before, Joining, Offer, Record, Rules, decide};
use talaria_cert::{Cert, Fingerprint, Limits, Redacted, VERIFIER, Verification, View, Work};
use talaria_store::{IngestOutcome, IngestRefusal, Ingested, Redaction, Return, Store, Stored};

use crate::common::{NOW, corpus, part};

/// The smallest engine.
#[derive(Default)]
struct Map {
    certs: BTreeMap<Fingerprint, Record>,
    blocked: BTreeSet<Fingerprint>,
    redacted: BTreeMap<Fingerprint, Vec<Redaction>>,
    limits: Limits,
}

impl Map {
    fn offer(&self, cert: Cert, joining: Joining) -> (Offer, Before) {
        let fingerprint = cert.fingerprint();
        let redactions = self.redacted.get(&fingerprint).cloned().unwrap_or_default();
        let offer = Offer::new(cert, joining, Redacted::new(redactions));
        let before = match self.certs.get(&fingerprint) {
            None if self.blocked.contains(&fingerprint) => Before::Blocked,
            None => Before::Absent,
            Some(record) if record.cert == *offer.cert() => Before::Same,
            Some(Record { cert, verdicts, .. }) => {
                let stored = Stored { cert: cert.clone(), verdicts: verdicts.clone() };
                Before::Present { stored, verifier: VERIFIER }
            }
        };
        (offer, before)
    }

    fn write(&mut self, certs: Vec<Cert>, joining: Joining) -> Vec<Ingested> {
        let names: Vec<Fingerprint> = certs.iter().map(Cert::fingerprint).collect();
        let offers = certs.into_iter().map(|cert| self.offer(cert, joining)).collect();
        let (limits, now) = (&self.limits, NOW.into());
        let rules = Rules { limits, verification: Verification::Full, now, views: &[View::Sks] };
        let known = self.certs.values().map(|known| (known.cert.clone(), known.verdicts.clone()));
        let mut issuers: Vec<_> = known.collect();
        let mut work = Work::UNBOUNDED;
        let decided = decide(offers, &rules, &mut issuers, &mut work).unwrap();
        let written = names.into_iter().zip(decided).map(|(name, decided)| {
            if let Some(record) = decided.record {
                assert_eq!(record.cert.fingerprint(), name);
                let before = self.certs.insert(name, record);
                assert_eq!(before.is_some(), decided.before.is_some());
            }
            Ingested { outcome: decided.outcome, left_out: decided.left_out }
        });
        written.collect()
    }
}

/// A change of a store. Certificates are named by their place in a list.
#[derive(Clone, Debug)]
enum Step {
    /// Those signatures of the certificates that are in one half, or all.
    Ingest(BTreeSet<usize>, Half),
    Replace(usize, Half),
    Block(usize),
    Redact(usize, bool),
    Limit(Limits),
}

#[derive(Clone, Copy, Debug)]
enum Half {
    Even,
    Odd,
    Whole,
}

impl Half {
    fn of(self, cert: &Cert) -> Cert {
        match self {
            Self::Even => part(cert, |at| at % 2 == 0),
            Self::Odd => part(cert, |at| at % 2 == 1),
            Self::Whole => cert.clone(),
        }
    }
}

const CERTS: usize = 12;

fn any_limits() -> impl Strategy<Value = Limits> {
    prop_oneof![
        Just(Limits::default()),
        (0usize..4, 0usize..4, 1usize..30).prop_map(|(own, foreign, signatures)| Limits {
            components: 3,
            signatures,
            own_signatures: own,
            bad_signatures: 2,
            signatures_per_signer: 1,
            foreign_signatures: foreign,
            ..Limits::default()
        }),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let half = || prop_oneof![Just(Half::Even), Just(Half::Odd), Just(Half::Whole)];
    prop_oneof![
        6 => (prop::collection::btree_set(0..CERTS, 1..5), half())
            .prop_map(|(certs, half)| Step::Ingest(certs, half)),
        2 => (0..CERTS, half()).prop_map(|(cert, half)| Step::Replace(cert, half)),
        1 => (0..CERTS).prop_map(Step::Block),
        1 => (0..CERTS, any::<bool>()).prop_map(|(cert, all)| Step::Redact(cert, all)),
        1 => any_limits().prop_map(Step::Limit),
    ]
}

/// Makes a change in both, and compares what they say of it.
fn take(step: &Step, all: &[Cert], map: &mut Map, store: &mut Store) {
    let now = NOW.into();
    match step {
        Step::Ingest(certs, half) => {
            let certs: Vec<Cert> = certs.iter().map(|&at| half.of(&all[at])).collect();
            let told = store.ingest_counted(certs.clone(), Verification::Full, now).unwrap();
            assert_eq!(map.write(certs, Joining::Union), told);
        }
        Step::Replace(at, half) => {
            let cert = half.of(&all[*at]);
            let told = store.replace(cert.clone(), now).unwrap();
            assert_eq!(map.write(vec![cert], Joining::Replace)[0].outcome, told);
        }
        Step::Block(at) => {
            let name = all[*at].fingerprint();
            store.delete(&[name], Return::Blocked, now).unwrap();
            map.certs.remove(&name);
            map.blocked.insert(name);
        }
        Step::Redact(at, is_all) => {
            let name = all[*at].fingerprint();
            let first = all[*at].user_ids().next();
            let redaction = first.filter(|_| !is_all).map_or(Redaction::All, Redaction::of);
            store.operator_mut().redact(name, std::slice::from_ref(&redaction), now).unwrap();
            map.redacted.entry(name).or_default().push(redaction);
            if let Some(record) = map.certs.get(&name) {
                let stored = record.cert.clone();
                map.write(vec![stored], Joining::Union);
            }
        }
        Step::Limit(limits) => {
            store.operator_mut().set_limits(limits.clone());
            map.limits = limits.clone();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn another_engine_keeps_the_same(steps in prop::collection::vec(any_step(), 1..16)) {
        let all = corpus(CERTS as u64);
        let mut store = Store::in_memory(Path::new("memory")).unwrap();
        let mut map = Map::default();
        for step in &steps {
            take(step, &all, &mut map, &mut store);
        }
        prop_assert_eq!(store.count().unwrap(), map.certs.len() as u64);
        for (name, record) in &map.certs {
            let row = store.row(*name).unwrap().unwrap();
            let stored = store.stored(row.id).unwrap().unwrap();
            prop_assert_eq!(&stored.cert, &record.cert);
            prop_assert_eq!(&stored.verdicts, &record.verdicts);
            prop_assert_eq!(&store.digests().of(row.id).unwrap(), &record.digests);
            // Revokers are other certificates, of which a record knows nothing.
            if record.summary.revokers.is_empty() {
                prop_assert_eq!(&row.summary, &record.summary);
            }
        }
    }

    /// What was written is not written again, and no redacted user ID is in a record.
    #[test]
    fn a_record_is_final(at in 0..CERTS, limits in any_limits(), is_redacted in any::<bool>()) {
        let cert = corpus(CERTS as u64).swap_remove(at);
        let name = cert.fingerprint();
        let mut map = Map { limits, ..Map::default() };
        if is_redacted {
            map.redacted.insert(name, vec![Redaction::All]);
        }
        let first = map.write(vec![cert.clone()], Joining::Union)[0];
        let too_many = IngestOutcome::Refused(IngestRefusal::TooManySignatures);
        prop_assert!([IngestOutcome::New, too_many].contains(&first.outcome));
        if let Some(record) = map.certs.get(&name) {
            prop_assert_eq!(record.cert.union(&cert) == record.cert, first.left_out.is_none());
            prop_assert!(!is_redacted || record.cert.user_ids().next().is_none());
            let again = map.write(vec![cert], Joining::Union)[0];
            prop_assert_eq!(again.outcome, IngestOutcome::Unchanged);
            prop_assert_eq!(again.left_out, first.left_out);
        }
    }
}
