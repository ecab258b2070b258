//! The passphrase of a new key.

use talaria::keys::Protection;

use crate::error::CliError;
use crate::passphrase::{PassphraseArgs, ask_new};

/// The passphrase for a new key: from the options, or from the user.
pub(super) fn new_protection(
    given: &PassphraseArgs,
    no_passphrase: bool,
    prompt: &str,
) -> Result<Protection, CliError> {
    if no_passphrase {
        return Ok(Protection::Unprotected);
    }
    let given = given.given().map_err(|error| match error {
        CliError::EmptyPassphrase { .. } => {
            CliError::Usage(format!("{error}; for a key without a passphrase, use --no-passphrase"))
        }
        error => error,
    })?;
    let password = match &given[..] {
        [] => ask_new(prompt)?,
        [password] => password.clone(),
        _ => {
            return Err(CliError::Usage("a key has one passphrase, but several were given".into()));
        }
    };
    Ok(Protection::Passphrase(password))
}
