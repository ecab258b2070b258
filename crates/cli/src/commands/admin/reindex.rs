//! `talaria admin reindex`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::store::Access;

use crate::context::Context;
use crate::error::CliError;

/// Make all derived tables again from the certificates
///
/// In one transaction, so it is done or not done at all. Lookups go on meanwhile with the old tables;
/// uploads have to wait, and after a minute they are refused, so choose a quiet hour: it takes about
/// as long as `talaria build` from a dump.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let store = stores.writable()?;
    let now = cx.now;
    let report = cx.step("rebuilding indexes", || store.rebuild(now))?;
    let mut out = std::io::stdout().lock();
    if cx.json {
        let findings: Vec<_> = report
            .findings
            .iter()
            .map(|f| serde_json::json!({ "object": f.object, "what": f.what }))
            .collect();
        let json = serde_json::json!({
            "certificates": report.certs, "damaged": report.count, "findings": findings,
        });
        writeln!(out, "{json}")?;
    } else {
        for finding in &report.findings {
            writeln!(out, "{}: {}", finding.object, finding.what)?;
        }
        let path = store.path().display();
        writeln!(out, "{path}: rebuilt the indexes of {} certificates", report.certs)?;
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(4) })
}
