//! `talaria compact`

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use talaria::store::Access;

use crate::context::Context;
use crate::error::CliError;
use crate::progress::size;

/// Return free space to the file system and defragment the store
///
/// Removes replaced entries of the change log, merges the full-text indexes and rewrites the file.
/// Needs free space for a second copy of the store. Other programs can read meanwhile.
///
/// Then the command waits up to a minute for programs that read an older state. If one is left,
/// deleted and redacted data can still be in the file and in its log; the command says so.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// How long the command waits for readers.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(_: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let store = stores.writable()?;
    let bytes = |store: &talaria::store::Store| store.pages().map(|p| p.page_bytes * p.total);
    let before = bytes(store)?;
    let compacted = cx.step("compacting", || store.compact(None, PATIENCE))?;
    let after = bytes(store)?;
    let mut out = cx.stdout();
    if cx.json {
        writeln!(
            out,
            "{}",
            serde_json::json!({
                "bytes_before": before, "bytes_after": after, "log_emptied": compacted.is_log_empty,
            })
        )?;
    } else {
        let (before, after) = (size(before), size(after));
        writeln!(out, "{}: {before} before, {after} now", store.path().display())?;
    }
    if !compacted.is_log_empty {
        cx.status(format_args!(
            "Another program still reads an older state: deleted and redacted data can still be in {0} and {0}-wal. When that program has \
             ended, repeat: talaria compact",
            store.path().display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}
