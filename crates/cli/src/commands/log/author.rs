//! The author who signs an entry.

use talaria::LogAuthor;
use talaria_log::{EpochKeys, Log};

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

impl SignArgs {
    pub(super) fn epoch_keys(&self, log: &Log, cx: &Context) -> Result<EpochKeys, CliError> {
        epoch_keys(&self.keys, &self.passphrase, log, cx)
    }

    /// The author, ready to sign. The log is opened afterwards, so that nobody waits for it while a
    /// passphrase is typed.
    pub(super) fn author(&self, cx: &Context) -> Result<LogAuthor, CliError> {
        let given = self.passphrase.given()?;
        let key = match &self.sign_with {
            Some(name) => self.keys.signers(std::slice::from_ref(name), &given, cx)?.remove(0),
            None => self.keys.only_signer(given, cx)?,
        };
        let cert = certificate(&key, &self.keys.certs(cx)?, cx)?;
        Ok(LogAuthor::new(cert, key)?)
    }
}
