//! The engine: the one interface of the server to what it keeps. Behind it is SQLite.
//!
//! Certificates are named by fingerprint; a [`Place`] from an earlier answer saves the look-up. A [`Reading`] is one state of
//! the store. Its operations may wait for another machine; those of SQLite end at once, except those that look at many
//! certificates. Whoever needs these, or some milliseconds of computation, gives the work to [`Engine::read`], which runs
//! it where nobody waits for it. No reading is held while octets go to a client or come from one. Changes are
//! conditional where somebody else could have been faster: an [`Order`] can hold only if its certificate has not changed
//! since, [`Engine::publish`] decides by what is there at that moment, and [`Engine::write`] leaves out what was overtaken.
//! A [`Position`] in the log of changes says nothing but what came before.

pub(crate) mod error;
pub(crate) mod facts;
pub(crate) mod order;
pub(crate) mod row;
mod sqlite;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use talaria_cert::{Address, Cert, Fingerprint, KeyId, Limits, Summary, Verdict, View};
use talaria_recon::PrefixTree;

use crate::turns::TurnError;

pub(crate) use error::EngineError;
pub(crate) use facts::{Changes, Days, Facts, Progress, Tally};
pub(crate) use order::{Arrival, Conflict, Done, Order, Replacement, Wish};
pub(crate) use row::{Bounds, Name, Page, Place, Position, Row};
pub(crate) use sqlite::{Counting, Ended, OpenError};
pub(crate) use talaria::operator::{Command, KeptOut};
pub(crate) use talaria_store::{
    IngestOutcome, Ingested, Intake, LINK_SECONDS_MAX, LeftOut, Peer, Preparation, Query,
    Redaction, Store, StoreError, Stored, Unobtainable,
};

use sqlite::{Reader, Sqlite};

/// A handle to the engine.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    Sqlite(Arc<Sqlite>),
}

/// One state of the store, for reading.
#[derive(Debug)]
pub(crate) enum Reading {
    Sqlite(Reader),
}

/// An engine that was opened.
pub(crate) struct Opened {
    pub(crate) engine: Engine,
    /// The end of the thread that writes.
    pub(crate) writer: JoinHandle<Ended>,
    /// A secret of the store, for tokens.
    pub(crate) secret: Vec<u8>,
}

impl Engine {
    /// Opens the store at `path`, which is made if it does not exist. Certificates are kept within `limits`. Waits for
    /// other processes end when `stop` is set.
    pub(crate) fn open(
        path: &Path,
        limits: Limits,
        stop: Arc<AtomicBool>,
    ) -> Result<Opened, OpenError> {
        let (sqlite, writer, secret) = Sqlite::open(path, limits, stop)?;
        Ok(Opened { engine: Self::Sqlite(Arc::new(sqlite)), writer, secret })
    }

    /// The state of the store at this moment, for reads that end at once.
    #[expect(clippy::unused_async, reason = "SQLite answers on the spot; other engines wait")]
    pub(crate) async fn reading(&self) -> Result<Reading, EngineError> {
        match self {
            Self::Sqlite(sqlite) => Ok(Reading::Sqlite(sqlite.reading()?)),
        }
    }

    /// Runs work on the state of the store at that moment, where it may take milliseconds.
    ///
    /// # Errors
    ///
    /// Those of `work` and of [`Self::reading`], and [`TurnError`] if others have all turns.
    pub(crate) async fn read<T, E>(
        &self,
        work: impl AsyncFnOnce(&mut Reading) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<EngineError> + From<TurnError> + Send + 'static,
    {
        let engine = self.clone();
        self.long(async move || work(&mut engine.reading().await?).await).await
    }

    /// Runs work where it may take milliseconds.
    ///
    /// # Errors
    ///
    /// Those of `work`, and [`TurnError`] if others have all turns.
    pub(crate) async fn long<T, E>(
        &self,
        work: impl AsyncFnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<TurnError> + Send + 'static,
    {
        match self {
            Self::Sqlite(sqlite) => sqlite.long(work).await,
        }
    }

    /// Writes prepared certificates, some at a time. Those that somebody else has changed since are left out, and are to be
    /// prepared again. With a preparation, those that were left out before are prepared again first, while nobody else can
    /// write.
    pub(crate) async fn write(
        &self,
        intake: Intake,
        again: Option<Preparation>,
    ) -> Result<Intake, EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.write(intake, again).await,
        }
    }

    /// Carries out all orders, one after the other, or none if one of them does not hold.
    pub(crate) async fn carry_out(
        &self,
        orders: Vec<Order>,
    ) -> Result<Result<Vec<Done>, Conflict>, EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.carry_out(orders).await,
        }
    }

    /// Makes a certificate be found by an address if `decide` says so, from the facts at the moment of the change.
    pub(crate) async fn publish<D: Send + 'static>(
        &self,
        fingerprint: Fingerprint,
        email: Address,
        decide: impl FnOnce(&Facts) -> Result<(), D> + Send + 'static,
    ) -> Result<Result<(), D>, EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.publish(fingerprint, email, decide).await,
        }
    }

    /// Makes a certificate not be found by an address any more.
    pub(crate) async fn unpublish(
        &self,
        fingerprint: Fingerprint,
        email: Address,
    ) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.unpublish(fingerprint, email).await,
        }
    }

    /// Notes that a peer did not deliver certificates that it had announced.
    pub(crate) async fn mark_in_vain(
        &self,
        peer: String,
        view: View,
        digests: Vec<[u8; 16]>,
        tries: u32,
    ) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.mark_in_vain(peer, view, digests, tries).await,
        }
    }

    /// Adds to the counts of today.
    pub(crate) async fn add_to_tally(&self, counts: Vec<(String, u64)>) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.add_to_tally(counts).await,
        }
    }

    /// One step of the work that additions and readings left for later. Returns whether there may be more.
    pub(crate) async fn tidy_step(&self) -> Result<bool, EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.tidy_step().await,
        }
    }

    /// Sets the limits for certificates that are written from now on.
    pub(crate) async fn set_limits(&self, limits: Limits) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.set_limits(limits).await,
        }
    }

    /// Looks at the prefix tree of a view; `None` if the view is not kept.
    pub(crate) fn with_tree<T>(
        &self,
        view: View,
        look: impl FnOnce(&PrefixTree) -> T,
    ) -> Option<T> {
        match self {
            Self::Sqlite(sqlite) => sqlite.with_tree(view, look),
        }
    }

    /// Brings the trees to the state of the store, whoever changed it.
    pub(crate) async fn follow(&self) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => {
                let sqlite = Arc::clone(sqlite);
                let followed = tokio::task::spawn_blocking(move || sqlite.follow());
                Ok(followed.await.map_err(|_| EngineError::Closed)??)
            }
        }
    }

    /// Keeps the digests of a view from now on, and a tree of them, if it does not do so already.
    pub(crate) async fn keep_view(&self, view: View) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) if sqlite.has_tree(view) => Ok(()),
            Self::Sqlite(sqlite) => {
                while sqlite.add_view_step(view).await? {}
                let sqlite = Arc::clone(sqlite);
                let added = tokio::task::spawn_blocking(move || sqlite.add_tree(view));
                Ok(added.await.map_err(|_| EngineError::Closed)??)
            }
        }
    }

    /// Counts the next certificates, some 50 ms of them, when it is the turn of such work.
    pub(crate) async fn count_on<E>(&self, counting: Counting) -> Result<Counting, E>
    where
        E: From<EngineError> + From<TurnError> + Send + 'static,
    {
        match self {
            Self::Sqlite(sqlite) => {
                let counter = Arc::clone(sqlite);
                let count =
                    async move || Ok(counter.count_on(counting).map_err(EngineError::from)?);
                sqlite.long(count).await
            }
        }
    }

    /// Checks that the store has not been moved or replaced.
    pub(crate) fn check(&self) -> Result<(), Arc<StoreError>> {
        match self {
            Self::Sqlite(sqlite) => sqlite.check(),
        }
    }

    /// Ends writing after all that waits. Later changes get [`EngineError::Closed`].
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(sqlite) => sqlite.close().await,
        }
    }

    /// How writing goes.
    pub(crate) fn progress(&self) -> Progress {
        match self {
            Self::Sqlite(sqlite) => sqlite.progress(),
        }
    }

    /// A defect in the thread that writes.
    #[cfg(test)]
    pub(crate) async fn panic(&self) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.panic().await,
        }
    }
}

#[expect(clippy::unused_async, reason = "SQLite answers on the spot; other engines wait")]
impl Reading {
    /// The certificates that match `query`; of those that have a key, the ones with it as their primary key first, then those
    /// with it as a subkey that has signed the primary key. May look at many if `query` is for a part of a text.
    pub(crate) async fn find(
        &mut self,
        query: &Query,
        bounds: Bounds,
    ) -> Result<Page, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.find(query, bounds)?),
        }
    }

    /// Whether parts of texts are found without looking at every certificate.
    pub(crate) async fn finds_parts(&mut self) -> Result<bool, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.finds_parts()?),
        }
    }

    /// A certificate by its name.
    pub(crate) async fn row(&mut self, name: impl Into<Name>) -> Result<Option<Row>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.row(name.into())?),
        }
    }

    /// A certificate with the verdicts on its signatures.
    pub(crate) async fn stored(&mut self, place: Place) -> Result<Option<Stored>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.stored(place)?),
        }
    }

    /// Octets of a certificate.
    pub(crate) async fn length(&mut self, place: Place) -> Result<u64, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.length(place)?),
        }
    }

    /// The verdicts on the signatures of a certificate, those by other keys included, a few minutes old at most. `None` if it is
    /// not here any more.
    pub(crate) async fn certified(
        &mut self,
        row: &Row,
        cert: &Cert,
        verdicts: &[Verdict],
    ) -> Result<Option<Arc<[Verdict]>>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.certified(row, cert, verdicts)?),
        }
    }

    /// A certificate by its digest in some view.
    pub(crate) async fn by_digest(
        &mut self,
        digest: [u8; 16],
    ) -> Result<Option<(View, Place)>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.by_digest(digest)?),
        }
    }

    /// The certificate that has a key with this ID, for the name of a signer.
    pub(crate) async fn signer(&mut self, id: KeyId) -> Result<Option<Summary>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.signer(id)?),
        }
    }

    /// The certificate whose owner confirmed an address.
    pub(crate) async fn confirmed(&mut self, email: &Address) -> Result<Option<Row>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.confirmed(email)?),
        }
    }

    /// The addresses of a certificate that its owner confirmed.
    pub(crate) async fn published(
        &mut self,
        fingerprint: Fingerprint,
    ) -> Result<Vec<Address>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.published(fingerprint)?),
        }
    }

    /// Whether a part of the certificate was removed for good.
    pub(crate) async fn is_redacted(
        &mut self,
        fingerprint: Fingerprint,
    ) -> Result<bool, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.is_redacted(fingerprint)?),
        }
    }

    /// Facts about an address in a certificate.
    pub(crate) async fn facts(
        &mut self,
        fingerprint: Fingerprint,
        email: &Address,
    ) -> Result<Facts, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.facts(fingerprint, email)?),
        }
    }

    /// The changes and counts of each day from `since` on (days since 1970).
    pub(crate) async fn days(&mut self, since: u32) -> Result<Days, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.days(since)?),
        }
    }

    /// The first octets of the fingerprints of the certificates that changed on a day, in order.
    pub(crate) async fn changed_on(&mut self, day: u32) -> Result<Vec<[u8; 4]>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.changed_on(day)?),
        }
    }

    /// All that is kept out.
    pub(crate) async fn kept_out(&mut self) -> Result<Vec<KeptOut>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.kept_out()?),
        }
    }

    /// The gossip peers that operators have added.
    pub(crate) async fn peers(&mut self) -> Result<Vec<Peer>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.peers()?),
        }
    }

    /// How often a peer was asked in vain for a certificate.
    pub(crate) async fn in_vain(
        &mut self,
        peer: &str,
        view: View,
        digest: [u8; 16],
    ) -> Result<Option<Unobtainable>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.in_vain(peer, view, digest)?),
        }
    }

    /// The number of certificates that peers were asked for in vain.
    pub(crate) async fn in_vain_count(&mut self) -> Result<u64, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.in_vain_count()?),
        }
    }

    /// The end of the log of changes.
    pub(crate) async fn position(&mut self) -> Result<Position, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.position()?),
        }
    }

    /// The certificates that changed after a position, and the end of the log. `None` if they are more than `max`.
    pub(crate) async fn changed_since(
        &mut self,
        position: Position,
        max: usize,
    ) -> Result<Option<(Vec<Row>, Position)>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.changed_since(position, max)?),
        }
    }

    /// Whether [`Self::certified`] would verify nothing.
    pub(crate) fn knows_certified(&self, row: &Row) -> bool {
        match self {
            Self::Sqlite(reader) => reader.knows_certified(row),
        }
    }

    /// Calls `visit` with the summary of each certificate that matches `query`.
    pub(crate) async fn for_each(
        &mut self,
        query: &Query,
        visit: impl FnMut(&Summary) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.for_each(query, visit)?),
        }
    }

    /// Verifies certificates and joins them with the stored ones, or replaces these, so that they only have to be written.
    pub(crate) async fn prepare(
        &mut self,
        arrival: Arrival,
        preparation: &Preparation,
    ) -> Result<Intake, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.prepare(arrival, preparation)?),
        }
    }

    /// Prepares overtaken certificates again.
    pub(crate) async fn prepare_again(
        &mut self,
        intake: &mut Intake,
        preparation: &Preparation,
    ) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.prepare_again(intake, preparation)?),
        }
    }
}
