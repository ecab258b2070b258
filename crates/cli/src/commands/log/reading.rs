//! Arguments of commands that read a log.

use talaria::message::Secrets;
use talaria_log::{EpochKeys, Log};

use crate::context::Context;
use crate::error::CliError;
use crate::keys::KeyArgs;
use crate::passphrase::PassphraseArgs;

/// An object or one of its fields.
#[derive(Debug, clap::Args)]
pub(super) struct PartArgs {
    /// Object: its name, or its identity
    #[arg(value_name = "OBJECT")]
    pub(super) object: String,
    /// Field [default: all]
    #[arg(value_name = "FIELD")]
    pub(super) field: Option<String>,
}

/// The keys that open encrypted values.
#[derive(Debug, clap::Args)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    pub(super) keys: KeyArgs,
    #[command(flatten)]
    pub(super) passphrase: PassphraseArgs,
}

/// The keys of the epochs of a log that the user's keys open. Without any epoch, nobody's keys are
/// looked at.
pub(super) fn epoch_keys(
    keys: &KeyArgs,
    passphrase: &PassphraseArgs,
    log: &Log,
    cx: &Context,
) -> Result<EpochKeys, CliError> {
    if !log.state().has_epochs() {
        return Ok(EpochKeys::default());
    }
    let (keys, elsewhere) = keys.decryption(&passphrase.given()?, cx)?;
    Ok(EpochKeys::new(Secrets { keys, elsewhere, ..Secrets::default() }))
}

impl ReadArgs {
    pub(super) fn epoch_keys(&self, log: &Log, cx: &Context) -> Result<EpochKeys, CliError> {
        epoch_keys(&self.keys, &self.passphrase, log, cx)
    }
}
