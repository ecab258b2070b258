//! `talaria key passphrase`

use std::process::ExitCode;

use talaria::keys::unlocked;
use talaria::store::Query;

use super::protection::new_protection;
use super::report::write_key;
use crate::context::Context;
use crate::error::CliError;
use crate::keys::unlocker;
use crate::passphrase::{NewPassphraseArgs, PassphraseArgs};
use crate::query::parse_query;

/// Change the passphrase of a key
///
/// Also changes it for all subkeys. Exported copies keep the old passphrase.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Key to change
    #[arg(value_name = "KEY", value_parser = parse_query)]
    query: Query,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    #[command(flatten)]
    new: NewPassphraseArgs,
    /// Remove the passphrase; only file permissions protect the key
    #[arg(long)]
    no_passphrase: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let keys = cx.keys()?;
    let cert = keys.one(&args.query)?;
    let fingerprint = cert.fingerprint().to_hex();
    let mut ask = unlocker(args.passphrase.given()?, std::slice::from_ref(&cert));
    let unlocked = unlocked(cert, &mut ask)?;
    let protection =
        new_protection(&args.new.clone().into(), args.no_passphrase, "New passphrase of the key")?;
    keys.protect(unlocked, &protection)?;
    if cx.json {
        write_key(&mut cx.stdout(), &keys.one(&args.query)?, cx)?;
    }
    cx.status(format_args!("Changed the passphrase of {fingerprint}."));
    Ok(ExitCode::SUCCESS)
}
