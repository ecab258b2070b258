//! `talaria trust set`

use std::process::ExitCode;

use clap::ValueEnum;
use talaria::store::{Access, Query};
use talaria::trust_models::Level;

use super::super::{one_certificate, parse_query};
use crate::context::Context;
use crate::error::CliError;
use crate::render::counted;

/// Say how much you trust the owner of a certificate to certify others
///
/// That is not whether the certificate is real, which follows from who certified it. Ultimate is for your own
/// keys.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The certificate
    #[arg(value_name = "QUERY", value_parser = parse_query)]
    query: Query,
    /// How much
    #[arg(value_name = "LEVEL", value_enum)]
    level: LevelArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LevelArg {
    /// Nothing is said
    Unknown,
    /// You do not know
    Undefined,
    /// Their certifications do not count
    Never,
    /// Three of them make a user ID valid
    Marginal,
    /// Each of them makes a user ID valid
    Full,
    /// It is yours
    Ultimate,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let row = one_certificate(&stores, &args.query, cx.now)?;
    let level = match args.level {
        LevelArg::Unknown => Level::Unknown,
        LevelArg::Undefined => Level::Undefined,
        LevelArg::Never => Level::Never,
        LevelArg::Marginal => Level::Marginal,
        LevelArg::Full => Level::Full,
        LevelArg::Ultimate => Level::Ultimate,
    };
    let store = stores.writable()?;
    let fingerprint = row.summary.fingerprint();
    // A key that is disabled stays so.
    let flags = store.ownertrust(fingerprint).map_err(talaria::Error::from)?.unwrap_or(0) & 0x80;
    let report = store
        .set_ownertrust(&[(fingerprint, level as u8 | flags)], cx.now)
        .map_err(talaria::Error::from)?;
    cx.status(format_args!(
        "Set the owner trust of {fingerprint} to {}; {} changed.",
        level.name(),
        counted(report.changed, "validity")
    ));
    Ok(ExitCode::SUCCESS)
}
