//! `talaria log grant`

use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::store::{Access, Query};
use talaria::{Error, NewGrant};
use talaria_log::{Certificate, Operations, Pattern};

use super::author::SignArgs;
use super::folder::open;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::expiry::Expiry;
use crate::query::parse_query;
use crate::render::printable;

/// Allow somebody to change objects
///
/// The certificate must be able to sign now: it is not expired and not revoked. Afterwards it
/// counts until an owner revokes the grant, the key or the author: a later revocation of the
/// certificate itself does not reach the log. Name it by its fingerprint, which you have compared
/// with the owner; or by its address, if you have confirmed it (see `talaria certify`).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificate of the author: a fingerprint, or the address of a confirmed certificate
    #[arg(value_name = "CERT", value_parser = parse_query)]
    cert: Query,
    /// Object that may be changed: its name, or its identity [default: all]
    #[arg(long, value_name = "OBJECT")]
    object: Option<String>,
    /// Fields that may be changed: a name, or a start with * behind it
    #[arg(long, value_name = "PATTERN", default_value = "*", value_parser = parse_pattern)]
    fields: Pattern,
    /// Operations that are allowed
    #[arg(long, value_enum, value_name = "WHICH", default_value = "changes")]
    operations: Which,
    /// End of the grant: a date or a time from now (2030-12-31, 90d, 2y)
    #[arg(long, value_name = "WHEN", default_value = "never")]
    expires: Expiry,
    #[command(flatten)]
    sign: SignArgs,
}

/// Sets of operations.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// Create and delete objects, change fields, and choose who can read encrypted fields
    All,
    /// Create and delete objects, and change fields
    Changes,
    /// Change fields
    Fields,
    /// Create and delete objects
    Objects,
    /// Choose who can read encrypted fields
    Readers,
}

pub(super) fn parse_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text)
        .ok_or_else(|| "a pattern has 1 to 256 bytes, and no control characters".into())
}

/// The part of a certificate in the store that a log needs of somebody who gets rights.
pub(super) fn member(query: &Query, cx: &Context) -> Result<Certificate, CliError> {
    Ok(cx.stores(Access::Read)?.log_member(query, cx.rules(), cx.now)?)
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let certificate = member(&args.cert, cx)?;
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    let (name, user_id) = (certificate.name(), certificate.user_id().unwrap_or_default());
    let ends = args.expires.at(cx.now);
    if ends.is_some_and(|ends| ends <= cx.now) {
        return Err(CliError::Usage("the end of a grant must be in the future".into()));
    }
    let grant = NewGrant {
        certificate,
        object: args.object.as_deref(),
        fields: args.fields.clone(),
        operations: match args.operations {
            Which::All => Operations::ALL,
            Which::Changes => Operations::CHANGES,
            Which::Fields => Operations::FIELDS,
            Which::Objects => Operations::OBJECTS,
            Which::Readers => Operations::READERS,
        },
        ends_ms: ends.map_or(0, |ends| u64::from(ends) * 1000),
    };
    let granted = grant.put(&log, &mut author.maker(), cx.now_ms());
    let (id, missing) = granted.map_err(with_remedy)?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log grant", "grant": id.to_string(), "certificate": name.to_string(),
            "user_id": user_id, "in_force": missing == 0, "approvals_missing": missing,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "Granted to {name} ({}).\n  Grant: {id}",
            printable(user_id.as_bytes())
        ));
        wait_for_approvals(missing, &id.to_string(), cx);
    }
    Ok(ExitCode::SUCCESS)
}

/// The error of a grant, with a command that helps.
fn with_remedy(error: Error) -> CliError {
    match error {
        Error::LogAlgorithm { .. } => {
            let more = "most keys of today have one: talaria key generate".to_owned();
            CliError::With { error: Box::new(error), more }
        }
        error => error.into(),
    }
}

/// Says how many other owners must agree before an entry takes effect.
pub(super) fn wait_for_approvals(missing: u8, id: &str, cx: &Context) {
    if missing > 0 {
        cx.status(format_args!(
            "It takes effect when {} agreed: talaria log approve {id}",
            match missing {
                1 => "1 other owner has".to_owned(),
                count => format!("{count} other owners have"),
            }
        ));
    }
}
