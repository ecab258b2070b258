//! Table `tombstone`: the certificates that were deleted, and whether they may come back.

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::Fingerprint;

use crate::number::ChangeNumber;
use crate::{inventory, sums};

/// Whether a deleted certificate can be imported again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Return {
    /// The certificate can be imported again.
    #[default]
    Allowed,
    /// The certificate is refused from now on.
    Blocked,
}

/// A certificate that was deleted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tombstone {
    /// The fingerprint of the certificate.
    pub fingerprint: Fingerprint,
    /// The number of the change that deleted it.
    pub change: ChangeNumber,
    /// Whether the certificate can be imported again.
    pub returning: Return,
}

/// The columns of a [`Grave`].
pub(crate) const GRAVES: &str = "SELECT fingerprint, change, blocked, sum FROM tombstone";

/// A row of table `tombstone`, in its stored form.
#[derive(Debug)]
pub(crate) struct Grave {
    stored: Vec<u8>,
    pub(crate) change: i64,
    blocked: bool,
    /// Whether the row is the one that was written.
    pub(crate) is_good: bool,
}

impl Grave {
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (stored, change, blocked): (Vec<u8>, i64, i64) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let sum = sums::of_tombstone(&stored, change, blocked == 1);
        let is_good = matches!(blocked, 0 | 1) && sum == row.get::<_, i64>(3)?;
        Ok(Self { stored, change, blocked: blocked == 1, is_good })
    }

    /// Whether the certificate must not come back. If the row is damaged, it must not.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked || !self.is_good
    }

    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        Some(Fingerprint::from_stored(&self.stored)?.0)
    }

    /// The name in a finding.
    pub(crate) fn name(&self) -> String {
        match self.fingerprint() {
            Some(fingerprint) => format!("the tombstone of {fingerprint}"),
            None => "a tombstone".to_owned(),
        }
    }
}

/// The tombstone of a certificate.
pub(crate) fn grave(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<Option<Grave>> {
    connection
        .prepare_cached(&format!("{GRAVES} WHERE fingerprint = ?1"))?
        .query_row([fingerprint.to_stored()], Grave::read)
        .optional()
}

/// Whether a certificate must not come back.
pub(crate) fn is_blocked(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<bool> {
    Ok(grave(connection, fingerprint)?.is_some_and(|grave| grave.is_blocked()))
}

/// Removes the tombstone of a certificate that comes back. A damaged one stays for a check.
pub(crate) fn forget_tombstone(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<()> {
    if grave(connection, fingerprint)?.is_none_or(|grave| !grave.is_good) {
        return Ok(());
    }
    inventory::remove(connection, "tombstone", "fingerprint = ?1", [fingerprint.to_stored()])?;
    Ok(())
}

/// Records that a certificate was deleted, and whether it is blocked.
pub(crate) fn bury(
    connection: &Connection,
    fingerprint: &[u8],
    change: i64,
    blocked: bool,
) -> rusqlite::Result<()> {
    let sum = sums::of_tombstone(fingerprint, change, blocked);
    inventory::remove(connection, "tombstone", "fingerprint = ?1", [fingerprint])?;
    inventory::add(connection, "tombstone", 4, (fingerprint, change, blocked, sum))
}
