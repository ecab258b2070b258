//! The chains of snapshots, and the snapshots that are missing in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use talaria_message::openpgp::Fingerprint;

use crate::forgotten::Forgotten;
use crate::id::Id;
use crate::listed::Listed;
use crate::snapshot::{Head, Heads};

/// Who says that a snapshot was there.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Evidence {
    /// This machine has seen it, or there are no signatures that could say whose word it is.
    Seen,
    /// A later snapshot of the same client names it.
    Chain,
    /// Only this other client names it, and may be wrong or a thief.
    Claim(Fingerprint),
}

/// A fault in the chain of a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Irregularity {
    /// A snapshot that is known to have existed is not there.
    Missing {
        /// The client.
        client: Option<Fingerprint>,
        /// The number of the snapshot.
        number: u64,
        /// Its identifier.
        id: Id,
        /// Who says that it was there.
        evidence: Evidence,
    },
    /// A client has two snapshots with one number: its state was rolled back, or its key is in two
    /// places.
    Branched {
        /// The client.
        client: Option<Fingerprint>,
        /// The number.
        number: u64,
    },
}

impl fmt::Display for Irregularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |client: &Option<Fingerprint>| match client {
            Some(client) => format!("client {}", client.to_hex()),
            None => "the unsigned chain".to_owned(),
        };
        match self {
            Self::Missing { client, number, id, evidence } => {
                write!(f, "snapshot {number} ({id}) of {} is missing", name(client))?;
                match evidence {
                    Evidence::Seen | Evidence::Chain => Ok(()),
                    Evidence::Claim(by) => write!(f, ", as only client {} says", by.to_hex()),
                }
            }
            Self::Branched { client, number } => {
                write!(f, "{} has two snapshots with the number {number}", name(client))
            }
        }
    }
}

/// The newest snapshot of each client among those that count.
#[must_use]
pub fn heads(snapshots: &[Listed]) -> Heads {
    let mut heads = Heads::new();
    for Listed { id, snapshot, standing, .. } in snapshots {
        if !standing.counts() {
            continue;
        }
        let head = Head { number: snapshot.number, id: *id };
        let newest = heads.entry(snapshot.client.clone()).or_insert(head);
        if newest.number < head.number {
            *newest = head;
        }
    }
    heads
}

/// The faults in the chains of all snapshots that count and were not forgotten, given the heads
/// that the caller has seen before. Snapshots name the snapshot before them and the heads of other
/// clients, so only a tail that nobody here has seen can be missing without a trace.
///
/// No word hides another: each identifier that somebody names for a place must be there or
/// forgotten. Of what another client says of a client, only the newest is told.
#[must_use]
pub fn irregularities(
    snapshots: &[Listed],
    forgotten: &Forgotten,
    seen: &Heads,
) -> Vec<Irregularity> {
    let mut by_place: BTreeMap<(Option<Fingerprint>, u64), Vec<Id>> = BTreeMap::new();
    let mut named: BTreeMap<(Option<Fingerprint>, u64, Id), Evidence> = BTreeMap::new();
    let mut claimed: BTreeMap<(Fingerprint, Fingerprint), Head> = BTreeMap::new();
    for (client, head) in seen {
        named.insert((client.clone(), head.number, head.id), Evidence::Seen);
    }
    // A snapshot that no longer counts is not missing.
    let there: BTreeSet<Id> = snapshots.iter().map(|listed| listed.id).collect();
    let is_explained = |id: &Id| there.contains(id) || forgotten.contains(id);
    for Listed { id, snapshot, standing, .. } in snapshots {
        if !standing.counts() {
            continue;
        }
        let client = &snapshot.client;
        by_place.entry((client.clone(), snapshot.number)).or_default().push(*id);
        if let Some(previous) = snapshot.previous {
            let evidence = if client.is_some() { Evidence::Chain } else { Evidence::Seen };
            let place = (client.clone(), snapshot.number.saturating_sub(1), previous);
            named.entry(place).or_insert(evidence);
        }
        for (other, head) in snapshot.heads.iter().filter(|(_, head)| !is_explained(&head.id)) {
            match client {
                Some(client) if client != other => {
                    let newest = claimed.entry((client.clone(), other.clone())).or_insert(*head);
                    if newest.number < head.number {
                        *newest = *head;
                    }
                }
                // Without signatures, all words are equal.
                None => {
                    named.insert((Some(other.clone()), head.number, head.id), Evidence::Seen);
                }
                Some(_) => {
                    let place = (Some(other.clone()), head.number, head.id);
                    named.entry(place).or_insert(Evidence::Chain);
                }
            }
        }
    }
    let mut found = Vec::new();
    let known: BTreeSet<Id> = named.keys().map(|(.., id)| *id).collect();
    for ((client, number, id), evidence) in named {
        if !is_explained(&id) {
            found.push(Irregularity::Missing { client, number, id, evidence });
        }
    }
    for ((by, client), Head { number, id }) in claimed {
        if !known.contains(&id) {
            let (client, evidence) = (Some(client), Evidence::Claim(by));
            found.push(Irregularity::Missing { client, number, id, evidence });
        }
    }
    let branched = by_place.into_iter().filter(|(_, ids)| ids.len() > 1);
    found.extend(branched.map(|((client, number), _)| Irregularity::Branched { client, number }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DocumentStanding;
    use crate::forgotten::SnapshotName;
    use crate::testing::{self, key};

    fn listed(client: u8, number: u64, id: u8, previous: Option<u8>) -> Listed {
        let mut listed = testing::listed(client, number, Id([id; 32]));
        listed.snapshot.previous = previous.map(|byte| Id([byte; 32]));
        listed
    }

    #[test]
    fn a_missing_snapshot_is_named_by_the_one_after_it() {
        let chain =
            [listed(1, 1, 11, None), listed(1, 2, 12, Some(11)), listed(1, 3, 13, Some(12))];
        assert!(irregularities(&chain, &Forgotten::default(), &Heads::new()).is_empty());
        let gap = irregularities(
            &[chain[0].clone(), chain[2].clone()],
            &Forgotten::default(),
            &Heads::new(),
        );
        let missing = Irregularity::Missing {
            client: Some(key(1)),
            number: 2,
            id: Id([12; 32]),
            evidence: Evidence::Chain,
        };
        assert_eq!(gap, [missing]);
        // A tombstone explains it.
        let gap = [chain[0].clone(), chain[2].clone()];
        let forgotten = Forgotten::of([SnapshotName::of(&chain[1])]);
        assert!(irregularities(&gap, &forgotten, &Heads::new()).is_empty());
    }

    #[test]
    fn a_dropped_tail_is_seen_by_whoever_knows_a_head() {
        let chain = [listed(1, 1, 11, None), listed(1, 2, 12, Some(11))];
        let seen = heads(&chain);
        assert_eq!(irregularities(&chain[..1], &Forgotten::default(), &Heads::new()), []);
        assert_eq!(irregularities(&chain[..1], &Forgotten::default(), &seen).len(), 1);
        // Another client wrote down what it saw.
        let mut other = listed(2, 1, 21, None);
        other.snapshot.heads.insert(key(1), Head { number: 2, id: Id([12; 32]) });
        assert_eq!(
            irregularities(&[chain[0].clone(), other], &Forgotten::default(), &Heads::new()).len(),
            1
        );
    }

    #[test]
    fn no_word_of_another_client_hides_what_is_missing() {
        let chain =
            [listed(1, 1, 11, None), listed(1, 2, 12, Some(11)), listed(1, 3, 13, Some(12))];
        let missing = |number: u64, id: u8, evidence| Irregularity::Missing {
            client: Some(key(1)),
            number,
            id: Id([id; 32]),
            evidence,
        };
        let thief = |number: u64, heads: &[(u64, u8)]| {
            let mut thief = listed(2, 1, 20 + u8::try_from(number).unwrap(), None);
            thief.snapshot.number = number;
            for (number, id) in heads {
                let head = Head { number: *number, id: Id([*id; 32]) };
                thief.snapshot.heads.insert(key(1), head);
            }
            thief
        };
        let none = Forgotten::default();
        // The last one is gone, which this machine has seen. Somebody says that the place has
        // another snapshot, which is there.
        let found = [chain[0].clone(), chain[1].clone(), thief(1, &[(3, 11)])];
        assert_eq!(irregularities(&found, &none, &heads(&chain)), [missing(3, 13, Evidence::Seen)]);
        // The same for a gap that the client itself shows.
        let found = [chain[0].clone(), chain[2].clone(), thief(1, &[(2, 11)])];
        assert_eq!(irregularities(&found, &none, &Heads::new()), [missing(2, 12, Evidence::Chain)]);
        // What only others say is told with who says it, once for each of them.
        let mut second = thief(2, &[(998, 98)]);
        second.snapshot.previous = Some(Id([21; 32]));
        let found = [&chain[..], &[thief(1, &[(999, 99)]), second]].concat();
        let claim = missing(999, 99, Evidence::Claim(key(2)));
        assert_eq!(irregularities(&found, &none, &Heads::new()), [claim]);
    }

    #[test]
    fn two_snapshots_with_one_number_are_named() {
        let branched = [listed(1, 1, 11, None), listed(1, 1, 12, None)];
        let found = irregularities(&branched, &Forgotten::default(), &Heads::new());
        assert_eq!(found, [Irregularity::Branched { client: Some(key(1)), number: 1 }]);
        // A snapshot that the client has not signed must not discredit it.
        let mut foreign = branched.clone();
        foreign[1].standing = DocumentStanding::Foreign("no signature".into());
        assert!(irregularities(&foreign, &Forgotten::default(), &Heads::new()).is_empty());
    }
}
