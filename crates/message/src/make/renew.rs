//! New self-signatures that replace old ones.

use std::time::{Duration, SystemTime};

use openpgp::Packet;
use openpgp::cert::Preferences as _;
use openpgp::cert::ValidCert;
use openpgp::cert::amalgamation::ValidAmalgamation as _;
use openpgp::cert::amalgamation::key::ValidErasedKeyAmalgamation;
use openpgp::crypto::KeyPair;
use openpgp::packet::Signature;
use openpgp::packet::key::PublicParts;
use openpgp::packet::signature::SignatureBuilder;
use openpgp::types::{Features, HashAlgorithm, RevocationStatus};
use sequoia_openpgp as openpgp;
use talaria_cert::Rules;

use crate::keys::AskForKey;
use crate::make::date::{after, at};
use crate::make::error::{MakeError, Result};
use crate::make::generate::KeyAlgorithm;
use crate::make::primary::{evaluated, is_weak, opened, primary, valid};
use crate::make::subkey;
use crate::make::subkey::{SubkeyOptions, SubkeyUse};

/// Sets the expiry time of a key in seconds since 1970, or removes it. Subkeys that have an expiry
/// time of their own get the same. The new signatures replace those in force. The key may have
/// expired already.
///
/// # Errors
///
/// [`MakeError::Invalid`] if the certificate is not valid; [`MakeError::NoSecret`];
/// [`MakeError::Locked`]; [`MakeError::Failed`], also if the key would expire before it begins.
pub fn set_expiry(
    cert: &openpgp::Cert,
    expires: Option<u32>,
    ask: &mut AskForKey<'_>,
    now: u32,
) -> Result<Vec<Signature>> {
    let valid = evaluated(cert, now)?;
    let mut signer = primary(cert, ask)?.0;
    bindings(&valid, &mut signer, expires.map(at), now).map_err(MakeError::failed)
}

/// Self-signatures like those in force, with another expiry time.
fn bindings(
    valid: &ValidCert<'_>,
    signer: &mut KeyPair,
    expires: Option<SystemTime>,
    now: u32,
) -> openpgp::Result<Vec<Signature>> {
    let primary = valid.primary_key();
    let renewed = |old: &Signature, created: SystemTime| -> openpgp::Result<SignatureBuilder> {
        let period = expires.map(|end| end.duration_since(created)).transpose()?;
        SignatureBuilder::from(old.clone())
            .set_hash_algo(HashAlgorithm::SHA512)
            .set_signature_creation_time(after(old.signature_creation_time(), now))?
            .set_key_validity_period(period)
    };
    let created = primary.key().creation_time();
    let mut signatures = Vec::new();
    if let Ok(direct) = primary.direct_key_signature() {
        signatures.push(renewed(direct, created)?.sign_direct_key(signer, Some(primary.key()))?);
    }
    let first = valid.primary_userid().ok().map(|id| id.userid().clone());
    for user_id in valid.userids().revoked(false) {
        // The choice of the primary user ID may have followed from the dates alone.
        let is_first = Some(user_id.userid()) == first.as_ref();
        let builder =
            renewed(user_id.binding_signature(), created)?.set_primary_userid(is_first)?;
        signatures.push(builder.sign_userid_binding(signer, primary.key(), user_id.userid())?);
    }
    for subkey in valid.keys().subkeys().revoked(false) {
        let old = subkey.binding_signature();
        // The cross-signature by a signing subkey is in the old binding and holds for the new one
        // as well.
        if old.key_validity_period().is_some() {
            let builder = renewed(old, subkey.key().creation_time())?;
            signatures.push(builder.sign_subkey_binding(signer, primary.key(), subkey.key())?);
        }
    }
    Ok(signatures)
}

/// The extent of a renewal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RenewOptions {
    /// The key announces all features of this program, and gets an encryption subkey if it has
    /// none.
    #[default]
    Extend,
    /// The key announces all features of this program.
    ExtendSigning,
    /// The capabilities of the key stay as they are.
    Keep,
}

/// Renews the outdated parts of a key at `now`, in seconds since 1970. Self-signatures with digests
/// that are no longer accepted are made again. Parts that have expired or soon will are valid for
/// the same period again. Everything else is unchanged, so this function may run every day.
///
/// # Errors
///
/// [`MakeError::Revoked`] or [`MakeError::Invalid`]; [`MakeError::NoSecret`];
/// [`MakeError::Locked`]; [`MakeError::Failed`].
pub fn renew(
    cert: &openpgp::Cert,
    options: RenewOptions,
    ask: &mut AskForKey<'_>,
    now: u32,
) -> Result<Vec<Packet>> {
    let valid = valid(cert, Rules::default(), now)?;
    let (signer, password) = primary(cert, ask)?;
    let mut renewal = Renewal { cert, options, now, ask, signer, packets: Vec::new() };
    renewal.primary(&valid).map_err(MakeError::failed)?;
    let mut can_encrypt = false;
    for key in valid.keys().subkeys().revoked(false) {
        can_encrypt |= key.for_transport_encryption() || key.for_storage_encryption();
        renewal.subkey(&key.into())?;
    }
    let Renewal { mut signer, mut packets, .. } = renewal;
    if !can_encrypt && options == RenewOptions::Extend {
        let options = SubkeyOptions {
            uses: SubkeyUse::Encrypt,
            algorithm: KeyAlgorithm::Curve25519,
            validity_seconds: None,
        };
        let added = subkey::build(cert, &options, &mut signer, password.as_ref(), now);
        packets.extend(added.map_err(MakeError::failed)?);
    }
    Ok(packets)
}

/// The state while new self-signatures are made for one certificate.
struct Renewal<'a, 'b> {
    cert: &'a openpgp::Cert,
    options: RenewOptions,
    now: u32,
    ask: &'a mut AskForKey<'b>,
    signer: KeyPair,
    packets: Vec<Packet>,
}

impl Renewal<'_, '_> {
    /// Makes the self-signatures again that concern the whole certificate.
    fn primary(&mut self, valid: &ValidCert<'_>) -> openpgp::Result<()> {
        let created = valid.primary_key().key().creation_time();
        let announced = valid.features().unwrap_or_else(Features::empty);
        let mut features = None;
        if self.options != RenewOptions::Keep && !announced.supports_seipdv2() {
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

    /// Makes the binding of a subkey again if necessary.
    fn subkey(&mut self, key: &ValidErasedKeyAmalgamation<'_, PublicParts>) -> Result<()> {
        let public = key.key().clone().role_into_subordinate();
        let template = self
            .template(key.binding_signature(), public.creation_time(), None)
            .map_err(MakeError::failed)?;
        let Some(mut template) = template else { return Ok(()) };
        if key.for_signing() || key.for_certification() || key.for_authentication() {
            // A signing subkey needs a new cross-signature, too.
            let Ok(secret) = key.key().clone().parts_into_secret() else { return Ok(()) };
            let mut signer = opened(secret, self.ask)?.0;
            template = subkey::agreed(self.cert, &public, &mut signer, template, self.now)
                .map_err(MakeError::failed)?;
        }
        let signature =
            public.bind(&mut self.signer, self.cert, template).map_err(MakeError::failed)?;
        self.packets.push(signature.into());
        Ok(())
    }

    /// The template of a new signature that replaces `old`, for a key that was created at
    /// `created`; `None` if `old` can stay.
    fn template(
        &self,
        old: &Signature,
        created: SystemTime,
        features: Option<&Features>,
    ) -> openpgp::Result<Option<SignatureBuilder>> {
        let extended = extended(old, created, at(self.now));
        if !is_weak(old) && extended.is_none() && features.is_none() {
            return Ok(None);
        }
        let mut template = SignatureBuilder::from(old.clone())
            .set_hash_algo(HashAlgorithm::SHA512)
            .set_signature_creation_time(after(old.signature_creation_time(), self.now))?;
        if let Some(validity) = extended {
            template = template.set_key_validity_period(validity)?;
        }
        if let Some(features) = features {
            template = template.set_features(features.clone())?;
        }
        Ok(Some(template))
    }
}

/// The new validity period of a key that was created at `created`: the old period again, from
/// `now`, if less than half of it is left.
fn extended(old: &Signature, created: SystemTime, now: SystemTime) -> Option<Duration> {
    let expires = created + old.key_validity_period()?;
    let given = expires.duration_since(old.signature_creation_time()?).ok()?;
    let left = expires.duration_since(now).unwrap_or_default();
    (left < given / 2).then(|| (now + given).duration_since(created).unwrap_or(given))
}
