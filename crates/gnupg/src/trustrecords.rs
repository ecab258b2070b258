//! The validity of certificates in GnuPG's `trustdb.gpg`, looked up as GnuPG does: by the hash
//! table, of which each level has one byte of the fingerprint.
//!
//! Nothing is computed here: the records have what GnuPG computed last, and [`TrustHead`] says when
//! and with which options.

use talaria_cert::Fingerprint;

use crate::error::GnupgError;
use crate::trustdb::{RECORD_BYTES, is_trustdb, record};

/// The number of records that a table of the hash has in each level: 256 items, nine a record.
const HASH_ITEMS: u8 = 9;

/// The number of items of a list in the hash.
const LIST_ITEMS: usize = 6;

/// The maximum number of records in a list. GnuPG has no limit.
const LIST_MAX: usize = 100_000;

/// The first record of a trust database.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TrustHead {
    /// How many certifications by marginally trusted keys make a key valid.
    pub marginals: u8,
    /// How many certifications by fully trusted keys make a key valid.
    pub completes: u8,
    /// The longest chain of certifications.
    pub depth: u8,
    /// GnuPG's number of the trust model: 0 classic, 1 pgp.
    pub model: u8,
    /// The least certification level that counts.
    pub level: u8,
    /// When the database was made, in seconds since 1970.
    pub created: u32,
    /// When the validity must be computed again, in seconds since 1970; 0 for never.
    pub next_check: u32,
    /// The record where the hash table starts.
    table: u32,
}

/// What a trust database has about a certificate.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TrustRecord {
    /// The ownertrust: 2 undefined, 3 never, 4 marginal, 5 full, 6 ultimate; 128 is added for a
    /// disabled key.
    pub ownertrust: u8,
    /// The validity of user IDs: the RIPEMD-160 of a user ID, and a value as for ownertrust.
    pub validities: Vec<([u8; 20], u8)>,
}

/// A trust database that was read into memory.
#[derive(Clone, Debug)]
pub struct TrustRecords {
    bytes: Vec<u8>,
    head: TrustHead,
}

impl TrustRecords {
    /// Takes the content of a trust database.
    ///
    /// # Errors
    ///
    /// [`GnupgError::NotTrustdb`].
    pub fn new(bytes: Vec<u8>) -> Result<Self, GnupgError> {
        let head = bytes.get(..RECORD_BYTES).filter(|head| is_trustdb(head));
        let Some(head) = head else { return Err(GnupgError::NotTrustdb) };
        let head = TrustHead {
            marginals: head[5],
            completes: head[6],
            depth: head[7],
            model: head[8],
            level: head[9],
            created: number(head, 12),
            next_check: number(head, 16),
            table: number(head, 36),
        };
        Ok(Self { bytes, head })
    }

    /// The first record.
    #[must_use]
    pub fn head(&self) -> &TrustHead {
        &self.head
    }

    /// Whether all records are whole, of types that exist, and with values that exist. GnuPG looks
    /// at all of them.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        const ULTIMATE: u8 = 6;
        let is_known = |record: &[u8]| match record[0] {
            record::TRUST | record::VALID => record[22] & 15 <= ULTIMATE,
            record::HASH_TABLE | record::HASH_LIST | record::UNUSED | record::FREE => true,
            _ => false,
        };
        let records = self.bytes.chunks_exact(RECORD_BYTES);
        records.remainder().is_empty() && records.skip(1).all(is_known)
    }

    /// The fingerprints of all keys whose owner is ultimately trusted, and whether an option of
    /// GnuPG (`--trusted-key`) made them so, in the order of the file. The hash is not looked at.
    pub fn ultimate(&self) -> impl Iterator<Item = (Fingerprint, bool)> {
        let records = self.bytes.chunks_exact(RECORD_BYTES);
        let trusts = records.filter(|record| record[0] == record::TRUST && record[22] & 15 == 6);
        trusts.filter_map(|record| {
            let fingerprint: [u8; 20] = record.get(2..22)?.try_into().ok()?;
            Some((Fingerprint::V4(fingerprint), record[25] & 1 != 0))
        })
    }

    /// The record of the certificate with a fingerprint of the primary key; `None` if there is
    /// none.
    ///
    /// # Errors
    ///
    /// [`GnupgError::Damaged`] if a record on the way is not of the type that it must have.
    pub fn find(&self, fingerprint: &[u8; 20]) -> Result<Option<TrustRecord>, GnupgError> {
        let Some(found) = self.find_in_table(fingerprint)? else { return Ok(None) };
        let mut out = TrustRecord { ownertrust: found[22], validities: Vec::new() };
        let mut next = number(found, 26);
        while next != 0 {
            let valid = self.record(next, record::VALID)?;
            let name = valid.get(2..22).and_then(|name| name.try_into().ok());
            out.validities.push((name.unwrap_or_default(), valid[22]));
            next = number(valid, 23);
            if out.validities.len() > LIST_MAX {
                return Err(damaged(next, "is in a circle"));
            }
        }
        Ok(Some(out))
    }

    fn find_in_table(&self, fingerprint: &[u8; 20]) -> Result<Option<&[u8]>, GnupgError> {
        let is_meant = |found: &[u8]| found[0] == record::TRUST && found[2..22] == fingerprint[..];
        let mut table = self.head.table;
        for &byte in fingerprint {
            let (row, place) = (u32::from(byte / HASH_ITEMS), usize::from(byte % HASH_ITEMS));
            let row = self.record(table.saturating_add(row), record::HASH_TABLE)?;
            let item = number(row, 2 + 4 * place);
            if item == 0 {
                return Ok(None);
            }
            let found = self.any_record(item)?;
            match found[0] {
                record::HASH_TABLE => table = item,
                record::HASH_LIST => return self.find_in_list(item, is_meant),
                _ => return Ok(is_meant(found).then_some(found)),
            }
        }
        Err(damaged(table, "is one level of the hash table too many"))
    }

    fn find_in_list(
        &self,
        mut at: u32,
        is_meant: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<&[u8]>, GnupgError> {
        for _ in 0..LIST_MAX {
            let list = self.record(at, record::HASH_LIST)?;
            for place in 0..LIST_ITEMS {
                let item = number(list, 6 + 4 * place);
                let found = if item == 0 { None } else { Some(self.any_record(item)?) };
                if let Some(found) = found.filter(|found| is_meant(found)) {
                    return Ok(Some(found));
                }
            }
            at = number(list, 2);
            if at == 0 {
                return Ok(None);
            }
        }
        Err(damaged(at, "is in a circle"))
    }

    fn any_record(&self, at: u32) -> Result<&[u8], GnupgError> {
        let start = at as usize * RECORD_BYTES;
        let found = self.bytes.get(start..start + RECORD_BYTES).filter(|_| at != 0);
        found.ok_or_else(|| damaged(at, "is missing"))
    }

    fn record(&self, at: u32, kind: u8) -> Result<&[u8], GnupgError> {
        let found = self.any_record(at)?;
        if found[0] == kind { Ok(found) } else { Err(damaged(at, "has another type")) }
    }
}

fn damaged(at: u32, what: &str) -> GnupgError {
    GnupgError::Damaged {
        what: format!("record {at} of the trust database {what}"),
        offset: u64::from(at) * RECORD_BYTES as u64,
    }
}

/// A number of a record.
fn number(record: &[u8], at: usize) -> u32 {
    let bytes = record.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_be_bytes(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_looked_up_in() {
        let mut random = 1_u32;
        let mut next = move || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        };
        for _ in 0..2000 {
            let mut bytes: Vec<u8> = (0..RECORD_BYTES * 60).map(|_| next() & 31).collect();
            bytes[..5].copy_from_slice(&[1, b'g', b'p', b'g', 3]);
            bytes[36..40].copy_from_slice(&[0, 0, 0, 1]);
            for record in bytes.chunks_mut(RECORD_BYTES).skip(1) {
                record[0] = [10, 10, 11, 12, 13][usize::from(next()) % 5];
                // Numbers that lead somewhere, and in circles.
                (2..38).step_by(4).for_each(|at| record[at..at + 3].fill(0));
            }
            let records = TrustRecords::new(bytes).unwrap();
            let _ = records.find(&[next(); 20]);
            assert!(records.ultimate().count() < 60);
        }
    }
}
