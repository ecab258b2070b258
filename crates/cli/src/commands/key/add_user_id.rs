//! `talaria key add-user-id`

use std::process::ExitCode;

use talaria::keys::Rank;
use talaria::store::Query;

use super::publish::{publish_change, to_change};
use super::report::write_key;
use crate::context::Context;
use crate::error::CliError;
use crate::keys::unlocker;
use crate::passphrase::PassphraseArgs;
use crate::query::parse_query;

/// Add a user ID to a key
///
/// Certifications by others do not cover the new user ID: ask them to certify it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Key to change
    #[arg(value_name = "KEY", value_parser = parse_query)]
    query: Query,
    /// Name and address: "Alice <alice@example.org>"
    #[arg(value_name = "USER-ID", value_parser = parse_user_id)]
    user_id: String,
    /// Make it the primary user ID, which listings show first
    #[arg(long)]
    primary: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let (keys, mut stores, cert) = to_change(&args.query, cx)?;
    let rank = if args.primary { Rank::Primary } else { Rank::Further };
    let mut ask = unlocker(args.passphrase.given()?, std::slice::from_ref(&cert));
    let cert = keys.add_user_id(&cert, &mut ask, &args.user_id, rank, cx.rules(), cx.now)?;
    publish_change(&cert, &mut stores, cx)?;
    write_key(&mut cx.stdout(), &cert, cx)?;
    Ok(ExitCode::SUCCESS)
}

/// Parses a user ID for a new key.
pub(super) fn parse_user_id(text: &str) -> Result<String, &'static str> {
    // A bracket that stands alone is a slip, and programs would not find the address.
    let has_address = match text.split_once('<') {
        None => !text.contains('>'),
        Some((_, rest)) => rest.strip_suffix('>').is_some_and(|inner| !inner.contains(['<', '>'])),
    };
    if text.trim().is_empty() || text.contains(char::is_control) || !has_address {
        return Err("a user ID is a name and an address, such as \"Alice <alice@example.org>\"");
    }
    Ok(text.to_owned())
}
