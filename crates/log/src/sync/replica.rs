//! A copy of the log as a session sees it.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use parking_lot::Mutex;

use super::limits::{LACKING_MAX, PIECE_BYTES, VALUES_MAX, WANT_MAX};
use crate::log::error::GenesisError;
use crate::log::lacking::Known;
use crate::log::memory::Log;
use crate::log::outcome::Outcome;
use crate::name::EntryId;
use crate::record::{BATCH_BYTES_MAX, Evidence, Signed};
use crate::refusal::Refusal;

/// A copy of the log that can be read and added to. A place is the number of an entry in the order
/// in which this copy has admitted them.
pub trait Replica {
    /// The reason why the copy cannot be read or written.
    type Error;

    /// The place behind the last entry that is on disk. Entries from there on must not leave.
    ///
    /// # Errors
    ///
    /// If the copy cannot be written.
    fn end(&mut self) -> Result<u64, Self::Error>;

    /// Whether an entry is here. An entry that waits for the clock is as good as here until then.
    fn knows(&mut self, id: &EntryId) -> Known;

    /// The heads among the entries from one place to before another ([`Log::heads_between`]).
    fn heads(&mut self, from: u64, end: u64) -> Vec<EntryId>;

    /// Entries along the chains of these heads, up to `shared` ([`Log::places_between`]); at most
    /// [`WANT_MAX`].
    fn places(&mut self, between: (u64, u64), shared: &HashSet<EntryId>) -> Vec<EntryId>;

    /// Removes identities that say nothing beside others ([`Log::keep_last`]).
    fn keep_last(&mut self, have: &mut HashSet<EntryId>);

    /// The places of the entries that are lacking beside `have` ([`Log::lacking`]); at most
    /// [`LACKING_MAX`].
    fn lacking(&mut self, have: &HashSet<EntryId>) -> Vec<u64>;

    /// The entries with a deletable value that is neither here nor deleted, ascending, behind one;
    /// at most [`VALUES_MAX`] ([`Log::lacking_values`]).
    fn lacking_values(&mut self, behind: Option<EntryId>) -> Vec<EntryId>;

    /// The places of those of some entries whose deletable value is here and not deleted
    /// ([`Log::places_of_values`]).
    fn places_of_values(&mut self, ids: &[EntryId]) -> Vec<u64>;

    /// The entries at the first of these places, at least one, with what proves them, as [`piece`]
    /// chooses them.
    ///
    /// # Errors
    ///
    /// If the copy cannot be read.
    fn read(&mut self, places: &[u64]) -> Result<Vec<Signed>, Self::Error>;

    /// Offers entries from a peer to the log, at `now_ms`, and returns when those that were
    /// admitted are on disk.
    ///
    /// # Errors
    ///
    /// If the copy cannot be written.
    fn take(&mut self, entries: Vec<Signed>, now_ms: u64) -> Result<Taken, Self::Error>;
}

/// What happened to offered entries.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Taken {
    /// Entries that are new here, those included that waited before.
    pub added: u64,
    /// Entries that were here.
    pub known: u64,
    /// Deletable values that came to entries that were here without them.
    pub values: u64,
    /// Entries that wait for others.
    pub waiting: u64,
    /// Entries that wait for the clock of this node.
    pub ahead: u64,
    /// Entries that were not kept, since too many wait.
    pub not_kept: u64,
    /// Offered entries that are not admissible.
    pub refused: Vec<(EntryId, Refusal)>,
}

impl Taken {
    /// The counts of the outcomes for offered entries, `added` apart.
    #[must_use]
    pub fn of(ids: &[EntryId], outcomes: Vec<Outcome>, added: u64) -> Self {
        let mut taken = Self { added, ..Self::default() };
        for (id, outcome) in ids.iter().zip(outcomes) {
            match outcome {
                Outcome::Added => {}
                Outcome::Known => taken.known += 1,
                Outcome::WaitsForPast => taken.waiting += 1,
                Outcome::WaitsForClock => taken.ahead += 1,
                Outcome::NotKept => taken.not_kept += 1,
                Outcome::Refused(refusal) => taken.refused.push((*id, refusal)),
            }
        }
        taken
    }
}

/// Reads the first of some places: at least one entry, and up to [`PIECE_BYTES`]. A batch of at
/// most 3 MiB that is lacking as a whole stays whole, so that one signature goes for all.
///
/// # Errors
///
/// Those of `read`.
pub fn piece<E>(
    places: &[u64],
    mut read: impl FnMut(u64) -> Result<Signed, E>,
) -> Result<Vec<Signed>, E> {
    let mut found: Vec<Signed> = Vec::new();
    let (mut bytes, mut of_batch) = (0, 0);
    // The place in `found` where a batch begins that may become whole.
    let mut begun: Option<usize> = None;
    for &place in places {
        let signed = read(place)?;
        let follows = begun.is_some_and(|at| is_next(&found[at..], &signed));
        if !follows {
            if let Some(at) = begun.take().filter(|&at| !is_whole(&found[at..])) {
                // It is not lacking as a whole, so each entry needs its audit path.
                bytes += proofs(&found[at..]);
            }
            if bytes >= PIECE_BYTES {
                break;
            }
            of_batch = 0;
            if let Evidence::InBatch(batch, _) = &signed.evidence
                && batch.statement.first == signed.entry.sequence
            {
                begun = Some(found.len());
            }
        }
        let length = signed.size() + 4;
        of_batch += length;
        if let Some(at) = begun.filter(|_| of_batch >= BATCH_BYTES_MAX) {
            // Too long for one record. A few of its entries are enough for this piece.
            found.truncate(at + PIECE_BYTES / PROOF_BYTES);
            break;
        }
        bytes += length;
        if begun.is_none() {
            bytes += proofs(std::slice::from_ref(&signed));
        }
        found.push(signed);
    }
    Ok(found)
}

/// The bytes of a statement, its signature and an audit path, about.
const PROOF_BYTES: usize = 1024;

fn proofs(entries: &[Signed]) -> usize {
    let of = |signed: &Signed| match &signed.evidence {
        Evidence::Alone(_) => 100,
        Evidence::InBatch(..) => PROOF_BYTES,
    };
    entries.iter().map(of).sum()
}

/// Whether an entry follows in the same batch.
fn is_next(run: &[Signed], next: &Signed) -> bool {
    let Some((first, last)) = run.first().zip(run.last()) else { return false };
    match (&first.evidence, &next.evidence) {
        (Evidence::InBatch(one, _), Evidence::InBatch(other, _)) => {
            (std::sync::Arc::ptr_eq(one, other) || one == other)
                && next.entry.sequence == last.entry.sequence + 1
        }
        _ => false,
    }
}

fn is_whole(run: &[Signed]) -> bool {
    match run.first().map(|first| &first.evidence) {
        Some(Evidence::InBatch(batch, _)) => run.len() == batch.statement.count as usize,
        _ => true,
    }
}

/// A copy of the log in memory, for programs without a disk and for simulations.
#[derive(Default)]
pub struct MemoryReplica {
    /// The log that a copy without entries waits for.
    wanted: EntryId,
    log: Option<Log>,
    entries: Vec<Signed>,
}

impl MemoryReplica {
    /// A copy that begins with a genesis entry.
    ///
    /// # Errors
    ///
    /// [`GenesisError`].
    pub fn new(genesis: &Signed) -> Result<Self, GenesisError> {
        let log = Log::begin(genesis)?;
        Ok(Self { wanted: log.id(), log: Some(log), entries: vec![genesis.clone()] })
    }

    /// A copy without entries of the log `log`.
    #[must_use]
    pub fn empty(log: EntryId) -> Self {
        Self { wanted: log, log: None, entries: Vec::new() }
    }

    /// The log, if its genesis has come.
    #[must_use]
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// The entries, in the order of their admission.
    #[must_use]
    pub fn entries(&self) -> &[Signed] {
        &self.entries
    }

    /// Changes the log. `change` gives the entries that it has admitted. `None` if there is no log
    /// yet.
    ///
    /// # Errors
    ///
    /// Those of `change`, after which the log must be as before.
    pub fn append<E>(
        &mut self,
        change: impl FnOnce(&mut Log) -> Result<Vec<Signed>, E>,
    ) -> Option<Result<(), E>> {
        let log = self.log.as_mut()?;
        Some(change(log).map(|entries| self.entries.extend(entries)))
    }
}

impl Replica for MemoryReplica {
    type Error = Infallible;

    fn end(&mut self) -> Result<u64, Infallible> {
        Ok(self.entries.len() as u64)
    }

    fn knows(&mut self, id: &EntryId) -> Known {
        self.log.as_ref().map_or(Known::Lacking, |log| log.knows(id))
    }

    fn heads(&mut self, from: u64, end: u64) -> Vec<EntryId> {
        self.log.as_ref().map_or_else(Vec::new, |log| log.heads_between(from, end))
    }

    fn places(&mut self, between: (u64, u64), shared: &HashSet<EntryId>) -> Vec<EntryId> {
        let log = self.log.as_ref();
        log.map_or_else(Vec::new, |log| log.places_between(between, shared, WANT_MAX))
    }

    fn keep_last(&mut self, have: &mut HashSet<EntryId>) {
        if let Some(log) = &self.log {
            log.keep_last(have);
        }
    }

    fn lacking(&mut self, have: &HashSet<EntryId>) -> Vec<u64> {
        self.log.as_ref().map_or_else(Vec::new, |log| log.lacking(have, LACKING_MAX))
    }

    fn lacking_values(&mut self, behind: Option<EntryId>) -> Vec<EntryId> {
        self.log.as_ref().map_or_else(Vec::new, |log| log.lacking_values(behind, VALUES_MAX))
    }

    fn places_of_values(&mut self, ids: &[EntryId]) -> Vec<u64> {
        self.log.as_ref().map_or_else(Vec::new, |log| log.places_of_values(ids))
    }

    fn read(&mut self, places: &[u64]) -> Result<Vec<Signed>, Infallible> {
        piece(places, |place| {
            let place = usize::try_from(place).expect("a place in memory");
            let mut signed = self.entries[place].clone();
            if let Some(log) = &self.log {
                log.withhold(&mut signed);
            }
            Ok(signed)
        })
    }

    fn take(&mut self, mut entries: Vec<Signed>, now_ms: u64) -> Result<Taken, Infallible> {
        let mut begun = 0;
        let log = if let Some(log) = &mut self.log {
            log
        } else {
            match begin(&entries, self.wanted) {
                Ok(log) => {
                    self.entries.push(entries.remove(0));
                    begun = 1;
                    self.log.insert(log)
                }
                Err(refused) => return Ok(Taken { refused: vec![refused], ..Taken::default() }),
            }
        };
        let ids: Vec<EntryId> = entries.iter().map(|signed| signed.id).collect();
        let offered = log.offer(entries, now_ms);
        let (added, values) = (offered.added.len() as u64, offered.revealed.len() as u64);
        self.entries.extend(offered.added);
        for (id, opening) in offered.revealed {
            let number = log.number(&id).and_then(|number| usize::try_from(number).ok());
            if let Some(signed) = number.and_then(|number| self.entries.get_mut(number)) {
                signed.opening = Some(opening);
            }
        }
        Ok(Taken { values, ..Taken::of(&ids, offered.outcomes, begun + added) })
    }
}

/// Begins the log `wanted` with the first of some entries from a peer.
///
/// # Errors
///
/// The entry with the reason why it is not the genesis of that log.
pub fn begin(entries: &[Signed], wanted: EntryId) -> Result<Log, (EntryId, Refusal)> {
    let Some(first) = entries.first() else { return Err((wanted, Refusal::Past)) };
    if first.id != wanted {
        let refusal = if first.log() == wanted { Refusal::Past } else { Refusal::OtherLog };
        return Err((first.id, refusal));
    }
    Log::begin(first).map_err(|error| {
        let refusal = match error {
            GenesisError::Refused(refusal) => refusal,
            GenesisError::Malformed(malformed) => malformed.into(),
            GenesisError::NotGenesis => Refusal::OtherLog,
        };
        (first.id, refusal)
    })
}

/// The heads that sessions of a node are fetching, so that it does not fetch the same from several
/// peers at once. Sessions on several threads share it, and wait for each other only for a look at
/// it.
#[derive(Debug, Default)]
pub struct Fetching(Mutex<HashMap<EntryId, Claim>>);

#[derive(Clone, Copy, Debug)]
struct Claim {
    session: u64,
    until_ms: u64,
}

/// Most heads that are being fetched at once. Others are fetched as if nobody else did.
const CLAIMS_MAX: usize = 65_536;

impl Fetching {
    /// Claims those of some heads that no other session is fetching, and returns them.
    pub(super) fn claim(
        &self,
        session: u64,
        heads: &[EntryId],
        until_ms: u64,
        now_ms: u64,
    ) -> Vec<EntryId> {
        let mut claims = self.0.lock();
        let is_free = |claim: &Claim| claim.session == session || claim.until_ms <= now_ms;
        let free = heads.iter().filter(|id| claims.get(id).is_none_or(is_free));
        let free: Vec<EntryId> = free.copied().collect();
        if claims.len() >= CLAIMS_MAX {
            claims.retain(|_, claim| claim.until_ms > now_ms);
        }
        let room = CLAIMS_MAX.saturating_sub(claims.len());
        claims.extend(free.iter().take(room).map(|id| (*id, Claim { session, until_ms })));
        free
    }

    /// The time from which a head may be fetched, if another session is doing it.
    pub(super) fn until(&self, id: &EntryId) -> Option<u64> {
        self.0.lock().get(id).map(|claim| claim.until_ms)
    }

    /// Renews the claims of a session.
    pub(super) fn renew(&self, session: u64, until_ms: u64) {
        let mut claims = self.0.lock();
        let theirs = claims.values_mut().filter(|claim| claim.session == session);
        theirs.for_each(|claim| claim.until_ms = until_ms);
    }

    /// Ends the claims of a session. A session does so itself when it ends.
    pub fn release(&self, session: u64) {
        self.0.lock().retain(|_, claim| claim.session != session);
    }
}
