//! `talaria delete`

use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use talaria::store::{Access, Order, Query, Return};

use crate::commands::admin::digits::Digits;
use crate::confirm::{Unasked, confirm};
use crate::context::Context;
use crate::error::CliError;
use crate::query::parse_query;
use crate::render::printable;

/// Delete certificates from the store
///
/// Each CERT must match one certificate, unless --all-matches is given. On a terminal, talaria
/// shows what it will delete and asks. The change log keeps the fingerprints of deleted
/// certificates for programs that follow it. Secret keys are not touched: see `talaria key delete`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificates to delete
    #[arg(value_name = "CERT", required = true, value_parser = parse_query)]
    queries: Vec<Query>,
    /// Also refuse to import them again, even if they are not in the store now
    #[arg(long)]
    block: bool,
    /// Delete nothing; accept certificates again that were blocked with --block
    #[arg(long, conflicts_with = "block")]
    unblock: bool,
    /// Delete all certificates that match
    #[arg(long)]
    all_matches: bool,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(if args.dry_run { Access::Read } else { Access::Write })?;
    if !args.dry_run {
        stores.writable()?;
    }
    let mut named = Vec::new();
    let mut fingerprints = Vec::new();
    for query in &args.queries {
        // A certificate that is not in the store can be blocked, too.
        let blocked = match query {
            Query::Fingerprint(bytes) if args.block || args.unblock => {
                let store = stores.writable()?;
                Digits(bytes.clone()).resolve(|query| {
                    let found = store.select(query, 100)?.rows;
                    let here = found.iter().map(|row| row.summary.fingerprint());
                    let gone = store.log().all_tombstones()?;
                    Ok(here.chain(gone.iter().map(|tombstone| tombstone.fingerprint)).collect())
                })?
            }
            _ => None,
        };
        if let Some(fingerprint) = blocked {
            named.push(fingerprint.to_string());
            fingerprints.push(fingerprint);
            continue;
        }
        if args.unblock {
            return Err(CliError::Usage(format!(
                "--unblock takes fingerprints, because blocked certificates are not in the store; \"{query}\" is not a fingerprint"
            )));
        }
        let before = named.len();
        let queries = std::slice::from_ref(query);
        let first = stores.iter().next().map(|opened| opened.path.clone());
        stores.visit(queries, Order::Insertion, cx.now, |opened, row| {
            if Some(&opened.path) == first.as_ref() {
                let summary = &row.summary;
                let user_id = summary.primary_user_id().map(printable).unwrap_or_default();
                named.push(format!("{} {user_id}", summary.fingerprint()));
                fingerprints.push(summary.fingerprint());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if named.len() - before > 1 && !args.all_matches {
            let candidates: Vec<String> = named[before..].iter().take(20).cloned().collect();
            return Err(CliError::Ambiguous {
                query: query.to_string(),
                count: (named.len() - before).to_string(),
                candidates,
            });
        }
    }
    if !args.dry_run && !args.unblock {
        let verb = if args.block { "deletes and blocks" } else { "deletes" };
        let what = format!("This {verb}:\n  {}", named.join("\n  "));
        // The certificate can be imported again, so scripts need no --yes.
        confirm(cx, args.yes, &what, "Continue?", Unasked::Proceed)?;
    }
    let (count, verb) = if args.dry_run {
        (fingerprints.len() as u64, "would be deleted")
    } else if args.unblock {
        (stores.writable()?.operator_mut().unblock(&fingerprints)?, "allowed back")
    } else {
        let returning = if args.block { Return::Blocked } else { Return::Allowed };
        let deleted = stores.writable()?.delete(&fingerprints, returning, cx.now.into())?;
        (deleted, if args.block { "deleted and blocked" } else { "deleted" })
    };
    let mut out = cx.report_stdout();
    if cx.json {
        let names: Vec<String> = fingerprints.iter().map(ToString::to_string).collect();
        let json = serde_json::json!({ "action": verb, "count": count, "fingerprints": names });
        writeln!(out, "{json}")?;
    } else {
        for name in &named {
            writeln!(out, "{verb}: {name}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
