//! Listings of `talaria-gpg` for programs beside those of gpg.

use crate::common::Desk;

/// Compares the listings of some keys.
#[track_caller]
fn compare(desk: &Desk, options: &str, names: &[&str]) {
    for command in
        ["--list-keys", "-k --with-keygrip", "--fingerprint --fingerprint", "--list-sigs"]
    {
        // Status lines about each signature are not written here.
        let status = if command == "--list-sigs" { "" } else { "--status-fd 3" };
        let line = format!("{status} --with-colons {options} {command}");
        let words: Vec<&str> = line.split_whitespace().chain(names.iter().copied()).collect();
        desk.same_gpg_with(&words, b"");
    }
}

#[test]
fn keys_are_listed_as_gpg_lists_them() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "rsa2048");
    desk.gpg(&["--quick-add-uid", "bob", "Robert: <robert@example.org>"]);
    desk.gpg(&["--quick-add-key", &desk.fingerprint("bob"), "cv25519", "encr", "2y"]);
    desk.gpg(&["--quick-add-key", &desk.fingerprint("bob"), "ed25519", "sign", "1y"]);
    desk.gpg(&["-u", "alice", "--yes", "--quick-lsign-key", &desk.fingerprint("bob")]);
    desk.gpg(&["--quick-set-primary-uid", "bob", "Robert: <robert@example.org>"]);
    desk.gpg(&["--quick-add-uid", "alice", "Old <old@example.org>"]);
    desk.gpg(&["--quick-revoke-uid", "alice", "Old <old@example.org>"]);
    let fingerprint = desk.fingerprint("bob");
    for names in [
        &[][..],
        &["bob"],
        &["BOB@EXAMPLE"],
        &["*robert"],
        &["<bob@example.org>"],
        &["<BOB@example.org>"],
        &["<bob@example>"],
        &["=Bob <bob@example.org>"],
        &["=bob <bob@example.org>"],
        &["bob", "alice"],
        &["alice", "nobody"],
        &["nobody"],
        &[&fingerprint],
        &[&fingerprint[24..]],
        &[&fingerprint[32..]],
    ] {
        compare(&desk, "", names);
    }
    for options in [
        "--fixed-list-mode --batch --no-tty",
        "--with-fingerprint --with-fingerprint",
        "-q --no-auto-check-trustdb",
        "--no-default-keyring --keyring ./keys.gpg",
        "--keyring ./keys.gpg",
    ] {
        compare(&desk, options, &[]);
    }
}

#[test]
fn revoked_expired_and_disabled_keys_are_listed_as_such() {
    let Some(desk) = Desk::with_alice() else { return };
    let then = ["--faked-system-time", "20200101T000000!"];
    let line = ["--quick-gen-key", "Short <short@example.org>", "ed25519", "sign,cert", "1y"];
    desk.gpg(&[&then[..], &line].concat());
    desk.make_key("Gone <gone@example.org>", "ed25519");
    desk.make_key("Off <off@example.org>", "ed25519");
    let path = format!("home/openpgp-revocs.d/{}.rev", desk.fingerprint("gone"));
    let text = String::from_utf8(desk.get(&path)).unwrap().replace("\n:---", "\n---");
    desk.gpg_with(&["--import"], text.as_bytes());
    let edit = ["--no-batch", "--command-fd", "0", "--edit-key", "off"];
    desk.gpg_with(&edit, b"disable\nsave\n");
    let trust = format!("{}:4:\n", desk.fingerprint("off"));
    desk.gpg_with(&["--import-ownertrust"], trust.as_bytes());
    compare(&desk, "", &[]);
    compare(&desk, "", &["short"]);
    compare(&desk, "", &["off"]);
}

/// Debian's keyrings have all that happens.
#[test]
fn keyrings_of_debian_are_listed_as_by_gpg() {
    let Some(desk) = Desk::new() else { return };
    for (ring, commands) in [
        ("debian-archive-keyring.gpg", &["--list-keys", "--list-sigs", "--export"][..]),
        ("debian-role-keys.gpg", &["--list-keys", "--list-sigs", "--export"]),
        ("debian-maintainers.gpg", &["--list-keys", "--list-sigs", "--export"]),
        // gpg takes long for its signatures.
        ("debian-keyring.gpg", &["--list-keys", "--export"]),
    ] {
        let path = format!("/usr/share/keyrings/{ring}");
        let path = Some(path).filter(|path| std::path::Path::new(path).exists());
        let Some(path) = talaria_needs::found(path, ring) else { continue };
        for command in commands {
            let line = format!("--with-colons --no-default-keyring --keyring {path} {command}");
            desk.same_gpg_with(&line.split(' ').collect::<Vec<_>>(), b"");
        }
    }
}

/// Names are looked up in the tables of a large keybox.
#[test]
fn certificates_of_a_keybox_are_found_by_their_names() {
    let Some(desk) = Desk::with_alice() else { return };
    let ring = "/usr/share/keyrings/debian-keyring.gpg";
    let ring = Some(ring).filter(|path| std::path::Path::new(path).exists());
    let Some(ring) = talaria_needs::found(ring, "debian-keyring.gpg") else { return };
    let certs = certs_of(&std::fs::read(ring).unwrap());
    let mut keybox = desk.get("home/pubring.kbx");
    let mut others = Vec::new();
    assert_eq!(talaria_gnupg::write_keybox(&mut others, &certs, 7).unwrap().len(), 0);
    keybox.extend_from_slice(&others[32..]);
    desk.put("home/pubring.kbx", keybox);
    let key = |at: usize, subkey: usize| {
        let key = certs[at].keys().nth(subkey).unwrap();
        key.fingerprint().to_string()
    };
    let last = certs.len() - 1;
    let (primary, subkey, end) = (key(0, 0), key(100, 1), key(last, 0));
    for names in [
        &["alice"][..],
        &["Johannes"],
        &["*johannes"],
        &["<alice@example.org>"],
        &["zack@debian.org"],
        &["<zack@debian.org>"],
        &["=Stefano Zacchiroli <zack@debian.org>"],
        &["Stefano", "alice", "Stefano"],
        &[&primary],
        &[&subkey],
        &[&subkey[24..], &end[32..]],
        &["nobody-of-that-name"],
        &["alice", "nobody-of-that-name"],
    ] {
        let line = [&["--status-fd", "3", "--with-colons", "-k"], names].concat();
        desk.same_gpg_with(&line, b"");
    }
    desk.same_gpg_with(&["--status-fd", "3", "--export", "alice"], b"");
    desk.same_gpg_with(&["--with-colons", "--list-sigs", &subkey], b"");
}

/// The certificates of a keyring.
fn certs_of(bytes: &[u8]) -> Vec<talaria_cert::Cert> {
    let mut splitter = talaria_cert::Splitter::new(bytes, talaria_cert::BATCH_BYTES);
    let mut certs = Vec::new();
    while let Some(batch) = splitter.next_batch().unwrap() {
        certs.extend(batch.certs().map(|(_, raw)| talaria_cert::Cert::parse(raw).unwrap()));
    }
    certs
}

/// As GnuPG, we believe the tables of a keybox, or hand over.
#[test]
fn tables_that_lie_are_not_believed() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "ed25519");
    let good = desk.get("home/pubring.kbx");
    let place = |text: &[u8]| good.windows(text.len()).position(|part| part == text).unwrap();
    let fingerprint = talaria_cert::hex::array::<20>(&desk.fingerprint("alice")).unwrap();
    let table = place(&fingerprint);
    let mut damaged = Vec::new();
    // A name of a key that nobody has, the length of a blob, the number of user IDs.
    for (at, value) in [(table, 0xff), (33, 0x77), (table + 31, 0xff)] {
        let mut bytes = good.clone();
        bytes[at] ^= value;
        damaged.push(bytes);
    }
    damaged.push(good[..good.len() - 30].to_vec());
    let wanted = desk.fingerprint("alice");
    for bytes in damaged {
        desk.put("home/pubring.kbx", &bytes);
        for name in ["alice", "bob", &wanted] {
            let line = ["--with-colons", "-k", name];
            let ours = desk.our_gpg_or_theirs(&line, b"");
            assert_eq!(ours, desk.their_gpg(&line, b""), "{name}");
        }
    }
}

#[test]
fn secret_keys_are_listed_as_gpg_lists_them() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "rsa1024");
    desk.gpg(&["--quick-add-key", &desk.fingerprint("bob"), "rsa1024", "encr", "2y"]);
    desk.gpg(&["--quick-add-key", &desk.fingerprint("alice"), "cv25519", "encr", "never"]);
    desk.make_key("Carol <carol@example.org>", "ed25519");
    let grip = |name: &str, at: usize| {
        let listed = desk.gpg(&["--with-colons", "--with-keygrip", "-k", name]);
        let listed = String::from_utf8(listed).unwrap();
        let line = listed.lines().filter(|line| line.starts_with("grp:")).nth(at).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    };
    let compare = || {
        for names in [&[][..], &["alice"], &["bob", "carol"], &["carol"], &["nobody"]] {
            for command in ["-K", "--list-secret-keys --with-fingerprint --with-keygrip"] {
                let line = format!("--status-fd 3 --with-colons {command}");
                let words: Vec<&str> = line.split(' ').chain(names.iter().copied()).collect();
                desk.same_gpg_with(&words, b"");
            }
        }
    };
    compare();
    // A primary key that is kept elsewhere, and a certificate without any secret key.
    for grip in [grip("bob", 0), grip("carol", 0)] {
        std::fs::remove_file(desk.path(&format!("home/private-keys-v1.d/{grip}.key"))).unwrap();
    }
    compare();
    let other = desk.path(&format!("home/private-keys-v1.d/{}.key", grip("alice", 0)));
    std::fs::write(other, "(20:shadowed-private-key").unwrap();
    let ran = desk.our_gpg(&["-K", "--with-colons"], b"");
    assert!(ran.code == 2 && ran.err.contains("of keys on cards"), "{}", ran.err);
}

#[test]
fn keys_are_exported_as_gpg_exports_them() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "rsa2048");
    desk.gpg(&["--quick-add-key", &desk.fingerprint("bob"), "cv25519", "encr", "2y"]);
    desk.gpg(&["-u", "alice", "--yes", "--quick-lsign-key", &desk.fingerprint("bob")]);
    desk.gpg(&["-u", "bob", "--yes", "--quick-sign-key", &desk.fingerprint("alice")]);
    for line in [
        "--export",
        "--armor --export",
        "--export bob",
        "-a --export alice bob",
        "-o output --export",
        "-o output --yes --armor --export bob",
        "--batch --export nobody",
        "--export nobody bob",
        "--no-default-keyring --keyring ./keys.gpg --export",
        "--no-default-keyring --keyring /usr/share/keyrings/debian-archive-keyring.gpg --export",
    ] {
        desk.same_gpg(0, line);
    }
    desk.gpg(&["-u", "alice", "-b", "--yes", "-o", "output", "data"]);
    for line in ["--export-options export-minimal --export", "-o output --export", "-v --export"] {
        desk.put("output", "there");
        let words: Vec<&str> = line.split(' ').collect();
        let program = std::path::Path::new(crate::common::OUR_GPG);
        let variables = [("TALARIA_GPG_TRIED", &*desk.alone())];
        assert_eq!(desk.run_with(&variables, program, &words, b"").0, 2, "{line}");
        assert_eq!(desk.get("output"), b"there");
    }
}

#[test]
fn other_listings_are_handed_over() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    for line in [
        "--list-keys",
        "-K",
        "--with-colons --check-sigs",
        "--with-colons -k @example",
        "--with-colons --with-secret -k",
        "--with-colons -v -k",
        "--with-colons --trust-model always -k",
        "--fingerprint alice",
        "--export-secret-keys",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = desk.our_gpg(&words, b"");
        assert_eq!(ran.code, 2, "{line}");
        assert!(ran.err.contains("no GnuPG to hand it over to"), "{line}: {}", ran.err);
        assert_eq!(desk.our_gpg_or_theirs(&words, b""), desk.their_gpg(&words, b""), "{line}");
    }
}
