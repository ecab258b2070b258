//! The certificate that is changed: its validity, and its keys unlocked.

use openpgp::cert::ValidCert;
use openpgp::crypto::{KeyPair, Password};
use openpgp::packet::key::{PublicParts, SecretParts, UnspecifiedRole};
use openpgp::packet::{Key, Signature};
use sequoia_openpgp as openpgp;
use talaria_cert::{Fault, Judge, Purpose, Rules, Why};

use crate::guard::guarded;
use crate::judged::judge;
use crate::keys::{AskForKey, unlock};
use crate::make::date::at;
use crate::make::error::{MakeError, Result};
use crate::policy::templates;

/// The judge of `cert`, if it is neither revoked nor expired at `now` and may be used for `purpose`.
/// Its designated revokers are not looked up: the caller has looked at them.
pub(super) fn alive(
    cert: &openpgp::Cert,
    purpose: Purpose,
    rules: Rules,
    now: u32,
) -> Result<Judge> {
    let name = || cert.fingerprint().to_hex();
    let judge = judge(cert, rules, &mut |_| None, now).map_err(MakeError::Locked)?;
    match judge.usable(purpose, now) {
        Ok(_) => Ok(judge),
        Err(Why { fault: Fault::Revoked, key: None, .. }) => {
            Err(MakeError::Revoked { name: name() })
        }
        Err(why) => Err(MakeError::Unusable { name: name(), why }),
    }
}

/// `cert` at the time `now` with the self-signatures in force, if it is not revoked. It may have
/// expired.
pub(super) fn valid(cert: &openpgp::Cert, rules: Rules, now: u32) -> Result<ValidCert<'_>> {
    let name = || cert.fingerprint().to_hex();
    let judge = judge(cert, rules, &mut |_| None, now).map_err(MakeError::Locked)?;
    if judge.at(now).primary.revoked {
        return Err(MakeError::Revoked { name: name() });
    }
    evaluated(cert, now)
}

/// `cert` at the time `now` with the self-signatures in force, whether they count or not.
pub(super) fn evaluated(cert: &openpgp::Cert, now: u32) -> Result<ValidCert<'_>> {
    let malformed = || Err(openpgp::anyhow::anyhow!("a part of the certificate is malformed"));
    guarded(|| cert.with_policy(templates(), at(now)))
        .unwrap_or_else(malformed)
        .map_err(|source| MakeError::Invalid { name: cert.fingerprint().to_hex(), source })
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

/// Whether the hash function of a signature is broken.
pub(super) fn is_weak(signature: &Signature) -> bool {
    use openpgp::types::HashAlgorithm::{MD5, RipeMD, SHA1};
    matches!(signature.hash_algo(), MD5 | RipeMD | SHA1)
}
