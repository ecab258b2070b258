//! What a key is and what it may do.

use openpgp::crypto::Signer;
use talaria_message::{AskForKey, Purpose, Rules, make, openpgp, usable, with_stored};
use talaria_store::Query;

use crate::error::{Error, of_make};

/// Whether `cert` has a secret key that may sign at `now`, in seconds since 1970.
#[must_use]
pub fn can_sign(cert: &openpgp::Cert, rules: Rules, now: u32) -> bool {
    usable(cert, Purpose::Sign, rules, &mut |_| None, now)
        .is_ok_and(|found| found.keys.iter().any(openpgp::packet::Key::has_secret))
}

/// Whether the secret primary key of `cert` is here and may certify at `now`, in seconds since
/// 1970.
#[must_use]
pub fn can_certify(cert: &openpgp::Cert, rules: Rules, now: u32) -> bool {
    cert.primary_key().key().has_secret() && make::may_certify(cert, rules, now).is_ok()
}

/// The primary key of `cert`, unlocked, if the key may certify at `now`, in seconds since 1970.
///
/// # Errors
///
/// [`Error::Message`] if the key may not certify, or if no passphrase unlocks it;
/// [`Error::NoSecret`].
pub fn certifier(
    cert: &openpgp::Cert,
    rules: Rules,
    now: u32,
    ask: &mut AskForKey<'_>,
) -> Result<Box<dyn Signer>, Error> {
    let signer = make::certifier(cert, rules, now, ask);
    Ok(Box::new(signer.map_err(|error| of_make("use", &cert.fingerprint().to_hex(), error))?))
}

/// Whether `query` matches `cert`: one of its keys or one of its user IDs.
#[must_use]
pub fn names(query: &Query, cert: &openpgp::Cert) -> bool {
    cert.userids().any(|id| query.names_text(id.userid().value()))
        || cert.keys().any(|key| with_stored(key.key(), |key| query.names_key(key)) == Some(true))
}
