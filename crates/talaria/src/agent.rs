//! The certificates of stores whose secret keys gpg-agent has.

use std::collections::HashSet;
use std::ops::ControlFlow;

use openpgp::crypto::{Password, Signer};
use talaria_agent::keygrip;
use talaria_cert::{Fingerprint, Summary};
use talaria_message::{
    DecryptionKey, Elsewhere, MessageError, Purpose, Rules, SigningKey, make, openpgp, usable,
};
use talaria_store::{Order, Query};

pub use talaria_agent::{Agent, AgentError, Refusal, Start};

use crate::error::{Error, of_make};
use crate::stores::Stores;

/// A certificate whose secret keys, or some of them, are in the agent.
#[derive(Clone, Debug)]
pub struct AgentCert {
    /// The summary of the certificate.
    pub summary: Summary,
    /// The keys whose secrets the agent has.
    pub secrets: Vec<Fingerprint>,
}

/// The certificates in `stores` whose secret keys the agent has, and the number of the agent's
/// secret keys that belong to none of these certificates.
///
/// # Errors
///
/// [`Error::Agent`], or errors of reading the stores.
pub fn held(agent: &Agent, stores: &Stores, now: u32) -> Result<(Vec<AgentCert>, usize), Error> {
    let keygrips = agent.keygrips()?;
    let mut held: Vec<AgentCert> = Vec::new();
    let mut unknown = 0;
    for grip in &keygrips {
        let query = [Query::Keygrip(grip.0)];
        let mut found = Vec::new();
        let visited = stores.visit(&query, Order::Insertion, now, |_, row| {
            found.push(row.summary);
            Ok(ControlFlow::Continue(()))
        });
        match visited {
            Ok(()) => {}
            Err(Error::NotFound { .. }) => unknown += 1,
            Err(error) => return Err(error),
        }
        for summary in found {
            let fingerprint = summary.fingerprint();
            if held.iter().any(|held| held.summary.fingerprint() == fingerprint) {
                continue;
            }
            let Some(cert) = stores.cert(fingerprint)? else { continue };
            let has = |key: &talaria_cert::Key<'_>| {
                key.keygrip().is_some_and(|keygrip| keygrips.contains(&keygrip))
            };
            let secrets = cert.keys().filter(has).map(|key| key.fingerprint()).collect();
            held.push(AgentCert { summary, secrets });
        }
    }
    Ok((held, unknown))
}

/// The newest signing key of `cert` that is valid at `now`, in seconds since 1970, and that the
/// agent has.
///
/// # Errors
///
/// [`Error::Message`] if the certificate may not sign; [`Error::NoSecret`] if the agent has
/// none of its signing keys; [`Error::Agent`].
pub fn signing_key(
    agent: &Agent,
    cert: &openpgp::Cert,
    rules: Rules,
    now: u32,
) -> Result<SigningKey, Error> {
    let mut keys = usable(cert, Purpose::Sign, rules, &mut |_| None, now)?.keys;
    keys.retain(|key| key.pk_algo().is_supported());
    keys.sort_by_key(|key| std::cmp::Reverse(key.creation_time()));
    for key in keys {
        if agent.has(&key)? {
            return Ok(SigningKey::from_signer(Box::new(agent.key(key))));
        }
    }
    Err(Error::NoSecret { name: cert.fingerprint().to_hex() })
}

/// The primary key of `cert`, if the key may certify at `now`, in seconds since 1970, and the
/// agent has it.
///
/// # Errors
///
/// [`Error::Message`] if the key may not certify; [`Error::NoSecret`] if the agent does not
/// have it; [`Error::Agent`].
pub fn certifier(
    agent: &Agent,
    cert: &openpgp::Cert,
    rules: Rules,
    now: u32,
) -> Result<Box<dyn Signer>, Error> {
    let name = cert.fingerprint().to_hex();
    make::may_certify(cert, rules, now).map_err(|error| of_make("use", &name, error))?;
    let key = cert.primary_key().key().clone().role_into_unspecified();
    if agent.has(&key)? { Ok(Box::new(agent.key(key))) } else { Err(Error::NoSecret { name }) }
}

/// The decryption keys of all certificates in `stores` whose secret keys the agent has.
///
/// # Errors
///
/// [`Error::Agent`], or errors of reading the stores.
pub fn decryption_keys(
    agent: &Agent,
    stores: &Stores,
    now: u32,
) -> Result<Vec<DecryptionKey>, Error> {
    let keygrips = agent.keygrips()?;
    let mut keys: Vec<DecryptionKey> = Vec::new();
    let mut seen = HashSet::new();
    for grip in &keygrips {
        let certs = match stores.parsed(&Query::Keygrip(grip.0), now) {
            Ok(certs) => certs,
            Err(Error::NotFound { .. }) => continue,
            Err(error) => return Err(error),
        };
        let found = certs.iter().flat_map(|cert| cert.keys().map(move |key| (cert, key)));
        for (cert, key) in found {
            let key = key.key().clone().role_into_unspecified();
            if key.pk_algo().for_encryption()
                && keygrip(&key) == Some(*grip)
                && seen.insert(key.fingerprint())
            {
                keys.push(DecryptionKey::new(Box::new(agent.key(key)), cert.fingerprint()));
            }
        }
    }
    Ok(keys)
}

/// A function that finds an agent when it is called, and the decryption keys as
/// [`decryption_keys`] does, for [`talaria_message::Secrets`]. Passphrases that were
/// given for a message are not tried as PINs.
#[must_use]
pub fn elsewhere(start: Start, given: Vec<Password>, stores: Stores, now: u32) -> Elsewhere {
    Box::new(move |has_passwords| {
        let given = if has_passwords { Vec::new() } else { given.clone() };
        let agent = Agent::find(start, given);
        let agent = agent.map_err(|error| MessageError::Secret(error.into()))?;
        decryption_keys(&agent, &stores, now).map_err(|error| MessageError::Secret(error.into()))
    })
}
