//! Keyrings of all kinds.

use crate::common::{Desk, OUR_GPG, OURS};

#[test]
fn keyrings_and_keyboxes_are_read() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "nistp256");
    desk.gpg(&["-u", "bob", "-b", "-o", "bob.sig", "data"]);
    desk.gpg(&["-o", "bob.gpg", "--export", "bob"]);
    desk.gpg(&["-a", "-o", "bob.asc", "--export", "bob"]);
    desk.put("both.kbx", desk.get("home/pubring.kbx"));
    desk.put("empty", "");
    desk.put("text", "no keyring\n");
    let ring = desk.get("bob.gpg");
    desk.put("damaged-behind", [&ring[..], b"garbage"].concat());
    desk.put("damaged-before", [b"garbage", &ring[..]].concat());
    desk.put("cut", &ring[..ring.len() - 40]);
    let both = desk.get("both.kbx");
    desk.put("cut.kbx", &both[..both.len() - 40]);
    let lines = [
        "./keys.gpg",
        "./bob.gpg",
        "./both.kbx",
        "./bob.asc",
        "./empty",
        "./text",
        "./absent",
        "./damaged-behind",
        "./damaged-before",
        "absent-at-home",
        "gnupg-ring:./keys.gpg",
        "gnupg-kbx:./both.kbx",
        "gnupg-ring:./absent",
        "other:./keys.gpg",
        "./keys.gpg --keyring ./bob.gpg",
        "./bob.gpg --keyring ./keys.gpg",
        "./absent --keyring ./bob.gpg",
        "./empty --keyring ./bob.gpg",
        "./both.kbx --keyring ./bob.gpg",
        "./keys.gpg --keyring ./both.kbx",
        "./keys.gpg --keyring ./keys.gpg",
    ];
    for line in lines {
        desk.same(&format!("--keyring {line} bob.sig data"));
        desk.same(&format!("--keyring {line} data.sig data"));
        desk.same(&format!("-v --keyring {line} data.sig data"));
    }
    for name in ["cut", "cut.kbx"] {
        // Half of a certificate binds nothing.
        assert_ne!(desk.ours(&["--keyring", &format!("./{name}"), "bob.sig", "data"], b"").code, 0);
    }
}

#[test]
fn the_default_keyring_is_in_the_home_directory() {
    let Some(desk) = Desk::with_alice() else { return };
    std::fs::create_dir(desk.path("other")).unwrap();
    let lines =
        ["data.sig data", "--homedir other data.sig data", "--homedir absent data.sig data"];
    let compare = || lines.map(|line| desk.same(line).code);
    assert_eq!(compare(), [2, 2, 2]);
    desk.put("other/trustedkeys.gpg", desk.get("keys.gpg"));
    assert_eq!(compare(), [2, 0, 2]);
    desk.put("home/trustedkeys.kbx", desk.get("home/pubring.kbx"));
    assert_eq!(compare(), [0, 0, 2]);
    desk.put("home/named.gpg", desk.get("keys.gpg"));
    desk.same_as(0, "--keyring named.gpg data.sig data");
    desk.same_as(2, "--homedir other --keyring named.gpg data.sig data");
    desk.put("other/trustedkeys.kbx", "");
    desk.same("--homedir other data.sig data");
}

/// Debian's keyring has 905 certificates, some with thousands of signatures.
#[test]
fn a_key_is_found_in_a_large_keyring() {
    const RING: &str = "/usr/share/keyrings/debian-keyring.gpg";
    let Some(desk) = Desk::with_alice() else { return };
    let Ok(ring) = std::fs::read(RING) else { return };
    let keys = desk.get("keys.gpg");
    desk.put("large.gpg", [&ring[..], &keys].concat());
    desk.same_as(0, "--keyring ./large.gpg data.sig data");
    desk.same_as(2, &format!("--keyring {RING} data.sig data"));
}

/// Anybody can add components to a certificate that others import. 16,000 subkeys cost 77 seconds
/// when each was looked for among all.
#[test]
fn components_of_strangers_cost_no_more_than_reading_them() {
    let Some(desk) = Desk::with_alice() else { return };
    let mut ring = desk.get("keys.gpg");
    for number in 0..20_000_u32 {
        // Ed25519, and a point that is a number.
        let mut key =
            b"\x04\x60\0\0\0\x16\x09\x2b\x06\x01\x04\x01\xda\x47\x0f\x01\x01\x07\x40".to_vec();
        key.extend([0; 28]);
        key.extend(number.to_be_bytes());
        let user_id = format!("Mallory {number} <mallory@example.org>").into_bytes();
        for (header, body) in [(0xb8, &key), (0xb4, &user_id)] {
            ring.extend([header, u8::try_from(body.len()).unwrap()]);
            ring.extend(body);
        }
    }
    desk.put("flooded.gpg", ring);
    let limited = |program: &str, line: &str| {
        let words = ["-c", "ulimit -t 20; exec \"$0\" \"$@\"", program];
        let line = [&words[..], &line.split(' ').collect::<Vec<_>>()].concat();
        let (code, out, err) = desk.run_with(&[], "/bin/sh".as_ref(), &line, b"");
        assert_eq!(code, 0, "{line:?}: {}", String::from_utf8_lossy(&err));
        String::from_utf8(out).unwrap()
    };
    limited(OURS, "--keyring ./flooded.gpg data.sig data");
    // The real gpg needs more than 20 seconds to compute trust with such a keyring.
    let keyring = "--batch --no-auto-check-trustdb --no-default-keyring --keyring ./flooded.gpg";
    limited(OUR_GPG, &format!("{keyring} --verify data.sig data"));
    for lines in ["-k", "--list-sigs", "--with-keygrip -k"] {
        let listed = limited(OUR_GPG, &format!("{keyring} --with-colons {lines}"));
        assert_eq!(listed.matches("\npub:").count(), 1, "{lines}");
    }
}
