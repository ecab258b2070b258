//! `talaria log get`

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use talaria_log::{Content, Encrypted, LogError, ObjectId, UpdateError, Value};

use super::folder::open;
use super::reading::{PartArgs, ReadArgs};
use super::values::{is_conflict, to_json, to_text, values};
use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;
use crate::terminal::{Form, Output, PagerArgs, Paint};

/// Print an object or a field
///
/// Prints the fields of OBJECT, or the value of FIELD: one line per value. A strict field has
/// several values if they were written at once; `talaria log put` replaces them. Encrypted values
/// are shown if you have a key of a reader.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    part: PartArgs,
    /// Write the bytes of the value as they are, without a line end
    #[arg(long, requires = "field", conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    pager: PagerArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let log = open(folder, cx)?;
    let keys = log.read(|log| args.read.epoch_keys(log, cx))??;
    let (id, name, fields) = log.read(|log| {
        let state = log.state();
        let id = log.find_object(&args.part.object)?;
        let info =
            state.object(id).ok_or_else(|| UpdateError::NoObject(args.part.object.clone()))?;
        let fields: Vec<(String, Content)> = match &args.part.field {
            None => keys.fields(log, id),
            Some(field) => {
                let absent = || UpdateError::Absent { field: field.clone(), value: String::new() };
                vec![(field.clone(), keys.field(log, id, field).ok_or_else(absent)?)]
            }
        };
        Ok::<_, UpdateError>((id, info.named.map(|(name, _)| name), fields))
    })??;
    drop(log);
    if args.raw {
        return raw(&args.part.object, &fields, cx);
    }
    print_fields((id, name), &fields, args.part.field.is_none(), args.pager, cx)
}

/// Prints fields of an object, with their names if `is_named`.
pub(super) fn print_fields(
    (id, name): (ObjectId, Option<String>),
    fields: &[(String, Content)],
    is_named: bool,
    pager: PagerArgs,
    cx: &Context,
) -> Result<ExitCode, CliError> {
    let mut out = pager.open(cx.form());
    let paint = Paint::stdout();
    for (field, content) in fields {
        let found = values(content);
        if cx.json {
            let json = serde_json::json!({
                "object": id.to_string(), "name": name, "field": field,
                "values": found.iter().map(to_json).collect::<Vec<_>>(),
                "conflict": is_conflict(content),
            });
            writeln!(out, "{json}")?;
            continue;
        }
        for value in &found {
            let mark = if is_conflict(content) {
                paint.doubtful(" (conflict)").to_string()
            } else {
                String::new()
            };
            if is_named {
                write!(out, "{} = ", paint.handle(printable(field.as_bytes())))?;
            }
            writeln!(out, "{}{mark}", to_text(value))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the only value of a field.
fn raw(object: &str, fields: &[(String, Content)], cx: &Context) -> Result<ExitCode, CliError> {
    let (field, content) = &fields[0];
    let found = values(content);
    let [value] = &found[..] else {
        return Err(
            LogError::from(UpdateError::WhichElement(format!("{field} of {object}"))).into()
        );
    };
    // A terminal gets no bytes with an effect; everything else gets them as they are.
    let is_shown = std::io::stdout().is_terminal();
    let mut out = Output::stdout(if is_shown { cx.form() } else { Form::Exact });
    match value {
        Value::Encrypted(Encrypted { why: Some(why), .. }) => {
            let field = printable(field.as_bytes());
            return Err(CliError::Missing(format!("{field} is encrypted: {why}")));
        }
        Value::Bytes(bytes) => out.write_all(bytes)?,
        value => write!(out, "{value}")?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
