//! `talaria trust set`

use std::process::ExitCode;

use clap::ValueEnum;
use talaria::store::{Access, Query};
use talaria::trust_models::Level;

use crate::context::{Content, Context};
use crate::error::CliError;
use crate::query::parse_query;
use crate::render::counted;

/// Set the owner trust of a certificate: how much you trust its owner to certify others
///
/// Owner trust does not make the certificate itself valid: use `talaria certify` for that, first.
/// For marginal, full and ultimate, an address names a confirmed certificate only; a fingerprint
/// names any. Use `ultimate` for your own keys only.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Certificate whose owner trust to set
    #[arg(value_name = "QUERY", value_parser = parse_query)]
    query: Query,
    /// Owner trust
    #[arg(value_name = "LEVEL", value_enum)]
    level: LevelArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LevelArg {
    /// No owner trust set
    Unknown,
    /// You do not know (same effect as unknown)
    Undefined,
    /// Certifications by the owner do not count
    Never,
    /// Three certifications by such owners make a user ID valid
    Marginal,
    /// One certification by such an owner makes a user ID valid
    Full,
    /// Your own key: a trust root
    Ultimate,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let counts = matches!(args.level, LevelArg::Marginal | LevelArg::Full | LevelArg::Ultimate);
    let fingerprint = if counts {
        // The owner's word will count, so it must be clear who the owner is.
        let cert = stores.signer(&args.query, cx.now)?.fingerprint().to_hex();
        let exact = cert.parse().map_err(talaria::Error::from)?;
        stores.only(&exact, cx.now)?.summary.fingerprint()
    } else {
        stores.only(&args.query, cx.now)?.summary.fingerprint()
    };
    let level = match args.level {
        LevelArg::Unknown => Level::Unknown,
        LevelArg::Undefined => Level::Undefined,
        LevelArg::Never => Level::Never,
        LevelArg::Marginal => Level::Marginal,
        LevelArg::Full => Level::Full,
        LevelArg::Ultimate => Level::Ultimate,
    };
    let store = stores.writable()?;
    // Keep the flag of a disabled key.
    let flags =
        store.web().ownertrust(fingerprint).map_err(talaria::Error::from)?.unwrap_or(0) & 0x80;
    let report = store
        .web_mut()
        .set_ownertrust(&[(fingerprint, level as u8 | flags)], cx.now.into())
        .map_err(talaria::Error::from)?;
    cx.status(format_args!(
        "Set the owner trust of {fingerprint} to {}; {} changed.",
        level.name(),
        counted(report.changed, "validity")
    ));
    let json = serde_json::json!({
        "action": "set_ownertrust", "fingerprint": fingerprint.to_string(),
        "ownertrust": level.name(), "changed": report.changed,
    });
    cx.report(Content::Elsewhere, &json)?;
    Ok(ExitCode::SUCCESS)
}
