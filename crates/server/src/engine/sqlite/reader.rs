//! Connections to the store for reading: as many as there are threads that read at once.

use std::collections::HashMap;
use std::ops::{ControlFlow, Deref};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use talaria_cert::merge::Stored;
use talaria_cert::{
    Address, Fingerprint, KeyId, Peer, Query, Rules, Summary, Verdict, Verification, View, complete,
};
use talaria_store::{
    Access, ChangeNumber, Comparisons, Cursor, OpenFiles, Order, Return, Snapshot, Store,
    StoreError, TextIndex, Unobtainable,
};

use super::certified::Certified;
use super::frequencies::Frequencies;
use super::{convert, opaque};
use crate::clock;
use crate::engine::command::KeptOut;
use crate::engine::facts::{Changed, Days, Facts, GivenUp, InVain};
use crate::engine::order::{Arrival, Intake, Preparation};
use crate::engine::row::{
    Bounds, Counting, Digested, Judging, Last, Page, Place, Position, Row, Sole,
};

/// Certificates that are counted in one turn: some 50 ms.
const PIECE: u64 = 10_000;

/// Page cache of one connection: 4 MiB. The system caches the file for all of them.
const CACHE_BYTES: u64 = 4 << 20;

/// Connections that are not in use, at most; more are closed.
const IDLE_MAX: usize = 32;

/// The time for which a snapshot serves later readings as well, if this process has not written for
/// as long before it began, and does not write meanwhile. What other processes write is seen that
/// much later.
const KEPT: Duration = Duration::from_millis(2);

/// Hands out connections for reading.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    /// The files of the store that the server has opened.
    files: Arc<Mutex<Option<OpenFiles>>>,
    /// The log has a warning that the store has a second name.
    has_warned: Arc<AtomicBool>,
    idle: Arc<Idle>,
    certified: Arc<Certified>,
    frequencies: Arc<Frequencies>,
    /// The certificates whose rows a connection has compared.
    compared: Comparisons,
    /// Readings so far.
    readings: Arc<AtomicU64>,
}

/// Connections that are not in use.
#[derive(Debug)]
struct Idle {
    connections: Mutex<Vec<Connection>>,
    start: Instant,
    /// The time of the last write of this process, in nanoseconds since `start`.
    written: AtomicU64,
}

#[derive(Debug)]
enum Connection {
    /// Its snapshot has ended.
    Free(Store),
    /// A reading may go on with its snapshot as long as that is current.
    Kept(Kept),
}

impl Connection {
    /// The connection after its snapshot. One that cannot let go is closed.
    fn freed(self) -> Option<Store> {
        match self {
            Self::Free(store) => Some(store),
            Self::Kept(kept) => kept.snapshot.end().ok(),
        }
    }
}

/// A snapshot, and the time when it began.
#[derive(Debug)]
struct Kept {
    snapshot: Snapshot<Store>,
    began: Instant,
}

impl Kept {
    fn begin(store: Store) -> Result<Self, StoreError> {
        // First: what is written in between ends it early.
        let began = Instant::now();
        Ok(Self { snapshot: store.into_snapshot()?, began })
    }

    /// Whether a reading may go on with it.
    fn is_current(&self, idle: &Idle) -> bool {
        self.began >= idle.last_write() + KEPT && self.began.elapsed() < KEPT
    }
}

impl Idle {
    fn connections(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.connections.lock()
    }

    fn last_write(&self) -> Instant {
        self.start + Duration::from_nanos(self.written.load(Ordering::Acquire))
    }

    fn put(&self, connection: Connection) {
        let mut connections = self.connections();
        if connections.len() < IDLE_MAX {
            connections.push(connection);
        }
    }
}

impl Readers {
    pub(crate) fn new(path: &Path, files: Option<OpenFiles>) -> Self {
        Self {
            path: path.to_owned(),
            files: Arc::new(Mutex::new(files)),
            has_warned: Arc::default(),
            idle: Arc::new(Idle {
                connections: Mutex::default(),
                start: Instant::now(),
                written: AtomicU64::new(0),
            }),
            certified: Arc::default(),
            frequencies: Arc::default(),
            compared: Comparisons::default(),
            readings: Arc::default(),
        }
    }

    /// The verdicts that reading has found.
    pub(crate) fn certified(&self) -> &Certified {
        &self.certified
    }

    /// Checks that the store has not been moved or replaced. Warns if it has got a second name, as
    /// a backup by hard links makes one: the server goes on, and no other program can use that name
    /// to write.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let files = self.files.lock();
        let Some(files) = files.as_ref() else { return Ok(()) };
        files.check()?;
        let name = files.second_name();
        if let Some(name) = name
            && !self.has_warned.load(Ordering::Relaxed)
        {
            let path = self.path.display();
            tracing::warn!(
                "{path} {name}: nothing can open it to write until it has one name again"
            );
        }
        self.has_warned.store(name.is_some(), Ordering::Relaxed);
        Ok(())
    }

    /// Tells readers that this process has written to the store.
    pub(crate) fn have_to_look(&self) {
        let nanoseconds = self.idle.start.elapsed().as_nanos();
        self.idle.written.store(u64::try_from(nanoseconds).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Ends the snapshots that are not in use, and each other one with its reading, so that the
    /// write-ahead log can be emptied.
    pub(crate) fn let_go(&self) {
        self.have_to_look();
        // Whoever needs one meanwhile waits, since a new one would take longer.
        let mut connections = self.idle.connections();
        let all = std::mem::take(&mut *connections);
        connections.extend(all.into_iter().filter_map(Connection::freed).map(Connection::Free));
    }

    fn open(&self) -> Result<Store, StoreError> {
        let mut store = Store::open(&self.path, Access::Read)?;
        store.share_comparisons(&self.compared);
        // The system caches the pages of the file. Mapped pages would count as this process's
        // memory.
        store.set_memory(CACHE_BYTES, 0)?;
        Ok(store)
    }

    /// A connection that sees the store as it is at this moment, and goes back when it is dropped.
    pub(crate) fn get(&self) -> Result<Reader, StoreError> {
        let idle = self.idle.connections().pop();
        let kept = match idle {
            Some(Connection::Kept(kept)) if kept.is_current(&self.idle) => kept,
            other => match other.and_then(Connection::freed) {
                Some(store) => Kept::begin(store)?,
                None => Kept::begin(self.open()?)?,
            },
        };
        Ok(Reader {
            kept: Some(kept),
            idle: Arc::clone(&self.idle),
            certified: Arc::clone(&self.certified),
            frequencies: Arc::clone(&self.frequencies),
            number: self.readings.fetch_add(1, Ordering::Relaxed),
        })
    }
}

/// A store for reading.
#[derive(Debug)]
pub(crate) struct Reader {
    kept: Option<Kept>,
    idle: Arc<Idle>,
    certified: Arc<Certified>,
    frequencies: Arc<Frequencies>,
    /// No other reading has it.
    number: u64,
}

impl Reader {
    fn store(&self) -> &Store {
        &self.kept.as_ref().expect("there until it is dropped").snapshot
    }

    /// A row of the store as it holds now.
    fn current(&self, row: talaria_store::Row) -> Result<Row, StoreError> {
        let talaria_store::Row { id, change, summary } =
            self.store().current(row, Rules::Standard, clock::now().into())?;
        let is_judged = self.certified.knows((id, change));
        let place = opaque::Place { id, change, reading: self.number, is_judged };
        Ok(Row { summary, place: Place::Sqlite(place) })
    }

    fn page(&self, found: talaria_store::Selection) -> Result<Page, StoreError> {
        let mut rows = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            rows.push(self.current(row)?);
        }
        Ok(Page { rows, more: found.more })
    }

    /// Whether certificates that match are found without looking at every one.
    fn can_find(&self, query: &Query) -> Result<bool, StoreError> {
        match query {
            Query::Substring(_) | Query::EmailPart(_) | Query::EmailEnd(_) | Query::Identity(_) => {
                self.store().has_index(TextIndex::Trigrams)
            }
            _ => Ok(true),
        }
    }

    pub(crate) fn find(&self, query: &Query, bounds: Bounds) -> Result<Page, StoreError> {
        if !self.can_find(query)? {
            return Ok(Page::default());
        }
        let found = self.store().owners(query, bounds.results, bounds.looks)?;
        self.frequencies.learn(self.store(), query)?;
        self.page(found)
    }

    pub(crate) fn few(
        &self,
        query: &Query,
        count: usize,
        bytes_max: u32,
    ) -> Result<Option<Vec<Row>>, StoreError> {
        if !self.frequencies.are_low(query) {
            return Ok(None);
        }
        let Some(found) = self.store().few(query, count, bytes_max)? else { return Ok(None) };
        // A summary that no longer holds is made from the certificate, which may be large.
        let now = clock::now();
        if !found.iter().all(|row| row.summary.holds.contains(now)) {
            return Ok(None);
        }
        found.into_iter().map(|row| self.current(row)).collect::<Result<_, _>>().map(Some)
    }

    pub(crate) fn sole(
        &self,
        query: &Query,
        judging: Judging,
        bytes_max: u32,
    ) -> Result<Option<Sole>, StoreError> {
        let Some(sole) = self.store().sole(query, bytes_max)? else { return Ok(None) };
        let talaria_store::Sole { id, mut stored, digest } = sole;
        if judging == Judging::Stored {
            return Ok(Some(Sole { stored, digest }));
        }
        if stored.verdicts.contains(&Verdict::Unchecked) {
            return Ok(None);
        }
        let judges_others = matches!(judging, Judging::All { .. });
        if judges_others && stored.verdicts.iter().any(|verdict| verdict.is_by_others()) {
            let known = digest.and_then(|digest| self.certified.known_by_digest(id, digest));
            let Some(known) = known else { return Ok(None) };
            stored.verdicts = known.to_vec();
        }
        Ok(Some(Sole { stored, digest }))
    }

    pub(crate) fn rows(&self, fingerprints: &[Fingerprint]) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::with_capacity(fingerprints.len());
        for &fingerprint in fingerprints {
            rows.extend(self.store().row(fingerprint)?.map(|row| self.current(row)).transpose()?);
        }
        Ok(rows)
    }

    pub(crate) fn stored(&self, row: &Row, judging: Judging) -> Result<Option<Stored>, StoreError> {
        let place = place(row);
        let Some(mut stored) = self.store().stored(place.id)? else { return Ok(None) };
        if judging == Judging::Stored {
            return Ok(Some(stored));
        }
        if stored.verdicts.contains(&Verdict::Unchecked) {
            stored.verdicts = complete(&stored.cert, stored.verdicts, Verification::Full);
        }
        // What nobody can read is not worth the time.
        let has_others = stored.verdicts.iter().any(|verdict| verdict.is_by_others());
        if let Judging::All { unranked } = judging
            && has_others
            && stored.cert.has_readable_key()
        {
            let Some(change) = self.change(place)? else { return Ok(None) };
            let named = (place.id, change);
            let Stored { cert, verdicts } = &stored;
            let verdicts =
                self.certified.verdicts(self.store(), named, cert, verdicts, unranked)?;
            stored.verdicts = verdicts.to_vec();
        }
        Ok(Some(stored))
    }

    /// The last change of a certificate in this state of the store.
    fn change(&self, place: &opaque::Place) -> Result<Option<ChangeNumber>, StoreError> {
        if place.reading == self.number {
            return Ok(Some(place.change));
        }
        self.store().last_change(place.id)
    }

    pub(crate) fn lengths(&self, rows: &[Row]) -> Result<Vec<u64>, StoreError> {
        rows.iter().map(|row| self.store().cert_length(place(row).id)).collect()
    }

    pub(crate) fn by_digests(&self, digests: &[[u8; 16]]) -> Result<Vec<Digested>, StoreError> {
        let mut found = Vec::with_capacity(digests.len());
        for &digest in digests {
            let Some((view, id)) = self.store().digests().find(digest)? else { continue };
            let Some(fingerprint) = self.store().fingerprint(id)? else { continue };
            found.push(Digested { view, fingerprint, length: self.store().cert_length(id)? });
        }
        Ok(found)
    }

    pub(crate) fn signers(&self, ids: &[KeyId]) -> Result<HashMap<KeyId, Summary>, StoreError> {
        let mut signers = HashMap::with_capacity(ids.len());
        for &id in ids {
            if let Some(summary) = self.store().holder(id)? {
                signers.insert(id, summary);
            }
        }
        Ok(signers)
    }

    pub(crate) fn confirmed(&self, email: &Address) -> Result<Option<Row>, StoreError> {
        self.store().keyserver().confirmed(email)?.map(|row| self.current(row)).transpose()
    }

    pub(crate) fn facts(&self, fingerprints: &[Fingerprint]) -> Result<Vec<Facts>, StoreError> {
        let facts = |&fingerprint| {
            let published = self.store().keyserver().published(fingerprint)?;
            let is_redacted = self.store().operator().is_redacted(fingerprint)?;
            Ok::<_, StoreError>(Facts { published, is_redacted })
        };
        fingerprints.iter().map(facts).collect()
    }

    pub(crate) fn generation(
        &self,
        fingerprint: Fingerprint,
        email: &Address,
    ) -> Result<u32, StoreError> {
        self.store().keyserver().link_generation(fingerprint, email)
    }

    pub(crate) fn days(&self, since: u32) -> Result<Days, StoreError> {
        let store = self.store();
        Ok(Days { changes: store.log().by_day(since)?, tally: store.keyserver().tally(since)? })
    }

    pub(crate) fn last_change(&self) -> Result<u64, StoreError> {
        Ok(self.store().log().last()?.get().unsigned_abs())
    }

    pub(crate) fn in_vain_count(&self) -> Result<u64, StoreError> {
        self.store().keyserver().unobtainable_count()
    }

    pub(crate) fn changed_on(&self, day: u32) -> Result<Vec<[u8; 4]>, StoreError> {
        self.store().log().prefixes_changed_on(day)
    }

    pub(crate) fn changed(
        &self,
        after: Position,
        max: usize,
    ) -> Result<Option<Changed>, StoreError> {
        let Position::Sqlite(position) = after;
        let store = self.store();
        let (mut changed, mut end) = (Vec::new(), position.0);
        store.log().for_each(position.0, |number, _, id, _| {
            end = number;
            if changed.len() <= max {
                changed.push(id);
            }
        })?;
        if changed.len() > max {
            return Ok(None);
        }
        changed.sort_unstable();
        changed.dedup();
        let mut fingerprints = Vec::with_capacity(changed.len());
        for id in changed {
            fingerprints.extend(store.fingerprint(id)?);
        }
        Ok(Some(Changed { fingerprints, end: convert::position(end) }))
    }

    pub(crate) fn given_up(&self) -> Result<Vec<GivenUp>, StoreError> {
        let mut all = Vec::new();
        self.store().keyserver().for_each_given_up(|given_up| -> Result<(), StoreError> {
            let talaria_store::GivenUp { peer, view, digest, attempts } = given_up;
            let (tries, time) = (attempts.tries, attempts.time.seconds());
            all.push(GivenUp { peer, view, digest, tries, time });
            Ok(())
        })?;
        Ok(all)
    }

    pub(crate) fn scan(
        &self,
        query: &Query,
        mut visit: impl FnMut(&Summary) -> ControlFlow<()>,
    ) -> Result<Option<Position>, StoreError> {
        if !self.can_find(query)? {
            return Ok(None);
        }
        self.store().for_each_match(query, |row| visit(&row.summary))?;
        Ok(Some(convert::position(self.store().log().last()?)))
    }

    pub(crate) fn count_on(&self, counting: Counting) -> Result<Counting, StoreError> {
        let Counting { mut holds, after } = counting;
        let (store, now) = (self.store(), clock::now());
        let mut cursor = match after {
            None => Cursor::start(Order::Insertion),
            Some(Last::Sqlite(last)) => Cursor::Insertion(last.0),
        };
        let end = holds.certificates + PIECE;
        let (mut failure, mut last) = (None, None);
        store.walk(&mut cursor, |row| {
            let id = row.id;
            let added = store
                .current(row, Rules::Standard, now.into())
                .and_then(|row| holds.add(store, &row, now));
            if let Err(error) = added {
                failure = Some(error);
                return ControlFlow::Break(());
            }
            if holds.certificates == end {
                last = Some(Last::Sqlite(opaque::Last(id)));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        failure.map_or(Ok(Counting { holds, after: last }), Err)
    }

    pub(crate) fn kept_out(&self) -> Result<Vec<KeptOut>, StoreError> {
        let store = self.store();
        let mut all = Vec::new();
        for tombstone in store.log().all_tombstones()? {
            if tombstone.returning == Return::Blocked {
                let since = store.log().time_of(tombstone.change)?;
                all.push(KeptOut::Blocked { fingerprint: tombstone.fingerprint, since });
            }
        }
        for (fingerprint, redaction) in store.operator().redactions()? {
            all.push(KeptOut::Redacted { fingerprint, redaction });
        }
        Ok(all)
    }

    pub(crate) fn peers(&self) -> Result<Vec<Peer>, StoreError> {
        self.store().keyserver().peers()
    }

    pub(crate) fn in_vain(
        &self,
        peer: &str,
        view: View,
        digests: &[[u8; 16]],
    ) -> Result<Vec<Option<InVain>>, StoreError> {
        let own = |found: Unobtainable| InVain { tries: found.tries, time: found.time.seconds() };
        let look_up = |&digest| {
            let found = self.store().keyserver().unobtainable(peer, view, digest)?;
            Ok::<_, StoreError>(found.map(own))
        };
        digests.iter().map(look_up).collect()
    }

    pub(crate) fn prepare(
        &self,
        arrival: Arrival,
        preparation: &Preparation,
    ) -> Result<Intake, StoreError> {
        let preparation = &convert::preparation(preparation);
        Ok(Intake::Sqlite(match arrival {
            Arrival::Copies(certs) => self.store().prepare(certs, preparation)?,
            Arrival::Replacement(cert) => self.store().prepare_replacement(cert, preparation)?,
            Arrival::Overtaken(intake) => {
                let Intake::Sqlite(mut intake) = *intake;
                self.store().prepare_again(&mut intake, preparation)?;
                intake
            }
        }))
    }
}

/// What a reading has put into a row.
fn place(row: &Row) -> &opaque::Place {
    let Place::Sqlite(place) = &row.place;
    place
}

impl Deref for Reader {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take() else { return };
        let connection = if kept.is_current(&self.idle) {
            Some(Connection::Kept(kept))
        } else {
            Connection::Kept(kept).freed().map(Connection::Free)
        };
        if let Some(connection) = connection {
            self.idle.put(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use talaria_cert::merge::bytes_digest;
    use talaria_cert::{Cert, Limits, Tag, Verification, Work};
    use talaria_corpus::{Generate, certs};
    use talaria_store::Preparation;

    use super::*;

    fn opened() -> (tempfile::TempDir, Store, Readers) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certs.db");
        let store = Store::open(&path, Access::Create).unwrap();
        (folder, store, Readers::new(&path, None))
    }

    /// Adds a certificate, and checks that a reading after `wait` sees it.
    fn add_and_read(wait: impl Fn(&Readers)) {
        let (_folder, mut store, readers) = opened();
        for number in 0..10 {
            keep_one(&readers);
            add(&mut store, number);
            wait(&readers);
            let seen = readers.get().unwrap().log().last().unwrap();
            assert_eq!(seen, store.log().last().unwrap());
            assert_eq!(seen.get(), number.cast_signed() + 1);
        }
    }

    fn add(store: &mut Store, number: u64) {
        write(store, certs(&Generate { first: number, count: 1, ..Generate::default() }));
    }

    fn write(store: &mut Store, certs: Vec<Cert>) {
        let preparation = Preparation {
            limits: Limits::default(),
            verification: Verification::Full,
            now: 1_740_000_000.into(),
            work: Work::UNBOUNDED,
        };
        let mut intakes = [store.prepare(certs, &preparation).unwrap()];
        store.write(&mut intakes, 1, 1_740_000_000.into()).unwrap();
    }

    /// Reads until a reading leaves its snapshot for the next one.
    fn keep_one(readers: &Readers) {
        let is_kept = |connection: &Connection| matches!(connection, Connection::Kept(_));
        while !readers.idle.connections().iter().any(is_kept) {
            // A snapshot begins with its first read.
            readers.get().unwrap().log().last().unwrap();
        }
    }

    /// Makes all snapshots new, as if the last write had taken no time.
    fn renew(readers: &Readers) {
        for connection in readers.idle.connections().iter_mut() {
            if let Connection::Kept(kept) = connection {
                kept.began = Instant::now();
            }
        }
    }

    #[test]
    fn a_reading_sees_all_that_was_written_before() {
        add_and_read(|readers| {
            renew(readers);
            readers.have_to_look();
        });
    }

    #[test]
    fn a_reading_sees_what_another_process_has_written_a_little_later() {
        add_and_read(|_| std::thread::sleep(KEPT));
    }

    #[test]
    fn a_certificate_is_given_out_by_itself_once_its_signatures_were_judged() {
        let (_folder, mut store, readers) = opened();
        let all = certs(&Generate { count: 20, ..Generate::default() });
        let mut judged = 0;
        for cert in &all {
            let query = Query::Fingerprint(cert.fingerprint().as_bytes().to_vec());
            // First without the last signature, and then with it.
            let last = cert.packets().len() - 1;
            let shorter =
                cert.retain(|number, packet| number < last || packet.tag != Tag::SIGNATURE);
            for version in [shorter, cert.clone()] {
                write(&mut store, vec![version.clone()]);
                readers.have_to_look();
                let reader = readers.get().unwrap();
                const JUDGED: Judging = Judging::All { unranked: 1000 };
                let sole = || reader.sole(&query, JUDGED, u32::MAX).unwrap();
                let own = reader.sole(&query, Judging::Stored, u32::MAX).unwrap().unwrap();
                assert_eq!(own.stored.cert, version);
                assert_eq!(own.digest, Some(bytes_digest(version.as_bytes())));
                let has_others = own.stored.verdicts.iter().any(|verdict| verdict.is_by_others());
                // What was found about the shorter one says nothing about this one.
                assert_eq!(sole().is_none(), has_others);
                let row = reader.rows(&[cert.fingerprint()]).unwrap().remove(0);
                let stored = reader.stored(&row, JUDGED).unwrap().unwrap();
                let sole = sole().unwrap().stored;
                assert_eq!((sole.cert, sole.verdicts), (stored.cert, stored.verdicts));
                judged += usize::from(has_others);
            }
        }
        assert!(judged > 5, "{judged}");
    }

    #[test]
    fn a_search_for_rare_words_finds_the_same_on_the_short_way() {
        let (_folder, mut store, readers) = opened();
        (0..100).for_each(|number| add(&mut store, number));
        readers.have_to_look();
        let bounds = Bounds { results: 1000, looks: 1000 };
        let names = |rows: &[Row]| rows.iter().map(Row::fingerprint).collect::<Vec<_>>();
        let mut few = 0;
        let step = talaria_needs::short_or_full(5, 1);
        for number in (0..100).step_by(step) {
            let cert = &certs(&Generate { first: number, count: 1, ..Generate::default() })[0];
            for user_id in cert.user_ids() {
                let text = std::str::from_utf8(user_id).unwrap();
                let name = text.split(" <").next().unwrap();
                let query = Query::Spelled(talaria_cert::user_id::spellings(name));
                let reader = readers.get().unwrap();
                let all = names(&reader.find(&query, bounds).unwrap().rows);
                assert!(all.contains(&cert.fingerprint()), "{name}");
                let found = reader.few(&query, 16, 4096).unwrap();
                assert_eq!(found.map(|rows| names(&rows)), (all.len() <= 16).then_some(all));
                // The short way refuses many certificates, and large ones.
                assert!(reader.few(&query, 0, 4096).unwrap().is_none());
                assert!(reader.few(&query, 16, 10).unwrap().is_none());
                few += 1;
            }
        }
        assert!(few > 50 / step);
        // Nobody has searched for this word yet.
        let reader = readers.get().unwrap();
        let unknown = Query::Spelled(vec![vec!["nobody".into()]]);
        assert!(reader.few(&unknown, 16, 4096).unwrap().is_none());
        reader.find(&unknown, bounds).unwrap();
        assert_eq!(reader.few(&unknown, 16, 4096).unwrap().map(|rows| rows.len()), Some(0));
        // Many certificates have this word.
        let common = Query::Spelled(vec![vec!["example".into()]]);
        reader.find(&common, bounds).unwrap();
        assert!(reader.few(&common, 16, 4096).unwrap().is_none());
    }

    #[test]
    fn a_snapshot_that_is_not_in_use_does_not_keep_the_log() {
        let (_folder, mut store, readers) = opened();
        // The first change is copied at once.
        add(&mut store, 0);
        keep_one(&readers);
        add(&mut store, 1);
        assert!(!store.copy_log().unwrap());
        readers.let_go();
        assert!(store.copy_log().unwrap());
    }
}
