//! Entries about another entry: approvals and choices.

use std::path::Path;
use std::process::ExitCode;

use talaria_log::{Action, EntryId};

use super::author::SignArgs;
use super::folder::open;
use crate::context::{Content, Context};
use crate::error::CliError;

/// Writes an approval or a choice, which names another entry. `name` is that of the command, and
/// `done` says what it did.
pub(super) fn put_about(
    entry: EntryId,
    action: fn(EntryId) -> Action,
    (name, done): (&str, &str),
    (sign, folder): (&SignArgs, &Path),
    cx: &mut Context,
) -> Result<ExitCode, CliError> {
    let mut author = sign.author(cx)?;
    let log = open(folder, cx)?;
    if log.read(|log| log.entry(&entry).is_none())? {
        return Err(CliError::Missing(format!(
            "no entry {entry} is in this log; import it first: talaria log import FILE"
        )));
    }
    let id = author.put(&log, action(entry), cx.now_ms())?;
    if cx.json {
        let json = serde_json::json!({
            "action": name, "entry": id.to_string(), "of": entry.to_string(),
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!("{done} {entry}."));
    }
    Ok(ExitCode::SUCCESS)
}
