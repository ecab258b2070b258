//! `talaria log history`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria_log::{Action, Change, DataAction, Standing, Value};

use super::values::{to_json, to_text};
use super::{PartArgs, open, people, person, short};
use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;
use crate::terminal::{PagerArgs, Paint};

/// List the changes of an object
///
/// Each line has the time that the author claims, the start of the identity of the entry, the author and the change. Changes
/// that do not count are marked: their key or grant was revoked, or their author has made two different entries at one place.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    pager: PagerArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let log = open(folder, cx)?;
    let lines = log.read(|log| {
        let object = log.find_object(&args.part.object)?;
        let people = people(log);
        let paint = Paint::stdout();
        let mut lines = Vec::new();
        for (id, entry) in log.history(object, args.part.field.as_deref()) {
            let Action::Data(DataAction { change, .. }) = &entry.action else { continue };
            let standing = log.standing(&id).map_or("", Standing::name);
            let operation = entry.action.name();
            let (field, value) = match change {
                Change::Field(field, change) => {
                    (Some(field.as_str()), log.state().revealed(&id, change).value())
                }
                Change::Create(name) => (None, Some(Value::String(name.clone()))),
                Change::Delete => (None, None),
            };
            let is_deleted = log.state().is_deleted(&id);
            let seconds = entry.clock.ms() / 1000;
            lines.push(if cx.json {
                serde_json::json!({
                    "entry": id.to_string(), "time": seconds, "author": entry.author().to_string(),
                    "key": entry.chain.subkey.to_string(), "operation": operation, "field": field,
                    "value": value.as_ref().map(to_json), "deleted": is_deleted, "standing": standing,
                })
                .to_string()
            } else {
                let field = field
                    .map(|field| format!(" {}", printable(field.as_bytes())))
                    .unwrap_or_default();
                let value = match value {
                    Some(_) if is_deleted => " (deleted)".to_owned(),
                    value => value.map(|value| format!(" {}", to_text(&value))).unwrap_or_default(),
                };
                let mark = match standing {
                    "counts" => String::new(),
                    other => format!("  {}", paint.bad(format_args!("({other})"))),
                };
                format!(
                    "{}  {}  {}  {operation}{field}{value}{mark}",
                    talaria::timestamp(u32::try_from(seconds).unwrap_or(u32::MAX)),
                    paint.handle(short(&id)),
                    person(&entry.author(), &people),
                )
            });
        }
        Ok::<_, talaria_log::UpdateError>(lines)
    })??;
    drop(log);
    let mut out = args.pager.open(!cx.json);
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
