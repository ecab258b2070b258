//! Damaged bytes of certificates that were repaired: table `set_aside`.
//!
//! They may be all that is left of a revocation or of a signature by others, so that a repair keeps
//! them. They hold the user IDs of the certificate, so that deleting or redacting the certificate
//! deletes them.

use rusqlite::Connection;
use talaria_cert::Fingerprint;

use crate::sums;

/// Sets damaged bytes aside.
pub(crate) fn add(
    connection: &Connection,
    bytes: &[u8],
    fingerprint: Option<Fingerprint>,
    now: u32,
) -> rusqlite::Result<()> {
    let stored = fingerprint.map(|fingerprint| fingerprint.to_stored());
    let sum = sums::of_set_aside(now, stored.as_deref().unwrap_or_default(), bytes);
    connection
        .prepare_cached(
            "INSERT INTO set_aside (time, fingerprint, bytes, sum) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((now, stored, bytes, sum))?;
    Ok(())
}

/// Deletes what repairs have set aside of a certificate that is deleted or redacted: its user IDs
/// are among the bytes.
pub(crate) fn forget(connection: &Connection, fingerprint: Fingerprint) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM set_aside WHERE fingerprint = ?1")?
        .execute([fingerprint.to_stored()])
        .map(drop)
}
