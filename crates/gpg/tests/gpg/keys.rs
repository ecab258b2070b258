//! Keys that are expired, revoked, not bound, or not for signing.

use crate::common::Desk;

const KEYS: &str = "--keyring ./keys.gpg";

/// A time for `--faked-system-time` within the life of the keys of these tests.
const THEN: &str = "20200201T000000!";

impl Desk {
    /// Signs `data` at a time.
    fn sign_at(&self, time: &str, user: &str, name: &str) {
        let always = ["--faked-system-time", time, "--ignore-time-conflict", "--ignore-valid-from"];
        self.gpg(&[&always[..], &["-u", user, "-b", "-o", name, "data"]].concat());
    }

    /// Makes a key at a time.
    fn make_at(&self, time: &str, user_id: &str, algorithm: &str, lasts: &str) {
        let line = ["--quick-gen-key", user_id, algorithm, "sign,cert", lasts];
        self.gpg(&[&["--faked-system-time", time], &line[..]].concat());
    }

    /// Gives commands to `gpg --edit-key`.
    fn edit(&self, options: &[&str], user: &str, commands: &str) {
        let always = ["--no-batch", "--command-fd", "0", "--expert"];
        self.gpg_with(&[&always[..], options, &["--edit-key", user]].concat(), commands.as_bytes());
    }

    /// Revokes a key by the file that gpg made with it.
    fn revoke(&self, user: &str) {
        let path = format!("home/openpgp-revocs.d/{}.rev", self.fingerprint(user));
        let text = String::from_utf8(self.get(&path)).unwrap().replace("\n:---", "\n---");
        self.gpg_with(&["--import"], text.as_bytes());
    }

    /// All command lines that matter for a key.
    #[track_caller]
    fn compare(&self, name: &str) -> i32 {
        for options in ["-v", "-q", "--ignore-time-conflict", "-v --ignore-time-conflict"] {
            self.same(&format!("{KEYS} {options} {name} data"));
        }
        self.same(&format!("{KEYS} {name} keys.gpg"));
        self.same(&format!("{KEYS} {name} data")).code
    }
}

#[test]
fn expired_keys_and_signatures_are_reported() {
    let Some(desk) = Desk::new() else { return };
    desk.put("data", "data");
    desk.make_at("20200101T000000!", "Short <short@example.org>", "ed25519", "1y");
    desk.make_at("20200101T000000!", "Long <long@example.org>", "rsa2048", "never");
    desk.sign_at(THEN, "short", "short.sig");
    desk.sign_at(THEN, "long", "long.sig");
    let lasting = ["--default-sig-expire", "3d", "--faked-system-time", THEN];
    desk.gpg(&[&lasting[..], &["-u", "long", "-b", "-o", "old.sig", "data"]].concat());
    desk.gpg(&[&lasting[..2], &["-u", "long", "-b", "-o", "new.sig", "data"]].concat());
    desk.gpg(&[&lasting[..], &["-u", "short", "-b", "-o", "both.sig", "data"]].concat());
    let fingerprint = desk.fingerprint("short");
    desk.gpg(&[
        "--faked-system-time",
        THEN,
        "--quick-add-key",
        &fingerprint,
        "ed25519",
        "sign",
        "2y",
    ]);
    desk.gpg(&[
        "--faked-system-time",
        THEN,
        "--quick-add-key",
        &fingerprint,
        "cv25519",
        "encr",
        "0",
    ]);
    desk.sign_at("20200301T000000!", "short", "subkey.sig");
    let long = desk.fingerprint("long");
    desk.gpg(&["--faked-system-time", THEN, "--quick-add-key", &long, "ed25519", "sign", "1m"]);
    desk.sign_at("20200202T000000!", "long", "long-subkey.sig");
    desk.export("keys.gpg");
    assert_eq!(desk.compare("short.sig"), 0);
    assert_eq!(desk.compare("long.sig"), 0);
    assert_eq!(desk.compare("old.sig"), 1);
    assert_eq!(desk.compare("new.sig"), 0);
    assert_eq!(desk.compare("both.sig"), 1);
    assert_eq!(desk.compare("subkey.sig"), 0);
    assert_eq!(desk.compare("long-subkey.sig"), 0);
    let ran = desk.same(&format!("{KEYS} short.sig data"));
    assert!(ran.status.contains("\n[GNUPG:] EXPKEYSIG "), "{}", ran.status);
    desk.put("two.sig", [desk.get("old.sig"), desk.get("long.sig")].concat());
    desk.put("three.sig", [desk.get("long.sig"), desk.get("short.sig")].concat());
    assert_eq!(desk.compare("two.sig"), 1);
    assert_eq!(desk.compare("three.sig"), 0);
}

/// Exit status 0, as with gpgv: programs must read the status lines.
#[test]
fn revoked_keys_are_reported() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "rsa2048");
    let fingerprint = desk.fingerprint("bob");
    desk.gpg(&["-u", "bob", "-b", "-o", "bob.sig", "data"]);
    desk.gpg(&["--quick-add-key", &fingerprint, "ed25519", "sign", "never"]);
    desk.gpg(&["-u", "bob", "-b", "-o", "subkey.sig", "data"]);
    desk.edit(&[], "bob", "key 1\nrevkey\ny\n0\n\ny\nsave\n");
    desk.export("keys.gpg");
    assert_eq!(desk.compare("subkey.sig"), 0);
    assert_eq!(desk.compare("bob.sig"), 0);
    let ran = desk.same(&format!("{KEYS} subkey.sig data"));
    assert!(ran.status.contains("\n[GNUPG:] REVKEYSIG "), "{}", ran.status);
    for user in ["alice", "bob"] {
        desk.revoke(user);
    }
    desk.export("keys.gpg");
    assert_eq!(desk.compare("data.sig"), 0);
    assert_eq!(desk.compare("bob.sig"), 0);
    assert_eq!(desk.compare("subkey.sig"), 0);
    let ran = desk.same(&format!("{KEYS} data.sig data"));
    assert!(ran.status.contains("\n[GNUPG:] REVKEYSIG "), "{}", ran.status);
}

#[test]
fn clocks_that_differ_are_reported() {
    let Some(desk) = Desk::new() else { return };
    desk.put("data", "data");
    desk.make_at("20600101T000000!", "Future <future@example.org>", "ed25519", "never");
    desk.make_at("20200101T000000!", "Now <now@example.org>", "ed25519", "never");
    desk.sign_at("20600201T000000!", "future", "future.sig");
    desk.sign_at("20600201T000000!", "now", "dated.sig");
    desk.sign_at("20190101T000000!", "now", "day.sig");
    desk.sign_at("20191231T235959!", "now", "second.sig");
    desk.sign_at("20191231T235900!", "now", "seconds.sig");
    desk.export("keys.gpg");
    for name in ["future.sig", "dated.sig", "day.sig", "second.sig", "seconds.sig"] {
        desk.compare(name);
    }
    desk.same_as(2, &format!("{KEYS} future.sig data"));
    desk.same_as(0, &format!("{KEYS} --ignore-time-conflict future.sig data"));
    desk.same_as(2, &format!("{KEYS} day.sig data"));
    desk.same_as(0, &format!("{KEYS} --ignore-time-conflict day.sig data"));
}

#[test]
fn user_ids_are_reported_in_the_order_of_the_keyring() {
    let Some(desk) = Desk::with_alice() else { return };
    let fingerprint = desk.fingerprint("alice");
    for user_id in [
        "Zoë Müller <zoe@example.org>",
        "A <a@example.org>",
        "Alice (old) <old@example.org>",
        "100% <p@example.org>",
        "no address",
    ] {
        desk.gpg(&["--quick-add-uid", &fingerprint, user_id]);
    }
    desk.export("keys.gpg");
    assert_eq!(desk.compare("data.sig"), 0);
    desk.gpg(&["--quick-revoke-uid", &fingerprint, "Alice (old) <old@example.org>"]);
    desk.export("keys.gpg");
    assert_eq!(desk.compare("data.sig"), 0);
    desk.gpg(&["--quick-set-primary-uid", &fingerprint, "100% <p@example.org>"]);
    desk.gpg(&[
        "-u",
        "a@example.org",
        "--sender",
        "zoe@example.org",
        "-b",
        "-o",
        "zoe.sig",
        "data",
    ]);
    desk.export("keys.gpg");
    assert_eq!(desk.compare("data.sig"), 0);
    assert_eq!(desk.compare("zoe.sig"), 0);
    for user_id in
        ["Zoë Müller <zoe@example.org>", "A <a@example.org>", "100% <p@example.org>", "no address"]
    {
        desk.gpg(&["--quick-revoke-uid", &fingerprint, user_id]);
    }
    desk.export("keys.gpg");
    assert_eq!(desk.compare("data.sig"), 0);
}

#[test]
fn keys_that_do_not_sign_are_refused() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.edit(&[], "alice", "change-usage\nS\nQ\nsave\n");
    desk.export("keys.gpg");
    assert_eq!(desk.compare("data.sig"), 2);
    let ran = desk.same(&format!("{KEYS} data.sig data"));
    assert!(ran.status.contains(" 125 "), "{}", ran.status);
}

/// The packets of a keyring: tag, header and body.
fn packets(ring: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut rest = ring;
    let mut all = Vec::new();
    while let [first, ..] = rest {
        assert_eq!(first & 0xc0, 0x80, "gpg writes the old format");
        let (header, length) = match first & 3 {
            0 => (2, usize::from(rest[1])),
            1 => (3, usize::from(rest[1]) << 8 | usize::from(rest[2])),
            _ => panic!("a long packet"),
        };
        all.push((first >> 2 & 0xf, rest[header..header + length].to_vec()));
        rest = &rest[header + length..];
    }
    all
}

fn written(packets: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, body) in packets {
        out.extend([0x80 | tag << 2 | 1]);
        out.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        out.extend_from_slice(body);
    }
    out
}

#[test]
fn certificates_without_what_binds_them_are_refused() {
    let Some(desk) = Desk::with_alice() else { return };
    let fingerprint = desk.fingerprint("alice");
    desk.gpg(&["--quick-add-key", &fingerprint, "ed25519", "sign", "never"]);
    desk.gpg(&["-u", "alice", "-b", "-o", "subkey.sig", "data"]);
    desk.export("whole.gpg");
    let whole = packets(&desk.get("whole.gpg"));
    assert_eq!(whole.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [6, 13, 2, 14, 2]);
    let compare = |packets: &[(u8, Vec<u8>)]| {
        desk.put("keys.gpg", written(packets));
        (desk.compare("data.sig"), desk.compare("subkey.sig"))
    };
    assert_eq!(compare(&whole), (0, 0));
    // No signatures at all, none on the user ID, none on the subkey, and no user ID.
    let without = |left_out: &[usize]| -> Vec<(u8, Vec<u8>)> {
        let kept = (0..whole.len()).filter(|at| !left_out.contains(at));
        kept.map(|at| whole[at].clone()).collect()
    };
    assert_eq!(compare(&without(&[2, 4])), (2, 2));
    assert_eq!(compare(&without(&[2])), (2, 2));
    assert_eq!(compare(&without(&[4])), (0, 2));
    assert_eq!(compare(&without(&[1, 2])), (2, 2));
    assert_eq!(compare(&without(&[3, 4])), (0, 2));
    assert_eq!(compare(&without(&[1])), (2, 2));
    // The subkey has not signed the primary key: the area that is not hashed is emptied, but for
    // the issuer.
    let mut unsigned = whole.clone();
    let binding = &mut unsigned[4].1;
    let hashed = usize::from(u16::from_be_bytes([binding[4], binding[5]]));
    let area = 6 + hashed;
    let length = usize::from(u16::from_be_bytes([binding[area], binding[area + 1]]));
    let id = (0..fingerprint.len()).step_by(2).skip(12);
    let id: Vec<u8> =
        id.map(|at| u8::from_str_radix(&fingerprint[at..at + 2], 16).unwrap()).collect();
    let issuer = [&[0, 10, 9, 16][..], &id].concat();
    binding.splice(area..area + 2 + length, issuer);
    assert_eq!(compare(&unsigned), (0, 2));
    // Its signature on the primary key is damaged.
    let mut damaged = whole.clone();
    let last = area + 2 + length - 3;
    damaged[4].1[last] ^= 1;
    assert_eq!(compare(&damaged), (0, 2));
    // Each self-signature is damaged.
    for at in [2, 4] {
        let mut damaged = whole.clone();
        let end = damaged[at].1.len() - 5;
        damaged[at].1[end] ^= 1;
        compare(&damaged);
    }
}

#[test]
fn self_signatures_with_rejected_digests_do_not_count() {
    let Some(desk) = Desk::new() else { return };
    desk.put("data", "data");
    let line = ["--quick-gen-key", "Old <old@example.org>", "rsa2048", "sign,cert", "never"];
    desk.gpg(&[&["--cert-digest-algo", "SHA1"], &line[..]].concat());
    desk.gpg(&["-u", "old", "--digest-algo", "SHA256", "-b", "-o", "old.sig", "data"]);
    desk.export("keys.gpg");
    desk.same_as(0, &format!("{KEYS} old.sig data"));
    let line = format!("{KEYS} --weak-digest SHA1 old.sig data");
    let words: Vec<&str> = ["--status-fd", "3"].into_iter().chain(line.split(' ')).collect();
    let (theirs, ours) = (desk.theirs(&words, b""), desk.ours(&words, b""));
    assert_eq!((ours.code, ours.status), (theirs.code, theirs.status));
    assert_eq!(theirs.code, 2);
}
