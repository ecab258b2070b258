//! People with keys, who certify each other. Every signature comes as a certificate of its own, with the key
//! and the component that it is on: what is known of somebody is the union of such pieces.

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

/// When all keys were made: shortly before SHA-1 stopped counting.
pub(crate) const CREATED: u32 = 1_547_856_000 - 1000;

/// Somebody with a key.
pub(crate) struct Person {
    key: Key<SecretParts, PrimaryRole>,
    user_ids: Vec<UserID>,
}

/// What somebody says about a user ID of somebody else.
#[derive(Clone, Debug)]
pub(crate) struct Says {
    /// The type of the signature: 0x10 to 0x13, or 0x30 to take it back.
    pub(crate) kind: u8,
    /// Seconds since 1970.
    pub(crate) created: u32,
    /// Seconds since 1970.
    pub(crate) expires: Option<u32>,
    /// Depth and amount of a trust signature.
    pub(crate) trust: Option<(u8, u8)>,
    /// What limits it.
    pub(crate) scope: Option<&'static str>,
    /// It cannot be taken back.
    pub(crate) irrevocable: bool,
    /// It is made with SHA-1.
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

/// What somebody says about the own certificate.
#[derive(Clone, Debug)]
pub(crate) enum Own {
    /// A user ID belongs to the key, which ends at a time, and so does the user ID.
    Binds { user_id: usize, created: u32, key_expires: Option<u32>, expires: Option<u32> },
    /// A user ID does not belong to the key any more.
    RevokesUserId { user_id: usize, created: u32 },
    /// The key is not to be used any more.
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
            TheirFingerprint::V4(octets) => Fingerprint::V4(octets),
            other => panic!("{other}"),
        }
    }

    /// The certificate as it is made: user IDs that do not end.
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

    /// A piece of the certificate of `other`: what is said there about a user ID.
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
