//! Questions before something that cannot be undone.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::context::Context;
use crate::error::CliError;

/// What is done without `--yes` where there is no terminal to ask on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unasked {
    /// It is refused: it cannot be undone.
    Refuse,
    /// It is done: another import brings it back.
    Proceed,
}

/// Asks whether to go on, unless `yes` was said. `what` are lines on what is about to be done, `question` is the
/// question itself.
///
/// # Errors
///
/// [`CliError::Declined`] if the user says no, [`CliError::Unconfirmed`] if there is nobody to ask.
pub(crate) fn confirm(
    cx: &Context,
    yes: bool,
    what: &str,
    question: &str,
    unasked: Unasked,
) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return match unasked {
            Unasked::Proceed => Ok(()),
            Unasked::Refuse => Err(CliError::Unconfirmed { what: what.trim_end().to_owned() }),
        };
    }
    let mut err = io::stderr().lock();
    write!(err, "{}\n{question} [y/N] ", what.trim_end())?;
    err.flush()?;
    drop(err);
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes" | "Yes") {
        return Ok(());
    }
    cx.status(format_args!("Nothing was changed."));
    Err(CliError::Declined)
}
