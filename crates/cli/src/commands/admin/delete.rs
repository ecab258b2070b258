//! `talaria admin delete`

use std::process::ExitCode;

use talaria::operator::Command;
use talaria::store::Access;

use super::{Digits, announced, carry_out, known};
use crate::confirm::{Unasked, confirm};
use crate::context::Context;
use crate::error::CliError;

/// Delete certificates without blocking them
///
/// An upload or a gossip peer can bring them back within minutes: use `talaria admin block` to prevent that.
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
    let mut here = Vec::new();
    for &fingerprint in &all {
        here.extend(store.row(fingerprint)?.map(|_| fingerprint));
    }
    confirm(cx, args.yes, &announced(store, &here, "deletes")?, "Continue?", Unasked::Proceed)?;
    carry_out(store, cx, "delete", &all, &Command::Delete)
}
