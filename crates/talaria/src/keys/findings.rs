//! What is old, weak or missing in one's own key.

use std::fmt;

use talaria_cert::{
    Fault, Fingerprint, KeySummary, Purpose, Rules, Summary, UserIdContent, Validity, Weak, Why,
};
use talaria_message::{judge, openpgp};

use crate::day;
use crate::error::Error;

/// The time before the end of a key at which it is said, in seconds.
const SOON: u32 = 90 * 86_400;

/// A part of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeyPart {
    /// The key as a whole.
    Certificate,
    /// The primary key.
    Primary,
    /// A subkey.
    Subkey(Fingerprint),
    /// A user ID.
    UserId(String),
}

/// What is wrong with a part of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// Only self-signatures with a broken hash function bind it. Whether these still count is said.
    Weak(Weak, bool),
    /// It has another fault.
    Fault(Fault),
    /// It expires soon, in seconds since 1970.
    Ends(u32),
    /// It cannot be used for the purpose.
    Unable(Why),
}

/// Something that the owner of a key should mend.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The part.
    pub part: KeyPart,
    /// What is wrong with it.
    pub problem: Problem,
}

impl Finding {
    /// Whether [`KeyStore::renew`](super::KeyStore::renew) mends it. A key that only expires soon
    /// may have more than half of its time left, and gets another date
    /// ([`KeyStore::set_expiry`](super::KeyStore::set_expiry)).
    #[must_use]
    pub fn is_renewable(&self) -> bool {
        matches!(self.problem, Problem::Weak(..) | Problem::Fault(Fault::Expired(_)))
    }
}

/// What is old, weak or missing in a key at `now`, in seconds since 1970. `find_revoker` finds
/// its designated revokers.
///
/// # Errors
///
/// [`Error::Message`] if the certificate cannot be read.
pub fn findings(
    cert: &openpgp::Cert,
    find_revoker: talaria_message::FindRevoker<'_>,
    now: u32,
) -> Result<Vec<Finding>, Error> {
    let judge = judge(cert, Rules::Standard, find_revoker, now)?;
    let summary = judge.at(now);
    let whole = |problem| Finding { part: KeyPart::Certificate, problem };
    if summary.primary.revoked {
        return Ok(vec![whole(Problem::Fault(Fault::Revoked))]);
    }
    let mut found = of_key(&KeyPart::Primary, &summary.primary, &summary, now);
    for user_id in &summary.user_ids {
        let UserIdContent::Text(text) = &user_id.content else { continue };
        if let (Some(weak), false) = (user_id.weak, user_id.revoked) {
            let counts = user_id.validity(now) == Validity::Valid;
            let part = KeyPart::UserId(String::from_utf8_lossy(text).into_owned());
            found.push(Finding { part, problem: Problem::Weak(weak, counts) });
        }
    }
    for subkey in summary.subkeys.iter().filter(|subkey| !subkey.revoked) {
        // An old subkey that has a successor may rest.
        let is_replaced = subkey.expires != 0
            && subkey.expires <= now
            && summary.subkeys.iter().any(|other| {
                other.capabilities == subkey.capabilities && other.created > subkey.created
            });
        if !is_replaced {
            let part = KeyPart::Subkey(subkey.fingerprint);
            found.extend(of_key(&part, subkey, &summary, now));
        }
    }
    for purpose in [Purpose::Sign, Purpose::Encrypt] {
        let is_said =
            |why: &Why| matches!(why.fault, Fault::NoKey | Fault::NotSignedBack | Fault::NoUserId);
        if let Err(why) = judge.usable(purpose, now)
            && is_said(&why)
        {
            found.push(whole(Problem::Unable(why)));
        }
    }
    Ok(found)
}

fn of_key(part: &KeyPart, key: &KeySummary, summary: &Summary, now: u32) -> Vec<Finding> {
    let mut problems = Vec::new();
    if let Some(weak) = key.weak {
        problems.push(Problem::Weak(weak, key.bound));
    }
    match summary.fault_of(key, now) {
        Some(Fault::Weak(_)) => {}
        Some(fault) => problems.push(Problem::Fault(fault)),
        None if key.expires != 0 && key.expires - now < SOON => {
            problems.push(Problem::Ends(key.expires));
        }
        None => {}
    }
    problems.into_iter().map(|problem| Finding { part: part.clone(), problem }).collect()
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate => f.write_str("key"),
            Self::Primary => f.write_str("primary key"),
            Self::Subkey(fingerprint) => write!(f, "subkey {fingerprint}"),
            Self::UserId(text) => write!(f, "user ID {text}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weak(weak, counts) => {
                let then = if *counts { "still count for encryption" } else { "no longer count" };
                let (hash, made) = (weak.hash_name(), day(weak.made));
                write!(f, "bound by signatures with {hash} only, of {made}, which {then}")
            }
            Self::Fault(fault) => fault.fmt(f),
            Self::Ends(end) => write!(f, "expires on {}", day(*end)),
            Self::Unable(why) => why.fmt(f),
        }
    }
}
