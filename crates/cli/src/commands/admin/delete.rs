//! `talaria admin delete`

use std::process::ExitCode;

use talaria::cert::Summary;
use talaria_server::{Access, Command};

use super::action::{Reason, announced, carry_out, known};
use super::digits::Digits;
use crate::confirm::{Unasked, confirm};
use crate::context::Context;
use crate::error::CliError;

/// Delete certificates without blocking them
///
/// An upload or a gossip peer can bring them back within minutes: use `talaria admin block` to
/// prevent that.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Fingerprints of the certificates
    #[arg(value_name = "FINGERPRINT", required = true)]
    fingerprints: Vec<Digits>,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    reason: Reason,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let operator = cx.operator(Access::Write)?;
    let all = known(&args.fingerprints, &operator)?;
    let here = operator.summaries(&all)?;
    let here: Vec<_> = here.iter().map(Summary::fingerprint).collect();
    confirm(cx, args.yes, &announced(&operator, &here, "deletes")?, "Continue?", Unasked::Proceed)?;
    carry_out(&operator, cx, &args.reason, &all, &Command::Delete)
}
