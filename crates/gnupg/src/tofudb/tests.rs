//! Written files are read back, damage is reported, and reading changes nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use proptest::prelude::*;
use rusqlite::Connection;
use talaria_cert::{Fingerprint, KeyId};
use tempfile::TempDir;

use super::*;
use crate::error::{GnupgError, LeftOutReason};

/// The flat layout of GnuPG 2.1.10 to 2.1.14, and that of `tofu.d/email/XX/NAME.db`.
const BY_EMAIL: &str = "
    create table version (version INTEGER);
    insert into version values (1);
    create table bindings
     (oid INTEGER PRIMARY KEY AUTOINCREMENT,
      fingerprint TEXT, email TEXT, user_id TEXT, time INTEGER,
      policy BOOLEAN CHECK (policy in (1, 2, 3, 4, 5)),
      conflict STRING,
      unique (fingerprint, email));
    create index bindings_fingerprint_email on bindings (fingerprint, email);
    create index bindings_email on bindings (email);
    create table signatures (binding INTEGER NOT NULL, sig_digest TEXT,
      origin TEXT, sig_time INTEGER, time INTEGER,
      primary key (binding, sig_digest, origin));";

/// The layout of `tofu.d/key/XX/FINGERPRINT.db`.
const BY_KEY: &str = "
    create table version (version INTEGER);
    insert into version values (1);
    create table bindings
     (oid INTEGER PRIMARY KEY AUTOINCREMENT,
      fingerprint TEXT, email TEXT, user_id,
      unique (fingerprint, email));
    create index bindings_fingerprint on bindings (fingerprint);";

fn fingerprint(number: u8) -> Fingerprint {
    Fingerprint::V4([number; 20])
}

fn binding(number: u8, email: &str) -> TofuBinding {
    TofuBinding {
        fingerprint: fingerprint(number),
        email: email.into(),
        user_id: format!("Somebody <{email}>").into(),
        time: 1_700_000_000 + i64::from(number),
        policy: TofuPolicy::Auto,
        conflict: None,
        effective: None,
        signatures: Vec::new(),
        encryptions: Vec::new(),
    }
}

fn signature(digest: &str) -> TofuSignature {
    let (digest, origin) = (digest.to_owned(), "unknown".to_owned());
    TofuSignature { digest, origin, sig_time: 1_700_000_000, time: 1_700_000_009 }
}

/// Enough for tables of several pages.
fn many() -> TofuDatabase {
    let bindings = (0..200).map(|number| TofuBinding {
        signatures: (0..5).map(|n| signature(&format!("{number}/{n}"))).collect(),
        encryptions: vec![7; 5],
        ..binding(number, &format!("a{number}@example.org"))
    });
    TofuDatabase { bindings: bindings.collect(), ultimately_trusted: vec![KeyId(1), KeyId(2)] }
}

fn written(database: &TofuDatabase) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("to fu?#%41.db");
    let left_out = write_tofudb(&path, database, IfExists::Refuse).unwrap();
    assert!(left_out.is_empty(), "{left_out:?}");
    (folder, path)
}

fn create(path: &Path, sql: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// All files of a folder with their bytes and modification times.
fn snapshot(folder: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(snapshot(&path));
        } else {
            let modified = path.metadata().unwrap().modified().unwrap();
            files.push((path.clone(), fs::read(&path).unwrap(), modified));
        }
    }
    files.sort();
    files
}

/// Reads a database, and checks that reading changes and leaves no files.
fn read(folder: &Path, path: &Path) -> Result<TofuDatabase, GnupgError> {
    let before = snapshot(folder);
    let found = (is_tofudb(path), read_tofudb(path));
    assert!(before == snapshot(folder), "{path:?} was changed");
    assert!(found.0 || found.1.is_err(), "what is read is recognised");
    found.1
}

#[test]
fn written_data_read_back() {
    let mut database = many();
    database.bindings[1].policy = TofuPolicy::Ask;
    database.bindings[1].effective = Some(TofuPolicy::Bad);
    database.bindings[1].conflict = Some(fingerprint(0xAB));
    // A user ID in Latin 1, and one without an address.
    database.bindings[2].user_id = b"J\xF6rg <joerg@example.org>".to_vec();
    database.bindings[3].email = b"j\xF6rg".to_vec();
    database.bindings[4].fingerprint = Fingerprint::V5([4; 32]);
    let (folder, path) = written(&database);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies beside it");
    assert_eq!(read(folder.path(), &path).unwrap(), database);
}

#[test]
fn a_conflict_that_looks_like_a_number_keeps_its_digits() {
    let mut database = many();
    for (binding, byte) in database.bindings.iter_mut().zip([0x00, 0x12, 0x99, 0xEE, 0x9E]) {
        binding.conflict = Some(fingerprint(byte));
    }
    let mut exponent = [0x11; 20];
    exponent[19] = 0xE5;
    database.bindings[5].conflict = Some(Fingerprint::V4(exponent));
    let (folder, path) = written(&database);
    assert_eq!(read(folder.path(), &path).unwrap(), database);
    let sql = "SELECT count(*) FROM bindings WHERE conflict = 0 OR typeof(conflict) = 'real'";
    let count: i64 = Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(count, 0);
}

#[test]
fn an_existing_file_is_replaced_only_on_request() {
    let (folder, path) = written(&many());
    let before = fs::read(&path).unwrap();
    let empty = TofuDatabase::default();
    let error = write_tofudb(&path, &empty, IfExists::Refuse).unwrap_err();
    assert!(
        matches!(&error, GnupgError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
    // Two rows with the same key and address: the old file stays.
    let twice = TofuDatabase { bindings: vec![binding(1, "a@b"); 2], ..empty.clone() };
    assert!(write_tofudb(&path, &twice, IfExists::Replace).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
    write_tofudb(&path, &empty, IfExists::Replace).unwrap();
    assert_eq!(read_tofudb(&path).unwrap(), empty);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies beside it");
}

#[test]
fn a_new_file_does_not_take_over_an_old_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tofu.db");
    fs::write(folder.path().join("tofu.db-journal"), "rows of old").unwrap();
    let error = write_tofudb(&path, &many(), IfExists::Replace).unwrap_err();
    assert!(matches!(error, GnupgError::Unfinished { .. }), "{error}");
    assert!(!path.exists());
}

#[test]
fn rows_that_do_not_fit_are_left_out_and_named() {
    let v6 = Fingerprint::V6([6; 32]);
    let database = TofuDatabase {
        bindings: vec![
            TofuBinding { fingerprint: v6, ..binding(0, "a@b") },
            TofuBinding { conflict: Some(v6), ..binding(1, "a@b") },
            TofuBinding { user_id: vec![b'x'; TOFU_TEXT_BYTES_MAX + 1], ..binding(2, "a@b") },
            TofuBinding { user_id: vec![b'x'; TOFU_TEXT_BYTES_MAX], ..binding(3, "a@b") },
        ],
        ultimately_trusted: Vec::new(),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tofu.db");
    let left_out = write_tofudb(&path, &database, IfExists::Refuse).unwrap();
    let version = LeftOutReason::Version { version: 6 };
    let (bytes, max) = (TOFU_TEXT_BYTES_MAX + 1, TOFU_TEXT_BYTES_MAX);
    let left_out: Vec<_> = left_out.into_iter().map(|l| (l.fingerprint, l.reason)).collect();
    assert_eq!(
        left_out,
        [
            (v6, version.clone()),
            (v6, version),
            (fingerprint(2), LeftOutReason::TooLarge { bytes, max }),
        ]
    );
    let [_, second, _, fourth] = <[_; 4]>::try_from(database.bindings).unwrap();
    let kept = [TofuBinding { conflict: None, ..second }, fourth];
    assert_eq!(read_tofudb(&path).unwrap().bindings, kept);
}

#[test]
fn a_file_of_the_first_gnupg_versions_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tofu.db");
    create(&path, BY_EMAIL);
    let digits = "01".repeat(20);
    create(
        &path,
        &format!(
            "insert into bindings values
              (3, '{digits}', 'a@b', 'A <a@b>', strftime('%s', '2016-01-01'), 2, null),
              (9, '{digits}', 'c@d', 'C <c@d>', 5, 4, '{}');
             insert into signatures values (9, 'x', 'unknown', 1, 2), (3, 'x', 'unknown', 3, 4);",
            "AB".repeat(20)
        ),
    );
    let found = read(folder.path(), &path).unwrap();
    assert_eq!(
        found.bindings,
        [
            TofuBinding {
                user_id: b"A <a@b>".into(),
                time: 1_451_606_400,
                policy: TofuPolicy::Good,
                signatures: vec![TofuSignature { sig_time: 3, time: 4, ..signature("x") }],
                ..binding(1, "a@b")
            },
            TofuBinding {
                user_id: b"C <c@d>".into(),
                time: 5,
                policy: TofuPolicy::Bad,
                conflict: Some(fingerprint(0xAB)),
                signatures: vec![TofuSignature { sig_time: 1, time: 2, ..signature("x") }],
                ..binding(1, "c@d")
            },
        ]
    );
}

/// The folder layout of GnuPG 2.1.10 (`getdb` in `g10/tofu.c`): names have `_` for all characters
/// except letters and digits, so that two addresses can share a file.
fn split(folder: &Path, database: &TofuDatabase) {
    let place = |kind: &str, name: &[u8]| {
        let name: String = name
            .iter()
            .map(|&b| if b.is_ascii_alphanumeric() { char::from(b) } else { '_' })
            .collect();
        let prefix: String = name.chars().take(2).collect();
        folder.join(kind).join(prefix).join(name + ".db")
    };
    for binding in &database.bindings {
        let by_email = place("email", &binding.email);
        let hex = binding.fingerprint.to_string();
        let by_key = place("key", hex.as_bytes());
        for (path, schema) in [(&by_email, BY_EMAIL), (&by_key, BY_KEY)] {
            if !path.exists() {
                create(path, schema);
            }
        }
        let (email, user_id) = (
            String::from_utf8(binding.email.clone()).unwrap(),
            String::from_utf8(binding.user_id.clone()).unwrap(),
        );
        Connection::open(by_key)
            .unwrap()
            .execute(
                "insert into bindings (fingerprint, email, user_id) values (?1, ?2, ?3)",
                [&hex, &email, &user_id],
            )
            .unwrap();
        let connection = Connection::open(by_email).unwrap();
        connection
            .execute(
                "insert into bindings (fingerprint, email, user_id, time, policy, conflict)
                 values (?1, ?2, ?3, ?4, ?5, ?6)",
                rusqlite::params![
                    hex,
                    email,
                    user_id,
                    binding.time,
                    binding.policy.number(),
                    binding.conflict.map(|fingerprint| fingerprint.to_string())
                ],
            )
            .unwrap();
        let oid = connection.last_insert_rowid();
        for s in &binding.signatures {
            connection
                .execute(
                    "insert into signatures values (?1, ?2, ?3, ?4, ?5)",
                    rusqlite::params![oid, s.digest, s.origin, s.sig_time, s.time],
                )
                .unwrap();
        }
    }
}

fn split_database() -> TofuDatabase {
    let bindings = vec![
        TofuBinding { signatures: vec![signature("p"), signature("q")], ..binding(1, "a.b@c") },
        TofuBinding { policy: TofuPolicy::Bad, ..binding(1, "a_b@c") },
        TofuBinding {
            policy: TofuPolicy::Ask,
            conflict: Some(fingerprint(0xAB)),
            signatures: vec![signature("r")],
            ..binding(2, "a.b@c")
        },
        TofuBinding { signatures: vec![signature("p")], ..binding(2, "zoe@example.org") },
        binding(3, "x"),
    ];
    TofuDatabase { bindings, ultimately_trusted: Vec::new() }
}

#[test]
fn the_split_layout_is_read_and_written_as_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let tofu_d = folder.path().join("tofu.d");
    let database = split_database();
    split(&tofu_d, &database);
    assert!(tofu_d.join("email/a_/a_b_c.db").exists());
    assert!(tofu_d.join(format!("key/01/{}.db", "01".repeat(20))).exists());
    // A file that is not a database, and an empty database.
    fs::write(tofu_d.join("email/a_/a_b_c.db-journal"), "").unwrap();
    fs::write(tofu_d.join("email/a_/notes.txt"), "notes").unwrap();
    fs::write(tofu_d.join("email/a_/a_empty.db"), "").unwrap();
    let mut found = read(folder.path(), &tofu_d).unwrap();
    let mut expected = database;
    // The files come in the order of their names.
    expected.bindings.swap(3, 4);
    assert_eq!(found, expected);

    found.bindings[0].effective = Some(TofuPolicy::Auto);
    let (folder, path) = written(&found);
    assert_eq!(read(folder.path(), &path).unwrap(), found);
}

#[test]
fn damage_in_the_split_layout_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    split(folder.path(), &split_database());
    let file = folder.path().join("email/zo/zoe_example_org.db");
    Connection::open(&file)
        .unwrap()
        .execute_batch("update bindings set fingerprint = 'ab'")
        .unwrap();
    let error = read(folder.path(), folder.path()).unwrap_err().to_string();
    assert!(error.contains("row 1 of table bindings"), "{error}");
    assert!(error.contains("email/zo/zoe_example_org.db: fingerprint"), "{error}");
    // The same binding in a second file.
    fs::copy(folder.path().join("email/a_/a_b_c.db"), file).unwrap();
    let error = read(folder.path(), folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("zoe_example_org.db: an earlier row has the same fingerprint and email"),
        "{error}"
    );

    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join("key")).unwrap();
    assert!(matches!(
        read(other.path(), other.path()),
        Err(GnupgError::NotTofudb { path }) if path == other.path()
    ));
    // A file with only the addresses of a key.
    assert!(is_tofudb(folder.path()) && !is_tofudb(other.path()));
    let by_key = folder.path().join(format!("key/01/{}.db", "01".repeat(20)));
    assert!(!is_tofudb(&by_key));
    assert!(matches!(read(folder.path(), &by_key), Err(GnupgError::NotTofudb { .. })));
}

#[test]
fn errors_about_damaged_rows_give_the_page() {
    let long = "x".repeat(TOFU_TEXT_BYTES_MAX + 1);
    let cases = [
        ("bindings", "policy = 9", "policy is 9, not 1 to 5"),
        ("bindings", "policy = 0", "policy is not 1 to 5"),
        ("bindings", "policy = null", "policy is not a whole number"),
        ("bindings", "policy = 'good'", "policy is not a whole number"),
        ("bindings", "effective_policy = 6", "effective_policy is 6, not 1 to 5"),
        ("bindings", "effective_policy = null", "effective_policy is not a whole number"),
        ("bindings", "fingerprint = lower(fingerprint)||'aa'", "fingerprint is not 40 or 64"),
        ("bindings", "fingerprint = replace(fingerprint, '6', 'a')", "fingerprint is not 40 or 64"),
        ("bindings", "fingerprint = null", "fingerprint is not text"),
        ("bindings", "email = null", "email is not text"),
        ("bindings", "user_id = x'00'", "user_id is not text"),
        ("bindings", &format!("user_id = '{long}'"), "user_id is not text of up to 16384 bytes"),
        ("bindings", "time = 1.5", "time is not a whole number"),
        ("bindings", "conflict = 'nobody'", "conflict is not 40 or 64"),
        ("bindings", "conflict = 5", "conflict is not 40 or 64"),
        ("bindings", &format!("conflict = '{long}'"), "conflict is not 40 or 64"),
        ("signatures", "binding = 777", "there is no binding 777"),
        ("signatures", "sig_digest = null", "sig_digest is not text"),
        ("signatures", "sig_digest = cast(x'FF' as text)", "sig_digest is not UTF-8"),
        ("signatures", "origin = null", "origin is not text"),
        ("signatures", "sig_time = 'now'", "sig_time is not a whole number"),
        ("signatures", "time = null", "time is not a whole number"),
        ("encryptions", "binding = 777", "there is no binding 777"),
        ("encryptions", "time = null", "time is not a whole number"),
        ("ultimately_trusted_keys", "keyid = 'A'", "keyid is not 16"),
        ("ultimately_trusted_keys", "keyid = null", "keyid is not text"),
    ];
    let (folder, path) = written(&many());
    let whole = fs::read(&path).unwrap();
    for (table, change, what) in cases {
        fs::write(&path, &whole).unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        let rowid: i64 = connection
            .query_row(&format!("SELECT max(rowid) - 1 FROM {table}"), [], |row| row.get(0))
            .unwrap();
        connection
            .execute(&format!("UPDATE {table} SET {change} WHERE rowid = {rowid}"), [])
            .unwrap();
        connection.close().unwrap();
        let error = read(folder.path(), &path).unwrap_err();
        let GnupgError::Damaged { what: found, offset } = &error else {
            panic!("{change}: {error}")
        };
        let row = format!("row {rowid} of table {table} of {}: ", path.display());
        assert!(found.starts_with(&row), "{change}: {error}");
        assert!(found.contains(what), "{change}: {error}");
        // The offset is that of a leaf page of the table. For bindings, the page also has the
        // neighbouring row.
        let page = &fs::read(&path).unwrap()[usize::try_from(*offset).unwrap()..][..4096];
        assert_eq!(page[0], 0x0D, "{change}: {error}");
        let neighbour = b"a198@example.org";
        assert!(
            table != "bindings" || page.windows(neighbour.len()).any(|w| w == neighbour),
            "{change}: {error}"
        );
    }
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    for bytes in [&b""[..], b"SQLite", b"SQLite format 2\0 and more", &[0; 5000]] {
        fs::write(&path, bytes).unwrap();
        let error = read(folder.path(), &path).unwrap_err();
        assert!(matches!(error, GnupgError::NotTofudb { .. }), "{error}");
    }
    for sql in [
        "create table pubkey (a)",
        "create table version (version INTEGER); create table bindings (a)",
        "create table version (a); insert into version values (1);
         create table bindings (policy); create table signatures (binding)",
        "create table version (version INTEGER); insert into version values (1);
         create table bindings (policy); create table signatures (binding)",
        "create table version (version INTEGER); insert into version values (1);
         create table rows (policy); create view bindings as select * from rows;
         create table signatures (binding)",
    ] {
        fs::remove_file(&path).unwrap();
        create(&path, sql);
        let error = read(folder.path(), &path).unwrap_err();
        assert!(matches!(error, GnupgError::NotTofudb { .. }), "{sql}: {error}");
    }
    let missing = read(folder.path(), &folder.path().join("missing.db")).unwrap_err();
    assert!(matches!(missing, GnupgError::Io { .. }), "{missing}");
}

#[test]
fn an_unknown_version_is_refused_by_number() {
    for (version, name) in [("2", "2"), ("'1a'", "1a")] {
        let (folder, path) = written(&many());
        create(&path, &format!("update version set version = {version}"));
        let error = read_tofudb(&path).unwrap_err();
        assert!(
            matches!(&error, GnupgError::TofudbVersion { found, .. } if found == name),
            "{error}"
        );
        assert!(is_tofudb(&path), "it is one all the same");
        drop(folder);
    }
}

#[test]
fn the_error_for_a_truncated_file_gives_its_end() {
    let (folder, path) = written(&many());
    let whole = fs::read(&path).unwrap();
    for len in [16, 20, 99, 100, 700, 4096, 4097, 8192, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        let error = read(folder.path(), &path).unwrap_err();
        assert!(
            matches!(error, GnupgError::Damaged { offset, .. } if offset == len as u64),
            "{len}: {error}"
        );
        assert!(error.to_string().contains("truncated"), "{error}");
        assert_eq!(is_tofudb(&path), len >= 4096, "it is one all the same");
    }
}

#[test]
fn errors_about_damaged_pages_give_the_offset() {
    let (folder, path) = written(&many());
    let whole = fs::read(&path).unwrap();
    let root = |table: &str| -> usize {
        let sql = "SELECT (rootpage - 1) * 4096 FROM sqlite_schema WHERE name = ?1";
        let connection = Connection::open(&path).unwrap();
        let at: i64 = connection.query_row(sql, [table], |row| row.get(0)).unwrap();
        usize::try_from(at).unwrap()
    };
    for table in ["bindings", "signatures", "encryptions"] {
        let at = root(table);
        let mut bytes = whole.clone();
        bytes[at..at + 8].fill(0xFF);
        fs::write(&path, &bytes).unwrap();
        let error = read(folder.path(), &path).unwrap_err();
        assert!(
            matches!(error, GnupgError::Damaged { offset, .. } if offset == at as u64),
            "{table}: {error}"
        );
        fs::write(&path, &whole).unwrap();
    }
    // The header and the list of tables after it.
    for (range, offset) in [(16..18, 16), (100..108, 0)] {
        let mut bytes = whole.clone();
        bytes[range].fill(0xFF);
        fs::write(&path, &bytes).unwrap();
        let error = read(folder.path(), &path).unwrap_err();
        assert!(
            matches!(error, GnupgError::Damaged { offset: found, .. } if found == offset),
            "{error}"
        );
    }
}

#[test]
fn rows_are_bounded() {
    let database = split_database();
    let (_folder, path) = written(&database);
    let rows = 5 + 4;
    assert_eq!(super::read::read(&path, rows).unwrap(), database);
    let error = super::read::read(&path, rows - 1).unwrap_err();
    assert!(matches!(error, GnupgError::TooMany { max: 8, .. }), "{error}");
}

#[test]
fn a_database_can_be_read_while_another_process_writes() {
    let (_folder, path) = written(&many());
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("begin immediate; delete from signatures").unwrap();
    assert_eq!(read_tofudb(&path).unwrap(), many());
    writer.execute_batch("commit").unwrap();
    assert!(read_tofudb(&path).unwrap().bindings.iter().all(|b| b.signatures.is_empty()));
}

#[test]
fn an_unfinished_transaction_is_ignored() {
    let (folder, path) = written(&many());
    let writer = Connection::open(&path).unwrap();
    // With little memory, pages are written before the end.
    writer
        .execute_batch("PRAGMA cache_size = 1; begin immediate; update signatures set time = 0")
        .unwrap();
    let other = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, other.path().join(from.file_name().unwrap())).unwrap();
    }
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 2);
    let copy = other.path().join(path.file_name().unwrap());
    let error = read(other.path(), &copy).unwrap_err();
    assert!(matches!(error, GnupgError::Unfinished { .. }), "{error}");
}

/// GnuPG does not use write-ahead logs, but keeps the mode if it was set.
#[test]
fn reading_creates_no_write_ahead_log() {
    let (folder, path) = written(&many());
    let writer = Connection::open(&path).unwrap();
    writer.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    writer.close().unwrap();
    assert_eq!(read(folder.path(), &path).unwrap(), many());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies beside it");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("delete from signatures").unwrap();
    let error = read_tofudb(&path).unwrap_err();
    assert!(matches!(error, GnupgError::Unfinished { .. }), "{error}");
}

fn a_fingerprint() -> impl Strategy<Value = Fingerprint> {
    prop_oneof![
        any::<[u8; 20]>().prop_map(Fingerprint::V4),
        any::<[u8; 32]>().prop_map(Fingerprint::V5),
        any::<u8>().prop_map(fingerprint)
    ]
}

fn a_policy() -> impl Strategy<Value = TofuPolicy> {
    (1i64..=5).prop_map(|number| TofuPolicy::from_number(number).unwrap())
}

fn a_binding() -> impl Strategy<Value = TofuBinding> {
    let signature =
        |((digest, origin), sig_time, time)| TofuSignature { digest, origin, sig_time, time };
    let signatures = prop::collection::vec(any::<((String, String), i64, i64)>(), 0..4);
    let texts = any::<(Vec<u8>, Vec<u8>)>();
    let policies = (a_policy(), prop::option::of(a_policy()));
    let fingerprints = (a_fingerprint(), prop::option::of(a_fingerprint()));
    (fingerprints, texts, any::<i64>(), policies, signatures, any::<Vec<i64>>()).prop_map(
        move |(fingerprints, texts, time, policies, signatures, encryptions)| {
            let mut seen = BTreeSet::new();
            let signatures = signatures.into_iter().filter(|(key, ..)| seen.insert(key.clone()));
            TofuBinding {
                fingerprint: fingerprints.0,
                email: texts.0,
                user_id: texts.1,
                time,
                policy: policies.0,
                conflict: fingerprints.1,
                effective: policies.1,
                signatures: signatures.map(signature).collect(),
                encryptions,
            }
        },
    )
}

fn a_database() -> impl Strategy<Value = TofuDatabase> {
    (prop::collection::vec(a_binding(), 0..8), any::<Vec<u64>>()).prop_map(|(mut bindings, ids)| {
        let mut seen = BTreeSet::new();
        bindings.retain(|b| seen.insert((b.fingerprint, b.email.clone())));
        TofuDatabase { bindings, ultimately_trusted: ids.into_iter().map(KeyId).collect() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any rows read back unchanged, also with texts that are not UTF-8.
    #[test]
    fn any_database_reads_back(database in a_database()) {
        let (folder, path) = written(&database);
        prop_assert_eq!(read(folder.path(), &path).unwrap(), database);
    }

    /// A database with changed bytes, or with any bytes after the magic, causes no panic and is not
    /// modified. The rows of such a database can be written, unless SQLite would have refused them.
    #[test]
    fn any_bytes_are_read(changes: Vec<(prop::sample::Index, u8)>, cut: Option<prop::sample::Index>, bytes: Vec<u8>) {
        let (folder, path) = written(&many());
        let mut changed = fs::read(&path).unwrap();
        for (at, byte) in changes.iter().take(8) {
            let at = at.index(changed.len());
            changed[at] = *byte;
        }
        changed.truncate(cut.map_or(changed.len(), |cut| cut.index(changed.len())));
        fs::write(&path, &changed).unwrap();
        if let Ok(database) = read(folder.path(), &path) {
            let copy = folder.path().join("copy.db");
            if let Ok(left_out) = write_tofudb(&copy, &database, IfExists::Refuse) {
                prop_assert!(left_out.is_empty());
                prop_assert_eq!(read_tofudb(&copy).unwrap(), database);
                fs::remove_file(copy).unwrap();
            }
        }
        fs::write(&path, [b"SQLite format 3\0", &bytes[..]].concat()).unwrap();
        let _ = read(folder.path(), &path);
    }
}
