//! The web of trust of a store, for users: rules, owner trust, and results. `trust/` computes it.

use std::borrow::Borrow;

use talaria_cert::{Fingerprint, Timestamp};
use talaria_trust::Rules;

use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::store::Store;
use crate::trust::certifiers::Certifiers;
use crate::trust::evaluation::TrustReport;
use crate::trust::planned::Planned;
use crate::trust::rehearsal::rehearse;
use crate::trust::rules;
use crate::trust::view::{TrustView, view};
use crate::{owner, trust};

/// The web of trust over the certificates of a store.
#[derive(Debug)]
pub struct Web<S>(S);

impl Store {
    /// The web of trust.
    #[must_use]
    pub fn web(&self) -> Web<&Self> {
        Web(self)
    }

    /// The web of trust, for writing.
    #[must_use]
    pub fn web_mut(&mut self) -> Web<&mut Self> {
        Web(self)
    }
}

impl<S: Borrow<Store>> Web<S> {
    fn store(&self) -> &Store {
        self.0.borrow()
    }

    /// The rules of the web of trust. `None` if the store has no web because no key is ultimately
    /// trusted.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn rules(&self) -> Result<Option<Rules>, StoreError> {
        self.store().run(rules::get)
    }

    /// The web of trust at `now`. The store is not modified.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn at(&self, now: Timestamp) -> Result<TrustView, StoreError> {
        self.store().run(|connection| view(connection, now.seconds()))
    }

    /// The owner trust of a certificate, in GnuPG's numbers (0 unknown, 2 undefined, 3 never, 4
    /// marginal, 5 full, 6 ultimate; plus 128 if disabled).
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn ownertrust(&self, fingerprint: Fingerprint) -> Result<Option<u8>, StoreError> {
        self.store().run(|connection| owner::get(connection, &fingerprint.to_stored()))
    }

    /// All owner trust values that [`Self::set_ownertrust`] recorded, in key order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn ownertrusts(&self) -> Result<Vec<(Fingerprint, u8)>, StoreError> {
        let rows = self.store().run(owner::all)?;
        let damaged = || self.store().damaged("a row of table ownertrust");
        rows.iter().map(|row| Ok((row.fingerprint().ok_or_else(damaged)?, row.value))).collect()
    }

    /// Computes the signatures that the web of trust needs after planned changes, before the store
    /// is locked.
    pub(crate) fn rehearse(&self, planned: Planned<'_>, now: u32) -> Result<Ledger, StoreError> {
        let (store, mut ledger) = (self.store(), Ledger::default());
        // Within a transaction, the store is locked already.
        if !store.is_in_transaction {
            store.run(|connection| rehearse(connection, planned, now, &mut ledger))?;
        }
        Ok(ledger)
    }
}

impl<'s> Web<&'s Store> {
    /// The certifications by introducers at `now`. The store is not modified.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn certifiers(&self, now: Timestamp) -> Result<Certifiers<'s>, StoreError> {
        Certifiers::new(self.0, now.seconds())
    }
}

impl Web<&mut Store> {
    /// Changes the rules of the web of trust and recomputes it at `now`.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn set_rules(&mut self, rules: Rules, now: Timestamp) -> Result<TrustReport, StoreError> {
        let now = now.seconds();
        let ledger = self.rehearse(Planned { anew: Some(rules), ..Planned::default() }, now)?;
        self.0.transaction(|connection, _| {
            rules::set(connection, rules)?;
            trust::renew(connection, now, &ledger)
        })
    }

    /// Updates the web of trust to `now`. With `anew`, recomputes it from the
    /// certificates alone.
    ///
    /// # Errors
    ///
    /// As [`Self::set_rules`].
    pub fn update(&mut self, anew: bool, now: Timestamp) -> Result<TrustReport, StoreError> {
        let now = now.seconds();
        let anew_by = if anew { self.rules()? } else { None };
        let ledger = self.rehearse(Planned { anew: anew_by, ..Planned::default() }, now)?;
        self.0.transaction(|connection, _| trust::update(connection, anew, now, &ledger))
    }

    /// Records the owner trust of certificates, in GnuPG's numbers, all or none, and updates the
    /// web of trust. The certificates need not be in the store.
    ///
    /// # Errors
    ///
    /// As [`Self::set_rules`].
    pub fn set_ownertrust(
        &mut self,
        entries: &[(Fingerprint, u8)],
        now: Timestamp,
    ) -> Result<TrustReport, StoreError> {
        let now = now.seconds();
        let owners = entries.iter().map(|(by, value)| (by.to_stored(), *value)).collect();
        let ledger = self.rehearse(Planned { owners, ..Planned::default() }, now)?;
        self.0.transaction(|connection, _| trust::set_owners(connection, entries, now, &ledger))
    }
}
