//! Several stores as one: the first is written to, all are searched, in the order given.
//!
//! A plain keyring file is a store too: it is read into memory when it is opened, by the same way as
//! any import, and never written.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use talaria_cert::{Cert, Fingerprint, Verification};
use talaria_store::{Access, Cursor, Order, Query, Row, Store};

use crate::import::{ImportOptions, import};
use crate::{Error, Input, Monitor};

/// A store that was opened.
pub struct Opened {
    /// The store, in memory if it is a keyring file.
    pub store: Store,
    /// The file.
    pub path: PathBuf,
    /// It is a keyring file.
    pub keyring: bool,
}

/// The stores that a command works on.
pub struct Stores(Vec<Opened>);

impl Stores {
    /// Opens `paths`; `access` is for the first, the others are only read.
    ///
    /// # Errors
    ///
    /// What [`Store::open`] or reading a keyring file can meet.
    pub fn open(paths: &[PathBuf], access: Access, now: u32) -> Result<Self, Error> {
        let mut stores = Vec::with_capacity(paths.len());
        for (at, path) in paths.iter().enumerate() {
            let access = if at == 0 { access } else { Access::Read };
            stores.push(open(path, access, now)?);
        }
        Ok(Self(stores))
    }

    /// The stores, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Opened> {
        self.0.iter()
    }

    /// The store to write to.
    ///
    /// # Errors
    ///
    /// [`Error::Keyring`] if the first one is a keyring file.
    pub fn writable(&mut self) -> Result<&mut Store, Error> {
        let first = &mut self.0[0];
        if first.keyring {
            return Err(Error::Keyring { path: first.path.clone() });
        }
        Ok(&mut first.store)
    }

    /// Visits what any of `queries` names, everything if there is none, each certificate once: the
    /// first store that has it speaks. Summaries are as of `now`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for a query that names nothing, after all were tried; what reading can meet.
    pub fn visit(
        &self,
        queries: &[Query],
        order: Order,
        now: u32,
        mut visit: impl FnMut(&Opened, Row) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        // One store without a query cannot name a certificate twice.
        let mut seen = (self.0.len() > 1 || queries.len() > 1).then(HashSet::new);
        let mut missing = None;
        let mut failed = None;
        let mut done = false;
        let mut each = |opened: &Opened, row: Row, done: &mut bool| -> ControlFlow<()> {
            let fingerprint = row.summary.fingerprint();
            if seen.as_mut().is_some_and(|seen| !seen.insert(fingerprint)) {
                return ControlFlow::Continue(());
            }
            let result = opened.store.current(row, now).map_err(Error::from);
            match result.and_then(|row| visit(opened, row)) {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                Ok(ControlFlow::Break(())) => {
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
            for opened in &self.0 {
                opened.store.walk(&mut Cursor::start(order), |row| each(opened, row, &mut done))?;
                if done {
                    break;
                }
            }
        }
        for query in queries {
            let mut found = false;
            for opened in &self.0 {
                opened.store.for_each_match(query, |row| {
                    found = true;
                    each(opened, row, &mut done)
                })?;
                if done {
                    break;
                }
            }
            if !found {
                missing.get_or_insert(query);
            }
        }
        match (failed, missing) {
            (Some(error), _) => Err(error),
            (None, Some(query)) => Err(Error::NotFound { query: query.to_string() }),
            (None, None) => Ok(()),
        }
    }

    /// The union of all copies of a certificate in the stores.
    ///
    /// # Errors
    ///
    /// What reading can meet.
    pub fn cert(&self, fingerprint: Fingerprint) -> Result<Option<Cert>, Error> {
        let mut joined: Option<Cert> = None;
        for opened in &self.0 {
            if let Some(stored) = opened.store.get(fingerprint)? {
                joined = Some(match joined {
                    Some(cert) if cert.packets().next() == stored.cert.packets().next() => {
                        cert.union(&stored.cert)
                    }
                    Some(cert) => cert,
                    None => stored.cert,
                });
            }
        }
        Ok(joined)
    }
}

fn open(path: &Path, access: Access, now: u32) -> Result<Opened, Error> {
    let opened = |store, keyring| Opened { store, path: path.to_owned(), keyring };
    if !is_keyring(path) {
        return Ok(opened(Store::open(path, access)?, false));
    }
    let mut store = Store::in_memory(path)?;
    let input = Input::Path(path.to_owned());
    let options = ImportOptions { verification: Verification::Full, now };
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

/// Whether a file holds something, and that is not a store.
fn is_keyring(path: &Path) -> bool {
    let mut head = [0; 16];
    match File::open(path).and_then(|mut file| file.read(&mut head)) {
        Ok(0) | Err(_) => false,
        Ok(_) => !head.starts_with(b"SQLite format 3\0"),
    }
}
