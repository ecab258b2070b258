//! Command lines.

use crate::common::Desk;

#[test]
fn command_lines_are_read_as_gpgv_reads_them() {
    let Some(desk) = Desk::with_alice() else { return };
    let keys = "--keyring ./keys.gpg";
    for (code, line) in [
        (0, format!("{keys} data.sig data")),
        (0, format!("{keys} -- data.sig data")),
        (0, format!("{keys} -qv data.sig data")),
        (0, format!("{keys} -v data.sig data")),
        (0, format!("{keys} --verb=3 data.sig data")),
        (0, "--keyr ./keys.gpg data.sig data".into()),
        (0, "--keyring=./keys.gpg data.sig data".into()),
        (0, format!("{keys} -o/dev/null data.sig data")),
        (0, format!("{keys} --ignore-time-conflict=4 data.sig data")),
        (0, format!("{keys} --weak-digest MD5 --weak-digest sha1 data.sig data")),
        (0, format!("{keys} --weak-digest H3 data.sig data")),
        (0, format!("{keys} --debug ipc,extprog data.sig data")),
        (0, format!("{keys} --debug nonsense data.sig data")),
        (2, format!("{keys} --weak-digest nonsense data.sig data")),
        (2, format!("{keys} --weak-digest SHA256 data.sig data")),
        (0, format!("{keys} --weak-digest SHA384 data.sig data")),
        (2, format!("{keys} data.sig -q data")),
        (2, format!("{keys} data.sig -- data")),
        (2, format!("{keys} --bogus data.sig data")),
        (2, format!("{keys} --bogus=3 data.sig data")),
        (2, format!("{keys} -x data.sig data")),
        (2, format!("{keys} -vx data.sig data")),
        (2, format!("{keys} -qv- data.sig data")),
        (2, format!("{keys} --w SHA1 data.sig data")),
        (2, format!("{keys} --dump data.sig data")),
        (2, format!("{keys} --output")),
        (2, format!("{keys} --output=")),
        (2, format!("{keys} -o")),
        (2, format!("{keys} -vo")),
        (2, format!("{keys} --status-fd 99 data.sig data")),
        (2, format!("{keys} --status-fd -3 data.sig data")),
        (2, format!("{keys} --logger-fd 99 data.sig data")),
        (0, format!("{keys} --status-fd -1 data.sig data")),
        (0, format!("{keys} --logger-fd 1 data.sig data")),
        (0, format!("{keys} --status-fd 1 data.sig data")),
        (0, format!("{keys} --status-fd 0x1 data.sig data")),
        (0, "--dump-options".into()),
        (0, "--dump-option-table".into()),
    ] {
        desk.same_as(code, &line);
    }
}

#[test]
fn the_version_begins_as_that_of_gpgv_and_says_whose_it_is() {
    let Some(desk) = Desk::new() else { return };
    for option in ["--version", "--help", "-h", "-?"] {
        let (ours, theirs) = (desk.ours(&[option], b""), desk.theirs(&[option], b""));
        let lines = |out: &[u8]| -> Vec<String> {
            String::from_utf8_lossy(out).lines().map(str::to_owned).collect()
        };
        let (ours, theirs) = (lines(&ours.out), lines(&theirs.out));
        assert_eq!(ours[0], theirs[0]);
        assert_eq!(ours[1], theirs[1]);
        assert!(ours[2].contains("talaria-gpgv"), "{ours:?}");
        if option != "--version" {
            let options = |lines: &[String]| -> Vec<String> {
                lines.iter().filter(|line| line.contains(" --")).cloned().collect()
            };
            assert_eq!(options(&ours), options(&theirs));
        }
    }
}

#[test]
fn special_file_names_stand_for_descriptors() {
    let Some(desk) = Desk::with_alice() else { return };
    let signature = desk.get("data.sig");
    let keys = ["--status-fd", "3", "--keyring", "./keys.gpg"];
    let special = [&keys[..], &["--enable-special-filenames", "--", "-&0", "data"]].concat();
    assert_eq!(desk.same_with(&special, &signature).code, 0);
    let plain = [&keys[..], &["--", "-&0", "data"]].concat();
    assert_eq!(desk.same_with(&plain, &signature).code, 2);
    let closed = [&keys[..], &["--enable-special-filenames", "--", "-&77", "data"]].concat();
    assert_eq!(desk.ours(&closed, b"").code, 2);
}

#[test]
fn a_log_file_has_the_texts_with_their_times() {
    let Some(desk) = Desk::with_alice() else { return };
    let line = ["--keyring", "./keys.gpg", "--log-file", "log", "data.sig", "data"];
    let texts = |log: Vec<u8>| -> Vec<String> {
        let log = String::from_utf8(log).unwrap();
        log.lines().map(|line| line.split_once("] ").unwrap().1.to_owned()).collect()
    };
    assert_eq!(desk.theirs(&line, b"").code, 0);
    let theirs = texts(desk.get("log"));
    std::fs::remove_file(desk.path("log")).unwrap();
    let ran = desk.ours(&line, b"");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(texts(desk.get("log")), theirs);
}
