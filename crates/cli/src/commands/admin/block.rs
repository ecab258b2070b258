//! `talaria admin block`

use std::process::ExitCode;

use talaria::operator::Command;
use talaria::store::Access;

use super::{Digits, announced, carry_out, known};
use crate::confirm::{Unasked, confirm};
use crate::context::Context;
use crate::error::CliError;

/// Delete certificates and refuse them from now on
///
/// The server refuses uploads and gossip of a blocked certificate. A certificate can be blocked before it is in
/// the store.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Fingerprints of the certificates
    #[arg(value_name = "FINGERPRINT", required = true)]
    fingerprints: Vec<Digits>,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let store = stores.writable()?;
    let all = known(&args.fingerprints, store)?;
    let what = announced(store, &all, "deletes and blocks")?;
    confirm(cx, args.yes, &what, "Continue?", Unasked::Proceed)?;
    carry_out(store, cx, "block", &all, &Command::Block)
}
