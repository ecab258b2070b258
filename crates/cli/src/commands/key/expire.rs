//! `talaria key expire`

use std::process::ExitCode;

use talaria::store::Query;

use super::publish::{publish_change, to_change};
use super::report::write_key;
use crate::context::Context;
use crate::error::CliError;
use crate::expiry::Expiry;
use crate::keys::unlocker;
use crate::passphrase::PassphraseArgs;
use crate::query::parse_query;
use talaria::day;

/// Set the expiry date of a key
///
/// Subkeys with an expiry date get the same one. Publish the certificate again so that others see
/// the new date.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Key to change
    #[arg(value_name = "KEY", value_parser = parse_query)]
    query: Query,
    /// Expiry: never, now, a date (2030-12-31), or a time from now (90d, 8w, 6m, 2y)
    #[arg(value_name = "WHEN")]
    when: Expiry,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let (keys, mut stores, cert) = to_change(&args.query, cx)?;
    let end = args.when.at(cx.now);
    let mut ask = unlocker(args.passphrase.given()?, std::slice::from_ref(&cert));
    let cert = keys.set_expiry(&cert, &mut ask, end, cx.now)?;
    publish_change(&cert, &mut stores, cx)?;
    let fingerprint = cert.fingerprint().to_hex();
    match end {
        Some(end) => cx.status(format_args!("{fingerprint} now expires on {}.", day(end))),
        None => cx.status(format_args!("{fingerprint} does not expire.")),
    }
    if cx.json {
        write_key(&mut cx.stdout(), &cert, cx)?;
    }
    Ok(ExitCode::SUCCESS)
}
