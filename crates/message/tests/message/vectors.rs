//! The test vectors of RFC 9580, appendix A, each named by its section.

use std::io::{BufReader, Cursor};

use crate::common::{NOW, no_certs, password_secrets};
use talaria_message::Rules;
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::parse::Parse as _;
use talaria_message::{
    Aead, ArmorInput, DecryptOptions, Decrypted, ReadLimits, Release, Secrets, Verifier, decrypt,
    decryption_keys, lookup_in, verify_cleartext, verify_inline,
};

fn vector(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/vectors/{name}.asc", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn open(name: &str, secrets: &mut Secrets) -> (Vec<u8>, Decrypted) {
    let bytes = vector(name);
    let mut input = ArmorInput::new(BufReader::new(Cursor::new(bytes))).unwrap();
    let mut plain = Vec::new();
    let mut options = DecryptOptions::new(Release::Streamed);
    options.threads = 2;
    let decrypted = decrypt(&mut input, &mut plain, secrets, &no_certs(), options).expect(name);
    (plain, decrypted)
}

fn verifier() -> Verifier<'static> {
    let cert = Cert::from_bytes(&vector("a03-certificate")).unwrap();
    Verifier::new(lookup_in([cert]), Rules::default(), NOW)
}

const LIST: &str = "What we need from the grocery store:\n\n- tofu\n- vegetables\n- noodles\n";

#[test]
fn a_6_cleartext_signed_message() {
    let signed = vector("a06-cleartext");
    let (text, reports) = verify_cleartext(&mut &signed[..], &verifier()).unwrap();
    assert_eq!(String::from_utf8(text.text).unwrap(), LIST);
    assert!(reports.len() == 1 && reports[0].is_good(), "{reports:?}");
}

#[test]
fn a_7_inline_signed_message() {
    let signed = vector("a07-inline-signed");
    let mut input = ArmorInput::new(BufReader::new(Cursor::new(signed))).unwrap();
    let mut text = Vec::new();
    let (literal, reports) =
        verify_inline(&mut input, &mut text, &verifier(), ReadLimits::default()).unwrap();
    assert!(literal.text);
    assert_eq!(String::from_utf8(text).unwrap(), LIST);
    assert!(reports.len() == 1 && reports[0].is_good(), "{reports:?}");
}

#[test]
fn a_8_x25519_aead_ocb() {
    for (key, password) in
        [("a04-secret-key", None), ("a05-locked-secret-key", Some("correct horse battery staple"))]
    {
        let cert = Cert::from_bytes(&vector(key)).unwrap();
        let keys = decryption_keys([&cert], move |asked, _| {
            (asked == 0).then(|| password.map(Password::from)).flatten()
        });
        let mut secrets = Secrets { keys, ..Secrets::default() };
        let (plain, decrypted) = open("a08-x25519-ocb", &mut secrets);
        assert_eq!(plain, b"Hello, world!");
        assert_eq!(decrypted.aead, Some(Aead::Ocb));
        let key = hex(&decrypted.session_key);
        assert_eq!(key, "dd708f6fa1ed65114d68d2343e7c2f1d");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn symmetric(name: &str, aead: Option<Aead>, session_key: &str) {
    let (plain, decrypted) = open(name, &mut password_secrets("password"));
    assert_eq!(plain, b"Hello, world!");
    assert_eq!(decrypted.aead, aead);
    if !session_key.is_empty() {
        assert_eq!(hex(&decrypted.session_key), session_key);
    }
}

#[test]
fn a_9_aead_eax() {
    symmetric("a09-eax", Some(Aead::Eax), "3881bafe985412459b86c36f98cb9a5e");
}

#[test]
fn a_10_aead_ocb() {
    symmetric("a10-ocb", Some(Aead::Ocb), "28e79ab82397d3c63de24ac217d7b791");
}

#[test]
fn a_11_aead_gcm() {
    symmetric("a11-gcm", Some(Aead::Gcm), "1936fc8568980274bb900d8319360c77");
}

/// Each test needs 2 GiB of memory for its passphrase, so the tests run one after the other.
#[test]
fn a_12_argon2() {
    symmetric("a12-argon2-aes128", None, "01fe16bbacfd1e7b78ef3b865187374f");
    symmetric("a12-argon2-aes192", None, "27006dae68e509022ce45a14e569e91001c2955af8dfe194");
    symmetric(
        "a12-argon2-aes256",
        None,
        "bbeda55b9aae63dac45d4f49d89dacf4af37fefc13bab2f1f8e18fb74580d8b0",
    );
}
