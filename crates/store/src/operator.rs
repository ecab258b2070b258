//! What an operator decides about a store: what is kept out of it, and which indexes it has.

use std::borrow::Borrow;
use std::path::Path;

use rusqlite::Connection;
use talaria_cert::{Address, Fingerprint, Limits, Redaction, Timestamp, Verification};
use talaria_disk::folder_of;

use crate::derive::Failure;
use crate::derive::failed;
use crate::error::StoreError;
use crate::redaction::{REDACTIONS, RedactionRow};
use crate::remake::make_keygrips;
use crate::schema::{self, TextIndex};
use crate::store::Store;
use crate::texts::fill_text;
use crate::{aside, inventory, sums, texts, tombstone};

/// The decisions of an operator: blocked and redacted certificates, limits, and optional indexes.
#[derive(Debug)]
pub struct Operator<S>(S);

impl Store {
    /// The decisions of the operator.
    #[must_use]
    pub fn operator(&self) -> Operator<&Self> {
        Operator(self)
    }

    /// The decisions of the operator, for changing them.
    #[must_use]
    pub fn operator_mut(&mut self) -> Operator<&mut Self> {
        Operator(self)
    }
}

impl<S: Borrow<Store>> Operator<S> {
    fn store(&self) -> &Store {
        self.0.borrow()
    }

    /// Whether a certificate is blocked from being imported again.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn is_blocked(&self, fingerprint: Fingerprint) -> Result<bool, StoreError> {
        self.store().run(|connection| tombstone::is_blocked(connection, fingerprint))
    }

    /// Whether user IDs of a certificate are redacted.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn is_redacted(&self, fingerprint: Fingerprint) -> Result<bool, StoreError> {
        self.store().run(|connection| {
            connection
                .prepare_cached("SELECT count(*) FROM redaction WHERE fingerprint = ?1")?
                .query_row([fingerprint.to_stored()], |row| row.get::<_, i64>(0).map(|n| n > 0))
        })
    }

    /// All redactions, by fingerprint.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn redactions(&self) -> Result<Vec<(Fingerprint, Redaction)>, StoreError> {
        let rows = self.store().run(|connection| {
            connection
                .prepare_cached(&format!("{REDACTIONS} ORDER BY fingerprint, user_id"))?
                .query_map([], RedactionRow::read)?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let damaged = || self.store().damaged("a row of table redaction");
        rows.into_iter()
            .map(|row| Ok((row.fingerprint().ok_or_else(damaged)?, row.redaction)))
            .collect()
    }
}

impl Operator<&mut Store> {
    /// Applies `limits` to all later writes through this value, for certificates that anybody may
    /// submit. Certificates already in the store stay unchanged until they are written again.
    pub fn set_limits(&mut self, limits: Limits) {
        self.0.limits = limits;
    }

    /// Allows blocked certificates to be imported again. Returns how many of them were blocked.
    ///
    /// # Errors
    ///
    /// As [`Store::delete`].
    pub fn unblock(&mut self, fingerprints: &[Fingerprint]) -> Result<u64, StoreError> {
        self.0.transaction(|connection, _| {
            let mut count = 0;
            for fingerprint in fingerprints {
                let grave = tombstone::grave(connection, *fingerprint)?;
                if let Some(grave) = grave.filter(tombstone::Grave::is_blocked) {
                    tombstone::bury(connection, &fingerprint.to_stored(), grave.change, false)?;
                    count += 1;
                }
            }
            Ok(count)
        })
    }

    /// Removes user IDs of a certificate permanently, all or none: later copies lose them, too, and
    /// confirmed addresses are removed with them. The key, its revocations and its subkeys stay.
    /// Returns whether the certificate was in the store. The bytes of the user IDs are overwritten
    /// gradually, or at once by [`Store::compact`].
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn redact(
        &mut self,
        fingerprint: Fingerprint,
        redactions: &[Redaction],
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let now = now.seconds();
        self.0.atomically(|store| {
            let stored = fingerprint.to_stored();
            store.transaction(|connection, _| {
                for redaction in redactions {
                    let user_id = redaction.stored();
                    let sum = sums::of_redaction(&stored, user_id);
                    let condition = "fingerprint = ?1 AND user_id = ?2";
                    inventory::remove(connection, "redaction", condition, (&stored, user_id))?;
                    inventory::add(connection, "redaction", 3, (&stored, user_id, sum))?;
                }
                aside::forget(connection, fingerprint)
            })?;
            let here = store.get(fingerprint)?;
            let is_here = here.is_some();
            let mut emails: Vec<Address> = Vec::new();
            if let Some(here) = here {
                // Ingesting the certificate again removes the redacted user IDs from the stored
                // copy.
                let redacted = store.redacted(&here.cert)?;
                emails.extend(redacted.user_ids().filter_map(Address::of_user_id));
                store.ingest(vec![redacted], Verification::Full, now.into())?;
            }
            for email in store.keyserver().published(fingerprint)? {
                if !emails.contains(&email) {
                    store.keyserver_mut().unpublish(fingerprint, &email, now.into())?;
                }
            }
            Ok(is_here)
        })
    }

    /// Allows redacted user IDs to come back. Returns the number of redactions.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn unredact(&mut self, fingerprint: Fingerprint) -> Result<u64, StoreError> {
        self.0.transaction(|connection, _| {
            let key = [fingerprint.to_stored()];
            inventory::remove(connection, "redaction", "fingerprint = ?1", key)
        })
    }

    /// Adds a full-text index, filled from the certificates, in one transaction.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn add_index(&mut self, index: TextIndex) -> Result<(), StoreError> {
        if self.0.has_index(index)? {
            return Ok(());
        }
        self.add(|connection, _| {
            texts::add_late(connection)?;
            index.create(connection)?;
            fill_text(connection, index)
        })
    }

    /// Adds the index of keygrips, filled from the certificates, in one transaction.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn add_keygrips(&mut self) -> Result<(), StoreError> {
        if self.0.has_keygrips()? {
            return Ok(());
        }
        self.add(make_keygrips)
    }

    /// Adds an index in one transaction. `fill` gets the connection and a folder for temporary
    /// files.
    fn add(
        &mut self,
        fill: impl FnOnce(&Connection, &Path) -> Result<(), Failure>,
    ) -> Result<(), StoreError> {
        let path = self.0.path.clone();
        let mut failure = None;
        let result = self.0.transaction(|connection, _| match fill(connection, folder_of(&path)) {
            Ok(()) => Ok(()),
            Err(Failure::Engine(error)) => Err(error),
            Err(other) => {
                failure = Some(failed(&path, other));
                Err(rusqlite::Error::QueryReturnedNoRows)
            }
        });
        failure.map_or(result, Err)
    }

    /// Removes the index of keygrips. A search for a keygrip then reads all certificates.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn drop_keygrips(&mut self) -> Result<(), StoreError> {
        self.0.transaction(|connection, _| connection.execute_batch("DROP TABLE IF EXISTS keygrip"))
    }

    /// Removes a full-text index. Searches then work without it, but slower.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn drop_index(&mut self, index: TextIndex) -> Result<(), StoreError> {
        self.0.transaction(|connection, _| {
            index.forget_new(connection)?;
            connection.execute_batch(&format!("DROP TABLE IF EXISTS {}", index.table()))
        })
    }

    /// Merges some segments of the full-text indexes. Each transaction adds a segment, and each
    /// search reads all segments. Returns whether there may be more to merge. One call writes at
    /// most about 64 pages of each index. It merges segments of equal size, so that a small
    /// addition does not rewrite a large index.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] or any error of a write; no data are lost.
    pub fn tidy(&mut self) -> Result<bool, StoreError> {
        const PAGES: i64 = 64;
        self.0.transaction(|connection, _| {
            let mut goes_on = texts::add_late(connection)? > 0;
            for index in TextIndex::ALL {
                if !index.exists(connection)? {
                    continue;
                }
                let table = index.table();
                schema::merge_seldom(connection, table)?;
                let command = format!("INSERT INTO {table} ({table}, rank) VALUES ('merge', ?1)");
                let before = connection.total_changes();
                connection.prepare_cached(&command)?.execute([PAGES])?;
                // The command itself counts as one change.
                goes_on |= connection.total_changes() - before > 1;
            }
            Ok(goes_on)
        })
    }
}
