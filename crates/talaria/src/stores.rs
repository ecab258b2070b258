//! Several stores that act as one: writes go to the first, reads search all of them in the given
//! order.
//!
//! A plain keyring file can be a store, too. It is read into memory on opening, like any import,
//! and never written.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use talaria_cert::{Cert, Fingerprint, Judge, Rules, Verified};
use talaria_store::{Access, Cursor, FileKind, Order, Query, Row, Store, StoreError, file_kind};

use crate::error::{Error, StoreFolderKind};
use crate::import::{ImportOptions, import};
use crate::progress::Monitor;
use crate::source::Input;

/// An open store.
pub struct Opened {
    /// The store; for a keyring file, a store in memory.
    pub store: Store,
    /// The path of the store.
    pub path: PathBuf,
    /// The path is a keyring file.
    pub keyring: bool,
}

impl Opened {
    /// The name of the store in a bookmark. A keyring file has no permanent name.
    fn name(&self) -> Result<String, Error> {
        Ok(if self.keyring { "keyring".to_owned() } else { self.store.name()? })
    }
}

/// A bookmark: a position in a visit of stores, from which another process can continue later.
///
/// The text form of a bookmark is `STORE/NAME/QUERY/CURSOR`: the index and the name of a store, the
/// index of a query, both counted from 0, and a [`Cursor`] in that store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bookmark {
    store: usize,
    name: String,
    query: usize,
    cursor: Cursor,
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.store, self.name, self.query, self.cursor)
    }
}

/// The reason why a text is no bookmark.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a token of a listing (STORE/NAME/QUERY/CURSOR)")]
pub struct BookmarkError;

impl FromStr for Bookmark {
    type Err = BookmarkError;

    fn from_str(text: &str) -> Result<Self, BookmarkError> {
        let parts: Vec<&str> = text.split('/').collect();
        let [store, name, query, cursor] = parts[..] else { return Err(BookmarkError) };
        let number = |text: &str| text.parse().map_err(|_| BookmarkError);
        Ok(Self {
            store: number(store)?,
            name: name.to_owned(),
            query: number(query)?,
            cursor: cursor.parse().map_err(|_| BookmarkError)?,
        })
    }
}

/// The stores that a command uses.
pub struct Stores {
    opened: Vec<Opened>,
    rules: Rules,
}

impl Stores {
    /// Opens the stores in `paths`. `access` applies to the first; the others are opened for
    /// reading.
    ///
    /// # Errors
    ///
    /// The errors of [`Store::open`] and of reading a keyring file.
    pub fn open(paths: &[PathBuf], access: Access, now: u32) -> Result<Self, Error> {
        let mut stores = Vec::with_capacity(paths.len());
        for (at, path) in paths.iter().enumerate() {
            let access = if at == 0 { access } else { Access::Read };
            stores.push(open(path, access, now)?);
        }
        Ok(Self { opened: stores, rules: Rules::default() })
    }

    /// The same stores, whose certificates count by `rules` when they are visited.
    #[must_use]
    pub fn judged_by(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// The stores in the given order.
    pub fn iter(&self) -> impl Iterator<Item = &Opened> {
        self.opened.iter()
    }

    /// The store to write to.
    ///
    /// # Errors
    ///
    /// [`Error::Keyring`] if the first store is a keyring file.
    pub fn writable(&mut self) -> Result<&mut Store, Error> {
        let first = &mut self.opened[0];
        if first.keyring {
            return Err(Error::Keyring { path: first.path.clone() });
        }
        Ok(&mut first.store)
    }

    /// Visits the certificates that match any of `queries`, or all certificates if there is no
    /// query. Each certificate is visited once, in the first store that has it. Summaries are as of
    /// `now`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for a query without a match, after all queries were tried; errors of
    /// reading the stores.
    pub fn visit(
        &self,
        queries: &[Query],
        order: Order,
        now: u32,
        visit: impl FnMut(&Opened, Row) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        self.visit_after(None, queries, order, now, visit).map(drop)
    }

    /// Like [`Self::visit`], with summaries as they are stored: no certificate is read.
    pub(crate) fn visit_as_stored(
        &self,
        queries: &[Query],
        order: Order,
        visit: impl FnMut(&Opened, Row) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        self.visit_rows(None, queries, order, visit).map(drop)
    }

    /// Like [`Self::visit`], from the position `after` on, which an earlier visit with the same
    /// queries has returned. The order is that of the earlier visit. If `visit` breaks off, the
    /// function returns the position before the certificate where it stopped.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::visit`]; [`Error::Bookmark`] if `after` is no position in these stores
    /// and queries.
    pub fn visit_after(
        &self,
        after: Option<&Bookmark>,
        queries: &[Query],
        order: Order,
        now: u32,
        mut visit: impl FnMut(&Opened, Row) -> Result<ControlFlow<()>, Error>,
    ) -> Result<Option<Bookmark>, Error> {
        self.visit_rows(after, queries, order, |opened, row| {
            let row = opened.store.current(row, self.rules, now.into())?;
            visit(opened, row)
        })
    }

    fn visit_rows(
        &self,
        after: Option<&Bookmark>,
        queries: &[Query],
        order: Order,
        mut visit: impl FnMut(&Opened, Row) -> Result<ControlFlow<()>, Error>,
    ) -> Result<Option<Bookmark>, Error> {
        let order = after.map_or(order, |after| after.cursor.order());
        if let Some(after) = after {
            self.check(after, queries)?;
        }
        // With one store and at most one query, no certificate can match twice.
        let mut seen = (self.opened.len() > 1 || queries.len() > 1).then(HashSet::new);
        let mut missing = None;
        let mut failed = None;
        let mut done = false;
        let mut last = after.cloned();
        let mut broken_off = None;
        let mut each = |at: (usize, usize), row: Row, done: &mut bool| -> ControlFlow<()> {
            let (query, store) = at;
            let opened = &self.opened[store];
            let fingerprint = row.summary.fingerprint();
            let is_repeated = seen.as_mut().is_some_and(|seen| !seen.insert(fingerprint));
            let cursor = Cursor::behind(order, &row);
            // Certificates visited earlier must be known if a later query matches them again.
            let is_behind = after.is_none_or(|after| match at.cmp(&(after.query, after.store)) {
                Ordering::Less => false,
                Ordering::Equal => after.cursor.is_before(&cursor),
                Ordering::Greater => true,
            });
            if is_repeated || !is_behind {
                return ControlFlow::Continue(());
            }
            match visit(opened, row) {
                Ok(ControlFlow::Continue(())) => {
                    last = Some(Bookmark { query, store, name: String::new(), cursor });
                    ControlFlow::Continue(())
                }
                Ok(ControlFlow::Break(())) => {
                    broken_off = Some(last.take().unwrap_or(Bookmark {
                        query,
                        store,
                        name: String::new(),
                        cursor: Cursor::start(order),
                    }));
                    *done = true;
                    ControlFlow::Break(())
                }
                Err(error) => {
                    failed = Some(error);
                    *done = true;
                    ControlFlow::Break(())
                }
            }
        };
        if queries.is_empty() {
            for (at, opened) in self.opened.iter().enumerate() {
                // With several stores, the certificates before the position must be known.
                let mut cursor = match after {
                    Some(after) if self.opened.len() == 1 => after.cursor.clone(),
                    _ => Cursor::start(order),
                };
                opened.store.walk(&mut cursor, |row| each((0, at), row, &mut done))?;
                if done {
                    break;
                }
            }
        }
        for (number, query) in queries.iter().enumerate() {
            let mut found = false;
            for (at, opened) in self.opened.iter().enumerate() {
                opened.store.for_each_match(query, |row| {
                    found = true;
                    each((number, at), row, &mut done)
                })?;
                if done {
                    break;
                }
            }
            if done {
                break;
            }
            if !found {
                missing.get_or_insert(query);
            }
        }
        match (failed, missing) {
            (Some(error), _) => Err(error),
            (None, Some(query)) => Err(Error::NotFound { query: query.to_string() }),
            (None, None) => broken_off.map(|place| self.with_store_name(place)).transpose(),
        }
    }

    /// A bookmark with the name of its store.
    fn with_store_name(&self, place: Bookmark) -> Result<Bookmark, Error> {
        Ok(Bookmark { name: self.opened[place.store].name()?, ..place })
    }

    /// Checks that a bookmark is a position in these stores and queries.
    fn check(&self, place: &Bookmark, queries: &[Query]) -> Result<(), Error> {
        let opened = self.opened.get(place.store).ok_or(Error::Bookmark)?;
        let fits = place.query < queries.len().max(1)
            && (queries.is_empty() || place.cursor.order() == Order::Insertion)
            && opened.name()? == place.name;
        if fits { Ok(()) } else { Err(Error::Bookmark) }
    }

    /// The certificate with this fingerprint in the first store that has it, as of `now`. Another
    /// certificate with its primary key as a subkey is not meant.
    pub(crate) fn row(
        &self,
        fingerprint: Fingerprint,
        now: u32,
    ) -> Result<Option<(&Opened, Row)>, Error> {
        for opened in &self.opened {
            if let Some(row) = opened.store.row(fingerprint)? {
                let row = opened.store.current(row, self.rules, now.into())?;
                return Ok(Some((opened, row)));
            }
        }
        Ok(None)
    }

    /// The judge of the certificate with this fingerprint. Its designated revokers are those in the
    /// stores.
    ///
    /// # Errors
    ///
    /// Errors of reading the stores.
    pub fn judge(
        &self,
        fingerprint: Fingerprint,
        rules: Rules,
        now: u32,
    ) -> Result<Option<Judge>, Error> {
        let Some(known) = self.verified(fingerprint)? else { return Ok(None) };
        let mut failed = None;
        let judge = Judge::new(known, rules, now, |by| {
            let revoker = self.cert(by).map_err(|error| failed = Some(error)).ok()??;
            revoker.packets().next().map(|key| key.body.to_vec())
        });
        failed.map_or(Ok(Some(judge)), Err)
    }

    /// The certificate with this fingerprint, merged from its copies in all stores. Stored verdicts
    /// are not computed again.
    ///
    /// # Errors
    ///
    /// Errors of reading the stores.
    pub fn verified(&self, fingerprint: Fingerprint) -> Result<Option<Verified>, Error> {
        let mut joined: Option<Verified> = None;
        for opened in &self.opened {
            let Some(copy) = opened.store.verified(fingerprint)? else { continue };
            let is_same =
                |known: &Verified| known.cert().packets().next() == copy.cert().packets().next();
            joined = Some(match joined {
                Some(known) if is_same(&known) => known.union(copy.cert()),
                Some(known) => known,
                None => copy,
            });
        }
        Ok(joined)
    }

    /// The certificate merged from its copies in all stores.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn cert(&self, fingerprint: Fingerprint) -> Result<Option<Cert>, Error> {
        let (cert, failed) = self.joined(fingerprint);
        failed.into_iter().next().map_or(Ok(cert), |error| Err(error.into()))
    }

    /// The certificate merged from all copies that can be read, and the errors of the others.
    pub(crate) fn joined(&self, fingerprint: Fingerprint) -> (Option<Cert>, Vec<StoreError>) {
        let (mut joined, mut failed): (Option<Cert>, _) = (None, Vec::new());
        for opened in &self.opened {
            let cert = match opened.store.get(fingerprint) {
                Ok(Some(stored)) => stored.cert,
                Ok(None) => continue,
                Err(error) => {
                    failed.push(error);
                    continue;
                }
            };
            joined = Some(match joined {
                Some(joined) if joined.packets().next() == cert.packets().next() => {
                    joined.union(&cert)
                }
                Some(joined) => joined,
                None => cert,
            });
        }
        (joined, failed)
    }
}

fn open(path: &Path, access: Access, now: u32) -> Result<Opened, Error> {
    let opened = |store, keyring| Opened { store, path: path.to_owned(), keyring };
    if path.is_dir() {
        let is_home = talaria_gnupg::Home::open(path)?.is_some();
        let what = if is_home { StoreFolderKind::GnupgHome } else { StoreFolderKind::Other };
        return Err(Error::StoreFolder { path: path.to_owned(), what });
    }
    if !is_keyring(path) {
        return Ok(opened(Store::open(path, access)?, false));
    }
    let mut store = Store::in_memory(path)?;
    let input = Input::Path(path.to_owned());
    let options = ImportOptions::new(now);
    let stop = AtomicBool::new(false);
    let mut monitor = Monitor { report: &mut |_| {}, stop: &stop };
    let reports = import(&mut store, &[input], options, &mut monitor)?;
    match reports.into_iter().find_map(|report| report.error) {
        Some(_) => Err(Error::Unrecognised {
            name: path.display().to_string(),
            what: "neither a talaria store nor a keyring",
        }),
        None => Ok(opened(store, true)),
    }
}

/// Whether a file is not empty and is no store.
fn is_keyring(path: &Path) -> bool {
    file_kind(path).is_ok_and(|kind| kind == FileKind::Other)
}
