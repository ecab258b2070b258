//! The TOFU database and the installed gpg: talaria reads gpg's databases, and gpg uses talaria's.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::Gpg;
use rusqlite::Connection;
use rusqlite::types::Value;
use talaria_cert::Fingerprint;
use talaria_gnupg::{
    IfExists, TofuBinding, TofuDatabase, TofuPolicy, is_tofudb, read_tofudb, write_tofudb,
};

const KEYS: [&str; 5] = [
    "Alice <alice@example.org>",
    "Alice of elsewhere <Alice@Example.org>",
    "Bob <bob@example.org>",
    "Carol <carol@example.org>",
    "Somebody without an address",
];

/// The days of the events, in seconds since 1970.
const DAY: u64 = 86_400;
const START: u64 = 1_700_000_000;

/// The reference day for the content of tofu.db.
const END: u64 = START + 9 * DAY;

fn run(gpg: &Gpg, time: u64, args: &[&str]) -> Vec<u8> {
    let time = format!("{time}!");
    let common = ["--faked-system-time", &time, "--trust-model", "tofu", "--pinentry-mode"];
    gpg.run(&[&common[..], &["loopback", "--passphrase", ""], args].concat())
}

fn generate(gpg: &Gpg, user_id: &str) -> String {
    let args = ["--allow-freeform-uid", "--quick-gen-key", user_id, "ed25519", "default", "never"];
    let before = fingerprints(gpg);
    run(gpg, START, &args);
    let fingerprint = fingerprints(gpg).into_iter().find(|f| !before.contains(f)).unwrap();
    run(gpg, START, &["--quick-add-key", &fingerprint, "cv25519", "encr", "never"]);
    fingerprint
}

fn fingerprints(gpg: &Gpg) -> Vec<String> {
    let listing = gpg.run(&["--with-colons", "--trust-model", "always", "-k"]);
    let listing = String::from_utf8(listing).unwrap();
    let of_primary = |lines: [&str; 2]| lines[0].starts_with("pub:").then(|| lines[1].to_owned());
    let lines: Vec<_> = listing.lines().collect();
    let fprs = lines.windows(2).filter_map(|pair| of_primary([pair[0], pair[1]]));
    fprs.map(|line| line.split(':').nth(9).unwrap().to_owned()).collect()
}

fn end_agent(gpg: &Gpg) {
    let mut gpgconf = Command::new("gpgconf");
    gpgconf.arg("--homedir").arg(gpg.home()).args(["--kill", "gpg-agent"]).status().unwrap();
}

/// A GnuPG home with verified signatures, encryptions, a conflict and a decision.
struct Used {
    gpg: Gpg,
    /// Of [`KEYS`].
    fingerprints: Vec<String>,
    own: String,
}

impl Used {
    /// `None` if gpg is not installed, or built without SQLite.
    fn new() -> Option<Self> {
        let (others, gpg) = (Gpg::new()?, Gpg::new()?);
        let fingerprints: Vec<_> = KEYS.iter().map(|key| generate(&others, key)).collect();
        let keys = others.home().join("keys");
        fs::write(&keys, others.run(&["--export"])).unwrap();
        let file = others.home().join("file");
        let mut signed = Vec::new();
        for (who, day) in [(0, 1), (0, 2), (0, 3), (1, 4), (2, 1), (2, 2), (3, 5), (4, 5)] {
            fs::write(&file, format!("{who} says on day {day}")).unwrap();
            let path = others.home().join(format!("{who}-{day}.sig"));
            let (out, file) = (path.to_str().unwrap(), file.to_str().unwrap());
            run(&others, START + day * DAY, &["-u", &fingerprints[who], "-o", out, "-s", file]);
            signed.push((path, day));
        }
        let own = generate(&gpg, "Me <me@example.org>");
        run(&gpg, START, &["--import", keys.to_str().unwrap()]);
        for (path, day) in &signed {
            run(&gpg, START + day * DAY + 60, &["--verify", path.to_str().unwrap()]);
        }
        run(&gpg, START + 6 * DAY, &["--tofu-policy", "good", &fingerprints[2]]);
        run(&gpg, START + 6 * DAY, &["--tofu-policy", "bad", &fingerprints[3]]);
        for day in [7, 8] {
            let args = ["-r", &fingerprints[2], "-o", "-", "-e", file.to_str().unwrap()];
            run(&gpg, START + day * DAY, &args);
        }
        // A listing computes the effective policies.
        listing(&gpg);
        end_agent(&others);
        end_agent(&gpg);
        gpg.home().join("tofu.db").exists().then_some(Self { gpg, fingerprints, own })
    }

    fn path(&self) -> std::path::PathBuf {
        self.gpg.home().join("tofu.db")
    }

    fn binding<'a>(&self, database: &'a TofuDatabase, key: usize) -> &'a TofuBinding {
        let is = |b: &&TofuBinding| b.fingerprint.to_string() == self.fingerprints[key];
        database.bindings.iter().find(is).unwrap()
    }
}

fn used() -> Option<Used> {
    let used = Used::new();
    if used.is_none() {
        talaria_needs::left_out("gpg with a TOFU database");
    }
    used
}

/// The rows of a database, and its SQL schema.
fn rows(path: &Path) -> Vec<Vec<Value>> {
    let connection = Connection::open(path).unwrap();
    let mut rows = Vec::new();
    for sql in [
        // The statements are equal except for spaces and order.
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name",
        "SELECT version FROM version",
        // A row without a conflict has NULL or an empty string.
        "SELECT oid, fingerprint, email, user_id, time, policy, coalesce(conflict, ''), \
         effective_policy FROM bindings ORDER BY oid",
        "SELECT * FROM signatures ORDER BY binding, sig_digest, origin",
        "SELECT * FROM encryptions ORDER BY binding, rowid",
        "SELECT * FROM ultimately_trusted_keys ORDER BY rowid",
        "SELECT * FROM sqlite_sequence",
    ] {
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let found = statement
            .query_map([], |row| (0..columns).map(|column| row.get(column)).collect())
            .unwrap();
        rows.extend(found.map(Result::unwrap));
    }
    rows
}

fn listing(gpg: &Gpg) -> String {
    let args = ["--with-tofu-info", "--with-colons", "-k"];
    String::from_utf8(run(gpg, END, &args)).unwrap()
}

#[test]
fn databases_written_by_gpg_are_read() {
    let Some(used) = used() else { return };
    let before = (fs::read(used.path()).unwrap(), used.path().metadata().unwrap().modified());
    assert!(is_tofudb(&used.path()));
    let database = read_tofudb(&used.path()).unwrap();
    assert_eq!(before.0, fs::read(used.path()).unwrap());
    assert_eq!(before.1.unwrap(), used.path().metadata().unwrap().modified().unwrap());

    let [alice, other_alice, bob, carol, somebody] =
        std::array::from_fn(|key| used.binding(&database, key));
    assert_eq!(alice.email, b"alice@example.org");
    assert_eq!(other_alice.email, alice.email);
    assert_eq!(other_alice.user_id, KEYS[1].as_bytes());
    assert_eq!(somebody.email, b"somebody without an address");
    assert_eq!(alice.signatures.len(), 3);
    let dates: Vec<_> = alice.signatures.iter().map(|s| (s.sig_time, s.time)).collect();
    let day = |n: u64| i64::try_from(START + n * DAY).unwrap();
    assert_eq!(dates, [1, 2, 3].map(|n| (day(n), day(n) + 60)));
    assert!(alice.signatures.iter().all(|s| s.origin == "unknown" && s.digest.len() > 40));
    // The second key with the address is a conflict for the first.
    assert_eq!(alice.conflict, Some(other_alice.fingerprint));
    assert_eq!(other_alice.conflict, Some(alice.fingerprint));
    let effective = [alice, other_alice, bob, somebody].map(|binding| binding.effective);
    let [ask, good, auto] = [TofuPolicy::Ask, TofuPolicy::Good, TofuPolicy::Auto].map(Some);
    assert_eq!(effective, [ask, ask, good, auto]);
    assert_eq!((bob.policy, carol.policy), (TofuPolicy::Good, TofuPolicy::Bad));
    assert_eq!(alice.policy, TofuPolicy::Auto);
    assert_eq!(bob.encryptions, [day(7), day(8)]);
    assert_eq!(database.ultimately_trusted.len(), 1);
    assert!(used.own.ends_with(&database.ultimately_trusted[0].to_string()));
    assert!(database.bindings.iter().all(|b| matches!(b.fingerprint, Fingerprint::V4(_))));
}

#[test]
fn gpg_uses_written_databases_like_its_own() {
    let Some(used) = used() else { return };
    let other = Gpg::new().unwrap();
    for name in ["pubring.kbx", "trustdb.gpg"] {
        fs::copy(used.gpg.home().join(name), other.home().join(name)).unwrap();
    }
    let path = other.home().join("tofu.db");
    let database = read_tofudb(&used.path()).unwrap();
    let left_out = write_tofudb(&path, &database, IfExists::Refuse).unwrap();
    assert!(left_out.is_empty(), "{left_out:?}");
    assert_eq!(rows(&used.path()), rows(&path));

    let theirs = listing(&used.gpg);
    assert_eq!(theirs, listing(&other));
    assert_eq!(theirs.lines().filter(|line| line.starts_with("tfs:")).count(), KEYS.len() + 1);
    // Later changes by gpg are the same, too.
    for gpg in [&used.gpg, &other] {
        run(gpg, END, &["--tofu-policy", "unknown", &used.fingerprints[0]]);
    }
    assert_eq!(listing(&used.gpg), listing(&other));
    assert_eq!(rows(&used.path()), rows(&path));
}

/// Files from before 2.1.16 have neither encryptions nor effective policies: gpg adds these
/// columns.
#[test]
fn an_old_tofu_database_is_converted_for_gpg() {
    let Some(used) = used() else { return };
    let old = used.gpg.home().join("old.db");
    fs::copy(used.path(), &old).unwrap();
    Connection::open(&old)
        .unwrap()
        .execute_batch(
            "drop table encryptions; drop table ultimately_trusted_keys;
             create table b (oid INTEGER PRIMARY KEY AUTOINCREMENT,
              fingerprint TEXT, email TEXT, user_id TEXT, time INTEGER,
              policy BOOLEAN CHECK (policy in (1, 2, 3, 4, 5)), conflict STRING,
              unique (fingerprint, email));
             insert into b select oid, fingerprint, email, user_id, time, policy, conflict
              from bindings;
             drop table bindings; alter table b rename to bindings;",
        )
        .unwrap();
    let mut expected = read_tofudb(&used.path()).unwrap();
    expected.ultimately_trusted.clear();
    for binding in &mut expected.bindings {
        binding.effective = None;
        binding.encryptions.clear();
    }
    assert_eq!(read_tofudb(&old).unwrap(), expected);

    let homes = [(); 2].map(|()| Gpg::new().unwrap());
    for gpg in &homes {
        for name in ["pubring.kbx", "trustdb.gpg"] {
            fs::copy(used.gpg.home().join(name), gpg.home().join(name)).unwrap();
        }
    }
    fs::copy(&old, homes[0].home().join("tofu.db")).unwrap();
    write_tofudb(&homes[1].home().join("tofu.db"), &expected, IfExists::Refuse).unwrap();
    assert_eq!(listing(&homes[0]), listing(&homes[1]));
}
