//! Questions before actions that cannot be undone.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::context::Context;
use crate::error::CliError;
use crate::paint::harmless;
use crate::stderr::say;

/// The action without `--yes` and without a terminal for the question.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unasked {
    /// Refuse: the action cannot be undone.
    Refuse,
    /// Proceed: another import undoes the action.
    Proceed,
}

/// Asks whether to proceed, unless `yes` is set. `what` describes the action in lines, `question`
/// is the question itself.
///
/// # Errors
///
/// [`CliError::Declined`] if the user says no, [`CliError::Unconfirmed`] if there is no terminal.
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
            Unasked::Refuse => Err(CliError::Unconfirmed {
                what: what.lines().map(str::trim).collect::<Vec<_>>().join(" "),
            }),
        };
    }
    say(format_args!("{}", what.trim_end()));
    let mut err = io::stderr().lock();
    write!(err, "{} [y/N] ", harmless(question))?;
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
