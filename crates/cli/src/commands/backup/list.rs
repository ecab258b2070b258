//! `talaria backup list`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria::backup::{DocumentStanding, Drill, Health, Listed, Metrics, time_span};
use talaria::message::openpgp::Fingerprint;

use super::access::AccessArgs;
use super::notices::teller;
use super::option::parse_duration;
use super::words::counted_snapshots;
use crate::context::Context;
use crate::error::CliError;
use crate::progress::{grouped, size};
use crate::render::{counted, printable};
use crate::terminal::{Paint, stdout_columns};

/// List snapshots
///
/// If somebody removes the newest snapshot, the repository alone does not show it. The list
/// therefore ends with the age of each client's newest snapshot, and talaria compares the
/// repository with the records of this machine. A snapshot with a date in the future does not count
/// as new.
///
/// With --max-age, the exit status is 1 if the newest snapshot of a client is too old. With
/// --max-drill-age, it is 1 if the last restore drill of a client is too old or has failed (see
/// `talaria backup drill`).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List only snapshots of this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// List only snapshots with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Fail if the newest snapshot of a client is older than DURATION, such as 26h, 7d or 2w
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    max_age: Option<u32>,
    /// Fail if the last restore drill of a client is older than DURATION, or has failed
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    max_drill_age: Option<u32>,
    /// Also write metrics of all snapshots to FILE (atomically), for Prometheus
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut session = args.access.open(place, cx)?;
    let (mut listed, wrong) = session.snapshots(cx.now, &mut teller(cx))?;
    let drills = session.drills(cx.now, &mut teller(cx))?;
    if let Some(path) = &args.metrics {
        let (packs, pack_bytes) = session.repository.pack_totals()?;
        let metrics = Metrics {
            repository: session.repository.id(),
            health: &Health::new(&listed, &drills, cx.now),
            irregularities: wrong.len(),
            packs,
            pack_bytes,
        };
        metrics.write(path)?;
    }
    if let Some(host) = &args.host {
        listed.retain(|listed| listed.snapshot.host == host.as_bytes());
    }
    if let Some(tag) = &args.tag {
        listed.retain(|listed| listed.snapshot.tags.contains(tag.as_bytes()));
    }
    let mut out = cx.report_stdout();
    if cx.json {
        for snapshot in &listed {
            writeln!(out, "{}", json(snapshot, &drills))?;
        }
    } else {
        let paint = Paint::stdout();
        // A pipe gets the snapshots alone.
        if !listed.is_empty() && stdout_columns().is_some() {
            let heading = "  SNAPSHOT      TIME                    PATHS       SIZE  HOST  FOLDERS";
            writeln!(out, "{}", paint.faint(heading))?;
        }
        for listed in &listed {
            show(&mut out, listed, paint)?;
        }
        drop(out);
        cx.status(format_args!("{}", counted_snapshots(listed.len())));
    }
    let health = Health::new(&listed, &drills, cx.now);
    if !cx.json && !health.clients.is_empty() {
        let newest = health.clients.iter().map(|one| match one.age(cx.now) {
            Some(seconds) => format!("{} {} ago", one.name, time_span(seconds)),
            None => format!("{} at an unknown time", one.name),
        });
        let newest: Vec<String> = newest.collect();
        cx.status(format_args!("Newest snapshot: {}", newest.join(", ")));
        let drills: Vec<String> = health.clients.iter().map(|one| one.last_drill(cx.now)).collect();
        cx.status(format_args!("Last restore drill: {}", drills.join(", ")));
    }
    for one in health.clients.iter().filter(|one| one.ahead > 0) {
        cx.status(format_args!(
            "{}: {} of {} dated in the future.",
            Paint::stderr().doubtful("Warning"),
            counted(one.ahead, "snapshot"),
            if one.ahead == 1 { format!("{} is", one.name) } else { format!("{} are", one.name) },
        ));
    }
    if let Some(limit) = args.max_age {
        health.require_snapshots(limit)?;
    }
    if let Some(limit) = args.max_drill_age {
        health.require_drills(limit)?;
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(4) })
}

fn show(out: &mut impl Write, listed: &Listed, paint: Paint) -> Result<(), CliError> {
    let Listed { id, snapshot, standing, .. } = listed;
    let mark = match standing {
        DocumentStanding::Good(_) | DocumentStanding::Past(..) => paint.good("✓"),
        DocumentStanding::Unsigned | DocumentStanding::Doubtful(..) => paint.doubtful("?"),
        DocumentStanding::Foreign(_) => paint.bad("✗"),
    };
    let id = id.to_string();
    let tags: Vec<String> = snapshot.tags.iter().map(|tag| printable(tag)).collect();
    let paths: Vec<String> = snapshot.paths.iter().map(|path| printable(path)).collect();
    let tags = if tags.is_empty() { String::new() } else { format!("  [{}]", tags.join(", ")) };
    let line = format!(
        "{mark} {}  {}  {:>7}  {:>9}  {}  {}{}",
        paint.handle(&id[..12]),
        talaria::timestamp(snapshot.made()),
        grouped(snapshot.entries),
        size(snapshot.bytes),
        printable(&snapshot.host),
        paths.join(" "),
        paint.faint(tags),
    );
    writeln!(out, "{line}")?;
    if !matches!(standing, DocumentStanding::Good(_)) {
        writeln!(out, "    {standing}")?;
    }
    if let Some(original) = &snapshot.original {
        let (id, time) = (original.id.to_string(), talaria::timestamp(snapshot.time));
        writeln!(out, "    copy of {}, made {time}", paint.handle(&id[..12]))?;
    }
    if snapshot.unread > 0 {
        writeln!(out, "    {} could not be read", counted(snapshot.unread, "path"))?;
    }
    Ok(())
}

fn json(listed: &Listed, drills: &[Drill]) -> serde_json::Value {
    let Listed { id, snapshot, standing, .. } = listed;
    let texts = |set: &std::collections::BTreeSet<Vec<u8>>| -> Vec<String> {
        set.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    };
    let own = drills.iter().filter(|drill| drill.snapshot.id == *id && drill.read.failed == 0);
    serde_json::json!({
        "drilled": own.map(|drill| drill.time).max(),
        "id": id.to_string(), "time": snapshot.time, "host": String::from_utf8_lossy(&snapshot.host),
        "client": snapshot.client.as_ref().map(Fingerprint::to_hex),
        "number": snapshot.number, "previous": snapshot.previous.map(|id| id.to_string()),
        "entries": snapshot.entries, "bytes": snapshot.bytes, "unread": snapshot.unread,
        "paths": texts(&snapshot.paths), "tags": texts(&snapshot.tags),
        "counts": standing.counts(), "standing": standing.to_string(),
        "original": snapshot.original.as_ref().map(|original| serde_json::json!({
            "repository": original.repository.to_string(), "id": original.id.to_string(),
            "client": original.client.as_ref().map(Fingerprint::to_hex),
            "number": original.number, "time": original.time,
        })),
    })
}
