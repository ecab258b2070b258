//! `talaria key add-subkey`

use std::process::ExitCode;

use talaria::keys::{SubkeyOptions, SubkeyUse};
use talaria::store::Query;

use super::generate::AlgorithmArg;
use super::publish::{publish_change, to_change};
use super::report::{Extra, write_key_with};
use crate::context::Context;
use crate::error::CliError;
use crate::expiry::Expiry;
use crate::keys::unlocker;
use crate::passphrase::PassphraseArgs;
use crate::query::parse_query;

/// Add a subkey to a key
///
/// The new subkey gets the passphrase of the primary key. Programs use the newest subkey for each
/// purpose, so a new subkey also replaces an old one. Keep the old encryption subkey to read old
/// messages; `talaria key revoke --subkey` revokes one.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("use").required(true).multiple(true))]
pub(super) struct Args {
    /// Key to change
    #[arg(value_name = "KEY", value_parser = parse_query)]
    query: Query,
    /// Add a signing subkey
    #[arg(long, group = "use")]
    sign: bool,
    /// Add an encryption subkey
    #[arg(long, group = "use", conflicts_with_all = ["sign", "authenticate"])]
    encrypt: bool,
    /// Add an authentication subkey, as for SSH
    #[arg(long, group = "use")]
    authenticate: bool,
    /// Algorithm
    #[arg(long, value_enum, default_value_t = AlgorithmArg::Curve25519)]
    algorithm: AlgorithmArg,
    /// Expiry: never, a date (2030-12-31), or a time from now (90d, 8w, 6m, 2y); not later than the
    /// key's
    #[arg(long, value_name = "WHEN", default_value = "never")]
    expires: Expiry,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut options = SubkeyOptions::default();
    options.uses = match (args.sign, args.authenticate) {
        (true, true) => SubkeyUse::SignAndAuthenticate,
        (true, false) => SubkeyUse::Sign,
        (false, true) => SubkeyUse::Authenticate,
        (false, false) => SubkeyUse::Encrypt,
    };
    options.algorithm = args.algorithm.into();
    options.validity_seconds = args.expires.seconds(cx.now)?;
    let (keys, mut stores, cert) = to_change(&args.query, cx)?;
    let mut ask = unlocker(args.passphrase.given()?, std::slice::from_ref(&cert));
    let added = keys.add_subkey(&cert, &mut ask, &options, cx.rules(), cx.now)?;
    publish_change(&added.cert, &mut stores, cx)?;
    let subkey = [Extra::Added(added.subkey.clone())];
    write_key_with(&mut cx.stdout(), &added.cert, &subkey, cx)?;
    cx.status(format_args!("Added the subkey {}.", added.subkey.to_hex()));
    Ok(ExitCode::SUCCESS)
}
