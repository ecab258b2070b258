//! Certifications: signatures that confirm that a user ID belongs to the holder of another
//! certificate.

use openpgp::cert::amalgamation::ValidAmalgamation as _;
use openpgp::crypto::{KeyPair, Signer};
use openpgp::packet::key::PublicParts;
use openpgp::packet::signature::SignatureBuilder;
use openpgp::packet::{Key, Signature, UserID};
use openpgp::policy::Policy;
use openpgp::types::{HashAlgorithm, RevocationStatus, SignatureType};
use sequoia_openpgp as openpgp;

use crate::keys::AskForKey;
use crate::make::date::{after, at};
use crate::make::error::{MakeError, Result};
use crate::make::primary::{alive, primary};

/// The optional parts of a certification. Programs set the fields of [`Self::default`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct CertifyOptions {
    /// The certification is local: it is for its maker only and is not meant to leave his stores.
    pub local: bool,
    /// The holder of the certificate is a trusted introducer.
    pub introduction: Option<Introduction>,
    /// The expiry time in seconds since 1970; `None` for no expiry.
    pub expires: Option<u32>,
}

/// The depth and amount of a trust signature (RFC 9580, section 5.2.3.21).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Introduction {
    /// 1 for an introducer; one more for each level of introducers below.
    pub depth: u8,
    /// 120 for full trust, 60 for partial trust.
    pub amount: u8,
}

/// The user IDs of `cert` that can be certified at `now`, in seconds since 1970: those that are
/// bound to it and not revoked.
///
/// # Errors
///
/// [`MakeError::Revoked`], [`MakeError::NotAlive`] or [`MakeError::Invalid`] if no user ID of
/// `cert` can be certified.
pub fn certifiable(cert: &openpgp::Cert, policy: &dyn Policy, now: u32) -> Result<Vec<UserID>> {
    let valid = alive(cert, policy, now)?;
    let is_revoked = |status| matches!(status, RevocationStatus::Revoked(_));
    let user_ids = valid.userids().filter(|user_id| !is_revoked(user_id.revocation_status()));
    Ok(user_ids.map(|user_id| user_id.userid().clone()).collect())
}

/// Checks that the primary key of `cert` may certify at `now`, in seconds since 1970.
///
/// # Errors
///
/// [`MakeError::Revoked`], [`MakeError::NotAlive`], [`MakeError::Invalid`] or
/// [`MakeError::MayNotCertify`] if the key may not certify.
pub fn may_certify(cert: &openpgp::Cert, policy: &dyn Policy, now: u32) -> Result<()> {
    let valid = alive(cert, policy, now)?;
    // A key without key flags may do everything, as in GnuPG.
    match valid.primary_key().key_flags() {
        Some(flags) if !flags.for_certification() => {
            Err(MakeError::MayNotCertify { name: cert.fingerprint().to_hex() })
        }
        _ => Ok(()),
    }
}

/// The primary key of `cert`, unlocked, if it may certify at `now`, in seconds since 1970.
///
/// # Errors
///
/// The errors of [`may_certify`]; [`MakeError::NoSecret`]; [`MakeError::Locked`].
pub fn certifier(
    cert: &openpgp::Cert,
    policy: &dyn Policy,
    now: u32,
    ask: &mut AskForKey<'_>,
) -> Result<KeyPair> {
    may_certify(cert, policy, now)?;
    Ok(primary(cert, ask)?.0)
}

/// A certification of `user_id` of `cert`. The caller must check that the user ID is bound to
/// `cert`, with [`certifiable`].
///
/// # Errors
///
/// [`MakeError::EndsTooEarly`]; [`MakeError::Failed`] if signing fails.
pub fn certify(
    cert: &openpgp::Cert,
    user_id: &UserID,
    signer: &mut dyn Signer,
    what: &CertifyOptions,
    now: u32,
) -> Result<Signature> {
    let earlier = earlier(cert, user_id, signer.public())
        .into_iter()
        .filter_map(|signature| signature.signature_creation_time())
        .max();
    let made = after(earlier, now);
    let validity = what.expires.map(|end| at(end).duration_since(made)).transpose();
    let validity = validity.map_err(|_| MakeError::EndsTooEarly)?;
    if validity.is_some_and(|validity| validity.is_zero()) {
        return Err(MakeError::EndsTooEarly);
    }
    let mut build = || -> openpgp::Result<Signature> {
        let mut builder = SignatureBuilder::new(SignatureType::GenericCertification)
            .set_hash_algo(HashAlgorithm::SHA512)
            .set_signature_creation_time(made)?;
        if let Some(validity) = validity {
            builder = builder.set_signature_validity_period(validity)?;
        }
        if what.local {
            builder = builder.set_exportable_certification(false)?;
        }
        if let Some(Introduction { depth, amount }) = what.introduction {
            builder = builder.set_trust_signature(depth, amount)?;
        }
        user_id.bind(signer, cert, builder)
    };
    build().map_err(MakeError::failed)
}

/// Whether the newest statement of `certifier` on `user_id` of `cert` is a certification with the
/// same content that is valid at `now`, in seconds since 1970.
#[must_use]
pub fn is_certified(
    cert: &openpgp::Cert,
    user_id: &UserID,
    certifier: &openpgp::Cert,
    what: &CertifyOptions,
    policy: &dyn Policy,
    now: u32,
) -> bool {
    let made = earlier(cert, user_id, certifier.primary_key().key().role_as_unspecified());
    let newest = made.into_iter().max_by_key(|signature| signature.signature_creation_time());
    newest.is_some_and(|signature| {
        let security = openpgp::policy::HashAlgoSecurity::CollisionResistance;
        let says = CertifyOptions {
            local: signature.exportable_certification() == Some(false),
            introduction: signature
                .trust_signature()
                .filter(|&(depth, _)| depth > 0)
                .map(|(depth, amount)| Introduction { depth, amount }),
            expires: signature.signature_expiration_time().map(seconds),
        };
        says == *what
            && signature.typ() != SignatureType::CertificationRevocation
            && signature.regular_expressions().next().is_none()
            && signature.signature_alive(at(now), std::time::Duration::ZERO).is_ok()
            && policy.signature(signature, security).is_ok()
    })
}

/// The certifications of `user_id` of `cert` by `key`, and their revocations. Anybody can write
/// signatures that name `key` as their issuer, so each is verified.
fn earlier<'c>(
    cert: &'c openpgp::Cert,
    user_id: &UserID,
    key: &Key<PublicParts, openpgp::packet::key::UnspecifiedRole>,
) -> Vec<&'c Signature> {
    let primary = cert.primary_key().key();
    let handle = openpgp::KeyHandle::from(key.fingerprint());
    let names_key = |signature: &&Signature| {
        signature.get_issuers().iter().any(|issuer| issuer.aliases(&handle))
    };
    let Some(bundle) = cert.userids().find(|bundle| bundle.userid() == user_id) else {
        return Vec::new();
    };
    let certifications = bundle
        .bundle()
        .certifications()
        .filter(names_key)
        .filter(|signature| signature.verify_userid_binding(key, primary, user_id).is_ok());
    let revocations = bundle
        .bundle()
        .other_revocations()
        .filter(names_key)
        .filter(|signature| signature.verify_userid_revocation(key, primary, user_id).is_ok());
    certifications.chain(revocations).collect()
}

/// A time as seconds since 1970.
fn seconds(time: std::time::SystemTime) -> u32 {
    let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
