//! Secret keys for commands: from the key store, from files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use talaria::message::openpgp::cert::CertParser;
use talaria::message::openpgp::crypto::Password;
use talaria::message::openpgp::packet::Key;
use talaria::message::openpgp::packet::key::{PublicParts, UnspecifiedRole};
use talaria::message::openpgp::parse::Parse as _;
use talaria::message::openpgp::{Cert, KeyHandle};
use talaria::message::{DecryptionKey, SigningKey, decryption_keys, signing_key};

use crate::context::Context;
use crate::error::CliError;
use crate::passphrase;

/// Where secret keys come from.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct KeyArgs {
    /// Use the secret keys in a file, too; can be repeated
    #[arg(long, value_name = "FILE")]
    key_file: Vec<PathBuf>,
}

impl KeyArgs {
    /// All certificates with secret keys.
    fn certs(&self) -> Result<Vec<Cert>, CliError> {
        let mut certs = Vec::new();
        for path in &self.key_file {
            let name = path.display().to_string();
            let unreadable = |_| talaria::Error::Unrecognised {
                name: name.clone(),
                what: "not a file with OpenPGP keys",
            };
            let file = std::fs::File::open(path).map_err(|source| talaria::Error::Io {
                action: "read",
                name: name.clone(),
                source,
            })?;
            for cert in CertParser::from_reader(file).map_err(unreadable)? {
                certs.push(cert.map_err(unreadable)?);
            }
        }
        Ok(certs.into_iter().filter(Cert::is_tsk).collect())
    }

    /// The keys called `names`, ready to sign.
    pub(crate) fn signers(
        &self,
        names: &[String],
        given: Vec<Password>,
        cx: &Context,
    ) -> Result<Vec<SigningKey>, CliError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let certs = self.certs()?;
        let mut ask = unlocker(given);
        names
            .iter()
            .map(|name| {
                let matching: Vec<&Cert> =
                    certs.iter().filter(|cert| is_called(cert, name)).collect();
                match matching[..] {
                    [cert] => Ok(signing_key(cert, cx.policy(), cx.now, &mut ask)?),
                    [] => Err(CliError::Missing(format!("there is no secret key called {name}"))),
                    _ => Err(CliError::Ambiguous {
                        query: name.clone(),
                        count: matching.len().to_string(),
                        candidates: matching.iter().map(|cert| cert.fingerprint().to_hex()).collect(),
                    }),
                }
            })
            .collect()
    }

    /// All keys that decrypt.
    pub(crate) fn decryption(
        &self,
        given: Vec<Password>,
        _cx: &Context,
    ) -> Result<Vec<DecryptionKey>, CliError> {
        let ask = Arc::new(Mutex::new(unlocker(given)));
        Ok(self.certs()?.iter().flat_map(|cert| decryption_keys(cert, &ask)).collect())
    }
}

/// Gives the passphrases that were given, then those of the user.
fn unlocker(
    given: Vec<Password>,
) -> impl FnMut(usize, &Key<PublicParts, UnspecifiedRole>) -> Option<Password> + Send + 'static {
    const TRIES: usize = 3;
    move |asked, key| {
        given.get(asked).cloned().or_else(|| {
            let again = if asked > given.len() { " (that was not it)" } else { "" };
            let prompt = format!("Passphrase of key {}{again}", key.keyid().to_hex());
            (asked < given.len() + TRIES).then(|| passphrase::ask(&prompt)).flatten()
        })
    }
}

/// Whether a certificate is called that: by fingerprint, key ID, or a part of a user ID.
fn is_called(cert: &Cert, name: &str) -> bool {
    let by_handle = name
        .trim_start_matches("0x")
        .parse::<KeyHandle>()
        .is_ok_and(|handle| cert.keys().any(|key| key.key().key_handle().aliases(&handle)));
    let folded = name.to_lowercase();
    by_handle
        || cert.userids().any(|id| {
            String::from_utf8_lossy(id.userid().value()).to_lowercase().contains(&folded)
        })
}
