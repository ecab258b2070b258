//! `talaria trust show`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::store::{Access, Query};
use talaria::trust_models::Level;

use crate::context::Context;
use crate::error::CliError;
use crate::query::parse_query;
use crate::render::lines::Lines;
use crate::trust::TrustArgs;

/// Show the validity and owner trust of certificates
///
/// `talaria trust path` shows the reason.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Certificates to show
    #[arg(value_name = "QUERY", required = true, value_parser = parse_query)]
    queries: Vec<Query>,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let mut lines = Lines::new(&stores, cx.now, false, false);
    if let Some(opened) = stores.iter().next() {
        lines = lines.judged(args.trust.settings().judge(&opened.store, false, cx.now)?);
    }
    let mut out = cx.stdout();
    let mut buffer = Vec::new();
    let order = talaria::store::Order::Insertion;
    stores.visit(&args.queries, order, cx.now, |opened, row| {
        if cx.json {
            return lines
                .json(&mut buffer, opened, &row)
                .map(|()| std::ops::ControlFlow::Continue(()));
        }
        lines.text(&mut buffer, opened, &row)?;
        buffer.pop();
        let value = opened.store.web().ownertrust(row.summary.fingerprint())?;
        let level = value.and_then(Level::from_number).unwrap_or_default();
        let disabled = if value.unwrap_or(0) & 0x80 != 0 { ", disabled" } else { "" };
        let _ = writeln!(buffer, "trust in the owner: {}{disabled}\n", level.name());
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    out.write_all(&buffer)?;
    Ok(ExitCode::SUCCESS)
}
