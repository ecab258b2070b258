//! Both ways with Sequoia's `sqop`, as Debian has it: version 4 only.

mod common;

use common::{Desk, SOP, peer};

/// More than one packet part of anything.
fn long() -> Vec<u8> {
    (0..700_000u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect()
}

/// Runs `test` with a key of each side, and each side as maker and as reader.
fn both_ways(test: impl Fn(&Desk, &str, &str)) {
    let Some(sqop) = peer("sqop") else { return };
    let desk = Desk::new();
    desk.party("ours", "rfc4880");
    desk.party_by(&sqop, "theirs", &[]);
    test(&desk, SOP, &sqop);
    test(&desk, &sqop, SOP);
}

fn run(desk: &Desk, program: &str, line: &str, input: &[u8]) -> Vec<u8> {
    let ran = desk.run(program, &line.split_whitespace().collect::<Vec<_>>(), input);
    assert_eq!(ran.code, 0, "{program} {line}: {}", ran.err);
    ran.out
}

#[test]
fn keys_and_certificates() {
    both_ways(|desk, maker, reader| {
        for name in ["ours", "theirs"] {
            let key = desk.get(&format!("{name}.key"));
            let one = run(desk, maker, "extract-cert --no-armor", &key);
            assert_eq!(one, run(desk, reader, "extract-cert --no-armor", &key));
        }
    });
}

#[test]
fn messages() {
    both_ways(|desk, maker, reader| {
        desk.put("password", "correct horse");
        let profile = if maker == SOP { "--profile rfc4880" } else { "" };
        for (to, with) in [
            ("ours.cert", "ours.key"),
            ("theirs.cert", "theirs.key"),
            ("ours.cert theirs.cert", "theirs.key"),
            ("--with-password password", "--with-password password"),
        ] {
            for armor in ["", "--no-armor"] {
                let line = format!(
                    "encrypt {profile} {armor} --sign-with ours.key --sign-with theirs.key {to}"
                );
                let sealed = run(desk, maker, &line, &long());
                let out = if reader == SOP { "--verifications-out" } else { "--verify-out" };
                let verify =
                    format!("--verify-with ours.cert --verify-with theirs.cert {out} verified");
                let opened = run(desk, reader, &format!("decrypt {verify} {with}"), &sealed);
                assert!(opened == long(), "{line}");
                let verified = String::from_utf8(desk.get("verified")).unwrap();
                assert_eq!(verified.lines().count(), 2, "{verified}");
                std::fs::remove_file(desk.path().join("verified")).unwrap();
            }
        }
    });
}

#[test]
fn messages_without_a_profile_are_for_who_reads_them() {
    let Some(sqop) = peer("sqop") else { return };
    let desk = Desk::new();
    desk.party_by(&sqop, "theirs", &[]);
    desk.party("ours", "rfc9580");
    // One of them has not announced RFC 9580.
    let sealed = desk.sop("encrypt theirs.cert ours.cert", "text").ok();
    assert_eq!(run(&desk, &sqop, "decrypt theirs.key", &sealed), b"text");
    assert_eq!(run(&desk, SOP, "decrypt ours.key", &sealed), b"text");
}

#[test]
fn session_keys() {
    both_ways(|desk, maker, reader| {
        let profile = if maker == SOP { "--profile rfc4880" } else { "" };
        let sealed = run(desk, maker, &format!("encrypt {profile} ours.cert"), b"text");
        run(desk, maker, "decrypt --session-key-out session ours.key", &sealed);
        let opened = run(desk, reader, "decrypt --with-session-key session", &sealed);
        assert_eq!(opened, b"text");
        std::fs::remove_file(desk.path().join("session")).unwrap();
    });
}

#[test]
fn detached_signatures() {
    both_ways(|desk, maker, reader| {
        for (options, data) in [("", long()), ("--as=text", b"one\r\ntwo\nthree".to_vec())] {
            let signature = run(desk, maker, &format!("sign {options} ours.key theirs.key"), &data);
            desk.put("sig", signature);
            let theirs = run(desk, reader, "verify sig ours.cert theirs.cert", &data);
            let ours = run(desk, maker, "verify sig ours.cert theirs.cert", &data);
            // Time, key and certificate are the same, whoever looks.
            let facts = |lines: &[u8]| {
                let mut facts: Vec<Vec<String>> = String::from_utf8_lossy(lines)
                    .lines()
                    .map(|line| line.split(' ').take(3).map(str::to_owned).collect())
                    .collect();
                facts.sort();
                facts
            };
            assert_eq!(facts(&theirs).len(), 2);
            assert_eq!(facts(&theirs), facts(&ours));
        }
    });
}

#[test]
fn inline_signatures() {
    both_ways(|desk, maker, reader| {
        let text = b"- dashes\nFrom me\n\nlast".to_vec();
        for (options, data) in
            [("", long()), ("--as=text", text.clone()), ("--as=clearsigned", text)]
        {
            let signed =
                run(desk, maker, &format!("inline-sign {options} ours.key theirs.key"), &data);
            let verify = "inline-verify --verifications-out verified ours.cert theirs.cert";
            let shown = run(desk, reader, verify, &signed);
            // This sqop leaves a line end that the signature does not cover.
            let more =
                if options == "--as=clearsigned" && reader != SOP { &b"\n"[..] } else { b"" };
            let mut expected = [&data, more].concat();
            if (options, reader != SOP && maker == SOP) == ("--as=text", true) {
                // This sqop shows the line ends that text has inside of a message.
                expected = String::from_utf8(expected).unwrap().replace('\n', "\r\n").into_bytes();
            }
            assert!(shown == expected, "{maker} {options}");
            assert_eq!(String::from_utf8(desk.get("verified")).unwrap().lines().count(), 2);
            let detached = run(desk, reader, "inline-detach --signatures-out sigs", &signed);
            if more.is_empty() {
                assert!(detached == expected);
                run(desk, maker, "verify sigs ours.cert theirs.cert", &detached);
            }
            for name in ["verified", "sigs"] {
                std::fs::remove_file(desk.path().join(name)).unwrap();
            }
        }
    });
}

#[test]
fn texts_show_the_same() {
    let Some(sqop) = peer("sqop") else { return };
    let desk = Desk::new();
    desk.party("ours", "rfc4880");
    for text in ["", "\n", "one", "one\n", "one\n\n", "one  \ntwo\t\n", "one\r\ntwo\r\n"] {
        for maker in [SOP, &sqop] {
            let signed =
                run(&desk, maker, "inline-sign --as=clearsigned ours.key", text.as_bytes());
            let ours = run(&desk, SOP, "inline-verify ours.cert", &signed);
            let theirs = run(&desk, &sqop, "inline-verify ours.cert", &signed);
            // White space and the line end that are not covered are shown by this sqop.
            let theirs = theirs.strip_suffix(b"\n").unwrap_or(&theirs);
            let lines = |shown: &[u8]| {
                let shown = String::from_utf8(shown.to_vec()).unwrap();
                shown.split('\n').map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(lines(&ours), lines(theirs), "{text:?} by {maker}: {ours:?} {theirs:?}");
        }
    }
}

#[test]
fn armor() {
    both_ways(|desk, maker, reader| {
        let signature = run(desk, maker, "sign --no-armor ours.key", b"text");
        let armored = run(desk, maker, "armor", &signature);
        assert_eq!(run(desk, reader, "dearmor", &armored), signature);
    });
}
