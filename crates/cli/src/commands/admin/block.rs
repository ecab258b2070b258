//! `talaria admin block`

use std::process::ExitCode;

use talaria::store::{Access, Return};

use super::{Digits, Outcomes, announced};
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
    let mut outcomes = Vec::new();
    for digits in &args.fingerprints {
        let fingerprint = digits.known(store)?;
        let is_here = store.row(fingerprint)?.is_some();
        outcomes.push((fingerprint, true, if is_here { "deleted and blocked" } else { "blocked" }));
    }
    let all: Vec<_> = outcomes.iter().map(|(fingerprint, ..)| *fingerprint).collect();
    let what = announced(store, &all, "deletes and blocks")?;
    confirm(cx, args.yes, &what, "Continue?", Unasked::Proceed)?;
    store.delete(&all, Return::Blocked, cx.now.into())?;
    Outcomes(outcomes).print(cx, "block")
}
