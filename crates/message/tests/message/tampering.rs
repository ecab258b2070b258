//! Every change to a message is noticed, and no wrong content is written.

use std::io::{Cursor, Read};

use crate::common::{self, NOW, Parties, no_certs};
use talaria_message::{
    Aead, ChunkSize, Cost, DecryptOptions, EncryptOptions, MessageError, Outcome, Profile,
    ReadLimits, Release, SignatureReport, Spool, decrypt, sign_cleartext, sign_detached,
    verify_cleartext, verify_inline,
};

const KINDS: [(Profile, Option<Aead>); 4] = [
    (Profile::Rfc9580, Some(Aead::Gcm)),
    (Profile::Rfc9580, Some(Aead::Ocb)),
    (Profile::LibrePgp, None),
    (Profile::Rfc4880, None),
];

fn small(profile: Profile, aead: Option<Aead>, known: bool) -> (Vec<u8>, Vec<u8>) {
    let plain: Vec<u8> = (0..200u8).collect();
    let mut options = EncryptOptions::default();
    options.profile = Some(profile);
    options.aead = aead;
    options.chunk = ChunkSize::from_bytes(64).unwrap();
    options.size = known.then_some(200);
    (common::with_session_key(&plain, &options).0, plain)
}

/// Decrypts in memory, and returns the content only after verification.
fn open(sealed: &[u8]) -> (Vec<u8>, Result<(), MessageError>) {
    let mut plain = Vec::new();
    let spool = || tempfile::tempfile().map(|file| Box::new(file) as _);
    let mut options = DecryptOptions::new(Release::Checked { spool: &spool, again: None });
    options.threads = 2;
    let mut secrets = Parties::new().secrets();
    let done = decrypt(&mut Cursor::new(sealed), &mut plain, &mut secrets, &no_certs(), options);
    (plain, done.map(drop))
}

#[test]
fn a_changed_bit_is_always_noticed() {
    for (profile, aead) in KINDS {
        for known in [true, false] {
            let (sealed, plain) = small(profile, aead, known);
            assert_eq!(open(&sealed).0, plain);
            for at in 0..sealed.len() {
                for bit in [0, 3, 7] {
                    let mut changed = sealed.clone();
                    changed[at] ^= 1 << bit;
                    let (out, done) = open(&changed);
                    // The key ID of the recipient is not authenticated, so it can be changed
                    // without harm: the output is then the right content, or nothing.
                    if done.is_ok() {
                        assert_eq!(out, plain, "{profile:?} {aead:?} byte {at}");
                    } else {
                        assert!(plain.starts_with(&out), "{profile:?} {aead:?} byte {at}");
                        let early = profile == Profile::Rfc4880 && !out.is_empty();
                        assert!(!early, "released too early: byte {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_truncated_message_is_always_noticed() {
    for (profile, aead) in KINDS {
        for known in [true, false] {
            let (sealed, plain) = small(profile, aead, known);
            for len in 0..sealed.len() {
                let (out, done) = open(&sealed[..len]);
                assert!(done.is_err(), "{profile:?} {aead:?} cut at {len}");
                assert!(plain.starts_with(&out));
            }
            let (_, done) = open(&[&sealed[..], b"\xcb\x01b"].concat());
            assert!(matches!(done, Err(MessageError::Malformed(_))), "{done:?}");
        }
    }
}

/// Chunks of 64 bytes with a tag of 16 bytes, after packet headers with one byte of length each.
#[test]
fn reordered_and_missing_chunks_are_noticed() {
    let (sealed, plain) = small(Profile::Rfc9580, Some(Aead::Gcm), true);
    // Both packets have headers of known length: 2 bytes, 3 bytes and 36 of fields.
    let start = 2 + usize::from(sealed[1]) + 3 + 36;
    assert_eq!(sealed[start - 39], 0xd2);
    let chunk = |n: usize| start + n * 80..start + (n + 1) * 80;
    let mut swapped = sealed.clone();
    let (first, second) = (sealed[chunk(0)].to_vec(), sealed[chunk(1)].to_vec());
    swapped[chunk(0)].copy_from_slice(&second);
    swapped[chunk(1)].copy_from_slice(&first);
    let (out, done) = open(&swapped);
    assert!(matches!(done, Err(MessageError::Unopened { .. })) && out.is_empty(), "{done:?}");
    let mut repeated = sealed.clone();
    repeated[chunk(1)].copy_from_slice(&first);
    let (out, done) = open(&repeated);
    assert!(matches!(done, Err(MessageError::Tampered(_))) && plain.starts_with(&out), "{done:?}");
}

#[test]
fn a_message_without_its_integrity_check_is_refused() {
    let (sealed, _) = small(Profile::Rfc4880, None, false);
    // The last part of the packet has a length of one byte.
    let parts = sealed.len();
    let (out, done) = open(&sealed[..parts - 22]);
    assert!(done.is_err() && out.is_empty());
    // As packet type 9, which never had one.
    let at = sealed.iter().rposition(|&byte| byte == 0xd2).unwrap_or(0);
    let mut stripped = sealed.clone();
    stripped[at] = 0xc9;
    let (out, done) = open(&stripped);
    assert!(done.is_err() && out.is_empty());
}

#[test]
fn signatures_on_changed_documents_are_bad() {
    let parties = Parties::new();
    let document = b"what is signed";
    let mut signatures = Vec::new();
    sign_detached(&mut &document[..], &mut signatures, &mut parties.signers(), false, NOW).unwrap();
    let verifier = parties.verifier();
    let good = verifier.detached(&signatures, &mut &document[..]).unwrap();
    assert!(good.iter().all(SignatureReport::is_good), "{good:?}");
    let bad = verifier.detached(&signatures, &mut &b"what is not signed"[..]).unwrap();
    assert!(bad.iter().all(|report| report.outcome == Outcome::Bad), "{bad:?}");
    let stranger = no_certs().detached(&signatures, &mut &document[..]).unwrap();
    assert!(stranger.iter().all(|report| report.outcome == Outcome::NoKey));
    // Only unauthenticated parts may change, and then the result is the same.
    let truth: Vec<_> = good.iter().map(|report| (report.created, report.expires)).collect();
    for at in 0..signatures.len() {
        let mut changed = signatures.clone();
        changed[at] ^= 0x10;
        let Ok(reports) = verifier.detached(&changed, &mut &document[..]) else { continue };
        for report in reports.iter().filter(|report| report.is_good()) {
            assert!(truth.contains(&(report.created, report.expires)), "byte {at}");
        }
        let count = reports.iter().filter(|report| report.is_good()).count();
        assert!(count <= 2);
    }
}

#[test]
fn changes_in_a_signed_text_are_noticed() {
    let parties = Parties::new();
    let text = "Hello,\n- a dash\nFrom me \t\n\nlast line";
    let mut signed = Vec::new();
    sign_cleartext(&mut text.as_bytes(), &mut signed, &mut parties.signers(), NOW).unwrap();
    let verifier = parties.verifier();
    let (out, reports) = verify_cleartext(&mut &signed[..], &verifier).unwrap();
    let out = out.text;
    // The white space at the end of the third line is not signed.
    assert_eq!(out, text.replace(" \t\n", "\n").as_bytes());
    assert!(reports.len() == 2 && reports.iter().all(SignatureReport::is_good), "{reports:?}");
    let start = signed.windows(5).position(|at| at == b"Hello").unwrap();
    for at in start..start + text.len() {
        let mut changed = signed.clone();
        changed[at] ^= 0x04;
        if let Ok((text, reports)) = verify_cleartext(&mut &changed[..], &verifier) {
            assert!(
                text.text == out || reports.iter().all(|report| !report.is_good()),
                "byte {at}"
            );
        }
    }
}

#[test]
fn malformed_messages_are_refused() {
    let inline = |bytes: &[u8]| {
        let mut out = Vec::new();
        let done =
            verify_inline(&mut &bytes[..], &mut out, &no_certs(), ReadLimits::default()).map(drop);
        (out, done)
    };
    let literal = b"\xcb\x07b\0\0\0\0\0x";
    assert!(inline(literal).1.is_ok());
    for (bytes, what) in [
        (&b""[..], "empty"),
        (b"\xcb", "a header that ends"),
        (b"\xcb\x05b\0\0\0", "fields that end"),
        (b"\xcb\xff\xff\xff\xff\xffb\0\0\0\0\0x", "a huge length"),
        (b"\x00\x00", "not a packet"),
        (b"\xcb\xe0", "a part of one byte that is missing"),
    ] {
        assert!(inline(bytes).1.is_err(), "{what}");
    }
    let two = [&literal[..], &literal[..]].concat();
    assert!(matches!(inline(&two).1, Err(MessageError::Malformed(_))));
}

/// Nested compression: each level expands a byte to a thousand.
#[test]
fn compression_bombs_and_deep_nesting_are_refused() {
    use std::io::Write as _;
    let pack = |inner: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(vec![2], flate2::Compression::best());
        encoder.write_all(inner).unwrap();
        let body = encoder.finish().unwrap();
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[0xc8, 0xff], &len[..], &body].concat()
    };
    let inline = |bytes: &[u8], limits: ReadLimits| {
        let mut out = std::io::sink();
        verify_inline(&mut &bytes[..], &mut out, &no_certs(), limits).map(drop)
    };
    let mut literal = b"\xcb\xff\x01\x00\x00\x06b\0\0\0\0\0".to_vec();
    literal.resize(literal.len() + (1 << 24), 0);
    let once = pack(&literal);
    assert!(inline(&once, ReadLimits::default()).is_ok());
    let twice = pack(&once);
    let mut tight = ReadLimits::default();
    tight.expansion_free_bytes = 1 << 20;
    assert!(inline(&once, tight).is_ok(), "no more than DEFLATE can do");
    let done = inline(&twice, tight);
    let is_over = matches!(done, Err(MessageError::OverLimit { what: Cost::Expansion, .. }));
    assert!(is_over, "{done:?}");
    let deep = (0..6).fold(b"\xcb\x07b\0\0\0\0\0x".to_vec(), |inner, _| pack(&inner));
    let done = inline(&deep, ReadLimits::default());
    assert!(matches!(done, Err(MessageError::TooLarge { .. })), "{done:?}");
}

fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[0xc0 | tag, u8::try_from(body.len()).unwrap()], body].concat()
}

/// sq and sqop call each of these malformed.
#[test]
fn a_message_without_a_required_part_is_malformed() {
    let literal = packet(11, b"b\0\0\0\0\0text");
    let zlib_of_nothing = [2, 0x78, 0x9c, 0x03, 0, 0, 0, 0, 1];
    let stored = |inner: &[u8]| packet(8, &[&[0], inner].concat());
    let marker = packet(10, b"PGP");
    let one_pass = packet(4, &[3, 0, 8, 22, 1, 2, 3, 4, 5, 6, 7, 8, 1]);
    let verify = |message: &[u8]| {
        verify_inline(&mut &message[..], &mut Vec::new(), &no_certs(), ReadLimits::default())
    };
    for (name, message) in [
        ("0-length uncompressed data", [&packet(8, &[0])[..], &literal].concat()),
        ("empty compressed data", [&packet(8, &zlib_of_nothing)[..], &literal].concat()),
        ("compressed marker", [&stored(&marker)[..], &literal].concat()),
        ("a signature is announced and missing", [&one_pass[..], &literal].concat()),
        ("the same, compressed", stored(&[&one_pass[..], &literal].concat())),
        ("two messages", [&stored(&literal)[..], &literal].concat()),
    ] {
        let done = verify(&message);
        assert!(matches!(done, Err(MessageError::Malformed(_))), "{name}: {done:?}");
    }
    for (name, message) in [
        ("alone", literal.clone()),
        ("a marker before it", [&marker[..], &literal].concat()),
        ("a marker in compressed data", stored(&[&marker[..], &literal].concat())),
        ("an empty document", packet(11, b"b\0\0\0\0\0")),
    ] {
        assert!(verify(&message).is_ok(), "{name}");
    }
}

/// The empty line after the armor headers may have any white space: gpg and sq read it.
#[test]
fn armor_may_have_white_space_for_the_empty_line() {
    use std::io::Read as _;
    use talaria_message::ArmorReader;
    for line in ["", " ", " \t", " \t\r\x0b\x0c"] {
        let text =
            format!("-----BEGIN PGP MESSAGE-----\nA: b\n{line}\nAAAA\n-----END PGP MESSAGE-----\n");
        let mut read = Vec::new();
        ArmorReader::new(text.as_bytes()).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, [0; 3], "{line:?}");
        let mut armor = talaria_cert::Armor::new(text.as_bytes());
        read.clear();
        armor.read_to_end(&mut read).unwrap();
        assert_eq!(read, [0; 3], "{line:?}");
    }
}

fn no_spool() -> std::io::Result<Box<dyn Spool>> {
    Err(std::io::Error::other("nothing waits"))
}

/// A long message is read twice. What is released is what the first reading has checked.
#[test]
fn a_file_that_changes_between_two_readings_is_an_error() {
    let plain: Vec<u8> = (0..20u32 << 18).flat_map(u32::to_be_bytes).collect();
    let mut options = EncryptOptions::default();
    options.profile = Some(Profile::Rfc4880);
    let sealed = common::with_session_key(&plain, &options).0;
    let read = |second: Vec<u8>| {
        let again = || Ok(Box::new(Cursor::new(second.clone())) as Box<dyn Read + Send>);
        let mut options =
            DecryptOptions::new(Release::Checked { spool: &no_spool, again: Some(&again) });
        options.threads = 2;
        let mut secrets = Parties::new().secrets();
        let mut out = Vec::new();
        let mut input = Cursor::new(&sealed);
        let done = decrypt(&mut input, &mut out, &mut secrets, &no_certs(), options);
        (out, done.map(drop))
    };
    let (out, done) = read(sealed.clone());
    assert!(done.is_ok() && out == plain);
    let changed = |at: usize| {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        changed
    };
    let (middle, end) = (sealed.len() / 2, sealed.len() - 1);
    let [short, long] = [sealed[..end].to_vec(), [&sealed[..], &sealed[middle..]].concat()];
    for second in [changed(2000), changed(middle), changed(end), short, sealed[..300].to_vec()] {
        let (out, done) = read(second);
        assert!(matches!(done, Err(MessageError::Read(_) | MessageError::Truncated(_))));
        assert!(plain.starts_with(&out) && out.len() < plain.len());
    }
    // What follows the message is looked at once.
    assert!(read(long).1.is_ok());
    assert!(matches!(read(changed(end)).1, Err(MessageError::Read(_))));
    // An error of the first reading releases nothing.
    let again = || Ok(Box::new(Cursor::new(sealed.clone())) as Box<dyn Read + Send>);
    let options = DecryptOptions::new(Release::Checked { spool: &no_spool, again: Some(&again) });
    let mut out = Vec::new();
    let mut secrets = Parties::new().secrets();
    let first = changed(middle);
    let done =
        decrypt(&mut Cursor::new(&first), &mut out, &mut secrets, &no_certs(), options).map(drop);
    assert!(matches!(done, Err(MessageError::Unopened { .. })) && out.is_empty());
}
