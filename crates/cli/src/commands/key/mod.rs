//! `talaria key`

mod add_subkey;
mod add_user_id;
mod check;
mod delete;
mod expire;
mod export;
mod generate;
mod import;
mod list;
mod passphrase;
mod protection;
mod publish;
mod renew;
mod report;
mod revoke;

use std::process::ExitCode;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;

/// Manage your secret keys
///
/// Secret keys are kept in a folder of their own, one file per key, protected by a passphrase.
/// Their certificates (public keys) are in the store.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(generate::Args),
    List(list::Args),
    Import(import::Args),
    Export(export::Args),
    Passphrase(passphrase::Args),
    AddSubkey(add_subkey::Args),
    AddUserId(add_user_id::Args),
    Check(check::Args),
    Renew(renew::Args),
    Expire(expire::Args),
    Revoke(revoke::Args),
    Delete(delete::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Generate(args) => generate::run(args, cx),
        Command::List(args) => list::run(args, cx),
        Command::Import(args) => import::run(args, cx),
        Command::Export(args) => export::run(args, cx),
        Command::Passphrase(args) => passphrase::run(args, cx),
        Command::AddSubkey(args) => add_subkey::run(args, cx),
        Command::AddUserId(args) => add_user_id::run(args, cx),
        Command::Check(args) => check::run(args, cx),
        Command::Renew(args) => renew::run(args, cx),
        Command::Expire(args) => expire::run(args, cx),
        Command::Revoke(args) => revoke::run(args, cx),
        Command::Delete(args) => delete::run(args, cx),
    }
}
