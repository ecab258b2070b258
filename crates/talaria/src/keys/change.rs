//! Changing keys: passphrase, end of validity, revocation.
//!
//! New signatures are dated `now`, or one second behind the one that they take the place of if that is later:
//! of two with the same date, readers may follow either.

use std::time::{Duration, SystemTime};

use openpgp::cert::amalgamation::ValidAmalgamation as _;
use openpgp::cert::{CertRevocationBuilder, UserIDRevocationBuilder, ValidCert};
use openpgp::crypto::KeyPair;
use openpgp::packet::signature::SignatureBuilder;
use openpgp::packet::{Key, Signature, UserID};
use openpgp::policy::Policy;
use openpgp::types::{HashAlgorithm, ReasonForRevocation};
use talaria_message::{AskForKey, openpgp, unlock};

use super::{
    KeyStore, Protection, SecretKey, is_stub, protect, refused, with_secrets, without_secrets_of,
};
use crate::Error;

/// What to revoke, and why.
#[derive(Clone, Debug, Default)]
pub struct Revocation {
    /// This user ID; the whole certificate without.
    pub user_id: Option<String>,
    /// The reason, for programs.
    pub reason: RevocationReason,
    /// The reason, for people.
    pub message: String,
}

/// Reasons for a revocation (RFC 9580, section 5.2.3.31).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RevocationReason {
    /// None is given. What was signed before does not count any more.
    #[default]
    Unspecified,
    /// There is a new key. What was signed before still counts.
    Superseded,
    /// Somebody else has the secret. What was signed before does not count any more.
    Compromised,
    /// It is not used any more, or the user ID is not. What was signed before still counts.
    Retired,
}

impl KeyStore {
    /// Puts the secrets of `unlocked` in the place of those that are there, with this protection. See
    /// [`unlocked`].
    ///
    /// # Errors
    ///
    /// [`Error::NoKey`] if it is not there any more; what reading and writing can meet.
    pub fn protect(
        &self,
        unlocked: openpgp::Cert,
        protection: &Protection,
    ) -> Result<openpgp::Cert, Error> {
        let fresh = with_secrets(unlocked, &mut |key| protect(key, protection).map(Some))?;
        // What came to the file meanwhile stays; of the secrets these are the ones.
        self.update(&fresh.fingerprint(), |ours| {
            let joined = without_secrets_of(ours, &fresh)?.merge_public_and_secret(fresh.clone());
            joined.map_err(|source| refused("change", &fresh, source))
        })
    }

    /// Lets a key end at `expires`, in seconds since 1970, or never; so do its subkeys that have an end of
    /// their own.
    ///
    /// # Errors
    ///
    /// [`Error::KeyRefused`] if its certificate is not valid, or would end before it begins;
    /// [`Error::Message`] if it cannot be unlocked; what reading and writing can meet.
    pub fn set_expiry(
        &self,
        cert: &openpgp::Cert,
        ask: &mut AskForKey<'_>,
        expires: Option<u32>,
        policy: &dyn Policy,
        now: u32,
    ) -> Result<openpgp::Cert, Error> {
        let error = |source| refused("change", cert, source);
        let valid = cert.with_policy(policy, at(now)).map_err(error)?;
        let mut signer = primary(cert, ask)?;
        let signatures = bindings(&valid, &mut signer, expires.map(at), now).map_err(error)?;
        self.add(cert, signatures)
    }

    /// A revocation of a key, or of one of its user IDs, which [`Self::add`] puts into force.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the key has no such user ID; [`Error::Message`] if it cannot be unlocked.
    pub fn revocation(
        &self,
        cert: &openpgp::Cert,
        ask: &mut AskForKey<'_>,
        revocation: &Revocation,
        now: u32,
    ) -> Result<Signature, Error> {
        use ReasonForRevocation as Code;
        let code = match (revocation.reason, &revocation.user_id) {
            (RevocationReason::Unspecified, _) => Code::Unspecified,
            (RevocationReason::Superseded, _) => Code::KeySuperseded,
            (RevocationReason::Compromised, _) => Code::KeyCompromised,
            (RevocationReason::Retired, None) => Code::KeyRetired,
            (RevocationReason::Retired, Some(_)) => Code::UIDRetired,
        };
        let message = revocation.message.as_bytes();
        let user_id = revocation.user_id.as_deref().map(|name| user_id(cert, name)).transpose()?;
        let mut signer = primary(cert, ask)?;
        let mut built = || match user_id {
            None => CertRevocationBuilder::new()
                .set_signature_creation_time(at(now))?
                .set_reason_for_revocation(code, message)?
                .build(&mut signer, cert, None),
            Some(user_id) => {
                // It counts from the second on in which the binding is older.
                let bound = cert.userids().find(|id| id.userid() == user_id);
                let latest = bound.and_then(|id| {
                    id.self_signatures()
                        .filter_map(|signature| signature.signature_creation_time())
                        .max()
                });
                UserIDRevocationBuilder::new()
                    .set_signature_creation_time(after(latest, now))?
                    .set_reason_for_revocation(code, message)?
                    .build(&mut signer, cert, user_id, None)
            }
        };
        built().map_err(|source| refused("revoke", cert, source))
    }

    /// Adds signatures of its own to a key, with all that `cert` has beyond what is there.
    ///
    /// # Errors
    ///
    /// What reading and writing can meet.
    pub fn add(
        &self,
        cert: &openpgp::Cert,
        signatures: impl IntoIterator<Item = Signature>,
    ) -> Result<openpgp::Cert, Error> {
        self.update(&cert.fingerprint(), |ours| {
            let joined = ours.merge_public(cert.clone());
            let joined = joined.and_then(|joined| Ok(joined.insert_packets(signatures)?.0));
            joined.map_err(|source| refused("change", cert, source))
        })
    }
}

/// `cert` with all its secrets unlocked, in memory. `ask` is asked for the passphrases that they have.
///
/// # Errors
///
/// [`Error::Message`] if no passphrase fits.
pub fn unlocked(cert: openpgp::Cert, ask: &mut AskForKey<'_>) -> Result<openpgp::Cert, Error> {
    with_secrets(cert, &mut |key| {
        if is_stub(&key) {
            return Ok(Some(key));
        }
        // Which kind of key it is has to stay known for it to be unlocked.
        Ok(Some(match key {
            SecretKey::Primary(key) => {
                let key: Key<_, _> = unlock(key.role_as_unspecified().clone(), ask)?.into();
                SecretKey::Primary(key.role_into_primary())
            }
            SecretKey::Subkey(key) => {
                let key: Key<_, _> = unlock(key.role_as_unspecified().clone(), ask)?.into();
                SecretKey::Subkey(key.role_into_subordinate())
            }
        }))
    })
}

/// The primary key of `cert`, unlocked.
fn primary(cert: &openpgp::Cert, ask: &mut AskForKey<'_>) -> Result<KeyPair, Error> {
    let key = cert.primary_key().key().role_as_unspecified().clone().parts_into_secret();
    let key = key.map_err(|_| Error::NoSecret { name: cert.fingerprint().to_hex() })?;
    Ok(unlock(key, ask)?)
}

/// The user ID of `cert` that is called `name`: it, or the only one that has that in it.
fn user_id<'a>(cert: &'a openpgp::Cert, name: &str) -> Result<&'a UserID, Error> {
    let all: Vec<&UserID> = cert.userids().map(|id| id.userid()).collect();
    if let Some(id) = all.iter().find(|id| id.value() == name.as_bytes()) {
        return Ok(id);
    }
    let folded = name.to_lowercase();
    let text = |id: &UserID| String::from_utf8_lossy(id.value()).into_owned();
    let mut found: Vec<&UserID> = all;
    found.retain(|id| text(id).to_lowercase().contains(&folded));
    match found[..] {
        [id] => Ok(id),
        [] => Err(Error::NotFound { query: name.to_owned() }),
        _ => Err(Error::Ambiguous {
            query: name.to_owned(),
            candidates: found.into_iter().map(text).collect(),
        }),
    }
}

/// New self-signatures, with another end of validity: in the place of those that count now.
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
        // Which one is primary may have followed from the dates alone.
        let is_first = Some(user_id.userid()) == first.as_ref();
        let builder =
            renewed(user_id.binding_signature(), created)?.set_primary_userid(is_first)?;
        signatures.push(builder.sign_userid_binding(signer, primary.key(), user_id.userid())?);
    }
    for subkey in valid.keys().subkeys().revoked(false) {
        let old = subkey.binding_signature();
        // The signature by a signing subkey, which is in the old one, holds for the new one as well.
        if old.key_validity_period().is_some() {
            let builder = renewed(old, subkey.key().creation_time())?;
            signatures.push(builder.sign_subkey_binding(signer, primary.key(), subkey.key())?);
        }
    }
    Ok(signatures)
}

fn at(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into())
}

/// `now`, or a second behind `earlier`.
fn after(earlier: Option<SystemTime>, now: u32) -> SystemTime {
    let next = earlier.map(|earlier| earlier + Duration::from_secs(1));
    next.map_or(at(now), |next| next.max(at(now)))
}
