//! Table `ownertrust`: how far the user trusts the owners of certificates. No other module reads or
//! writes it.

use rusqlite::{Connection, OptionalExtension as _, Row};
use talaria_cert::Fingerprint;

use crate::{inventory, sums};

/// GnuPG's number for an owner who is never trusted.
const NEVER: u8 = 3;

const OWNERS: &str = "SELECT fingerprint, value, sum FROM ownertrust";

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Owner {
    stored: Vec<u8>,
    /// In GnuPG's numbers. "Never" if the row is damaged.
    pub(crate) value: u8,
    /// Whether the row is the one that was written.
    pub(crate) is_good: bool,
}

impl Owner {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let stored: Vec<u8> = row.get(0)?;
        let value = row.get::<_, u8>(1).ok();
        let sum: i64 = row.get(2)?;
        let good = value.filter(|&value| sums::of_ownertrust(&stored, value) == sum);
        Ok(Self { stored, value: good.unwrap_or(NEVER), is_good: good.is_some() })
    }

    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        Some(Fingerprint::from_stored(&self.stored)?.0)
    }

    /// The name in a finding.
    pub(crate) fn name(&self) -> String {
        match self.fingerprint() {
            Some(fingerprint) => format!("the owner trust of {fingerprint}"),
            None => "an owner trust".to_owned(),
        }
    }
}

/// All rows, in key order.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Vec<Owner>> {
    connection
        .prepare_cached(&format!("{OWNERS} ORDER BY fingerprint"))?
        .query_map([], Owner::read)?
        .collect()
}

/// The trust in the owner of a certificate, by the stored form of its fingerprint.
pub(crate) fn get(connection: &Connection, fingerprint: &[u8]) -> rusqlite::Result<Option<u8>> {
    let owner = connection
        .prepare_cached(&format!("{OWNERS} WHERE fingerprint = ?1"))?
        .query_row([fingerprint], Owner::read)
        .optional()?;
    Ok(owner.map(|owner| owner.value))
}

/// Records the trust in the owner of a certificate; 0 for none.
pub(crate) fn set(connection: &Connection, fingerprint: &[u8], value: u8) -> rusqlite::Result<()> {
    inventory::remove(connection, "ownertrust", "fingerprint = ?1", [fingerprint])?;
    if value == 0 {
        return Ok(());
    }
    let sum = sums::of_ownertrust(fingerprint, value);
    inventory::add(connection, "ownertrust", 3, (fingerprint, value, sum))
}
