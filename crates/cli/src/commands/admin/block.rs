//! `talaria admin block`

use std::process::ExitCode;

use talaria::store::{Access, Return};

use super::{Digits, Outcomes};
use crate::context::Context;
use crate::error::CliError;

/// Delete certificates and keep them out, also ones that are not there
///
/// Whoever brings them later, a client or a gossip peer, they are refused.
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
        let is_here = store.row(fingerprint)?.is_some();
        outcomes.push((fingerprint, true, if is_here { "deleted and blocked" } else { "blocked" }));
    }
    let all: Vec<_> = outcomes.iter().map(|(fingerprint, ..)| *fingerprint).collect();
    store.delete(&all, Return::Blocked, cx.now)?;
    Outcomes(outcomes).print(cx, "block")
}
