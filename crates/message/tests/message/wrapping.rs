//! Wrong wrappings of session keys, made with the receiver's public key: each gets the same answer,
//! and nothing panics.

use std::io;

use proptest::prelude::*;
use talaria_message::openpgp::cert::CipherSuite;
use talaria_message::openpgp::crypto::{Decryptor, SessionKey, mpi};
use talaria_message::openpgp::packet::key::{PublicParts, UnspecifiedRole};
use talaria_message::openpgp::packet::pkesk::{PKESK3, PKESK6};
use talaria_message::openpgp::packet::{Key, PKESK};
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::openpgp::{self, Cert, Packet};
use talaria_message::{
    DecryptOptions, DecryptionKey, EncryptOptions, MessageError, Naming, Profile, Recipients,
    Release, Secrets, Spool, decrypt, decryption_keys, encrypt,
};

use crate::common::{generate, no_certs};

type PublicKey = Key<PublicParts, UnspecifiedRole>;

/// Receivers with encryption subkeys of all kinds: ECDH with Curve25519 and P-256, X25519, RSA, of
/// both versions.
fn receivers() -> &'static [Cert] {
    use CipherSuite::{Cv25519, P256, RSA2k};
    use openpgp::Profile::{RFC4880, RFC9580};
    static RECEIVERS: std::sync::OnceLock<Vec<Cert>> = std::sync::OnceLock::new();
    RECEIVERS.get_or_init(|| {
        [(RFC4880, Cv25519), (RFC9580, Cv25519), (RFC4880, P256), (RFC9580, P256), (RFC4880, RSA2k)]
            .into_iter()
            .map(|(profile, suite)| generate("<r@example.org>", profile, suite))
            .collect()
    })
}

fn encryption_key(cert: &Cert) -> PublicKey {
    let mut keys = cert.keys().subkeys().map(|key| key.key().clone().role_into_unspecified());
    keys.find(|key| key.pk_algo().for_encryption()).unwrap()
}

/// A message whose session key is wrapped as `content`: in a packet of version 3 in front of data
/// of version 1, or of version 6 and 2. X25519 has the number of the cipher outside of the content.
fn wrapped(key: &PublicKey, version: u8, content: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = key.encrypt(&SessionKey::from(content)).ok()?;
    if let (mpi::Ciphertext::X25519 { key, .. }, 3) = (&mut sealed, version) {
        *key = [&[9], &key[..]].concat().into();
    }
    let packet = match version {
        3 => PKESK::V3(PKESK3::new(Some(key.keyid()), key.pk_algo(), sealed).unwrap()),
        _ => PKESK::V6(PKESK6::new(Some(key.fingerprint()), key.pk_algo(), sealed).unwrap()),
    };
    let mut message = Packet::from(packet).to_vec().unwrap();
    let body = match version {
        3 => [&[1][..], &[7; 80]].concat(),
        _ => [&[2, 9, 2, 6][..], &[7; 120]].concat(),
    };
    message.extend([0xd2, u8::try_from(body.len()).unwrap()]);
    message.extend(body);
    Some(message)
}

fn open(message: &[u8], secrets: &mut Secrets) -> Result<(), MessageError> {
    let mut plain = Vec::new();
    // What a wrong key makes of the data can look like content, until its digest is compared.
    let spool = || -> io::Result<Box<dyn Spool>> { Err(io::Error::other("it is short")) };
    let mut options = DecryptOptions::new(Release::Checked { spool: &spool, again: None });
    options.threads = 1;
    let done = decrypt(&mut &message[..], &mut plain, secrets, &no_certs(), options);
    assert!(plain.is_empty());
    done.map(drop)
}

fn secrets(cert: &Cert) -> Secrets {
    Secrets { keys: decryption_keys([cert], |_, _| None), ..Secrets::default() }
}

/// The answer to each wrong wrapping.
fn answer(recipient: &str) -> String {
    let recipients = vec![recipient.to_owned()];
    MessageError::Unopened { recipients }.to_string()
}

fn is_refused(cert: &Cert, version: u8, content: &[u8]) {
    let key = encryption_key(cert);
    let Some(message) = wrapped(&key, version, content) else { return };
    let error = open(&message, &mut secrets(cert)).unwrap_err().to_string();
    let names = [key.keyid().to_hex(), key.fingerprint().to_hex()];
    assert!(names.iter().any(|name| error == answer(name)), "{version} {content:x?}: {error}");
}

/// A session key with its checksum, after the number of a cipher.
fn with_checksum(cipher: Option<u8>, key: &[u8]) -> Vec<u8> {
    let sum = key.iter().fold(0u16, |sum, &byte| sum.wrapping_add(byte.into()));
    let cipher = cipher.as_slice();
    [cipher, key, &sum.to_be_bytes()].concat()
}

#[test]
fn each_wrong_wrapping_of_a_session_key_gets_the_same_answer() {
    let mut contents = vec![
        vec![],
        vec![9],
        vec![0],
        vec![9, 0],
        vec![9, 0, 0],
        vec![0, 0],
        // No known cipher, and other lengths than that of the cipher.
        with_checksum(Some(77), &[5; 32]),
        with_checksum(Some(9), &[]),
        with_checksum(Some(9), &[5; 31]),
        with_checksum(Some(9), &[5; 33]),
        with_checksum(Some(7), &[5; 32]),
        with_checksum(None, &[]),
        with_checksum(None, &[5; 15]),
        // Right, for data that are not encrypted with it.
        with_checksum(Some(9), &[5; 32]),
        with_checksum(None, &[5; 32]),
        vec![5; 32],
    ];
    // A wrong checksum.
    contents.push([&[9][..], &[5; 32], &[0, 0]].concat());
    contents.extend((0..=40).map(|bytes| vec![0; bytes]));
    for cert in receivers() {
        for version in [3, 6] {
            for content in &contents {
                is_refused(cert, version, content);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_content_of_a_wrapped_session_key_is_refused_alike(
        receiver in 0usize..5,
        version in prop::sample::select(vec![3u8, 6]),
        cipher in prop::option::of(any::<u8>()),
        key in prop::collection::vec(any::<u8>(), 0..40),
        sums: bool,
    ) {
        let content = if sums {
            with_checksum(cipher, &key)
        } else {
            [cipher.as_slice(), &key].concat()
        };
        // Programs say which old cipher they do not have.
        let named = matches!((content.first(), content.len()), (Some(1 | 3 | 4), 19) | (Some(10), 35));
        if !named {
            is_refused(&receivers()[receiver], version, &content);
        }
    }
}

/// A secret key whose library panics.
struct Panics(PublicKey);

impl Decryptor for Panics {
    fn public(&self) -> &PublicKey {
        &self.0
    }

    fn decrypt(&mut self, _: &mpi::Ciphertext, _: Option<usize>) -> openpgp::Result<SessionKey> {
        panic!("a library has a bug")
    }
}

#[test]
fn a_panic_of_a_library_is_a_wrong_session_key() {
    let cert = &receivers()[0];
    let key = encryption_key(cert);
    let message = wrapped(&key, 3, &with_checksum(Some(9), &[5; 32])).unwrap();
    let panics = DecryptionKey::new(Box::new(Panics(key.clone())), cert.fingerprint());
    let mut secrets = Secrets { keys: vec![panics], ..Secrets::default() };
    let error = open(&message, &mut secrets).unwrap_err();
    assert_eq!(error.to_string(), answer(&key.keyid().to_hex()));
}

/// A key is encrypted to without its certificate, and the message names it or not.
#[test]
fn one_key_may_be_named_or_hidden() {
    for cert in receivers() {
        let key = encryption_key(cert);
        let body = key.to_vec().unwrap();
        let is_old = key.version() == 4;
        let name = if is_old {
            key.keyid().as_bytes().to_vec()
        } else {
            key.fingerprint().as_bytes().to_vec()
        };
        for naming in [Naming::Named, Naming::Hidden] {
            let mut to = Recipients::default();
            to.add_key(&body, naming).unwrap();
            let mut options = EncryptOptions::default();
            options.profile = Some(if is_old { Profile::Rfc4880 } else { Profile::Rfc9580 });
            let mut sealed = Vec::new();
            encrypt(&b"attack at dawn"[..], &mut sealed, &to, &mut [], &options, 0).unwrap();
            let is_named = sealed.windows(name.len()).any(|part| part == name);
            assert_eq!(is_named, naming == Naming::Named);
            let mut plain = Vec::new();
            let mut read = DecryptOptions::new(Release::Streamed);
            read.threads = 1;
            decrypt(&mut &sealed[..], &mut plain, &mut secrets(cert), &no_certs(), read).unwrap();
            assert_eq!(plain, b"attack at dawn");
        }
        let mut to = Recipients::default();
        let mut is_refused = |body: &[u8]| to.add_key(body, Naming::Named).is_err();
        assert!(is_refused(&body[..body.len() - 1]) && is_refused(b"") && is_refused(&[4; 90]));
        let primary = cert.primary_key().key().parts_as_public().clone();
        if !primary.pk_algo().for_encryption() {
            assert!(is_refused(&primary.to_vec().unwrap()));
        }
        assert!(to.is_empty());
    }
}
