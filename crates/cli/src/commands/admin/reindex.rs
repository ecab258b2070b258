//! `talaria admin reindex`

use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use talaria::Progress;
use talaria::store::{Access, ReindexProgress, ReindexStep, TextIndex};

use crate::context::Context;
use crate::error::CliError;

/// Rebuild all indexes from the certificates
///
/// Runs in short transactions beside a server: lookups and uploads continue. It takes about as long
/// as `talaria build` from a dump. If it is interrupted, the store stays usable, and a later run
/// within a day continues. `talaria check --rebuild` repairs indexes whose tables cannot be read.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let store = stores.writable()?;
    let now = cx.now;
    let report = cx.shown(|report| {
        store.reindex(now.into(), |progress| {
            report(shown(progress));
            ControlFlow::Continue(())
        })
    })?;
    let report = report.unwrap_or_default();
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

fn shown(progress: ReindexProgress) -> Progress {
    let (number, step, certs) = match progress.step {
        ReindexStep::Certificates => (1, "verifying certificates", progress.done),
        ReindexStep::Rows => (2, "comparing indexes", 0),
        ReindexStep::Text(TextIndex::Words) => (3, "filling the index of words", progress.done),
        ReindexStep::Text(TextIndex::Trigrams) => {
            (4, "filling the index of substrings", progress.done)
        }
    };
    Progress { certs, step: Some(step), steps: Some((number, 4)), ..Progress::default() }
}
