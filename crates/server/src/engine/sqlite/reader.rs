//! Connections to the store for reading: as many as there are threads that read at once.

use std::ops::{ControlFlow, Deref};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use talaria::operator::{self, KeptOut};
use talaria_cert::{Address, Cert, Fingerprint, KeyId, Summary, Timestamp, Verdict, View};
use talaria_store::{
    Access, Intake, OpenFiles, Preparation, Query, Snapshot, Store, StoreError, Stored, TextIndex,
    Unobtainable,
};

use super::certified::Certified;
use crate::clock;
use crate::engine::facts::{Days, Facts};
use crate::engine::order::Arrival;
use crate::engine::row::{Bounds, Name, Page, Place, Position, Row};

/// Page cache of one connection: 4 MiB. The system caches the file for all of them.
const CACHE_BYTES: u64 = 4 << 20;

/// Connections that are not in use, at most; more are closed.
const IDLE_MAX: usize = 32;

/// Hands out connections for reading.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    /// The files of the store that the server has opened.
    files: Arc<Mutex<Option<OpenFiles>>>,
    idle: Arc<Mutex<Vec<Store>>>,
    certified: Arc<Certified>,
    /// Readings so far.
    readings: Arc<AtomicU64>,
}

impl Readers {
    pub(crate) fn new(path: &Path, files: Option<OpenFiles>) -> Self {
        Self {
            path: path.to_owned(),
            files: Arc::new(Mutex::new(files)),
            idle: Arc::default(),
            certified: Arc::default(),
            readings: Arc::default(),
        }
    }

    /// The verdicts that reading has found.
    pub(crate) fn certified(&self) -> &Certified {
        &self.certified
    }

    /// Checks that the store has not been moved or replaced.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.as_ref().map_or(Ok(()), OpenFiles::check)
    }

    /// A connection that sees the store as it is at this moment, and goes back when it is dropped.
    pub(crate) fn get(&self) -> Result<Reader, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
        let store = if let Some(store) = idle {
            store
        } else {
            let store = Store::open(&self.path, Access::Read)?;
            // The system caches the pages of the file. Mapped pages would count as this process's memory.
            store.set_memory(CACHE_BYTES, 0)?;
            store
        };
        Ok(Reader {
            snapshot: Some(store.into_snapshot()?),
            idle: Arc::clone(&self.idle),
            certified: Arc::clone(&self.certified),
            number: self.readings.fetch_add(1, Ordering::Relaxed),
        })
    }
}

/// A store for reading.
#[derive(Debug)]
pub(crate) struct Reader {
    snapshot: Option<Snapshot<Store>>,
    idle: Arc<Mutex<Vec<Store>>>,
    certified: Arc<Certified>,
    /// No other reading has it.
    number: u64,
}

impl Reader {
    fn store(&self) -> &Store {
        self.snapshot.as_ref().expect("there until it is dropped")
    }

    /// A row of the store as it holds now.
    fn current(&self, row: talaria_store::Row) -> Result<Row, StoreError> {
        let row = self.store().current(row, clock::now().into())?;
        let (place, reading) = (Place(row.id), self.number);
        Ok(Row { summary: row.summary, place, change: row.change, reading })
    }

    fn page(&self, found: talaria_store::Selection) -> Result<Page, StoreError> {
        let mut rows = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            rows.push(self.current(row)?);
        }
        Ok(Page { rows, more: found.more })
    }

    pub(crate) fn find(&self, query: &Query, bounds: Bounds) -> Result<Page, StoreError> {
        self.page(self.store().owners(query, bounds.results, bounds.looks)?)
    }

    pub(crate) fn finds_parts(&self) -> Result<bool, StoreError> {
        self.store().has_index(TextIndex::Trigrams)
    }

    pub(crate) fn row(&self, name: Name) -> Result<Option<Row>, StoreError> {
        let row = match name {
            Name::Fingerprint(fingerprint) => self.store().row(fingerprint)?,
            Name::Place(place) => self.store().row_by_id(place.0)?,
        };
        row.map(|row| self.current(row)).transpose()
    }

    pub(crate) fn stored(&self, place: Place) -> Result<Option<Stored>, StoreError> {
        self.store().stored(place.0)
    }

    pub(crate) fn length(&self, place: Place) -> Result<u64, StoreError> {
        self.store().cert_length(place.0)
    }

    pub(crate) fn certified(
        &self,
        row: &Row,
        cert: &Cert,
        verdicts: &[Verdict],
    ) -> Result<Option<Arc<[Verdict]>>, StoreError> {
        let id = row.place.0;
        let change = if row.reading == self.number {
            row.change
        } else {
            // The row is of another state of the store.
            let Some(row) = self.store().row_by_id(id)? else { return Ok(None) };
            row.change
        };
        self.certified.verdicts(self.store(), (id, change), cert, verdicts).map(Some)
    }

    pub(crate) fn knows_certified(&self, row: &Row) -> bool {
        self.certified.known((row.place.0, row.change)).is_some()
    }

    pub(crate) fn by_digest(&self, digest: [u8; 16]) -> Result<Option<(View, Place)>, StoreError> {
        Ok(self.store().digests().find(digest)?.map(|(view, id)| (view, Place(id))))
    }

    pub(crate) fn signer(&self, id: KeyId) -> Result<Option<Summary>, StoreError> {
        self.store().holder(id)
    }

    pub(crate) fn confirmed(&self, email: &Address) -> Result<Option<Row>, StoreError> {
        self.store().keyserver().confirmed(email)?.map(|row| self.current(row)).transpose()
    }

    pub(crate) fn published(&self, fingerprint: Fingerprint) -> Result<Vec<Address>, StoreError> {
        self.store().keyserver().published(fingerprint)
    }

    pub(crate) fn is_redacted(&self, fingerprint: Fingerprint) -> Result<bool, StoreError> {
        self.store().operator().is_redacted(fingerprint)
    }

    pub(crate) fn facts(
        &self,
        fingerprint: Fingerprint,
        email: &Address,
    ) -> Result<Facts, StoreError> {
        facts(self.store(), fingerprint, email, clock::now().into())
    }

    pub(crate) fn days(&self, since: u32) -> Result<Days, StoreError> {
        let store = self.store();
        Ok(Days { changes: store.log().by_day(since)?, tally: store.keyserver().tally(since)? })
    }

    pub(crate) fn changed_on(&self, day: u32) -> Result<Vec<[u8; 4]>, StoreError> {
        self.store().log().prefixes_changed_on(day)
    }

    pub(crate) fn kept_out(&self) -> Result<Vec<KeptOut>, StoreError> {
        operator::kept_out(self.store())
    }

    pub(crate) fn peers(&self) -> Result<Vec<talaria_store::Peer>, StoreError> {
        self.store().keyserver().peers()
    }

    pub(crate) fn in_vain(
        &self,
        peer: &str,
        view: View,
        digest: [u8; 16],
    ) -> Result<Option<Unobtainable>, StoreError> {
        self.store().keyserver().unobtainable(peer, view, digest)
    }

    pub(crate) fn in_vain_count(&self) -> Result<u64, StoreError> {
        self.store().keyserver().unobtainable_count()
    }

    pub(crate) fn position(&self) -> Result<Position, StoreError> {
        Ok(Position(self.store().log().last()?))
    }

    pub(crate) fn changed_since(
        &self,
        position: Position,
        max: usize,
    ) -> Result<Option<(Vec<Row>, Position)>, StoreError> {
        let (mut changed, mut last) = (Vec::new(), position.0);
        self.store().log().for_each(position.0, |number, _, id, _| {
            last = number;
            if changed.len() <= max {
                changed.push(id);
            }
        })?;
        if changed.len() > max {
            return Ok(None);
        }
        changed.sort_unstable();
        changed.dedup();
        let mut rows = Vec::with_capacity(changed.len());
        for id in changed {
            rows.extend(self.row(Place(id).into())?);
        }
        Ok(Some((rows, Position(last))))
    }

    pub(crate) fn for_each(
        &self,
        query: &Query,
        mut visit: impl FnMut(&Summary) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.store().for_each_match(query, |row| visit(&row.summary)).map(drop)
    }

    pub(crate) fn prepare(
        &self,
        arrival: Arrival,
        preparation: &Preparation,
    ) -> Result<Intake, StoreError> {
        match arrival {
            Arrival::Copies(certs) => self.store().prepare(certs, preparation),
            Arrival::Replacement(cert) => self.store().prepare_replacement(cert, preparation),
        }
    }
}

/// Facts about an address in a certificate at `now`.
pub(super) fn facts(
    store: &Store,
    fingerprint: Fingerprint,
    email: &Address,
    now: Timestamp,
) -> Result<Facts, StoreError> {
    let row = store.row(fingerprint)?.map(|row| store.current(row, now)).transpose()?;
    Ok(Facts {
        summary: row.map(|row| row.summary),
        published: store.keyserver().published(fingerprint)?,
        generation: store.keyserver().link_generation(fingerprint, email)?,
    })
}

impl Deref for Reader {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(snapshot) = self.snapshot.take() else { return };
        // One that cannot let go is closed.
        if let Ok(store) = snapshot.end() {
            let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(store);
            }
        }
    }
}
