//! Changing stored keys: passphrase, expiry time, user IDs, subkeys, revocation.

use std::time::{Duration, UNIX_EPOCH};

use talaria_cert::user_id::folded;
use talaria_message::make::{self, Protection, Rank, RevocationReason, Revoked, SubkeyOptions};
use talaria_message::openpgp::packet::{Signature, UserID};
use talaria_message::openpgp::{self, Packet};
use talaria_message::{AskForKey, Rules, with_stored};
use talaria_store::Query;

use crate::certify::Text;
use crate::error::{Error, of_make};
use crate::keys::key_store::{KeyStore, without_secrets_of};
use crate::keys::public::refused;

/// Options for a revocation.
#[derive(Clone, Debug, Default)]
pub struct Revocation {
    /// The object to revoke.
    pub what: RevocationTarget,
    /// The reason, as a code.
    pub reason: RevocationReason,
    /// The reason, in words.
    pub message: String,
}

/// The part of a key to revoke.
#[derive(Clone, Debug, Default)]
pub enum RevocationTarget {
    /// The whole certificate.
    #[default]
    Certificate,
    /// This user ID.
    UserId(UserID),
    /// This subkey.
    Subkey(Subkey),
}

impl RevocationTarget {
    /// The user ID of `cert` with the text `name`, or the only one with the address `name`. A
    /// revocation cannot be undone, so a part of a user ID is not enough.
    ///
    /// # Errors
    ///
    /// [`Error::NoUserId`]; [`Error::InexactUserId`].
    pub fn user_id(cert: &openpgp::Cert, name: &str) -> Result<Self, Error> {
        user_id(cert, name).map(|user_id| Self::UserId(user_id.clone()))
    }

    /// The subkey of `cert` that `query` names by its fingerprint or key ID.
    ///
    /// # Errors
    ///
    /// [`Error::NoSubkey`]; [`Error::Ambiguous`].
    pub fn subkey(cert: &openpgp::Cert, query: &Query) -> Result<Self, Error> {
        named_subkey(cert, query).map(Self::Subkey)
    }
}

impl KeyStore {
    /// Replaces the stored secrets by those of `unlocked`, encrypted with this protection. See
    /// [`unlocked`].
    ///
    /// # Errors
    ///
    /// [`Error::NoKey`] if the key does not exist any more; errors of reading and writing.
    pub fn protect(
        &self,
        unlocked: openpgp::Cert,
        protection: &Protection,
    ) -> Result<openpgp::Cert, Error> {
        let name = unlocked.fingerprint().to_hex();
        let fresh = make::protected(unlocked, protection)
            .map_err(|error| of_make("protect", &name, error))?;
        // Parts that were added to the file meanwhile stay; the secrets are replaced.
        self.update(&fresh.fingerprint(), |ours| {
            let joined = without_secrets_of(ours, &fresh)?.merge_public_and_secret(fresh.clone());
            joined.map_err(|source| refused("change", &fresh, source))
        })
    }

    /// Sets the expiry time of a key in seconds since 1970, or removes it. Subkeys that have an
    /// expiry time of their own get the same.
    ///
    /// # Errors
    ///
    /// [`Error::KeyRefused`] if the certificate is not valid, or would expire before it begins;
    /// [`Error::Message`] if no passphrase unlocks the key; errors of reading and writing.
    pub fn set_expiry(
        &self,
        cert: &openpgp::Cert,
        ask: &mut AskForKey<'_>,
        expires: Option<u32>,
        now: u32,
    ) -> Result<openpgp::Cert, Error> {
        let created = cert.primary_key().key().creation_time();
        let end = |seconds: u32| UNIX_EPOCH + Duration::from_secs(seconds.into());
        if expires.is_some_and(|seconds| end(seconds) < created) {
            return Err(Error::KeyRefused {
                action: "change",
                name: cert.fingerprint().to_hex(),
                source: "the expiry date is before the date of its creation".into(),
            });
        }
        let made = make::set_expiry(cert, expires, ask, now);
        self.add(cert, made.map_err(|error| changing(cert, error))?)
    }

    /// Renews a key: its self-signatures with broken hash functions are made again, and parts of
    /// which less than half of their time is left are valid for the same time again. Returns the
    /// number of new signatures, and the key with them.
    ///
    /// # Errors
    ///
    /// [`Error::KeyRefused`] if the key is revoked or not valid; [`Error::NoSecret`] without the
    /// secret primary key; [`Error::Message`] if no passphrase unlocks it; errors of reading and
    /// writing.
    pub fn renew(
        &self,
        cert: &openpgp::Cert,
        ask: &mut AskForKey<'_>,
        now: u32,
    ) -> Result<(openpgp::Cert, usize), Error> {
        let made = make::renew(cert, make::RenewOptions::Keep, ask, now);
        let made = made.map_err(|error| changing(cert, error))?;
        let count = made.len();
        let cert = if made.is_empty() { cert.clone() } else { self.add(cert, made)? };
        Ok((cert, count))
    }

    /// Adds a subkey to a key. The secret of the subkey gets the passphrase of the primary key.
    ///
    /// # Errors
    ///
    /// [`Error::KeyRefused`] if the key is revoked or not valid; [`Error::NoSecret`] without the
    /// secret primary key; [`Error::Message`] if no passphrase unlocks the primary key; errors of
    /// reading and writing.
    pub fn add_subkey(
        &self,
        cert: &openpgp::Cert,
        ask: &mut AskForKey<'_>,
        options: &SubkeyOptions,
        rules: Rules,
        now: u32,
    ) -> Result<Added, Error> {
        let made = make::add_subkey(cert, options, ask, rules, now);
        let made = made.map_err(|error| changing(cert, error))?;
        let fingerprint = made.iter().find_map(|packet| match packet {
            Packet::SecretSubkey(key) => Some(key.fingerprint()),
            _ => None,
        });
        let subkey =
            fingerprint.ok_or_else(|| Error::NoSecret { name: cert.fingerprint().to_hex() })?;
        Ok(Added { cert: self.add(cert, made)?, subkey })
    }

    /// Adds a user ID to a key.
    ///
    /// # Errors
    ///
    /// [`Error::KeyRefused`] if the key already has the user ID, is revoked or not valid;
    /// [`Error::NoSecret`] without the secret primary key; [`Error::Message`] if no passphrase
    /// unlocks the primary key; errors of reading and writing.
    pub fn add_user_id(
        &self,
        cert: &openpgp::Cert,
        ask: &mut AskForKey<'_>,
        text: &str,
        rank: Rank,
        rules: Rules,
        now: u32,
    ) -> Result<openpgp::Cert, Error> {
        let made = make::add_user_id(cert, text, rank, ask, rules, now);
        self.add(cert, made.map_err(|error| changing(cert, error))?)
    }

    /// Adds packets to a key, and all parts of `cert` that the stored key lacks.
    ///
    /// # Errors
    ///
    /// Errors of reading and writing.
    pub fn add(
        &self,
        cert: &openpgp::Cert,
        packets: impl IntoIterator<Item = impl Into<Packet>>,
    ) -> Result<openpgp::Cert, Error> {
        let packets: Vec<Packet> = packets.into_iter().map(Into::into).collect();
        self.update(&cert.fingerprint(), |ours| {
            let joined = ours.merge_public(cert.clone());
            let joined = joined.and_then(|joined| Ok(joined.insert_packets(packets)?.0));
            joined.map_err(|source| refused("change", cert, source))
        })
    }
}

/// The result of adding a subkey.
#[derive(Clone, Debug)]
pub struct Added {
    /// The key with the new subkey.
    pub cert: openpgp::Cert,
    /// The fingerprint of the new subkey.
    pub subkey: openpgp::Fingerprint,
}

/// A new revocation.
#[derive(Clone, Debug)]
pub struct MadeRevocation {
    /// The revocation signature.
    pub signature: Signature,
    /// The revoked user ID or subkey; `None` if the whole certificate is revoked.
    pub component: Option<Packet>,
}

/// Makes a revocation of a key or of a part of it. [`KeyStore::add`] puts the revocation into
/// force.
///
/// # Errors
///
/// [`Error::Message`] if no passphrase unlocks the key.
pub fn revocation(
    cert: &openpgp::Cert,
    ask: &mut AskForKey<'_>,
    revocation: &Revocation,
    now: u32,
) -> Result<MadeRevocation, Error> {
    let (what, component) = match &revocation.what {
        RevocationTarget::Certificate => (Revoked::Certificate, None),
        RevocationTarget::UserId(user_id) => {
            (Revoked::UserId(user_id), Some(Packet::from(user_id.clone())))
        }
        RevocationTarget::Subkey(subkey) => {
            (Revoked::Subkey(subkey), Some(Packet::from(subkey.clone())))
        }
    };
    let signature = make::revoke(cert, what, revocation.reason, &revocation.message, ask, now)
        .map_err(|error| of_make("revoke", &cert.fingerprint().to_hex(), error))?;
    Ok(MadeRevocation { signature, component })
}

/// `cert` with all its secrets unlocked, in memory. `ask` is called for their passphrases.
///
/// # Errors
///
/// [`Error::Message`] if no passphrase fits.
pub fn unlocked(cert: openpgp::Cert, ask: &mut AskForKey<'_>) -> Result<openpgp::Cert, Error> {
    let name = cert.fingerprint().to_hex();
    make::unlocked(cert, ask).map_err(|error| of_make("unlock", &name, error))
}

fn changing(cert: &openpgp::Cert, error: make::MakeError) -> Error {
    of_make("change", &cert.fingerprint().to_hex(), error)
}

/// The subkey of `cert` that matches `query`.
fn named_subkey(cert: &openpgp::Cert, query: &Query) -> Result<Subkey, Error> {
    let named = |key: &Subkey| with_stored(key, |key| query.names_key(key)) == Some(true);
    let keys = cert.keys().subkeys().map(|key| key.key().clone());
    let mut found: Vec<Subkey> = keys.filter(named).collect();
    match (found.pop(), &found[..]) {
        (Some(key), []) => Ok(key),
        (None, _) => {
            Err(Error::NoSubkey { name: cert.fingerprint().to_hex(), query: query.to_string() })
        }
        (Some(last), rest) => Err(Error::Ambiguous {
            query: query.to_string(),
            candidates: rest.iter().chain([&last]).map(|key| key.fingerprint().to_hex()).collect(),
        }),
    }
}

/// The public part of a subkey.
pub type Subkey =
    openpgp::packet::Key<openpgp::packet::key::PublicParts, openpgp::packet::key::SubordinateRole>;

/// The user ID of `cert` with the text `name`, or the only one with the address `name`.
fn user_id<'a>(cert: &'a openpgp::Cert, name: &str) -> Result<&'a UserID, Error> {
    let all: Vec<&UserID> = cert.userids().map(|id| id.userid()).collect();
    if let Some(id) = all.iter().find(|id| id.value() == name.as_bytes()) {
        return Ok(id);
    }
    let exact = Text::parse(name);
    if let [id] = all.iter().filter(|id| exact.names(id)).collect::<Vec<_>>()[..] {
        return Ok(id);
    }
    let text = |id: &&UserID| String::from_utf8_lossy(id.value()).into_owned();
    let part = folded(name);
    let mut candidates: Vec<String> = all.iter().map(text).collect();
    candidates.retain(|text| !part.trim().is_empty() && folded(text).contains(&part));
    let query = name.to_owned();
    Err(if candidates.is_empty() {
        Error::NoUserId { name: cert.fingerprint().to_hex(), user_id: Some(query) }
    } else {
        Error::InexactUserId { query, candidates }
    })
}
