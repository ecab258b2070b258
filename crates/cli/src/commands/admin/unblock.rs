//! `talaria admin unblock`

use std::process::ExitCode;

use talaria::store::Access;

use super::{Digits, Outcomes};
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
    let mut outcomes = Vec::new();
    for digits in &args.fingerprints {
        let fingerprint = digits.known(store)?;
        let was = store.operator().is_blocked(fingerprint)?;
        outcomes.push((fingerprint, was, if was { "unblocked" } else { "not blocked" }));
    }
    let all: Vec<_> = outcomes.iter().map(|(fingerprint, ..)| *fingerprint).collect();
    store.operator_mut().unblock(&all)?;
    Outcomes(outcomes).print(cx, "unblock")
}
