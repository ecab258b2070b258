//! `update-key`: what has become old about a key is made new.
//!
//! Self-signatures with digests that do not count any more are made again; what has expired or soon will is
//! given as long again; and, unless it is not wanted, the key announces all that this program reads and gets
//! a subkey to encrypt to if it has none. What needs nothing is left as it is, so this may run every day.

use std::time::{Duration, SystemTime};

use sop::Password;
use sop::errors::Error;
use sop::ops;
use talaria_message::openpgp::cert::Preferences as _;
use talaria_message::openpgp::cert::ValidCert;
use talaria_message::openpgp::cert::amalgamation::ValidAmalgamation as _;
use talaria_message::openpgp::cert::amalgamation::key::ValidErasedKeyAmalgamation;
use talaria_message::openpgp::crypto::{self, KeyPair};
use talaria_message::openpgp::packet::key::{
    Key4, Key6, PublicParts, SecretParts, SubordinateRole,
};
use talaria_message::openpgp::packet::signature::SignatureBuilder;
use talaria_message::openpgp::packet::{Key, Signature};
use talaria_message::openpgp::policy::{HashAlgoSecurity, Policy as _, StandardPolicy};
use talaria_message::openpgp::types::{
    Curve, Features, HashAlgorithm, KeyFlags, RevocationStatus, SignatureType,
};
use talaria_message::openpgp::{self, Cert, Packet};

use crate::error::{self, Result};
use crate::maintain::{merged, primary_secret};
use crate::material::{Certs, Keys};
use crate::passwords::Passwords;
use crate::talaria::Talaria;

type Dyn<'s> = dyn ops::UpdateKey<'s, Talaria, Certs<'s>, Keys<'s>> + 's;

pub(crate) struct UpdateKey<'s> {
    sop: &'s Talaria,
    signing_only: bool,
    add_capabilities: bool,
    passwords: Passwords,
    updates: Vec<Cert>,
}

impl<'s> UpdateKey<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self {
            sop,
            signing_only: false,
            add_capabilities: true,
            passwords: Passwords::default(),
            updates: Vec::new(),
        }
    }

    fn updated(&self, cert: &Cert) -> Result<Cert> {
        let cert = merged(cert.clone(), &self.updates)?;
        // The digests of old self-signatures are what is to be mended.
        let mut lenient = StandardPolicy::new();
        lenient.accept_hash(HashAlgorithm::SHA1);
        let bad = |why: String| error::because(Error::PrimaryKeyBad, why);
        let valid =
            cert.with_policy(&lenient, self.sop.time()).map_err(|why| bad(why.to_string()))?;
        if let RevocationStatus::Revoked(_) = valid.revocation_status() {
            return Err(bad(format!("{} is revoked", cert.fingerprint())));
        }
        let primary = primary_secret(&cert)?;
        let (signer, password) = self.passwords.unlock(primary.role_as_unspecified())?;
        let mut renewal =
            Renewal { update: self, cert: &cert, signer, password, packets: Vec::new() };
        renewal.primary(&valid).map_err(error::unspecified)?;
        let mut can_encrypt = false;
        for key in valid.keys().subkeys().revoked(false) {
            can_encrypt |= key.for_transport_encryption() || key.for_storage_encryption();
            renewal.subkey(&key.into())?;
        }
        if !can_encrypt && !self.signing_only && self.add_capabilities {
            renewal.add_encryption_subkey().map_err(error::unspecified)?;
        }
        let packets = renewal.packets;
        Ok(cert.clone().insert_packets(packets).map_err(error::unspecified)?.0)
    }
}

/// The making of new self-signatures for one certificate.
struct Renewal<'a> {
    update: &'a UpdateKey<'a>,
    cert: &'a Cert,
    signer: KeyPair,
    /// What has unlocked the primary key.
    password: Option<crypto::Password>,
    packets: Vec<Packet>,
}

impl Renewal<'_> {
    fn now(&self) -> SystemTime {
        self.update.sop.time()
    }

    /// Makes the signatures again that say something about all of the certificate.
    fn primary(&mut self, valid: &ValidCert<'_>) -> openpgp::Result<()> {
        let created = valid.primary_key().key().creation_time();
        let announced = valid.features().unwrap_or_else(Features::empty);
        let mut features = None;
        if self.update.add_capabilities && !announced.supports_seipdv2() {
            features = Some(announced.set_seipdv1().set_seipdv2());
        }
        if let Ok(old) = valid.direct_key_signature()
            && let Some(template) = self.template(old, created, features.as_ref())?
        {
            let key = self.cert.primary_key().key();
            self.packets.push(template.sign_direct_key(&mut self.signer, Some(key))?.into());
        }
        for user_id in valid.userids() {
            if let RevocationStatus::Revoked(_) = user_id.revocation_status() {
                continue;
            }
            let old = user_id.binding_signature();
            let Some(template) = self.template(old, created, features.as_ref())? else { continue };
            let signature = user_id.userid().bind(&mut self.signer, self.cert, template)?;
            self.packets.push(signature.into());
        }
        Ok(())
    }

    /// Makes the binding of a subkey again, if need be.
    fn subkey(&mut self, key: &ValidErasedKeyAmalgamation<'_, PublicParts>) -> Result<()> {
        let public = key.key().clone().role_into_subordinate();
        let template = self
            .template(key.binding_signature(), public.creation_time(), None)
            .map_err(error::unspecified)?;
        let Some(mut template) = template else { return Ok(()) };
        if key.for_signing() || key.for_certification() || key.for_authentication() {
            // It has to say that it agrees, too.
            let secret = key.key().clone().parts_into_secret();
            let Ok(secret) = secret else { return Ok(()) };
            let (mut signer, _) = self.update.passwords.unlock(&secret)?;
            let agreed = || -> openpgp::Result<SignatureBuilder> {
                let agreement = SignatureBuilder::new(SignatureType::PrimaryKeyBinding)
                    .set_hash_algo(HashAlgorithm::SHA512)
                    .set_signature_creation_time(self.now())?
                    .sign_primary_key_binding(
                        &mut signer,
                        self.cert.primary_key().key(),
                        &public,
                    )?;
                template.set_embedded_signature(agreement)
            };
            template = agreed().map_err(error::unspecified)?;
        }
        let signature =
            public.bind(&mut self.signer, self.cert, template).map_err(error::unspecified)?;
        self.packets.push(signature.into());
        Ok(())
    }

    /// What a new signature says instead of `old` about a key that was made at `created`; `None` if `old`
    /// is good enough.
    fn template(
        &self,
        old: &Signature,
        created: SystemTime,
        features: Option<&Features>,
    ) -> openpgp::Result<Option<SignatureBuilder>> {
        let now = self.now();
        let strict = &self.update.sop.policy;
        let is_weak =
            [HashAlgoSecurity::CollisionResistance, HashAlgoSecurity::SecondPreImageResistance]
                .iter()
                .any(|&security| strict.signature(old, security).is_err());
        let extended = extended(old, created, now);
        if !is_weak && extended.is_none() && features.is_none() {
            return Ok(None);
        }
        let mut template = SignatureBuilder::from(old.clone())
            .set_hash_algo(HashAlgorithm::SHA512)
            .set_signature_creation_time(now)?;
        if let Some(validity) = extended {
            template = template.set_key_validity_period(validity)?;
        }
        if let Some(features) = features {
            template = template.set_features(features.clone())?;
        }
        Ok(Some(template))
    }

    fn add_encryption_subkey(&mut self) -> openpgp::Result<()> {
        let mut subkey: Key<SecretParts, SubordinateRole> =
            if self.cert.primary_key().key().version() == 6 {
                Key6::generate_x25519()?.into()
            } else {
                Key4::generate_ecc(false, Curve::Cv25519)?.into()
            };
        subkey.set_creation_time(self.now())?;
        let uses = KeyFlags::empty().set_transport_encryption().set_storage_encryption();
        let template = SignatureBuilder::new(SignatureType::SubkeyBinding)
            .set_hash_algo(HashAlgorithm::SHA512)
            .set_signature_creation_time(self.now())?
            .set_key_flags(uses)?;
        let signature = subkey.bind(&mut self.signer, self.cert, template)?;
        if let Some(password) = &self.password {
            subkey = subkey.encrypt_secret(password)?;
        }
        self.packets.push(subkey.into());
        self.packets.push(signature.into());
        Ok(())
    }
}

/// The new validity of a key that was made at `created`, if less than half of what `old` gave it is left:
/// as much again, from `now`.
fn extended(old: &Signature, created: SystemTime, now: SystemTime) -> Option<Duration> {
    let expires = created + old.key_validity_period()?;
    let given = expires.duration_since(old.signature_creation_time()?).ok()?;
    let left = expires.duration_since(now).unwrap_or_default();
    (left < given / 2).then(|| (now + given).duration_since(created).unwrap_or(given))
}

impl<'s> ops::UpdateKey<'s, Talaria, Certs<'s>, Keys<'s>> for UpdateKey<'s> {
    fn signing_only(mut self: Box<Self>) -> Box<Dyn<'s>> {
        self.signing_only = true;
        self
    }

    fn no_added_capabilities(mut self: Box<Self>) -> Box<Dyn<'s>> {
        self.add_capabilities = false;
        self
    }

    fn with_key_password(mut self: Box<Self>, password: Password) -> Result<Box<Dyn<'s>>> {
        self.passwords.add(&password);
        Ok(self)
    }

    fn merge_updates(mut self: Box<Self>, updates: &Certs<'s>) -> Result<Box<Dyn<'s>>> {
        self.updates.extend(updates.certs.iter().cloned());
        Ok(self)
    }

    fn update(self: Box<Self>, keys: &Keys<'s>) -> Result<Keys<'s>> {
        let updated = keys.certs.iter().map(|cert| self.updated(cert)).collect::<Result<_>>()?;
        Ok(Keys::new(updated, self.sop))
    }
}
