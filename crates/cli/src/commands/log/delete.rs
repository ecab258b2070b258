//! `talaria log delete`

use std::path::Path;
use std::process::ExitCode;

use talaria_log::{
    Action, Change, DataAction, Edit, EntryId, FieldChange, Log, PutError, Signing, Update,
};

use super::author::SignArgs;
use super::folder::open;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::render::{counted, printable};

/// Delete the values of a field for good
///
/// Deletes all values of FIELD that were stored with `talaria log put --deletable`, earlier ones
/// included. No node shows them or sends them any more. They leave the disk of each node with
/// `talaria log compact`. That they were there, when and by whom, stays in the history. Nobody can
/// make a node forget that does not follow the rules, or a copy that somebody has made.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Object: its name, or its identity
    #[arg(value_name = "OBJECT")]
    object: String,
    /// Field
    #[arg(value_name = "FIELD")]
    field: String,
    #[command(flatten)]
    sign: SignArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    let edit = Edit::DeleteValues(args.field.clone());
    let update = Update { object: args.object.clone(), edit };
    let ids = log
        .put(&mut author.maker(), &[update], Signing::Each, cx.now_ms())
        .map_err(|PutError { error, .. }| error)?;
    let values: usize = log.read(|log| ids.iter().map(|id| deleted(log, id)).sum())?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log delete", "values": values, "entries": ids.len(),
            "head": ids.last().map(ToString::to_string),
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "Deleted {} of the field {} of {}. This cannot be undone.\nTo remove deleted values from this disk, too: talaria log compact",
            counted(values, "value"),
            printable(args.field.as_bytes()),
            printable(args.object.as_bytes())
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The number of values that an entry deletes.
fn deleted(log: &Log, id: &EntryId) -> usize {
    let Some(entry) = log.entry(id) else { return 0 };
    match &entry.action {
        Action::Data(DataAction {
            change: Change::Field(_, FieldChange::DeleteValues(ids)),
            ..
        }) => ids.len(),
        _ => 0,
    }
}
