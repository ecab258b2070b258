//! Rehearsing a change: the signatures that the web of trust will need are verified before the
//! store is locked.

use std::collections::BTreeSet;

use rusqlite::Connection;
use talaria_cert::Fingerprint;
use talaria_trust::{Level, issuers};

use crate::find;
use crate::ledger::Ledger;
use crate::trust::evaluation::Evaluation;
use crate::trust::issuer_index::FirstIndex;
use crate::trust::node::due;
use crate::trust::planned::Planned;
use crate::trust::ultimate::ultimates;

/// Evaluates what will change in the web of trust when planned changes are made, without writing,
/// and keeps the verdicts on signatures in `ledger`.
pub(crate) fn rehearse(
    connection: &Connection,
    planned: Planned<'_>,
    now: u32,
    ledger: &mut Ledger,
) -> rusqlite::Result<()> {
    let mut index = None;
    let mut web = match Evaluation::of(connection, now)? {
        Some(web) => web,
        None if begins(connection, &planned)? => {
            index = Some(FirstIndex::make(connection)?);
            let rules = planned.anew.unwrap_or_default();
            let mut web = Evaluation::new(connection, rules, now);
            (web.from_nothing, web.is_first) = (true, true);
            web
        }
        None => return Ok(()),
    };
    let mut start: BTreeSet<i64> = planned.certs.keys().copied().collect();
    for stored in planned.owners.keys() {
        if let Some((fingerprint, _)) = Fingerprint::from_stored(stored) {
            start.extend(find::id(connection, fingerprint)?);
        }
    }
    if let Some(rules) = planned.anew {
        (web.rules, web.from_nothing) = (rules, true);
    }
    if web.from_nothing {
        start.extend(ultimates(connection)?);
    } else {
        start.extend(due(connection, now)?);
    }
    for (&id, cert) in &planned.certs {
        for issuer in cert.iter().flat_map(|(cert, _)| issuers(cert)) {
            web.planned_by.entry(issuer).or_default().push(id);
        }
    }
    (web.planned, web.fresh) = (planned, Some(Vec::new()));
    web.spread(start)?;
    ledger.add_certifications(web.fresh.take().unwrap_or_default());
    drop((web, index));
    Ok(())
}

/// Whether a store without a web of trust gets one by planned changes of trust.
fn begins(connection: &Connection, planned: &Planned<'_>) -> rusqlite::Result<bool> {
    let is_own = |&value: &u8| Level::from_number(value) == Some(Level::Ultimate);
    let of_trust = planned.anew.is_some() || planned.owners.values().any(is_own);
    Ok(of_trust || planned.certs.is_empty() && !ultimates(connection)?.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use talaria_cert::{Cert, KeyId, Summary, Verification, verdicts};
    use talaria_corpus::{CorpusProfile, Generate, certs};
    use talaria_trust::Rules;

    use super::*;
    use crate::trust::node::Node;
    use crate::{Access, Return, Store};

    const NOW: u32 = 1_740_000_000;

    /// All stored verdicts on certifications.
    fn stored(store: &Store) -> HashMap<[u8; 15], bool> {
        let mut all = Ledger::default();
        let ids: Vec<i64> = store
            .run(|connection| {
                connection
                    .prepare("SELECT cert FROM trust")?
                    .query_map([], |row| row.get(0))?
                    .collect()
            })
            .unwrap();
        let nodes = ids.into_iter().map(|id| store.run(|connection| Node::load(connection, id)));
        let entries: Vec<[u8; 16]> = nodes.flat_map(|node| node.unwrap().verdicts).collect();
        all.add_certifications(entries.clone());
        entries
            .iter()
            .map(|entry| entry.first_chunk().unwrap())
            .map(|name| (*name, all.certification(name).unwrap()))
            .collect()
    }

    #[test]
    fn all_signatures_that_a_change_needs_are_computed_before_the_store_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("store.db"), Access::Create).unwrap();
        let generate = Generate { seed: 1, first: 0, count: 400, profile: CorpusProfile::small() };
        let all = certs(&generate);
        let mut made: HashMap<KeyId, usize> = HashMap::new();
        for issuer in all.iter().flat_map(issuers) {
            *made.entry(issuer).or_default() += 1;
        }
        let count = |cert: &&Cert| made.get(&cert.fingerprint().key_id()).copied().unwrap_or(0);
        let (early, late) = all.split_at(200);
        // One owner is there when his trust is recorded, the other arrives later.
        let here = early.iter().max_by_key(count).unwrap();
        let coming = late.iter().max_by_key(count).unwrap();
        assert!(count(&here) > 0 && count(&coming) > 0);
        store.ingest(early.to_vec(), Verification::Full, NOW.into()).unwrap();
        let owner = Level::Ultimate as u8;
        // The first owner begins the web.
        let planned = Planned {
            owners: [(here.fingerprint().to_stored(), owner)].into(),
            ..Planned::default()
        };
        let ledger = store.web().rehearse(planned, NOW).unwrap();
        store.web_mut().set_ownertrust(&[(here.fingerprint(), owner)], NOW.into()).unwrap();
        assert!(!stored(&store).is_empty());
        check(&HashMap::new(), &stored(&store), &ledger);

        let before = stored(&store);
        let planned = Planned {
            owners: [(coming.fingerprint().to_stored(), owner)].into(),
            ..Planned::default()
        };
        let ledger = store.web().rehearse(planned, NOW).unwrap();
        store.web_mut().set_ownertrust(&[(coming.fingerprint(), owner)], NOW.into()).unwrap();
        check(&before, &stored(&store), &ledger);

        let before = stored(&store);
        let pairs: Vec<&Cert> = late.iter().collect();
        let summaries: Vec<Summary> = verdicts(&pairs, Verification::Full)
            .into_iter()
            .zip(late)
            .map(|(verdicts, cert)| Summary::evaluate(cert, &verdicts, NOW))
            .collect();
        let planned = late.iter().zip(&summaries).map(|(cert, summary)| (None, cert, summary));
        let ledger = store.rehearse(planned, &[], NOW, Ledger::default()).unwrap();
        store.ingest(late.to_vec(), Verification::Full, NOW.into()).unwrap();
        let after = stored(&store);
        assert!(after.len() > before.len() + 10, "{} and {}", before.len(), after.len());
        check(&before, &after, &ledger);

        let before = stored(&store);
        let id = store.row(here.fingerprint()).unwrap().unwrap().id;
        let ledger =
            store.rehearse(std::iter::empty(), &[id.get()], NOW, Ledger::default()).unwrap();
        store.delete(&[here.fingerprint()], Return::Allowed, NOW.into()).unwrap();
        check(&before, &stored(&store), &ledger);

        let mut rules = Rules::default();
        rules.marginals = 1;
        let planned = Planned { anew: Some(rules), ..Planned::default() };
        let ledger = store.web().rehearse(planned, NOW).unwrap();
        store.web_mut().set_rules(rules, NOW.into()).unwrap();
        check(&HashMap::new(), &stored(&store), &ledger);
    }

    /// Every verdict that a change added was in the ledger of its rehearsal.
    fn check(before: &HashMap<[u8; 15], bool>, after: &HashMap<[u8; 15], bool>, ledger: &Ledger) {
        for (name, good) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
            assert_eq!(ledger.certification(name), Some(*good));
        }
    }
}
