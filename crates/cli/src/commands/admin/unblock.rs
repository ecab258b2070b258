//! `talaria admin unblock`

use std::process::ExitCode;

use talaria::operator::Command;
use talaria::store::Access;

use super::{Digits, carry_out, known};
use crate::context::Context;
use crate::error::CliError;

/// Accept blocked certificates again
///
/// This does not restore them: upload or import them, or wait for a gossip peer.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Fingerprints of the certificates
    #[arg(value_name = "FINGERPRINT", required = true)]
    fingerprints: Vec<Digits>,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let store = stores.writable()?;
    let all = known(&args.fingerprints, store)?;
    carry_out(store, cx, "unblock", &all, &Command::Unblock)
}
