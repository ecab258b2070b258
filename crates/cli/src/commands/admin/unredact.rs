//! `talaria admin unredact`

use std::process::ExitCode;

use talaria::store::Access;

use super::{Digits, Outcomes};
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
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let store = stores.writable()?;
    let mut outcomes = Vec::new();
    for digits in &args.fingerprints {
        let fingerprint = digits.known(store)?;
        let was = store.operator_mut().unredact(fingerprint)? > 0;
        outcomes.push((fingerprint, was, if was { "unredacted" } else { "not redacted" }));
    }
    Outcomes(outcomes).print(cx, "unredact")
}
