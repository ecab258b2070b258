//! `talaria key renew`

use std::process::ExitCode;

use talaria::store::Query;

use super::publish::{publish_change, to_change};
use super::report::write_key;
use crate::context::Context;
use crate::error::CliError;
use crate::keys::unlocker;
use crate::passphrase::PassphraseArgs;
use crate::query::parse_query;
use crate::render::counted;

/// Renew what is old in a key
///
/// Self-signatures with broken hash functions (SHA-1) are made again, and parts of which less than
/// half of their time is left are valid for the same time again. Publish the certificate again so
/// that others see it. "talaria key check" says what is old.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Key to renew
    #[arg(value_name = "KEY", value_parser = parse_query)]
    query: Query,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let (keys, mut stores, cert) = to_change(&args.query, cx)?;
    let mut ask = unlocker(args.passphrase.given()?, std::slice::from_ref(&cert));
    let (cert, made) = keys.renew(&cert, &mut ask, cx.now)?;
    publish_change(&cert, &mut stores, cx)?;
    let fingerprint = cert.fingerprint().to_hex();
    match made {
        0 => cx.status(format_args!("Nothing in {fingerprint} had to be renewed.")),
        _ => cx.status(format_args!(
            "Renewed {fingerprint} by {}. Publish it again: talaria export --armor {fingerprint}",
            counted(made, "new signature")
        )),
    }
    if cx.json {
        write_key(&mut cx.stdout(), &cert, cx)?;
    }
    Ok(ExitCode::SUCCESS)
}
