//! `talaria log list`

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria::store::Access;
use talaria::{day, timestamp};
use talaria_log::{
    Action, Change, CheckpointInfo, DataAction, EntryId, EpochInfo, KeyName, ObjectId, ObjectInfo,
    Operations, SnapshotInfo,
};

use super::folder::open;
use super::identity::short;
use super::people::{people, person};
use crate::commands::inspect::key_in_words;
use crate::context::Context;
use crate::error::CliError;
use crate::render::{counted, printable};
use crate::terminal::{PagerArgs, Paint};

/// List objects, grants, readers, checkpoints or snapshots
///
/// Lists the objects that are not deleted: name, start of the identity, number of fields, and
/// creator. --grants lists who may change what. --readers lists which fields are encrypted now, and
/// to which keys. --checkpoints lists the checkpoints, the last one last, and --snapshots the
/// snapshots.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List owners and grants
    #[arg(long)]
    grants: bool,
    /// List encrypted fields and their readers
    #[arg(long, conflicts_with = "grants")]
    readers: bool,
    /// List checkpoints, with the witnesses who cosigned
    #[arg(long, conflicts_with_all = ["grants", "readers"])]
    checkpoints: bool,
    /// List snapshots, with the owners who agree
    #[arg(long, conflicts_with_all = ["grants", "readers", "checkpoints"])]
    snapshots: bool,
    #[command(flatten)]
    pager: PagerArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let log = open(folder, cx)?;
    let lines = log.read(|log| {
        if args.checkpoints {
            checkpoints(log, cx)
        } else if args.readers {
            readers(log, cx)
        } else if args.snapshots {
            snapshots(log, cx)
        } else if args.grants {
            grants(log, cx)
        } else {
            objects(log, cx)
        }
    })?;
    drop(log);
    let mut out = args.pager.open(cx.form());
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A checkpoint in JSON.
pub(super) fn checkpoint_json(checkpoint: &CheckpointInfo) -> serde_json::Value {
    let CheckpointInfo { entry, head, time, cosigned, existed_by, is_valid, .. } = checkpoint;
    let witness =
        |(name, time): &(String, u64)| serde_json::json!({ "witness": name, "time": time });
    serde_json::json!({
        "entry": entry.to_string(), "size": head.size, "root": head.root_text(), "time": time,
        "existed_by": existed_by, "valid": is_valid,
        "cosigned": cosigned.iter().map(witness).collect::<Vec<_>>(),
    })
}

/// A checkpoint for people.
pub(super) fn checkpoint_line(checkpoint: &CheckpointInfo) -> String {
    let CheckpointInfo { entry, head, time, cosigned, is_valid, .. } = checkpoint;
    let paint = Paint::stdout();
    let state = if *is_valid { paint.good("valid") } else { paint.doubtful("not valid") };
    let names: Vec<String> = cosigned.iter().map(|(name, _)| printable(name.as_bytes())).collect();
    let by = if names.is_empty() { String::new() } else { format!(", by {}", names.join(", ")) };
    format!(
        "{state}  {}  {}  {}{by}",
        paint.handle(entry),
        timestamp(u32::try_from(*time).unwrap_or(u32::MAX)),
        counted(head.size, "entry"),
    )
}

fn checkpoints(log: &talaria_log::Log, cx: &Context) -> Vec<String> {
    let line = |checkpoint: &CheckpointInfo| {
        if cx.json { checkpoint_json(checkpoint).to_string() } else { checkpoint_line(checkpoint) }
    };
    log.checkpoints().iter().map(line).collect()
}

fn objects(log: &talaria_log::Log, cx: &Context) -> Vec<String> {
    let people = people(log);
    let mut found: Vec<_> = log.state().objects().collect();
    found.sort_by(|a, b| (&a.named, a.id).cmp(&(&b.named, b.id)));
    found.into_iter().map(|object| object_line(object, &people, cx)).collect()
}

/// An object, for people or in JSON.
pub(super) fn object_line(
    object: ObjectInfo,
    people: &HashMap<KeyName, String>,
    cx: &Context,
) -> String {
    let paint = Paint::stdout();
    let (name, creator) = object.named.unzip();
    if cx.json {
        let json = serde_json::json!({
            "object": object.id.to_string(), "name": name, "fields": object.fields,
            "creator": creator.map(|creator| creator.to_string()),
        });
        return json.to_string();
    }
    let name = name.map_or_else(|| "(no name)".to_owned(), |name| printable(name.as_bytes()));
    let creator = creator.map(|creator| person(&creator, people)).unwrap_or_default();
    format!(
        "{}  {}  {}  {creator}",
        paint.handle(name),
        paint.faint(short(&object.id)),
        counted(object.fields, "field")
    )
}

/// A snapshot, for people or in JSON.
fn snapshot_line(
    snapshot: &SnapshotInfo,
    people: &HashMap<KeyName, String>,
    cx: &Context,
) -> String {
    let SnapshotInfo { entry, author, clock, snapshot, agreed, is_in_force } = snapshot;
    let time = clock.ms() / 1000;
    if cx.json {
        let agreed: Vec<String> = agreed.iter().map(ToString::to_string).collect();
        let json = serde_json::json!({
            "entry": entry.to_string(), "author": author.to_string(), "time": time,
            "entries": snapshot.entries, "state": EntryId(snapshot.state).to_string(),
            "agreed": agreed, "in_force": is_in_force,
        });
        return json.to_string();
    }
    let paint = Paint::stdout();
    let state = if *is_in_force { paint.good("in force") } else { paint.doubtful("not in force") };
    let agreed: Vec<String> = agreed.iter().map(|owner| person(owner, people)).collect();
    let by = if agreed.is_empty() { String::new() } else { format!(", by {}", agreed.join(", ")) };
    format!(
        "{state}  {}  {}  {}{by}",
        paint.handle(entry),
        timestamp(u32::try_from(time).unwrap_or(u32::MAX)),
        counted(snapshot.entries, "entry"),
    )
}

fn snapshots(log: &talaria_log::Log, cx: &Context) -> Vec<String> {
    let people = people(log);
    log.snapshots().iter().map(|snapshot| snapshot_line(snapshot, &people, cx)).collect()
}

/// What decides now how fields are encrypted: entries that no later one replaces for all their
/// fields.
fn readers(log: &talaria_log::Log, cx: &Context) -> Vec<String> {
    let (people, paint) = (people(log), Paint::stdout());
    let stores = cx.stores(Access::Read).ok();
    let all: Vec<EpochInfo> = log.state().epochs(None).collect();
    let is_last = |at: usize, epoch: &EpochInfo| {
        let later = all[at + 1..].iter().filter(|later| later.object == epoch.object);
        !later.into_iter().any(|later| later.fields.covers(&epoch.fields))
    };
    let line = |(_, epoch): (usize, &EpochInfo)| {
        let entry = log.entry(&epoch.id)?;
        let keys = match &entry.action {
            Action::Data(DataAction { change: Change::Encrypt(_, key), .. }) => key.readers(),
            _ => &[],
        };
        let name = log.state().name(epoch.object);
        if cx.json {
            let json = serde_json::json!({
                "object": epoch.object.to_string(), "name": name, "fields": epoch.fields.as_str(),
                "encrypted": epoch.encrypts, "readers": keys, "author": epoch.author.to_string(),
                "epoch": epoch.id.to_string(),
            });
            return Some(json.to_string());
        }
        let name = name.map_or_else(|| short(&epoch.object), |name| printable(name.as_bytes()));
        let in_words = |key: &String| key_in_words(key, "a key", stores.as_ref(), cx.now);
        let readers = match keys {
            [] => "not encrypted".to_owned(),
            keys => keys.iter().map(in_words).collect::<Vec<_>>().join(", "),
        };
        Some(format!(
            "{}  {}  {readers}  by {}",
            paint.handle(name),
            printable(epoch.fields.as_str().as_bytes()),
            person(&epoch.author, &people)
        ))
    };
    all.iter().enumerate().filter(|(at, epoch)| is_last(*at, epoch)).filter_map(line).collect()
}

fn grants(log: &talaria_log::Log, cx: &Context) -> Vec<String> {
    let people = people(log);
    let paint = Paint::stdout();
    let mut lines = Vec::new();
    for owner in &log.genesis().owners {
        let name = owner.name();
        lines.push(if cx.json {
            let (owner, user_id) = (true, owner.user_id());
            serde_json::json!({ "certificate": name.to_string(), "user_id": user_id, "owner": owner })
                .to_string()
        } else {
            format!("owner  {}  {}", paint.handle(name), person(&name, &people))
        });
    }
    for (id, grant, in_force) in log.grants() {
        let operations = match grant.operations {
            Operations::ALL => "all",
            Operations::CHANGES => "changes",
            Operations::FIELDS => "fields",
            Operations::OBJECTS => "objects",
            Operations::READERS => "readers",
            _ => "some",
        };
        let object = (grant.object != ObjectId::NONE).then(|| grant.object.to_string());
        let ends = u32::try_from(grant.ends_ms / 1000).ok().filter(|ends| *ends > 0);
        let user_id = grant.certificate.user_id();
        lines.push(if cx.json {
            serde_json::json!({
                "grant": id.to_string(), "certificate": grant.author().to_string(),
                "user_id": user_id, "object": object, "fields": grant.fields.as_str(),
                "operations": operations, "expires": ends, "in_force": in_force, "owner": false,
            })
            .to_string()
        } else {
            let state = match (in_force, ends) {
                // Revoked, or not yet approved by enough owners.
                (false, _) => paint.doubtful("not in force"),
                (true, Some(ends)) if ends <= cx.now => paint.doubtful("expired"),
                (true, _) => paint.good("grant"),
            };
            let object = object.map_or_else(|| "all objects".to_owned(), |id| short(&id));
            let ends = ends.map(|ends| format!(", until {}", day(ends))).unwrap_or_default();
            format!(
                "{state}  {}  {}  {object}, fields {}, operations {operations}{ends}",
                paint.handle(id),
                person(&grant.author(), &people),
                printable(grant.fields.as_str().as_bytes()),
            )
        });
    }
    lines
}
