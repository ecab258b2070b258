//! `talaria trust`

mod check;
mod export;
mod import;
mod path;
mod rules;
mod set;
mod show;

use std::process::ExitCode;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;

/// Manage the web of trust
///
/// Certificates that you certified are valid, and so are those certified by people you trust (owner
/// trust). Keys set to `ultimate` are the trust roots. The web of trust is updated with every
/// import. These commands use the first store.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Args),
    Set(set::Args),
    Show(show::Args),
    Path(path::Args),
    Rules(rules::Args),
    ExportOwnertrust(export::Args),
    ImportOwnertrust(import::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Check(args) => check::run(args, cx),
        Command::Set(args) => set::run(args, cx),
        Command::Show(args) => show::run(args, cx),
        Command::Path(args) => path::run(args, cx),
        Command::Rules(args) => rules::run(args, cx),
        Command::ExportOwnertrust(args) => export::run(args, cx),
        Command::ImportOwnertrust(args) => import::run(args, cx),
    }
}
