//! Certificates and signatures that Sequoia makes, at fixed times.

use std::time::{Duration, SystemTime};

use sequoia_openpgp as openpgp;

use openpgp::cert::CertBuilder;
use openpgp::crypto::KeyPair;
use openpgp::packet::signature::SignatureBuilder;
use openpgp::types::SignatureType;
use talaria_cert::{Cert, Verdict, Verification, verdicts};

/// When the certificates were made, in seconds since 1970.
pub(crate) const MADE: u32 = 1_700_000_000;

pub(crate) fn at(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into())
}

pub(crate) fn key(name: &str) -> openpgp::Cert {
    CertBuilder::new().set_creation_time(at(MADE)).add_userid(name).generate().unwrap().0
}

pub(crate) fn signer(cert: &openpgp::Cert) -> KeyPair {
    cert.primary_key().key().clone().parts_into_secret().unwrap().into_keypair().unwrap()
}

/// A signature so many seconds later.
pub(crate) fn builder(kind: SignatureType, second: u32) -> SignatureBuilder {
    SignatureBuilder::new(kind).set_signature_creation_time(at(MADE + second)).unwrap()
}

/// A certificate with the verdicts on its signatures.
pub(crate) fn judged(cert: Cert) -> (Cert, Vec<Verdict>) {
    let judged = verdicts(&[&cert], Verification::Full).remove(0);
    (cert, judged)
}
