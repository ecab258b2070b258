//! `talaria show`

use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use talaria::store::{Access, Order, Query};

use crate::context::Context;
use crate::error::CliError;
use crate::query::parse_query;
use crate::render::lines::Lines;
use crate::render::printable;
use crate::terminal::PagerArgs;

/// Show one certificate in detail
///
/// Shows keys with keygrips, user IDs, and the signatures of each with date and whether they are
/// good. Signatures by others are counted; --with-sigs lists them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificate to show
    #[arg(value_name = "CERT", value_parser = parse_query)]
    query: Query,
    /// Also list the signatures by others, with the names of their issuers
    #[arg(long)]
    with_sigs: bool,
    #[command(flatten)]
    pager: PagerArgs,
}

/// The maximum number of candidates listed for an ambiguous search.
const CANDIDATES_MAX: usize = 20;

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let mut found = Vec::new();
    let mut first = None;
    let queries = std::slice::from_ref(&args.query);
    stores.visit(queries, Order::Insertion, cx.now, |opened, row| {
        let summary = &row.summary;
        let user_id = summary.primary_user_id().map(printable).unwrap_or_default();
        found.push(format!("{} {user_id}", summary.fingerprint()));
        first.get_or_insert((opened.path.clone(), row));
        Ok(if found.len() > CANDIDATES_MAX {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    if found.len() > 1 {
        let more = found.len() > CANDIDATES_MAX;
        found.truncate(CANDIDATES_MAX);
        let count =
            if more { format!("more than {CANDIDATES_MAX}") } else { found.len().to_string() };
        return Err(CliError::Ambiguous {
            query: args.query.to_string(),
            count,
            candidates: found,
        });
    }
    let Some((path, row)) = first else { return Ok(ExitCode::SUCCESS) };
    let Some(opened) = stores.iter().find(|opened| opened.path == path) else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut lines = Lines::new(&stores, cx.now, true, true);
    let mut out = Vec::new();
    if cx.json {
        lines.json(&mut out, opened, &row)?;
    } else {
        lines.details(&mut out, opened, &row, args.with_sigs)?;
    }
    args.pager.open(cx.form()).write_all(&out)?;
    Ok(ExitCode::SUCCESS)
}
