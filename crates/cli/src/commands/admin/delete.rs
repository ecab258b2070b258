//! `talaria admin delete`

use std::process::ExitCode;

use talaria::store::{Access, Return};

use super::{Digits, Outcomes, announced};
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
    let mut outcomes = Vec::new();
    for digits in &args.fingerprints {
        let fingerprint = digits.known(store)?;
        let is_here = store.row(fingerprint)?.is_some();
        outcomes.push((fingerprint, is_here, if is_here { "deleted" } else { "not here" }));
    }
    let here: Vec<_> = outcomes.iter().filter(|(_, here, _)| *here).map(|(f, ..)| *f).collect();
    confirm(cx, args.yes, &announced(store, &here, "deletes")?, "Continue?", Unasked::Proceed)?;
    store.delete(&here, Return::Allowed, cx.now.into())?;
    Outcomes(outcomes).print(cx, "delete")
}
