//! A store with damaged certificates: what the commands and the server say, and how it is repaired.

use rusqlite::Connection;

use crate::program::{Program, Serving, corpus, half};

/// Flips one bit in the last signature of the certificate with number `id`.
fn flip(program: &Program, id: i64) {
    let connection = Connection::open(program.store()).unwrap();
    let mut bytes: Vec<u8> = connection
        .query_row("SELECT bytes FROM blob WHERE id = ?1", [id], |row| row.get(0))
        .unwrap();
    let end = bytes.len() - 1;
    bytes[end] ^= 4;
    connection.execute("UPDATE blob SET bytes = ?2 WHERE id = ?1", (id, bytes)).unwrap();
}

/// A store with ten certificates, and a backup of it.
fn prepared() -> Program {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(10));
    program.ok(&["import", ring.to_str().unwrap()]);
    program.ok(&["admin", "backup", program.path("copy.db").to_str().unwrap()]);
    program
}

#[test]
fn check_names_a_damaged_certificate_and_a_backup_restores_it() {
    let program = prepared();
    let before = program.contents();
    flip(&program, 3);
    flip(&program, 7);
    let names: Vec<String> =
        [2, 6].map(|at: usize| corpus(10)[at].fingerprint().to_string()).to_vec();
    let output = program.run(&["check"]);
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8(output.stdout).unwrap();
    for name in &names {
        let line = format!("certificate {name}: its bytes do not match their checksum");
        assert!(said.contains(&line), "{said}");
    }
    assert!(said.contains("2 damaged"), "{said}");
    let advice = String::from_utf8(output.stderr).unwrap();
    assert!(advice.contains("talaria check --repair-from FILE"), "{advice}");
    assert!(!advice.contains("--rebuild"), "{advice}");
    // A rebuild makes nothing good.
    program.fails(&["check", "--rebuild"], 4);
    program.fails(&["check", "--quick"], 4);
    // Nothing damaged is given out.
    let said = program.fails(&["export", &names[0]], 4);
    assert!(said.contains(&names[0]) && said.contains("--repair-from"), "{said}");
    // Without a copy there is no repair.
    let other = program.ring("other.pgp", &corpus(2));
    let output = program.run(&["check", "--repair-from", other.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.matches("no copy was found").count(), 2, "{said}");
    let copy = program.path("copy.db");
    let said = program.ok(&["check", "--repair-from", copy.to_str().unwrap()]);
    assert_eq!(said.matches("restored as it was").count(), 2, "{said}");
    assert!(said.contains("no damage"), "{said}");
    assert_eq!(program.contents(), before);
}

/// A disk that did not write: the older row of a certificate is there, with its checksum.
#[test]
fn a_lost_write_is_damage_until_a_copy_repairs_it() {
    let program = Program::new();
    let halves = half(&corpus(10), 1);
    program.ok(&["import", program.ring("half.pgp", &halves).to_str().unwrap()]);
    let at = (0..10).find(|&at| halves[at] != corpus(10)[at]).unwrap();
    let name = corpus(10)[at].fingerprint().to_string();
    let disk = Connection::open(program.store()).unwrap();
    let keep = format!("CREATE TEMP TABLE lost AS SELECT * FROM blob WHERE id = {}", at + 1);
    disk.execute(&keep, []).unwrap();
    let ring = program.ring("ring.pgp", &corpus(10));
    program.ok(&["import", ring.to_str().unwrap()]);
    let after = program.contents();
    disk.execute_batch("REPLACE INTO blob SELECT * FROM lost").unwrap();
    drop(disk);
    for args in [&["check"][..], &["check", "--rebuild"], &["check"]] {
        let said = String::from_utf8(program.run(args).stdout).unwrap();
        assert!(said.contains(&format!("certificate {name}: its bytes are older")), "{said}");
    }
    assert!(program.fails(&["export", &name], 4).contains("--repair-from"));
    let half = program.path("half.pgp");
    let output = program.run(&["check", "--repair-from", half.to_str().unwrap()]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("no copy was found"));
    program.ok(&["check", "--repair-from", ring.to_str().unwrap()]);
    assert_eq!(program.contents(), after);
}

#[test]
fn a_lost_decision_is_damage_until_the_user_accepts_what_is_there() {
    let program = prepared();
    let [first, second] = [0, 1].map(|at: usize| corpus(10)[at].fingerprint().to_string());
    program.ok(&["admin", "block", &first]);
    program.ok(&["admin", "block", &second]);
    let disk = Connection::open(program.store()).unwrap();
    disk.execute("DELETE FROM tombstone WHERE change = 11", []).unwrap();
    drop(disk);
    for args in [&["check"][..], &["check", "--rebuild"], &["check", "--json"]] {
        let said = String::from_utf8(program.run(args).stdout).unwrap();
        assert!(said.contains("table tombstone"), "{said}");
    }
    let said = program.ok(&["check", "--salvage"]);
    assert!(said.contains("table tombstone: the rows that are there count"), "{said}");
    program.ok(&["check"]);
}

#[test]
fn export_and_dump_can_go_on_without_damaged_certificates() {
    let program = prepared();
    let before = program.contents();
    flip(&program, 3);
    flip(&program, 7);
    let lost = [2, 6].map(|at: usize| corpus(10)[at].fingerprint());
    let (ring, dump) = (program.path("rescued.pgp"), program.path("dump"));
    let (ring, dump) = (ring.to_str().unwrap(), dump.to_str().unwrap());
    // Nothing is left out unless it is asked for.
    program.fails(&["export", "-o", ring], 4);
    program.fails(&["dump", dump], 4);
    assert!(
        !program.path("rescued.pgp").exists() && !program.path("dump/talaria-dump.txt").exists()
    );
    let named = |said: &str| {
        for fingerprint in lost {
            let line = format!("is damaged: certificate {fingerprint}");
            assert_eq!(said.matches(&line).count(), 1, "{said}");
        }
        assert!(said.contains("talaria check --repair-from"), "{said}");
    };
    named(&program.fails(&["export", "--signatures", "all", "--skip-damaged", "-o", ring], 4));
    named(&program.fails(&["dump", "--signatures", "all", "--skip-damaged", dump], 4));
    let file = |number: u8| format!("{dump}/sks-dump-000{number}.pgp");
    for input in [ring, &file(0)] {
        let rescued = Program::new();
        rescued.ok(&["import", input]);
        let mut all = before.clone();
        all.retain(|fingerprint, _| !lost.contains(fingerprint));
        assert_eq!(rescued.contents(), all, "{input}");
    }
    for args in [
        &["--json", "export", "--signatures", "all", "--skip-damaged", "--overwrite", "-o", ring][..],
        &["--json", "dump", "--signatures", "all", "--skip-damaged", dump],
    ] {
        let output = program.run(args);
        assert_eq!(output.status.code(), Some(4));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let skipped = json["skipped"].as_array().unwrap();
        let named = skipped.iter().map(|one| one["fingerprint"].as_str().unwrap().to_owned());
        assert_eq!(named.collect::<Vec<_>>(), lost.map(|lost| lost.to_string()), "{json}");
        assert_eq!(json["certificates"], 8);
    }
    // A good copy in another store serves.
    let copy = program.path("copy.db");
    let both = program.path("both.pgp");
    let args = [
        "--store",
        copy.to_str().unwrap(),
        "export",
        "--signatures",
        "all",
        "--skip-damaged",
        "-o",
        both.to_str().unwrap(),
    ];
    named(&program.fails(&args, 4));
    let whole = Program::new();
    whole.ok(&["import", both.to_str().unwrap()]);
    assert_eq!(whole.contents(), before);
    // Without damage, the option changes nothing.
    program.ok(&["check", "--repair-from", copy.to_str().unwrap()]);
    program.ok(&["export", "--signatures", "all", "--skip-damaged", "--overwrite", "-o", ring]);
    program.ok(&["dump", "--signatures", "all", "--skip-damaged", "--incremental", dump]);
    let repaired = Program::new();
    repaired.ok(&["import", &file(0), &file(1)]);
    assert_eq!(repaired.contents(), before);
}

/// A hint never names the command that has just failed.
#[test]
fn a_failed_rebuild_names_the_backup() {
    let program = prepared();
    let before = program.contents();
    // All pages but the first.
    let mut bytes = std::fs::read(program.store()).unwrap();
    let page_bytes = match u16::from_be_bytes([bytes[16], bytes[17]]) {
        1 => 1 << 16,
        bytes => usize::from(bytes),
    };
    bytes[page_bytes..].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(program.store(), &bytes).unwrap();
    let copy = program.path("copy.db");
    let copy = copy.to_str().unwrap();
    let said = program.fails(&["check", "--repair-from", copy], 4);
    assert!(said.contains("is damaged") && !said.contains("check --repair-from"), "{said}");
    let said = program.fails(&["check", "--rebuild"], 4);
    assert!(said.contains("talaria admin restore --overwrite BACKUP"), "{said}");
    assert!(!said.contains("check --rebuild"), "{said}");
    program.ok(&["admin", "restore", "--overwrite", copy]);
    program.assert_clean();
    assert_eq!(program.contents(), before);
}

#[test]
fn a_part_of_the_certificates_can_be_checked() {
    let program = prepared();
    flip(&program, 3);
    let statuses: Vec<_> = (1..=3)
        .map(|part| program.run(&["check", "--subset", &format!("{part}/3")]).status.code())
        .collect();
    assert_eq!(statuses, [Some(0), Some(0), Some(4)]);
    // The result for a part is not reported as that of the store.
    let said = program.ok(&["check", "--subset", "1/3"]);
    assert!(said.contains("checked part 1/3: 4 certificates"), "{said}");
    let said = program.ok(&["check", "--subset", "1/3", "--checksums"]);
    assert!(said.contains("4 certificates, only checksums compared, no damage"), "{said}");
    for wrong in ["0/3", "4/3", "1", "1/0", "a/b"] {
        let said = program.fails(&["check", "--subset", wrong], 2);
        assert!(said.contains("for example 1/7"), "{said}");
    }
}

#[test]
fn a_keyserver_repairs_a_damaged_certificate() {
    let good = prepared();
    let before = good.contents();
    let damaged = prepared();
    flip(&damaged, 3);
    let server = Serving::start(&good, &[]);
    let said = damaged.ok(&["check", "--keyserver", &server.keyserver(), "--json"]);
    let first = said.lines().next().unwrap();
    let line: serde_json::Value = serde_json::from_str(first).unwrap();
    assert_eq!(line["action"], "repaired");
    assert_eq!(line["certificate"]["fingerprint"], corpus(10)[2].fingerprint().to_string());
    assert!(["restored", "replaced"].contains(&line["certificate"]["result"].as_str().unwrap()));
    let after = damaged.contents();
    assert_eq!(after.len(), before.len());
    for (fingerprint, cert) in after {
        // Nothing comes in that was not there.
        assert_eq!(cert.union(&before[&fingerprint]), before[&fingerprint]);
    }
}

#[test]
fn a_server_gives_out_no_damaged_certificate_and_merges_none() {
    let program = prepared();
    flip(&program, 3);
    let certs = corpus(12);
    let server = Serving::start(&program, &[]);
    let path = format!("/pks/lookup?op=get&options=mr&search=0x{}", certs[2].fingerprint());
    assert_eq!(server.get(&path).0, 500);
    let path = format!("/pks/lookup?op=get&options=mr&search=0x{}", certs[3].fingerprint());
    assert_eq!(server.get(&path).0, 200);
    // An upload of it is refused, and others go on.
    let (status, said) = server.add(&half(&certs[2..3], 0)[0]);
    assert!(status != 200 || said.contains("damaged"), "{status} {said}");
    assert_eq!(server.add(&certs[11]).0, 200);
    assert!(server.finds(&certs[11]));
}

#[test]
fn salvage_sets_the_damaged_bytes_aside() {
    let program = prepared();
    let said = program.fails(&["check", "--repair-from", "missing.pgp"], 5);
    assert!(said.contains("missing.pgp"), "{said}");
    flip(&program, 3);
    let said = program.ok(&["check", "--salvage"]);
    assert!(said.contains("the damaged bytes are set aside"), "{said}");
    program.assert_clean();
    let fingerprint = corpus(10)[2].fingerprint().to_string();
    let list = program.ok(&["admin", "set-aside"]);
    assert!(list.starts_with("1  ") && list.contains(&fingerprint), "{list}");
    assert_eq!(list.lines().count(), 1);
    let said = program.fails(&["admin", "set-aside", "2"], 1);
    assert!(said.contains("no entry 2 is set aside"), "{said}");
    let output = program.path("damaged.pgp");
    program.ok(&["admin", "set-aside", "1", "--output", output.to_str().unwrap()]);
    let saved = std::fs::metadata(&output).unwrap().len();
    let json: serde_json::Value =
        serde_json::from_str(&program.ok(&["admin", "set-aside", "--json"])).unwrap();
    assert_eq!((json["bytes"].as_u64(), saved > 0), (Some(saved), true));
    // Without a terminal for the question, nothing is deleted.
    program.fails(&["admin", "set-aside", "--delete"], 2);
    assert_eq!(program.ok(&["admin", "set-aside"]), list);
    program.ok(&["admin", "set-aside", "--delete", "--yes"]);
    assert_eq!(program.ok(&["admin", "set-aside"]), "");
}
