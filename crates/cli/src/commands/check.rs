//! `talaria check`

use std::io::Write as _;
use std::process::ExitCode;
use std::str::FromStr;

use serde_json::json;
use talaria::store::{Access, CheckReport, Depth, Remedy, Repair, Salvage, Share, Store};
use talaria::{Input, Progress, RepairOptions, Repaired};

use crate::context::Context;
use crate::error::CliError;
use crate::hints::store::RESTORE;
use crate::render::counted;

/// Verify the integrity of the store
///
/// Reads every certificate, compares it with its checksum, verifies its self-signatures, and
/// compares digests and all index entries. Lists all damage; if there is any, the exit status is 4.
///
/// With --rebuild, damaged indexes are rebuilt from the certificates. A damaged certificate needs a
/// copy: --repair-from takes it from a file, a backup or another store, --keyserver from a
/// keyserver. If the copy equals the certificate as it was written, the copy restores it. Any other
/// copy replaces it, together with the parts of the damaged certificate that good self-signatures
/// still prove; the damaged bytes are set aside in the store (`talaria admin set-aside`).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rebuild all indexes from the certificates
    #[arg(long)]
    rebuild: bool,
    /// Skip signature verification; use the saved results
    #[arg(long, conflicts_with = "rebuild")]
    quick: bool,
    /// Compare certificates with their checksums only; skip signatures and indexes
    #[arg(long, conflicts_with_all = ["quick", "rebuild", "verify"])]
    checksums: bool,
    /// Verify the self-signatures that were skipped by import or build with --no-verify
    #[arg(long, conflicts_with_all = ["rebuild", "quick"])]
    verify: bool,
    /// Check a part of the certificates, for example 1/7 on Mondays and 7/7 on Sundays
    #[arg(long, value_name = "N/M", conflicts_with_all = ["rebuild", "verify"])]
    subset: Option<Subset>,
    /// Repair damaged certificates with copies in this file, folder, store or URL (can be repeated)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["verify", "subset"])]
    repair_from: Vec<String>,
    /// Repair damaged certificates with copies from this keyserver (hkps://… or hkp://…)
    #[arg(long, value_name = "URL", conflicts_with_all = ["verify", "subset"])]
    keyserver: Option<String>,
    /// Without a copy, keep what there is: of a damaged certificate the parts that its
    /// self-signatures still prove (if there are none, it is removed), of decisions those that the
    /// disk has not lost
    #[arg(long, conflicts_with_all = ["verify", "subset"])]
    salvage: bool,
}

/// A part of the certificates: `N/M`.
#[derive(Clone, Copy, Debug)]
struct Subset(Share);

impl FromStr for Subset {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers =
            text.split_once('/').and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
        numbers
            .and_then(|(number, of)| Share::new(number, of))
            .map(Self)
            .ok_or("give the number of the part and the number of parts, for example 1/7")
    }
}

impl Args {
    fn depth(&self) -> Depth {
        match (self.quick, self.checksums) {
            (true, _) => Depth::Structure,
            (_, true) => Depth::Checksums,
            _ => Depth::Signatures,
        }
    }

    fn repairs(&self) -> bool {
        !self.repair_from.is_empty() || self.keyserver.is_some() || self.salvage
    }
}

/// The number of certificates whose signatures are verified in one transaction.
const VERIFY_BATCH: u32 = 10_000;

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    check(args, cx).map_err(|error| match error {
        CliError::Operation(talaria::Error::Store(error)) if args.rebuild => {
            CliError::NotRebuilt(error)
        }
        CliError::Operation(talaria::Error::Store(error)) => CliError::Unchecked(error),
        error => error,
    })
}

fn check(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let writes = args.rebuild || args.verify || args.repairs();
    let mut stores = cx.stores(if writes { Access::Write } else { Access::Read })?;
    if args.verify {
        let (store, now) = (stores.writable()?, cx.now);
        let verify = || store.verify_unchecked(VERIFY_BATCH, now.into());
        let verified = cx.step("verifying self-signatures", verify)?;
        let certificates = counted(verified, "certificate");
        cx.status(format_args!("Verified the self-signatures of {certificates}."));
    }
    if args.repairs() {
        let mut options = RepairOptions::new(cx.now);
        options.inputs = args.repair_from.iter().map(|text| Input::parse(text)).collect();
        options.keyserver.clone_from(&args.keyserver);
        if args.salvage {
            options.salvage = Salvage::Always;
        }
        let store = stores.writable()?;
        let repaired = cx.long(|monitor| talaria::repair(store, &options, monitor))?;
        print_repairs(cx, &store.path().display().to_string(), &repaired)?;
        if args.salvage {
            accept_decisions(store, cx)?;
        }
    }
    let part = args.subset.map_or(Share::ALL, |Subset(part)| part);
    let mut damaged = false;
    if args.rebuild {
        let (store, now) = (stores.writable()?, cx.now);
        let report = cx.step("rebuilding indexes", || store.rebuild(now.into()))?;
        let path = stores.writable()?.path().display().to_string();
        damaged |= print(cx, ("rebuilt", Depth::Signatures, part), &path, &report)?;
    }
    for opened in stores.iter() {
        let depth = args.depth();
        let report = cx.shown(|report| {
            opened.store.check_part(depth, part, |certs| {
                report(Progress { certs, step: Some("checking"), ..Progress::default() });
            })
        })?;
        let path = opened.path.display().to_string();
        damaged |= print(cx, ("checked", depth, part), &path, &report)?;
        advise(args, cx, &report);
    }
    Ok(if damaged { ExitCode::from(4) } else { ExitCode::SUCCESS })
}

/// The depth of a check as one word.
fn word(depth: Depth) -> &'static str {
    match depth {
        Depth::Signatures => "signatures",
        Depth::Structure => "structure",
        Depth::Checksums => "checksums",
    }
}

/// Accepts the decisions that the disk has not lost.
fn accept_decisions(store: &mut Store, cx: &Context) -> Result<(), CliError> {
    let (path, mut out) = (store.path().display().to_string(), cx.report_stdout());
    for table in store.damage_mut().accept_decisions()? {
        if cx.json {
            writeln!(out, "{}", json!({ "store": path, "action": "accepted", "table": table }))?;
        } else {
            writeln!(out, "{path}: table {table}: the rows that are there count")?;
        }
    }
    Ok(())
}

fn print_repairs(cx: &Context, path: &str, repaired: &[Repaired]) -> Result<(), CliError> {
    let mut out = cx.report_stdout();
    for certificate in repaired {
        if cx.json {
            let line = json!({ "store": path, "action": "repaired", "certificate": certificate });
            writeln!(out, "{line}")?;
            continue;
        }
        let name = match &certificate.fingerprint {
            Some(fingerprint) => format!("certificate {fingerprint}"),
            None => format!("certificate number {}", certificate.number),
        };
        let result = match certificate.result {
            Repair::Restored => "restored as it was",
            Repair::Replaced => "replaced by another copy; the damaged bytes are set aside",
            Repair::Salvaged => {
                "replaced by what its checksum or its own signatures still prove; the damaged bytes are set aside"
            }
            Repair::Removed => "removed, since nothing is proven; the damaged bytes are set aside",
            Repair::NoCopy => "no copy was found",
        };
        writeln!(out, "{path}: {name}: {result}")?;
        if let Some(error) = &certificate.error {
            cx.status(format_args!("The keyserver gave no copy of {name}: {error}"));
        }
    }
    let has_changed =
        |repaired: &Repaired| matches!(repaired.result, Repair::Replaced | Repair::Salvaged);
    if repaired.iter().any(has_changed) {
        cx.status(format_args!(
            "A replaced certificate can lack what only the damaged bytes had: a revocation, or signatures by others. \
             Import another copy if you have one."
        ));
    }
    if repaired.is_empty() {
        cx.status(format_args!("No certificate is damaged."));
    }
    Ok(())
}

/// Prints a report; returns whether the store is damaged.
fn print(
    cx: &Context,
    (action, depth, part): (&str, Depth, Share),
    path: &str,
    report: &CheckReport,
) -> Result<bool, CliError> {
    let mut out = cx.report_stdout();
    if cx.json {
        let findings: Vec<_> = report
            .findings
            .iter()
            .map(|f| json!({ "object": f.object, "what": f.what, "remedy": f.remedy.name() }))
            .collect();
        let json = json!({
            "store": path, "action": action, "depth": word(depth), "part": part.to_string(), "certificates": report.certs,
            "good_self_signatures": report.signatures, "damaged": report.count, "findings": findings,
        });
        writeln!(out, "{json}")?;
        return Ok(!report.is_clean());
    }
    for finding in &report.findings {
        writeln!(out, "{path}: {}: {}", finding.object, finding.what)?;
    }
    let of_part = if part == Share::ALL { String::new() } else { format!(" part {part}:") };
    let covered = match depth {
        Depth::Signatures => counted(report.signatures, "good self-signature"),
        Depth::Structure => "signatures not verified".to_owned(),
        Depth::Checksums => "only checksums compared".to_owned(),
    };
    let result = format!(
        "{path}: {action}{of_part} {}, {covered}, {}",
        counted(report.certs, "certificate"),
        match report.count {
            0 => "no damage".to_owned(),
            n => format!("{n} damaged"),
        }
    );
    writeln!(out, "{result}")?;
    Ok(!report.is_clean())
}

/// Names the remedies for the damage that a check found.
fn advise(args: &Args, cx: &Context, report: &CheckReport) {
    let needs = |remedy| report.findings.iter().any(|finding| finding.remedy == remedy);
    if cx.json {
        return;
    }
    if needs(Remedy::Copy) {
        cx.status(format_args!(
            "To repair certificates with copies from a backup, a keyring or another store: talaria check --repair-from \
             FILE\nOr with copies from a keyserver: talaria check --keyserver URL"
        ));
    }
    // Another rebuild does not repair the damage that the first one has left.
    if needs(Remedy::Restore) || needs(Remedy::Rebuild) && args.rebuild {
        cx.status(format_args!("{RESTORE}"));
    }
    if needs(Remedy::Rebuild) && !args.rebuild {
        cx.status(format_args!(
            "To rebuild damaged indexes from the certificates: talaria check --rebuild"
        ));
    }
}
