//! Table `redaction`: the user IDs that an operator keeps out of certificates.

use rusqlite::Connection;
use talaria_cert::{Cert, Fingerprint, Redacted, Redaction};

use crate::error::StoreError;
use crate::store::Store;
use crate::sums;

impl Store {
    pub(crate) fn has_redactions(&self) -> Result<bool, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM redaction)")?
                .query_row([], |row| row.get(0))
        })
    }

    /// `cert` without its redacted user IDs.
    pub(crate) fn redacted(&self, cert: &Cert) -> Result<Cert, StoreError> {
        Ok(self.run(|connection| of(connection, cert))?.apply(cert))
    }
}

/// Reads the redactions of `cert`.
pub(crate) fn of(connection: &Connection, cert: &Cert) -> rusqlite::Result<Redacted> {
    let rows = redaction_rows(connection, cert)?.into_iter();
    Ok(Redacted::new(rows.filter(|row| row.is_good).map(|row| row.redaction).collect()))
}

/// What may be joined of an offered copy: no user ID, if one of the redactions of the certificate
/// is damaged. What is stored stays.
pub(crate) fn admitted(connection: &Connection, cert: Cert) -> rusqlite::Result<Cert> {
    if redaction_rows(connection, &cert)?.iter().all(|row| row.is_good) {
        return Ok(cert);
    }
    Ok(Redacted::new(vec![Redaction::All]).apply(&cert))
}

fn redaction_rows(connection: &Connection, cert: &Cert) -> rusqlite::Result<Vec<RedactionRow>> {
    connection
        .prepare_cached(&format!("{REDACTIONS} WHERE fingerprint = ?1"))?
        .query_map([cert.fingerprint().to_stored()], RedactionRow::read)?
        .collect()
}

/// The columns of a [`RedactionRow`].
pub(crate) const REDACTIONS: &str = "SELECT fingerprint, user_id, sum FROM redaction";

/// A row of table `redaction`.
#[derive(Debug)]
pub(crate) struct RedactionRow {
    stored: Vec<u8>,
    /// All user IDs, if the row is damaged: nobody knows which one must not come back.
    pub(crate) redaction: Redaction,
    /// Whether the row is the one that was written.
    pub(crate) is_good: bool,
}

impl RedactionRow {
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (stored, user_id): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let is_good = sums::of_redaction(&stored, &user_id) == row.get::<_, i64>(2)?;
        let redaction = Redaction::from_stored(&user_id).filter(|_| is_good);
        Ok(Self {
            is_good: redaction.is_some(),
            redaction: redaction.unwrap_or(Redaction::All),
            stored,
        })
    }

    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        Some(Fingerprint::from_stored(&self.stored)?.0)
    }

    /// The name in a finding.
    pub(crate) fn name(&self) -> String {
        match self.fingerprint() {
            Some(fingerprint) => format!("a redaction of {fingerprint}"),
            None => "a redaction".to_owned(),
        }
    }
}
