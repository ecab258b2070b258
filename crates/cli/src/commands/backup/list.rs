//! `talaria backup list`

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria_backup::{Listed, Standing};

use super::{AccessArgs, counted_snapshots, parse_duration, standing_in_words};
use crate::context::Context;
use crate::error::CliError;
use crate::progress::{grouped, size};
use crate::render::{counted, printable};
use crate::terminal::Paint;

/// List snapshots
///
/// Without knowledge of a newer snapshot nobody can tell whether the newest ones were deleted. So the age of the newest
/// snapshot of each client stands at the end, and talaria compares with what this machine has seen before. A time in the
/// future is not believed.
///
/// With --max-age, the exit status is 1 if a client has no snapshot that is new enough.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only snapshots of this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only snapshots with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Fail if the newest snapshot of a client is older than DURATION, such as 26h, 7d or 2w
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    max_age: Option<u32>,
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
    let mut out = cx.stdout();
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
            let line = format!(
                "{mark} {}  {}  {:>10}  {:>9}  {}  {}{}",
                paint.handle(&id[..12]),
                talaria::timestamp(snapshot.time),
                grouped(snapshot.entries),
                size(snapshot.bytes),
                printable(&snapshot.host),
                paths.join(" "),
                paint.faint(tags),
            );
            writeln!(out, "{line}")?;
            if !matches!(standing, Standing::Good(_)) {
                writeln!(out, "    {}", standing_in_words(standing))?;
            }
            if snapshot.unread > 0 {
                writeln!(out, "    {} could not be read", counted(snapshot.unread, "path"))?;
            }
        }
        drop(out);
        cx.status(format_args!("{}", counted_snapshots(listed.len())));
    }
    let newest = newest(&listed, cx.now);
    if !cx.json && !newest.is_empty() {
        let ages: Vec<String> = newest
            .iter()
            .map(|one| format!("{} {}", one.name, one.age.map_or("unknown".into(), age)))
            .collect();
        cx.status(format_args!("Age of the newest: {}", ages.join(", ")));
    }
    for one in newest.iter().filter(|one| one.ahead > 0) {
        cx.status(format_args!(
            "{}: {} of {} dated in the future.",
            Paint::stderr().doubtful("Warning"),
            counted(one.ahead, "snapshot"),
            if one.ahead == 1 { format!("{} is", one.name) } else { format!("{} are", one.name) },
        ));
    }
    if let Some(limit) = args.max_age {
        let is_old = |one: &&Newest| one.age.is_none_or(|age| age > limit);
        let old: Vec<&str> = newest.iter().filter(is_old).map(|one| one.name.as_str()).collect();
        if newest.is_empty() || !old.is_empty() {
            let whose = if newest.is_empty() { "anybody".into() } else { old.join(", ") };
            return Err(CliError::Missing(format!(
                "there is no snapshot of {whose} from the last {}",
                age(limit)
            )));
        }
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(4) })
}

/// The newest snapshot of a client.
struct Newest {
    /// The host of the snapshot, with the client where several have the same.
    name: String,
    /// The seconds since the newest time that is not in the future.
    age: Option<u32>,
    /// The number of snapshots with a time in the future.
    ahead: usize,
}

fn newest(listed: &[Listed], now: u32) -> Vec<Newest> {
    let mut clients: BTreeMap<_, Vec<&Listed>> = BTreeMap::new();
    for listed in listed.iter().filter(|one| one.standing.counts()) {
        clients.entry(&listed.snapshot.client).or_default().push(listed);
    }
    let host = |snapshots: &[&Listed]| {
        let last = snapshots.iter().max_by_key(|one| one.snapshot.number);
        last.map_or(String::new(), |last| printable(&last.snapshot.host))
    };
    let hosts: Vec<String> = clients.values().map(|snapshots| host(snapshots)).collect();
    let newest = clients.iter().map(|(client, snapshots)| {
        let host = host(snapshots);
        let is_alone = hosts.iter().filter(|other| **other == host).count() == 1;
        let name = match client {
            Some(client) if !is_alone => format!("{host} ({})", client.to_hex()),
            _ => host,
        };
        // Whoever steals a client's key could silence an alarm with one snapshot from the future.
        let times = snapshots.iter().map(|one| one.snapshot.time);
        let age = times.clone().filter(|time| *time <= now).max().map(|time| now - time);
        Newest { name, age, ahead: times.filter(|time| *time > now).count() }
    });
    newest.collect()
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
        "counts": standing.counts(), "standing": standing_in_words(standing),
    })
}
