//! `talaria compact`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::store::Access;

use crate::context::Context;
use crate::error::CliError;
use crate::progress::size;

/// Return free space to the file system and defragment the store
///
/// Removes replaced entries of the change log, merges the full-text indexes and rewrites the file. Needs free
/// space for a second copy of the store. Other programs can read meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let store = stores.writable()?;
    let bytes = |store: &talaria::store::Store| store.pages().map(|p| p.page_bytes * p.total);
    let before = bytes(store)?;
    cx.step("compacting", || store.compact(None))?;
    let after = bytes(store)?;
    let mut out = cx.stdout();
    if cx.json {
        writeln!(out, "{}", serde_json::json!({ "bytes_before": before, "bytes_after": after }))?;
    } else {
        let (before, after) = (size(before), size(after));
        writeln!(out, "{}: {before} before, {after} now", store.path().display())?;
    }
    Ok(ExitCode::SUCCESS)
}
