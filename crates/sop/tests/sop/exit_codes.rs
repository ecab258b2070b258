//! Errors have the exit codes of the draft.

use crate::common::{Desk, changed};

#[test]
fn wrong_arguments_have_their_exit_codes() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    desk.put("sig", desk.sop("sign a.key", "text").ok());
    let cases = [
        ("sign", 19),
        ("encrypt", 19),
        ("decrypt", 19),
        ("inline-sign", 19),
        ("inline-verify", 19),
        ("inline-detach", 19),
        ("verify", 19),
        ("verify sig", 19),
        ("certify-userid a.key", 19),
        ("certify-userid --userid a", 19),
        ("validate-userid a", 19),
        ("list-profiles", 19),
        ("sign --nothing a.key", 37),
        ("encrypt --nothing a.cert", 37),
        ("decrypt --verify-with a.cert a.key", 23),
        ("decrypt --verifications-out out a.key", 23),
        ("decrypt --session-key-out a.key a.key", 59),
        ("inline-detach --signatures-out a.key", 59),
        ("sign nowhere.key", 61),
        ("verify nowhere.sig a.cert", 61),
        ("frobnicate", 69),
        ("encrypt @WHERE:x", 71),
        ("inline-sign --as=clearsigned --no-armor a.key", 83),
        ("generate-key --profile of-tomorrow", 89),
        ("encrypt --profile of-tomorrow a.cert", 89),
        ("list-profiles sign", 89),
    ];
    for (line, code) in cases {
        let ran = desk.sop(line, "text");
        assert_eq!(ran.code, code, "{line}: {}", ran.err);
    }
    desk.put("@ENV:X", "");
    desk.sop("encrypt @ENV:X", "text").fails(73);
}

#[test]
fn wrong_kinds_of_data_have_their_exit_codes() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    desk.put("sig", desk.sop("sign a.key", "text").ok());
    desk.put("noise", b"\xc6\x07\x06noise");
    let cases = [
        ("sign a.cert", "text"),
        ("encrypt a.key", "text"),
        ("encrypt sig", "text"),
        ("encrypt noise", "text"),
        ("verify a.cert a.cert", "text"),
        ("verify sig sig", "text"),
        ("decrypt a.cert", "text"),
        ("decrypt a.key", "text"),
        ("decrypt a.key", ""),
        ("inline-verify a.cert", "text"),
        ("extract-cert", "text"),
        ("extract-cert", ""),
    ];
    for (line, input) in cases {
        let ran = desk.sop(line, input);
        assert_eq!(ran.code, 41, "{line}: {}", ran.err);
    }
    let signed = desk.sop("inline-sign a.key", "text").ok();
    desk.sop("decrypt a.key", signed).fails(41);
}

#[test]
fn text_must_be_utf_8() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    for line in [
        "sign --as=text a.key",
        "encrypt --as=text a.cert",
        "inline-sign --as=text a.key",
        "inline-sign --as=clearsigned a.key",
    ] {
        desk.sop(line, b"Gr\xfc\xdfe").fails(53);
    }
}

#[test]
fn wrong_passwords_and_keys_have_their_exit_codes() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    desk.party("b", "rfc4880");
    desk.put("right", "right\n");
    desk.put("wrong", "wrong");
    desk.put("unreadable", b"pass\xffword");
    desk.sop("encrypt --with-password unreadable", "text").fails(31);
    for profile in ["rfc9580", "rfc4880"] {
        let sealed =
            desk.sop(&format!("encrypt --profile {profile} --with-password right"), "text").ok();
        desk.sop("decrypt --with-password wrong", &sealed).fails(29);
        desk.sop("decrypt a.key", &sealed).fails(29);
        desk.sop("decrypt --with-password wrong --with-password right", &sealed).ok();
        let sealed = desk.sop(&format!("encrypt --profile {profile} a.cert"), "text").ok();
        desk.sop("decrypt b.key", &sealed).fails(29);
        desk.sop("decrypt --with-password right", &sealed).fails(29);
        desk.sop("decrypt a.key", changed(&sealed)).fails(29);
    }
}

#[test]
fn bad_signatures_have_exit_code_3() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    desk.party("b", "rfc4880");
    let signature = desk.sop("sign a.key", "text").ok();
    desk.put("sig", &signature);
    desk.sop("verify sig a.cert", "other text").fails(3);
    desk.sop("verify sig b.cert", "text").fails(3);
    let signed = desk.sop("inline-sign --as=clearsigned a.key", "text").text();
    desk.sop("inline-verify a.cert", signed.replace("\ntext\n", "\nother\n")).fails(3);
    // A message without signatures has no good signature.
    desk.put("revocation", desk.sop("revoke-key", desk.get("a.key")).ok());
    let revoked = desk.sop("update-key --merge-certs revocation", desk.get("a.key"));
    revoked.fails(103);
}
