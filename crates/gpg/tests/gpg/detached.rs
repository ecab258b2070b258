//! Detached signatures.

use crate::common::Desk;

const KEYS: &str = "--keyring ./keys.gpg";

#[test]
fn each_algorithm_is_verified() {
    let Some(desk) = Desk::new() else { return };
    let algorithms = [
        "rsa1024",
        "rsa2048",
        "dsa2048",
        "ed25519",
        "nistp256",
        "nistp384",
        "nistp521",
        "brainpoolP256r1",
        "secp256k1",
    ];
    let data: Vec<u8> = (0..100_000_u32).map(|at| (at * 31 % 253) as u8).collect();
    desk.put("data", &data);
    desk.put("other", &data[1..]);
    for algorithm in algorithms {
        desk.make_key(&format!("{algorithm}@example.org"), algorithm);
    }
    desk.export("keys.gpg");
    for algorithm in algorithms {
        for (number, options) in [&["-b"][..], &["-b", "-a"], &["-b", "-t"]].iter().enumerate() {
            let name = format!("{algorithm}.{number}");
            let key = format!("{algorithm}@example.org");
            desk.gpg(&[&["-u", &key, "-o", &name][..], options, &["data"]].concat());
            desk.same_as(0, &format!("{KEYS} {name} data"));
            desk.same_as(0, &format!("{KEYS} -v {name} data"));
            desk.same_as(1, &format!("{KEYS} {name} other"));
            desk.same_as(1, &format!("{KEYS} {name} data data"));
        }
    }
}

#[test]
fn each_digest_is_computed() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Rivest <rsa@example.org>", "rsa2048");
    desk.export("keys.gpg");
    for digest in ["SHA224", "SHA256", "SHA384", "SHA512"] {
        desk.gpg(&["--yes", "-u", "rsa", "--digest-algo", digest, "-b", "-o", "sig", "data"]);
        desk.same_as(0, &format!("{KEYS} -v sig data"));
        desk.same_as(2, &format!("{KEYS} --weak-digest {digest} sig data"));
    }
}

/// gpgv accepts SHA-1 and RIPEMD-160 on documents; ours does what gpgv does if it is told not to.
#[test]
fn weak_digests_are_refused_as_if_gpgv_were_told_to() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Rivest <rsa@example.org>", "rsa2048");
    desk.export("keys.gpg");
    for digest in ["SHA1", "RIPEMD160"] {
        desk.gpg(&["--yes", "-u", "rsa", "--digest-algo", digest, "-b", "-o", "sig", "data"]);
        let line = ["--status-fd", "3", "--keyring", "./keys.gpg", "sig", "data"];
        assert_eq!(desk.theirs(&line, b"").code, 0);
        let told = desk.theirs(&[&["--weak-digest", digest], &line[..]].concat(), b"");
        let ours = desk.ours(&line, b"");
        assert_eq!(ours, told);
        assert_eq!(ours.code, 2);
        desk.same_as(2, &format!("-q {KEYS} --weak-digest {digest} sig data"));
    }
}

#[test]
fn text_is_verified_with_other_line_ends() {
    let Some(desk) = Desk::with_alice() else { return };
    let text = "one  \ntwo\t\n\nfour \r five\nlast";
    desk.put("text", text);
    desk.put("dos", text.replace('\n', "\r\n"));
    desk.put("more", text.replace('\n', "\r\r\n"));
    desk.put("ended", format!("{text}\n"));
    desk.put("long", format!("{}\nend\n", "x".repeat(19_993)));
    desk.put("longer", format!("{}\nend\n", "x".repeat(20_001)));
    for name in ["text", "dos", "more", "ended", "long"] {
        desk.gpg(&["-u", "alice", "-b", "-t", "-o", &format!("{name}.sig"), name]);
    }
    for signed in ["text", "dos", "more", "ended"] {
        for read in ["text", "dos", "more", "ended"] {
            desk.same(&format!("{KEYS} {signed}.sig {read}"));
        }
    }
    desk.same_as(0, &format!("{KEYS} long.sig long"));
    // gpgv verifies only a part of the line.
    assert_ne!(desk.ours(&["--keyring", "./keys.gpg", "long.sig", "longer"], b"").code, 0);
}

#[test]
fn several_files_are_one_document() {
    let Some(desk) = Desk::with_alice() else { return };
    let data = desk.get("data");
    desk.put("first", &data[..1000]);
    desk.put("second", &data[1000..]);
    desk.put("empty", "");
    desk.same_as(0, &format!("{KEYS} data.sig first second"));
    desk.same_as(0, &format!("{KEYS} data.sig empty first empty second"));
    desk.same_as(1, &format!("{KEYS} data.sig second first"));
    desk.same_as(1, &format!("{KEYS} data.sig empty"));
    desk.same_as(2, &format!("{KEYS} data.sig first absent"));
    desk.same_as(2, &format!("{KEYS} absent first"));
    let line = ["--status-fd", "3", "--keyring", "./keys.gpg", "data.sig", "-"];
    assert_eq!(desk.same_with(&line, &data).code, 0);
    assert_eq!(desk.same_with(&line, &data[1..]).code, 1);
    let line = ["--status-fd", "3", "--keyring", "./keys.gpg", "-", "data"];
    assert_eq!(desk.same_with(&line, &desk.get("data.sig")).code, 0);
    assert_eq!(desk.same_with(&line[..4], b"").code, 2);
}

#[test]
fn signatures_of_several_keys_are_all_reported() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "nistp256");
    desk.make_key("Carol <carol@example.org>", "rsa2048");
    desk.gpg(&["-o", "all.gpg", "--export"]);
    desk.gpg(&["-o", "bob.gpg", "--export", "bob"]);
    let sign = |name: &str, users: &[&str], file: &str| {
        let users: Vec<&str> = users.iter().flat_map(|&user| ["-u", user]).collect();
        desk.gpg(&[&users[..], &["-b", "-a", "-o", name, file]].concat());
    };
    sign("three", &["alice", "bob", "carol"], "data");
    sign("bob", &["bob"], "data");
    desk.put("x", "other data");
    sign("bad", &["carol"], "x");
    for ring in ["all.gpg", "bob.gpg", "keys.gpg"] {
        desk.same(&format!("--keyring ./{ring} three data"));
    }
    desk.same_as(0, "--keyring ./all.gpg three data");
    desk.same_as(2, "--keyring ./bob.gpg three data");
    desk.same_as(2, "--keyring ./bob.gpg --keyring ./keys.gpg three data");
    // Binary signatures in a row; the first bad one ends all.
    let binary = |name: &str| desk.gpg_with(&["--dearmor"], &desk.get(name));
    let (bob, bad) = (binary("bob"), binary("bad"));
    let alice = desk.get("data.sig");
    for (name, parts) in [
        ("good-bad", [&bob, &bad, &alice]),
        ("bad-good", [&bad, &bob, &alice]),
        ("twice", [&bob, &bob, &bob]),
    ] {
        desk.put(name, parts.map(|part| &part[..]).concat());
        for ring in ["all.gpg", "bob.gpg", "keys.gpg"] {
            desk.same(&format!("--keyring ./{ring} {name} data"));
        }
    }
    // Armored blocks one after the other, with text around them.
    let text = [b"hello\n", &desk.get("bob")[..], b"\nbye\n", &desk.get("three")].concat();
    desk.put("blocks", text);
    desk.same_as(0, "--keyring ./all.gpg blocks data");
    // Signatures of different types: only the first is checked.
    desk.gpg(&["-u", "bob", "-b", "-t", "-o", "text.sig", "data"]);
    desk.put("mixed", [&bob[..], &desk.get("text.sig")].concat());
    desk.same_as(0, "--keyring ./all.gpg mixed data");
}

#[test]
fn what_is_no_signature_is_reported() {
    let Some(desk) = Desk::with_alice() else { return };
    let signature = desk.get("data.sig");
    let armored = desk.gpg_with(&["--enarmor"], &signature);
    let armored = String::from_utf8(armored).unwrap();
    desk.gpg(&["-u", "alice", "-b", "-a", "-o", "data.asc", "data"]);
    let armored = armored.replace("ARMORED FILE", "SIGNATURE");
    let asc = String::from_utf8(desk.get("data.asc")).unwrap();
    desk.put("text", "only text\n");
    desk.put("empty", "");
    desk.put("one-byte", "x");
    desk.put("enarmored", &armored);
    desk.put("no-end", asc.split("-----END").next().unwrap());
    desk.put("dashes", asc.replace("-----\n\n", "-----\nComment: hello\nOdd: header\n\n"));
    desk.put("colon", asc.replace("-----\n\n", "-----\nno header\n\n"));
    desk.put("spaces", asc.replace('\n', " \n"));
    desk.put("dos", asc.replace('\n', "\r\n"));
    let crc = asc.lines().find(|line| line.starts_with('=')).unwrap();
    desk.put("bad-crc", asc.replace(crc, "=AAAA"));
    desk.put("short-crc", asc.replace(crc, "=AA"));
    desk.put("no-crc", asc.replace(&format!("{crc}\n"), ""));
    desk.put("odd-digit", asc.replacen("\n\n", "\n\n*", 1));
    desk.put("behind", [&signature[..], b"garbage"].concat());
    desk.put("keys.asc", desk.gpg(&["-a", "--export"]));
    for name in [
        "text",
        "empty",
        "one-byte",
        "enarmored",
        "no-end",
        "dashes",
        "colon",
        "spaces",
        "dos",
        "bad-crc",
        "short-crc",
        "no-crc",
        "odd-digit",
        "behind",
        "data",
        "keys.gpg",
        "keys.asc",
    ] {
        if name == "colon" {
            // gpgv tells more about what it finds in it.
            let line = ["--status-fd", "3", "--keyring", "./keys.gpg", name, "data"];
            let (theirs, ours) = (desk.theirs(&line, b""), desk.ours(&line, b""));
            assert_eq!((ours.code, ours.status), (theirs.code, theirs.status));
            continue;
        }
        desk.same(&format!("{KEYS} {name} data"));
        desk.same(&format!("{KEYS} {name}"));
    }
    for length in 1..signature.len() {
        desk.put("cut", &signature[..length]);
        let ran = desk.ours(&["--keyring", "./keys.gpg", "cut", "data"], b"");
        assert_eq!(ran.code, 2, "{length} bytes: {}", ran.err);
    }
    for length in [1, 2, 3, 10, 30, 60, signature.len() - 1] {
        desk.put("cut", &signature[..length]);
        desk.same_as(2, &format!("{KEYS} cut data"));
    }
}

#[test]
fn notations_and_policies_are_reported() {
    let Some(desk) = Desk::with_alice() else { return };
    let long = format!("long@example.org={}", "value with spaces % and more ".repeat(8));
    let options: &[&[&str]] = &[
        &["-N", "name@example.org=value", "-N", &long],
        &["--sig-policy-url", "https://example.org/policy", "--sig-keyserver-url", "hkp://x.y"],
        &["--sig-policy-url", "!https://example.org/policy"],
        &["-N", "!critical@example.org=value"],
        &["-N", "!preferred-email-encoding@pgp.com=pgpmime"],
    ];
    for (number, options) in options.iter().enumerate() {
        let name = format!("{number}.sig");
        desk.gpg(&[&["-u", "alice", "-b", "-o", &name], *options, &["data"]].concat());
        desk.same(&format!("{KEYS} {name} data"));
        desk.same(&format!("--keyring ./none.gpg {name} data"));
    }
}
