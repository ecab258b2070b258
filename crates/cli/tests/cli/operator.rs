//! Commands for operators of a keyserver: peers, blocking, redacting, backups, dumps.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{Program, Serving, corpus};
use rusqlite::Connection;
use serde_json::Value;
use talaria::cert::{Cert, View, user_id};
use talaria::store::{Access, Peer, Store};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn filled(certs: &[Cert]) -> Program {
    let program = Program::new();
    let ring = program.ring("ring.pgp", certs);
    program.ok(&["import", text(&ring)]);
    program
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn peers_are_listed_from_the_store_and_the_configuration() {
    let program = Program::new();
    program.ok(&["peer", "add", "Keys.example.org"]);
    program.ok(&["peer", "add", "[2001:db8::1]:11380", "--view", "hockeypuck-2.3"]);
    program.ok(&["peer", "add", "192.0.2.7:11370", "--http-port", "8080"]);
    assert_eq!(
        program.ok(&["peer", "list"]),
        "192.0.2.7:11370 view sks, HKP at port 8080 (store)\n\
         [2001:db8::1]:11380 view hockeypuck-2.3 (store)\n\
         keys.example.org:11370 view sks (store)\n"
    );
    // Adding a peer again changes it.
    program.ok(&["peer", "add", "keys.example.org:11370", "--view", "hockeypuck-2.3"]);
    let config = program.path("server.toml");
    let membership = program.path("membership");
    fs::write(&membership, "# SKS\nkeys.example.org 11370\nsks.example.net 11370\n").unwrap();
    let settings = format!(
        "[gossip]\nmembership = {:?}\npeers = [{{ host = \"hkp.example.com\", view = \"sks\" }}]\n",
        text(&membership)
    );
    fs::write(&config, settings).unwrap();
    let listed = json(&program.ok(&["--json", "peer", "list", "--config", text(&config)]));
    let mut short: Vec<String> = listed
        .iter()
        .map(|peer| {
            format!("{} {} {}", peer["host"], peer["view"], peer["origin"]).replace('"', "")
        })
        .collect();
    short.sort();
    assert_eq!(
        short,
        [
            "192.0.2.7 sks store",
            "2001:db8::1 hockeypuck-2.3 store",
            "hkp.example.com sks configuration",
            "keys.example.org hockeypuck-2.3 store",
            "sks.example.net sks membership file",
        ]
    );
    program.ok(&["peer", "remove", "[2001:DB8::1]:11380"]);
    assert_eq!(program.ok(&["peer", "list"]).lines().count(), 2);
    let unknown = program.fails(&["peer", "remove", "keys.example.org:1"], 1);
    assert!(unknown.contains("keys.example.org:1 is not a peer in the store"), "{unknown}");
    let bare = program.fails(&["peer", "add", "2001:db8::1"], 2);
    assert!(bare.contains("in brackets"), "{bare}");
    let url = program.fails(&["peer", "probe", "http://127.0.0.1:12371"], 2);
    assert!(url.contains("HOST:PORT, without http://"), "{url}");
    let view = program.fails(&["peer", "add", "a.example", "--view", "hagrid"], 2);
    assert!(view.contains("the views are sks, hockeypuck-2.3, hockeypuck-2.1"), "{view}");
    fs::remove_file(&membership).unwrap();
    let gone = program.fails(&["peer", "list", "--config", text(&config)], 3);
    assert!(gone.contains(text(&membership)), "{gone}");
}

#[test]
fn certificates_that_a_peer_did_not_deliver_are_named_and_asked_for_again() {
    let program = Program::new();
    program.ok(&["peer", "add", "keys.example.org"]);
    {
        let mut store = Store::open(program.store(), Access::Write).unwrap();
        let mut mark = |host: &str, view, digests: &[[u8; 16]], tries| {
            let mut keyserver = store.keyserver_mut();
            let time = 1_740_000_000.into();
            keyserver.mark_unobtainable(&Peer::name(host, 11370), view, digests, tries, time)
        };
        mark("keys.example.org", View::Sks, &[[0xab; 16], [2; 16]], 1).unwrap();
        mark("keys.example.org", View::Sks, &[[2; 16]], 4).unwrap();
        mark("2001:db8::1", View::Hockeypuck23, &[[3; 16]], 1).unwrap();
    }
    assert_eq!(
        program.ok(&["peer", "list", "--given-up"]),
        "[2001:db8::1]:11370 view hockeypuck-2.3 03030303030303030303030303030303 1 try, \
         last 2025-02-19T21:20:00Z\n\
         keys.example.org:11370 view sks 02020202020202020202020202020202 5 tries, \
         last 2025-02-19T21:20:00Z\n\
         keys.example.org:11370 view sks ABABABABABABABABABABABABABABABAB 1 try, \
         last 2025-02-19T21:20:00Z\n"
    );
    let listed = json(&program.ok(&["--json", "peer", "list", "--given-up"]));
    assert_eq!(
        listed[1],
        serde_json::json!({
            "host": "keys.example.org", "port": 11370, "view": "sks", "digest": "02".repeat(16),
            "tries": 5, "last_try": "2025-02-19T21:20:00Z",
        })
    );
    let again = json(&program.ok(&["--json", "peer", "again", "[2001:db8::1]"]));
    assert_eq!(again[0]["certificates"], 1);
    assert_eq!(program.ok(&["peer", "list", "--given-up"]).lines().count(), 2);
    let output = program.run(&["peer", "again", "keys.example.org:1"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("for 0 certificates"), "{said}");
    program.ok(&["peer", "remove", "keys.example.org"]);
    assert_eq!(program.ok(&["peer", "list", "--given-up"]), "");
}

#[test]
fn probe_describes_a_peer_and_sync_fetches_the_difference() {
    let all = corpus(30);
    let (theirs, ours) = (filled(&all[..25]), filled(&all[20..]));
    // The server gossips only with addresses of its peers.
    theirs.ok(&["peer", "add", "127.0.0.1:1"]);
    let server = Serving::start(&theirs, &["--gossip", "127.0.0.1:0"]);
    let peer = server.gossip.unwrap().to_string();
    let probed = &json(&ours.ok(&["--json", "peer", "probe", &peer]))[0];
    assert_eq!((&probed["view"], &probed["fits"]), (&"sks".into(), &true.into()), "{probed}");
    assert_eq!(probed["http_port"], server.address.port());
    let told = ours.ok(&["peer", "probe", &peer]);
    assert!(told.contains("filters   yminsky.dedup,yminsky.merge\n"), "{told}");
    let other = ours.run(&["peer", "probe", &peer, "--view", "hockeypuck-2.3"]);
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    let synced = &json(&ours.ok(&["--json", "peer", "sync", &peer, "--again"]))[0];
    assert_eq!((&synced["wanted"], &synced["new"]), (&20.into(), &20.into()), "{synced}");
    assert_eq!(ours.contents().len(), 30);
    let again = ours.ok(&["peer", "sync", &peer]);
    assert!(again.contains("0 wanted, 0 fetched"), "{again}");
    drop(server);
    for verb in ["probe", "sync"] {
        let refused = ours.fails(&["peer", verb, &peer], 5);
        assert!(refused.contains(&peer) && refused.contains("cannot connect"), "{refused}");
    }
    ours.assert_clean();
}

#[test]
fn deleted_certificates_may_return_and_blocked_ones_may_not() {
    let all = corpus(5);
    let [first, second, absent] = [0, 1, 4].map(|at| all[at].fingerprint().to_string());
    let program = filled(&all[..4]);
    let ring = program.ring("all.pgp", &all);
    assert_eq!(program.ok(&["admin", "delete", &first]), format!("{first} deleted\n"));
    let output = program.run(&["--json", "admin", "delete", &first, &absent]);
    assert_eq!(output.status.code(), Some(1));
    let outcomes = json(&String::from_utf8(output.stdout).unwrap());
    assert!(outcomes.len() == 2 && outcomes.iter().all(|o| o["outcome"] == "not here"));
    assert_eq!(
        program.ok(&["admin", "block", &second, &absent]),
        format!("{second} deleted and blocked\n{absent} blocked\n")
    );
    let output = program.run(&["import", text(&ring)]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(program.contents().len(), 3, "the deleted one is back, the blocked ones are not");
    let listed = program.ok(&["admin", "list"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    for fingerprint in [&second, &absent] {
        let start = format!("{fingerprint} blocked since 2");
        assert!(lines.iter().any(|line| line.starts_with(&start)), "{listed}");
    }
    program.ok(&["admin", "unblock", &second, &absent]);
    assert_eq!(program.ok(&["admin", "list"]), "");
    let again = program.run(&["admin", "unblock", &second]);
    assert_eq!(
        (again.status.code(), again.stdout),
        (Some(1), format!("{second} not blocked\n").into())
    );
    program.ok(&["import", text(&ring)]);
    assert_eq!(program.contents().len(), 5);
    for vague in ["example", &first[24..], "<a@example.org>"] {
        let refused = program.fails(&["admin", "delete", vague], 2);
        assert!(refused.contains("a fingerprint has 40"), "{refused}");
    }
    program.assert_clean();
}

#[test]
fn redacted_user_ids_stay_out() {
    let all = corpus(40);
    let many = |cert: &&Cert| cert.user_ids().count() > 1;
    let cert = all.iter().find(many).expect("one of forty has two user IDs");
    let fingerprint = cert.fingerprint().to_string();
    let program = filled(&all);
    let ring = program.path("ring.pgp");
    let user_ids = |program: &Program| -> Vec<String> {
        let contents = program.contents();
        let cert = &contents[&cert.fingerprint()];
        cert.user_ids().map(|id| user_id::text(id).into_owned()).collect()
    };
    let before = user_ids(&program);
    let redact = |what: &[&str]| program.run(&[&["admin", "redact", &fingerprint], what].concat());
    let output = redact(&["--user-id", &before[0]]);
    assert_eq!(output.stdout, format!("{fingerprint} redacted\n").into_bytes());
    assert_eq!(user_ids(&program), before[1..]);
    program.ok(&["import", text(&ring)]);
    assert_eq!(user_ids(&program), before[1..], "it does not come back");
    let unknown = redact(&["--user-id", "nobody"]);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(unknown.status.success() && said.contains("has no user ID \"nobody\" now"), "{said}");
    assert!(redact(&["--all"]).status.success());
    assert_eq!(user_ids(&program), Vec::<String>::new());
    let listed = json(&program.ok(&["--json", "admin", "list"]));
    assert!(listed.iter().all(|entry| entry["fingerprint"] == fingerprint));
    let digest = user_id::digest(before[0].as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(listed.iter().any(|entry| entry["user_id_sha256"] == digest), "{listed:?}");
    assert!(listed.iter().any(|entry| entry["user_id_sha256"].is_null()), "{listed:?}");
    assert_eq!(redact(&[]).status.code(), Some(2));
    assert_eq!(redact(&["--all", "--user-id", "x"]).status.code(), Some(2));
    program.ok(&["admin", "unredact", &fingerprint]);
    assert_eq!(program.run(&["admin", "unredact", &fingerprint]).status.code(), Some(1));
    program.ok(&["import", text(&ring)]);
    assert_eq!(user_ids(&program), before);
    program.assert_clean();
}

#[test]
fn a_backup_is_a_complete_store() {
    let all = corpus(30);
    let program = filled(&all[1..]);
    program.ok(&["admin", "block", &all[0].fingerprint().to_string()]);
    program.ok(&["peer", "add", "keys.example.org"]);
    let target = program.path("backup.db");
    let report = &json(&program.ok(&["--json", "admin", "backup", text(&target)]))[0];
    assert_eq!(report["bytes"], fs::metadata(&target).unwrap().len());
    let again = program.fails(&["admin", "backup", text(&target)], 5);
    assert!(again.contains("backup.db"), "{again}");
    let (contents, peers) = (program.contents(), program.ok(&["peer", "list"]));
    let ring = program.ring("first.pgp", &all[..1]);
    let ring = text(&ring).to_owned();
    let copy = program.with_store(target);
    assert_eq!((copy.contents(), copy.ok(&["peer", "list"])), (contents, peers));
    assert_eq!(copy.run(&["import", &ring]).status.code(), Some(3), "it is blocked there, too");
    copy.assert_clean();
}

/// A wrong restore loses nothing: what was there has another name.
#[test]
fn a_backup_is_restored_over_a_damaged_store_which_stays() {
    let all = corpus(40);
    let program = filled(&all[..30]);
    let (store, backup) = (program.store(), program.path("backup.db"));
    program.ok(&["admin", "backup", text(&backup)]);
    let contents = program.contents();
    let restore = ["admin", "restore", "--overwrite", text(&backup)];
    let said = program.fails(&["admin", "restore", text(&backup)], 5);
    assert!(said.contains("--overwrite"), "{said}");
    // A store in use stays, whoever uses it.
    let user = Connection::open(store).unwrap();
    let _: i64 = user.query_row("SELECT count(*) FROM cert", [], |row| row.get(0)).unwrap();
    let said = program.fails(&restore, 4);
    assert!(said.contains("in use"), "{said}");
    drop(user);
    let added = program.ring("more.pgp", &all[30..]);
    program.ok(&["import", text(&added)]);
    assert_eq!(program.contents().len(), 40);

    let mut bytes = fs::read(store).unwrap();
    let middle = bytes.len() / 2..bytes.len() / 2 + 40_000;
    bytes[middle.clone()].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(store, &bytes).unwrap();
    let report = &json(&program.ok(&[&["--json"], &restore[..]].concat()))[0];
    assert_eq!(report["certificates"], 30);
    assert_eq!(program.contents(), contents);
    program.assert_clean();
    let replaced = report["replaced"].as_str().unwrap().to_owned();
    assert!(fs::read(&replaced).unwrap()[middle.clone()] == bytes[middle.clone()]);

    // A damaged backup and a file that is not a store are not restored.
    let mut bytes = fs::read(&backup).unwrap();
    bytes[middle].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(&backup, &bytes).unwrap();
    let names = || {
        let entries = fs::read_dir(store.parent().unwrap()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.contains("replaced") || name.contains("partial"))
            .collect::<Vec<_>>()
    };
    let before = names();
    let said = program.fails(&restore, 4);
    assert!(said.contains("backup.db is damaged"), "{said}");
    assert!(said.contains("Restore another backup"), "{said}");
    let said = program.fails(&["admin", "restore", "--overwrite", "nothere.db"], 4);
    assert!(said.contains("no store at nothere.db"), "{said}");
    assert!(said.contains("Check the name of the backup"), "{said}");
    let said = program.fails(&["admin", "restore", "--overwrite", text(&added)], 4);
    assert!(said.contains("is not a talaria store"), "{said}");
    assert_eq!(names(), before);
    assert_eq!(program.contents(), contents);
    // The first restore makes the store.
    let new = program.path("new.db");
    let program = program.with_store(new);
    let said = program.fails(&["admin", "restore", &replaced], 4);
    assert!(said.contains("damaged") && !program.store().exists(), "{said}");
}

#[test]
fn serve_says_that_a_store_is_new() {
    let program = Program::new();
    let expected = format!("Serving the new, empty store {} at http://", text(program.store()));
    assert!(Serving::start(&program, &[]).says("Serving ").starts_with(&expected));
    let expected = format!("Serving {} at http://", text(program.store()));
    assert!(Serving::start(&program, &[]).says("Serving ").starts_with(&expected));
}

#[test]
fn reindex_repairs_derived_tables() {
    let program = filled(&corpus(30));
    let before = program.contents();
    let database = Connection::open(program.store()).unwrap();
    database.execute_batch("DELETE FROM digest; DELETE FROM fingerprint WHERE cert < 5").unwrap();
    drop(database);
    program.run(&["check"]);
    assert_eq!(program.run(&["check"]).status.code(), Some(4));
    let report = &json(&program.ok(&["--json", "admin", "reindex"]))[0];
    assert_eq!((&report["certificates"], &report["damaged"]), (&30.into(), &0.into()));
    program.assert_clean();
    assert_eq!(program.contents(), before);
}

#[test]
fn a_reindex_that_is_killed_harms_nothing_and_continues() {
    let program = filled(&corpus(1500));
    let before = program.contents();
    let damage = "DELETE FROM digest; DELETE FROM address; DELETE FROM cert WHERE id % 3 = 0";
    Connection::open(program.store()).unwrap().execute_batch(damage).unwrap();
    let mut killed = 0;
    for tenths in 0.. {
        let mut reindex = program.command(&["admin", "reindex"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100 + 60 * tenths));
        if reindex.try_wait().unwrap().is_some() {
            break;
        }
        reindex.kill().unwrap();
        reindex.wait().unwrap();
        killed += 1;
        program.ok(&["list"]);
    }
    assert!(killed > 1, "{killed}");
    program.ok(&["admin", "reindex"]);
    program.assert_clean();
    assert_eq!(program.contents(), before);
}

#[test]
fn a_server_gossips_with_rebuilt_digests() {
    let all = corpus(20);
    let (theirs, ours) = (filled(&all), Program::new());
    theirs.ok(&["peer", "add", "127.0.0.1:1"]);
    let database = Connection::open(theirs.store()).unwrap();
    database.execute_batch("DELETE FROM digest").unwrap();
    let server = Serving::start(&theirs, &["--gossip", "127.0.0.1:0"]);
    let peer = server.gossip.unwrap().to_string();
    let wanted = || json(&ours.ok(&["--json", "peer", "sync", &peer]))[0]["wanted"].as_u64();
    assert_eq!(wanted(), Some(0));
    theirs.ok(&["admin", "reindex"]);
    let started = std::time::Instant::now();
    while wanted() != Some(20) {
        assert!(started.elapsed().as_secs() < 30, "it has the old digests: {}", server.log());
    }
    assert_eq!(ours.contents(), theirs.contents());
}

#[test]
fn a_dump_continues_where_the_last_one_ended() {
    let all = corpus(40);
    let program = filled(&all[..25]);
    let folder = program.path("dump");
    let dump = |more: &[&str]| program.ok(&[&["--json", "dump", text(&folder)], more].concat());
    let first = &json(&dump(&["--certs-per-file", "10", "--hostname", "keys.example.org"]))[0];
    assert_eq!((&first["certificates"], first["files"].as_array().unwrap().len()), (&25.into(), 3));
    let expected = ["metadata-sks-dump.txt", "sks-dump-0000.pgp", "sks-dump-0001.pgp"];
    assert_eq!(files(&folder)[..3], expected);
    assert_eq!(files(&folder)[3..], ["sks-dump-0002.pgp", "talaria-dump.txt"]);

    // First without changes, then with changes.
    assert_eq!(json(&dump(&["--incremental"]))[0]["certificates"], 0);
    let ring = program.ring("more.pgp", &all[25..]);
    program.ok(&["import", text(&ring)]);
    let [gone, returned] = [3, 4].map(|at| all[at].fingerprint().to_string());
    program.ok(&["admin", "delete", &gone, &returned]);
    let second = &json(&dump(&["--incremental"]))[0];
    assert_eq!(
        (&second["certificates"], &second["deleted"][0]),
        (&15.into(), &gone.clone().into())
    );
    let ring = program.ring("returned.pgp", &all[4..5]);
    program.ok(&["import", text(&ring)]);
    assert_eq!(json(&dump(&["--incremental"]))[0]["certificates"], 1);
    assert_eq!(fs::read_to_string(folder.join("deleted.txt")).unwrap(), format!("{gone}\n"));
    let metadata = fs::read_to_string(folder.join("metadata-sks-dump.txt")).unwrap();
    assert!(metadata.contains("#Files-Count: 5\n#Key-Count: 41\n"), "{metadata}");
    let sums: String =
        metadata.lines().filter(|line| !line.starts_with('#')).map(|l| format!("{l}\n")).collect();
    fs::write(folder.join("sums.txt"), sums).unwrap();
    let check =
        Command::new("md5sum").args(["-c", "sums.txt"]).current_dir(&folder).output().unwrap();
    assert!(check.status.success(), "{check:?}");

    // All files together equal the store, except for deleted certificates.
    let built = Program::new();
    built.ok(&["build", text(&folder)]);
    built.ok(&["admin", "delete", &gone]);
    assert_eq!(built.contents(), program.contents());
    built.assert_clean();

    // A complete dump replaces the old one, also a killed one.
    fs::write(folder.join("sks-dump-0001.pgp.tmp"), "half").unwrap();
    dump(&[]);
    assert_eq!(
        files(&folder),
        ["metadata-sks-dump.txt", "sks-dump-0000.pgp", "sums.txt", "talaria-dump.txt"]
    );

    // Dumps of different stores are refused, and the folder does not change.
    let nothing = program.fails(&["dump", "--incremental", text(&program.path("new"))], 3);
    assert!(nothing.contains("no dump to continue"), "{nothing}");
    let foreign = built.fails(&["dump", "--incremental", text(&folder)], 2);
    assert!(foreign.contains("the token belongs to another store"), "{foreign}");
    let since = first["token"].as_str().unwrap();
    let part = program.path("part");
    program.ok(&["dump", text(&part), "--since", since]);
    let built = Program::new();
    built.ok(&["build", text(&part)]);
    assert_eq!(built.contents().len(), 16);
}

#[test]
fn a_failed_dump_keeps_the_old_one() {
    let program = filled(&corpus(20));
    let folder = program.path("dump");
    program.ok(&["dump", text(&folder)]);
    let held = || -> Vec<Vec<u8>> {
        files(&folder).iter().filter_map(|name| fs::read(folder.join(name)).ok()).collect()
    };
    let before = held();
    let more = program.ring("more.pgp", &corpus(30)[20..]);
    program.ok(&["import", text(&more)]);
    // A folder blocks the name of the second file.
    let obstacle = folder.join("sks-dump-0001.pgp.tmp");
    fs::create_dir(&obstacle).unwrap();
    for extent in [&["--certs-per-file", "10"][..], &["--incremental"]] {
        let said = program.fails(&[&["dump", text(&folder)], extent].concat(), 5);
        assert!(said.contains("sks-dump-0001.pgp.tmp"), "{said}");
        assert!(held() == before, "{extent:?}");
    }
    fs::remove_dir(&obstacle).unwrap();
    program.ok(&["dump", text(&folder), "--incremental"]);
    assert_eq!(files(&folder).iter().filter(|name| name.starts_with("sks-dump")).count(), 2);
}

#[test]
fn sks_and_talaria_load_each_others_dumps() {
    let program = filled(&corpus(25));
    let base = program.path("sks");
    for folder in ["etc/sks", "var/lib/sks", "var/log/sks", "var/run/sks", "var/spool/sks", "out"] {
        fs::create_dir_all(base.join(folder)).unwrap();
    }
    fs::write(base.join("etc/sks/sksconf"), "hostname: localhost\ndisable_mailsync:\n").unwrap();
    let sks = |args: &[&str]| {
        let command =
            Command::new("sks").args(args).args(["-basedir", "."]).current_dir(&base).output();
        if let Ok(output) = &command {
            assert!(output.status.success(), "{args:?}: {output:?}");
        }
        command.is_ok()
    };
    program.ok(&["dump", text(&base.join("var/lib/sks/dump")), "--certs-per-file", "10"]);
    let files = [0, 1, 2].map(|number| format!("var/lib/sks/dump/sks-dump-{number:04}.pgp"));
    let files = files.each_ref().map(String::as_str);
    if !sks(&[&["build"], &files[..], &["-n", "10", "-cache", "100"]].concat()) {
        talaria_needs::left_out("sks");
        return;
    }
    sks(&["dump", "10", "out", "sks-dump"]);
    let built = Program::new();
    built.ok(&["build", text(&base.join("out"))]);
    assert_eq!(built.contents(), program.contents());
}

#[test]
fn build_reads_dumps_of_any_server_and_pipes() {
    let all = corpus(20);
    let program = Program::new();
    let folder = program.path("dump");
    fs::create_dir(&folder).unwrap();
    for (number, part) in all.chunks(8).enumerate() {
        let bytes: Vec<&[u8]> = part.iter().map(Cert::as_bytes).collect();
        fs::write(folder.join(format!("hkp-dump-{number:04}.pgp")), bytes.concat()).unwrap();
    }
    fs::write(folder.join("metadata.txt"), "not a dump").unwrap();
    let said = program.ok(&["build", text(&folder)]);
    assert!(said.contains("20 certificates"), "{said}");
    let piped = Program::new();
    let mut child = piped.command(&["build", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let bytes: Vec<&[u8]> = all.iter().map(Cert::as_bytes).collect();
    child.stdin.take().unwrap().write_all(&bytes.concat()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(piped.contents(), program.contents());
}

#[test]
fn every_command_of_a_group_has_help_and_a_page() {
    let program = Program::new();
    let pages = program.path("man");
    program.ok(&["man", "--dir", text(&pages)]);
    for (group, commands) in [
        ("peer", &["add", "list", "remove", "probe", "sync"][..]),
        ("admin", &["delete", "block", "unblock", "redact", "unredact", "reindex", "backup"]),
    ] {
        for command in commands {
            let help = program.ok(&[group, command, "--help"]);
            assert!(help.contains(&format!("Usage: talaria {group} {command}")), "{help}");
            assert!(pages.join(format!("talaria-{group}-{command}.1")).exists());
            let mut complete = std::process::Command::new(env!("CARGO_BIN_EXE_talaria"));
            complete.args(["--", "talaria", group, command]);
            complete.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2");
            let completed = complete.output().unwrap();
            let completed = String::from_utf8(completed.stdout).unwrap();
            assert!(
                completed.lines().any(|line| line == *command),
                "{group} {command}: {completed}"
            );
        }
        assert_eq!(program.run(&[group]).status.code(), Some(2));
    }
}
