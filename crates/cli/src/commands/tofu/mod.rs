//! `talaria tofu`

mod conflicts;
mod export;
mod import;
mod info;
mod policy;

use std::process::ExitCode;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;

/// Inspect and resolve conflicts of trust on first use (TOFU)
///
/// In the trust models tofu and tofu+pgp, the first certificate seen for an address is marginally
/// trusted. If a second one appears for the same address, you decide which is right: `talaria tofu
/// policy`. Verifying and encrypting record what was seen; listing does not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Policy(policy::Args),
    Info(info::Args),
    Conflicts(conflicts::Args),
    Import(import::Args),
    Export(export::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Policy(args) => policy::run(args, cx),
        Command::Info(args) => info::run(args, cx),
        Command::Conflicts(args) => conflicts::run(args, cx),
        Command::Import(args) => import::run(args, cx),
        Command::Export(args) => export::run(args, cx),
    }
}
