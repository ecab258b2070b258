//! `talaria admin reindex`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::store::Access;

use crate::context::Context;
use crate::error::CliError;

/// Rebuild all indexes from the certificates
///
/// Runs in one transaction. Lookups use the old indexes meanwhile; uploads wait, and are refused after a minute, so
/// choose a quiet hour: it takes about as long as `talaria build` from a dump.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let store = stores.writable()?;
    let now = cx.now;
    let report = cx.step("rebuilding indexes", || store.rebuild(now.into()))?;
    let mut out = cx.report_stdout();
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
