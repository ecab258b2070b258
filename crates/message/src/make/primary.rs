//! The certificate that is changed: its validity, and its keys unlocked.

use openpgp::cert::ValidCert;
use openpgp::crypto::{KeyPair, Password};
use openpgp::packet::Key;
use openpgp::packet::key::{PublicParts, SecretParts, UnspecifiedRole};
use openpgp::policy::Policy;
use sequoia_openpgp as openpgp;

use crate::keys::{AskForKey, unlock};
use crate::make::date::at;
use crate::make::error::{MakeError, Result};
use crate::revoked::{Revocations, evaluated};

/// `cert` at the time `now`, if it is neither revoked nor expired.
pub(super) fn alive<'c>(
    cert: &'c openpgp::Cert,
    policy: &'c dyn Policy,
    now: u32,
) -> Result<ValidCert<'c>> {
    let valid = valid(cert, policy, now)?;
    let name = || cert.fingerprint().to_hex();
    valid.alive().map_err(|source| MakeError::NotAlive { name: name(), source })?;
    Ok(valid)
}

/// `cert` at the time `now`, if it is not revoked. It may have expired.
pub(super) fn valid<'c>(
    cert: &'c openpgp::Cert,
    policy: &'c dyn Policy,
    now: u32,
) -> Result<ValidCert<'c>> {
    let name = || cert.fingerprint().to_hex();
    let valid = evaluated(cert, policy, at(now))
        .map_err(|source| MakeError::Invalid { name: name(), source })?;
    let revocations = Revocations::of(cert, policy, &mut |_| Vec::new(), now);
    if revocations.end(&valid) { Err(MakeError::Revoked { name: name() }) } else { Ok(valid) }
}

/// The unlocked primary key of `cert`, and the passphrase that unlocked it.
pub(super) fn primary(
    cert: &openpgp::Cert,
    ask: &mut AskForKey<'_>,
) -> Result<(KeyPair, Option<Password>)> {
    let key = cert.primary_key().key().role_as_unspecified().clone().parts_into_secret();
    let key = key.map_err(|_| MakeError::NoSecret { name: cert.fingerprint().to_hex() })?;
    opened(key, ask)
}

/// The unlocked key pair of `key`, and the passphrase that unlocked it, if the key was locked.
pub(super) fn opened(
    key: Key<SecretParts, UnspecifiedRole>,
    ask: &mut AskForKey<'_>,
) -> Result<(KeyPair, Option<Password>)> {
    let mut used = None;
    let mut noting = |asked: usize, key: &Key<PublicParts, UnspecifiedRole>| {
        used = ask(asked, key);
        used.clone()
    };
    let pair = unlock(key, &mut noting).map_err(MakeError::Locked)?;
    Ok((pair, used))
}
