//! A node: a log in memory and its segments on a disk.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use talaria_log::{
    Action, ChainName, DraftError, Edit, Entry as LogEntry, EntryId, Log, Opening, Outcome,
    Refusal, Signed, Update, read_record, to_records,
};

use super::disk::{Cut, Disk, Stopped};
use super::network::Packet;
use super::people::Person;

/// Most entries in one answer.
const ANSWER_MAX: usize = 24;
/// Most entries of one packet.
const PACKET_ENTRIES: usize = 6;

/// A node.
pub(super) struct Node {
    /// The number of its person.
    pub(super) person: usize,
    /// The instance of its chain.
    pub(super) instance: [u8; 16],
    /// The log in memory; `None` while the node is down.
    pub(super) log: Option<Log>,
    /// The entries on disk, which alone leave the node.
    pub(super) stored: Vec<Signed>,
    pub(super) disk: Disk,
    /// The deviation of its clock, in milliseconds.
    pub(super) skew_ms: i64,
    /// The time at which a node that is down starts again.
    pub(super) up_ms: u64,
}

/// The result of taking a packet.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) refused: Vec<(EntryId, Refusal)>,
    pub(super) unreadable: usize,
    pub(super) waiting: usize,
    /// Values that came to entries that were here.
    pub(super) values: usize,
}

impl Node {
    pub(super) fn now_ms(&self, world_ms: u64) -> u64 {
        world_ms.saturating_add_signed(self.skew_ms)
    }

    /// Starts with the entries on disk. Gives whether a crash had cut off a group.
    pub(super) fn start(&mut self) -> Result<bool, String> {
        let recovered = self.disk.recover()?;
        self.log = Some(restored(&recovered.entries)?);
        let mut places: HashMap<EntryId, usize> = HashMap::new();
        self.stored.clear();
        for signed in recovered.entries {
            match places.entry(signed.id) {
                Entry::Vacant(place) => {
                    place.insert(self.stored.len());
                    self.stored.push(signed);
                }
                // It stands there again, with the value that came later.
                Entry::Occupied(place) => self.stored[*place.get()] = signed,
            }
        }
        Ok(recovered.is_torn)
    }

    /// Brings values that came later to the disk, each with its entry.
    pub(super) fn commit_values(
        &mut self,
        revealed: Vec<(EntryId, Opening)>,
        cut: &mut Cut,
    ) -> Result<(), Stopped> {
        let mut again = Vec::new();
        for (id, opening) in revealed {
            let place = self.stored.iter().position(|signed| signed.id == id);
            let place = place.expect("an entry that is here");
            again.push((place, Signed { opening: Some(opening), ..self.stored[place].clone() }));
        }
        let entries: Vec<Signed> = again.iter().map(|(_, signed)| signed.clone()).collect();
        let result = self.disk.commit(&entries, cut);
        match result {
            Ok(()) => again.into_iter().for_each(|(place, signed)| self.stored[place] = signed),
            Err(_) => self.log = None,
        }
        result
    }

    /// An entry as it may leave the node: without a deleted value, and without any if the node
    /// withholds them.
    pub(super) fn leaving(&self, signed: &Signed, withholds: bool) -> Signed {
        let is_deleted = self.log.as_ref().is_some_and(|log| log.state().is_deleted(&signed.id));
        let opening = signed.opening.clone().filter(|_| !is_deleted && !withholds);
        Signed { opening, ..signed.clone() }
    }

    /// Brings entries to the disk. When it returns, they may leave.
    pub(super) fn commit(&mut self, entries: Vec<Signed>, cut: &mut Cut) -> Result<(), Stopped> {
        let result = self.disk.commit(&entries, cut);
        match result {
            Ok(()) => self.stored.extend(entries),
            // The log in memory is ahead of the disk: it is read again at the next start.
            Err(_) => self.log = None,
        }
        result
    }

    /// Makes entries of updates, as `LogFolder::put` does.
    ///
    /// # Errors
    ///
    /// If an update cannot be written. The log in memory is dropped if it is ahead of the disk
    /// then.
    pub(super) fn draft(
        &mut self,
        person: &mut Person,
        updates: &[Update],
        together: bool,
        world_ms: u64,
    ) -> Option<Vec<Signed>> {
        let now_ms = self.now_ms(world_ms);
        let mut maker = person.maker(self.instance);
        let log = self.log.as_mut()?;
        let before = log.len();
        let mut entries: Vec<LogEntry> = Vec::new();
        let mut openings: Vec<Option<Opening>> = Vec::new();
        let mut draft = || -> Option<()> {
            for update in updates {
                for data in log.operations(maker.chain.author, update).ok()? {
                    let entry = log.draft(maker.chain, Action::Data(data), now_ms).ok()?;
                    let id = log.append(entry.clone()).ok()?;
                    entries.push(entry);
                    openings.push(match &update.edit {
                        Edit::PutDeletable(_, opening) if log.reveal(&id, opening) => {
                            Some(opening.clone())
                        }
                        _ => None,
                    });
                }
            }
            Some(())
        };
        let result = draft();
        let id = log.id();
        if result.is_none() || entries.is_empty() {
            if log.len() != before {
                self.log = None;
            }
            return None;
        }
        let mut signed: Vec<Signed> = if together {
            maker.sign_batch(entries, id, now_ms).expect("the key signs")
        } else {
            let one = |entry| maker.sign(entry, id, now_ms).expect("the key signs");
            entries.into_iter().map(one).collect()
        };
        signed.iter_mut().zip(openings).for_each(|(signed, opening)| signed.opening = opening);
        Some(signed)
    }

    /// Makes an entry that states something about all that the node has: a checkpoint or a
    /// snapshot.
    pub(super) fn state(
        &mut self,
        person: &mut Person,
        draft: impl FnOnce(&Log, ChainName, u64) -> Result<LogEntry, DraftError>,
        world_ms: u64,
    ) -> Result<Signed, DraftError> {
        let now_ms = self.now_ms(world_ms);
        let log = self.log.as_mut().ok_or(DraftError::Clock)?;
        let mut maker = person.maker(self.instance);
        let entry = draft(log, maker.chain, now_ms)?;
        log.append(entry.clone())?;
        maker.sign(entry, log.id(), now_ms)
    }

    /// Makes one entry that is an operation on the log itself.
    pub(super) fn act(
        &mut self,
        person: &mut Person,
        action: Action,
        world_ms: u64,
    ) -> Result<Signed, DraftError> {
        let now_ms = self.now_ms(world_ms);
        let log = self.log.as_mut().ok_or(DraftError::Clock)?;
        person.maker(self.instance).make(log, action, now_ms)
    }

    /// Asks another node for the entries that this one does not have.
    pub(super) fn ask(&self) -> Packet {
        Packet::Have(self.stored.iter().map(|signed| signed.id).collect())
    }

    /// Answers with entries that the other node does not have.
    pub(super) fn answer(&self, have: &BTreeSet<EntryId>, withholds: bool) -> Vec<Packet> {
        let missing = self.stored.iter().filter(|signed| !have.contains(&signed.id));
        let missing = missing.take(ANSWER_MAX).map(|signed| self.leaving(signed, withholds));
        let missing: Vec<Signed> = missing.collect();
        missing.chunks(PACKET_ENTRIES).map(packet).collect()
    }

    /// Takes records, and brings the entries that are admitted to the disk.
    pub(super) fn take(
        &mut self,
        records: &[Vec<u8>],
        world_ms: u64,
        cut: &mut Cut,
    ) -> (Taken, Result<(), Stopped>) {
        let now_ms = self.now_ms(world_ms);
        let mut taken = Taken::default();
        let mut entries = Vec::new();
        for record in records {
            match read_record(record) {
                Ok(read) => entries.extend(read),
                Err(_) => taken.unreadable += 1,
            }
        }
        let ids: Vec<EntryId> = entries.iter().map(|signed| signed.id).collect();
        let Some(log) = &mut self.log else { return (taken, Ok(())) };
        let offered = log.offer(entries, now_ms);
        for (id, outcome) in ids.into_iter().zip(offered.outcomes) {
            match outcome {
                Outcome::Refused(refusal) => taken.refused.push((id, refusal)),
                Outcome::WaitsForClock | Outcome::WaitsForPast | Outcome::NotKept => {
                    taken.waiting += 1;
                }
                Outcome::Added | Outcome::Known => {}
            }
        }
        taken.refused.extend(offered.refused);
        taken.values = offered.revealed.len();
        let result = self.commit(offered.added, cut);
        let result = result.and_then(|()| self.commit_values(offered.revealed, cut));
        (taken, result)
    }
}

/// Records of some entries.
pub(super) fn packet(entries: &[Signed]) -> Packet {
    let mut records = Vec::new();
    to_records(entries, &mut records);
    Packet::Records(records)
}

/// The log of entries that were admitted before, in their order.
pub(super) fn restored(entries: &[Signed]) -> Result<Log, String> {
    let [genesis, rest @ ..] = entries else { return Err("genesis is not on the disk".into()) };
    let begun = Log::begin_own(genesis.entry.clone(), genesis.bytes.len());
    let mut log = begun.map_err(|error| format!("genesis: {error}"))?;
    for signed in rest {
        log.restore(signed).map_err(|refusal| {
            format!("the entry {} on the disk is refused after a restart: {refusal}", signed.id)
        })?;
    }
    log.settle();
    Ok(log)
}
