//! Keys with algorithms that are not supported.

use sequoia_openpgp::crypto::mpi;
use sequoia_openpgp::packet::Key;
use sequoia_openpgp::packet::key::{PublicParts, UnspecifiedRole};
use sequoia_openpgp::types::{Curve, PublicKeyAlgorithm};

/// A description of `key` if its algorithm or curve is not supported; `None` if it is supported.
pub(crate) fn unsupported(key: &Key<PublicParts, UnspecifiedRole>) -> Option<String> {
    /// The object identifier of secp256k1 (SEC 2).
    const SECP256K1: [u8; 5] = [0x2b, 0x81, 0x04, 0x00, 0x0a];
    let curve = match key.mpis() {
        mpi::PublicKey::ECDH { curve, .. }
        | mpi::PublicKey::ECDSA { curve, .. }
        | mpi::PublicKey::EdDSA { curve, .. } => Some(curve),
        _ => None,
    };
    #[allow(deprecated, reason = "that is what it is called")]
    match (key.pk_algo(), curve) {
        (PublicKeyAlgorithm::ElGamalEncrypt | PublicKeyAlgorithm::ElGamalEncryptSign, _) => {
            Some("an Elgamal key".to_owned())
        }
        (_, Some(Curve::Unknown(oid))) if **oid == SECP256K1 => {
            Some("a key on the curve secp256k1".to_owned())
        }
        (_, Some(curve)) if !curve.is_supported() => Some("a key on an unknown curve".to_owned()),
        (algorithm, _) if !algorithm.is_supported() => {
            Some(format!("a key of algorithm number {}", u8::from(algorithm)))
        }
        _ => None,
    }
}
