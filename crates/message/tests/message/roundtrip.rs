//! Round trips of every kind of message, at sizes around every boundary.

use std::io::Cursor;

use crate::common::{self, NOW, Parties, generate, no_certs, password_secrets};
use proptest::prelude::*;
use talaria_message::Rules;
use talaria_message::openpgp::cert::CipherSuite;
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::packet::signature::SignatureBuilder;
use talaria_message::openpgp::types::{HashAlgorithm, SymmetricAlgorithm};
use talaria_message::openpgp::{self, Cert};
use talaria_message::{
    Aead, ChunkSize, Compression, DecryptOptions, EncryptOptions, Literal, Profile, ReadLimits,
    Recipients, Release, Secrets, SignatureReport, SigningKey, Verifier, decrypt, encrypt,
    lookup_in, pack, signing_key, verify_inline,
};

/// Every kind of encrypted packet.
const KINDS: [(Profile, Option<Aead>); 4] = [
    (Profile::Rfc9580, Some(Aead::Gcm)),
    (Profile::Rfc9580, Some(Aead::Ocb)),
    (Profile::LibrePgp, None),
    (Profile::Rfc4880, None),
];

fn seal(plain: &[u8], options: &EncryptOptions) -> Vec<u8> {
    let mut recipients = Recipients::default();
    recipients.add_password(Password::from("correct horse"));
    let mut sealed = Vec::new();
    encrypt(Cursor::new(plain.to_vec()), &mut sealed, &recipients, &mut [], options, common::NOW)
        .unwrap();
    sealed
}

fn open(sealed: &[u8], threads: usize) -> Result<Vec<u8>, talaria_message::MessageError> {
    let mut plain = Vec::new();
    let mut options = DecryptOptions::new(Release::Streamed);
    options.threads = threads;
    let mut secrets = password_secrets("correct horse");
    decrypt(&mut Cursor::new(sealed), &mut plain, &mut secrets, &no_certs(), options)?;
    Ok(plain)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

#[test]
fn messages_of_sizes_around_every_boundary_read_back() {
    let chunk = 1 << 12;
    let segment = 256 << 10;
    let mut sizes = vec![0, 1, 15, 16, 17, 511, 512, 513];
    for boundary in [chunk, 2 * chunk, segment, 2 * segment, 3 * segment, 4 * segment] {
        // The header of the literal packet has up to 12 bytes.
        sizes.extend(boundary - 14..boundary + 3);
    }
    for (profile, aead) in KINDS {
        for known in [true, false] {
            for &size in &sizes {
                let plain = bytes(size);
                let mut options = EncryptOptions::default();
                options.profile = Some(profile);
                options.aead = aead;
                options.chunk = ChunkSize::from_bytes(chunk).unwrap();
                options.size = known.then_some(size as u64);
                options.threads = 1 + size % 3;
                let (sealed, key) = common::with_session_key(&plain, &options);
                let opened = common::open_with(&sealed, key, 1 + size % 2).unwrap();
                assert!(opened == plain, "{profile:?} {aead:?} {size} {known}");
            }
        }
    }
}

#[test]
fn messages_with_passphrases_read_back() {
    for (profile, aead) in KINDS {
        let mut options = EncryptOptions::default();
        options.profile = Some(profile);
        options.aead = aead;
        let sealed = seal(b"attack at dawn", &options);
        assert_eq!(open(&sealed, 2).unwrap(), b"attack at dawn");
    }
}

#[test]
fn messages_with_recipients_and_signers_read_back() {
    let parties = Parties::new();
    for (profile, aead) in KINDS {
        if profile == Profile::Rfc9580 && !parties.v6 {
            continue;
        }
        for size in [0, 100, 300_000] {
            let plain = bytes(size);
            let mut signers = parties.signers();
            let mut options = EncryptOptions::default();
            options.profile = Some(profile);
            options.aead = aead;
            let mut sealed = Vec::new();
            encrypt(
                Cursor::new(plain.clone()),
                &mut sealed,
                &parties.recipients(),
                &mut signers,
                &options,
                common::NOW,
            )
            .unwrap();
            let mut opened = Vec::new();
            let mut options = DecryptOptions::new(Release::Streamed);
            options.threads = 2;
            let verifier = parties.verifier();
            let decrypted = decrypt(
                &mut Cursor::new(&sealed),
                &mut opened,
                &mut parties.secrets(),
                &verifier,
                options,
            )
            .unwrap();
            assert_eq!(opened, plain);
            assert_eq!(decrypted.signatures.len(), signers.len());
            for report in &decrypted.signatures {
                assert!(report.is_good(), "{report:?}");
            }
        }
    }
}

#[test]
fn the_right_one_of_several_session_keys_is_found() {
    for (profile, aead) in KINDS {
        for size in [0, 1, 5000, 300_000] {
            let plain = bytes(size);
            let mut recipients = Recipients::default();
            recipients.add_password(Password::from("correct horse"));
            let (mut sealed, mut opened) = (Vec::new(), Vec::new());
            let chunk = ChunkSize::from_bytes(1 << 12).unwrap();
            let mut options = EncryptOptions::default();
            options.profile = Some(profile);
            options.aead = aead;
            options.chunk = chunk;
            let input = Cursor::new(plain.clone());
            let made =
                encrypt(input, &mut sealed, &recipients, &mut [], &options, common::NOW).unwrap();
            let wrong = vec![7; made.session_key.len()];
            let keys = [wrong.clone(), made.session_key.to_vec(), wrong];
            let session_keys = keys.into_iter().map(|key| (Some(made.cipher), key.into()));
            let mut secrets =
                Secrets { session_keys: session_keys.collect(), ..Secrets::default() };
            let mut options = DecryptOptions::new(Release::Streamed);
            options.threads = 2;
            let mut input = Cursor::new(&sealed);
            decrypt(&mut input, &mut opened, &mut secrets, &no_certs(), options).unwrap();
            assert!(opened == plain, "{profile:?} {aead:?} {size}");
        }
    }
}

#[test]
fn text_messages_have_crlf_inside() {
    let parties = Parties::new();
    let text = b"one\ntwo\r\nthree\n".repeat(50_000);
    let mut options = EncryptOptions::default();
    options.literal = Literal { text: true, ..Literal::default() };
    options.size = Some(text.len() as u64);
    let (mut packed, mut shown) = (Vec::new(), Vec::new());
    let mut signers = parties.signers();
    pack(Cursor::new(text.clone()), &mut packed, &mut signers, &options, common::NOW).unwrap();
    let inside = packed.windows(9).filter(|bytes| bytes == b"three\r\non").count();
    assert!(inside > 49_000, "{inside}");
    let mut input = Cursor::new(&packed);
    let verifier = parties.verifier();
    let (literal, reports) =
        verify_inline(&mut input, &mut shown, &verifier, ReadLimits::default()).unwrap();
    assert!(literal.text);
    assert!(reports.len() == signers.len() && reports.iter().all(SignatureReport::is_good));
    assert!(shown == b"one\ntwo\nthree\n".repeat(50_000));
}

#[test]
fn compressed_messages_read_back() {
    let plain = b"all work and no play makes jack a dull boy\n".repeat(10_000);
    for compression in
        [Compression::Zip(6), Compression::Zlib(1), Compression::Bzip2(9), Compression::Auto]
    {
        let mut options = EncryptOptions::default();
        options.compression = compression;
        let sealed = seal(&plain, &options);
        assert!(sealed.len() < plain.len() / 10, "{compression:?}");
        assert_eq!(open(&sealed, 2).unwrap(), plain);
    }
    // Data that do not shrink are not compressed.
    let noise: Vec<u8> = {
        let mut noise = vec![0; 300_000];
        aws_lc_rs::rand::fill(&mut noise).unwrap();
        noise
    };
    let mut options = EncryptOptions::default();
    options.compression = Compression::Auto;
    let sealed = seal(&noise, &options);
    assert!(sealed.len() > noise.len());
    assert_eq!(open(&sealed, 2).unwrap(), noise);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn messages_of_any_size_and_kind_read_back(
        size in 0usize..200_000,
        log in 6u32..19,
        kind in 0usize..4,
        known in any::<bool>(),
        threads in 1usize..4,
    ) {
        let (profile, aead) = KINDS[kind];
        let plain = bytes(size);
        let mut options = EncryptOptions::default();
options.profile = Some(profile);
options.aead = aead;
options.chunk = ChunkSize::from_bytes(1 << log).unwrap();
options.size = known.then_some(size as u64);
options.threads = threads;
        let (sealed, key) = common::with_session_key(&plain, &options);
        prop_assert!(common::open_with(&sealed, key, threads).unwrap() == plain);
    }
}

#[test]
fn sign_many_works_with_every_kind_of_key() {
    let rsa = generate("<rsa@example.org>", openpgp::Profile::RFC4880, CipherSuite::RSA2k);
    let documents: Vec<Vec<u8>> = (0..100u32).map(|n| n.to_be_bytes().to_vec()).collect();
    for cert in Parties::new().certs.iter().chain([&rsa]) {
        let here = signing_key(cert, Rules::default(), common::NOW, &mut |_, _| None).unwrap();
        let key = cert.keys().secret().key_handle(here.public().fingerprint()).next().unwrap();
        let pair = key.key().clone().into_keypair().unwrap();
        for mut key in [here, SigningKey::from_signer(Box::new(pair))] {
            let signed = key.sign_many(&documents, common::NOW).unwrap();
            let lookup = lookup_in([cert.clone()]);
            let verifier = Verifier::new(lookup, Rules::default(), common::NOW);
            let pairs = signed.iter().map(Vec::as_slice).zip(documents.iter().map(Vec::as_slice));
            let reports = verifier.many(&pairs.collect::<Vec<_>>());
            assert_eq!(reports.len(), documents.len());
            assert!(reports.iter().all(SignatureReport::is_good));
            assert!(key.sign_many::<Vec<u8>>(&[], common::NOW).unwrap().is_empty());
        }
    }
}

/// A version 4 certificate with these preferences, as gpg's `setpref` writes them.
fn preferring(
    features: &openpgp::types::Features,
    ciphers: &[SymmetricAlgorithm],
    digests: &[HashAlgorithm],
) -> Cert {
    let old = generate("<old@example.org>", openpgp::Profile::RFC4880, CipherSuite::Cv25519);
    let key = old.primary_key().key().clone().parts_into_secret().unwrap();
    let mut signer = key.into_keypair().unwrap();
    let user_id = old.userids().next().unwrap().userid().clone();
    let bound = old.userids().next().unwrap().self_signatures().next().unwrap().clone();
    let made = bound.signature_creation_time().unwrap() + std::time::Duration::from_secs(1);
    let preferred = |builder: SignatureBuilder| {
        builder
            .set_signature_creation_time(made)
            .unwrap()
            .set_features(features.clone())
            .unwrap()
            .set_preferred_symmetric_algorithms(ciphers.to_vec())
            .unwrap()
            .set_preferred_hash_algorithms(digests.to_vec())
            .unwrap()
    };
    let direct = old.primary_key().self_signatures().next().unwrap().clone();
    let direct = preferred(SignatureBuilder::from(direct))
        .sign_direct_key(&mut signer, Some(old.primary_key().key()))
        .unwrap();
    let bound = preferred(SignatureBuilder::from(bound))
        .sign_userid_binding(&mut signer, Some(old.primary_key().key()), &user_id)
        .unwrap();
    old.insert_packets([direct, bound]).unwrap().0
}

fn kind_of(cert: &Cert, password: Option<&str>) -> (u8, String, Vec<u8>) {
    let mut recipients = Recipients::default();
    recipients.add(cert, Rules::default(), &mut |_| None, NOW).unwrap();
    if let Some(password) = password {
        recipients.add_password(Password::from(password));
    }
    let mut sealed = Vec::new();
    let mut signers = vec![signing_key(cert, Rules::default(), NOW, &mut |_, _| None).unwrap()];
    let options = EncryptOptions::default();
    let plain = Cursor::new(b"as preferred".to_vec());
    let made = encrypt(plain, &mut sealed, &recipients, &mut signers, &options, NOW).unwrap();
    let last = talaria_message::inspect(&mut &sealed[..]).unwrap().pop().unwrap();
    assert_eq!(signers.len(), 1);
    (last.tag, made.cipher.to_string(), vec![signers[0].hash()])
}

/// gpg 2.4 sets bit 2 of the features on its keys and reads packet 20; a passphrase announces
/// nothing.
#[test]
fn messages_use_safe_preferences_of_the_recipients() {
    use openpgp::types::Features;
    let gnupg = || Features::empty().set_seipdv1().set(1);
    let both = [HashAlgorithm::SHA384, HashAlgorithm::SHA512];
    let cert = preferring(&gnupg(), &[SymmetricAlgorithm::AES192], &both);
    assert_eq!(kind_of(&cert, None), (20, "AES192".to_owned(), vec![9]));
    assert_eq!(kind_of(&cert, Some("x")), (18, "AES192".to_owned(), vec![9]));
    let old = Features::empty().set_seipdv1();
    let weak = [SymmetricAlgorithm::Twofish, SymmetricAlgorithm::AES128];
    let cert = preferring(&old, &weak, &[HashAlgorithm::SHA1]);
    // Weak algorithms are never used, even if preferred.
    assert_eq!(kind_of(&cert, None), (18, "AES128".to_owned(), vec![8]));
    let new = Features::empty().set_seipdv1().set(1).set_seipdv2();
    let cert = preferring(&new, &[SymmetricAlgorithm::AES256], &[HashAlgorithm::SHA512]);
    assert_eq!(kind_of(&cert, None), (18, "AES256".to_owned(), vec![10]));
}
