//! `talaria backup client`

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

use super::people::{Action, Person, change};
use crate::context::Context;
use crate::error::CliError;

/// Manage the machines that create snapshots without being able to read them
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let a certificate create snapshots
    Add(Person),
    /// Stop a certificate from creating snapshots
    Remove(Person),
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Add(person) => change(person, Action::AddClient, place, cx),
        Command::Remove(person) => change(person, Action::Remove, place, cx),
    }
}
