//! The author who signs an entry.

use talaria::message::SigningKey;
use talaria::message::openpgp::Cert;
use talaria_log::{Action, ChainName, EntryId, EpochKeys, KeyName, Log, LogFolder, Maker};

use super::reading::epoch_keys;
use crate::context::Context;
use crate::error::CliError;
use crate::keys::{KeyArgs, certificate};
use crate::passphrase::PassphraseArgs;

/// The key that signs an entry.
#[derive(Debug, clap::Args)]
pub(super) struct SignArgs {
    /// Key to sign with [default: your only key]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// An author, ready to sign. The log is opened afterwards, so that nobody waits for it while a
/// passphrase is typed.
pub(super) struct Author {
    pub(super) cert: Cert,
    key: SigningKey,
    chain: ChainName,
}

impl SignArgs {
    pub(super) fn epoch_keys(&self, log: &Log, cx: &Context) -> Result<EpochKeys, CliError> {
        epoch_keys(&self.keys, &self.passphrase, log, cx)
    }

    pub(super) fn author(&self, cx: &Context) -> Result<Author, CliError> {
        let given = self.passphrase.given()?;
        let key = match &self.sign_with {
            Some(name) => self.keys.signers(std::slice::from_ref(name), &given, cx)?.remove(0),
            None => self.keys.only_signer(given, cx)?,
        };
        let cert = certificate(&key, &self.keys.certs(cx)?, cx)?;
        let named = |name: Option<KeyName>| {
            name.ok_or_else(|| {
                CliError::Usage(format!(
                    "keys of versions 4 and 6 sign entries; {} has another version",
                    cert.fingerprint().to_hex()
                ))
            })
        };
        let author = named(KeyName::of_openpgp(&cert.fingerprint()))?;
        let subkey = named(KeyName::of_openpgp(&key.public().fingerprint()))?;
        // A folder has its instance.
        let chain = ChainName { author, subkey, instance: [0; 16] };
        Ok(Author { cert, key, chain })
    }
}

impl Author {
    pub(super) fn maker(&mut self) -> Maker<'_> {
        Maker { chain: self.chain, key: &mut self.key }
    }

    /// Writes one operation on the log itself.
    pub(super) fn put(
        &mut self,
        log: &LogFolder,
        action: Action,
        cx: &Context,
    ) -> Result<EntryId, CliError> {
        Ok(log.put_action(&mut self.maker(), action, cx.now_ms())?)
    }
}
