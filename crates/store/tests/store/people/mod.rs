//! Test users with keys, who certify each other. Every signature is a separate certificate with the
//! key and the signed component. The certificate of a user is the union of such pieces.

use std::time::{Duration, SystemTime};

use sequoia_openpgp as openpgp;

use openpgp::crypto::KeyPair;
use openpgp::packet::key::{Key4, PrimaryRole, SecretParts};
use openpgp::packet::signature::SignatureBuilder;
use openpgp::packet::{Key, UserID};
use openpgp::serialize::SerializeInto as _;
use openpgp::types::{HashAlgorithm, KeyFlags, ReasonForRevocation, SignatureType};
use openpgp::{Fingerprint as TheirFingerprint, Packet};
use talaria_cert::{Cert, Fingerprint};

/// The creation time of all keys: shortly before the cutoff of SHA-1.
pub(crate) const CREATED: u32 = 1_547_856_000 - 1000;

/// A user with a key.
pub(crate) struct Person {
    key: Key<SecretParts, PrimaryRole>,
    user_ids: Vec<UserID>,
}

/// The parameters of a certification.
#[derive(Clone, Debug)]
pub(crate) struct Says {
    /// The type of the signature: 0x10 to 0x13, or 0x30 for a revocation.
    pub(crate) kind: u8,
    /// Seconds since 1970.
    pub(crate) created: u32,
    /// Seconds since 1970.
    pub(crate) expires: Option<u32>,
    /// Depth and amount of a trust signature.
    pub(crate) trust: Option<(u8, u8)>,
    /// The scope of a trust signature.
    pub(crate) scope: Option<&'static str>,
    /// The certification is not revocable.
    pub(crate) irrevocable: bool,
    /// The digest is SHA-1.
    pub(crate) sha1: bool,
}

impl Default for Says {
    fn default() -> Self {
        Self {
            kind: 0x10,
            created: CREATED + 1,
            expires: None,
            trust: None,
            scope: None,
            irrevocable: false,
            sha1: false,
        }
    }
}

impl Says {
    pub(crate) fn revokes(created: u32) -> Self {
        Self { kind: 0x30, created, ..Self::default() }
    }

    pub(crate) fn trusts(depth: u8, amount: u8) -> Self {
        Self { trust: Some((depth, amount)), ..Self::default() }
    }
}

/// A self-signature.
#[derive(Clone, Debug)]
pub(crate) enum Own {
    /// Binds a user ID with an expiry date for the key and one for the binding.
    Binds { user_id: usize, created: u32, key_expires: Option<u32>, expires: Option<u32> },
    /// Revokes a user ID.
    RevokesUserId { user_id: usize, created: u32 },
    /// Revokes the key.
    RevokesKey { created: u32 },
}

fn time(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into())
}

fn signed_with(kind: u8, created: u32, hash: HashAlgorithm) -> SignatureBuilder {
    SignatureBuilder::new(SignatureType::from(kind))
        .set_hash_algo(hash)
        .set_signature_creation_time(time(created))
        .unwrap()
}

impl Person {
    /// The same number gives the same key.
    pub(crate) fn new(number: u8, user_ids: &[&str]) -> Self {
        let key = Key4::import_secret_ed25519(&[number + 1; 32], time(CREATED)).unwrap();
        Self { key: key.into(), user_ids: user_ids.iter().map(|&id| UserID::from(id)).collect() }
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        match self.key.fingerprint() {
            TheirFingerprint::V4(bytes) => Fingerprint::V4(bytes),
            other => panic!("{other}"),
        }
    }

    /// The original certificate: user IDs without an expiry date.
    pub(crate) fn cert(&self) -> Cert {
        let bind =
            |user_id| Own::Binds { user_id, created: CREATED, key_expires: None, expires: None };
        let pieces = (0..self.user_ids.len()).map(|user_id| self.own(&bind(user_id)));
        pieces.reduce(|one, other| one.union(&other)).unwrap()
    }

    /// A piece of the own certificate.
    pub(crate) fn own(&self, own: &Own) -> Cert {
        let signer = &mut self.signer();
        let hash = HashAlgorithm::SHA512;
        match *own {
            Own::Binds { user_id, created, key_expires, expires } => {
                let flags = KeyFlags::empty().set_certification().set_signing();
                let mut builder = signed_with(0x13, created, hash).set_key_flags(flags).unwrap();
                if let Some(end) = key_expires {
                    let period = Duration::from_secs((end - CREATED).into());
                    builder = builder.set_key_validity_period(period).unwrap();
                }
                if let Some(end) = expires {
                    let period = Duration::from_secs((end - created).into());
                    builder = builder.set_signature_validity_period(period).unwrap();
                }
                let component = &self.user_ids[user_id];
                let signature = builder.sign_userid_binding(signer, None, component).unwrap();
                self.piece(Some(user_id), signature)
            }
            Own::RevokesUserId { user_id, created } => {
                let reason = ReasonForRevocation::UIDRetired;
                let builder = signed_with(0x30, created, hash);
                let signature = builder
                    .set_reason_for_revocation(reason, "")
                    .unwrap()
                    .sign_userid_binding(signer, None, &self.user_ids[user_id])
                    .unwrap();
                self.piece(Some(user_id), signature)
            }
            Own::RevokesKey { created } => {
                let reason = ReasonForRevocation::KeyCompromised;
                let builder = signed_with(0x20, created, hash);
                let signature = builder
                    .set_reason_for_revocation(reason, "")
                    .unwrap()
                    .sign_direct_key(signer, None)
                    .unwrap();
                self.piece(None, signature)
            }
        }
    }

    /// A piece of the certificate of `other`: a certification of a user ID.
    pub(crate) fn certifies(&self, other: &Self, user_id: usize, says: &Says) -> Cert {
        let hash = if says.sha1 { HashAlgorithm::SHA1 } else { HashAlgorithm::SHA256 };
        let mut builder = signed_with(says.kind, says.created, hash);
        if let Some(end) = says.expires {
            let period = Duration::from_secs((end - says.created).into());
            builder = builder.set_signature_validity_period(period).unwrap();
        }
        if let Some((depth, amount)) = says.trust {
            builder = builder.set_trust_signature(depth, amount).unwrap();
        }
        if let Some(scope) = says.scope {
            builder = builder.set_regular_expression(scope).unwrap();
        }
        if says.irrevocable {
            builder = builder.set_revocable(false).unwrap();
        }
        let key = other.key.clone().parts_into_public();
        let component = &other.user_ids[user_id];
        let signature = builder.sign_userid_binding(&mut self.signer(), &key, component).unwrap();
        other.piece(Some(user_id), signature)
    }

    fn signer(&self) -> KeyPair {
        self.key.clone().into_keypair().unwrap()
    }

    fn piece(&self, user_id: Option<usize>, signature: openpgp::packet::Signature) -> Cert {
        let key = Packet::from(self.key.clone().parts_into_public());
        let user_id = user_id.map(|at| Packet::from(self.user_ids[at].clone()));
        let packets = [Some(key), user_id, Some(signature.into())].into_iter().flatten();
        let bytes: Vec<u8> = packets.flat_map(|packet| packet.to_vec().unwrap()).collect();
        Cert::parse(&bytes).unwrap()
    }
}
