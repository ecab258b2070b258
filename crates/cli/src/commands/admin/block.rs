//! `talaria admin block`

use std::process::ExitCode;

use talaria_server::{Access, Command};

use super::action::{Reason, announced, carry_out, known};
use super::digits::Digits;
use crate::confirm::{Unasked, confirm};
use crate::context::Context;
use crate::error::CliError;

/// Delete certificates and refuse them from now on
///
/// The server refuses uploads and gossip of a blocked certificate. A certificate can be blocked
/// before it is in the store.
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
    let what = announced(&operator, &all, "deletes and blocks")?;
    confirm(cx, args.yes, &what, "Continue?", Unasked::Proceed)?;
    carry_out(&operator, cx, &args.reason, &all, &Command::Block)
}
