//! Certificates in Sequoia's form, judged by the rules of [`talaria_cert`].
//!
//! Sequoia holds the keys and computes with them. What they may be used for, [`Judge`] alone says.

use sequoia_openpgp as openpgp;
use sequoia_openpgp::packet::Key;
use sequoia_openpgp::packet::key::{PublicParts, UnspecifiedRole};
use sequoia_openpgp::serialize::MarshalInto as _;
use talaria_cert::{Cert, Fault, Fingerprint, Judge, Purpose, Rules, Verified, Weak, Why};

use crate::certs::sound;
use crate::error::{Bound, KeyFault, MessageError, Result};
use crate::guard::guarded;
use crate::unsupported::unsupported;

/// A function that finds the certificate with a fingerprint, to look for its revocations of another.
pub type FindRevoker<'l> = &'l mut dyn FnMut(Fingerprint) -> Option<Cert>;

/// `cert` with its signatures verified.
///
/// # Errors
///
/// [`MessageError::Key`] if the certificate cannot be read.
pub fn verified(cert: &openpgp::Cert) -> Result<Verified> {
    let unreadable = || refused(cert, KeyFault::Other("cannot be read".into()));
    let bytes = guarded(|| sound(cert).to_vec().ok()).flatten().ok_or_else(unreadable)?;
    let own = Cert::parse(&bytes).map_err(|_| unreadable())?;
    guarded(|| Verified::new(own)).ok_or_else(unreadable)
}

/// The judge of `known`. `find` finds its designated revokers, whose revocations made by `now`, in
/// seconds since 1970, count.
#[must_use]
pub fn judge_of(known: Verified, rules: Rules, find: FindRevoker<'_>, now: u32) -> Judge {
    Judge::new(known, rules, now, |by| {
        let revoker = find(by)?;
        revoker.packets().next().map(|key| key.body.to_vec())
    })
}

/// The judge of `cert`, as [`judge_of`].
///
/// # Errors
///
/// The errors of [`verified`].
pub fn judge(cert: &openpgp::Cert, rules: Rules, find: FindRevoker<'_>, now: u32) -> Result<Judge> {
    Ok(judge_of(verified(cert)?, rules, find, now))
}

/// The keys of a certificate that may be used for a purpose.
pub struct Usable {
    /// The keys, at least one, with their secrets if they have some.
    pub keys: Vec<Key<PublicParts, UnspecifiedRole>>,
    /// The weakest self-signature that they need, if it has a broken hash function.
    pub weak: Option<Weak>,
    /// The judge of the certificate.
    pub judge: Judge,
}

/// The keys of `cert` that may be used for `purpose` at `now`, in seconds since 1970. `find` finds
/// its designated revokers.
///
/// # Errors
///
/// [`MessageError::Key`] with the reason if there is none.
pub fn usable(
    cert: &openpgp::Cert,
    purpose: Purpose,
    rules: Rules,
    find: FindRevoker<'_>,
    now: u32,
) -> Result<Usable> {
    let judge = judge(cert, rules, find, now)?;
    usable_by(judge, cert, purpose, now)
}

/// As [`usable`], with the judge of the certificate.
///
/// # Errors
///
/// The errors of [`usable`].
pub fn usable_by(judge: Judge, cert: &openpgp::Cert, purpose: Purpose, now: u32) -> Result<Usable> {
    let cert = &*sound(cert);
    let found = judge.usable(purpose, now).map_err(|why| {
        // A key that nobody here can compute with has no good signature, so its type is the reason.
        let primary = unsupported(cert.primary_key().key().role_as_unspecified());
        let unsupported = primary.map(|what| format!("is {what}, which is not supported"));
        refused(cert, unsupported.map_or_else(|| KeyFault::from(why), KeyFault::Other))
    })?;
    let is_meant = |key: &openpgp::Fingerprint| found.keys.iter().any(|&meant| is(key, meant));
    let keys = cert.keys().filter(|key| is_meant(&key.key().fingerprint()));
    let keys = keys.map(|key| key.key().clone()).collect();
    Ok(Usable { keys, weak: found.weak, judge })
}

/// The refusal of a certificate.
pub(crate) fn refused(cert: &openpgp::Cert, why: KeyFault) -> MessageError {
    MessageError::Key { name: cert.fingerprint().to_hex(), why }
}

/// Whether both are the same fingerprint.
pub(crate) fn is(theirs: &openpgp::Fingerprint, ours: Fingerprint) -> bool {
    theirs.as_bytes() == ours.as_bytes()
}

impl From<Why> for KeyFault {
    fn from(why: Why) -> Self {
        match (why.fault, why.key, why.purpose) {
            (Fault::Revoked, None, _) => Self::Revoked,
            (Fault::Expired(end), None, _) => Self::Expired(Some(end)),
            (Fault::Weak(weak), None, _) => Self::weak(Bound::Certificate, weak),
            (Fault::Weak(weak), Some(_), Purpose::Encrypt) => {
                Self::weak(Bound::EncryptionKey, weak)
            }
            _ => Self::Other(why.to_string()),
        }
    }
}

impl KeyFault {
    fn weak(what: Bound, weak: Weak) -> Self {
        Self::Weak { what, hash: weak.hash_name(), made: weak.made }
    }
}
