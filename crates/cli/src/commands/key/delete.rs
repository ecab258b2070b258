//! `talaria key delete`

use std::process::ExitCode;

use talaria::described;
use talaria::store::Query;

use crate::confirm::{Unasked, confirm};
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::query::parse_query;

/// Delete a secret key
///
/// Without a copy of the key, messages encrypted to it can never be decrypted again. talaria shows
/// the key and asks. The certificate stays in the store.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Key to delete
    #[arg(value_name = "KEY", value_parser = parse_query)]
    query: Query,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let keys = cx.keys()?;
    let cert = keys.one(&args.query)?;
    let fingerprint = cert.fingerprint();
    let what = format!(
        "This deletes the secret key {}. Without a copy, messages encrypted to it can never be decrypted again.",
        described(&cert)
    );
    confirm(cx, args.yes, &what, "Delete it?", Unasked::Refuse)?;
    keys.delete(&fingerprint)?;
    let fingerprint = fingerprint.to_hex();
    cx.status(format_args!("Deleted the secret key {fingerprint}."));
    cx.report(
        Content::Elsewhere,
        &serde_json::json!({ "action": "delete", "fingerprint": fingerprint }),
    )?;
    Ok(ExitCode::SUCCESS)
}
