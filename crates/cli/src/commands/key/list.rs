//! `talaria key list`

use std::process::ExitCode;

use talaria::Error;
use talaria::keys::names;
use talaria::store::Query;

use super::super::parse_query;
use super::write_key;
use crate::context::Context;
use crate::error::CliError;

/// List secret keys
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keys to list [default: all]
    #[arg(value_name = "KEY", value_parser = parse_query)]
    queries: Vec<Query>,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let keys = cx.keys()?.list()?;
    let mut out = std::io::stdout().lock();
    for cert in &keys {
        if args.queries.is_empty() || args.queries.iter().any(|query| names(query, cert)) {
            write_key(&mut out, cert, cx)?;
        }
    }
    let missing = args.queries.iter().find(|query| !keys.iter().any(|cert| names(query, cert)));
    match missing {
        Some(query) => Err(Error::NoKey { query: query.to_string() }.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}
