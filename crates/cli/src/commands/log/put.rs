//! `talaria log put`

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::value::RawValue;
use talaria_log::{Edit, Signing, Update, UpdateError, Value, deletable};

use super::author::SignArgs;
use super::folder::open;
use super::values::{Type, from_json, typed};
use crate::context::{Content, Context};
use crate::error::{CliError, failed};
use crate::files::Source;
use crate::render::counted;

/// The maximum length of a line of updates in bytes. A value of 65,536 bytes can take six times as
/// many in JSON.
const LINE_BYTES_MAX: usize = 1 << 19;
/// The maximum number of updates in one file, which are all in memory.
const UPDATES_MAX: usize = 1 << 20;

/// Change a field
///
/// Sets FIELD of OBJECT to VALUE, or adds VALUE, as the merge rule of the field says. An object
/// that does not exist is created. The change is on disk when the command ends. If the field is
/// encrypted (talaria log encrypt), so is VALUE, and you must be one of the readers.
///
/// With --from, each line of FILE is one update in JSON, such as {"object": "server-1", "field":
/// "color", "value": "red"}. Texts, numbers, true and false stand for themselves; bytes are
/// {"bytes": "00ff"}, another object is {"object": "IDENTITY"}. "remove": true does what --remove
/// does, "deletable": true what --deletable does. All updates are stored, with one sync, or none.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Object: its name, or its identity
    #[arg(value_name = "OBJECT", required_unless_present = "from", conflicts_with = "from")]
    object: Option<String>,
    /// Field
    #[arg(value_name = "FIELD")]
    field: Option<String>,
    /// Value
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    value: Option<String>,
    /// Type of the value [default: string; integer for counters]
    #[arg(id = "type", long = "type", value_enum, value_name = "TYPE", conflicts_with = "from")]
    kind: Option<Type>,
    /// Remove VALUE from a set or list; without VALUE, the value of FIELD; without FIELD, the
    /// object
    #[arg(long, conflicts_with = "from")]
    remove: bool,
    /// Keep VALUE beside the change, so that it can be deleted for good (talaria log delete)
    #[arg(long, conflicts_with_all = ["from", "remove"])]
    deletable: bool,
    /// Read updates from FILE, one JSON object a line (- for standard input)
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Sign all updates with one signature (one for each 3 MiB)
    #[arg(long)]
    batch: bool,
    #[command(flatten)]
    sign: SignArgs,
}

/// An update in JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    object: String,
    field: Option<String>,
    value: Option<Box<RawValue>>,
    #[serde(default)]
    remove: bool,
    #[serde(default)]
    deletable: bool,
}

impl Line {
    fn update(self) -> Result<Update, String> {
        let value = self.value.as_deref().map(from_json).transpose()?;
        let edit = match (self.field, value, self.remove) {
            (_, _, true) if self.deletable => {
                return Err("a removed value is not deletable".into());
            }
            (Some(field), Some(value), false) => {
                put(field, value, self.deletable).map_err(|error| error.to_string())?
            }
            (Some(field), value, true) => Edit::Remove(field, value),
            (None, None, true) => Edit::Delete,
            (_, _, true) => return Err("a removed value needs its field".into()),
            _ => return Err("an update needs a field and a value".into()),
        };
        Ok(Update { object: self.object, edit })
    }
}

/// The edit that puts a value, beside the change if it is deletable.
fn put(field: String, value: Value, is_deletable: bool) -> Result<Edit, talaria_log::LogError> {
    Ok(if is_deletable {
        Edit::PutDeletable(field, deletable(&value)?)
    } else {
        Edit::Put(field, value)
    })
}

/// The updates of a file called `name`.
fn read(input: impl Read, name: &str) -> Result<Vec<Update>, CliError> {
    let mut input = BufReader::new(input);
    let mut updates = Vec::new();
    for number in 1.. {
        let mut line = Vec::new();
        let read = (&mut input).take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line);
        if read.map_err(|error| failed("read", name, error))? == 0 {
            break;
        }
        let wrong = |why: String| CliError::In {
            name: Some(format!("{name}, line {number}")),
            error: Box::new(CliError::Updates(why)),
        };
        if line.len() > LINE_BYTES_MAX {
            return Err(wrong(format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        if updates.len() == UPDATES_MAX {
            return Err(wrong(format!("there are more than {UPDATES_MAX} updates")));
        }
        let parsed: Result<Line, _> = serde_json::from_slice(&line);
        let parsed = parsed.map_err(|error| wrong(format!("no update in JSON: {error}")))?;
        updates.push(parsed.update().map_err(wrong)?);
    }
    Ok(updates)
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let file = args.from.as_deref().map(|path| path.display().to_string());
    let name = file.filter(|name| name != "-").unwrap_or_else(|| "standard input".into());
    // Look at the updates first: a passphrase is no use without them.
    let read = match &args.from {
        Some(path) => Some(read(Source::open(Some(path))?.plain(), &name)?),
        None => None,
    };
    if read.is_none() && !args.remove && args.value.is_none() {
        return Err(CliError::Usage(
            "name the field and the value: talaria log put OBJECT FIELD VALUE".into(),
        ));
    }
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    let is_file = read.is_some();
    let updates = match read {
        Some(updates) => updates,
        None => vec![log.read(|log| given(args, log))??],
    };
    let signing = if args.batch { Signing::Together } else { Signing::Each };
    let before = log.syncs();
    let keys = log.read(|log| args.sign.epoch_keys(log, cx))??;
    let put = log.put_with(&mut author.maker(), &updates, signing, cx.now_ms(), &keys);
    let ids = put.map_err(|error| {
        let line = error.at.filter(|_| is_file).map(|at| format!("{name}, update {}", at + 1));
        match (line, error.error.into()) {
            (name @ Some(_), error) => CliError::In { name, error: Box::new(error) },
            (None, error) => error,
        }
    })?;
    let syncs = log.syncs() - before;
    if cx.json {
        let json = serde_json::json!({
            "action": "log put", "updates": updates.len(), "entries": ids.len(),
            "head": ids.last().map(ToString::to_string), "syncs": syncs,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "Stored {} in {} with {}.",
            counted(updates.len(), "update"),
            counted(ids.len(), "entry"),
            counted(syncs, "sync")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The update on the command line.
fn given(args: &Args, log: &talaria_log::Log) -> Result<Update, CliError> {
    let object = args.object.clone().unwrap_or_default();
    let edit = match (&args.field, &args.value) {
        (None, _) => Edit::Delete,
        (Some(field), None) => Edit::Remove(field.clone(), None),
        (Some(field), Some(value)) => {
            let value = typed(value, args.kind, field, log).map_err(|error| match error {
                // The value of a removed element need not be a number of a counter.
                CliError::Usage(_) if args.remove && args.kind.is_none() => {
                    UpdateError::Counter(field.clone()).into()
                }
                error => error,
            })?;
            if args.remove {
                Edit::Remove(field.clone(), Some(value))
            } else {
                put(field.clone(), value, args.deletable)?
            }
        }
    };
    Ok(Update { object, edit })
}
