//! Bulk build of a new store. Certificates are appended, index rows are sorted outside of the
//! database, and tables are filled in key order. The finished file is then renamed into place.
//!
//! Until then all data is in `NAME.building`. Each batch is committed together with its position in
//! the input, so that an interrupted build can continue from there. Certificates that occur a
//! second time are set aside and merged at the end, in the same way as by any other write.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::merge::{IngestOutcome, IngestRefusal};
use talaria_cert::merge::{Record, digests};
use talaria_cert::{
    Cert, Fingerprint, Handle, Reason, Terms, Timestamp, Verification, View, verdicts,
};

use crate::blob::{self, Version};
use crate::change::{self, ChangeKind};
use crate::connect::Access;
use crate::derive::{Derived, Failure, failed};
use crate::error::StoreError;
use crate::ingest::numbers;
use crate::journal::set_journal_mode;
use crate::open::Layout;
use crate::place::{put_in_place, refuse_leftovers, remove_database};
use crate::row::{ROWS_AFTER, RawRow};
use crate::schema::{self, Indexes, TextIndex};
use crate::store::Store;
use crate::texts::fill_text;
use crate::{format, meta, revoker};
use talaria_disk::{beside, folder_of};

/// Options for building a store. Programs set the fields of [`Self::new`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuildOptions {
    /// The layout of the store.
    pub layout: Layout,
    /// Memory for index rows in bytes. About 20 bytes per certificate come on top, and the input
    /// that the caller reads ahead.
    pub memory_bytes: usize,
    /// Whether self-signatures are verified.
    pub verification: Verification,
    /// The views for which digests are stored. Digests for SKS are always stored.
    pub views: Vec<View>,
    /// Current time.
    pub now: Timestamp,
}

impl BuildOptions {
    /// Everything is verified and indexed at `now`, with digests for SKS alone, in the default
    /// layout and 256 MiB of memory.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            layout: Layout::default(),
            memory_bytes: 256 << 20,
            verification: Verification::Full,
            views: vec![View::Sks],
            now,
        }
    }

    /// The views for which digests are stored, without duplicates.
    fn all_views(&self) -> Vec<View> {
        let kept = |view: &View| *view == View::Sks || self.views.contains(view);
        View::ALL.into_iter().filter(kept).collect()
    }
}

/// The position of a build in its inputs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Position {
    /// Index of the input, from 0.
    pub input: usize,
    /// Number of bytes of the input that are finished.
    pub offset: u64,
}

/// The result of a finished build.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Built {
    /// Number of certificates in the store.
    pub certs: u64,
    /// Number of certificates that occurred a second time and were merged.
    pub joined: u64,
    /// The first thousand certificates whose second copy was refused; the first copy is in the
    /// store.
    pub refused: Vec<(Fingerprint, IngestRefusal)>,
    /// Number of all refused copies.
    pub refused_count: u64,
}

/// The number of refused copies that a result lists.
const REFUSED_MAX: usize = 1000;

/// The steps of [`Builder::finish`], for a progress display.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Filling the index tables.
    Indexes,
    /// Filling a full-text index.
    Text(TextIndex),
    /// Merging certificates that occurred again.
    Joining,
    /// Writing to disk and renaming.
    Syncing,
}

/// A store that is being built.
pub struct Builder {
    connection: Connection,
    target: PathBuf,
    partial: PathBuf,
    options: BuildOptions,
    derived: Derived,
    /// Handles of the fingerprints seen so far.
    seen: HashSet<u64>,
    last_id: i64,
    joined: u64,
    position: Position,
}

impl Builder {
    /// Starts to build a store at `target`, or continues an interrupted build of the same inputs.
    /// `inputs` identifies the inputs and should include their sizes and times.
    ///
    /// # Errors
    ///
    /// [`StoreError::Exists`] if there is something at `target`; [`StoreError::Io`] if its folder
    /// cannot be written.
    pub fn start(target: &Path, inputs: &str, options: BuildOptions) -> Result<Self, StoreError> {
        let io = |action, source| StoreError::Io { action, path: target.to_owned(), source };
        if target.exists() {
            return Err(StoreError::Exists { path: target.to_owned() });
        }
        refuse_leftovers(target)?;
        let partial = beside(target, ".building");
        let folder = folder_of(target);
        fs::create_dir_all(folder).map_err(|source| io("make the folder of", source))?;
        let engine = |source| StoreError::engine(&partial, source);
        let mut resumed = partial.exists().then(|| resume(&partial, inputs, &options)).flatten();
        if resumed.is_none() {
            remove_database(&partial).map_err(|(_, error)| match error.kind() {
                std::io::ErrorKind::ReadOnlyFilesystem => {
                    StoreError::ReadOnly { path: target.to_owned() }
                }
                _ => io("clear the way for", error),
            })?;
            resumed = Some(begin(&partial, inputs, &options).map_err(engine)?);
        }
        let (connection, position) = resumed.expect("begun where nothing was resumed");
        let derived = Derived::new(folder, options.memory_bytes);
        let mut builder = Self {
            connection,
            target: target.to_owned(),
            partial: partial.clone(),
            options,
            derived,
            seen: HashSet::new(),
            last_id: 0,
            joined: 0,
            position,
        };
        if position != Position::default() {
            builder.gather_again()?;
        }
        Ok(builder)
    }

    /// Cancels the build and removes its files.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn discard(self) -> Result<(), StoreError> {
        let Self { connection, partial, .. } = self;
        drop(connection);
        remove_database(&partial).map_err(|(path, source)| StoreError::Io {
            action: "remove",
            path,
            source,
        })
    }

    /// The position in the inputs at which to continue.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Number of certificates appended so far.
    #[must_use]
    pub fn appended(&self) -> u64 {
        self.last_id.cast_unsigned()
    }

    /// Parses raw certificates and computes all data that the store keeps about them, on all cores.
    #[must_use]
    pub fn prepare(options: &BuildOptions, raw: &[&[u8]]) -> Vec<Result<Draft, Reason>> {
        let parsed: Vec<Result<Cert, Reason>> =
            raw.par_iter().map(|raw| Cert::parse(raw)).collect();
        let good: Vec<&Cert> = parsed.iter().filter_map(|cert| cert.as_ref().ok()).collect();
        let mut checked = verdicts(&good, options.verification).into_iter();
        let work: Vec<_> = parsed
            .into_iter()
            .map(|cert| cert.map(|cert| (cert, checked.next().unwrap_or_default())))
            .collect();
        let views = options.all_views();
        work.into_par_iter()
            .map(|work| {
                work.map(|(cert, verdicts)| Draft(Record::new(cert, verdicts, options.now, &views)))
            })
            .collect()
    }

    /// Appends prepared certificates and commits them with the position `reached` in the inputs.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or any other error of a write; the build can be started again.
    pub fn append(&mut self, drafts: &[Draft], reached: Position) -> Result<(), StoreError> {
        let result = self.append_rows(drafts, reached);
        result.map_err(|failure| self.failed(failure))
    }

    fn append_rows(&mut self, drafts: &[Draft], reached: Position) -> Result<(), Failure> {
        let transaction = self.connection.transaction()?;
        {
            let mut spool = transaction.prepare_cached("INSERT INTO spool VALUES (?1)")?;
            let mut fresh = Vec::with_capacity(drafts.len());
            for Draft(draft) in drafts {
                if !self.seen.insert(Handle::of_fingerprint(draft.cert.fingerprint()).0) {
                    spool.execute([draft.cert.as_bytes()])?;
                    self.joined += 1;
                    continue;
                }
                self.last_id += 1;
                let id = self.last_id;
                let (verdicts, bytes) = (numbers(&draft.verdicts), draft.cert.as_bytes());
                // The first change of each certificate has its number.
                let version = Version { change: id, digest: &draft.bytes_digest };
                blob::insert(&transaction, id, &verdicts, bytes, version)?;
                fresh.push((id, draft));
            }
            for (id, draft) in &fresh {
                RawRow::new(*id, draft.cert.fingerprint(), *id, &draft.summary)
                    .write(&transaction)?;
            }
            for (id, draft) in &fresh {
                change::append(
                    &transaction,
                    *id,
                    self.options.now.seconds(),
                    *id,
                    ChangeKind::New,
                )?;
                self.derived.add(*id, &draft.terms, &draft.digests)?;
            }
            meta::set(&transaction, "building", format!("{} {}", reached.input, reached.offset))?;
        }
        transaction.commit()?;
        self.position = reached;
        Ok(())
    }

    /// After a restart, collects the index rows of the certificates that were appended before.
    fn gather_again(&mut self) -> Result<(), StoreError> {
        let views = self.options.all_views();
        let result = || -> Result<(), Failure> {
            let mut statement = self.connection.prepare(ROWS_AFTER)?;
            let mut rows = statement.query([0])?;
            while let Some(row) = rows.next()? {
                let row = RawRow::read(row)?;
                let id = row.id;
                let damaged = || Failure::Io(std::io::Error::other(format!("certificate {id}")));
                let summary = row.summary().ok_or_else(damaged)?;
                let fingerprint = summary.fingerprint();
                let blob = blob::intact(&self.connection, id)?.ok_or_else(damaged)?;
                let (cert, verdicts) = blob.decode().ok_or_else(damaged)?;
                let terms = Terms::of(&cert, &verdicts, &summary);
                let digests = digests(&cert, &verdicts, &views);
                self.derived.add(id, &terms, &digests)?;
                self.seen.insert(Handle::of_fingerprint(fingerprint).0);
                self.last_id = id;
            }
            Ok(())
        }();
        result.map_err(|failure| self.failed(failure))?;
        let joined: Result<i64, _> =
            self.connection.query_row("SELECT count(*) FROM spool", [], |row| row.get(0));
        self.joined = joined.map_err(|e| self.failed(e.into()))?.cast_unsigned();
        Ok(())
    }

    /// Creates the indexes, merges certificates that occurred twice, and renames the store into
    /// place.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or any other error of a write; the build can be started again.
    pub fn finish(mut self, mut step: impl FnMut(Step)) -> Result<Built, StoreError> {
        let mut built = Built { joined: self.joined, ..Built::default() };
        let empty = Derived::new(Path::new("."), 0);
        let derived = std::mem::replace(&mut self.derived, empty);
        self.seen = HashSet::new();
        self.fill(derived, &mut step).map_err(|failure| self.failed(failure))?;
        let Self { connection, target, partial, options, joined, .. } = self;
        drop(connection);
        if joined > 0 {
            step(Step::Joining);
        }
        let mut store = Store::open(&partial, Access::Write)?;
        join_spool(&mut store, &options, &mut built)?;
        built.certs = store.count()?;
        step(Step::Syncing);
        store.run(|connection| {
            // One transaction: a build that is interrupted after it has no recorded inputs, and
            // starts from the beginning.
            connection.execute_batch("BEGIN; DROP TABLE spool;")?;
            ["inputs", "building"].iter().try_for_each(|name| meta::remove(connection, name))?;
            connection.execute_batch("COMMIT")?;
            set_journal_mode(connection, "WAL")
        })?;
        drop(store);
        put_in_place(&partial, &target)?;
        Ok(built)
    }

    fn fill(&mut self, derived: Derived, step: &mut impl FnMut(Step)) -> Result<(), Failure> {
        let transaction = self.connection.transaction()?;
        let filled: Option<i64> =
            transaction.query_row("PRAGMA application_id", [], |row| row.get(0)).optional()?;
        if filled == Some(format::APPLICATION) {
            return Ok(());
        }
        // Merging the text indexes frees pages, which the next tables use.
        for index in [TextIndex::Trigrams, TextIndex::Words] {
            if self.options.layout.text.contains(&index) {
                step(Step::Text(index));
                fill_text(&transaction, index)?;
            }
        }
        step(Step::Indexes);
        derived.fill(&transaction)?;
        revoker::renew_all(&transaction, self.options.now.seconds())?;
        schema::mark(&transaction)?;
        transaction.commit()?;
        Ok(())
    }

    fn failed(&self, failure: Failure) -> StoreError {
        failed(&self.partial, failure)
    }
}

/// A certificate that is ready to be appended.
pub struct Draft(Record);

/// Merges the certificates that occurred a second time.
fn join_spool(
    store: &mut Store,
    options: &BuildOptions,
    built: &mut Built,
) -> Result<(), StoreError> {
    const BATCH: i64 = 1000;
    let mut after = 0;
    loop {
        let rows: Vec<(i64, Vec<u8>)> = store.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT rowid, bytes FROM spool WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
                )?
                .query_map([after, BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })?;
        let Some(&(last, _)) = rows.last() else { return Ok(()) };
        after = last;
        let certs: Result<Vec<Cert>, Reason> =
            rows.into_iter().map(|(_, bytes)| Cert::from_canonical(bytes)).collect();
        let certs = certs.map_err(|reason| store.damaged(format!("the spool: {reason}")))?;
        let names: Vec<Fingerprint> = certs.iter().map(Cert::fingerprint).collect();
        // The spool stays unchanged until the end: after an interruption, merging again changes
        // nothing and names the refused certificates again.
        let outcomes = store.ingest(certs, options.verification, options.now)?;
        for (fingerprint, outcome) in names.into_iter().zip(outcomes) {
            let IngestOutcome::Refused(refusal) = outcome else { continue };
            built.joined -= 1;
            built.refused_count += 1;
            if built.refused.len() < REFUSED_MAX {
                built.refused.push((fingerprint, refusal));
            }
        }
    }
}

fn tune(connection: &Connection) -> rusqlite::Result<()> {
    // Appended pages need no journal entries. A rollback journal therefore costs almost nothing
    // here, and commits survive a power cut. NORMAL would sync a journal and its header together,
    // and not its truncation: after a power cut, a part of an old journal could be applied.
    connection.execute_batch(
        "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL; \
         PRAGMA cache_size = -131072; PRAGMA temp_store = FILE; PRAGMA locking_mode = EXCLUSIVE;",
    )
}

fn begin(
    partial: &Path,
    inputs: &str,
    options: &BuildOptions,
) -> rusqlite::Result<(Connection, Position)> {
    let connection = Connection::open(partial)?;
    connection.execute_batch(&format!("PRAGMA page_size = {}", options.layout.page_bytes))?;
    tune(&connection)?;
    connection.execute_batch("BEGIN")?;
    schema::create_bare(&connection)?;
    schema::create_derived(&connection, &options.layout.indexes())?;
    connection.execute_batch(&format!(
        "CREATE TABLE spool (bytes BLOB NOT NULL); PRAGMA user_version = {}",
        format::FORMAT
    ))?;
    meta::set(&connection, "inputs", inputs.to_owned())?;
    schema::set_views(&connection, &options.all_views())?;
    connection.execute_batch("COMMIT")?;
    Ok((connection, Position::default()))
}

/// Opens an interrupted build, if its inputs, format, views and indexes are the same.
fn resume(partial: &Path, inputs: &str, options: &BuildOptions) -> Option<(Connection, Position)> {
    let connection = Connection::open(partial).ok()?;
    tune(&connection).ok()?;
    let format = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    if format != Ok(format::FORMAT)
        || schema::views(&connection).ok()? != options.all_views()
        || Indexes::found(&connection).ok()? != options.layout.indexes()
    {
        return None;
    }
    let entry = |name: &str| meta::get::<String>(&connection, name).ok()?.good();
    if entry("inputs")? != inputs {
        return None;
    }
    let position = match entry("building") {
        None => Position::default(),
        Some(text) => {
            let (input, offset) = text.split_once(' ')?;
            Position { input: input.parse().ok()?, offset: offset.parse().ok()? }
        }
    };
    Some((connection, position))
}
