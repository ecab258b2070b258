//! Signed messages changed by an attacker, with the answers of talaria-sop and sqop, if installed.
//! The draft's rule is that one valid signature is enough.

use crate::common::{Desk, SOP, peer};

/// The programs to ask, ours first.
fn programs() -> Vec<String> {
    std::iter::once(SOP.to_owned()).chain(talaria_needs::found(peer("sqop"), "sqop")).collect()
}

fn signed(desk: &Desk) -> String {
    desk.party("a", "rfc4880");
    desk.sop("inline-sign --as=clearsigned a.key", "pay bob\n10 euro").text()
}

#[test]
fn unsigned_white_space_is_not_written() {
    let desk = Desk::new();
    let padded = signed(&desk).replace("pay bob", "pay bob \t").replace("10 euro", "10 euro  ");
    assert!(padded.contains("bob \t\n"));
    for program in programs() {
        let out = desk.run(&program, &["inline-verify", "a.cert"], &padded).text();
        assert_eq!(out.trim_end_matches('\n'), "pay bob\n10 euro", "{program}");
    }
    let detached = desk.sop("inline-detach --signatures-out=sigs", &padded).text();
    assert_eq!(detached, "pay bob\n10 euro");
    desk.sop("verify sigs a.cert", &detached).ok();
}

/// A session key that unwraps to nothing made Sequoia panic: exit code 101.
#[test]
fn an_empty_wrapped_session_key_is_as_wrong_as_any_other() {
    use talaria_message::openpgp::crypto::SessionKey;
    use talaria_message::openpgp::packet::PKESK;
    use talaria_message::openpgp::packet::pkesk::PKESK3;
    use talaria_message::openpgp::serialize::MarshalInto as _;
    let desk = Desk::new();
    for profile in ["rfc4880", "rfc9580"] {
        desk.party(profile, profile);
        let cert = talaria_message::read_cert(&desk.get(&format!("{profile}.cert"))).unwrap();
        let key = cert.keys().find(|key| key.key().pk_algo().for_encryption()).unwrap();
        let said = |content: &[u8]| {
            let sealed = key.key().encrypt(&SessionKey::from(content)).unwrap();
            let packet = PKESK3::new(Some(key.key().keyid()), key.key().pk_algo(), sealed).unwrap();
            let packet =
                talaria_message::openpgp::Packet::from(PKESK::V3(packet)).to_vec().unwrap();
            let message = [&packet[..], &[0xd2, 60, 1], &[7; 59]].concat();
            let ran = desk.sop(&format!("decrypt {profile}.key"), message).fails(29);
            assert!(ran.out.is_empty());
            ran.err
        };
        let wrong = said(&[9; 40]);
        assert_eq!(said(b""), wrong);
        assert!(!wrong.contains("panicked"), "{wrong}");
    }
}

#[test]
fn a_header_that_is_not_hash_is_refused() {
    let desk = Desk::new();
    let signed = signed(&desk);
    let head = signed.lines().nth(1).unwrap().to_owned();
    assert!(head.starts_with("Hash: "), "{signed}");
    let headers = ["Hash: PLEASE READ: pay 1000 euro", "Comment: pay 1000 euro"];
    for (at, header) in headers.into_iter().enumerate() {
        let changed = signed.replace(&head, header);
        let ran = desk.sop("inline-verify a.cert", &changed).fails(41);
        assert!(ran.out.is_empty());
        desk.sop(&format!("inline-detach --signatures-out=sigs-{at}"), &changed).fails(41);
    }
}

#[test]
fn a_second_signed_text_is_refused() {
    let desk = Desk::new();
    let signed = signed(&desk);
    let second = signed.replace("10 euro", "1000 euro");
    let ran = desk.sop("inline-verify a.cert", format!("{signed}\n{second}")).fails(41);
    assert!(ran.out.is_empty() && ran.err.contains("another armored block"), "{}", ran.err);
    // Text around it is not signed, and not written.
    let around = format!("Pay 1000 euro:\n\n{signed}\nor more\n");
    for program in programs() {
        let out = desk.run(&program, &["inline-verify", "a.cert"], &around).text();
        assert_eq!(out.trim_end_matches('\n'), "pay bob\n10 euro", "{program}");
    }
}

#[test]
fn one_valid_signature_is_enough_in_any_position() {
    let desk = Desk::new();
    desk.party("a", "rfc4880");
    desk.put("good", desk.sop("sign a.key", "text").ok());
    desk.put("bad", desk.sop("sign a.key", "other").ok());
    let both = |first: &str, second: &str| [desk.get(first), desk.get(second)].concat();
    desk.put("good-bad", both("good", "bad"));
    desk.put("bad-good", both("bad", "good"));
    for name in ["good-bad", "bad-good"] {
        let verified = desk.sop(&format!("verify {name} a.cert"), "text");
        assert!(verified.err.contains("Bad"), "{}", verified.err);
        assert_eq!(verified.text().lines().count(), 1);
    }
    desk.sop("verify bad a.cert", "text").fails(3);
    // A truncated second block is not ignored.
    let cut = both("good", "bad");
    desk.put("cut", &cut[..cut.len() - 60]);
    desk.sop("verify cut a.cert", "text").fails(41);
}

#[test]
fn an_unsigned_message_is_not_verified() {
    let desk = Desk::new();
    desk.party("a", "rfc4880");
    let literal = b"\xcb\x0ab\0\0\0\0\0text";
    let ran = desk.sop("inline-verify a.cert", literal).fails(3);
    assert!(ran.out.is_empty());
}
