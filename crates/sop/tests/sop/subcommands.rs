//! Every subcommand follows the draft.

use crate::common::{self, Desk, changed};

const PROFILES: [&str; 2] = ["rfc9580", "rfc4880"];

/// More than one chunk of anything, and not text.
fn long() -> Vec<u8> {
    (0..3_000_000u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect()
}

#[test]
fn version() {
    let desk = Desk::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(desk.sop("version", "").text(), format!("talaria-sop {version}\n"));
    assert_eq!(desk.sop("version --backend", "").text(), format!("talaria-message {version}\n"));
    let extended = desk.sop("version --extended", "").text();
    assert!(extended.starts_with(&format!("talaria-sop {version}\n")));
    assert!(extended.contains("sequoia-openpgp 2."));
    assert!(desk.sop("version --sop-spec", "").text().contains("draft-dkg-openpgp-stateless-cli"));
    assert_eq!(desk.sop("version --sopv", "").text(), "1.0\n");
}

#[test]
fn list_profiles() {
    let desk = Desk::new();
    for subcommand in ["generate-key", "encrypt"] {
        let profiles = desk.sop(&format!("list-profiles {subcommand}"), "").text();
        let names: Vec<_> = profiles.lines().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(names, PROFILES);
        assert!(profiles.lines().next().unwrap().contains("default"));
    }
    for alias in ["default", "compatibility", "performance", "security"] {
        desk.sop(&format!("generate-key --profile {alias} a"), "").ok();
    }
}

#[test]
fn generate_key() {
    let desk = Desk::new();
    let key = desk.run(common::SOP, &["generate-key", "Alice <a@example.org>", "Other"], "").text();
    assert!(key.starts_with("-----BEGIN PGP PRIVATE KEY BLOCK-----\n"));
    let binary = desk.sop("generate-key --no-armor", "").ok();
    // A secret key packet of version 6, without a user ID.
    assert_eq!((binary[0], binary[2]), (0xc5, 6));
    let binary = desk.sop("generate-key --no-armor --profile compatibility", "").ok();
    assert_eq!((binary[0], binary[2]), (0xc5, 4));
    let signs = desk.sop("generate-key --signing-only a", "").ok();
    desk.put("signs.cert", desk.sop("extract-cert", &signs).ok());
    desk.put("signs.key", signs);
    desk.sop("sign signs.key", "text").ok();
    desk.sop("encrypt signs.cert", "text").fails(17);
}

#[test]
fn change_key_password() {
    let desk = Desk::new();
    desk.put("old", "old password\n");
    desk.put("new", "new password");
    for profile in PROFILES {
        let key = desk.sop(&format!("generate-key --profile {profile} a"), "").ok();
        desk.put("cert", desk.sop("extract-cert", &key).ok());
        let locked = desk.sop("change-key-password --new-key-password old", &key).ok();
        desk.put("locked", &locked);
        desk.sop("sign locked", "text").fails(67);
        desk.sop("sign --with-key-password new locked", "text").fails(67);
        desk.put("sig", desk.sop("sign --with-key-password old locked", "text").ok());
        desk.sop("verify sig cert", "text").ok();
        desk.sop("change-key-password --old-key-password new", &locked).fails(67);
        let both = "change-key-password --old-key-password old --new-key-password new";
        desk.put("relocked", desk.sop(both, &locked).ok());
        desk.sop("sign --with-key-password old relocked", "text").fails(67);
        let sealed = desk.sop("encrypt cert", "text").ok();
        desk.sop("decrypt relocked", &sealed).fails(67);
        let opened = desk.sop("decrypt --with-key-password new relocked", &sealed).ok();
        assert_eq!(opened, b"text");
        desk.put("open", desk.sop("change-key-password --old-key-password old", &locked).ok());
        desk.sop("sign open", "text").ok();
    }
}

#[test]
fn key_passwords_at_generation() {
    let desk = Desk::new();
    desk.put("password", "pass\n");
    desk.put("key", desk.sop("generate-key --with-key-password password a", "").ok());
    desk.sop("sign key", "text").fails(67);
    desk.sop("sign --with-key-password password key", "text").ok();
}

#[test]
fn revoke_key() {
    let desk = Desk::new();
    for profile in PROFILES {
        desk.party("a", profile);
        desk.put("sig", desk.sop("sign a.key", "text").ok());
        desk.sop("verify sig a.cert", "text").ok();
        desk.put("revocation", desk.sop("revoke-key", desk.get("a.key")).ok());
        desk.put("revoked", desk.sop("merge-certs revocation", desk.get("a.cert")).ok());
        desk.sop("encrypt revoked", "text").fails(17);
        // A revocation without a reason invalidates all signatures, because the key may have been
        // stolen.
        desk.sop("verify sig revoked", "text").fails(3);
        // All files contribute to the known certificate.
        desk.sop("verify sig a.cert revocation", "text").fails(3);
    }
}

#[test]
fn extract_cert() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    let cert = String::from_utf8(desk.get("a.cert")).unwrap();
    assert!(cert.starts_with("-----BEGIN PGP PUBLIC KEY BLOCK-----\n"));
    let binary = desk.sop("extract-cert --no-armor", desk.get("a.key")).ok();
    assert_eq!(desk.sop("dearmor", cert).ok(), binary);
    desk.sop("extract-cert", desk.get("a.cert")).fails(41);
}

#[test]
fn update_key() {
    let desk = Desk::new();
    // A key that announces few features and has no encryption subkey.
    let key = desk.sop("generate-key --profile rfc4880 --signing-only --no-armor a", "").ok();
    let with = |options: &str| {
        let updated = desk.sop(&format!("update-key --no-armor {options}"), &key).ok();
        desk.put("updated.cert", desk.sop("extract-cert", &updated).ok());
        desk.put("updated.key", &updated);
        updated
    };
    assert_eq!(with("--no-added-capabilities"), key);
    with("--signing-only");
    desk.sop("encrypt updated.cert", "text").fails(17);
    let updated = with("");
    let sealed = desk.sop("encrypt --no-armor updated.cert", "text").ok();
    assert_eq!(desk.sop("decrypt updated.key", &sealed).ok(), b"text");
    // The first packet is PKESK version 6, because the key announces RFC 9580.
    assert_eq!((sealed[0], sealed[2]), (0xc1, 6));
    // A second update changes nothing.
    assert_eq!(desk.sop("update-key --no-armor", &updated).ok(), updated);

    // A locked key stays locked completely.
    desk.put("password", "p");
    let locked = desk.sop("change-key-password --new-key-password password", &key).ok();
    desk.sop("update-key", &locked).fails(67);
    let updated = desk.sop("update-key --with-key-password password", &locked).ok();
    desk.put("locked.cert", desk.sop("extract-cert", &updated).ok());
    desk.put("locked.key", &updated);
    let sealed = desk.sop("encrypt locked.cert", "text").ok();
    desk.sop("decrypt locked.key", &sealed).fails(67);
    desk.sop("decrypt --with-key-password password locked.key", &sealed).ok();

    // Certifications and revocations are merged.
    desk.put("revocation", desk.sop("revoke-key", &key).ok());
    desk.sop("update-key --merge-certs revocation", &key).fails(103);
}

#[test]
fn merge_certs() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    desk.party("b", "rfc4880");
    desk.party("c", "rfc4880");
    let certify = ["certify-userid", "--userid", "b <b@example.org>", "a.key"];
    desk.put("certified", desk.run(common::SOP, &certify, desk.get("b.cert")).ok());
    // Only certificates of the input, with the new parts.
    let merged = desk.sop("merge-certs certified c.cert", desk.get("b.cert")).ok();
    assert_eq!(merged, desk.get("certified"));
    let twice = [desk.get("b.cert"), desk.get("certified")].concat();
    assert_eq!(desk.sop("merge-certs", twice).ok(), desk.get("certified"));
    let unchanged = desk.sop("merge-certs", desk.get("b.cert")).ok();
    assert_eq!(unchanged, desk.get("b.cert"));
}

#[test]
fn certify_and_validate_userid() {
    let desk = Desk::new();
    let validate = |user_id: &str, options: &[&str], cert: &str| {
        let arguments = [&["validate-userid"], options, &[user_id, "ca.cert"]].concat();
        desk.run(common::SOP, &arguments, desk.get(cert))
    };
    for profile in PROFILES {
        desk.party("ca", profile);
        desk.party("a", profile);
        validate("a <a@example.org>", &[], "a.cert").fails(107);
        let certify = |user_id: &str, options: &[&str]| {
            let arguments =
                [&["certify-userid", "--userid", user_id], options, &["ca.key"]].concat();
            desk.run(common::SOP, &arguments, desk.get("a.cert"))
        };
        desk.put("certified", certify("a <a@example.org>", &[]).ok());
        validate("a <a@example.org>", &[], "certified").ok();
        validate("A@example.org", &["--addr-spec-only"], "certified").ok();
        validate("a@example.org", &[], "certified").fails(107);
        validate("b@example.org", &["--addr-spec-only"], "certified").fails(107);
        validate("a <a@example.org>", &["--validate-at", "2001-01-01"], "certified").fails(107);
        // An authority is valid without certifications.
        validate("ca <ca@example.org>", &[], "ca.cert").ok();
        // All certificates must have the user ID.
        desk.put("both", [desk.get("certified"), desk.get("ca.cert")].concat());
        validate("a <a@example.org>", &[], "both").fails(107);
        // A user ID without a self-signature is not valid.
        certify("Mallory", &[]).fails(107);
        desk.put("named", certify("Mallory", &["--no-require-self-sig"]).ok());
        validate("Mallory", &[], "named").fails(107);
        // Certifications by a revoked authority do not count.
        desk.put("revocation", desk.sop("revoke-key", desk.get("ca.key")).ok());
        desk.put("ca.cert", desk.sop("merge-certs revocation", desk.get("ca.cert")).ok());
        validate("a <a@example.org>", &[], "certified").fails(107);
    }
}

#[test]
fn sign_and_verify() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    desk.party("b", "rfc4880");
    for (input, options) in [(long(), ""), (b"one\r\ntwo\n".to_vec(), "--as=text")] {
        let signature =
            desk.sop(&format!("sign {options} --micalg-out micalg a.key b.key"), &input);
        let signature = signature.text();
        assert!(signature.starts_with("-----BEGIN PGP SIGNATURE-----\n"));
        assert_eq!(desk.get("micalg"), b"pgp-sha512");
        std::fs::remove_file(desk.path().join("micalg")).unwrap();
        desk.put("sig", &signature);
        let verified = desk.sop("verify sig a.cert b.cert", &input).text();
        let lines: Vec<Vec<&str>> =
            verified.lines().map(|line| line.split(' ').collect()).collect();
        assert_eq!(lines.len(), 2);
        for (line, (digits, source)) in lines.iter().zip([(64, "a.cert"), (40, "b.cert")]) {
            // 2024-05-06T07:08:09Z SIGNING-KEY PRIMARY-KEY mode:binary {…}
            assert_eq!((line[0].len(), &line[0][10..11], &line[0][19..]), (20, "T", "Z"));
            assert_eq!((line[1].len(), line[2].len()), (digits, digits));
            assert_ne!(line[1], line[2]);
            let mode = if options.is_empty() { "mode:binary" } else { "mode:text" };
            assert_eq!(line[3], mode);
            assert_eq!(line[4], format!(r#"{{"signers":["{source}"]}}"#));
        }
        // Any one of the passwords is enough.
        for one in ["a.cert", "b.cert"] {
            assert_eq!(desk.sop(&format!("verify sig {one}"), &input).text().lines().count(), 1);
        }
        let mut other = input.clone();
        other[0] ^= 1;
        desk.sop("verify sig a.cert b.cert", &other).fails(3);
    }
    // Line ends do not matter in text.
    desk.sop("verify sig a.cert", "one\ntwo\r\n").ok();
    let binary = desk.sop("sign --no-armor a.key", "text").ok();
    assert_eq!(binary[0], 0xc2);
    desk.put("binary", binary);
    desk.sop("verify binary a.cert", "text").ok();
}

#[test]
fn times_of_signatures() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    desk.put("sig", desk.sop("sign a.key", "text").ok());
    desk.sop("verify --not-before 2020-01-01 --not-after now sig a.cert", "text").ok();
    desk.sop("verify --not-after 2020-01-01 sig a.cert", "text").fails(3);
    desk.sop("verify --not-before 2100-01-01T00:00:00Z sig a.cert", "text").fails(3);
    let sealed = desk.sop("encrypt --sign-with a.key a.cert", "text").ok();
    let with = "--verify-with a.cert --verifications-out";
    desk.sop(&format!("decrypt {with} one --verify-not-after now a.key"), &sealed).ok();
    assert_ne!(desk.get("one"), b"");
    let late = format!("decrypt {with} two --verify-not-before 2100-01-01 a.key");
    assert_eq!(desk.sop(&late, &sealed).ok(), b"text");
    assert_eq!(desk.get("two"), b"");
    desk.sop("decrypt --verify-not-before 2020-01-01 a.key", &sealed).fails(23);
}

#[test]
fn encrypt_and_decrypt() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    desk.party("b", "rfc4880");
    desk.put("password", "correct horse\n");
    let long = long();
    let recipients = ["a.cert", "b.cert", "a.cert b.cert", "--with-password password"];
    for profile in PROFILES {
        for to in recipients {
            for armor in ["", "--no-armor"] {
                let line = format!("encrypt --profile {profile} {armor} --sign-with b.key {to}");
                let sealed = desk.sop(&line, &long).ok();
                assert_eq!(sealed.starts_with(b"-----BEGIN PGP MESSAGE-----\n"), armor.is_empty());
                let with = match to {
                    "a.cert" => "a.key",
                    "b.cert" => "b.key",
                    "a.cert b.cert" => "b.key a.key",
                    password => password,
                };
                let verify = "--verify-with b.cert --verifications-out verified";
                let opened = desk.sop(&format!("decrypt {verify} {with}"), &sealed).ok();
                assert!(opened == long, "{line}");
                let verified = String::from_utf8(desk.get("verified")).unwrap();
                assert!(verified.contains(" mode:binary "), "{verified}");
                std::fs::remove_file(desk.path().join("verified")).unwrap();
            }
        }
    }
    let text = desk.sop("encrypt --as text --sign-with a.key b.cert", "Grüße\n").ok();
    let opened = desk.sop("decrypt --verify-with a.cert --verifications-out text b.key", text).ok();
    assert_eq!(opened, "Grüße\n".as_bytes());
    assert!(String::from_utf8(desk.get("text")).unwrap().contains(" mode:text "));
}

#[test]
fn session_keys() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    for profile in PROFILES {
        for name in ["out", "in"] {
            std::fs::remove_file(desk.path().join(name)).ok();
        }
        let line = format!("encrypt --profile {profile} --session-key-out out a.cert");
        let sealed = desk.sop(&line, "text").ok();
        let session_key = String::from_utf8(desk.get("out")).unwrap();
        let (cipher, digits) = session_key.trim_end().split_once(':').unwrap();
        assert_eq!((cipher, digits.len()), ("9", 64));
        desk.sop("decrypt --session-key-out in a.key", &sealed).ok();
        assert_eq!(desk.get("in"), desk.get("out"));
        assert_eq!(desk.sop("decrypt --with-session-key out", &sealed).ok(), b"text");
        desk.put("wrong", session_key.replace(&digits[..4], "0123"));
        desk.sop("decrypt --with-session-key wrong", &sealed).fails(29);
    }
}

#[test]
fn inline_signatures() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    desk.party("b", "rfc4880");
    let text = "- dashes\nFrom me   \n\nGrüße\n".as_bytes().to_vec();
    for options in ["", "--no-armor", "--as=text", "--as=clearsigned"] {
        let data = if options.starts_with("--as") { text.clone() } else { long() };
        let signed = desk.sop(&format!("inline-sign {options} a.key b.key"), &data).ok();
        let verify = "inline-verify --verifications-out verified a.cert b.cert";
        let shown = desk.sop(verify, &signed).ok();
        let detach = "inline-detach --signatures-out sigs";
        let detached = desk.sop(detach, &signed).ok();
        desk.sop("verify sigs a.cert", &detached).ok();
        desk.sop("verify sigs b.cert", &detached).ok();
        if options == "--as=clearsigned" {
            // White space at the end of a line is not signed, so it is not shown.
            assert_eq!(shown, "- dashes\nFrom me\n\nGrüße\n".as_bytes());
        } else {
            assert!(shown == data);
        }
        assert!(shown == detached);
        let lines = String::from_utf8(desk.get("verified")).unwrap();
        let mode = if options.starts_with("--as") { " mode:text " } else { " mode:binary " };
        assert_eq!(lines.lines().filter(|line| line.contains(mode)).count(), 2, "{lines}");
        for name in ["verified", "sigs"] {
            std::fs::remove_file(desk.path().join(name)).unwrap();
        }
        // Content without a signature of the expected signer is not written.
        desk.party("stranger", "rfc9580");
        assert_eq!(desk.sop("inline-verify stranger.cert", &signed).fails(3).out, b"");
    }
}

#[test]
fn armor_and_dearmor() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    let long = long();
    let pieces = [
        ("PRIVATE KEY BLOCK", desk.sop("generate-key --no-armor a", "").ok()),
        ("PUBLIC KEY BLOCK", desk.sop("extract-cert --no-armor", desk.get("a.key")).ok()),
        ("SIGNATURE", desk.sop("sign --no-armor a.key a.key", "text").ok()),
        ("MESSAGE", desk.sop("encrypt --no-armor a.cert", &long).ok()),
        ("MESSAGE", desk.sop("inline-sign --no-armor a.key", &long).ok()),
    ];
    for (label, binary) in pieces {
        let armored = desk.sop("armor", &binary).ok();
        let head = format!("-----BEGIN PGP {label}-----\n");
        assert!(armored.starts_with(head.as_bytes()), "{label}");
        assert!(desk.sop("dearmor", &armored).ok() == binary);
        // Data that are already in the wanted form are not changed.
        assert!(desk.sop("armor", &armored).ok() == armored);
        assert!(desk.sop("dearmor", &binary).ok() == binary);
    }
    desk.sop("armor", "text").fails(41);
    desk.sop("dearmor", "text").fails(41);
    desk.sop("dearmor", "").fails(41);
    desk.sop("dearmor", desk.sop("inline-sign --as=clearsigned a.key", "text").ok()).fails(41);
    let cut = desk.sop("armor", desk.sop("sign --no-armor a.key", "text").ok()).ok();
    desk.sop("dearmor", &cut[..cut.len() / 2]).fails(41);
}

#[test]
fn special_designators() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    let output = std::process::Command::new("sh")
        .args([
            "-c",
            r#"echo text | "$SOP" encrypt @FD:3 3<a.cert | PASS=x "$SOP" decrypt @FD:4 4<a.key"#,
        ])
        .env("SOP", common::SOP)
        .current_dir(desk.path())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"text\n");
    desk.sop("encrypt @ENV:NOT_THERE", "text").fails(71);
    desk.sop("encrypt @HARDWARE:x", "text").fails(71);
}

#[test]
fn a_changed_message_never_yields_wrong_content() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    let long = long();
    for profile in PROFILES {
        let sealed = desk.sop(&format!("encrypt --profile {profile} a.cert"), &long).ok();
        let ran = desk.sop("decrypt a.key", changed(&sealed)).fails(29);
        assert!(long.starts_with(&ran.out));
        assert!(ran.out.len() < long.len());
        if profile == "rfc4880" {
            assert_eq!(ran.out, b"");
        }
        let ran = desk.sop("decrypt a.key", &sealed[..sealed.len() / 2]);
        assert_ne!(ran.code, 0);
        assert!(long.starts_with(&ran.out));
    }
}
