//! Commands and their output, with the real program.

use std::fs;
use std::io::Write as _;

use crate::program::{Program, corpus};
use serde_json::Value;
use talaria::cert::{Cert, enarmor};

fn json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn import_reports_per_file_and_a_bad_file_does_not_stop_the_rest() {
    let program = Program::new();
    let all = corpus(6);
    let good = program.ring("good.pgp", &all[..4]);
    let bad = program.path("bad.txt");
    fs::write(&bad, "nothing to see here\n").unwrap();
    let armored = program.path("armored.asc");
    let blocks: String = all[3..].iter().map(|cert| enarmor(cert.as_bytes())).collect();
    fs::write(&armored, format!("two blocks and a word\n{blocks}")).unwrap();
    let args = ["import", good.to_str().unwrap(), bad.to_str().unwrap(), armored.to_str().unwrap()];
    let output = program.run(&args);
    assert_eq!(output.status.code(), Some(3));
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("good.pgp (keyring): 4 read, 4 new, 0 updated, 0 unchanged, 0 rejected"));
    assert!(out.contains("(armored keyring): 3 read, 2 new, 0 updated, 1 unchanged, 0 rejected"));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("bad.txt: no OpenPGP data found"), "{err}");
    assert!(err.contains("total: 7 read, 6 new"), "{err}");
    let again = json(&program.ok(&["--json", "import", good.to_str().unwrap()]));
    assert_eq!((&again[0]["unchanged"], &again[0]["kind"]), (&4.into(), &"keyring".into()));
}

#[test]
fn searches_find_names_in_every_script() {
    let program = Program::new();
    for name in ["हिन्दी भाषा", "İSTANBUL", "ᲗᲑᲘᲚᲘᲡᲘ", "ᏣᎳᎩ", "Straße Müller"]
    {
        program.ok(&["key", "generate", "--no-passphrase", name]);
    }
    let cases = [
        ("+हिन्दी", "हिन्दी भाषा"),
        ("*istanbul", "İSTANBUL"),
        ("+istanbul", "İSTANBUL"),
        ("*თბილისი", "ᲗᲑᲘᲚᲘᲡᲘ"),
        ("+თბილისი", "ᲗᲑᲘᲚᲘᲡᲘ"),
        ("*ꮳꮃꭹ", "ᏣᎳᎩ"),
        ("+muller STRASSE", "Straße Müller"),
    ];
    for indexes in [true, false] {
        if !indexes {
            program.ok(&["index", "drop", "words"]);
            program.ok(&["index", "drop", "trigrams"]);
        }
        for (search, name) in cases {
            let found = json(&program.ok(&["--json", "list", search]));
            let text = found[0].to_string();
            assert!(found.len() == 1 && text.contains(name), "{search}: {text}");
        }
        program.fails(&["list", "+हन्दी"], 1);
        program.fails(&["list", "*\u{301}"], 2);
    }
}

#[test]
fn import_reads_standard_input_and_names_damage_by_its_offset() {
    for args in [&["import", "-"][..], &["import"]] {
        let program = Program::new();
        let all = corpus(2);
        let mut bytes = all[0].as_bytes().to_vec();
        let offset = bytes.len();
        bytes.extend_from_slice(b"garbage");
        bytes.extend_from_slice(all[1].as_bytes());
        let mut child = program.command(args).stdin(std::process::Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let err = String::from_utf8(output.stderr).unwrap();
        let expected = format!("standard input: offset {offset}: byte 0x67 does not start");
        assert!(err.contains(&expected), "{err}");
        assert_eq!(program.contents().len(), 2, "what is before and behind the damage is taken");
    }
}

#[test]
fn the_option_for_the_store_goes_before_or_behind_the_verb() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(1));
    program.ok(&["import", ring.to_str().unwrap()]);
    let behind = std::process::Command::new(env!("CARGO_BIN_EXE_talaria"))
        .args(["list", "--store"])
        .arg(program.store())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(behind.stdout).unwrap(), program.ok(&["list"]));
}

#[test]
fn errors_name_the_object_and_what_to_do() {
    let program = Program::new();
    let missing = program.fails(&["list"], 4);
    assert!(missing.contains("no store at") && missing.contains("talaria import"), "{missing}");
    let ring = program.ring("ring.pgp", &corpus(3));
    program.ok(&["import", ring.to_str().unwrap()]);
    assert!(program.fails(&["list", "nobody"], 1).contains("no certificate found for nobody"));
    assert!(program.fails(&["list", "0x123"], 1).contains("no certificate found"));
    assert!(program.fails(&["list", "0x123456"], 2).contains("a key ID has 8 or 16 digits"));
    assert!(program.fails(&["frobnicate"], 2).contains("unrecognized subcommand"));
    let ambiguous = program.fails(&["show", "*example"], 1);
    assert!(ambiguous.contains("*example is ambiguous: 3 certificates match"), "{ambiguous}");
    let keyring = program.with_store(ring.clone());
    let refused = keyring.fails(&["delete", "--all-matches", "*example"], 2);
    assert!(refused.contains("is a keyring file, which talaria does not change"), "{refused}");
    fs::remove_file(ring).unwrap();
}

#[test]
fn delete_removes_and_block_keeps_out() {
    let program = Program::new();
    let all = corpus(3);
    let ring = program.ring("ring.pgp", &all);
    let ring = ring.to_str().unwrap();
    program.ok(&["import", ring]);
    let token = program.ok(&["changes"]);
    let token = token.trim().strip_prefix("token ").unwrap();
    let [first, second] = [0, 1].map(|at| all[at].fingerprint().to_string());
    program.ok(&["delete", "--dry-run", &first]);
    assert_eq!(program.contents().len(), 3);
    program.ok(&["delete", &first]);
    program.ok(&["delete", "--block", &second]);
    assert_eq!(program.contents().len(), 1);
    let changes = program.ok(&["changes", "--since", token]);
    assert!(changes.contains(&format!("deleted {first}")), "{changes}");
    let output = program.run(&["import", ring]);
    assert_eq!(output.status.code(), Some(3));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains(&second) && err.contains("talaria delete --unblock"), "{err}");
    program.ok(&["delete", "--unblock", &second]);
    program.ok(&["import", ring]);
    assert_eq!(program.contents().len(), 3);
    let later = json(&program.ok(&["changes", "--json", "--since", token]));
    assert_eq!(later.len(), 3, "two that came back, and the token: {later:?}");
    program.assert_clean();
}

#[test]
fn an_export_of_changes_completes_an_older_export() {
    let program = Program::new();
    let all = corpus(8);
    let (old, new) = (program.ring("old.pgp", &all[..5]), program.ring("new.pgp", &all[4..]));
    program.ok(&["import", old.to_str().unwrap()]);
    let full = program.path("full.pgp");
    let report = program.ok(&["--json", "export", "--output", full.to_str().unwrap()]);
    let token = json(&report)[0]["token"].as_str().unwrap().to_owned();
    program.ok(&["import", new.to_str().unwrap()]);
    let increment = program.path("increment.pgp");
    let args = ["--json", "export", "--changed-since", &token, "-o", increment.to_str().unwrap()];
    assert_eq!(json(&program.ok(&args))[0]["certificates"], 3);
    let copy = Program::new();
    copy.ok(&["import", full.to_str().unwrap(), increment.to_str().unwrap()]);
    assert_eq!(copy.contents(), program.contents());
    let foreign = copy.fails(&["export", "--changed-since", &token, "--armor"], 2);
    assert!(foreign.contains("the token belongs to another store"), "{foreign}");
}

#[test]
fn several_stores_and_keyring_files_are_searched_as_one() {
    let program = Program::new();
    let all = corpus(5);
    let (own, ring) = (program.ring("own.pgp", &all[..3]), program.ring("team.pgp", &all[2..]));
    program.ok(&["import", own.to_str().unwrap()]);
    let team = ["--store", ring.to_str().unwrap()];
    let list = |more: &[&str]| {
        let mut args: Vec<&str> = team.to_vec();
        args.extend_from_slice(more);
        program.ok(&args)
    };
    assert_eq!(list(&["list", "--json"]).lines().count(), 5, "each certificate once");
    let name = all[4].fingerprint().to_string();
    assert!(list(&["list", &name]).contains(&name));
    let out = program.path("all.pgp");
    list(&["export", "-o", out.to_str().unwrap()]);
    let copy = Program::new();
    copy.ok(&["import", out.to_str().unwrap()]);
    assert_eq!(copy.contents().len(), 5);
    assert!(
        fs::read(&ring).unwrap()
            == all[2..].iter().flat_map(Cert::as_bytes).copied().collect::<Vec<_>>()
    );
}

#[test]
fn dumps_directories_and_builds_keep_every_certificate() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(25));
    program.ok(&["import", ring.to_str().unwrap()]);
    let (dump, certd) = (program.path("dump"), program.path("certd"));
    program.ok(&["dump", dump.to_str().unwrap(), "--certs-per-file", "10"]);
    assert_eq!(fs::read_dir(&dump).unwrap().count(), 3 + 2, "and what describes them");
    program.ok(&["export", "--to-certd", certd.to_str().unwrap()]);
    let built = Program::new();
    let report = built.ok(&["build", dump.to_str().unwrap()]);
    assert!(report.contains("25 certificates"), "{report}");
    assert_eq!(built.contents(), program.contents());
    let again = built.fails(&["build", dump.to_str().unwrap()], 5);
    assert!(again.contains("it already exists"), "{again}");
    let copied = Program::new();
    copied.ok(&["import", certd.to_str().unwrap()]);
    assert_eq!(copied.contents(), program.contents());
    let other = Program::new();
    other.ok(&["import", program.store().to_str().unwrap()]);
    assert_eq!(other.contents(), program.contents());
    built.assert_clean();
}

#[test]
fn a_minimal_export_lists_the_same() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(60));
    program.ok(&["import", ring.to_str().unwrap()]);
    let (whole, minimal) = (program.path("whole.pgp"), program.path("minimal.pgp"));
    program.ok(&["export", "-o", whole.to_str().unwrap()]);
    program.ok(&["export", "--signatures", "minimal", "-o", minimal.to_str().unwrap()]);
    assert!(fs::metadata(&minimal).unwrap().len() < fs::metadata(&whole).unwrap().len());
    let copy = Program::new();
    copy.ok(&["import", minimal.to_str().unwrap()]);
    assert_eq!(copy.ok(&["list", "--with-colons"]), program.ok(&["list", "--with-colons"]));
}

#[test]
fn indexes_can_be_left_out_and_searches_still_answer() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(20));
    program.ok(&["import", ring.to_str().unwrap()]);
    let before = program.ok(&["list", "*example"]);
    program.ok(&["index", "drop", "trigrams"]);
    assert!(program.ok(&["index"]).contains("words yes, trigrams no"));
    assert_eq!(program.ok(&["list", "*example"]), before);
    program.ok(&["index", "add", "trigrams"]);
    assert_eq!(program.ok(&["list", "*example"]), before);
    program.assert_clean();
}

#[test]
fn compact_and_tune_lose_nothing() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(120));
    program.ok(&["import", ring.to_str().unwrap()]);
    let before = program.contents();
    program.ok(&["compact"]);
    let tuned = program.ok(&["tune", "--for", "bulk", "--sample", "120", "--apply"]);
    assert!(tuned.contains("Recommended:"), "{tuned}");
    assert_eq!(program.contents(), before);
    program.assert_clean();
    assert!(program.fails(&["tune", "--sample", "10"], 2).contains("fewer than 50"));
}

#[test]
fn stats_count_the_certificates_and_draw_the_counts() {
    let program = Program::new();
    let all = corpus(30);
    let ring = program.ring("ring.pgp", &all);
    program.ok(&["import", ring.to_str().unwrap()]);
    let svg = program.path("stats.svg");
    let stats = &json(&program.ok(&["stats", "--json", "--svg", svg.to_str().unwrap()]))[0];
    assert_eq!(stats["certificates"], 30);
    let bytes: usize = all.iter().map(|cert| cert.as_bytes().len()).sum();
    assert_eq!(stats["bytes"], bytes);
    let drawn = fs::read_to_string(svg).unwrap();
    assert_eq!((drawn.matches("<svg").count(), drawn.matches("</svg>").count()), (1, 1));
    for text in
        ["certs.db: 30 certificates", ">Validity<", ">Algorithm of the primary key<", ">Size<"]
    {
        assert!(drawn.contains(text), "{text}");
    }
}

#[test]
fn help_completions_and_manual_come_from_one_source() {
    let program = Program::new();
    let help = program.ok(&["--help"]);
    let commands: Vec<&str> = help
        .lines()
        .take_while(|line| *line != "Global options:")
        .filter_map(|line| line.strip_prefix("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 14, "{commands:?}");
    assert!(program.ok(&["completions", "bash"]).contains("COMPLETE"));
    let pages = program.path("man");
    program.ok(&["man", "--dir", pages.to_str().unwrap()]);
    for command in commands.iter().filter(|command| **command != "help") {
        assert!(program.ok(&[command, "--help"]).contains("Usage: talaria"));
        assert!(pages.join(format!("talaria-{command}.1")).exists(), "{command}");
    }
    assert!(program.ok(&["man", "import"]).contains(".TH"));
}

#[test]
fn user_ids_cannot_send_control_codes_to_the_terminal() {
    let program = Program::new();
    let cert = &corpus(1)[0];
    let mut raw = cert.as_bytes().to_vec();
    let text = "\u{1b}[2Jowned\u{202e}";
    raw.extend_from_slice(&[0xcd, u8::try_from(text.len()).unwrap()]);
    raw.extend_from_slice(text.as_bytes());
    let ring = program.ring("ring.pgp", &[Cert::parse(&raw).unwrap()]);
    program.ok(&["import", ring.to_str().unwrap()]);
    for output in [program.ok(&["list"]), program.ok(&["show", "*owned"])] {
        assert!(!output.contains('\u{1b}') && !output.contains('\u{202e}'));
        assert!(output.contains("\\u{1b}[2Jowned\\u{202e}"));
    }
}
