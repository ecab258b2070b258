//! `talaria log approve`

use std::path::Path;
use std::process::ExitCode;

use talaria_log::{Action, EntryId};

use super::{SignArgs, open, parse_entry};
use crate::context::{Content, Context};
use crate::error::CliError;

/// Agree with a grant, a revocation or a choice of another owner
///
/// A log with a threshold above 1 needs several owners for these. Look at the entry first: `talaria log list --grants`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Grant, revocation or choice: the identity of its entry
    #[arg(value_name = "ENTRY", value_parser = parse_entry)]
    entry: EntryId,
    #[command(flatten)]
    sign: SignArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    if log.read(|log| log.entry(&args.entry).is_none()) {
        return Err(CliError::Missing(format!(
            "no entry {} is in this log; import it first: talaria log import FILE",
            args.entry
        )));
    }
    let id = author.put(&log, Action::Approve(args.entry), cx)?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log approve", "entry": id.to_string(), "of": args.entry.to_string(),
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!("Approved {}.", args.entry));
    }
    Ok(ExitCode::SUCCESS)
}
