//! Certifications: signatures that confirm that a user ID belongs to the holder of another
//! certificate.

use openpgp::crypto::{KeyPair, Signer};
use openpgp::packet::key::PublicParts;
use openpgp::packet::signature::SignatureBuilder;
use openpgp::packet::{Key, Signature, UserID};
use openpgp::types::{HashAlgorithm, SignatureType};
use sequoia_openpgp as openpgp;
use talaria_cert::{Purpose, Rules, UserIdContent, UserIdSummary, Validity};

use crate::keys::AskForKey;
use crate::make::date::{after, at};
use crate::make::error::{MakeError, Result};
use crate::make::primary::{alive, is_weak, primary};

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
/// bound to it, by signatures with sound hash functions, and not revoked.
///
/// # Errors
///
/// [`MakeError::Revoked`] or [`MakeError::Unusable`] if no user ID of `cert` can be certified.
pub fn certifiable(cert: &openpgp::Cert, rules: Rules, now: u32) -> Result<Vec<UserID>> {
    let summary = alive(cert, Purpose::Certify, rules, now)?.at(now);
    let is_good = |user_id: &UserIdSummary| user_id.validity(now) == Validity::Valid;
    let good = summary.user_ids.into_iter().filter(|id| is_good(id) && id.weak.is_none());
    let text = |user_id: UserIdSummary| match user_id.content {
        UserIdContent::Text(text) => Some(UserID::from(text)),
        UserIdContent::Attribute { .. } => None,
    };
    Ok(good.filter_map(text).collect())
}

/// Checks that the primary key of `cert` may certify at `now`, in seconds since 1970.
///
/// # Errors
///
/// [`MakeError::Revoked`] or [`MakeError::Unusable`] if the key may not certify.
pub fn may_certify(cert: &openpgp::Cert, rules: Rules, now: u32) -> Result<()> {
    alive(cert, Purpose::Certify, rules, now).map(drop)
}

/// The primary key of `cert`, unlocked, if it may certify at `now`, in seconds since 1970.
///
/// # Errors
///
/// The errors of [`may_certify`]; [`MakeError::NoSecret`]; [`MakeError::Locked`].
pub fn certifier(
    cert: &openpgp::Cert,
    rules: Rules,
    now: u32,
    ask: &mut AskForKey<'_>,
) -> Result<KeyPair> {
    may_certify(cert, rules, now)?;
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
    now: u32,
) -> bool {
    let made = earlier(cert, user_id, certifier.primary_key().key().role_as_unspecified());
    let newest = made.into_iter().max_by_key(|signature| signature.signature_creation_time());
    newest.is_some_and(|signature| {
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
            && !is_weak(signature)
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
