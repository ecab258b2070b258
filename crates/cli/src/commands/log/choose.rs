//! `talaria log choose`

use std::path::Path;
use std::process::ExitCode;

use talaria_log::{Action, EntryId};

use super::about::put_about;
use super::author::SignArgs;
use super::identity::parse_entry;
use crate::context::Context;
use crate::error::CliError;

/// Choose a branch after a fork
///
/// A fork is two different entries of one author at one place, as after the restore of a machine.
/// Nothing of this author counts from there on, until an owner names an entry of the branch that
/// counts. `talaria log verify` lists forks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An entry of the branch that counts: its identity
    #[arg(value_name = "ENTRY", value_parser = parse_entry)]
    entry: EntryId,
    #[command(flatten)]
    sign: SignArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    put_about(args.entry, Action::Choose, ("log choose", "Chosen"), (&args.sign, folder), cx)
}
