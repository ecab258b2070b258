//! Certificates, or their encryption keys, that only signatures with SHA-1 bind.

use std::time::{Duration, SystemTime};

use talaria_message::openpgp::cert::{CertBuilder, CipherSuite};
use talaria_message::openpgp::packet::signature::SignatureBuilder;
use talaria_message::openpgp::types::{HashAlgorithm, SignatureType};
use talaria_message::openpgp::{Cert, Packet};
use talaria_message::{Bound, KeyFault, MessageError, Recipients, policy};

use crate::common::NOW;

/// A certificate of which signatures of some types are made with SHA-1.
fn with_sha1(types: &[SignatureType]) -> Cert {
    let made = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(NOW) - 86_400);
    let (cert, _) = CertBuilder::new()
        .set_creation_time(made)
        .add_userid("Alice <alice@example.org>")
        .set_cipher_suite(CipherSuite::Cv25519)
        .add_transport_encryption_subkey()
        .generate()
        .unwrap();
    let secret = cert.primary_key().key().clone().parts_into_secret().unwrap();
    let mut signer = secret.into_keypair().unwrap();
    let user_id = cert.userids().next().unwrap().userid().clone();
    let subkey = cert.keys().subkeys().next().unwrap().key().clone();
    let again = |packet: Packet| match packet {
        Packet::Signature(made) if types.contains(&made.typ()) => {
            let time = made.signature_creation_time().unwrap();
            let builder = SignatureBuilder::from(made.clone()).set_hash_algo(HashAlgorithm::SHA1);
            let builder = builder.set_signature_creation_time(time).unwrap();
            let primary = cert.primary_key().key();
            let again = match made.typ() {
                SignatureType::SubkeyBinding => {
                    builder.sign_subkey_binding(&mut signer, primary, &subkey)
                }
                SignatureType::DirectKey => builder.sign_direct_key(&mut signer, primary),
                _ => builder.sign_userid_binding(&mut signer, primary, &user_id),
            };
            again.unwrap().into()
        }
        other => other,
    };
    Cert::from_packets(cert.clone().into_packets().map(again)).unwrap()
}

fn fault(cert: &Cert) -> KeyFault {
    match Recipients::default().add(cert, policy(), NOW) {
        Err(MessageError::Key { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_reason_names_the_hash_function() {
    use SignatureType::{DirectKey, PositiveCertification, SubkeyBinding};
    let all = with_sha1(&[DirectKey, PositiveCertification, SubkeyBinding]);
    let said = fault(&all);
    assert!(matches!(&said, KeyFault::Weak { what: Bound::Certificate, hash: "SHA-1", .. }));
    let said = said.to_string();
    assert!(said.starts_with("only signatures with SHA-1 bind it, the newest of 20"), "{said}");

    let said = fault(&with_sha1(&[SubkeyBinding])).to_string();
    assert!(said.starts_with("only signatures with SHA-1 bind its encryption key"), "{said}");

    // A better signature beside it is enough.
    let one = with_sha1(&[PositiveCertification]);
    assert!(Recipients::default().add(&one, policy(), NOW).is_ok());
}
