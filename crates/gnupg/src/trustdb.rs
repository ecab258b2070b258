//! The ownertrust values in GnuPG's `trustdb.gpg`.
//!
//! The file is an array of records of 40 bytes, of which the first names format and version. The
//! values are looked for from front to end; the hash table that leads to them is not used, so it
//! may be out of step.

use talaria_cert::Fingerprint;

use crate::error::GnupgError;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 40;

/// The version of the format, the only one that GnuPG takes.
const FORMAT: u8 = 3;

/// Types of records.
pub(crate) mod record {
    pub(crate) const UNUSED: u8 = 0;
    pub(crate) const VERSION: u8 = 1;
    pub(crate) const HASH_TABLE: u8 = 10;
    pub(crate) const HASH_LIST: u8 = 11;
    pub(crate) const TRUST: u8 = 12;
    pub(crate) const VALID: u8 = 13;
    pub(crate) const FREE: u8 = 254;
}

/// Whether a file that starts with `head` is a trust database.
#[must_use]
pub fn is_trustdb(head: &[u8]) -> bool {
    matches!(head, [record::VERSION, b'g', b'p', b'g', FORMAT, ..])
}

/// The ownertrust values of a trust database, in the order of its records; 128 is added to the
/// value of a disabled key. Keys to which no value is assigned are left out.
///
/// # Errors
///
/// [`GnupgError::NotTrustdb`], or [`GnupgError::Damaged`] with the record that is cut off or of a
/// type that does not exist. Nothing is taken then: whom to trust is not to be guessed.
pub fn read_trustdb(bytes: &[u8]) -> Result<Vec<(Fingerprint, u8)>, GnupgError> {
    if !is_trustdb(bytes) {
        return Err(GnupgError::NotTrustdb);
    }
    let mut entries = Vec::new();
    for (number, record) in bytes.chunks(RECORD_BYTES).enumerate() {
        let damaged = |what: String| GnupgError::Damaged {
            what: format!("record {number} of the trust database {what}"),
            offset: (number * RECORD_BYTES) as u64,
        };
        let Some(head) = record.first_chunk::<23>().filter(|_| record.len() == RECORD_BYTES) else {
            return Err(damaged("is truncated".to_owned()));
        };
        match head[0] {
            record::TRUST => {
                let [_, _, fingerprint @ .., value] = head;
                if *value != 0 {
                    entries.push((Fingerprint::V4(*fingerprint), *value));
                }
            }
            record::UNUSED
            | record::VERSION
            | record::HASH_TABLE
            | record::HASH_LIST
            | record::VALID
            | record::FREE => {}
            unknown => return Err(damaged(format!("has the unknown type {unknown}"))),
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn database(records: &[(u8, [u8; 20], u8)]) -> Vec<u8> {
        let mut out = vec![0; RECORD_BYTES];
        out[..5].copy_from_slice(&[1, b'g', b'p', b'g', 3]);
        for (kind, fingerprint, value) in records {
            let mut record = [0; RECORD_BYTES];
            record[0] = *kind;
            record[2..22].copy_from_slice(fingerprint);
            record[22] = *value;
            out.extend_from_slice(&record);
        }
        out
    }

    #[test]
    fn only_assigned_values_are_read() {
        let bytes = database(&[
            (record::HASH_TABLE, [9; 20], 9),
            (record::TRUST, [1; 20], 6),
            (record::TRUST, [2; 20], 0),
            (record::VALID, [3; 20], 4),
            (record::TRUST, [4; 20], 132),
        ]);
        let entries = read_trustdb(&bytes).unwrap();
        assert_eq!(entries, [(Fingerprint::V4([1; 20]), 6), (Fingerprint::V4([4; 20]), 132)]);
    }

    #[test]
    fn errors_give_the_record_and_the_offset_of_damage() {
        let bytes = database(&[(record::TRUST, [1; 20], 6), (99, [2; 20], 0)]);
        let error = read_trustdb(&bytes).unwrap_err();
        assert!(matches!(error, GnupgError::Damaged { offset: 80, .. }), "{error}");
        assert!(error.to_string().contains("record 2"), "{error}");
        let error = read_trustdb(&bytes[..75]).unwrap_err();
        assert!(matches!(error, GnupgError::Damaged { offset: 40, .. }), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(
            bytes: Vec<u8>,
            records: Vec<(u8, [u8; 20], u8)>,
            cut in 0usize..400,
        ) {
            let _ = read_trustdb(&bytes);
            let database = database(&records);
            if let Ok(entries) = read_trustdb(&database[..cut.min(database.len())]) {
                prop_assert!(entries.len() <= records.len());
            }
        }
    }
}
