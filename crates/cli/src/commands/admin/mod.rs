//! `talaria admin`

mod action;
mod backup;
mod block;
mod delete;
pub(crate) mod digits;
mod list;
mod log;
mod redact;
mod reindex;
mod restore;
mod set_aside;
mod unblock;
mod unredact;

use std::process::ExitCode;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;

/// Administer a keyserver: delete, block, redact, back up
///
/// The server can keep running; it sees changes at once. Certificates are given by the full
/// fingerprint of their primary key.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Delete(delete::Args),
    Block(block::Args),
    Unblock(unblock::Args),
    Redact(redact::Args),
    Unredact(unredact::Args),
    List(list::Args),
    Log(log::Args),
    Reindex(reindex::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    SetAside(set_aside::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Delete(args) => delete::run(args, cx),
        Command::Block(args) => block::run(args, cx),
        Command::Unblock(args) => unblock::run(args, cx),
        Command::Redact(args) => redact::run(args, cx),
        Command::Unredact(args) => unredact::run(args, cx),
        Command::List(args) => list::run(args, cx),
        Command::Log(args) => log::run(args, cx),
        Command::Reindex(args) => reindex::run(args, cx),
        Command::Backup(args) => backup::run(args, cx),
        Command::Restore(args) => restore::run(args, cx),
        Command::SetAside(args) => set_aside::run(args, cx),
    }
}
