//! Table `certifier`: the certificates with a certification that names a key ID as its issuer.

use rayon::prelude::*;
use rusqlite::Connection;
use talaria_cert::{Cert, KeyId};
use talaria_trust::issuers;

use crate::blob::{self, Integrity, Share};
use crate::derive::Failure;
use crate::sorter::Sorter;

/// Number of certificates that are held in memory at once.
const CHUNK: usize = 512;

/// Once a chunk has this many bytes of certificates, no further certificate is added to it: 16 MiB.
const CHUNK_BYTES: usize = 16 << 20;

/// Memory for sorting before files are used: 64 MiB.
const SORT_BYTES: usize = 64 << 20;

/// Visits all certificates with the issuers of their certifications.
pub(super) fn each_with_issuers(
    connection: &Connection,
    mut visit: impl FnMut(i64, Vec<KeyId>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut after = 0;
    loop {
        let blobs = blob::batch(connection, after, (CHUNK, CHUNK_BYTES), Share::ALL)?;
        let Some(last) = blobs.last() else { return Ok(()) };
        after = last.id;
        let found: Vec<(i64, Vec<KeyId>)> = blobs
            .into_par_iter()
            .map(|blob| {
                let is_damaged = matches!(blob.integrity(), Integrity::Bytes | Integrity::Stale);
                let cert = Cert::from_canonical(blob.bytes).ok().filter(|_| !is_damaged);
                (blob.id, cert.map_or(vec![], |cert| issuers(&cert)))
            })
            .collect();
        found.into_iter().try_for_each(|(id, issuers)| visit(id, issuers))?;
    }
}

/// Fills the table of certifications by issuer.
pub(super) fn index_issuers(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    let failed = |failure| match failure {
        Failure::Engine(error) => error,
        Failure::Io(error) => rusqlite::Error::ToSqlConversionFailure(Box::new(error)),
    };
    let mut sorter = Sorter::<16>::new(&std::env::temp_dir(), SORT_BYTES);
    each_with_issuers(connection, |id, issuers| {
        for issuer in issuers {
            let mut record = [0; 16];
            record[..8].copy_from_slice(&(issuer.0 ^ 1 << 63).to_be_bytes());
            record[8..].copy_from_slice(&id.to_be_bytes());
            sorter.push(record).map_err(|error| failed(error.into()))?;
        }
        Ok(())
    })?;
    let mut insert = connection.prepare(&format!("INSERT INTO {table} VALUES (?1, ?2)"))?;
    let drained: Result<(), Failure> = sorter.drain(|record| {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n: u64, &o| n << 8 | u64::from(o));
        let handle = (number(&record[..8]) ^ 1 << 63).cast_signed();
        insert.execute((handle, number(&record[8..]).cast_signed()))?;
        Ok(())
    });
    drained.map_err(failed)
}

/// The index of issuers of a web of trust that does not exist yet, as a temporary table: the store
/// itself gets the index under the lock.
pub(super) struct FirstIndex<'c>(&'c Connection);

impl<'c> FirstIndex<'c> {
    pub(super) fn make(connection: &'c Connection) -> rusqlite::Result<Self> {
        let index = Self(connection);
        // In a file, since it grows with the store.
        connection.execute_batch(
            "PRAGMA temp_store = FILE; \
             CREATE TEMP TABLE first_certifier (handle, cert, PRIMARY KEY (handle, cert)) WITHOUT ROWID;",
        )?;
        index_issuers(connection, "temp.first_certifier")?;
        Ok(index)
    }
}

impl Drop for FirstIndex<'_> {
    fn drop(&mut self) {
        // Setting this deletes all temporary tables.
        let _ = self.0.execute_batch("PRAGMA temp_store = MEMORY");
    }
}
