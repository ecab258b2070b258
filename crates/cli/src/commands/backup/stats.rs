//! `talaria backup stats`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria::backup::Stats;

use super::access::AccessArgs;
use super::words::counted_snapshots;
use crate::context::Context;
use crate::error::CliError;
use crate::progress::{grouped, size};
use crate::render::counted;
use crate::terminal::Paint;

/// Show the sizes of a repository
///
/// Compares the files of all snapshots with what the storage has for them. Clients can do this,
/// too: no content is read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let session = args.access.open(place, cx)?;
    let (stats, unreadable) = session.repository.stats(&session.keys, cx.now)?;
    for error in &unreadable {
        cx.status(format_args!("{}: {error}", Paint::stderr().doubtful("Warning")));
    }
    let Stats {
        snapshots,
        files_bytes,
        chunks,
        plain_bytes,
        stored_bytes,
        copies,
        packs,
        pack_bytes,
        unindexed,
    } = stats;
    let mut out = cx.report_stdout();
    if cx.json {
        let json = serde_json::json!({
            "snapshots": snapshots, "files_bytes": files_bytes, "chunks": chunks,
            "plain_bytes": plain_bytes, "stored_bytes": stored_bytes, "copies": copies,
            "packs": packs, "pack_bytes": pack_bytes, "unindexed": unindexed,
        });
        writeln!(out, "{json}")?;
    } else {
        let mut line = |name: &str, text: String| writeln!(out, "{name:<24}{text}");
        let all = counted_snapshots(usize::try_from(snapshots).unwrap_or(usize::MAX));
        line("Files of all snapshots", format!("{:>12}  in {all}", size(files_bytes)))?;
        let different = format!("{:>12}  in {} chunks", size(plain_bytes), grouped(chunks));
        line("Different content", different)?;
        line("Compressed", format!("{:>12}", size(stored_bytes)))?;
        let stored = format!("{:>12}  in {}", size(pack_bytes), counted(packs, "pack"));
        line("In the storage", stored)?;
        if let Some(hundredths) = files_bytes.saturating_mul(100).checked_div(pack_bytes) {
            let ratio = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            line("Files to storage", format!("{ratio:>12}  to 1"))?;
        }
        if copies > 0 {
            line(
                "Further copies",
                format!("{:>12}  of chunks that several clients have", grouped(copies)),
            )?;
        }
        if unindexed > 0 {
            line("Packs without an index", format!("{:>12}", grouped(unindexed)))?;
        }
    }
    Ok(if unreadable.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(4) })
}
