//! `talaria log approve`

use std::path::Path;
use std::process::ExitCode;

use talaria_log::{Action, EntryId};

use super::about::put_about;
use super::author::SignArgs;
use super::identity::parse_entry;
use crate::context::Context;
use crate::error::CliError;

/// Agree with a grant, a revocation, a choice or a snapshot of another owner
///
/// A log with a threshold above 1 needs several owners for these. Look at the entry first: `talaria
/// log list --grants`. A snapshot is computed again, and only approved if it is right.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Grant, revocation, choice or snapshot: the identity of its entry
    #[arg(value_name = "ENTRY", value_parser = parse_entry)]
    entry: EntryId,
    #[command(flatten)]
    sign: SignArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    put_about(args.entry, Action::Approve, ("log approve", "Approved"), (&args.sign, folder), cx)
}
