//! The content of a message is written only with the required signatures.

use std::io::{Cursor, Read as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

use sequoia_openpgp::Cert;
use sequoia_openpgp::cert::CipherSuite;
use sequoia_openpgp::serialize::stream;
use talaria_message::Rules;
use talaria_message::openpgp as sequoia_openpgp;
use talaria_message::{
    ArmorWriter, Decryptor, EncryptOptions, Encryptor, Label, Message, MessageError, MessageKind,
    NotAccepted, ReadOptions, SigningKey, Spool, pack, read_signatures, sign_cleartext,
    sign_detached, split_cleartext, verify_message,
};

use crate::common::{NOW, Parties, generate, no_certs};

fn mallory() -> Cert {
    generate("<mallory@evil.example>", sequoia_openpgp::Profile::RFC4880, CipherSuite::Cv25519)
}

fn signer(cert: &Cert) -> SigningKey {
    talaria_message::signing_key(cert, Rules::default(), NOW, &mut |_, _| None).unwrap()
}

/// A message for a certificate, signed or not.
fn sealed(plain: &[u8], to: &Cert, by: &[&Cert]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encryptor = Encryptor::new(NOW).to(to).unwrap();
    for cert in by {
        encryptor = encryptor.sign(cert).unwrap();
    }
    encryptor.write(plain, &mut out).unwrap();
    out
}

fn inline(plain: &[u8], by: &Cert) -> Vec<u8> {
    let mut out = Vec::new();
    pack(plain, &mut out, &mut [signer(by)], &EncryptOptions::default(), NOW).unwrap();
    out
}

fn cleartext(text: &[u8], by: &Cert) -> Vec<u8> {
    let mut out = Vec::new();
    sign_cleartext(&mut &text[..], &mut out, &mut [signer(by)], NOW).unwrap();
    out
}

#[test]
fn nothing_is_written_without_the_expected_signer() {
    let [alice, bob] = &Parties::new().certs[..] else { panic!() };
    let mallory = mallory();
    // More than fits into the memory buffer.
    let large = vec![7; 9 << 20];
    for plain in [&b"text"[..], &large] {
        let messages: Vec<(&str, Vec<u8>, Result<(), usize>)> = vec![
            ("by the expected one", sealed(plain, bob, &[alice]), Ok(())),
            ("by her and another", sealed(plain, bob, &[&mallory, alice]), Ok(())),
            ("by nobody", sealed(plain, bob, &[]), Err(0)),
            ("by another", sealed(plain, bob, &[&mallory]), Err(1)),
            ("signed only, by the expected one", inline(plain, alice), Ok(())),
            ("signed only, by another", inline(plain, &mallory), Err(1)),
            ("a text by the expected one", cleartext(plain, alice), Ok(())),
            ("a text by another", cleartext(plain, &mallory), Err(1)),
        ];
        for (what, message, wanted) in messages {
            let files = AtomicUsize::new(0);
            let decryptor = || {
                let spool = || {
                    files.fetch_add(1, Ordering::Relaxed);
                    Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Spool>)
                };
                Decryptor::new(NOW).key(bob).signed_by(&[alice]).certs(&[&mallory]).spool(spool)
            };
            let mut out = Vec::new();
            let read = decryptor().to_writer(&message[..], &mut out);
            let streamed = decryptor().into_reader(&message[..]);
            match wanted {
                Ok(()) => {
                    read.unwrap();
                    assert!(out == plain, "{what}");
                    out.clear();
                    streamed.unwrap().0.read_to_end(&mut out).unwrap();
                    assert!(out == plain, "{what}");
                }
                Err(count) => {
                    assert!(out.is_empty(), "{what}");
                    for error in [read.map(drop), streamed.map(drop)] {
                        let Err(MessageError::NotAccepted(why)) = error else {
                            panic!("{what}: {error:?}")
                        };
                        let NotAccepted::Missing { missing, facts } = why else { panic!("{what}") };
                        assert_eq!(missing, [alice.fingerprint().into()], "{what}");
                        assert_eq!(facts.count(), count, "{what}");
                    }
                }
            }
            if plain.len() < 8 << 20 {
                assert_eq!(files.into_inner(), 0, "{what}: what is short stays in memory");
            }
        }
    }
}

/// Without expected signers, a bad signature is an error. A signature by an unknown key in an
/// encrypted message is none.
#[test]
fn an_encrypted_message_may_be_unsigned_but_has_no_bad_signature() {
    let [alice, bob] = &Parties::new().certs[..] else { panic!() };
    let read = |message: &[u8], certs: &[&Cert]| {
        let mut out = Vec::new();
        let decryptor = Decryptor::new(NOW).key(bob).passphrase("pass").certs(certs);
        decryptor.to_writer(message, &mut out).map(|received| (out, received.decision.unwrap()))
    };
    assert_eq!(read(&sealed(b"text", bob, &[]), &[]).unwrap().1.count(), 0);
    assert_eq!(read(&sealed(b"text", bob, &[alice]), &[]).unwrap().1.no_key, 1);
    assert_eq!(read(&sealed(b"text", bob, &[alice]), &[alice]).unwrap().1.good, 1);
    // A signed message that is not encrypted needs a good signature.
    let refused = read(&inline(b"text", alice), &[]);
    assert!(matches!(refused, Err(MessageError::NotAccepted(NotAccepted::NoneGood { .. }))));
    assert_eq!(read(&inline(b"text", alice), &[alice]).unwrap().0, b"text");
    // The packets of a forged message, encrypted.
    let mut forged = inline(b"text", alice);
    let at = forged.windows(4).position(|part| part == b"text").unwrap();
    forged[at] = b'T';
    let mut message = Vec::new();
    let mut out = stream::Encryptor::with_passwords(stream::Message::new(&mut message), ["pass"])
        .build()
        .unwrap();
    out.write_all(&forged).unwrap();
    out.finalize().unwrap();
    for message in [&forged, &message] {
        let refused = read(message, &[alice]);
        assert!(matches!(refused, Err(MessageError::NotAccepted(NotAccepted::Bad { .. }))));
    }
}

#[test]
fn consecutive_armored_signatures_are_all_read() {
    let [alice, bob] = &Parties::new().certs[..] else { panic!() };
    let armored = |document: &[u8], by: &Cert| {
        let mut packets = Vec::new();
        sign_detached(&mut &*document, &mut packets, &mut [signer(by)], false, NOW).unwrap();
        let mut armor = ArmorWriter::new(Vec::new(), Label::Signature).unwrap();
        armor.write_all(&packets).unwrap();
        armor.finish().unwrap()
    };
    let verifier = Parties::new().verifier();
    let outcomes = |file: &[u8]| {
        let signatures = read_signatures(&mut &*file).unwrap();
        let reports = verifier.detached(&signatures, &mut &b"text"[..]).unwrap();
        reports.iter().map(|report| report.outcome.name()).collect::<Vec<_>>()
    };
    let (good, bad) = (armored(b"text", alice), armored(b"other", bob));
    assert_eq!(outcomes(&[&good[..], &bad].concat()), ["good", "bad"]);
    assert_eq!(outcomes(&[&bad[..], b"\nfrom Bob\n", &good].concat()), ["bad", "good"]);
    // A truncated second block is not ignored.
    for cut in [40, bad.len() / 2, bad.len() - 10] {
        let file = [&good[..], &bad[..cut]].concat();
        assert!(read_signatures(&mut &file[..]).is_err(), "{cut}");
    }
    let certificate =
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nxjM=\n-----END PGP PUBLIC KEY BLOCK-----\n";
    let found = read_signatures(&mut &certificate[..]);
    let found =
        matches!(found, Err(MessageError::OtherKind { found: MessageKind::Certificate, .. }));
    assert!(found);
}

#[test]
fn a_signed_text_with_other_headers_or_a_second_text_is_refused() {
    let alice = &Parties::new().certs[0];
    let signed = String::from_utf8(cleartext(b"pay bob \t\n- 10 euro", alice)).unwrap();
    let head = signed.lines().nth(1).filter(|line| line.starts_with("Hash: SHA")).unwrap();
    let head = &format!("{head}\n");
    let split = |text: &str| split_cleartext(&mut text.as_bytes());
    let taken = split(&signed).unwrap();
    assert_eq!((&taken.text[..], taken.apart), (&b"pay bob\n- 10 euro"[..], 0));
    for header in ["", "Hash: SHA256\nHash: SHA512\n", "Hash: SHA3-256, SHA512\n", "Hash:MD5\n"] {
        assert!(split(&signed.replace(head, header)).is_ok(), "{header}");
    }
    for header in [
        "Hash: SHA512 pay 1000\n",
        "Hash: pay 1000\n",
        "Hash:\n",
        "Hash: SHA512,\n",
        "hash: SHA512\n",
        "Comment: pay 1000\n",
        "pay 1000\n",
        " \u{b}\n",
    ] {
        let done = split(&signed.replace(head, header));
        assert!(matches!(done, Err(MessageError::Malformed(_))), "{header:?}");
    }
    let around = format!("pay 1000\n\n{signed}\n and more\n");
    assert_eq!(split(&around).unwrap().text, taken.text);
    assert_eq!(split(&around).unwrap().apart, 16);
    for behind in [&signed[..], "\n-----BEGIN PGP MESSAGE-----\n"] {
        let done = split(&format!("{signed}{behind}"));
        assert!(matches!(done, Err(MessageError::Malformed(_))), "{behind}");
    }
}

#[test]
fn errors_name_the_kind_of_an_unsigned_message() {
    let bob = &Parties::new().certs[1];
    let spools = || Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Spool>);
    let verify = |message: &[u8]| {
        let options = ReadOptions::new(&spools);
        let message = Message::new(message).unwrap();
        verify_message(message, &mut std::io::sink(), &no_certs(), &options)
    };
    let mut packed = Vec::new();
    pack(&b"text"[..], &mut packed, &mut [], &EncryptOptions::default(), NOW).unwrap();
    for (message, wanted) in [
        (sealed(b"text", bob, &[]), MessageKind::Encrypted),
        (packed, MessageKind::Packed),
        (b"text".to_vec(), MessageKind::Other),
    ] {
        let Err(MessageError::OtherKind { found, .. }) = verify(&message) else { panic!() };
        assert_eq!(found, wanted);
    }
}
