//! `talaria admin unredact`

use std::process::ExitCode;

use talaria_server::{Access, Command};

use super::action::{Reason, carry_out, known};
use super::digits::Digits;
use crate::context::Context;
use crate::error::CliError;

/// Accept redacted user IDs again
///
/// This does not restore them: upload or import the certificates, or wait for a gossip peer.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Fingerprints of the certificates
    #[arg(value_name = "FINGERPRINT", required = true)]
    fingerprints: Vec<Digits>,
    #[command(flatten)]
    reason: Reason,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let operator = cx.operator(Access::Write)?;
    let all = known(&args.fingerprints, &operator)?;
    carry_out(&operator, cx, &args.reason, &all, &Command::Unredact)
}
