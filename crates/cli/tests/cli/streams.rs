//! Standard output and standard error of every kind of command that are full, or whose reader has
//! gone, and limits on the size of files.

use std::fs::{self, File};
use std::process::{Output, Stdio};

use crate::program::{Home, Program, corpus, prepared};

/// Command lines that write to standard output, and their exit status if its reader has gone. A
/// command that has not checked a message to its end has failed.
const WRITING: [(&str, i32); 34] = [
    ("talaria list", 0),
    ("talaria list --with-colons", 0),
    ("talaria --json list", 0),
    ("talaria show bob@example.net", 0),
    ("talaria --json show bob@example.net", 0),
    ("talaria export", 0),
    ("talaria export -a", 0),
    ("talaria --json export -a", 0),
    ("talaria stats", 0),
    ("talaria changes", 0),
    ("talaria check", 0),
    ("talaria --json check", 0),
    ("talaria index", 0),
    ("talaria compact", 0),
    ("talaria import keyring.gpg", 0),
    ("talaria --json import keyring.gpg", 0),
    ("talaria key list", 0),
    ("talaria key export alice@example.org", 0),
    ("talaria trust export-ownertrust", 0),
    ("talaria encrypt -r bob@example.net letter.txt", 0),
    ("talaria encrypt -a -r bob@example.net letter.txt", 0),
    ("talaria decrypt letter.txt.pgp", 5),
    ("talaria --json verify letter.txt.sig letter.txt", 5),
    ("talaria sign letter.txt", 0),
    ("talaria sign --cleartext letter.txt", 0),
    ("talaria pack letter.txt", 0),
    ("talaria inspect letter.txt.pgp", 0),
    ("talaria peer list", 0),
    ("talaria serve --show-config", 0),
    ("talaria bench generate 5", 0),
    ("talaria completions bash", 0),
    ("talaria man", 0),
    ("talaria --help", 0),
    ("talaria --version", 0),
];

/// Command lines that fail, with their exit status in any surroundings.
const FAILING: [(&str, i32); 7] = [
    ("talaria show nobody@example.org", 1),
    ("talaria list --no-such-option", 2),
    ("talaria import letter.txt", 3),
    ("talaria import missing.pgp keyring.gpg", 5),
    ("talaria --json import keyring.gpg missing.pgp", 5),
    ("talaria --store none.db list", 4),
    ("talaria decrypt letter.txt", 3),
];

/// Where a stream goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Read,
    Full,
    Gone,
}

impl End {
    fn stream(self) -> Stdio {
        match self {
            Self::Read => Stdio::piped(),
            Self::Full => File::options().write(true).open("/dev/full").unwrap().into(),
            Self::Gone => std::io::pipe().unwrap().1.into(),
        }
    }
}

fn run(home: &Home, line: &str, stdout: End, stderr: End) -> Output {
    let mut command = home.command("bash");
    command.args(["-c", &format!("exec {line}")]).stdout(stdout.stream()).stderr(stderr.stream());
    command.spawn().unwrap().wait_with_output().unwrap()
}

#[test]
fn lost_output_is_an_error_and_a_closed_pipe_is_not() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    for (line, gone) in WRITING {
        let usual = run(&home, line, End::Read, End::Read);
        assert_eq!(usual.status.code(), Some(0), "{line}: {usual:?}");
        assert!(!usual.stdout.is_empty(), "{line}");
        for (stdout, status) in [(End::Full, 5), (End::Gone, gone)] {
            for stderr in [End::Read, End::Full, End::Gone] {
                let output = run(&home, line, stdout, stderr);
                assert_eq!(
                    output.status.code(),
                    Some(status),
                    "{line}, {stdout:?} {stderr:?}: {output:?}"
                );
                let said = String::from_utf8_lossy(&output.stderr);
                if stderr == End::Read && stdout == End::Full {
                    assert!(said.contains("No space left on device"), "{line}: {said}");
                } else if stderr == End::Read && gone == 0 {
                    assert!(!said.contains("pipe"), "{line}: {said}");
                }
            }
        }
    }
}

#[test]
fn lost_standard_error_does_not_change_the_exit_status() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let report = |line: &str| line.contains("--json export");
    let writing = WRITING.iter().filter(|(line, _)| !report(line)).map(|(line, _)| (*line, 0));
    for (line, status) in writing.chain(FAILING) {
        let usual = run(&home, line, End::Read, End::Read);
        assert_eq!(usual.status.code(), Some(status), "{line}: {usual:?}");
        for end in [End::Full, End::Gone] {
            let output = run(&home, line, End::Read, end);
            assert_eq!(output.status.code(), Some(status), "{line}, {end:?}");
        }
    }
    // A failure stays a failure if nobody reads the report.
    for (line, status) in FAILING {
        for end in [End::Read, End::Full, End::Gone] {
            let output = run(&home, line, End::Gone, end);
            assert_eq!(output.status.code(), Some(status), "{line}, {end:?}");
        }
    }
}

#[test]
fn the_exit_status_reports_a_damaged_store_if_nobody_reads_the_output() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(5));
    program.ok(&["import", ring.to_str().unwrap()]);
    let store = rusqlite::Connection::open(program.store()).unwrap();
    store.execute_batch("DELETE FROM fingerprint").unwrap();
    drop(store);
    for end in [End::Read, End::Gone] {
        for args in [&["check"][..], &["--json", "check"]] {
            let mut command = program.command(args);
            let status = command.stdout(end.stream()).spawn().unwrap().wait().unwrap();
            assert_eq!(status.code(), Some(4), "{args:?}, {end:?}");
        }
    }
}

/// Without a handler, the system ends the process with SIGXFSZ.
#[test]
fn a_file_that_becomes_too_large_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    home.sh("talaria bench generate 2000 -o many.pgp && head -c 3000000 /dev/urandom > large");
    home.sh("talaria -q sign --inline large -o large.signed");
    home.sh("talaria -q --store few.db import keyring.gpg");
    let before = home.sh("talaria --store few.db list --with-colons");
    let listing = home.sh("ls -A | grep -v few.db-");
    for line in [
        "talaria --store few.db import many.pgp",
        "talaria --store new.db build many.pgp",
        "talaria bench generate 2000 -o out",
        "talaria bench generate 2000 > out",
        "talaria pack large -o out",
        "talaria encrypt -r bob@example.net large -o out",
        "talaria encrypt -r bob@example.net large > out",
        "talaria verify large.signed -o out",
    ] {
        let output = home.try_sh(&format!("ulimit -S -f 1000; {line}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{line}: {said}");
        assert!(said.to_lowercase().contains("file too large"), "{line}: {said}");
        assert!(said.contains("ulimit -f"), "{line}: {said}");
        home.sh("rm -f out new.db*");
        assert_eq!(home.sh("ls -A | grep -v few.db-"), listing, "{line}");
    }
    home.sh("talaria --store few.db check");
    assert_eq!(home.sh("talaria --store few.db list --with-colons"), before);
    home.sh("talaria -q --store few.db import many.pgp");
    assert!(fs::metadata(home.0.join("few.db")).unwrap().len() > 1_024_000);
}

/// Content in the old format waits for the end of its message. From a file, the message is read a
/// second time; from a pipe, content waits in memory, and beyond 32 MiB in a temporary file.
#[test]
fn a_long_message_of_the_old_format_comes_whole_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    home.sh("head -c 72000000 /dev/urandom > large");
    for armor in ["", "-a"] {
        home.sh(&format!(
            "talaria -q encrypt {armor} --profile rfc4880 -r alice@example.org large -o sealed --overwrite"
        ));
        let decrypt = "talaria -q decrypt";
        for line in [
            format!("{decrypt} sealed"),
            format!("{decrypt} < sealed"),
            format!("cat sealed | {decrypt}"),
            // What another program has read of standard input does not come again.
            format!(
                "(head -c 100 large; cat sealed) > behind; (head -c 100 > /dev/null; {decrypt}) < behind"
            ),
        ] {
            home.sh(&format!("set -o pipefail; ({line}) | cmp - large"));
        }
        // A file whose folder does not exist needs no temporary file, and a pipe says which is full.
        home.sh(&format!("TMPDIR=/none {decrypt} sealed | cmp - large"));
        let refused = home.try_sh(&format!("cat sealed | TMPDIR=/none {decrypt}"));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(5), 0), "{said}");
        assert!(said.contains("the temporary file in /none (see $TMPDIR)"), "{said}");
        // Some bytes are wrong.
        home.sh("cp sealed damaged && printf xxxxxxxxxxxx | dd of=damaged bs=1 seek=70000000 conv=notrunc");
        for line in [format!("{decrypt} damaged"), format!("cat damaged | {decrypt}")] {
            let refused = home.try_sh(&line);
            assert_eq!((refused.status.code(), refused.stdout.len()), (Some(3), 0), "{line}");
        }
    }
}
