//! `talaria check`

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::json;
use talaria::Progress;
use talaria::store::{Access, Depth};

use crate::context::Context;
use crate::error::CliError;
use crate::render::counted;

/// Verify the integrity of the store
///
/// Reads every certificate, verifies its self-signatures, and compares digests and all index entries. Lists what
/// is damaged; the exit status is then 4.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rebuild all indexes from the certificates
    #[arg(long)]
    rebuild: bool,
    /// Skip signature verification; use the saved results
    #[arg(long, conflicts_with = "rebuild")]
    quick: bool,
    /// Verify the self-signatures that were skipped by import or build with --no-verify
    #[arg(long, conflicts_with_all = ["rebuild", "quick"])]
    verify: bool,
}

/// The number of certificates whose signatures are verified in one transaction.
const VERIFY_BATCH: u32 = 10_000;

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let access = if args.rebuild || args.verify { Access::Write } else { Access::Read };
    let mut stores = cx.stores(access)?;
    if args.verify {
        let (store, now) = (stores.writable()?, cx.now);
        let verify = || store.verify_unchecked(VERIFY_BATCH, now);
        let verified = cx.step("verifying self-signatures", verify)?;
        let certificates = counted(verified, "certificate");
        cx.status(format_args!("Verified the self-signatures of {certificates}."));
    }
    let mut damaged = false;
    if args.rebuild {
        let (store, now) = (stores.writable()?, cx.now);
        let report = cx.step("rebuilding indexes", || store.rebuild(now))?;
        damaged |= print(cx, "rebuilt", &stores.writable()?.path().display().to_string(), &report)?;
    }
    for opened in stores.iter() {
        let depth = if args.quick { Depth::Structure } else { Depth::Signatures };
        let report = cx.long(|monitor| {
            opened.store.check(depth, |certs| {
                (monitor.report)(Progress { certs, step: Some("checking"), ..Progress::default() });
            })
        })?;
        damaged |= print(cx, "checked", &opened.path.display().to_string(), &report)?;
    }
    Ok(if damaged { ExitCode::from(4) } else { ExitCode::SUCCESS })
}

/// Prints a report; returns whether the store is damaged.
fn print(
    cx: &Context,
    verb: &str,
    path: &str,
    report: &talaria::store::CheckReport,
) -> Result<bool, CliError> {
    let mut out = cx.stdout();
    if cx.json {
        let findings: Vec<_> = report
            .findings
            .iter()
            .map(|f| json!({ "object": f.object, "what": f.what, "rebuild_helps": f.derived }))
            .collect();
        let json = json!({
            "store": path, "action": verb, "certificates": report.certs,
            "good_self_signatures": report.signatures, "damaged": report.count, "findings": findings,
        });
        writeln!(out, "{json}")?;
        return Ok(!report.is_clean());
    }
    for finding in &report.findings {
        writeln!(out, "{path}: {}: {}", finding.object, finding.what)?;
    }
    let result = format!(
        "{path}: {verb} {} certificates, {} good self-signatures, {}",
        report.certs,
        report.signatures,
        match report.count {
            0 => "no damage".to_owned(),
            n => format!("{n} damaged"),
        }
    );
    writeln!(out, "{result}")?;
    if !report.is_clean() {
        if report.findings.iter().all(|finding| finding.derived) {
            cx.status(format_args!(
                "Only derived data are damaged. To rebuild them from the certificates: talaria check --rebuild"
            ));
        } else {
            cx.status(format_args!(
                "Restore the store from a backup; or export what can be read (`talaria export \
                 --output ring.pgp`) and build a new store from it (`talaria build ring.pgp`)."
            ));
        }
    }
    Ok(!report.is_clean())
}
