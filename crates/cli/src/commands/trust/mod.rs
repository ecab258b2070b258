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

/// Say whose certifications count, and see what follows
///
/// The first key that is set to ultimate begins the web of trust: what it certified becomes valid, and
/// what those certified whom you trust. It is kept up to date with every import. Everything here is about the
/// first store.
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
