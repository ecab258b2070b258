//! Whether a certificate may be used now, and revocations that Sequoia does not evaluate: those by
//! designated revokers, and those by the owner with an unknown critical part.

use std::time::{Duration, SystemTime};

use sequoia_openpgp as openpgp;
use sequoia_openpgp::cert::ValidCert;
use sequoia_openpgp::packet::Signature;
use sequoia_openpgp::policy::{HashAlgoSecurity, Policy};
use sequoia_openpgp::serialize::MarshalInto as _;
use sequoia_openpgp::types::{HashAlgorithm, RevocationStatus, RevocationType, SignatureType};
use talaria_cert::{Revoker, Verification};

use crate::error::{KeyFault, MessageError, Result};
use crate::guard::guarded;
use crate::unsupported::not_valid;
use crate::verify::report::Issuer;
use crate::weak;

/// A function that finds certificates by one of their keys.
pub type LookUp<'l> = &'l mut dyn FnMut(&Issuer) -> Vec<openpgp::Cert>;

/// The revocations of a certificate that Sequoia does not evaluate.
#[derive(Debug, Default)]
pub struct Revocations(Vec<Revocation>);

#[derive(Debug)]
struct Revocation {
    /// The revoked key. A revocation of the primary key revokes all keys.
    key: openpgp::Fingerprint,
    created: u32,
    /// The revocation is hard: it holds for all times.
    hard: bool,
}

impl Revocations {
    /// The revocations of `cert` as of `now`, in seconds since 1970. `look_up` finds its designated
    /// revokers; whether these are themselves revoked or expired does not matter.
    #[must_use]
    pub fn of(cert: &openpgp::Cert, policy: &dyn Policy, look_up: LookUp<'_>, now: u32) -> Self {
        let mut found = Vec::new();
        // A revocation that the policy rejects for an unknown critical part counts all the same.
        for key in cert.keys() {
            let refused = key.self_revocations().filter(|revocation| {
                revocation.hash_algo() != HashAlgorithm::MD5
                    && policy
                        .signature(revocation, HashAlgoSecurity::SecondPreImageResistance)
                        .is_err()
            });
            found.extend(refused.map(|revocation| Revocation {
                key: key.key().fingerprint(),
                created: created(revocation),
                hard: is_hard(revocation),
            }));
        }
        let by_others = |signature: &Signature| signature.typ() == SignatureType::KeyRevocation;
        if cert.primary_key().other_revocations().any(by_others) {
            found.extend(designated(cert, look_up, now));
        }
        Self(found)
    }

    /// Whether a use of `key` at `time`, in seconds since 1970, falls under one of these
    /// revocations.
    #[must_use]
    pub fn hold(&self, key: &openpgp::Fingerprint, time: u32) -> bool {
        let holds = |revocation: &Revocation| revocation.hard || revocation.created <= time;
        self.0.iter().any(|revocation| revocation.key == *key && holds(revocation))
    }

    /// Whether `cert` is revoked at its reference time, by one of these revocations or according to
    /// Sequoia.
    pub(crate) fn end(&self, cert: &ValidCert<'_>) -> bool {
        matches!(cert.revocation_status(), RevocationStatus::Revoked(_))
            || self.hold(&cert.fingerprint(), seconds(cert.time()))
    }

    /// The creation times of the revocations.
    pub(crate) fn times(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|revocation| revocation.created)
    }
}

/// The revocations by designated revokers, verified by the rules of certificate listings.
fn designated(cert: &openpgp::Cert, look_up: LookUp<'_>, now: u32) -> Vec<Revocation> {
    let bytes = cert.to_vec().ok();
    let Some(own) = bytes.and_then(|bytes| talaria_cert::Cert::parse(&bytes).ok()) else {
        return Vec::new();
    };
    let verdicts = talaria_cert::verdicts(&[&own], Verification::Full);
    let mut found = Vec::new();
    let revokers = own.revokers(&verdicts[0], now);
    for by in revokers.iter().flat_map(Revoker::fingerprints) {
        let issuer = Issuer { key_id: by.key_id(), fingerprint: Some(by) };
        let name = by.to_string();
        let theirs = look_up(&issuer).into_iter().find(|cert| cert.fingerprint().to_hex() == name);
        let Some(body) = theirs.and_then(|cert| cert.primary_key().key().to_vec().ok()) else {
            continue;
        };
        let made = own.revocations_by(by, &body).into_iter();
        found.extend(made.filter(|made| made.created <= now).map(|made| Revocation {
            key: cert.fingerprint(),
            created: made.created,
            hard: made.hard,
        }));
    }
    found
}

fn created(signature: &Signature) -> u32 {
    signature.signature_creation_time().map_or(0, seconds)
}

fn seconds(time: SystemTime) -> u32 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

fn is_hard(signature: &Signature) -> bool {
    let reason = signature.reason_for_revocation();
    reason.is_none_or(|(reason, _)| reason.revocation_type() == RevocationType::Hard)
}

/// `cert` as it was at `time`, with its self-signatures verified.
pub(crate) fn evaluated<'c>(
    cert: &'c openpgp::Cert,
    policy: &'c dyn Policy,
    time: SystemTime,
) -> openpgp::Result<ValidCert<'c>> {
    guarded(|| cert.with_policy(policy, time))
        .unwrap_or_else(|| Err(openpgp::anyhow::anyhow!("a part of the certificate is malformed")))
}

/// `cert` at the time `now`, in seconds since 1970, if it is usable then: valid, not expired and
/// not revoked. This function alone decides it for encrypting and signing.
///
/// # Errors
///
/// [`MessageError::Key`] with the reason.
pub fn usable<'c>(
    cert: &'c openpgp::Cert,
    policy: &'c dyn Policy,
    now: u32,
    revocations: &Revocations,
) -> Result<ValidCert<'c>> {
    let refused = |why| MessageError::Key { name: cert.fingerprint().to_hex(), why };
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(now));
    let valid = evaluated(cert, policy, time).map_err(|error| {
        let weak = weak::primary(cert, policy);
        refused(weak.unwrap_or_else(|| KeyFault::Other(not_valid(cert, &error))))
    })?;
    if revocations.end(&valid) {
        return Err(refused(KeyFault::Revoked));
    }
    if let Err(error) = valid.alive() {
        let seconds = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            u32::try_from(since).unwrap_or(u32::MAX)
        };
        let ended = valid.primary_key().key_expiration_time().map(seconds);
        return Err(refused(match ended.filter(|ended| *ended <= now) {
            Some(ended) => KeyFault::Expired(Some(ended)),
            None => KeyFault::Other(format!("is not valid: {error}")),
        }));
    }
    Ok(valid)
}
