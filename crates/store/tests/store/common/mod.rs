//! Shared parts of the tests of a store.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use talaria_cert::{Cert, Fingerprint, KeyId, Tag, Verification, sha256};
use talaria_corpus::{CorpusProfile, Generate, certs};
use talaria_store::{Access, CertId, Cursor, Depth, Order, Store};

/// A time at which the generated certificates are valid.
pub(crate) const NOW: u32 = 1_740_000_000;

/// The certificate with this number. Only the store makes numbers, and reads those of cursors.
pub(crate) fn cert_id(number: i64) -> CertId {
    match format!("i:{number}").parse() {
        Ok(Cursor::Insertion(id)) => id,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn corpus(count: u64) -> Vec<Cert> {
    certs(&Generate { seed: 1, first: 0, count, profile: CorpusProfile::small() })
}

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("store.db")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.path(), Access::Create).unwrap()
    }

    pub(crate) fn filled(&self, certs: &[Cert]) -> Store {
        let mut store = self.store();
        store.ingest(certs.to_vec(), Verification::Full, NOW.into()).unwrap();
        store
    }
}

/// Makes the store one of format 9.
pub(crate) fn make_format_9(connection: &Connection) {
    let select = "SELECT id FROM blob WHERE change IS NOT NULL";
    let mut select = connection.prepare(select).unwrap();
    let ids: Vec<i64> =
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    // Damaged certificates stay damaged.
    let is_damaged = |id: i64| {
        let sql = "SELECT bytes, digest FROM blob WHERE id = ?1";
        let (bytes, digest): (Vec<u8>, Option<Vec<u8>>) =
            connection.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        digest.is_none_or(|digest| digest != sha256(&[&bytes])[..16])
    };
    ids.into_iter().filter(|&id| !is_damaged(id)).for_each(|id| seal_former(connection, id));
    connection
        .execute_batch(
            "ALTER TABLE blob DROP COLUMN change; ALTER TABLE cert DROP COLUMN former;
             ALTER TABLE cert DROP COLUMN sum; ALTER TABLE meta DROP COLUMN sum;
             PRAGMA user_version = 9;",
        )
        .unwrap();
}

/// Makes the store one of format 8, except that certificates which cannot be read keep their rows
/// of the index of key IDs.
pub(crate) fn make_format_8(connection: &Connection) {
    make_format_9(connection);
    make_key_index(connection, |id, is_primary| id.rotated() & !1 | u64::from(!is_primary));
    connection.execute_batch("PRAGMA user_version = 8").unwrap();
}

/// Fills the index of key IDs with other handles.
fn make_key_index(connection: &Connection, handle: impl Fn(KeyId, bool) -> u64) {
    let mut select = connection.prepare("SELECT id, bytes FROM blob").unwrap();
    let rows: Vec<(i64, Vec<u8>)> = select
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for (id, bytes) in rows {
        let Ok(cert) = Cert::from_canonical(bytes) else { continue };
        connection.execute("DELETE FROM key WHERE cert = ?1", [id]).unwrap();
        for (at, key) in cert.keys().enumerate() {
            let handle = handle(key.fingerprint().key_id(), at == 0).cast_signed();
            let insert = "INSERT OR IGNORE INTO key VALUES (?1, ?2)";
            connection.execute(insert, (handle, id)).unwrap();
        }
    }
}

/// Makes the store one of format 7, whose index of words has other words: none.
pub(crate) fn make_format_7(connection: &Connection) {
    make_format_8(connection);
    connection
        .execute_batch(
            "INSERT INTO checksum SELECT id, digest, sum FROM blob WHERE sum IS NOT NULL;
             ALTER TABLE blob DROP COLUMN sum; ALTER TABLE blob DROP COLUMN digest;
             INSERT INTO words (words) VALUES ('delete-all');
             PRAGMA user_version = 7;",
        )
        .unwrap();
}

/// Makes the store one of format 5, except that certificates which cannot be read keep their rows
/// of the index of key IDs.
pub(crate) fn make_format_5(connection: &Connection) {
    make_format_7(connection);
    connection
        .execute_batch(
            "DROP TABLE unobtainable;
             CREATE TABLE unobtainable (
    view INTEGER, digest BLOB, tries INTEGER NOT NULL, time INTEGER NOT NULL,
    PRIMARY KEY (view, digest)) WITHOUT ROWID;
             INSERT INTO unobtainable VALUES (0, x'01', 1, 1);
             PRAGMA user_version = 5;",
        )
        .unwrap();
    make_key_index(connection, |id, _| id.rotated());
}

/// Writes the checksum of a certificate as a store of format 8 or 9 would, after a test changed it.
pub(crate) fn seal_former(connection: &Connection, id: i64) {
    let (verdicts, bytes): (Vec<u8>, Vec<u8>) = connection
        .query_row("SELECT verdicts, bytes FROM blob WHERE id = ?1", [id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let digest = &sha256(&[&bytes])[..16];
    let sum = sha256(&[&id.to_be_bytes(), digest, &verdicts]);
    let sum = i32::from_be_bytes(sum[..4].try_into().unwrap());
    connection
        .execute("UPDATE blob SET digest = ?2, sum = ?3 WHERE id = ?1", (id, digest, sum))
        .unwrap();
}

/// Sets a value of table `meta`, with its checksum.
pub(crate) fn set_meta(connection: &Connection, name: &str, value: i64) {
    let handle =
        talaria_cert::Handle::of_bytes(&[name.as_bytes(), &[0], value.to_string().as_bytes()]);
    let sum = i32::from_be_bytes(handle.0.to_be_bytes()[4..].try_into().unwrap());
    connection.execute("INSERT INTO meta VALUES (?1, ?2, ?3)", (name, value, sum)).unwrap();
}

/// Writes the checksums of all certificates and of their rows as the store would, after a test
/// changed verdicts or verifiers.
pub(crate) fn seal(connection: &Connection) {
    let mut select = connection.prepare("SELECT id, verdicts, bytes, change FROM blob").unwrap();
    let mut rows = select.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (id, change): (i64, i64) = (row.get(0).unwrap(), row.get(3).unwrap());
        let (verdicts, bytes): (Vec<u8>, Vec<u8>) = (row.get(1).unwrap(), row.get(2).unwrap());
        let digest = &sha256(&[&bytes])[..16];
        let sum = sha256(&[&id.to_be_bytes(), digest, &verdicts, &change.to_be_bytes()]);
        let sum = i32::from_be_bytes(sum[..4].try_into().unwrap());
        connection
            .execute("UPDATE blob SET digest = ?2, sum = ?3 WHERE id = ?1", (id, digest, sum))
            .unwrap();
    }
    let mut select =
        connection.prepare("SELECT id, change, verifier, fingerprint, summary FROM cert").unwrap();
    let mut rows = select.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let mut crc = crc32fast::Hasher::new();
        for column in 0..3 {
            crc.update(&row.get::<_, i64>(column).unwrap().to_be_bytes());
        }
        for column in 3..5 {
            crc.update(&row.get::<_, Vec<u8>>(column).unwrap());
        }
        let (id, sum): (i64, i32) = (row.get(0).unwrap(), crc.finalize().cast_signed());
        connection.execute("UPDATE cert SET sum = ?2 WHERE id = ?1", (id, sum)).unwrap();
    }
}

/// The certificate without the signatures whose index `keep` rejects.
pub(crate) fn part(cert: &Cert, keep: impl Fn(usize) -> bool) -> Cert {
    cert.retain(|at, packet| packet.tag != Tag::SIGNATURE || keep(at))
}

pub(crate) fn contents(store: &Store) -> BTreeMap<Fingerprint, Vec<u8>> {
    let mut all = BTreeMap::new();
    store
        .walk(&mut Cursor::start(Order::Key), |row| {
            let stored = store.stored(row.id).unwrap().unwrap();
            all.insert(row.summary.fingerprint(), stored.cert.into_bytes());
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

pub(crate) fn assert_clean(store: &Store) {
    let report = store.check(Depth::Signatures, |_| {}).unwrap();
    assert_eq!(report.findings, vec![], "{}", store.path().display());
}
