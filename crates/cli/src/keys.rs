//! Secret keys for commands: from the key store, from files, and from gpg-agent.

use std::path::PathBuf;

use talaria::agent::{self, Start};
use talaria::keys::read_keys;
use talaria::message::openpgp::Cert;
use talaria::message::openpgp::crypto::Password;
use talaria::message::openpgp::packet::Key;
use talaria::message::openpgp::packet::key::{PublicParts, UnspecifiedRole};
use talaria::message::{DecryptionKey, Elsewhere, SigningKey, decryption_keys};
use talaria::store::Access;
use talaria::{Certifier, Error, LockedKey, OwnKeys, with_key};

use crate::context::Context;
use crate::error::CliError;
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
        self.choose(given.to_vec(), cx, |keys| keys.signers(wanted, ask))
    }

    /// The only key that can sign.
    pub(crate) fn only_signer(
        &self,
        given: Vec<Password>,
        cx: &Context,
    ) -> Result<SigningKey, CliError> {
        self.choose(given, cx, |keys| keys.only_signer(ask))
    }

    /// The key to certify with: the one called `wanted`, or the only one that can certify.
    pub(crate) fn certifier(
        &self,
        wanted: Option<&str>,
        given: Vec<Password>,
        cx: &Context,
    ) -> Result<Certifier, CliError> {
        self.choose(given, cx, |keys| keys.certifier(wanted, ask))
    }

    /// Chooses among the user's keys, with what the stores know of them if there is a store.
    fn choose<T>(
        &self,
        given: Vec<Password>,
        cx: &Context,
        choice: impl FnOnce(&OwnKeys<'_>) -> Result<T, Error>,
    ) -> Result<T, CliError> {
        let certs = self.certs(cx)?;
        let stores = cx.stores(Access::Read);
        let keys = OwnKeys::new(certs, stores.as_ref().ok(), cx.rules(), cx.now)?
            .with_agent(self.agent())
            .with_passphrases(given);
        match (choice(&keys), stores) {
            // The certificates of keys in the agent are in the store.
            (Err(Error::NoKey { .. }), Err(no_store)) if self.gpg_agent => Err(no_store),
            (chosen, _) => Ok(chosen?),
        }
    }

    fn agent(&self) -> Option<Start> {
        self.gpg_agent.then_some(Start::IfAbsent)
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
        let elsewhere = |start| -> Result<_, CliError> {
            Ok(agent::elsewhere(start, given.to_vec(), cx.stores(Access::Read)?, cx.now))
        };
        Ok((keys, self.agent().map(elsewhere).transpose()?))
    }
}

/// The certificate with a signing key: one of `own`, or one of the store.
pub(crate) fn certificate(
    signer: &SigningKey,
    own: &[Cert],
    cx: &Context,
) -> Result<Cert, CliError> {
    let key = signer.public().fingerprint();
    match with_key(own, &key) {
        Some(cert) => Ok(cert.clone()),
        None => Ok(cx.stores(Access::Read)?.owner_of_key(&key, cx.now)?),
    }
}

/// A function that gives the passphrases from the options, then asks the user. Prompts use the
/// names in `certs`.
pub(crate) fn unlocker(
    given: Vec<Password>,
    certs: &[Cert],
) -> impl FnMut(usize, &Key<PublicParts, UnspecifiedRole>) -> Option<Password> + Send + use<> {
    talaria::unlocker(given, certs, ask)
}

/// Asks the user for the passphrase of a key.
fn ask(key: &LockedKey<'_>) -> Option<Password> {
    let again = if key.again { "Wrong passphrase. " } else { "" };
    let owner = key.owner.map(|name| format!("{name}, ")).unwrap_or_default();
    passphrase::ask(&format!("{again}Passphrase of {owner}key {}", key.id.to_hex()))
}
