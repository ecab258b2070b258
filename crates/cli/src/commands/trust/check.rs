//! `talaria trust check`

use std::io::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use talaria::store::Access;

use crate::context::Context;
use crate::error::CliError;
use crate::render::counted;

/// Update the web of trust
///
/// Imports and changes of trust update the web of trust automatically, and listings respect expiry
/// dates. This command saves the current state; with --anew it recomputes everything.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Recompute everything and verify every certification again
    #[arg(long)]
    anew: bool,
}

#[derive(Serialize)]
struct Report {
    evaluated: u64,
    computed: u64,
    changed: u64,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let store = stores.writable()?;
    let now = cx.now;
    let check = || store.web_mut().update(args.anew, now.into());
    let report = cx.step("evaluating the web of trust", check).map_err(talaria::Error::from)?;
    let is_on = store.web().rules().map_err(talaria::Error::from)?.is_some();
    let report =
        Report { evaluated: report.evaluated, computed: report.computed, changed: report.changed };
    if cx.json {
        let json = serde_json::to_string(&report).map_err(std::io::Error::from)?;
        writeln!(cx.stdout(), "{json}")?;
    } else if is_on {
        let Report { evaluated, computed, changed } = report;
        cx.status(format_args!(
            "{} evaluated, {} verified, {} changed.",
            counted(evaluated, "certificate"),
            counted(computed, "certification"),
            counted(changed, "validity")
        ));
    } else {
        cx.status(format_args!(
            "There is no trust root yet. Name your own key: talaria trust set KEY ultimate"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
