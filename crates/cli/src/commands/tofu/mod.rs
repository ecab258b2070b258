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

/// Say which certificate is that of an address, where trust on first use asks
///
/// In the trust models tofu and tofu+pgp, the first certificate that is seen for an address is believed a
/// little. Once there are two for one address, somebody has to say which one is right. Verifying and encrypting
/// record what was seen; listing never writes.
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
