//! `talaria admin backup`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::Progress;
use talaria::store::Access;

use crate::context::Context;
use crate::error::CliError;
use crate::progress::grouped;

/// Back up the store while it is in use
///
/// Writes a consistent copy with certificates, block list, redactions, peers and counters. The copy
/// is a store, which `talaria admin restore` puts in place. The file appears when it is complete.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File to write, which must not exist
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Read)?;
    let store = stores.writable()?;
    let page_bytes = store.pages()?.page_bytes;
    let mut bytes = 0;
    cx.shown(|report| {
        store.backup(&args.target, |done, all| {
            bytes = all * page_bytes;
            report(Progress {
                bytes: done * page_bytes,
                bytes_total: bytes,
                step: Some("copying"),
                ..Progress::default()
            });
        })
    })?;
    let mut out = cx.stdout();
    let target = args.target.display().to_string();
    if cx.json {
        writeln!(out, "{}", serde_json::json!({ "target": target, "bytes": bytes }))?;
    } else {
        writeln!(out, "{target}: {} bytes", grouped(bytes))?;
    }
    Ok(ExitCode::SUCCESS)
}
