//! The passphrases that are tried on a locked secret key: those given, those that the user typed
//! before, and those that the user is asked for.

use talaria_cert::user_id::{text, visible_text};
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::packet::Key;
use talaria_message::openpgp::packet::key::{PublicParts, UnspecifiedRole};
use talaria_message::openpgp::{Cert, Fingerprint, KeyID};

/// The number of times that the user is asked for the passphrase of a key.
const TRIES: usize = 3;

/// A locked key whose passphrase the user is asked for.
#[derive(Clone, Debug)]
pub struct LockedKey<'n> {
    /// The first user ID of its certificate, for a terminal.
    pub owner: Option<&'n str>,
    /// Its key ID.
    pub id: KeyID,
    /// Whether the user was asked before and typed a wrong passphrase.
    pub again: bool,
}

/// A function that gives the passphrases in `given`, then those that `ask` returns. A passphrase
/// that the user typed for one key is tried on the next before `ask` is called again. Questions
/// name the owners of the keys in `certs`.
pub fn unlocker<A>(
    given: Vec<Password>,
    certs: &[Cert],
    mut ask: A,
) -> impl FnMut(usize, &Key<PublicParts, UnspecifiedRole>) -> Option<Password> + Send + use<A>
where
    A: FnMut(&LockedKey<'_>) -> Option<Password> + Send,
{
    let owners: Vec<(Vec<Fingerprint>, String)> = certs.iter().filter_map(owned).collect();
    let mut known = given;
    let mut known_before = known.len();
    move |asked, key| {
        if asked == 0 {
            known_before = known.len();
        }
        if let Some(password) = known.get(asked) {
            return Some(password.clone());
        }
        if asked >= known_before + TRIES {
            return None;
        }
        let fingerprint = key.fingerprint();
        let owner = owners.iter().find(|(keys, _)| keys.contains(&fingerprint));
        let owner = owner.map(|(_, name)| name.as_str());
        let password = ask(&LockedKey { owner, id: key.keyid(), again: asked > known_before })?;
        known.push(password.clone());
        Some(password)
    }
}

/// The keys of a certificate, and its name for a terminal.
fn owned(cert: &Cert) -> Option<(Vec<Fingerprint>, String)> {
    let name = cert.userids().next().map(|id| visible_text(&text(id.userid().value())).into())?;
    Some((cert.keys().map(|key| key.key().fingerprint()).collect(), name))
}
