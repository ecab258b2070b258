//! `talaria backup list`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria::message::openpgp::Fingerprint;
use talaria_backup::{DocumentStanding, Drill, Listed};

use super::access::AccessArgs;
use super::metrics::Metrics;
use super::newest::{Newest, age, newest};
use super::option::parse_duration;
use super::words::{counted_snapshots, standing_in_words};
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
    let (mut listed, wrong) = session.snapshots(cx)?;
    let (drills, unreadable) = session.repository.drills(&session.keys, cx.now)?;
    for error in &unreadable {
        cx.status(format_args!("{}: {error}", Paint::stderr().doubtful("Warning")));
    }
    if let Some(path) = &args.metrics {
        let (packs, pack_bytes) = session.repository.pack_totals()?;
        let metrics = Metrics {
            repository: session.repository.id().to_string(),
            clients: &newest(&listed, &drills, cx.now),
            irregularities: wrong.len(),
            packs,
            pack_bytes,
            now: cx.now,
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
    let newest = newest(&listed, &drills, cx.now);
    if !cx.json && !newest.is_empty() {
        let ages: Vec<String> = newest
            .iter()
            .map(|one| match one.age(cx.now) {
                Some(seconds) => format!("{} {} ago", one.name, age(seconds)),
                None => format!("{} at an unknown time", one.name),
            })
            .collect();
        cx.status(format_args!("Newest snapshot: {}", ages.join(", ")));
        let drills: Vec<String> = newest.iter().map(|one| one.drill_in_words(cx.now)).collect();
        cx.status(format_args!("Last restore drill: {}", drills.join(", ")));
    }
    for one in newest.iter().filter(|one| one.ahead > 0) {
        cx.status(format_args!(
            "{}: {} of {} dated in the future.",
            Paint::stderr().doubtful("Warning"),
            counted(one.ahead, "snapshot"),
            if one.ahead == 1 { format!("{} is", one.name) } else { format!("{} are", one.name) },
        ));
    }
    check_ages(args, &newest, cx.now)?;
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
        writeln!(out, "    {}", standing_in_words(standing))?;
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

/// An error if the newest snapshot or the last drill of a client is too old.
fn check_ages(args: &Args, newest: &[Newest], now: u32) -> Result<(), CliError> {
    if let Some(limit) = args.max_age {
        let is_old = |one: &&Newest| one.age(now).is_none_or(|age| age > limit);
        let old: Vec<&str> = newest.iter().filter(is_old).map(|one| one.name.as_str()).collect();
        if newest.is_empty() || !old.is_empty() {
            let whose = if newest.is_empty() { "anybody".into() } else { old.join(", ") };
            return Err(CliError::Missing(format!(
                "there is no snapshot of {whose} from the last {}",
                age(limit)
            )));
        }
    }
    if let Some(limit) = args.max_drill_age {
        let is_good =
            |drill: &Drill| drill.read.failed == 0 && now.saturating_sub(drill.time) <= limit;
        let old: Vec<String> = newest
            .iter()
            .filter(|one| !one.drill.as_ref().is_some_and(is_good))
            .map(|one| one.drill_in_words(now))
            .collect();
        if newest.is_empty() || !old.is_empty() {
            let last =
                if newest.is_empty() { "there is no snapshot".into() } else { old.join(", ") };
            return Err(CliError::Missing(format!(
                "there was no good restore drill in the last {}: {last}; to do one: talaria backup drill",
                age(limit)
            )));
        }
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
        "counts": standing.counts(), "standing": standing_in_words(standing),
        "original": snapshot.original.as_ref().map(|original| serde_json::json!({
            "repository": original.repository.to_string(), "id": original.id.to_string(),
            "client": original.client.as_ref().map(Fingerprint::to_hex),
            "number": original.number, "time": original.time,
        })),
    })
}
