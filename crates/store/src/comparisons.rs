//! The certificates whose rows in `blob` and `cert` were compared, so that a look-up that reads one
//! row alone gives out no certificate that was replaced later
//! (`docs/decisions/0025-stale-pages.md`).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

use crate::blob::Blob;

/// Certificates of one entry of the map.
const CHUNK: u16 = 256;

/// Changes above which everything is forgotten instead of following them.
const CHANGES_MAX: i64 = 10_000;

/// Which version of each certificate is the last one, as far as somebody has compared its two rows
/// or has seen its change in the log. Connections to one store can share it. It takes some 4 bytes
/// for each certificate.
#[derive(Clone, Debug, Default)]
pub struct Comparisons(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// The last change in the log that was seen.
    until: i64,
    /// The version of each certificate, by chunks of numbers; 0 if it is not known. Numbers from a
    /// damaged file may be anything.
    versions: HashMap<i64, Box<[u32; CHUNK as usize]>>,
}

impl Known {
    fn version(&mut self, id: i64) -> &mut u32 {
        let chunk = self.versions.entry(id.div_euclid(CHUNK.into()));
        let chunk = chunk.or_insert_with(|| Box::new([0; CHUNK as usize]));
        &mut chunk[usize::try_from(id.rem_euclid(CHUNK.into())).expect("less than a chunk")]
    }
}

impl Comparisons {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }

    /// Takes in the changes that this state of the store has.
    pub(crate) fn follow(&self, connection: &Connection) -> rusqlite::Result<()> {
        let last: i64 = connection
            .prepare_cached("SELECT coalesce(max(number), 0) FROM change")?
            .query_row([], |row| row.get(0))?;
        let mut known = self.known();
        if last <= known.until {
            return Ok(());
        }
        if known.until == 0 || last - known.until > CHANGES_MAX {
            *known = Known { until: last, versions: HashMap::new() };
            return Ok(());
        }
        let mut changes =
            connection.prepare_cached("SELECT number, cert FROM change WHERE number > ?1")?;
        let mut rows = changes.query([known.until])?;
        while let Some(row) = rows.next()? {
            *known.version(row.get(1)?) = stamp(row.get(0)?);
        }
        known.until = last;
        Ok(())
    }

    /// Whether this is the last version of a certificate. If not, it may be, and somebody has to
    /// compare.
    pub(crate) fn knows(&self, blob: &Blob) -> bool {
        let version = version(blob);
        version != 0 && *self.known().version(blob.id) == version
    }

    /// Notes that this is the last version of a certificate in the state of the store that
    /// [`Self::follow`] has seen.
    pub(crate) fn note(&self, blob: &Blob) {
        let (version, mut known) = (version(blob), self.known());
        let before = known.version(blob.id);
        // A change that is in the log already is newer than what an older snapshot has.
        if *before == 0 || blob.change.is_some() && version > *before {
            *before = version;
        }
    }
}

/// The version that a change makes.
fn stamp(change: i64) -> u32 {
    u32::try_from(change).unwrap_or(0)
}

/// The version of a certificate. A row that names no change has its checksum.
fn version(blob: &Blob) -> u32 {
    match (blob.change, blob.former()) {
        (Some(change), _) => stamp(change),
        (None, Some(sum)) => u32::try_from(sum & 0xffff_ffff).unwrap_or(0),
        (None, None) => 0,
    }
}
