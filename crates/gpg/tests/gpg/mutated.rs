//! Damaged signatures, messages and keyrings: ours never says more than gpgv.

use crate::common::{Desk, Ran};

/// Checks that ours is at most as satisfied as gpgv.
#[track_caller]
fn at_most(ours: &Ran, theirs: &Ran, what: &str) {
    assert!([0, 1, 2].contains(&ours.code), "{what}: {}", ours.err);
    assert!(ours.code != 0 || theirs.code == 0, "{what}: {}\n{}", ours.err, theirs.err);
    let words = ["GOODSIG", "VALIDSIG", "EXPKEYSIG", "REVKEYSIG", "EXPSIG"];
    for word in words.into_iter().chain(["TRUST_ULTIMATE", "TRUST_FULLY", "TRUST_MARGINAL"]) {
        let line = format!("[GNUPG:] {word} ");
        let count = |ran: &Ran| ran.status.matches(&line).count();
        assert!(count(ours) <= count(theirs), "{what}: {}\n{}", ours.status, theirs.status);
    }
}

#[test]
fn damage_never_makes_ours_say_more_than_gpgv() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Bob <bob@example.org>", "rsa1024");
    desk.make_key("Carol <carol@example.org>", "dsa2048");
    desk.export("keys.gpg");
    desk.put("text", "some text\nof two lines\n");
    desk.gpg(&["-u", "bob", "-b", "-o", "bob.sig", "data"]);
    desk.gpg(&["-u", "carol", "-b", "-o", "carol.sig", "data"]);
    desk.gpg(&["-u", "alice", "-b", "-a", "-o", "alice.asc", "data"]);
    desk.gpg(&["-u", "bob", "-s", "-z", "0", "-o", "message", "text"]);
    desk.gpg(&["-u", "bob", "-s", "-o", "packed", "text"]);
    desk.gpg(&["-u", "alice", "--clearsign", "-o", "clear", "text"]);
    let inputs = [
        ("data.sig", true),
        ("bob.sig", true),
        ("carol.sig", true),
        ("alice.asc", true),
        ("message", false),
        ("packed", false),
        ("clear", false),
    ];
    let mut random = fastrand::Rng::with_seed(2040);
    let (mut good, mut equal) = (0, 0);
    let count = talaria_needs::short_or_full(500, 5000);
    for number in 0..count {
        let (name, is_detached) = inputs[number % inputs.len()];
        let mut bytes = desk.get(name);
        let at = random.usize(..bytes.len());
        match random.u8(..8) {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, random.u8(..)),
            2 => bytes[at] = random.u8(..),
            _ => bytes[at] ^= 1 << random.u8(..8),
        }
        desk.put("changed", &bytes);
        let mut line = vec!["--status-fd", "3", "--keyring", "./keys.gpg", "changed"];
        line.extend(is_detached.then_some("data"));
        let (ours, theirs) = (desk.ours(&line, b""), desk.theirs(&line, b""));
        at_most(&ours, &theirs, &format!("change {number} of {name} at {at}"));
        good += usize::from(ours.code == 0);
        equal += usize::from(ours.code == theirs.code && ours.status == theirs.status);
    }
    eprintln!("{good} of {count} are good, {equal} have the same status");
    assert!(equal * 10 > count * 8, "only {equal} of {count} have the same status");
}

#[test]
fn damaged_keyrings_never_make_ours_say_more_than_gpgv() {
    let Some(desk) = Desk::with_alice() else { return };
    let fingerprint = desk.fingerprint("alice");
    desk.gpg(&["--quick-add-key", &fingerprint, "ed25519", "sign", "never"]);
    desk.gpg(&["--quick-add-uid", &fingerprint, "Second <second@example.org>"]);
    desk.gpg(&["-u", "alice", "-b", "-o", "subkey.sig", "data"]);
    desk.export("keys.gpg");
    let ring = desk.get("keys.gpg");
    let mut random = fastrand::Rng::with_seed(4020);
    for number in 0..talaria_needs::short_or_full(150, 2000) {
        let mut bytes = ring.clone();
        let at = random.usize(..bytes.len());
        bytes[at] ^= 1 << random.u8(..8);
        desk.put("changed", &bytes);
        let name = if number % 2 == 0 { "data.sig" } else { "subkey.sig" };
        let line = ["--status-fd", "3", "--keyring", "./changed", name, "data"];
        let (ours, theirs) = (desk.ours(&line, b""), desk.theirs(&line, b""));
        at_most(&ours, &theirs, &format!("bit of byte {at} for {name}"));
    }
}

/// A home directory with damage in one of its files.
#[test]
fn damaged_homes_never_make_ours_say_more_than_gpg() {
    let Some(desk) = Desk::with_alice() else { return };
    let fingerprint = desk.fingerprint("alice");
    desk.gpg(&["--quick-add-key", &fingerprint, "ed25519", "sign", "never"]);
    desk.make_key("Bob <bob@example.org>", "ed25519");
    desk.gpg(&["-u", "bob", "-b", "-o", "bob.sig", "data"]);
    desk.gpg(&["-u", "alice", "-b", "-o", "subkey.sig", "data"]);
    desk.gpg(&["-u", "alice", "--yes", "--quick-sign-key", &desk.fingerprint("bob")]);
    desk.gpg_with(&["--import-ownertrust"], format!("{}:4:\n", desk.fingerprint("bob")).as_bytes());
    desk.gpg(&["--check-trustdb"]);
    let files = ["pubring.kbx", "trustdb.gpg"];
    let whole = files.map(|name| desk.get(&format!("home/{name}")));
    let mut random = fastrand::Rng::with_seed(1201);
    let (mut done, mut good) = (0, 0);
    let count = talaria_needs::short_or_full(200, 2000);
    for number in 0..count {
        let which = number % 2;
        let mut bytes = whole[which].clone();
        // Most of a trust database is empty.
        let full: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        let at = full[random.usize(..full.len())];
        bytes[at] ^= 1 << random.u8(..8);
        for signature in ["data.sig", "bob.sig", "subkey.sig"] {
            let line = ["--status-fd", "3", "--batch", "--verify", signature, "data"];
            let put = || {
                for (name, whole) in files.iter().zip(&whole) {
                    desk.put(&format!("home/{name}"), whole);
                }
                desk.put(&format!("home/{}", files[which]), &bytes);
            };
            put();
            let ours = desk.our_gpg(&line, b"");
            assert_eq!(desk.get(&format!("home/{}", files[which])), bytes);
            let theirs = desk.their_gpg(&line, b"");
            at_most(&ours, &theirs, &format!("byte {at} of {} for {signature}", files[which]));
            done += usize::from(!ours.err.contains("there is no GnuPG"));
            good += usize::from(ours.code == 0);
        }
    }
    eprintln!("{good} of {done} are good");
    assert!(done > count && good > 0, "{done} were done, {good} are good");
}
