//! `talaria log compact`

use std::path::Path;
use std::process::ExitCode;

use super::folder::open;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::size;
use crate::render::counted;

/// Remove deleted values from disk
///
/// Writes the files of the log that have deleted values anew, without these. All entries stay, and
/// so do their signatures and proofs. The command can be interrupted at any time: run it again. Old
/// blocks of the disk are not overwritten, and backups keep what they have.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let log = open(folder, cx)?;
    let compacted = cx.step("Removing deleted values", || log.compact(|_| ()))?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log compact", "values": compacted.values, "segments": compacted.segments,
            "freed": compacted.bytes,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else if compacted.values == 0 {
        cx.status(format_args!("No deleted value is on disk."));
    } else {
        cx.status(format_args!(
            "Removed {} and freed {}. Wrote {} anew.",
            counted(compacted.values, "deleted value"),
            size(compacted.bytes),
            counted(compacted.segments, "file")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
