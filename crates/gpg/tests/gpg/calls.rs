//! Command lines of `talaria-gpg` beside those of gpg: options, files, descriptors, outputs.

use crate::common::Desk;

#[test]
fn signatures_and_data_are_found_as_gpg_finds_them() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    desk.gpg(&["-u", "alice", "--clearsign", "-o", "clear.asc", "keys.gpg"]);
    desk.put("text", "one\n- two\nthree");
    desk.gpg(&["-u", "alice", "--clearsign", "-o", "text.asc", "text"]);
    desk.gpg(&["-u", "alice", "-s", "-o", "inline.gpg", "data"]);
    desk.gpg(&["-u", "alice", "-s", "-z", "0", "-o", "data.x.sig", "data"]);
    desk.gpg(&["-u", "alice", "-s", "-a", "-o", "inline.asc", "data"]);
    desk.gpg(&["-u", "alice", "-b", "-a", "-o", "data.asc", "data"]);
    desk.gpg(&["-u", "alice", "-u", "alice", "-b", "-o", "twice.sig", "data"]);
    desk.put("data.x", "not what was signed");
    desk.put("bad", "other data");
    for (code, line) in [
        (0, "--verify data.sig data"),
        (0, "--verify data.asc data"),
        (0, "--verify data.sig"),
        (2, "--batch --verify data.sig"),
        (0, "--verify data.x.sig"),
        (1, "--verify data.sig bad"),
        (1, "--batch --verify data.sig bad"),
        (1, "--verify data.sig data bad"),
        (0, "--verify twice.sig data"),
        (1, "--verify twice.sig bad"),
        (1, "--batch --verify twice.sig bad"),
        (0, "--verify inline.gpg"),
        (0, "--verify inline.asc"),
        (0, "--verify text.asc"),
        (2, "--verify text.asc data"),
        (2, "--verify inline.gpg data"),
        (2, "--verify absent data"),
        (2, "--verify data.sig absent"),
        (2, "--verify data"),
        (2, "--verify text"),
        (2, "--verify keys.gpg"),
        (0, "--verify -- data.sig data"),
        (2, "--verify data.sig --data"),
        (2, "-q --verify data.sig --data"),
        (0, "-o output --verify inline.gpg"),
        (0, "-o output --verify text.asc"),
        (0, "--batch --yes -o output --verify text.asc"),
        (0, "-o - --verify text.asc"),
        (0, "--verify --keyid-format long -v --no-tty --batch data.sig data"),
        (2, "--weak-digest sha256 --verify data.sig data"),
        (0, "--ignore-time-conflict --weak-digest md5 --verify data.sig data"),
        (0, "--exit-on-status-write-error --verify data.sig data"),
        (0, "--cipher-algo AES256 -r bob -u alice --verify data.sig data"),
        (0, "--logger-fd 1 --verify data.sig data"),
        (0, "--no-verbose --fixed-list-mode --with-colons --verify data.sig data"),
    ] {
        desk.same_gpg(code, line);
    }
}

#[test]
fn the_standard_input_and_descriptors_are_read() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    let (signature, data) = (desk.get("data.sig"), desk.get("data"));
    let status = ["--status-fd", "3"];
    for (line, input, code) in [
        ("--verify - data", &signature, 0),
        ("--verify data.sig -", &data, 0),
        ("--keyid-format=long --verify data.sig -", &data, 0),
        ("--verify data.sig -", &signature, 1),
        ("--enable-special-filenames --verify -- -&0 data", &signature, 0),
        ("--enable-special-filenames --batch --verify -- data.sig -&0", &data, 0),
        ("--verify", &signature, 2),
        ("--enable-progress-filter --verify - data", &signature, 0),
        ("--enable-progress-filter --verify data.sig -", &data, 0),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = desk.same_gpg_with(&[&status[..], &words].concat(), input);
        assert_eq!(ran.code, code, "{line}");
    }
    // gpgme's line, with the signature and the data in descriptors.
    let gpg = |program: &str| {
        let script = format!(
            "exec {program} --enable-special-filenames --batch --no-sk-comments --status-fd 3 \
             --no-tty --charset utf8 --enable-progress-filter --exit-on-status-write-error \
             --ttyname /dev/null --ttytype dumb --command-fd 0 --verify -- '-&9' '-&8' \
             9<data.sig 8<data 3>status"
        );
        let alone = desk.alone();
        let variables = [("TALARIA_GPG_TRIED", &*alone)];
        let (code, out, err) = desk.run_with(&variables, "/bin/sh".as_ref(), &["-c", &script], b"");
        (code, out, String::from_utf8(err).unwrap(), desk.get("status"))
    };
    let ours = gpg(crate::common::OUR_GPG);
    assert_eq!(ours, gpg("gpg"));
    assert_eq!(ours.0, 0, "{}", ours.2);
}

/// What is signed is written once it is verified, and everything else is handed over.
#[test]
fn content_is_written_to_where_gpg_writes_it() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.put("text", "one\n- two\nthree");
    desk.gpg(&["-u", "alice", "--clearsign", "-o", "output.asc", "text"]);
    desk.gpg(&["-u", "alice", "-s", "-o", "output.gpg", "text"]);
    desk.gpg(&["-u", "alice", "-s", "-a", "-z", "0", "-o", "plain.asc", "text"]);
    desk.gpg(&["-u", "alice", "-s", "--textmode", "-o", "output.sig", "text"]);
    desk.gpg(&["--store", "-o", "stored.gpg", "text"]);
    desk.gpg(&["--quick-add-key", &desk.fingerprint("alice"), "cv25519", "encr", "never"]);
    desk.gpg(&["-r", "alice", "--trust-model", "always", "-se", "-o", "secret.gpg", "text"]);
    for line in [
        "--decrypt output.asc",
        "--decrypt output.gpg",
        "-d plain.asc",
        "-d output.sig",
        "-d secret.gpg",
        "-o output -d plain.asc",
        "--batch -q -d output.asc",
        "output.asc",
        "output.gpg",
        "-q output.sig",
        "-v output.sig",
        "-o output plain.asc",
        "data.sig",
        "--batch data.sig",
    ] {
        let ran = desk.same_gpg(0, line);
        let written = ran.file.unwrap_or(ran.out);
        assert!(line.contains("data") || written.starts_with(b"one\n"), "{line}");
    }
    for line in ["-d stored.gpg", "-d data", "-d absent", "-d", "-d text text"] {
        let ran = desk.our_gpg(&line.split(' ').collect::<Vec<_>>(), b"");
        assert!(
            ran.code == 2 && ran.err.contains("no GnuPG to hand it over to"),
            "{line}: {}",
            ran.err
        );
    }
    // What waits in a pipe is looked at, but not for long, and stays there.
    let alone = desk.alone();
    let run = |script: &str, tried: &str| {
        let script = script.replace("gpg", crate::common::OUR_GPG);
        let line = ["-c", &*script];
        desk.run_with(&[("TALARIA_GPG_TRIED", tried)], "/bin/sh".as_ref(), &line, b"")
    };
    let code = |script: &str| run(script, &alone);
    let slow = "{ head -c 9 output.asc; sleep 0.4; tail -c +10 output.asc; } | gpg -d";
    assert_eq!(code(slow).0, 2);
    assert_eq!(run(slow, "").1, b"one\n- two\nthree\n");
    let quick = slow.replace("0.4", "0.02");
    assert_eq!(code(&quick).1, b"one\n- two\nthree\n");
    assert_eq!(code("gpg -d <output.asc").1, b"one\n- two\nthree\n");
    assert_eq!(code("{ read line; gpg -d; } <output.asc").0, 2);
    assert_eq!(code("cat output.asc | gpg -d").1, b"one\n- two\nthree\n");
    // A pipe with a name is not opened twice.
    let named = "mkfifo fifo; cat output.asc >fifo & gpg -d fifo";
    assert_eq!(run(named, "").1, b"one\n- two\nthree\n");
    desk.put("stored", desk.get("stored.gpg"));
    assert_eq!(run("cat stored | gpg", "").1, b"one\n- two\nthree");
    let changed = String::from_utf8(desk.get("output.asc")).unwrap().replace("two", "TWO");
    desk.put("output.asc", changed);
    for line in [&["-d", "output.asc"][..], &["output.asc"]] {
        let ran = desk.our_gpg(line, b"");
        assert_eq!((ran.code, ran.out, ran.file), (1, Vec::new(), None));
    }
}

/// What cannot be looked at is handed over at once: at a terminal, gpg says that it waits.
#[test]
fn an_input_that_cannot_be_looked_at_is_not_waited_for() {
    let Some(desk) = Desk::new() else { return };
    let (_open, input) = std::os::unix::net::UnixStream::pair().unwrap();
    let run = std::process::Command::new(crate::common::OUR_GPG)
        .env("GNUPGHOME", desk.path("home"))
        .env("TALARIA_GPG_TRIED", desk.alone())
        .stdin(std::os::fd::OwnedFd::from(input))
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("no GnuPG to hand it over to"));
}

/// Somebody may stop reading the texts or the status lines.
#[test]
fn a_closed_pipe_is_no_good_signature() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    let alone = desk.alone();
    let code = |options: &str| {
        let script = format!(
            "{{ sleep 0.3; {} {options} --verify data.sig data 2>/dev/null; echo $? >code; }} | true",
            crate::common::OUR_GPG
        );
        desk.run_with(&[("TALARIA_GPG_TRIED", &*alone)], "/bin/sh".as_ref(), &["-c", &script], b"");
        String::from_utf8(desk.get("code")).unwrap().trim().to_owned()
    };
    assert_eq!(code("--status-fd 1"), "0");
    assert_eq!(code("--logger-fd 1"), "0");
    // gpg's status is 0 here.
    assert_eq!(code("--status-fd 1 --exit-on-status-write-error"), "2");
}

#[test]
fn a_bad_signature_writes_nothing() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    desk.put("text", "one\ntwo\n");
    desk.gpg(&["-u", "alice", "--clearsign", "-o", "text.asc", "text"]);
    let changed = String::from_utf8(desk.get("text.asc")).unwrap().replace("two", "TWO");
    desk.put("changed.asc", changed);
    let ran = desk.our_gpg(&["-o", "output", "--verify", "changed.asc"], b"");
    assert_eq!((ran.code, ran.file), (1, None));
    let ran = desk.our_gpg(&["-o", "-", "--verify", "changed.asc"], b"");
    assert_eq!((ran.code, ran.out.as_slice()), (1, &b""[..]));
}

#[test]
fn the_version_begins_as_that_of_gpg_and_says_whose_it_is() {
    let Some(desk) = Desk::new() else { return };
    for options in [&["--version"][..], &["-v", "--version"]] {
        let (ours, theirs) = (desk.our_gpg(options, b""), desk.their_gpg(options, b""));
        let lines = |out: &[u8]| -> Vec<String> {
            String::from_utf8_lossy(out).lines().map(str::to_owned).collect()
        };
        let (ours, theirs) = (lines(&ours.out), lines(&theirs.out));
        assert_eq!(ours[..2], theirs[..2]);
        assert!(ours[2].contains("talaria-gpg"), "{ours:?}");
        assert_eq!(ours[6..], theirs[6..]);
    }
    let help = desk.our_gpg(&["--help"], b"");
    assert!(String::from_utf8_lossy(&help.out).starts_with("gpg (GnuPG) 2.2.40\n"));
}

#[test]
fn lists_for_programs_are_those_of_gpg() {
    let Some(desk) = Desk::new() else { return };
    for (code, line) in [
        (0, "--dump-options"),
        (0, "--dump-option-table"),
        (0, "--list-config --with-colons"),
        (0, "--with-colons --list-config pubkeyname"),
        (0, "--list-config"),
        (2, "--with-colons --list-config nonsense"),
        (0, "--with-c --list-con curve"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(desk.same_gpg_with(&words, b"").code, code, "{line}");
    }
}

/// Each option that is not handed over has the effect that it has in gpg, mostly none.
#[test]
fn each_option_has_the_effect_that_it_has_in_gpg() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    let table = desk.our_gpg(&["--dump-option-table"], b"").out;
    let table = String::from_utf8(table).unwrap();
    let (mut compared, mut handed) = (0, 0);
    for row in table.lines() {
        let fields: Vec<&str> = row.split(':').collect();
        let (name, flags) = (format!("--{}", fields[0]), fields[2].parse::<u32>().unwrap());
        let values: &[&str] = match flags & 15 {
            _ if flags >= 64 => continue,
            0 => &[""],
            1 | 4 => &["1", "3"],
            _ => &["x", "none", "AES", "SHA384"],
        };
        let is_early =
            ["--help", "--version", "--warranty", "--dump-option-table", "--dump-options"]
                .contains(&name.as_str());
        // Descriptors and files of their own have tests of their own.
        let is_file = ["-fd", "-file", "keyring", "homedir", "output", "trustdb-name"];
        if is_early || is_file.iter().any(|part| name.contains(part)) {
            continue;
        }
        for value in values {
            let option = [&*name, *value];
            let option = if value.is_empty() { &option[..1] } else { &option };
            for task in [
                &["--verify", "data.sig", "data"][..],
                &["--with-colons", "-k", "alice"],
                &["--export", "alice"],
            ] {
                let line = [&["--status-fd", "3"], option, task].concat();
                let ours = desk.our_gpg(&line, b"");
                if ours.code == 2 && ours.status.is_empty() {
                    handed += 1;
                } else {
                    desk.same_gpg_with(&line, b"");
                    compared += 1;
                }
            }
        }
    }
    eprintln!("{compared} calls were compared, {handed} are handed over");
    assert!(compared > 500, "only {compared} calls were compared");
}
