//! Which secret key signs and which certifies: one that is named, or the only one that can.
//!
//! The keys come from the key store, from files, or from gpg-agent. What the stores know of them
//! counts: a revocation, or a later expiry date.

use openpgp::Cert;
use openpgp::crypto::{Password, Signer};
use talaria_message::{Rules, SigningKey, openpgp, signing_key};
use talaria_store::Query;

use crate::agent::{self, Agent, Start};
use crate::error::Error;
use crate::keys::questions::{can_certify, can_sign, certifier, names};
use crate::parsed::described;
use crate::stores::Stores;
use crate::unlocking::{LockedKey, unlocker};

/// The user's secret keys, among which signers are chosen.
pub struct OwnKeys<'s> {
    certs: Vec<Cert>,
    stores: Option<&'s Stores>,
    /// Whether gpg-agent is asked for keys whose secrets are missing here.
    agent: Option<Start>,
    given: Vec<Password>,
    rules: Rules,
    now: u32,
}

/// A key that can certify, still locked.
pub struct Certifier {
    /// The certificate of the key.
    pub cert: Cert,
    /// Unlocks the key.
    pub unlock: Box<dyn FnOnce() -> Result<Box<dyn Signer>, Error>>,
}

impl<'s> OwnKeys<'s> {
    /// The keys in `certs`, with what the stores know of them, as of `now` in seconds since 1970.
    ///
    /// # Errors
    ///
    /// Errors of reading the stores.
    pub fn new(
        certs: Vec<Cert>,
        stores: Option<&'s Stores>,
        rules: Rules,
        now: u32,
    ) -> Result<Self, Error> {
        let refreshed = |cert| match stores {
            Some(stores) => stores.refreshed(cert, now),
            None => Ok(cert),
        };
        let certs = certs.into_iter().map(refreshed).collect::<Result<_, _>>()?;
        Ok(Self { certs, stores, agent: None, given: Vec::new(), rules, now })
    }

    /// The same keys, and those in gpg-agent of which the stores have the certificates.
    #[must_use]
    pub fn with_agent(self, agent: Option<Start>) -> Self {
        Self { agent, ..self }
    }

    /// The same keys, on which these passphrases are tried before anybody is asked for one.
    #[must_use]
    pub fn with_passphrases(self, given: Vec<Password>) -> Self {
        Self { given, ..self }
    }

    /// The keys with these names, ready to sign. `ask` asks for the passphrase of a locked key. If
    /// a name matches several keys, those that cannot sign any more are left out.
    ///
    /// # Errors
    ///
    /// [`Error::NoKey`]; [`Error::Ambiguous`]; [`Error::Message`] if the key is revoked, cannot
    /// sign or stays locked; [`Error::Agent`]; errors of reading the stores.
    pub fn signers<A>(&self, wanted: &[String], ask: A) -> Result<Vec<SigningKey>, Error>
    where
        A: FnMut(&LockedKey<'_>) -> Option<Password> + Send,
    {
        let mut ask = unlocker(self.given.clone(), &self.certs, ask);
        let mut signers = Vec::with_capacity(wanted.len());
        for name in wanted {
            let query: Query = name.parse()?;
            let mut matching: Vec<&Cert> =
                self.certs.iter().filter(|cert| names(&query, cert)).collect();
            if matching.len() > 1 && matching.iter().any(|cert| self.can_sign(cert)) {
                matching.retain(|cert| self.can_sign(cert));
            }
            signers.push(match matching[..] {
                [] => self.in_agent(&query, agent::signing_key)?.1,
                // The agent may have the secrets of the keys that are missing here.
                [cert] if self.agent.is_some() && !self.can_sign(cert) => {
                    self.in_agent(&query, agent::signing_key)?.1
                }
                [cert] => {
                    self.refuse_revoked(cert)?;
                    signing_key(cert, self.rules, self.now, &mut ask)?
                }
                _ => return Err(ambiguous(name, &matching)),
            });
        }
        Ok(signers)
    }

    /// The only key that can sign.
    ///
    /// # Errors
    ///
    /// [`Error::NoSigner`]; [`Error::WhichSigner`]; [`Error::Message`] if the key is revoked or
    /// stays locked; errors of reading the stores.
    pub fn only_signer<A>(&self, ask: A) -> Result<SigningKey, Error>
    where
        A: FnMut(&LockedKey<'_>) -> Option<Password> + Send,
    {
        let usable: Vec<&Cert> = self.certs.iter().filter(|cert| self.can_sign(cert)).collect();
        match usable[..] {
            [cert] => {
                self.refuse_revoked(cert)?;
                let mut ask = unlocker(self.given.clone(), std::slice::from_ref(cert), ask);
                Ok(signing_key(cert, self.rules, self.now, &mut ask)?)
            }
            [] => Err(Error::NoSigner),
            ref many => Err(Error::WhichSigner { can: "sign", candidates: all_described(many) }),
        }
    }

    /// The key to certify with: the one called `wanted`, or the only one that can certify.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::signers`]; [`Error::NoCertifier`]; [`Error::WhichSigner`].
    pub fn certifier<A>(&self, wanted: Option<&str>, ask: A) -> Result<Certifier, Error>
    where
        A: FnMut(&LockedKey<'_>) -> Option<Password> + Send + 'static,
    {
        let query: Option<Query> = wanted.map(str::parse).transpose()?;
        let is_wanted = |cert: &&Cert| query.as_ref().is_none_or(|query| names(query, cert));
        let mut matching: Vec<&Cert> = self.certs.iter().filter(is_wanted).collect();
        let usable = |cert: &&Cert| can_certify(cert, self.rules, self.now);
        if query.is_none() || matching.iter().any(usable) {
            matching.retain(usable);
        }
        match (&matching[..], &query) {
            ([cert], _) if usable(cert) || self.agent.is_none() => {
                self.refuse_revoked(cert)?;
                let (cert, of) = ((*cert).clone(), (*cert).clone());
                let (rules, now, given) = (self.rules, self.now, self.given.clone());
                let unlock = Box::new(move || {
                    let mut ask = unlocker(given, std::slice::from_ref(&of), ask);
                    certifier(&of, rules, now, &mut ask)
                });
                Ok(Certifier { cert, unlock })
            }
            ([] | [_], Some(query)) => {
                let (cert, signer) = self.in_agent(query, agent::certifier)?;
                Ok(Certifier { cert, unlock: Box::new(move || Ok(signer)) })
            }
            ([] | [_], None) => Err(Error::NoCertifier),
            (many, Some(query)) => Err(ambiguous(&query.to_string(), many)),
            (many, None) => {
                Err(Error::WhichSigner { can: "certify", candidates: all_described(many) })
            }
        }
    }

    /// The only certificate in the stores with this name that has a key in the agent, and the key
    /// that `find` returns of it.
    fn in_agent<K>(
        &self,
        query: &Query,
        find: fn(&Agent, &Cert, Rules, u32) -> Result<K, Error>,
    ) -> Result<(Cert, K), Error> {
        let missing = || Error::NoKey { query: query.to_string() };
        let agent = Agent::find(self.agent.ok_or_else(missing)?, self.given.clone())?;
        let certs = match self.stores.ok_or_else(missing)?.parsed(query, self.now) {
            Err(Error::NotFound { .. }) => return Err(missing()),
            certs => certs?,
        };
        let mut found = Vec::new();
        let mut refused = None;
        for cert in certs {
            match find(&agent, &cert, self.rules, self.now) {
                Ok(key) => found.push((cert, key)),
                Err(Error::NoSecret { .. }) => {}
                Err(error) => refused = Some(error),
            }
        }
        if found.len() > 1 {
            let certs: Vec<&Cert> = found.iter().map(|(cert, _)| cert).collect();
            return Err(ambiguous(&query.to_string(), &certs));
        }
        let (cert, key) = found.pop().ok_or_else(|| refused.unwrap_or_else(missing))?;
        self.refuse_revoked(&cert)?;
        Ok((cert, key))
    }

    fn can_sign(&self, cert: &Cert) -> bool {
        can_sign(cert, self.rules, self.now)
    }

    /// Checks that no designated revoker in the stores has revoked `cert`.
    fn refuse_revoked(&self, cert: &Cert) -> Result<(), Error> {
        self.stores.map_or(Ok(()), |stores| stores.refuse_revoked(cert, self.rules, self.now))
    }
}

fn ambiguous(name: &str, certs: &[&Cert]) -> Error {
    Error::Ambiguous { query: name.to_owned(), candidates: all_described(certs) }
}

fn all_described(certs: &[&Cert]) -> Vec<String> {
    certs.iter().map(|cert| described(cert)).collect()
}
