//! `talaria backup list`

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria_backup::{Listed, Standing};

use super::{AccessArgs, counted_snapshots, standing_in_words};
use crate::context::Context;
use crate::error::CliError;
use crate::progress::{grouped, size};
use crate::render::printable;
use crate::terminal::Paint;

/// List snapshots
///
/// Without knowledge of a newer snapshot nobody can tell whether the newest ones were deleted. So the age of the newest
/// snapshot of each client stands at the end, and talaria compares with what this machine has seen before.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only snapshots of this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only snapshots with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut session = args.access.open(place, cx)?;
    let (mut listed, wrong) = session.snapshots(cx)?;
    if let Some(host) = &args.host {
        listed.retain(|listed| listed.snapshot.host == host.as_bytes());
    }
    if let Some(tag) = &args.tag {
        listed.retain(|listed| listed.snapshot.tags.contains(tag.as_bytes()));
    }
    let mut out = std::io::stdout().lock();
    if cx.json {
        for snapshot in &listed {
            writeln!(out, "{}", json(snapshot))?;
        }
    } else {
        let paint = Paint::stdout();
        for listed in &listed {
            let Listed { id, snapshot, standing } = listed;
            let mark = match standing {
                Standing::Good(_) | Standing::Past(..) => paint.good("✓"),
                Standing::Unsigned | Standing::Doubtful(..) => paint.doubtful("?"),
                Standing::Foreign(_) => paint.bad("✗"),
            };
            let id = id.to_string();
            let tags: Vec<String> = snapshot.tags.iter().map(|tag| printable(tag)).collect();
            let paths: Vec<String> = snapshot.paths.iter().map(|path| printable(path)).collect();
            let tags =
                if tags.is_empty() { String::new() } else { format!("  [{}]", tags.join(", ")) };
            writeln!(
                out,
                "{mark} {}  {}  {:>10}  {:>9}  {}  {}{}",
                paint.handle(&id[..12]),
                talaria::timestamp(snapshot.time),
                grouped(snapshot.entries),
                size(snapshot.bytes),
                printable(&snapshot.host),
                paths.join(" "),
                paint.faint(tags),
            )?;
            if !matches!(standing, Standing::Good(_)) {
                writeln!(out, "    {}", standing_in_words(standing))?;
            }
            if snapshot.unread > 0 {
                writeln!(
                    out,
                    "    {} could not be read",
                    crate::render::counted(snapshot.unread, "path")
                )?;
            }
        }
        drop(out);
        let mut newest: BTreeMap<_, u32> = BTreeMap::new();
        for listed in listed.iter().filter(|l| !matches!(l.standing, Standing::Foreign(_))) {
            let host = printable(&listed.snapshot.host);
            let time = newest.entry(host).or_default();
            *time = (*time).max(listed.snapshot.time);
        }
        let ages: Vec<String> = newest
            .iter()
            .map(|(host, time)| format!("{host} {}", age(cx.now.saturating_sub(*time))))
            .collect();
        cx.status(format_args!("{}", counted_snapshots(listed.len())));
        if !ages.is_empty() {
            cx.status(format_args!("Age of the newest: {}", ages.join(", ")));
        }
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(4) })
}

/// A time span in the largest unit that fits.
fn age(seconds: u32) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn json(listed: &Listed) -> serde_json::Value {
    let Listed { id, snapshot, standing } = listed;
    let texts = |set: &std::collections::BTreeSet<Vec<u8>>| -> Vec<String> {
        set.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    };
    serde_json::json!({
        "id": id.to_string(), "time": snapshot.time, "host": String::from_utf8_lossy(&snapshot.host),
        "client": snapshot.client.as_ref().map(talaria::message::openpgp::Fingerprint::to_hex),
        "number": snapshot.number, "previous": snapshot.previous.map(|id| id.to_string()),
        "entries": snapshot.entries, "bytes": snapshot.bytes, "unread": snapshot.unread,
        "paths": texts(&snapshot.paths), "tags": texts(&snapshot.tags),
        "counts": !matches!(standing, Standing::Foreign(_)), "standing": standing_in_words(standing),
    })
}
