//! `talaria log choose`

use std::path::Path;
use std::process::ExitCode;

use talaria_log::{Action, EntryId};

use super::{SignArgs, open, parse_entry};
use crate::context::{Content, Context};
use crate::error::CliError;

/// Choose a branch after a fork
///
/// A fork is two different entries of one author at one place, as after the restore of a machine. Nothing of this author counts
/// from there on, until an owner names an entry of the branch that counts. `talaria log verify` lists forks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An entry of the branch that counts: its identity
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
    let id = author.put(&log, Action::Choose(args.entry), cx)?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log choose", "entry": id.to_string(), "of": args.entry.to_string(),
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!("Chosen {}.", args.entry));
    }
    Ok(ExitCode::SUCCESS)
}
