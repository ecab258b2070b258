//! `talaria log history`

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria_log::{Action, Change, DataAction, EntryId, EpochKeys, KeyName, Log, Standing, Value};

use super::folder::open;
use super::identity::short;
use super::people::{people, person};
use super::reading::{PartArgs, ReadArgs};
use super::values::{to_json, to_text};
use crate::context::Context;
use crate::error::CliError;
use crate::render::{counted, printable};
use crate::terminal::{PagerArgs, Paint};

/// List the changes of an object
///
/// Each line has the time that the author claims, the start of the identity of the entry, the
/// author and the change. Changes that do not count are marked: their key or grant was revoked, or
/// their author has made two different entries at one place.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    pager: PagerArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let log = open(folder, cx)?;
    let keys = log.read(|log| args.read.epoch_keys(log, cx))??;
    let lines = log.read(|log| {
        let object = log.find_object(&args.part.object)?;
        let people = people(log);
        let history = log.history(object, args.part.field.as_deref()).into_iter();
        let lines =
            history.filter_map(|(id, _)| line(log, &id, &people, &keys, cx)).collect::<Vec<_>>();
        Ok::<_, talaria_log::UpdateError>(lines)
    })??;
    drop(log);
    let mut out = args.pager.open(cx.form());
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A change of an object. `None` if the entry is none.
pub(super) fn line(
    log: &Log,
    id: &EntryId,
    people: &HashMap<KeyName, String>,
    keys: &EpochKeys,
    cx: &Context,
) -> Option<String> {
    let entry = log.entry(id)?;
    let Action::Data(DataAction { change, .. }) = &entry.action else { return None };
    let standing = log.standing(id).map_or("", Standing::name);
    let operation = entry.action.name();
    let (field, value) = match change {
        Change::Field(field, change) => {
            (Some(field.as_str()), keys.revealed(log, id, change).value())
        }
        Change::Encrypt(fields, _) | Change::StopEncrypting(fields) => {
            (Some(fields.as_str()), None)
        }
        Change::Create(name) => (None, Some(Value::String(name.clone()))),
        Change::Delete => (None, None),
    };
    let readers = match change {
        Change::Encrypt(_, key) => Some(key.readers()),
        _ => None,
    };
    let is_deleted = log.state().is_deleted(id);
    let seconds = entry.clock.ms() / 1000;
    if cx.json {
        let json = serde_json::json!({
            "entry": id.to_string(), "time": seconds, "author": entry.author().to_string(),
            "key": entry.chain.subkey.to_string(), "operation": operation, "field": field,
            "value": value.as_ref().map(to_json), "deleted": is_deleted, "standing": standing,
            "readers": readers,
        });
        return Some(json.to_string());
    }
    let paint = Paint::stdout();
    let field = field.map(|field| format!(" {}", printable(field.as_bytes()))).unwrap_or_default();
    let value = match value {
        Some(_) if is_deleted => " (deleted)".to_owned(),
        None if let Some(readers) = readers => format!(" for {}", counted(readers.len(), "key")),
        value => value.map(|value| format!(" {}", to_text(&value))).unwrap_or_default(),
    };
    let mark = match standing {
        "counts" => String::new(),
        other => format!("  {}", paint.bad(format_args!("({other})"))),
    };
    Some(format!(
        "{}  {}  {}  {operation}{field}{value}{mark}",
        talaria::timestamp(u32::try_from(seconds).unwrap_or(u32::MAX)),
        paint.handle(short(id)),
        person(&entry.author(), people),
    ))
}
