//! `talaria key delete`

use std::io::{BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use talaria::store::Query;

use super::super::parse_query;
use crate::context::Context;
use crate::error::CliError;

/// Delete a secret key
///
/// What was encrypted to it cannot be read any more, unless there is a copy. The certificate stays in the
/// store.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The key
    #[arg(value_name = "KEY", value_parser = parse_query)]
    query: Query,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let keys = cx.keys()?;
    let fingerprint = keys.one(&args.query)?.fingerprint();
    if !args.yes {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return Err(CliError::Usage("say --yes to delete a secret key for good".into()));
        }
        eprint!("Delete the secret key {} for good? (y/N) ", fingerprint.to_hex());
        let mut line = String::new();
        stdin.lock().read_line(&mut line)?;
        if !matches!(line.trim(), "y" | "Y" | "yes") {
            cx.status(format_args!("Nothing was deleted."));
            return Ok(ExitCode::from(1));
        }
    }
    keys.delete(&fingerprint)?;
    cx.status(format_args!("Deleted {}.", fingerprint.to_hex()));
    Ok(ExitCode::SUCCESS)
}
