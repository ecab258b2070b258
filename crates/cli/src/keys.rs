//! Secret keys for commands: from the key store, from files, and from gpg-agent.

use std::path::PathBuf;
use std::slice;

use talaria::agent::{Agent, Start};
use talaria::keys::{can_certify, can_sign, certifier, names, read_keys};
use talaria::message::openpgp::crypto::{Password, Signer};
use talaria::message::openpgp::packet::Key;
use talaria::message::openpgp::packet::key::{PublicParts, UnspecifiedRole};
use talaria::message::openpgp::{Cert, Fingerprint};
use talaria::message::{
    DecryptionKey, Elsewhere, MessageError, SigningKey, decryption_keys, signing_key,
};
use talaria::store::{Access, Query};
use talaria::{Error, described};

use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;
use crate::{descriptor, passphrase};

/// Sources of secret keys besides the key store.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct KeyArgs {
    /// Also use the secret keys in FILE (can be repeated)
    #[arg(long, value_name = "FILE")]
    key_file: Vec<PathBuf>,
    /// Also use keys and smartcards of gpg-agent, starting it if necessary
    #[arg(long)]
    gpg_agent: bool,
}

impl KeyArgs {
    /// All certificates with secret keys, without duplicates.
    pub(crate) fn certs(&self, cx: &Context) -> Result<Vec<Cert>, CliError> {
        let store = cx.keys()?;
        let mut certs: Vec<Cert> = Vec::new();
        for path in &self.key_file {
            let name = path.display().to_string();
            let file = descriptor::open(path).map_err(|source| Error::Io {
                action: "read",
                name: name.clone(),
                source,
            })?;
            certs.extend(read_keys(file, &name)?);
        }
        for cert in store.list()? {
            if certs.iter().all(|other| other.fingerprint() != cert.fingerprint()) {
                certs.push(cert);
            }
        }
        Ok(certs)
    }

    /// The keys called `names`, ready to sign.
    pub(crate) fn signers(
        &self,
        wanted: &[String],
        given: &[Password],
        cx: &Context,
    ) -> Result<Vec<SigningKey>, CliError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let certs = refreshed(self.certs(cx)?, cx)?;
        let mut ask = unlocker(given.to_vec(), &certs);
        let mut signers = Vec::with_capacity(wanted.len());
        for name in wanted {
            let query: Query = name.parse().map_err(Error::from)?;
            let mut matching: Vec<&Cert> =
                certs.iter().filter(|cert| names(&query, cert)).collect();
            if matching.len() > 1 {
                // The name may also match an old key that cannot sign any more.
                let usable = |cert: &&Cert| can_sign(cert, cx.rules(), cx.now);
                if matching.iter().any(usable) {
                    matching.retain(usable);
                }
            }
            signers.push(match matching[..] {
                [] => self.in_agent(&query, given.to_vec(), cx)?,
                // The agent may have the secrets of the keys that are missing here.
                [cert] if self.gpg_agent && !can_sign(cert, cx.rules(), cx.now) => {
                    self.in_agent(&query, given.to_vec(), cx)?
                }
                [cert] => {
                    refuse_revoked(cert, cx)?;
                    signing_key(cert, cx.rules(), cx.now, &mut ask)?
                }
                _ => return Err(ambiguous(name, &matching)),
            });
        }
        Ok(signers)
    }

    /// The only key that can sign.
    pub(crate) fn only_signer(
        &self,
        given: Vec<Password>,
        cx: &Context,
    ) -> Result<SigningKey, CliError> {
        let certs = refreshed(self.certs(cx)?, cx)?;
        let usable = certs.iter().filter(|cert| can_sign(cert, cx.rules(), cx.now));
        match usable.collect::<Vec<_>>()[..] {
            [cert] => {
                refuse_revoked(cert, cx)?;
                let mut ask = unlocker(given, slice::from_ref(cert));
                Ok(signing_key(cert, cx.rules(), cx.now, &mut ask)?)
            }
            [] => Err(CliError::NoSigner),
            ref many => Err(CliError::WhichSigner {
                can: "sign",
                candidates: many.iter().map(|cert| described(cert)).collect(),
            }),
        }
    }

    /// The key to certify with: the one called `wanted`, or the only one that can certify.
    pub(crate) fn certifier(
        &self,
        wanted: Option<&str>,
        given: Vec<Password>,
        cx: &Context,
    ) -> Result<Certifier, CliError> {
        let certs = refreshed(self.certs(cx)?, cx)?;
        let query: Option<Query> = wanted.map(str::parse).transpose().map_err(Error::from)?;
        let is_wanted = |cert: &&Cert| query.as_ref().is_none_or(|query| names(query, cert));
        let mut matching: Vec<&Cert> = certs.iter().filter(is_wanted).collect();
        let usable = |cert: &&Cert| can_certify(cert, cx.rules(), cx.now);
        if query.is_none() || matching.iter().any(usable) {
            matching.retain(usable);
        }
        match (&matching[..], &query) {
            ([cert], _) if usable(cert) || !self.gpg_agent => {
                refuse_revoked(cert, cx)?;
                let (cert, now, rules) = ((*cert).clone(), cx.now, cx.rules());
                let of = cert.clone();
                let unlock = Box::new(move || {
                    certifier(&of, rules, now, &mut unlocker(given, slice::from_ref(&of)))
                });
                Ok(Certifier { cert, unlock })
            }
            ([] | [_], Some(query)) => self.certifier_in_agent(query, given, cx),
            ([] | [_], None) => Err(CliError::NoCertifier),
            (many, Some(query)) => Err(ambiguous(&query.to_string(), many)),
            (many, None) => Err(CliError::WhichSigner {
                can: "certify",
                candidates: many.iter().map(|cert| described(cert)).collect(),
            }),
        }
    }

    /// The primary key of a certificate in the store that can certify and whose secret is in the
    /// agent.
    fn certifier_in_agent(
        &self,
        query: &Query,
        given: Vec<Password>,
        cx: &Context,
    ) -> Result<Certifier, CliError> {
        let missing = || CliError::from(Error::NoKey { query: query.to_string() });
        if !self.gpg_agent {
            return Err(missing());
        }
        let agent = Agent::find(Start::IfAbsent, given).map_err(Error::from)?;
        let certs = match cx.stores(Access::Read)?.parsed(query, cx.now) {
            Ok(certs) => certs,
            Err(Error::NotFound { .. }) => return Err(missing()),
            Err(error) => return Err(error.into()),
        };
        let mut found = Vec::new();
        for cert in certs {
            match agent.certifier(&cert, cx.rules(), cx.now) {
                Ok(signer) => found.push((cert, signer)),
                Err(Error::NoSecret { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match (found.pop(), &found[..]) {
            (Some((cert, signer)), []) => {
                refuse_revoked(&cert, cx)?;
                Ok(Certifier { cert, unlock: Box::new(move || Ok(signer)) })
            }
            (None, _) => Err(missing()),
            (Some((cert, _)), rest) => {
                let certs: Vec<&Cert> = rest.iter().map(|(cert, _)| cert).chain([&cert]).collect();
                Err(ambiguous(&query.to_string(), &certs))
            }
        }
    }

    /// All decryption keys, and a function that asks the agent for others if the user wants the
    /// agent.
    pub(crate) fn decryption(
        &self,
        given: &[Password],
        cx: &Context,
    ) -> Result<(Vec<DecryptionKey>, Option<Elsewhere>), CliError> {
        let certs = self.certs(cx)?;
        let keys = decryption_keys(&certs, unlocker(given.to_vec(), &certs));
        if !self.gpg_agent {
            return Ok((keys, None));
        }
        let stores = cx.stores(Access::Read)?;
        let (given, now) = (given.to_vec(), cx.now);
        let elsewhere = move |has_passwords: bool| {
            // Passphrases given for the message must not be tried as PINs.
            let given = if has_passwords { Vec::new() } else { given.clone() };
            let agent = Agent::find(Start::IfAbsent, given)
                .map_err(|error| MessageError::Secret(error.into()))?;
            agent.decryption_keys(&stores, now).map_err(|error| MessageError::Secret(error.into()))
        };
        Ok((keys, Some(Box::new(elsewhere))))
    }

    /// A signing key of a certificate in the store whose secret is in the agent.
    fn in_agent(
        &self,
        query: &Query,
        given: Vec<Password>,
        cx: &Context,
    ) -> Result<SigningKey, CliError> {
        let missing = || Error::NoKey { query: query.to_string() };
        if !self.gpg_agent {
            return Err(missing().into());
        }
        let agent = Agent::find(Start::IfAbsent, given).map_err(Error::from)?;
        let stores = cx.stores(Access::Read)?;
        let certs = match stores.parsed(query, cx.now) {
            Ok(certs) => certs,
            Err(Error::NotFound { .. }) => return Err(missing().into()),
            Err(error) => return Err(error.into()),
        };
        let mut found = Vec::new();
        let mut refused = None;
        for cert in &certs {
            match agent.signing_key(cert, cx.rules(), cx.now) {
                Ok(key) => found.push((cert, key)),
                Err(Error::NoSecret { .. }) => {}
                Err(error) => refused = Some(error),
            }
        }
        match (found.len(), refused) {
            (0, Some(error)) => Err(error.into()),
            (0, None) => Err(missing().into()),
            (1, _) => {
                let (cert, key) = found.remove(0);
                refuse_revoked(cert, cx)?;
                Ok(key)
            }
            _ => {
                let certs: Vec<&Cert> = found.iter().map(|(cert, _)| *cert).collect();
                Err(ambiguous(&query.to_string(), &certs))
            }
        }
    }
}

/// The certificate with a signing key: one of `own`, or one of the store.
pub(crate) fn certificate(
    signer: &SigningKey,
    own: &[Cert],
    cx: &Context,
) -> Result<Cert, CliError> {
    let fingerprint = signer.public().fingerprint();
    let has = |cert: &&Cert| cert.keys().any(|key| key.key().fingerprint() == fingerprint);
    if let Some(cert) = own.iter().find(has) {
        return Ok(cert.clone());
    }
    let query = format!("0x{}", fingerprint.to_hex()).parse().map_err(Error::from)?;
    let found = cx.stores(Access::Read)?.parsed(&query, cx.now)?;
    found.iter().find(has).cloned().ok_or_else(|| {
        CliError::Missing(format!(
            "the certificate of the key {} is not in the store",
            fingerprint.to_hex()
        ))
    })
}

/// Checks that no designated revoker in the stores has revoked `cert`.
pub(crate) fn refuse_revoked(cert: &Cert, cx: &Context) -> Result<(), CliError> {
    let Ok(stores) = cx.stores(Access::Read) else { return Ok(()) };
    Ok(stores.refuse_revoked(cert, cx.rules(), cx.now)?)
}

/// A key that can certify, still locked.
pub(crate) struct Certifier {
    pub(crate) cert: Cert,
    pub(crate) unlock: Box<dyn FnOnce() -> Result<Box<dyn Signer>, Error>>,
}

/// Updates keys with the store's knowledge, such as a revocation or a later expiry time. Without a
/// store the keys stay unchanged.
fn refreshed(certs: Vec<Cert>, cx: &Context) -> Result<Vec<Cert>, CliError> {
    let Ok(stores) = cx.stores(Access::Read) else { return Ok(certs) };
    certs.into_iter().map(|cert| Ok(stores.refreshed(cert, cx.now)?)).collect()
}

/// The keys of a certificate, and its name for a terminal.
fn owned(cert: &Cert) -> Option<(Vec<Fingerprint>, String)> {
    let name = cert.userids().next().map(|id| printable(id.userid().value()))?;
    Some((cert.keys().map(|key| key.key().fingerprint()).collect(), name))
}

fn ambiguous(name: &str, certs: &[&Cert]) -> CliError {
    CliError::Ambiguous {
        query: name.to_owned(),
        count: certs.len().to_string(),
        candidates: certs.iter().map(|cert| described(cert)).collect(),
    }
}

/// A function that gives the passphrases from the options, then asks the user. A passphrase that
/// the user typed for one key is tried on the next before the user is asked again. Prompts use the
/// names in `certs`.
pub(crate) fn unlocker(
    given: Vec<Password>,
    certs: &[Cert],
) -> impl FnMut(usize, &Key<PublicParts, UnspecifiedRole>) -> Option<Password> + Send + use<> {
    const TRIES: usize = 3;
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
        let again = if asked > known_before { "Wrong passphrase. " } else { "" };
        let fingerprint = key.fingerprint();
        let owner = owners.iter().find(|(keys, _)| keys.contains(&fingerprint));
        let owner = owner.map(|(_, name)| format!("{name}, ")).unwrap_or_default();
        let id = key.keyid().to_hex();
        let password = passphrase::ask(&format!("{again}Passphrase of {owner}key {id}"))?;
        known.push(password.clone());
        Some(password)
    }
}
