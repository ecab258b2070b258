//! The engine: the one interface of the server to what it keeps. Behind it is SQLite.
//!
//! Certificates are named by fingerprint. A [`Row`] has the summary of one, and what its engine
//! needs to find it again. A [`Reading`] is one state of the store. Its operations may wait for
//! another machine, and give whole answers, so that few of them do; those of SQLite end at once,
//! except those that look at many certificates. Whoever needs these, or some milliseconds of
//! computation, gives the work to [`Engine::read`], which runs it where nobody waits for it. No
//! reading is held while bytes go to a client or come from one. Changes are conditional where
//! somebody else could have been faster: an [`Order`] holds unless its certificate has changed
//! since, and [`Engine::write`] leaves out what was overtaken.
//!
//! Another engine is one more variant of [`Engine`], [`Reading`] and the opaque types:
//! [`Position`], [`Intake`], and what is private in [`Row`] and [`Counting`]. It supplies each
//! operation below. What becomes of the certificates that arrive, and what is stored and indexed of
//! them, it gets from [`talaria_cert::merge`]: it reads what it has, calls `decide`, and writes the
//! records if nothing has changed since. The prefix trees of gossip are in memory, and follow its
//! log of changes.

pub(crate) mod command;
pub(crate) mod error;
pub(crate) mod facts;
pub(crate) mod order;
pub(crate) mod row;
mod sqlite;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use talaria_cert::{Address, Fingerprint, KeyId, Summary, View};
use talaria_recon::PrefixTree;

use crate::network::Network;
use crate::turns::TurnError;

pub use command::{Command, KeptOut, Outcome};
pub(crate) use error::{Cause, EngineError, OpenError};
pub(crate) use facts::Purpose;
pub use facts::{Access, GivenUp};
pub(crate) use facts::{
    Changed, Changes, Days, Facts, InVain, LINK_SECONDS_MAX, Note, Progress, Tally,
};
pub(crate) use order::{
    Arrival, Conflict, Done, Intake, Order, Preparation, Replacement, Since, Terms, Wish,
};
pub(crate) use row::{Bounds, Counting, Digested, Judging, Page, Position, Row, Sole};
pub(crate) use sqlite::Ended;
pub use talaria_cert::Peer;
pub(crate) use talaria_cert::merge::{IngestOutcome, Ingested, LeftOut, Stored};
pub(crate) use talaria_cert::{Query, Redaction};

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
    /// A secret of the store, for the tokens of a server.
    pub(crate) secret: Vec<u8>,
}

impl Engine {
    /// Opens the store at `path`. Waits for other processes end when `stop` is set.
    pub(crate) fn open(
        path: &Path,
        purpose: Purpose,
        stop: Arc<AtomicBool>,
    ) -> Result<Opened, OpenError> {
        let (sqlite, writer, secret) = Sqlite::open(path, purpose, stop)?;
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
        self.read_for(None, work).await
    }

    /// The same for a client: a network has one turn at a time, so that none has all of them.
    /// `None`: it has no limits.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub(crate) async fn read_for<T, E>(
        &self,
        network: Option<Network>,
        work: impl AsyncFnOnce(&mut Reading) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<EngineError> + From<TurnError> + Send + 'static,
    {
        let engine = self.clone();
        self.long_for(network, async move || work(&mut engine.reading().await?).await).await
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
        self.long_for(None, work).await
    }

    /// The same for a client, as [`Self::read_for`] does it.
    ///
    /// # Errors
    ///
    /// As [`Self::long`].
    pub(crate) async fn long_for<T, E>(
        &self,
        network: Option<Network>,
        work: impl AsyncFnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<TurnError> + Send + 'static,
    {
        match self {
            Self::Sqlite(sqlite) => sqlite.long(network, work).await,
        }
    }

    /// Writes prepared certificates, some at a time. Those that somebody else has changed since are
    /// left out, and are to be prepared again. With a preparation, those that were left out before
    /// are prepared again first, while nobody else can write.
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
        terms: Terms,
    ) -> Result<Result<Vec<Done>, Conflict>, EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.carry_out(orders, terms).await,
        }
    }

    /// Keeps or forgets something beside certificates. Returns how many records this is.
    pub(crate) async fn note(&self, note: Note) -> Result<u64, EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.note(note).await,
        }
    }

    /// One step of the work that additions and readings left for later. Returns whether there may
    /// be more.
    pub(crate) async fn tidy_step(&self) -> Result<bool, EngineError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.tidy_step().await,
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

    /// Brings the trees to the state of the store, whoever changed it. If there is none of `view`,
    /// the digests of the view are kept from now on, and a tree of them.
    pub(crate) async fn follow(&self, view: Option<View>) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => {
                let view = view.filter(|&view| !sqlite.has_tree(view));
                if let Some(view) = view {
                    sqlite.keep_view(view).await?;
                }
                let sqlite = Arc::clone(sqlite);
                let followed = tokio::task::spawn_blocking(move || {
                    view.map_or(Ok(()), |view| sqlite.add_tree(view))?;
                    sqlite.follow()
                });
                followed.await.map_err(|_| EngineError::Closed)?
            }
        }
    }

    /// Checks that the store has not been moved or replaced.
    pub(crate) async fn check(&self) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(sqlite) => {
                let sqlite = Arc::clone(sqlite);
                let checked = tokio::task::spawn_blocking(move || sqlite.check());
                checked.await.map_err(|_| EngineError::Closed)?
            }
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
    /// The certificates that match `query`; of those that have a key, the ones with it as their
    /// primary key first, then those with it as a subkey that has signed the primary key. May look
    /// at many if `query` is for words or a part of a text. None match a part if the engine would
    /// have to look at every certificate.
    pub(crate) async fn find(
        &mut self,
        query: &Query,
        bounds: Bounds,
    ) -> Result<Page, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.find(query, bounds)?),
        }
    }

    /// The certificates that match a search for words, if the engine knows that the search is
    /// short, if they are at most `count`, and if no summary has more than `bytes_max` bytes.
    /// [`Self::find`] answers all other searches.
    pub(crate) async fn few(
        &mut self,
        query: &Query,
        count: usize,
        bytes_max: u32,
    ) -> Result<Option<Vec<Row>>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.few(query, count, bytes_max)?),
        }
    }

    /// The certificate with a fingerprint, key ID or address, if nothing else has it, it has at
    /// most `bytes_max` bytes, and no signature has to be verified for `judging`. So nearly all
    /// look-ups end. [`Self::find`] and [`Self::stored`] answer the others.
    pub(crate) async fn sole(
        &mut self,
        query: &Query,
        judging: Judging,
        bytes_max: u32,
    ) -> Result<Option<Sole>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.sole(query, judging, bytes_max)?),
        }
    }

    /// The certificate with this fingerprint, if it is here.
    pub(crate) async fn row(&mut self, name: Fingerprint) -> Result<Option<Row>, EngineError> {
        Ok(self.rows(&[name]).await?.pop())
    }

    /// Those of the certificates with these fingerprints that are here.
    pub(crate) async fn rows(&mut self, names: &[Fingerprint]) -> Result<Vec<Row>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.rows(names)?),
        }
    }

    /// A certificate with verdicts on its signatures. `None` if it has been deleted since.
    pub(crate) async fn stored(
        &mut self,
        row: &Row,
        judging: Judging,
    ) -> Result<Option<Stored>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.stored(row, judging)?),
        }
    }

    /// The bytes of each of these certificates.
    pub(crate) async fn lengths(&mut self, rows: &[Row]) -> Result<Vec<u64>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.lengths(rows)?),
        }
    }

    /// Those of the certificates with these digests that are here.
    pub(crate) async fn by_digests(
        &mut self,
        digests: &[[u8; 16]],
    ) -> Result<Vec<Digested>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.by_digests(digests)?),
        }
    }

    /// The certificates that have keys with these IDs, for the names of signers.
    pub(crate) async fn signers(
        &mut self,
        ids: &[KeyId],
    ) -> Result<HashMap<KeyId, Summary>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.signers(ids)?),
        }
    }

    /// The certificate whose owner confirmed an address.
    pub(crate) async fn confirmed(&mut self, email: &Address) -> Result<Option<Row>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.confirmed(email)?),
        }
    }

    /// What its owner and operators have said about each of these certificates, which need not be
    /// here.
    pub(crate) async fn facts(&mut self, names: &[Fingerprint]) -> Result<Vec<Facts>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.facts(names)?),
        }
    }

    /// The same about one certificate.
    pub(crate) async fn facts_of(&mut self, name: Fingerprint) -> Result<Facts, EngineError> {
        Ok(self.facts(&[name]).await?.pop().unwrap_or_default())
    }

    /// The generation of links to an address about a certificate.
    pub(crate) async fn generation(
        &mut self,
        name: Fingerprint,
        email: &Address,
    ) -> Result<u32, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.generation(name, email)?),
        }
    }

    /// The changes and counts of each day from `since` on (days since 1970).
    pub(crate) async fn days(&mut self, since: u32) -> Result<Days, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.days(since)?),
        }
    }

    /// The first bytes of the fingerprints of the certificates that changed on a day (days since
    /// 1970), in order, each once. Deleted certificates are among them.
    pub(crate) async fn changed_on(&mut self, day: u32) -> Result<Vec<[u8; 4]>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.changed_on(day)?),
        }
    }

    /// A number that grows with the changes. One row is read.
    pub(crate) async fn last_change(&mut self) -> Result<u64, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.last_change()?),
        }
    }

    /// The number of certificates that peers were asked for in vain. All of them are read: see
    /// [`crate::figures::Figures::in_vain`].
    pub(crate) async fn in_vain_count(&mut self) -> Result<u64, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.in_vain_count()?),
        }
    }

    /// The certificates that changed after a position and are here. `None` if they are more than
    /// `max`.
    pub(crate) async fn changed(
        &mut self,
        after: Position,
        max: usize,
    ) -> Result<Option<Changed>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.changed(after, max)?),
        }
    }

    /// Calls `visit` with the summary of each certificate that matches `query`, and returns the end
    /// of the log of changes. `None` for a part of a text if the engine would have to look at every
    /// certificate.
    pub(crate) async fn scan(
        &mut self,
        query: &Query,
        visit: impl FnMut(&Summary) -> ControlFlow<()>,
    ) -> Result<Option<Position>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.scan(query, visit)?),
        }
    }

    /// Counts the next certificates, some 50 ms of them.
    pub(crate) async fn count_on(&mut self, counting: Counting) -> Result<Counting, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.count_on(counting)?),
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

    /// How often a peer was asked in vain for each of these certificates.
    pub(crate) async fn in_vain(
        &mut self,
        peer: &str,
        view: View,
        digests: &[[u8; 16]],
    ) -> Result<Vec<Option<InVain>>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.in_vain(peer, view, digests)?),
        }
    }

    /// The certificates that peers announced and did not deliver.
    pub(crate) async fn given_up(&mut self) -> Result<Vec<GivenUp>, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.given_up()?),
        }
    }

    /// Verifies certificates and joins them with the stored ones, or replaces these, so that they
    /// only have to be written.
    pub(crate) async fn prepare(
        &mut self,
        arrival: Arrival,
        preparation: &Preparation,
    ) -> Result<Intake, EngineError> {
        match self {
            Self::Sqlite(reader) => Ok(reader.prepare(arrival, preparation)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use talaria_cert::{Cert, Limits, Work};
    use talaria_corpus::{CorpusProfile, Generate};

    use super::*;
    use crate::answer::Refusal;

    /// Adds a certificate, and returns its last change.
    async fn add(engine: &Engine, cert: Cert) -> Position {
        let (name, mut store) = (cert.fingerprint(), engine.reading().await.unwrap());
        let preparation = Preparation { limits: Limits::default(), work: Work::UNBOUNDED };
        let intake = store.prepare(Arrival::Copies(vec![cert]), &preparation).await.unwrap();
        assert!(engine.write(intake, None).await.unwrap().is_written());
        let row = engine.reading().await.unwrap().row(name).await.unwrap();
        row.expect("the certificate").position()
    }

    #[tokio::test]
    async fn one_network_does_not_have_all_turns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certs.db");
        let engine = Engine::open(&path, Purpose::Serve, Arc::default()).unwrap().engine;
        let network = |n: u8| Some(Network::Net(std::net::IpAddr::from([192, 0, 2, n]).into()));
        let (end, ends) = tokio::sync::watch::channel(false);
        let begun = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = || begun.load(std::sync::atomic::Ordering::SeqCst);
        // More of them than turns, and half of the clients go.
        let works: Vec<_> = (0..40)
            .map(|number| {
                let (engine, begun, mut ends) = (engine.clone(), begun.clone(), ends.clone());
                let work = tokio::spawn(async move {
                    let work = async move || {
                        begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        let _ = ends.wait_for(|is_end| *is_end).await;
                        Ok::<_, Refusal>(())
                    };
                    engine.long_for(network(1), work).await
                });
                (number, work)
            })
            .collect();
        while count() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        works.iter().filter(|(number, _)| number % 2 == 0).for_each(|(_, work)| work.abort());
        let other = engine.read_for(network(2), async |_: &mut Reading| Ok::<_, Refusal>(7));
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), other).await.unwrap().unwrap(), 7);
        assert_eq!(count(), 1, "that of a client that has gone keeps the turn");
        end.send(true).unwrap();
        for (number, work) in works {
            assert!(number % 2 == 0 || work.await.unwrap().is_ok());
        }
        assert!((20..=21).contains(&count()));
    }

    #[test]
    fn an_order_holds_unless_its_certificate_or_a_link_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certs.db");
        let opened = Engine::open(&path, Purpose::Serve, Arc::default());
        let engine = opened.unwrap_or_else(|error| panic!("{error:?}")).engine;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let corpus = Generate { seed: 3, first: 0, count: 1, profile: CorpusProfile::small() };
        let cert = talaria_corpus::certs(&corpus).remove(0);
        let (fingerprint, key) = (cert.fingerprint(), cert.retain(|at, _| at == 0));
        let email: Address = "alice@example.org".parse().unwrap();
        runtime.block_on(async {
            let publish = async |since: Option<Position>| {
                let order = Order {
                    fingerprint,
                    wish: Wish::Publish { email: email.clone(), generation: 0 },
                    unless_changed_since: since.map(Since::Position),
                };
                let terms = Terms::now(Limits::default());
                engine.carry_out(vec![order], terms).await.unwrap().map(|_| ())
            };
            let before = add(&engine, key).await;
            let after = add(&engine, cert).await;
            assert_ne!(before, after);
            assert!(matches!(publish(Some(before)).await, Err(Conflict::Changed(_))));
            assert!(publish(Some(after)).await.is_ok());
            // The link has ended.
            assert!(matches!(publish(Some(after)).await, Err(Conflict::Changed(_))));
            let mut store = engine.reading().await.unwrap();
            let facts = store.facts_of(fingerprint).await.unwrap();
            assert_eq!(facts.published, std::slice::from_ref(&email));
            assert_eq!(store.generation(fingerprint, &email).await.unwrap(), 1);
            let withdraw = || Order {
                fingerprint,
                wish: Wish::Withdraw,
                unless_changed_since: Some(Since::Position(after)),
            };
            let all = vec![withdraw(), withdraw()];
            let done = engine.carry_out(all, Terms::now(Limits::default())).await.unwrap();
            // None of the orders is carried out.
            assert!(matches!(done, Err(Conflict::Missing(_))));
            let mut store = engine.reading().await.unwrap();
            assert!(store.row(fingerprint).await.unwrap().is_some());
        });
    }
}
