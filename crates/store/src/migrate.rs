//! Migrating a store of an older format to the format that this version writes.

use std::path::Path;

use rusqlite::Connection;
use talaria_cert::View;

use crate::derive::Failure;
use crate::ledger::Ledger;
use crate::remake::{Verdicts, remake, remake_keys};
use crate::schema::{self, TextIndex};
use crate::texts::fill_text;
use crate::{blob, format, inventory, keyserver, meta, texts, tofu, trust};

/// The version of the verifier that made the verdicts in stores of format 3 or older.
const FORMAT_3_VERIFIER: u8 = 1;

/// Migrates a store of an older format to the current format, within a transaction of the caller.
///
/// From a format before 4, derived tables are rebuilt from the certificates. Signatures that this
/// verifier may judge differently are verified again. Addresses are converted to the current form
/// for comparison. A certificate that cannot be read keeps its bytes and gets no rows; a check
/// reports it. From format 4, only the index of key IDs and the full-text indexes are rebuilt, from
/// format 5 only the index of key IDs and that of words, from format 8 only that of key IDs, and
/// from format 9 nothing. The certificates get their checksums afterwards, in pieces
/// ([`crate::seal::next`]). Checksums of certificates from before format 8 stay in their own table
/// until these are written again.
///
/// A certificate gets a checksum only if its stored digest confirms its bytes. Memory is bounded;
/// temporary files go to `folder`.
pub(crate) fn migrate(
    connection: &Connection,
    from: i64,
    now: u32,
    folder: &Path,
) -> Result<(), Failure> {
    if from < 2 {
        connection.execute_batch(schema::KEYSERVER)?;
    }
    if from < 3 {
        connection.execute_batch(schema::TOFU)?;
    }
    schema::widen(connection, from)?;
    if from < 5 {
        connection.execute_batch(schema::CHECKSUM)?;
    }
    if from < format::OWNERS_FORMAT {
        // Older formats name no peer. The peers will be asked again.
        connection.execute_batch("DROP TABLE IF EXISTS unobtainable")?;
        connection.execute_batch(schema::UNOBTAINABLE)?;
    }
    if from < 4 {
        if from < 2 {
            connection
                .execute_batch("ALTER TABLE digest ADD COLUMN view INTEGER NOT NULL DEFAULT 0")?;
        }
        tofu::join_decisions(connection)?;
        keyserver::rename_published(connection)?;
        remake(connection, now, folder, Verdicts::Stored(FORMAT_3_VERIFIER), |_, _| ())?;
        if from < 3 {
            trust::adopt(connection, now)?;
        } else {
            trust::renew(connection, now, &Ledger::default())?;
        }
    } else if from < format::HOLDINGS_FORMAT {
        remake_keys(connection, folder)?;
    }
    meta::seal(connection)?;
    inventory::TABLES.into_iter().try_for_each(|table| inventory::take(connection, table))?;
    if from >= 4 {
        blob::set_sealed_until(connection, Some(0))?;
    }
    if from >= 4 {
        texts::add_late(connection)?;
        for index in TextIndex::ALL {
            if index.has_table(connection)? && !index.is_of_this_version(connection)? {
                index.forget_new(connection)?;
                connection.execute_batch(&format!("DROP TABLE {}", index.table()))?;
                index.create(connection)?;
                fill_text(connection, index)?;
            }
        }
    }
    forget_digests_of_version_6(connection)?;
    connection.execute_batch(&format!("PRAGMA user_version = {}", format::FORMAT))?;
    Ok(())
}

/// Removes the digests that the view of Hockeypuck 2.1 had of certificates of version 6. A stored
/// fingerprint begins with the version.
fn forget_digests_of_version_6(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute(
            "DELETE FROM digest WHERE view = ?1 AND cert IN \
             (SELECT id FROM cert WHERE substr(fingerprint, 1, 1) = x'06')",
            [View::Hockeypuck21.number()],
        )
        .map(drop)
}
