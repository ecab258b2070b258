//! The checksums that certificates get in an upgrade, in pieces.

use rayon::prelude::*;
use rusqlite::Connection;
use talaria_cert::merge::bytes_digest;
use talaria_cert::{Cert, Summary, Verdict};

use crate::blob::{self, BytesDigest, Share};
use crate::ledger::Ledger;
use crate::revoker;
use crate::row::{self, RawRow};

/// Certificates of one transaction, and their size, above which none is added.
const COUNT: usize = 10_000;
const BYTES: usize = 64 << 20;

/// What the bytes of a certificate say.
struct Read {
    cert: Cert,
    verdicts: Vec<Verdict>,
    sks_digest: [u8; 16],
    digest: BytesDigest,
}

/// Writes checksums for the next certificates after an upgrade, within a transaction of the caller:
/// those that are missing, and those of the rows in `cert`, with which the rows in `blob` are bound
/// to them. A certificate whose stored digest does not confirm its bytes gets none, and counts as
/// damaged from then on. A summary that does not follow from its certificate is made anew at `now`.
pub(crate) fn next(connection: &Connection, now: u32) -> rusqlite::Result<()> {
    let Some(after) = blob::sealed_until(connection)? else { return Ok(()) };
    let blobs = blob::batch(connection, after, (COUNT, BYTES), Share::ALL)?;
    let last = blobs.last().map(|blob| blob.id);
    let read: Vec<Option<Read>> = blobs
        .par_iter()
        .map(|blob| {
            let (cert, verdicts) = blob.decode()?;
            let (sks_digest, digest) = (cert.sks_digest(), bytes_digest(&blob.bytes));
            Some(Read { cert, verdicts, sks_digest, digest })
        })
        .collect();
    for (blob, read) in blobs.iter().zip(read) {
        let Some(read) = read else { continue };
        // Another program has written it since.
        if blob.change.is_some()
            || !blob::is_confirmed(connection, "digest", blob.id, &read.sks_digest)?
        {
            continue;
        }
        let (Some(row), Some(former)) =
            (row::get(connection, blob.id)?, blob::seal(connection, blob, &read.digest)?)
        else {
            continue;
        };
        seal_row(connection, row, former, &read, now)?;
    }
    blob::set_sealed_until(connection, last)
}

fn seal_row(
    connection: &Connection,
    mut row: RawRow,
    former: i64,
    Read { cert, verdicts, .. }: &Read,
    now: u32,
) -> rusqlite::Result<()> {
    let at = |now| -> rusqlite::Result<Summary> {
        let mut summary = Summary::evaluate(cert, verdicts, now);
        revoker::ask(connection, cert, &mut summary, now, &Ledger::default())?;
        Ok(summary)
    };
    let stored = row.summary().filter(|stored| stored.fingerprint() == cert.fingerprint());
    let is_right = match &stored {
        // A summary is the same at any time within its span.
        Some(stored) => at(stored.holds.from)? == *stored,
        None => false,
    };
    if !is_right {
        let verifier = row.verifier;
        row = RawRow::new(row.id, cert.fingerprint(), row.change, &at(now)?);
        row.verifier = verifier;
    }
    RawRow { former: Some(former), ..row }.write(connection)
}
