//! Damaged signatures, messages and keyrings: ours never says more than gpgv.

use crate::common::{Desk, Ran};

/// Checks that ours is at most as satisfied as gpgv.
#[track_caller]
fn at_most(ours: &Ran, theirs: &Ran, what: &str) {
    assert!([0, 1, 2].contains(&ours.code), "{what}: {}", ours.err);
    assert!(ours.code != 0 || theirs.code == 0, "{what}: {}\n{}", ours.err, theirs.err);
    for word in ["GOODSIG", "VALIDSIG", "EXPKEYSIG", "REVKEYSIG", "EXPSIG"] {
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
