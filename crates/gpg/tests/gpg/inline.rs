//! Messages with their content, and signed texts.

use crate::common::Desk;

const KEYS: &str = "--keyring ./keys.gpg";

#[test]
fn signed_messages_are_verified() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "nistp256");
    desk.export("keys.gpg");
    desk.put("text.txt", "one \r\ntwo\nthree");
    desk.put("zeros", vec![0; 300_000]);
    let forms: &[&[&str]] = &[
        &["-s"],
        &["-s", "-a"],
        &["-s", "-t"],
        &["-s", "-z", "0"],
        &["-s", "--compress-algo", "zlib"],
        &["-s", "--compress-algo", "bzip2"],
        &["-s", "-u", "bob"],
        &["-s", "-u", "bob", "-t", "-a"],
        &["--clearsign"],
        &["--clearsign", "-u", "bob", "--comment", "hello"],
    ];
    for file in ["data", "text.txt", "zeros"] {
        for (number, form) in forms.iter().enumerate() {
            let is_text = form.contains(&"--clearsign") || form.contains(&"-t");
            if file != "text.txt" && is_text {
                continue;
            }
            let name = format!("{file}.{number}");
            desk.gpg(&[&["-u", "alice", "-o", &name], *form, &[file]].concat());
            desk.same_as(0, &format!("{KEYS} {name}"));
            desk.same_as(0, &format!("{KEYS} -v {name}"));
            let ran = desk.same_as(0, &format!("{KEYS} -o output {name}"));
            assert!(ran.file.is_some());
            desk.same_as(0, &format!("{KEYS} -o - {name}"));
            desk.same(&format!("{KEYS} {name} {file}"));
            let input = desk.get(&name);
            desk.same_with(&["--status-fd", "3", "--keyring", "./keys.gpg"], &input);
        }
    }
}

#[test]
fn signed_texts_are_verified_by_their_lines() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "rsa2048");
    desk.export("keys.gpg");
    desk.put("text", "first  \n- dash\n-----BEGIN PGP SIGNED MESSAGE-----\n\n\tlast\t\n\n");
    desk.gpg(&["-u", "alice", "-u", "bob", "--clearsign", "-o", "t.asc", "text"]);
    let text = String::from_utf8(desk.get("t.asc")).unwrap();
    let changed: &[(&str, String)] = &[
        ("same", text.clone()),
        ("dos", text.replace('\n', "\r\n")),
        ("trailing", text.replace("first", "first \t")),
        ("spaces", text.replace("first  \n", "first\n")),
        ("changed", text.replace("first", "firsT")),
        ("mail", format!("Hello,\n{text}Bye\n")),
        ("twice", format!("{text}{text}")),
        ("no-hash", text.replace("Hash: SHA512\n", "")),
        ("other-hash", text.replace("Hash: SHA512", "Hash: SHA256")),
        ("more-hashes", text.replace("Hash: SHA512", "Hash: SHA256, SHA512")),
        ("header", text.replace("Hash: SHA512", "Hash: SHA512\nComment: x")),
        ("unknown-hash", text.replace("Hash: SHA512", "Hash: SHA9")),
        ("unescaped", text.replace("- - dash", "-dash")),
        ("cut", text[..text.len() / 3].to_owned()),
        ("no-signature", text.split("-----BEGIN PGP SIGNATURE").next().unwrap().to_owned()),
        ("no-crc", {
            let crc = text.lines().rfind(|line| line.starts_with('=')).unwrap();
            text.replace(&format!("{crc}\n"), "")
        }),
    ];
    for (name, text) in changed {
        desk.put(name, text);
        desk.same(&format!("{KEYS} {name}"));
        desk.same(&format!("{KEYS} -v {name}"));
        desk.same(&format!("{KEYS} {name} text"));
    }
    desk.same_as(0, &format!("{KEYS} same"));
    desk.same_as(1, &format!("{KEYS} changed"));
    let empty = desk.gpg_with(&["-u", "alice", "--clearsign"], b"");
    desk.put("empty", empty);
    desk.same(&format!("{KEYS} empty"));
    desk.put("line", desk.gpg_with(&["-u", "alice", "--clearsign"], b"\n"));
    desk.same(&format!("{KEYS} line"));
}

#[test]
fn a_message_named_like_a_signature_is_noticed() {
    let Some(desk) = Desk::with_alice() else { return };
    for end in ["sig", "asc", "sign"] {
        desk.put("d", "data");
        let name = format!("d.{end}");
        desk.gpg(&["--yes", "-u", "alice", "-s", "-o", &name, "data"]);
        let ran = desk.same_as(0, &format!("{KEYS} {name}"));
        assert!(ran.err.contains("file 'd' was NOT verified"), "{}", ran.err);
    }
}

/// gpgv writes the content before it has looked at the signature. Ours writes nothing.
#[test]
fn content_without_a_good_signature_is_not_written() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "ed25519");
    desk.put("text", "content\n");
    desk.gpg(&["-u", "bob", "-s", "-z", "0", "-o", "unknown", "text"]);
    desk.gpg(&["-u", "alice", "-s", "-z", "0", "-o", "good", "text"]);
    desk.gpg(&["-u", "alice", "--clearsign", "-o", "clear", "text"]);
    let changed = |name: &str| {
        let mut bytes = desk.get(name);
        let at = bytes.windows(7).position(|window| window == b"content").unwrap();
        bytes[at] = b'C';
        bytes
    };
    desk.put("changed", changed("good"));
    desk.put("changed-text", changed("clear"));
    let literal = desk.gpg_with(&["--store", "-z", "0"], b"content\n");
    desk.put("unsigned", literal);
    for (name, code) in [("unknown", 2), ("changed", 1), ("changed-text", 1), ("unsigned", 2)] {
        let line = ["--status-fd", "3", "--keyring", "./keys.gpg", "-o", "output", name];
        let (theirs, ours) = (desk.theirs(&line, b""), desk.ours(&line, b""));
        assert!(theirs.file.is_some(), "{name}");
        assert_eq!(ours.file, None, "{name}");
        assert_eq!((ours.code, &ours.status, &ours.err), (code, &theirs.status, &theirs.err));
        assert_eq!(theirs.code, code);
        let ours = desk.ours(&["--keyring", "./keys.gpg", "-o", "-", name], b"");
        assert_eq!(ours.out, b"");
    }
}

#[test]
fn odd_orders_of_packets_are_refused() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.put("text", "content\n");
    desk.gpg(&["-u", "alice", "-s", "-z", "0", "-o", "message", "text"]);
    desk.gpg(&["-u", "alice", "-b", "-o", "text.sig", "text"]);
    let message = desk.get("message");
    // A one-pass signature of 13 bytes, the literal packet, and the signature.
    let (one_pass, rest) = message.split_at(15);
    let literal_bytes = 2 + usize::from(rest[1]);
    let (literal, signature) = rest.split_at(literal_bytes);
    let detached = desk.get("text.sig");
    let marker = b"\xca\x03PGP";
    let compressed = |inner: &[u8]| {
        [&[0xc8, 0xff][..], &u32::try_from(inner.len() + 1).unwrap().to_be_bytes(), &[0], inner]
            .concat()
    };
    let deep = (0..40).fold(message.clone(), |inner, _| compressed(&inner));
    let orders: &[(&str, Vec<u8>)] = &[
        ("same", message.clone()),
        ("old", [&detached[..], literal].concat()),
        ("behind", [literal, &detached].concat()),
        ("no-signature", [one_pass, literal].concat()),
        ("no-literal", [one_pass, signature].concat()),
        ("only-one-pass", one_pass.to_vec()),
        ("only-literal", literal.to_vec()),
        ("two-literals", [one_pass, literal, literal, signature].concat()),
        ("two-one-passes", [one_pass, one_pass, literal, signature].concat()),
        ("two-signatures", [one_pass, literal, signature, signature].concat()),
        ("two-messages", [&message[..], &message].concat()),
        ("marker", [marker, &message[..]].concat()),
        ("marker-inside", [one_pass, marker, literal, signature].concat()),
        ("before", [signature, &message].concat()),
        ("stored", compressed(&message)),
        ("stored-signature", compressed(&detached)),
        ("signed-stored", [&detached[..], &compressed(literal)].concat()),
        ("stored-twice", compressed(&compressed(&message))),
        ("deep", deep),
        ("cut", message[..message.len() - 30].to_vec()),
        ("cut-literal", message[..15 + literal_bytes - 3].to_vec()),
        ("key", [&message[..], &desk.get("keys.gpg")].concat()),
        ("encrypted", [b"\xd2\x29\x01", &[7; 40][..]].concat()),
        ("private", [b"\xfc\x02ab", &message[..]].concat()),
        ("unknown", [b"\xe8\x02ab", &message[..]].concat()),
    ];
    for (name, packets) in orders {
        desk.put(name, packets);
        let line = ["--status-fd", "3", "--keyring", "./keys.gpg", name];
        let (theirs, ours) = (desk.theirs(&line, b""), desk.ours(&line, b""));
        if *name == "cut-literal" {
            assert_ne!(ours.code, 0);
            continue;
        }
        assert_eq!(ours, theirs, "{name}");
        desk.same(&format!("{KEYS} {name} text"));
    }
}

#[test]
fn a_small_message_with_far_too_much_content_is_refused() {
    let Some(desk) = Desk::with_alice() else { return };
    // A hole takes no room on the disk.
    let zeros = std::fs::File::create(desk.path("zeros")).unwrap();
    zeros.set_len(300 << 20).unwrap();
    desk.gpg(&["-u", "alice", "-s", "--compress-algo", "bzip2", "-o", "small", "zeros"]);
    assert!(desk.get("small").len() < 100_000);
    for line in ["--keyring ./keys.gpg small", "--keyring ./keys.gpg -o output small"] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = desk.ours(&[&["--status-fd", "3"], &words[..]].concat(), b"");
        assert_eq!((ran.code, &ran.file), (2, &None), "{ran:?}");
        assert!(
            ran.err.contains("the content is more than 1100 times as large as the message"),
            "{}",
            ran.err
        );
        assert!(!ran.status.contains("GOODSIG"), "{}", ran.status);
    }
}
