//! Parts of certificates that only signatures with a broken hash function bind.

use std::time::SystemTime;

use sequoia_openpgp as openpgp;
use sequoia_openpgp::packet::Signature;
use sequoia_openpgp::policy::{HashAlgoSecurity, Policy};
use sequoia_openpgp::types::HashAlgorithm;

use crate::error::{Bound, KeyFault};
use crate::guard::guarded;

/// The fault of a certificate whose self-signatures the policy refuses for their hash functions.
pub(crate) fn primary(cert: &openpgp::Cert, policy: &dyn Policy) -> Option<KeyFault> {
    guarded(|| {
        let by_user_ids = cert.userids().flat_map(|user_id| user_id.self_signatures());
        let direct = cert.primary_key().self_signatures();
        fault(Bound::Certificate, by_user_ids.chain(direct), policy)
    })?
}

/// The fault of a certificate whose encryption keys have bindings that the policy refuses for their
/// hash functions.
pub(crate) fn encryption(cert: &openpgp::Cert, policy: &dyn Policy) -> Option<KeyFault> {
    let keys = cert.keys().subkeys().filter(|key| key.key().pk_algo().for_encryption());
    let is_for_encryption = |binding: &&Signature| {
        binding
            .key_flags()
            .is_none_or(|flags| flags.for_transport_encryption() || flags.for_storage_encryption())
    };
    guarded(|| {
        let bindings = keys.flat_map(|key| key.self_signatures()).filter(is_for_encryption);
        fault(Bound::EncryptionKey, bindings, policy)
    })?
}

fn fault<'s>(
    what: Bound,
    signatures: impl Iterator<Item = &'s Signature>,
    policy: &dyn Policy,
) -> Option<KeyFault> {
    let mut newest = None;
    for signature in signatures {
        if policy.signature(signature, HashAlgoSecurity::SecondPreImageResistance).is_ok() {
            return None;
        }
        newest = newest.max(signature.signature_creation_time().zip(Some(signature.hash_algo())));
    }
    let (time, hash) = newest?;
    let hash = match hash {
        HashAlgorithm::MD5 => "MD5",
        HashAlgorithm::SHA1 => "SHA-1",
        HashAlgorithm::RipeMD => "RIPEMD-160",
        _ => return None,
    };
    let made = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let made = u32::try_from(made).unwrap_or(u32::MAX);
    Some(KeyFault::Weak { what, hash, made })
}
