//! `talaria peer`

mod add;
mod again;
mod list;
mod probe;
mod remove;
mod settings;
mod sync;
mod target;

use std::process::ExitCode;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;

/// Manage the gossip peers of a keyserver
///
/// Peers are kept in the store; a running server notices changes. With --config, the peers of the
/// configuration and of its membership file are included.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(add::Args),
    Again(again::Args),
    List(list::Args),
    Remove(remove::Args),
    Probe(probe::Args),
    Sync(sync::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Add(args) => add::run(args, cx),
        Command::Again(args) => again::run(args, cx),
        Command::List(args) => list::run(args, cx),
        Command::Remove(args) => remove::run(args, cx),
        Command::Probe(args) => probe::run(args, cx),
        Command::Sync(args) => sync::run(args, cx),
    }
}
