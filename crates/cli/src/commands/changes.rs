//! `talaria changes`

use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use talaria::Token;
use talaria::store::{Access, Cursor};

use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;

/// List changes since a token
///
/// Without --since, prints the current token. With it, prints the certificates that were added,
/// changed or deleted since that token, and the next token. The cost depends on the number of
/// changes, not on the size of the store.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Token printed by an earlier call
    #[arg(long, value_name = "TOKEN")]
    since: Option<Token>,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let Some(opened) = stores.iter().next() else { return Ok(ExitCode::SUCCESS) };
    let store = &opened.store;
    let mut out = std::io::BufWriter::new(cx.stdout());
    let next = Token::now(store)?;
    if let Some(since) = &args.since {
        let since = since.number_in(store)?;
        let mut failed = None;
        store.walk(&mut Cursor::Change(since), |row| {
            let summary = &row.summary;
            let user_id = summary.primary_user_id().map(printable);
            let fingerprint = summary.fingerprint();
            let written = if cx.json {
                let json = serde_json::json!({
                    "change": row.change.get(), "fingerprint": fingerprint.to_string(),
                    "kind": "changed", "user_id": user_id,
                });
                writeln!(out, "{json}")
            } else {
                writeln!(out, "changed {fingerprint} {}", user_id.unwrap_or_default())
            };
            failed = written.err();
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        failed.map_or(Ok(()), Err)?;
        for gone in store.log().tombstones(since)? {
            if cx.json {
                let json = serde_json::json!({
                    "change": gone.change.get(), "fingerprint": gone.fingerprint.to_string(),
                    "kind": "deleted",
                });
                writeln!(out, "{json}")?;
            } else {
                writeln!(out, "deleted {}", gone.fingerprint)?;
            }
        }
    }
    if cx.json {
        writeln!(out, "{}", serde_json::json!({ "token": next.to_string() }))?;
    } else {
        writeln!(out, "token {next}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
