//! Leases: which runs are writing, and how long a prune waits for them.

use std::collections::{BTreeMap, BTreeSet};

use talaria_message::openpgp::Fingerprint;

use crate::config::{Role, fingerprint};
use crate::error::{BackupError, Result};
use crate::id::{RepositoryId, from_hex, to_hex};
use crate::repository::{Keys, Repository};
use crate::signed::Header;
use crate::text::Lines;

/// The folder of leases.
pub(crate) const LEASES: &str = "leases";

const DOMAIN: &str = "talaria backup lease";

/// Leases that a prune reads. It counts all further ones as those of runs that have ended, so that
/// a stolen client cannot occupy it.
const LEASES_MAX: usize = 10_000;

/// A sign of life of a run.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Beat {
    /// 0 for the lease itself.
    Number(u64),
    /// The run has ended.
    End,
}

/// The run of a client.
pub(crate) type RunOf = (Option<Fingerprint>, [u8; 16]);

/// The text of a lease.
pub(crate) fn text(repository: RepositoryId, header: Header, run: &RunOf, beat: Beat) -> String {
    let client = run.0.as_ref().map_or("none".into(), Fingerprint::to_hex);
    let beat = match beat {
        Beat::Number(number) => number.to_string(),
        Beat::End => "end".into(),
    };
    let start = header.text(DOMAIN, repository);
    format!("{start}client {client}\nrun {}\nbeat {beat}\n", to_hex(&run.1))
}

fn parse(name: &str, bytes: &[u8], repository: RepositoryId) -> Result<(RunOf, Beat)> {
    let id = repository.to_string();
    let mut lines = Lines::open(name, bytes, DOMAIN, Some(&id))?;
    let header = Header::read(&mut lines)?;
    let client = match lines.one("client")? {
        "none" => None,
        client => {
            Some(fingerprint(client).ok_or_else(|| lines.damaged("its client is no fingerprint"))?)
        }
    };
    let run = from_hex(lines.one("run")?).ok_or_else(|| lines.damaged("its run is invalid"))?;
    let beat = match lines.one("beat")? {
        "end" => Beat::End,
        number => Beat::Number(number.parse().map_err(|_| lines.damaged("its beat is invalid"))?),
    };
    lines.end()?;
    let run = (client, run);
    if text(repository, header, &run, beat).as_bytes() != bytes {
        return Err(BackupError::damaged(name, "its lines are not in the form of the format"));
    }
    Ok((run, beat))
}

/// Reads the lease with this text, for tests with any bytes.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) with the reason; [`Newer`](BackupError::Newer).
pub fn check_lease(name: &str, bytes: &[u8], repository: RepositoryId) -> Result<()> {
    parse(name, bytes, repository).map(|_| ())
}

/// The time that a prune waits for runs. Nothing but time and traffic depends on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// Seconds without a sign of life.
    pub idle: u64,
    /// Seconds for a run that lives.
    pub total: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { idle: 900, total: 86_400 }
    }
}

/// The leases in a storage.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Leases {
    /// The newest beat of each run, and whether the run has its lease.
    pub(crate) runs: BTreeMap<RunOf, Beat>,
    /// The objects of each run.
    pub(crate) objects: BTreeMap<RunOf, Vec<String>>,
    /// Objects that are too many to be read.
    pub(crate) surplus: Vec<String>,
}

impl Repository {
    /// The leases that count.
    pub(crate) fn leases(&self, keys: &Keys, now: u32) -> Result<Leases> {
        let mut leases = Leases::default();
        let mut objects = self.backend().list(LEASES)?;
        if objects.len() > LEASES_MAX {
            // In an order that nobody can steer: the names are keyed hashes.
            objects.sort_by(|a, b| a.name.cmp(&b.name));
            leases.surplus.extend(objects.drain(LEASES_MAX..).map(|object| object.name));
        }
        self.read_objects(keys, LEASES, objects, now, &mut |signed| {
            let (run, beat) = parse(&signed.name, signed.text(), self.id())?;
            let is_client = |signer: &Fingerprint| {
                run.0.as_ref() == Some(signer) && self.config().has_role(signer, Role::Create)
            };
            let counts = match &run.0 {
                None => !self.config().signed,
                Some(_) => signed.signer(is_client).is_some(),
            };
            if counts {
                let newest = leases.runs.entry(run.clone()).or_insert(beat);
                *newest = beat.max(*newest);
                leases.objects.entry(run).or_default().push(signed.name.clone());
            }
            Ok(())
        })?;
        Ok(leases)
    }
}

/// The runs that a prune waits for: those that had a lease when it had written its plan.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The newest beat of each run, and when the prune saw it first.
    runs: BTreeMap<RunOf, (Beat, u64)>,
    began: u64,
    patience: Patience,
}

impl Waiting {
    /// Begins to wait at `now`, in seconds of any clock that only this prune reads.
    pub(crate) fn new(runs: &BTreeMap<RunOf, Beat>, patience: Patience, now: u64) -> Self {
        let runs = runs.iter().map(|(run, beat)| (run.clone(), (*beat, now)));
        Self { runs: runs.collect(), began: now, patience }
    }

    /// Takes a later list of leases. Returns the runs that are no longer waited for, though they
    /// have leases.
    pub(crate) fn observe(&mut self, runs: &BTreeMap<RunOf, Beat>, now: u64) -> BTreeSet<RunOf> {
        let Self { began, patience, .. } = *self;
        let mut over = BTreeSet::new();
        self.runs.retain(|run, (beat, since)| {
            let Some(newest) = runs.get(run) else { return false };
            // An old beat that somebody puts back is no sign of life.
            if newest > beat {
                (*beat, *since) = (*newest, now);
            }
            let is_over = *beat == Beat::End
                || now.saturating_sub(*since) >= patience.idle
                || now.saturating_sub(began) >= patience.total;
            if is_over {
                over.insert(run.clone());
            }
            !is_over
        });
        over
    }

    /// The runs that are still waited for.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPOSITORY: RepositoryId = RepositoryId([2; 16]);

    fn run(byte: u8) -> RunOf {
        (Some(Fingerprint::from_bytes(4, &[byte; 20]).unwrap()), [byte; 16])
    }

    fn runs(beats: &[(u8, u64)]) -> BTreeMap<RunOf, Beat> {
        beats.iter().map(|(byte, beat)| (run(*byte), Beat::Number(*beat))).collect()
    }

    #[test]
    fn a_prune_waits_for_the_runs_that_it_saw_first_and_not_for_ever() {
        let patience = Patience { idle: 100, total: 1000 };
        let mut waiting = Waiting::new(&runs(&[(1, 0), (2, 5), (3, 0)]), patience, 50);
        assert!(waiting.observe(&runs(&[(1, 0), (2, 5), (3, 0), (4, 0)]), 149).is_empty());
        // 1 shows a sign of life; 2 shows an old one; 3 has ended; 4 is new.
        let over = waiting.observe(&runs(&[(1, 1), (2, 4), (4, 0)]), 150);
        assert_eq!((over, waiting.len()), ([run(2)].into(), 1));
        let mut now = 150;
        while waiting.len() > 0 {
            now += 90;
            waiting.observe(&runs(&[(1, now), (4, now)]), now);
        }
        assert!((1050..1140).contains(&now), "{now}");
    }

    #[test]
    fn a_prune_does_not_wait_for_a_finished_run() {
        let mut waiting = Waiting::new(&runs(&[(1, 0)]), Patience::default(), 0);
        assert_eq!(waiting.observe(&[(run(1), Beat::End)].into(), 0), [run(1)].into());
        // A clock that goes back changes nothing.
        let mut waiting = Waiting::new(&runs(&[(1, 0)]), Patience::default(), 1000);
        assert!(waiting.observe(&runs(&[(1, 0)]), 0).is_empty());
    }

    proptest! {
        #[test]
        fn a_lease_comes_back_and_has_one_text(client: Option<[u8; 20]>, id: [u8; 16], number: Option<u64>, at in any::<proptest::sample::Index>(), byte: u8) {
            let client = client.map(|bytes| Fingerprint::from_bytes(4, &bytes).unwrap());
            let (run, beat) = ((client, id), number.map_or(Beat::End, Beat::Number));
            let header = Header { nonce: [5; 16], time: 1_795_381_506 };
            let written = text(REPOSITORY, header, &run, beat);
            prop_assert_eq!(parse("l", written.as_bytes(), REPOSITORY).unwrap(), (run, beat));
            prop_assert!(check_lease("l", written.as_bytes(), RepositoryId([3; 16])).is_err());
            let mut changed = written.into_bytes();
            let at = at.index(changed.len());
            changed[at] = byte;
            if let Ok((run, beat)) = parse("l", &changed, REPOSITORY) {
                let body = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap().lines().skip(4).collect::<Vec<_>>().join("\n");
                let again = text(REPOSITORY, header, &run, beat);
                prop_assert_eq!(body(again.as_bytes()), body(&changed));
            }
        }
    }
}
