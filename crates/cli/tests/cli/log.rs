//! The signed log through the program: nodes that exchange files, attacks, other programs, and
//! `kill -9`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value as Json;
use talaria::message::{Rules, openpgp, read_cert, signing_key};
use talaria_log::{
    Action, ChainName, Change, DataAction, EXPORT_MAGIC, Entry, EntryId, FieldChange, KeyName, Log,
    LogError, LogFolder, Maker, ObjectId, Signed, StoredSignature, Value, read_export,
};

use crate::crash::{Moments, kills};
use crate::json::assert_documented;
use crate::program::make_gnupg_home;

/// Nodes in one folder. Each has keys, a store and a copy of the log of its own.
struct Site(tempfile::TempDir);

/// A node of a site, and the person who uses it.
#[derive(Clone, Copy)]
struct Node<'a>(&'a Site, &'static str);

impl Site {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A node with a new key, which has the certificates of all nodes so far and has confirmed
    /// them.
    fn node(&self, name: &'static str) -> Node<'_> {
        let node = Node(self, name);
        node.ok(&format!("key generate --no-passphrase {name}@example.org"));
        node.ok(&format!("export {name}@example.org -o {name}.pgp"));
        for certificate in fs::read_dir(self.0.path()).unwrap() {
            let path = certificate.unwrap().path();
            if path.extension().is_some_and(|end| end == "pgp") {
                let other = path.file_stem().unwrap().to_str().unwrap().to_owned();
                if other != name {
                    node.meets(&[&other]);
                }
            }
        }
        node
    }

    /// Alice with a new log, and Bob with a copy of it.
    fn pair(&self) -> (Node<'_>, Node<'_>) {
        let alice = self.node("alice");
        let bob = self.node("bob");
        alice.meets(&["bob"]);
        alice.ok("log init --rule tags*=set --rule strict*=strict --rule visits=counter --rule lines*=list");
        alice.ok("log put server-1 color red");
        alice.ok("log export -o start.tlg");
        bob.ok("log import start.tlg");
        (alice, bob)
    }
}

impl Node<'_> {
    fn folder(&self) -> PathBuf {
        self.0.at(&format!("{}.log", self.1))
    }

    /// Imports the certificates of others, and confirms them.
    fn meets(&self, others: &[&str]) {
        for other in others {
            self.ok(&format!("import {other}.pgp"));
            self.ok(&format!("certify --local {other}@example.org"));
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talaria"));
        command.arg("--json").args(words).current_dir(self.0.0.path());
        command.env("TALARIA_STORE", self.0.at(&format!("{}.db", self.1)));
        command.env("TALARIA_KEYS", self.0.at(&format!("{}.keys", self.1)));
        command.env("TALARIA_LOG", self.folder()).env("TALARIA_CONFIG", "");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap()
    }

    /// Runs a line that must succeed, and returns its objects.
    fn ok(&self, line: &str) -> Vec<Json> {
        let output = self.run(line);
        assert!(output.status.success(), "{}: {line}: {output:?}", self.1);
        objects(&output.stdout)
    }

    /// Runs a line that must fail with this status, and returns the kind of the error and its text.
    fn fails(&self, line: &str, status: i32) -> (String, String) {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(status), "{}: {line}: {output:?}", self.1);
        let error = objects(&output.stderr).pop().unwrap()["error"].clone();
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (text("kind"), text("message"))
    }

    /// Imports a file, and returns the report and whether all of it was taken.
    fn import(&self, file: &str) -> (Json, bool) {
        let output = self.run(&format!("log import {file}"));
        let report = objects(&output.stdout).pop();
        let report = report.unwrap_or_else(|| panic!("{}: {output:?}", self.1));
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        (report, output.status.success())
    }

    /// Imports one entry that must be refused for this reason.
    fn refuses(&self, entry: &Signed, reason: &str) {
        let before = self.stats();
        write(&self.0.at("attack.tlg"), std::slice::from_ref(entry));
        let (report, complete) = self.import("attack.tlg");
        assert!(!complete, "{report}");
        assert_eq!(report["refused"][0]["reason"], reason, "{report}");
        assert_eq!(report["refused"][0]["entry"], entry.id.to_string());
        assert_eq!(report["added"], 0);
        assert_eq!(self.stats(), before);
    }

    fn stats(&self) -> Json {
        self.ok("log stats").remove(0)
    }

    fn verify(&self) {
        assert_eq!(self.ok("log verify")[0]["good"], true);
    }

    /// The values of a field.
    fn get(&self, object: &str, field: &str) -> Json {
        self.ok(&format!("log get {object} {field}"))[0]["values"].clone()
    }

    fn grant_of(&self, who: &str) -> String {
        let grants = self.ok("log list --grants").into_iter();
        let mut theirs =
            grants.filter(|line| line["user_id"].as_str().is_some_and(|id| id.contains(who)));
        theirs.find_map(|grant| Some(grant["grant"].as_str()?.to_owned())).unwrap()
    }

    /// Writes all that one node has to a file that another takes.
    fn send(&self, other: Node<'_>) -> Json {
        self.ok("log export -o sent.tlg --overwrite");
        let (report, complete) = other.import("sent.tlg");
        assert!(complete, "{report}");
        report
    }

    /// The secret key of the person, and the name of their chain in their folder.
    fn person(&self) -> (openpgp::Cert, ChainName) {
        let output = self.run(&format!("key export {}@example.org", self.1));
        let cert = read_cert(&output.stdout).unwrap();
        let key = signing_key(&cert, Rules::default(), now(), &mut |_, _| None).unwrap();
        let author = KeyName::of_openpgp(&cert.fingerprint()).unwrap();
        let subkey = KeyName::of_openpgp(&key.public().fingerprint()).unwrap();
        let instance = fs::read(self.folder().join("instance")).unwrap();
        (cert, ChainName { author, subkey, instance: instance[..16].try_into().unwrap() })
    }
}

fn now() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u32::try_from(now.as_secs()).unwrap()
}

fn objects(text: &[u8]) -> Vec<Json> {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Writes an export with these entries.
fn write(path: &Path, entries: &[Signed]) {
    let mut bytes = EXPORT_MAGIC.to_vec();
    for entry in entries {
        let record = entry.to_record();
        bytes.extend(u32::try_from(record.len()).unwrap().to_be_bytes());
        bytes.extend(record);
    }
    fs::write(path, bytes).unwrap();
}

/// The entries of an export.
fn read(path: &Path) -> Vec<Signed> {
    let mut entries = Vec::new();
    let mut input = fs::File::open(path).unwrap();
    let see = |found: Vec<Signed>| {
        entries.extend(found);
        Ok::<_, LogError>(())
    };
    read_export(&mut input, "test", see).unwrap();
    entries
}

fn set(object: ObjectId, field: &str, text: &str) -> Action {
    let change = FieldChange::Set(Some(Value::String(text.to_owned())));
    Action::Data(DataAction { object, change: Change::Field(field.to_owned(), change) })
}

/// The entry that follows in the log of a node, for the chain `chain`, whoever signs it later.
fn draft(log: &Log, chain: ChainName, grant: EntryId, action: Action) -> Entry {
    let genesis = log.entries().next().unwrap();
    let heads = log.heads();
    let links: Vec<EntryId> = heads.into_iter().filter(|id| *id != genesis.0).collect();
    let clock = talaria_log::Clock::after(log.latest(), u64::from(now()) * 1000).unwrap();
    Entry {
        log: log.id(),
        chain: ChainName { instance: [77; 16], ..chain },
        sequence: 0,
        previous: EntryId::NONE,
        links,
        clock,
        grant,
        action,
    }
}

/// The entry, signed by the key of `cert`.
fn signed(entry: Entry, cert: &openpgp::Cert) -> Signed {
    let mut key = signing_key(cert, Rules::default(), now(), &mut |_, _| None).unwrap();
    let (log, chain) = (entry.log, entry.chain);
    Maker { chain, key: &mut key }.sign(entry, log, u64::from(now()) * 1000).unwrap()
}

#[test]
fn two_folders_that_exchange_files_converge() {
    let site = Site::new();
    let (alice, bob) = site.pair();
    alice.ok("log grant bob@example.org");
    alice.send(bob);
    // Both write without seeing the other, to fields with each rule.
    for (node, text) in [(alice, "one"), (bob, "two")] {
        node.ok(&format!("log put server-1 color {text}"));
        node.ok(&format!("log put server-1 strict {text}"));
        node.ok(&format!("log put server-1 tags {text}"));
        node.ok("log put server-1 tags both");
        node.ok("log put server-1 visits 5");
        node.ok(&format!("log put server-1 lines {text}"));
        node.ok(&format!("log put of-{} size 7 --type integer", node.1));
    }
    alice.send(bob);
    let report = bob.send(alice);
    assert!(report["added"].as_u64().unwrap() > 5 && report["known"].as_u64().unwrap() > 5);
    assert_eq!(alice.stats()["state"], bob.stats()["state"]);
    for node in [alice, bob] {
        node.verify();
        // Bob wrote last.
        assert_eq!(node.get("server-1", "color"), serde_json::json!(["two"]));
        assert_eq!(node.get("server-1", "tags"), serde_json::json!(["both", "one", "two"]));
        assert_eq!(node.get("server-1", "visits"), serde_json::json!([10]));
        assert_eq!(node.get("of-bob", "size"), serde_json::json!([7]));
        let strict = &node.ok("log get server-1 strict")[0];
        assert_eq!(strict["values"].as_array().unwrap().len(), 2);
        assert_eq!(strict["conflict"], true);
        assert_eq!(node.ok("log list").len(), 3);
        let history = node.ok("log history server-1 color");
        let said: Vec<&str> =
            history.iter().map(|entry| entry["value"].as_str().unwrap()).collect();
        assert_eq!(said, ["red", "one", "two"]);
        assert!(history.iter().all(|entry| entry["standing"] == "counts"));
    }
    // A write that has seen both values replaces both; an element goes for everybody.
    bob.ok("log put server-1 strict three");
    bob.ok("log put --remove server-1 tags both");
    bob.ok("log put --remove server-1 color");
    bob.ok("log put --remove of-bob");
    bob.send(alice);
    assert_eq!(alice.get("server-1", "strict"), serde_json::json!(["three"]));
    assert_eq!(alice.get("server-1", "tags"), serde_json::json!(["one", "two"]));
    alice.fails("log get server-1 color", 1);
    alice.fails("log get of-bob", 1);
    assert_eq!(alice.stats()["state"], bob.stats()["state"]);
    // What was taken before is taken once.
    let (report, complete) = alice.import("sent.tlg");
    assert!(complete && report["added"] == 0, "{report}");
}

#[test]
fn an_update_without_a_grant_is_refused() {
    let site = Site::new();
    let (alice, bob) = site.pair();
    let before = bob.stats();
    let (kind, message) = bob.fails("log put server-1 color blue", 1);
    assert_eq!(kind, "refused");
    assert!(message.contains("is no owner of the log"), "{message}");
    assert_eq!(bob.stats(), before);
    alice.ok("log grant bob@example.org --fields note* --operations fields --object server-1");
    alice.send(bob);
    bob.ok("log put server-1 note-1 hello");
    for line in
        ["log put server-1 color blue", "log put server-2 note-1 x", "log put --remove server-1"]
    {
        let (kind, message) = bob.fails(line, 1);
        assert_eq!(kind, "refused", "{line}");
        assert!(message.contains("the grant does not allow this"), "{line}: {message}");
    }
    assert_eq!(bob.fails("log grant alice@example.org", 1).0, "refused");
    bob.send(alice);
    // After the revocation, what was known before still counts, and nothing else.
    bob.ok("log put server-1 note-2 late");
    alice.ok("log revoke bob@example.org --reason retired");
    alice.send(bob);
    assert_eq!(bob.fails("log put server-1 note-1 again", 1).0, "refused");
    bob.ok("log export -o sent.tlg --overwrite");
    alice.import("sent.tlg");
    for node in [alice, bob] {
        assert_eq!(node.get("server-1", "note-1"), serde_json::json!(["hello"]));
        node.fails("log get server-1 note-2", 1);
        let late = node.ok("log history server-1 note-2");
        assert_eq!(late[0]["standing"], "revoked");
    }
    assert_eq!(alice.stats()["state"], bob.stats()["state"]);
}

#[test]
fn attacks_are_refused_by_their_kind() {
    let site = Site::new();
    let (alice, bob) = site.pair();
    alice.ok("log grant bob@example.org --fields note*");
    alice.send(bob);
    bob.ok("log put server-1 note hello");
    bob.ok("log export -o bob.tlg");
    let (bobs, bob_chain) = bob.person();
    let (_, alice_chain) = alice.person();
    let grant: EntryId = alice.grant_of("bob").parse().unwrap();
    let own = read(&site.at("bob.tlg")).pop().unwrap();
    let (id, drafts) = {
        let log = LogFolder::open(&alice.folder()).unwrap();
        let object = log.read(|log| log.find_object("server-1")).unwrap().unwrap();
        let make = |chain, grant, field| {
            log.read(|log| draft(log, chain, grant, set(object, field, "x"))).unwrap()
        };
        let drafts = [
            make(bob_chain, grant, "note"),
            make(bob_chain, grant, "color"),
            make(ChainName { author: alice_chain.author, ..bob_chain }, EntryId::NONE, "color"),
            make(alice_chain, EntryId::NONE, "color"),
            make(bob_chain, EntryId::NONE, "color"),
        ];
        (log.id(), drafts)
    };
    let [good, ungranted, other_author, stolen_name, no_grant] = drafts;
    // A forged signature: one bit of it is changed.
    let mut record = own.to_record();
    *record.last_mut().unwrap() ^= 1;
    let forged = talaria_log::read_record(&record).unwrap().remove(0);
    alice.refuses(&forged, "signature");
    // A wrong author: Bob's key for Alice, and Bob's signature below an entry of Alice's key.
    alice.refuses(&signed(other_author, &bobs), "key");
    alice.refuses(&signed(stolen_name, &bobs), "signature");
    alice.refuses(&signed(ungranted, &bobs), "not-granted");
    alice.refuses(&signed(no_grant, &bobs), "stranger");
    // A document's signature, offered as that of an entry.
    let bytes = good.to_bytes();
    fs::write(site.at("document"), &bytes).unwrap();
    bob.ok("sign document -o document.sig");
    let packet = fs::read(site.at("document.sig")).unwrap();
    let signature = StoredSignature::of_packet(&packet, bob_chain.subkey, id).unwrap();
    alice.refuses(&Signed::alone(good.clone(), signature), "signature");
    // The reverse: the signature of an entry, offered as that of a document.
    bob.ok("log export --pgp proof");
    let output = bob.run("verify proof/00000001.entry.sig proof/00000001.entry");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(objects(&output.stdout).last().unwrap()["accepted"], false);
    // The good one is good, once. A replayed entry is no second one.
    write(&site.at("good.tlg"), &[signed(good, &bobs)]);
    assert_eq!(alice.import("good.tlg").0["added"], 1);
    let before = alice.stats();
    let (report, complete) = alice.import("good.tlg");
    assert!(complete && report["added"] == 0 && report["known"] == 1, "{report}");
    assert_eq!(alice.stats(), before);
    // An entry in another log than its own.
    let mallory = site.node("mallory");
    mallory.ok("log init");
    let (kind, message) = mallory.fails("log import good.tlg", 3);
    assert!(kind == "bad_input" && message.contains(&id.to_string()), "{message}");
    // Another log in place of the expected one.
    mallory.ok("log export -o mallory.tlg");
    let carol = site.node("carol");
    carol.fails(&format!("log import --expect {id} mallory.tlg"), 3);
    assert!(!carol.folder().exists());
    carol.ok(&format!("log import --expect {id} start.tlg"));
    // An oversized value.
    let lines =
        serde_json::json!({"object": "server-1", "field": "note", "value": "x".repeat(65_536)});
    fs::write(site.at("large.jsonl"), lines.to_string()).unwrap();
    let (kind, message) = bob.fails("log put --from large.jsonl", 1);
    assert!(kind == "refused" && message.contains("large.jsonl, update 1"), "{message}");
    assert_eq!(alice.get("server-1", "color"), serde_json::json!(["red"]));
    alice.verify();
}

#[test]
fn a_clock_in_the_future_waits() {
    let site = Site::new();
    let (alice, bob) = site.pair();
    alice.ok("log grant bob@example.org");
    alice.send(bob);
    let (soon, later) = (now() + 3600, now() + 3590);
    bob.ok(&format!("--faked-time {soon} log put server-1 color future"));
    bob.ok("log export -o future.tlg");
    let (report, complete) = alice.import("future.tlg");
    assert!(!complete && report["ahead"] == 1 && report["added"] == 0, "{report}");
    assert_eq!(alice.get("server-1", "color"), serde_json::json!(["red"]));
    let report = alice.ok(&format!("--faked-time {later} log import future.tlg")).remove(0);
    assert_eq!(report["added"], 1, "{report}");
    // An entry whose past is missing is not taken either.
    bob.ok(&format!("--faked-time {soon} log put server-1 color last"));
    bob.ok("log export -o sent.tlg --overwrite");
    let last = read(&site.at("sent.tlg")).pop().unwrap();
    let carol = site.node("carol");
    carol.ok("log import start.tlg");
    write(&site.at("last.tlg"), &[last]);
    let (report, complete) = carol.import("last.tlg");
    assert!(!complete && report["waiting"] == 1, "{report}");
}

#[test]
fn other_programs_verify_what_is_exported_for_them() {
    let site = Site::new();
    let alice = site.node("alice");
    alice.ok("log init");
    alice.ok("log put server-1 color red");
    let lines: Vec<String> = (0..5)
        .map(|n| format!("{{\"object\": \"server-{n}\", \"field\": \"size\", \"value\": {n}}}"))
        .collect();
    fs::write(site.at("updates.jsonl"), lines.join("\n")).unwrap();
    let report = alice.ok("log put --from updates.jsonl --batch").remove(0);
    assert_eq!((&report["updates"], &report["syncs"]), (&5.into(), &1.into()), "{report}");
    let report = alice.ok("log export --pgp proof").remove(0);
    // Genesis, creation and color alone; four creations and five sizes in a batch.
    assert_eq!((&report["signatures"], &report["proven"]), (&4.into(), &9.into()), "{report}");
    alice.fails("log export --pgp proof", 1);
    let proof = site.at("proof");
    let gnupg = site.at("gnupg");
    make_gnupg_home(&gnupg);
    let gpg = |words: &[&str]| {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--status-fd", "1", "--no-auto-check-trustdb"]).args(words);
        let output = command.current_dir(&proof).env("GNUPGHOME", &gnupg).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert!(gpg(&["--import", "certs.pgp"]).0);
    let mut count = 0;
    for file in fs::read_dir(&proof).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|end| end != "sig") {
            continue;
        }
        count += 1;
        let signature = path.file_name().unwrap().to_str().unwrap().to_owned();
        let data = signature.strip_suffix(".sig").unwrap();
        let (good, said) = gpg(&["--verify", &signature, data]);
        assert!(good && said.contains("GOODSIG"), "{signature}: {said}");
        let mut sq = Command::new("sq");
        sq.args(["verify", "--signer-cert", "certs.pgp", "--detached", &signature, data]);
        let output = sq.current_dir(&proof).output().unwrap();
        assert!(output.status.success(), "{signature}: {output:?}");
        // They look at the bytes.
        let mut bytes = fs::read(proof.join(data)).unwrap();
        bytes[100] ^= 1;
        fs::write(proof.join("changed"), bytes).unwrap();
        let (good, said) = gpg(&["--verify", &signature, "changed"]);
        assert!(!good && said.contains("BADSIG"), "{signature}: {said}");
    }
    assert_eq!(count, 4);
    let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", &gnupg).status();
}

#[test]
fn updates_of_a_file_are_stored_together_or_not_at_all() {
    let site = Site::new();
    let (alice, bob) = site.pair();
    let lines = "\
        {\"object\": \"server-1\", \"field\": \"color\", \"value\": \"blue\"}\n\n\
        {\"object\": \"server-2\", \"field\": \"ratio\", \"value\": 0.5}\n\
        {\"object\": \"server-2\", \"field\": \"is-new\", \"value\": true}\n\
        {\"object\": \"server-2\", \"field\": \"key\", \"value\": {\"bytes\": \"00ff\"}}\n\
        {\"object\": \"server-2\", \"field\": \"limit\", \"value\": {\"float\": \"inf\"}}\n\
        {\"object\": \"server-1\", \"field\": \"color\", \"remove\": true}\n";
    fs::write(site.at("good.jsonl"), lines).unwrap();
    let report = alice.ok("log put --from good.jsonl").remove(0);
    assert_eq!((&report["updates"], &report["syncs"]), (&6.into(), &1.into()), "{report}");
    alice.fails("log get server-1 color", 1);
    assert_eq!(alice.get("server-2", "ratio"), serde_json::json!([0.5]));
    assert_eq!(alice.get("server-2", "is-new"), serde_json::json!([true]));
    assert_eq!(alice.get("server-2", "key"), serde_json::json!([{ "bytes": "00ff" }]));
    assert_eq!(alice.get("server-2", "limit"), serde_json::json!([{ "float": "inf" }]));
    let mut raw = Command::new(env!("CARGO_BIN_EXE_talaria"));
    raw.args(["log", "get", "server-2", "key", "--raw"]).env("TALARIA_LOG", alice.folder());
    assert_eq!(raw.env("TALARIA_CONFIG", "").output().unwrap().stdout, [0, 0xff]);
    alice.send(bob);
    assert_eq!(alice.stats()["state"], bob.stats()["state"]);
    // Each of these makes a whole file void.
    let before = alice.stats();
    for (bad, status) in [
        ("{\"object\": \"server-1\", \"field\": \"visits\", \"value\": \"many\"}", 2),
        ("{\"object\": \"server-1\", \"field\": \"\", \"value\": 1}", 2),
        ("{\"object\": \"server-1\", \"field\": \"color\"}", 3),
        ("{\"object\": \"server-1\", \"field\": \"color\", \"value\": 18446744073709551615}", 3),
        // As a float it would lose its last digits.
        (
            "{\"object\": \"server-1\", \"field\": \"color\", \"value\": 123456789012345678901234567890}",
            3,
        ),
        ("{\"object\": \"server-1\", \"fields\": \"color\", \"value\": 1}", 3),
        ("{\"object\": \"server-9\", \"remove\": true}", 1),
        (
            "{\"object\": \"server-1\", \"field\": \"tags\", \"value\": \"gone\", \"remove\": true}",
            1,
        ),
        ("not JSON", 3),
    ] {
        fs::write(site.at("bad.jsonl"), format!("{lines}{bad}\n")).unwrap();
        let (_, message) = alice.fails("log put --from bad.jsonl", status);
        assert!(message.contains("bad.jsonl, "), "{bad}: {message}");
        assert_eq!(alice.stats(), before, "{bad}");
    }
}

/// What is before the damage is taken, and whoever gets a copy by it learns that nobody vouches for
/// it.
#[test]
fn a_damaged_export_says_what_was_taken() {
    let site = Site::new();
    let (alice, _) = site.pair();
    alice.ok("log export -o whole.tlg --overwrite");
    let whole = fs::read(site.at("whole.tlg")).unwrap();
    fs::write(site.at("cut.tlg"), &whole[..whole.len() - 1]).unwrap();
    let carol = site.node("carol");
    let (_, message) = carol.fails("log import cut.tlg", 3);
    let entries = carol.stats()["entries"].as_u64().unwrap();
    assert!(
        entries > 0 && message.contains(&format!("after {entries} whole entries")),
        "{message}"
    );
    assert!(carol.import("whole.tlg").1);
    assert_eq!(carol.stats()["state"], alice.stats()["state"]);
    let mut plain = Command::new(env!("CARGO_BIN_EXE_talaria"));
    plain.args(["--store", "dave.db", "log", "--log", "dave.log", "import", "cut.tlg"]);
    let output = plain.current_dir(site.0.path()).env("TALARIA_CONFIG", "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("Ask an owner whether"), "{said}");
}

#[test]
fn two_owners_must_agree() {
    let site = Site::new();
    let alice = site.node("alice");
    let bob = site.node("bob");
    let carol = site.node("carol");
    alice.meets(&["bob", "carol"]);
    alice.ok("log init --owner bob@example.org --threshold 2");
    alice.ok("log put server-1 color red");
    let report = alice.ok("log grant carol@example.org").remove(0);
    assert_eq!((&report["in_force"], &report["approvals_missing"]), (&false.into(), &1.into()));
    alice.ok("log export -o sent.tlg");
    for node in [bob, carol] {
        assert!(node.import("sent.tlg").1);
    }
    assert_eq!(carol.fails("log put server-1 color blue", 1).0, "refused");
    bob.fails(&format!("log approve {}", "0".repeat(64)), 1);
    bob.ok(&format!("log approve {}", bob.grant_of("carol")));
    bob.send(carol);
    carol.ok("log put server-1 color blue");
    carol.send(alice);
    assert_eq!(alice.get("server-1", "color"), serde_json::json!(["blue"]));
    carol.send(bob);
    // A revocation needs both, too.
    alice.ok("log revoke carol@example.org --all --reason compromised");
    assert_eq!(alice.get("server-1", "color"), serde_json::json!(["blue"]));
    alice.send(bob);
    let revocation = read(&site.at("sent.tlg")).pop().unwrap().id;
    bob.ok(&format!("log approve {revocation}"));
    bob.send(alice);
    assert_eq!(alice.get("server-1", "color"), serde_json::json!(["red"]));
    assert_eq!(alice.stats()["state"], bob.stats()["state"]);
}

/// A machine that is set back to an earlier state writes other entries at the same places.
#[test]
fn a_fork_is_shown_and_an_owner_chooses() {
    let site = Site::new();
    let (alice, bob) = site.pair();
    alice.ok("log grant bob@example.org");
    alice.send(bob);
    bob.ok("log put server-1 color blue");
    let saved = fs::read(bob.folder().join("segments/00000000")).unwrap();
    bob.ok("log put server-1 color green");
    bob.ok("log export -o green.tlg");
    fs::write(bob.folder().join("segments/00000000"), saved).unwrap();
    bob.ok("log put server-1 color black");
    bob.send(alice);
    assert_eq!(alice.get("server-1", "color"), serde_json::json!(["black"]));
    assert!(alice.import("green.tlg").1);
    assert_eq!(alice.get("server-1", "color"), serde_json::json!(["blue"]));
    let report = alice.ok("log verify").remove(0);
    assert_eq!(report["forks"].as_array().unwrap().len(), 1, "{report}");
    assert!(bob.import("green.tlg").1);
    let (kind, message) = bob.fails("log put server-1 color white", 1);
    assert!(kind == "refused" && message.contains("does not count any more"), "{message}");
    let history = alice.ok("log history server-1 color");
    let green = history.iter().find(|entry| entry["value"] == "green").unwrap();
    assert_eq!(green["standing"], "forked");
    alice.ok(&format!("log choose {}", green["entry"].as_str().unwrap()));
    assert_eq!(alice.get("server-1", "color"), serde_json::json!(["green"]));
    alice.send(bob);
    bob.ok("log put server-1 color white");
    bob.send(alice);
    assert_eq!(alice.get("server-1", "color"), serde_json::json!(["white"]));
    assert_eq!(alice.stats()["state"], bob.stats()["state"]);
    alice.verify();
}

#[test]
fn a_grant_holds_no_key_that_may_not_sign() {
    let site = Site::new();
    let (alice, bob) = site.pair();
    let listed = alice.ok("list bob@example.org").remove(0);
    let (name, later) = (listed["fingerprint"].as_str().unwrap(), now() + 4 * 365 * 86400);
    let (kind, message) = alice.fails(&format!("--faked-time {later} log grant {name}"), 1);
    assert!(kind == "refused" && message.contains("expired"), "{message}");
    alice.ok("log grant bob@example.org");
    let (cert, chain) = bob.person();
    let log = LogFolder::open(&alice.folder()).unwrap();
    log.read(|log| {
        let granted = log.certificates().find(|other| other.name() == chain.author).unwrap();
        let names: Vec<KeyName> = granted.key_names().collect();
        assert!(names.contains(&chain.subkey), "{names:?}");
        let policy = openpgp::policy::StandardPolicy::new();
        let valid = cert.with_policy(&policy, None).unwrap();
        let may = |key: &openpgp::cert::prelude::ValidErasedKeyAmalgamation<'_, _>| {
            key.for_signing() || key.key().fingerprint() == cert.fingerprint()
        };
        let wanted = valid.keys().filter(may).count();
        assert!(wanted < valid.keys().count(), "the key has one for encryption");
        assert_eq!(names.len(), wanted);
    })
    .unwrap();
}

/// `kill -9` at random moments: whatever a command has reported as stored is there.
#[test]
fn no_reported_update_is_lost_by_kill_9() {
    let site = Site::new();
    let (alice, _) = site.pair();
    let many = "{\"object\": \"server-1\", \"field\": \"visits\", \"value\": 1}\n".repeat(300);
    fs::write(site.at("many.jsonl"), many).unwrap();
    let mut moments = Moments::new();
    let wanted = kills(5);
    const LINES: [(&str, u64); 2] =
        [("log put server-1 visits 1", 1), ("log put --from many.jsonl", 300)];
    let stored = || alice.get("server-1", "visits")[0].as_u64().unwrap();
    let mut usual = LINES.map(|(line, _)| {
        let begun = Instant::now();
        alice.ok(line);
        begun.elapsed()
    });
    let (mut killed, mut unreported, mut rounds) = (0, 0, 0);
    while killed < wanted {
        rounds += 1;
        let which = rounds % LINES.len();
        let (line, count) = LINES[which];
        let before = stored();
        let begun = Instant::now();
        let mut child = alice.command(&line.split(' ').collect::<Vec<_>>()).spawn().unwrap();
        thread::sleep(usual[which].mul_f64(1.1 * moments.next()));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let was_killed = output.status.code().is_none();
        assert!(was_killed || output.status.success(), "{output:?}");
        killed += u32::from(was_killed);
        // Adapts to the current speed of the machine.
        usual[which] = if was_killed {
            usual[which].mul_f64(1.02)
        } else {
            (usual[which] + begun.elapsed()) / 2
        };
        let is_reported = objects(&output.stdout).iter().any(|report| report["syncs"] == 1);
        let after = stored();
        // All updates of the command are there, or none if it reported none.
        assert!(
            after == before + count || !is_reported && after == before,
            "{line}: {before} before, {after} after, reported: {is_reported}"
        );
        unreported += u32::from(!is_reported && after != before);
    }
    println!(
        "{killed} of {rounds} killed, {unreported} stored and not yet reported, {} updates",
        stored()
    );
    alice.verify();
}

/// Two owners sign a snapshot, and Dave reads it without a log, a store or a key.
#[test]
fn a_snapshot_shows_the_log_to_others() {
    let site = Site::new();
    let alice = site.node("alice");
    let bob = site.node("bob");
    alice.meets(&["bob"]);
    alice.ok("log init --owner alice@example.org --owner bob@example.org --threshold 2");
    alice.ok("log put server-1 color red");
    alice.ok("log put server-1 phone secret --deletable");
    let id = alice.stats()["log"].as_str().unwrap().to_owned();
    let made = alice.ok("log snapshot make").remove(0);
    assert_eq!((&made["in_force"], &made["needed"]), (&false.into(), &1.into()));
    alice.fails("log snapshot export -o log.snapshot", 1);
    let entry = made["entry"].as_str().unwrap();
    alice.fails(&format!("log snapshot export {entry} -o log.snapshot"), 1);
    alice.ok("log export -o sent.tlg");
    bob.ok("log import sent.tlg");
    bob.ok(&format!("log approve {entry}"));
    let listed = bob.ok("log list --snapshots");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["in_force"], true);
    assert_eq!(listed[0]["agreed"].as_array().unwrap().len(), 2);
    let written = bob.ok("log snapshot export -o log.snapshot").remove(0);
    assert_eq!((&written["values"], &written["missing_values"]), (&1.into(), &0.into()));
    // What comes later is not in it.
    bob.ok("log put server-1 color blue");

    let dave = Node(&site, "dave");
    let checked = dave.ok(&format!("log snapshot check log.snapshot --expect {id}")).remove(0);
    assert_eq!((&checked["entry"], &checked["state"]), (&made["entry"], &made["state"]));
    assert_eq!((&checked["threshold"], &checked["objects"]), (&2.into(), &1.into()));
    assert_eq!(checked["signers"].as_array().unwrap().len(), 2);
    let read = |part: &str| {
        dave.ok(&format!("log snapshot read log.snapshot --expect {id}{part}")).remove(0)
    };
    assert_eq!(read("")["name"], "server-1");
    assert_eq!(read(" server-1 color")["values"][0], "red");
    assert_eq!(read(" server-1 phone")["values"][0], "secret");
    dave.fails(&format!("log snapshot read log.snapshot --expect {id} server-2"), 1);
    dave.fails(&format!("log snapshot read log.snapshot --expect {id} server-1 shape"), 1);
    // Another log, and a file that somebody has changed.
    let other = format!("{}{}", &id[1..], &id[..1]);
    dave.fails(&format!("log snapshot check log.snapshot --expect {other}"), 3);
    let mut bytes = fs::read(site.at("log.snapshot")).unwrap();
    let at = bytes.windows(3).rposition(|part| part == b"red").unwrap();
    bytes[at] = b'R';
    fs::write(site.at("changed.snapshot"), bytes).unwrap();
    let (_, why) = dave.fails(&format!("log snapshot check changed.snapshot --expect {id}"), 4);
    assert!(why.contains("not those that the owners have signed"), "{why}");
    let verified = bob.ok("log verify").remove(0);
    assert_eq!(verified["snapshots"], 1);
    assert_eq!(verified["wrong_snapshots"], serde_json::json!([]));
}

/// Alice makes checkpoints, and people at two machines without the log cosign them.
#[test]
fn witnesses_cosign_checkpoints_with_files() {
    let site = Site::new();
    let alice = site.node("alice");
    for witness in ["one", "two", "three"] {
        alice.ok(&format!("log witness init {witness} {witness}.example.net"));
    }
    alice.ok("log init --checkpointer c.key --witness one/key.pub --witness two/key.pub --witness three/key.pub");
    for witness in ["one", "two", "three"] {
        alice.ok(&format!("log witness trust {witness} c.key.pub"));
    }
    alice.ok("log put server-1 color red");
    let first = alice.ok("log checkpoint --key c.key --request first.txt").remove(0);
    assert_eq!((&first["size"], &first["made"]), (&3.into(), &true.into()));
    for witness in ["one", "two"] {
        alice.ok(&format!("log witness cosign {witness} first.txt -o {witness}.txt"));
    }
    // One of three is not enough.
    assert_eq!(alice.ok("log cosign one.txt")[0]["valid"], false);
    assert_eq!(alice.ok("log cosign two.txt")[0]["valid"], true);
    let last = alice.stats()["checkpoint"].clone();
    assert_eq!((&last["entry"], &last["valid"]), (&first["entry"], &true.into()));
    assert_eq!(last["cosigned"].as_array().unwrap().len(), 2);
    // The next request begins at the last valid checkpoint, which the third witness has not seen.
    alice.ok("log put server-1 color blue");
    let second = alice.ok("log checkpoint --key c.key --request second.txt").remove(0);
    alice.ok("log witness cosign one second.txt -o one-2.txt");
    let (kind, why) = alice.fails("log witness cosign three second.txt", 1);
    assert!(kind == "refused" && why.contains("size 0"), "{kind} {why}");
    let again = alice.ok("log checkpoint --old 0 --request third.txt").remove(0);
    assert_eq!((&again["entry"], &again["made"]), (&second["entry"], &false.into()));
    alice.ok("log witness cosign three third.txt -o three-2.txt");
    // A request has no cosignature of a witness in it.
    alice.ok("log cosign one-2.txt");
    alice.ok("log cosign three-2.txt");
    alice.fails("log cosign first.txt", 1);
    assert_eq!(alice.fails("log checkpoint --key one/key", 1).0, "refused");
    let listed = alice.ok("log list --checkpoints");
    assert!(listed.len() == 2 && listed.iter().all(|checkpoint| checkpoint["valid"] == true));
    let verified = alice.ok("log verify").remove(0);
    let found = ["good", "checkpoints", "valid_checkpoints"].map(|name| verified[name].clone());
    assert_eq!(found, [serde_json::json!(true), 2.into(), 2.into()]);
    assert_eq!(verified["checkpoint_forks"], serde_json::json!([]));
    // Readers without the log: notes, proofs of consistency, and a proof for each entry that is
    // covered.
    let files = alice.ok("log export --pgp proof").remove(0);
    assert_eq!((&files["checkpoints"], &files["covered"]), (&2.into(), &second["size"]));
    let proof = fs::read_to_string(site.at("proof/00000002.tlog-proof")).unwrap();
    assert!(proof.starts_with("c2sp.org/tlog-proof@v1\nindex 2\n"), "{proof}");
    let note = fs::read_to_string(site.at("proof/3.checkpoint")).unwrap();
    assert_eq!(note.matches('\u{2014}').count(), 4, "{note}");
    let bob = site.node("bob");
    alice.ok("log export -o all.tlg");
    let (report, complete) = bob.import("all.tlg");
    assert!(complete, "{report}");
    assert_eq!(bob.stats()["checkpoint"], alice.stats()["checkpoint"]);
    // A key that was stolen at a time that is stated.
    let stolen = alice.ok("log revoke alice@example.org --stolen 1").remove(0);
    assert_eq!((&stolen["stolen"], &stolen["heads"]), (&1.into(), &0.into()));
    assert_eq!(alice.ok("log list").len(), 0, "no checkpoint is so old");
}

/// A node that serves its log in a process of its own, and ends well.
struct Serving {
    child: std::process::Child,
    address: String,
    events: std::thread::JoinHandle<Vec<Json>>,
}

impl Serving {
    fn start(node: Node<'_>, words: &[&str]) -> Self {
        let words = [&["log", "serve"], words].concat();
        let mut child = node.command(&words).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut events = lines.map(|line| serde_json::from_str::<Json>(&line.unwrap()).unwrap());
        let address = if words.contains(&"--listen") {
            let first = events.next().unwrap();
            assert_eq!(first["event"], "listening");
            first["address"].as_str().unwrap().to_owned()
        } else {
            String::new()
        };
        Self { child, address, events: thread::spawn(move || events.collect()) }
    }

    /// Ends the node by a signal, and gives what it has said.
    fn end(mut self) -> Vec<Json> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.events.join().unwrap()
    }
}

/// Waits until something holds, for a minute at most.
fn wait(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed().as_secs() < 60, "{what}");
        thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// From a new folder to a node that stays connected, with commands that use the log beside it.
#[test]
fn nodes_exchange_entries_over_the_network() {
    let site = Site::new();
    let alice = site.node("alice");
    let bob = site.node("bob");
    alice.meets(&["bob"]);
    alice.ok("log init");
    alice.ok("log put server-1 color red");
    alice.ok("log grant bob@example.org");
    let own = alice.ok("log node publish --name alice-1")[0]["key"].clone();
    let own = own.as_str().unwrap();
    let (kind, text) = alice.fails("log node publish --name alice-1", 1);
    assert!(kind == "not_found" && text.contains("published already"), "{kind} {text}");
    let key = bob.ok("log node key")[0]["key"].as_str().unwrap().to_owned();
    assert_eq!(bob.ok("log node key")[0]["key"], key);
    let served = Serving::start(alice, &["--listen", "127.0.0.1:0"]);
    let id = alice.stats()["log"].as_str().unwrap().to_owned();
    let first = format!("log sync {} --expect {id} --peer-key {own}", served.address);
    // Bob's node may not connect yet. Alice publishes its key while her node runs.
    let (_, text) = bob.fails(&first, 1);
    assert!(text.contains(&format!("the key {key} of this node is not published")), "{text}");
    assert!(!bob.folder().join("segments").exists());
    alice.ok(&format!("log node publish {key} --name bob-1"));
    let report = bob.ok(&first).remove(0);
    assert_documented("talaria log sync", &report);
    assert_eq!((&report["added"], &report["complete"]), (&6.into(), &true.into()), "{report}");
    assert_eq!(bob.stats()["state"], alice.stats()["state"]);
    // Bob watches, and his node stays connected.
    let mut watch = bob.command(&["log", "watch", "server-1", "color"]).spawn().unwrap();
    let mut seen = BufReader::new(watch.stdout.take().unwrap()).lines();
    thread::sleep(std::time::Duration::from_millis(500));
    let connected = Serving::start(bob, &["--peer", &served.address]);
    for number in 0..5 {
        alice.ok(&format!("log put server-1 color {number}"));
        bob.ok(&format!("log put server-1 note {number}"));
        alice.ok("log put server-2 color other");
    }
    wait("the nodes become the same", || bob.stats()["state"] == alice.stats()["state"]);
    for number in 0..5 {
        let line: Json = serde_json::from_str(&seen.next().unwrap().unwrap()).unwrap();
        assert_documented("talaria log watch", &line);
        assert_eq!(
            (&line["field"], &line["value"]),
            (&"color".into(), &number.to_string().into()),
            "{line}"
        );
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    // Bob's node is put out, and says why.
    let list = alice.ok("log node list");
    assert_eq!(list.len(), 2);
    assert!(list.iter().all(|node| node["may_connect"] == true), "{list:?}");
    alice.ok(&format!("log node end {key}"));
    assert_eq!(alice.ok("log node list")[1]["may_connect"], false);
    let (_, text) = alice.fails(&format!("log node end {key}"), 1);
    assert!(text.contains("no node with the key"), "{text}");
    wait("the node is out", || {
        bob.fails(&format!("log sync {}", served.address), 1).1.contains("not published")
    });
    let events = connected.end();
    let opened = events.iter().find(|event| event["event"] == "opened").unwrap();
    assert_eq!((&opened["name"], &opened["key"]), (&"alice-1".into(), &own.into()), "{events:?}");
    events.iter().for_each(|event| assert_documented("talaria log serve", event));
    let reasons: Vec<&Json> = events.iter().map(|event| &event["reason"]).collect();
    assert!(reasons.contains(&&"not-published".into()), "{events:?}");
    let events = served.end();
    assert!(events.iter().any(|event| event["event"] == "refused"), "{events:?}");
    events.iter().for_each(|event| assert_documented("talaria log serve", event));
    alice.verify();
    bob.verify();
    // Nobody listens any more.
    assert!(bob.fails("log sync 127.0.0.1:1", 5).1.contains("127.0.0.1:1"));
}

/// A deleted value leaves both nodes: it is not shown, not sent, and after `compact` not on disk.
#[test]
fn a_deleted_value_leaves_all_nodes() {
    const SECRET: &str = "secret-of-bob";
    let site = Site::new();
    let (alice, bob) = site.pair();
    alice.ok(&format!("log put server-1 note {SECRET} --deletable"));
    let update = format!(
        r#"{{"object": "server-1", "field": "tags", "value": "{SECRET}", "deletable": true}}"#
    );
    fs::write(site.at("updates.jsonl"), &update).unwrap();
    alice.ok("log put --from updates.jsonl");
    alice.send(bob);
    for node in [alice, bob] {
        assert_eq!(node.get("server-1", "note"), serde_json::json!([SECRET]));
        assert_eq!(node.get("server-1", "tags"), serde_json::json!([SECRET]));
    }
    assert_eq!(alice.fails("log delete server-1 color", 1).0, "not_found");
    assert_eq!(bob.fails("log delete server-1 note", 1).0, "refused");
    let deleted = alice.ok("log delete server-1 note").remove(0);
    assert_eq!((&deleted["values"], &deleted["entries"]), (&1.into(), &1.into()));
    alice.ok("log delete server-1 tags");
    alice.send(bob);
    let sent = fs::read(site.at("sent.tlg")).unwrap();
    let has = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    assert!(!has(&sent));
    for node in [alice, bob] {
        node.fails("log get server-1 note", 1);
        let segment = node.folder().join("segments/00000000");
        assert!(has(&fs::read(&segment).unwrap()));
        let compacted = node.ok("log compact").remove(0);
        assert_eq!((&compacted["values"], &compacted["segments"]), (&2.into(), &1.into()));
        assert!(compacted["freed"].as_u64().unwrap() > 2 * SECRET.len() as u64);
        assert!(!has(&fs::read(&segment).unwrap()));
        assert_eq!(node.ok("log compact")[0]["values"], 0);
        node.verify();
        let history = node.ok("log history server-1 note");
        assert_eq!((&history[0]["deleted"], history.len()), (&true.into(), 2));
        assert!(history[0]["value"]["commitment"].is_string());
    }
    assert_eq!(alice.stats()["state"], bob.stats()["state"]);
}

/// Alice lets herself and Carol read a field. Bob, who has the whole log, sees that there is
/// something and not what, and finds no way to pass it off as another value.
#[test]
fn encrypted_fields_are_for_their_readers() {
    const SECRET: &str = "secret-of-bob";
    let site = Site::new();
    let (alice, bob) = site.pair();
    let carol = site.node("carol");
    for node in [alice, bob] {
        node.meets(&["carol"]);
    }
    carol.ok("import alice.pgp");
    let begun = alice
        .ok("log encrypt server-1 pin* --to alice@example.org --to carol@example.org")
        .remove(0);
    assert_eq!((&begun["is_reader"], &begun["encrypted"]), (&true.into(), &true.into()));
    let epoch = begun["entry"].as_str().unwrap();
    alice.ok(&format!("log put server-1 pin {SECRET}"));
    alice.ok("log put server-1 tags plain");
    alice.ok("log export -o sent.tlg");
    for node in [bob, carol] {
        node.ok("log import sent.tlg");
        node.verify();
    }
    let sent = fs::read(site.at("sent.tlg")).unwrap();
    assert!(!sent.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
    assert_eq!(alice.stats()["state"], bob.stats()["state"]);
    for node in [alice, carol] {
        assert_eq!(node.get("server-1", "pin"), serde_json::json!([SECRET]));
        assert_eq!(node.ok("log history server-1 pin")[0]["value"], SECRET);
    }
    let hidden = serde_json::json!({ "epoch": epoch, "readers": 2, "reason": "no-key" });
    assert_eq!(bob.get("server-1", "pin"), serde_json::json!([{ "encrypted": hidden }]));
    assert_eq!(bob.ok("log history server-1 pin")[0]["value"]["encrypted"], hidden);
    assert_eq!(bob.get("server-1", "tags"), serde_json::json!(["plain"]));
    assert_eq!(bob.fails("log get server-1 pin --raw", 1).0, "not_found");
    let readers = bob.ok("log list --readers").remove(0);
    assert_eq!((&readers["fields"], &readers["name"]), (&"pin*".into(), &"server-1".into()));
    assert_eq!(readers["readers"].as_array().unwrap().len(), 2);
    let listed = bob.ok("log history server-1 pin*").remove(0);
    assert_eq!(
        (&listed["operation"], &listed["readers"]),
        (&"encrypt".into(), &readers["readers"])
    );

    // Who may change a field cannot write a plaintext into it, and not choose its readers.
    alice.ok("log grant bob@example.org");
    alice.send(bob);
    assert_eq!(bob.fails("log put server-1 pin mine", 1).0, "refused");
    assert_eq!(bob.fails("log put server-1 pin mine --deletable", 1).0, "refused");
    assert_eq!(bob.fails("log encrypt server-1 pin* --to bob@example.org", 1).0, "refused");

    // Bob's own entry with the bytes of Alice: a reader sees that they were moved.
    let (cert, chain) = bob.person();
    let log = LogFolder::open(&bob.folder()).unwrap();
    let (moved, message) = log
        .read(|log| {
            let object = log.find_object("server-1").unwrap();
            let values: Vec<_> = log.history(object, Some("pin"));
            let stolen = values.iter().find_map(|(_, entry)| match &entry.action {
                Action::Data(DataAction { change: Change::Field(_, change), .. }) => change.value(),
                _ => None,
            });
            let change = FieldChange::Set(stolen);
            let change = Change::Field("pin2".to_owned(), change);
            let grant = log.grants().next().unwrap().0;
            let action = Action::Data(DataAction { object, change });
            let moved = signed(draft(log, chain, grant, action), &cert);
            let begun = log.entry(&epoch.parse().unwrap()).unwrap();
            let Action::Data(DataAction { change: Change::Encrypt(_, key), .. }) = &begun.action
            else {
                panic!("{begun:?}")
            };
            (moved, key.message().to_vec())
        })
        .unwrap();
    drop(log);
    write(&site.at("moved.tlg"), &[moved]);
    assert!(carol.import("sent.tlg").1 && carol.import("moved.tlg").1);
    let shown = carol.get("server-1", "pin2");
    assert_eq!(shown[0]["encrypted"]["reason"], "moved", "{shown}");

    // The key of the epoch is an OpenPGP message, and gpg decrypts it for its readers.
    fs::write(site.at("epoch.pgp"), message).unwrap();
    let gnupg = site.at("gnupg");
    make_gnupg_home(&gnupg);
    let gpg = |words: &[&str]| {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--pinentry-mode", "loopback", "--passphrase", ""]).args(words);
        command.current_dir(site.0.path()).env("GNUPGHOME", &gnupg).output().unwrap()
    };
    fs::write(site.at("carol.key"), carol.run("key export carol@example.org").stdout).unwrap();
    let imported = gpg(&["--import", "carol.key"]);
    assert!(imported.status.success(), "{imported:?}");
    let decrypted = gpg(&["--decrypt", "epoch.pgp"]);
    assert!(decrypted.status.success() && decrypted.stdout.starts_with(b"TLGK"), "{decrypted:?}");
    let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", &gnupg).status();

    // Carol is removed: she keeps the old value, and gets no new one.
    alice.ok("log encrypt server-1 pin* --to alice@example.org");
    alice.ok("log put server-1 pin new");
    alice.ok("log put server-1 pin-2 other");
    alice.send(carol);
    assert_eq!(alice.get("server-1", "pin"), serde_json::json!(["new"]));
    assert_eq!(carol.get("server-1", "pin")[0]["encrypted"]["readers"], 1);
    let history = carol.ok("log history server-1 pin");
    assert_eq!(history[0]["value"], SECRET);
    assert_eq!(history[1]["value"]["encrypted"]["reason"], "no-key");
    assert_eq!(alice.ok("log list --readers").len(), 1);

    // The end of encryption.
    alice.ok("log encrypt server-1 pin* --stop");
    alice.ok("log put server-1 pin open");
    alice.send(bob);
    assert_eq!(bob.get("server-1", "pin"), serde_json::json!(["open"]));
    assert_eq!(bob.ok("log list --readers")[0]["encrypted"], false);
}
