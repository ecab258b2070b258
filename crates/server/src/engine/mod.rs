//! The engine: the one interface of the server to what it keeps. Behind it is SQLite.
//!
//! Certificates are named by fingerprint; a [`Place`] from an earlier answer saves the look-up. A [`Reading`] is one state of
//! the store. Its operations end at once, except those that look at many certificates. Whoever needs these, or some
//! milliseconds of computation, gives the work to [`Engine::read`], which runs it where nobody waits for it. Changes are
//! conditional where somebody else could have been faster: an [`Order`] can hold only if its certificate has not changed
//! since, [`Engine::publish`] decides by what is there at that moment, and [`Engine::write`] leaves out what was overtaken.
//! A [`Position`] in the log of changes says nothing but what came before.

pub(crate) mod error;
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
pub(crate) use order::{Conflict, Done, KeptOut, Order, Replacement, Wish};
pub(crate) use row::{Bounds, Page, Place, Position, Row};
pub(crate) use sqlite::{Changes, Counting, Ended, Facts, OpenError, Tally};
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
    pub(crate) fn reading(&self) -> Result<Reading, EngineError> {
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
        work: impl FnOnce(&Reading) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<EngineError> + From<TurnError> + Send + 'static,
    {
        let engine = self.clone();
        self.long(move || work(&engine.reading()?)).await
    }

    /// Runs work where it may take milliseconds.
    ///
    /// # Errors
    ///
    /// Those of `work`, and [`TurnError`] if others have all turns.
    pub(crate) async fn long<T, E>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
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
    /// prepared again.
    pub(crate) async fn write(&self, intake: Intake) -> Result<Intake, EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.write(intake).await,
        }
    }

    /// Prepares overtaken certificates again while nobody else can write.
    pub(crate) async fn prepare_in_turn(
        &self,
        intake: Intake,
        preparation: Preparation,
    ) -> Result<Intake, EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.prepare_in_turn(intake, preparation).await,
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

    /// Makes a certificate be found by an address if `decide` says so, from the facts at the moment of the change (`None`
    /// if the certificate is not here).
    pub(crate) async fn publish<D: Send + 'static>(
        &self,
        fingerprint: Fingerprint,
        email: Address,
        decide: impl FnOnce(Option<&Facts>) -> Result<(), D> + Send + 'static,
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

    /// One step of the work that additions left for later. Returns whether there is more.
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

    /// The views that there are prefix trees for.
    pub(crate) fn views(&self) -> Vec<View> {
        match self {
            Self::Sqlite(sqlite) => sqlite.views(),
        }
    }

    /// Looks at the prefix tree of a view; `None` if there is none.
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
    pub(crate) fn follow(&self) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => Ok(sqlite.follow()?),
        }
    }

    /// Keeps the digests of a view from now on, and a tree of them.
    pub(crate) async fn keep_view(&self, view: View) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => {
                while sqlite.add_view_step(view).await? {}
                let sqlite = Arc::clone(sqlite);
                let added = tokio::task::spawn_blocking(move || sqlite.add_tree(view));
                Ok(added.await.map_err(|_| EngineError::Closed)??)
            }
        }
    }

    /// Counts the next certificates. Takes some 50 ms.
    pub(crate) fn count_on(&self, counting: Counting) -> Result<Counting, EngineError> {
        match self {
            Self::Sqlite(sqlite) => Ok(sqlite.count_on(counting)?),
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

    /// Whether nothing can be written any more.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Sqlite(sqlite) => sqlite.has_ended(),
        }
    }

    /// Changes that wait.
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Self::Sqlite(sqlite) => sqlite.waiting(),
        }
    }

    /// Transactions so far.
    pub(crate) fn commits(&self) -> u64 {
        match self {
            Self::Sqlite(sqlite) => sqlite.commits(),
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

impl Reading {
    /// The certificates that own what `query` names: those with a key as their primary key first, then those with it as a
    /// subkey that has signed the primary key.
    pub(crate) fn owners(&self, query: &Query, bounds: Bounds) -> Result<Page, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.owners(query, bounds)?),
        }
    }

    /// The certificates that match `query`. May look at many.
    pub(crate) fn find(&self, query: &Query, bounds: Bounds) -> Result<Page, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.find(query, bounds)?),
        }
    }

    /// Whether parts of texts are found without looking at every certificate.
    pub(crate) fn finds_parts(&self) -> Result<bool, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.finds_parts()?),
        }
    }

    /// A certificate by the fingerprint of its primary key.
    pub(crate) fn row(&self, fingerprint: Fingerprint) -> Result<Option<Row>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.row(fingerprint)?),
        }
    }

    /// A certificate at a place.
    pub(crate) fn row_at(&self, place: Place) -> Result<Option<Row>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.row_at(place)?),
        }
    }

    /// A certificate with the verdicts on its signatures.
    pub(crate) fn stored(&self, place: Place) -> Result<Option<Stored>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.stored(place)?),
        }
    }

    /// Octets of a certificate.
    pub(crate) fn length(&self, place: Place) -> Result<u64, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.length(place)?),
        }
    }

    /// The verdicts on the signatures of a certificate, those by other keys included, a few minutes old at most. `None` if it is
    /// not here any more.
    pub(crate) fn certified(
        &self,
        row: &Row,
        cert: &Cert,
        verdicts: &[Verdict],
    ) -> Result<Option<Arc<[Verdict]>>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.certified(row, cert, verdicts)?),
        }
    }

    /// A certificate by its digest in some view.
    pub(crate) fn by_digest(&self, digest: [u8; 16]) -> Result<Option<(View, Place)>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.by_digest(digest)?),
        }
    }

    /// The certificate that has a key with this ID, for the name of a signer.
    pub(crate) fn signer(&self, id: KeyId) -> Result<Option<Summary>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.signer(id)?),
        }
    }

    /// The certificate whose owner confirmed an address.
    pub(crate) fn confirmed(&self, email: &Address) -> Result<Option<Row>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.confirmed(email)?),
        }
    }

    /// The addresses of a certificate that its owner confirmed.
    pub(crate) fn published(&self, fingerprint: Fingerprint) -> Result<Vec<Address>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.published(fingerprint)?),
        }
    }

    /// Whether a part of the certificate was removed for good.
    pub(crate) fn is_redacted(&self, fingerprint: Fingerprint) -> Result<bool, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.is_redacted(fingerprint)?),
        }
    }

    /// The generation of links to an address in a certificate.
    pub(crate) fn link_generation(
        &self,
        fingerprint: Fingerprint,
        email: &Address,
    ) -> Result<u32, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.link_generation(fingerprint, email)?),
        }
    }

    /// New, updated and deleted certificates of each day from `since` on (days since 1970).
    pub(crate) fn changes(&self, since: u32) -> Result<Changes, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.changes(since)?),
        }
    }

    /// The counts of each day from `since` on.
    pub(crate) fn tally(&self, since: u32) -> Result<Tally, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.tally(since)?),
        }
    }

    /// The certificates that changed on a day.
    pub(crate) fn changed_on(&self, day: u32) -> Result<Vec<Fingerprint>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.changed_on(day)?),
        }
    }

    /// All that is kept out.
    pub(crate) fn kept_out(&self) -> Result<Vec<KeptOut>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.kept_out()?),
        }
    }

    /// The gossip peers that operators have added.
    pub(crate) fn peers(&self) -> Result<Vec<Peer>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.peers()?),
        }
    }

    /// How often a peer was asked in vain for a certificate.
    pub(crate) fn in_vain(
        &self,
        peer: &str,
        view: View,
        digest: [u8; 16],
    ) -> Result<Option<Unobtainable>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.in_vain(peer, view, digest)?),
        }
    }

    /// The number of certificates that peers were asked for in vain.
    pub(crate) fn in_vain_count(&self) -> Result<u64, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.in_vain_count()?),
        }
    }

    /// The end of the log of changes.
    pub(crate) fn position(&self) -> Result<Position, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.position()?),
        }
    }

    /// The certificates that changed after a position, and the end of the log. `None` if they are more than `max`.
    pub(crate) fn changed_since(
        &self,
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
    pub(crate) fn for_each(
        &self,
        query: &Query,
        visit: impl FnMut(&Summary) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.for_each(query, visit)?),
        }
    }

    /// Verifies certificates and joins them with the stored ones, so that they only have to be written.
    pub(crate) fn prepare(
        &self,
        certs: Vec<Cert>,
        preparation: &Preparation,
    ) -> Result<Intake, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.prepare(certs, preparation)?),
        }
    }

    /// The same for a certificate that replaces the stored one.
    pub(crate) fn prepare_replacement(
        &self,
        cert: Cert,
        preparation: &Preparation,
    ) -> Result<Intake, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.prepare_replacement(cert, preparation)?),
        }
    }

    /// Prepares overtaken certificates again.
    pub(crate) fn prepare_again(
        &self,
        intake: &mut Intake,
        preparation: &Preparation,
    ) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.prepare_again(intake, preparation)?),
        }
    }
}
