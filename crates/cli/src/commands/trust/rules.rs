//! `talaria trust rules`

use std::io::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use talaria::store::Access;
use talaria::trust_models::Rules;

use crate::context::Context;
use crate::error::CliError;
use crate::gnupg::Release;

/// Show or change the rules of the web of trust
///
/// By default, as in GnuPG, a user ID is valid with 1 full or 3 marginal certifications, at a depth
/// of up to 5.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Certifications by fully trusted owners that make a user ID valid
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    completes: Option<u8>,
    /// Certifications by marginally trusted owners that make a user ID valid
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..))]
    marginals: Option<u8>,
    /// Longest accepted path from your own keys
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=32))]
    depth: Option<u8>,
    /// GnuPG release to follow: 2.4 ignores all SHA-1 certifications, 2.2 accepts those made before
    /// 2019-01-19
    #[arg(long, value_enum, value_name = "RELEASE")]
    gnupg: Option<Release>,
}

#[derive(Serialize)]
struct RulesJson {
    completes: u8,
    marginals: u8,
    depth: u8,
    gnupg: &'static str,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let changes = args.completes.is_some()
        || args.marginals.is_some()
        || args.depth.is_some()
        || args.gnupg.is_some();
    let access = if changes { Access::Write } else { Access::Read };
    let mut stores = cx.stores(access)?;
    let first = stores.iter().next().map(|opened| opened.store.web().rules());
    let rules = first.transpose().map_err(talaria::Error::from)?.flatten();
    let mut rules: Rules = rules.unwrap_or_default();
    rules.completes = args.completes.unwrap_or(rules.completes);
    rules.marginals = args.marginals.unwrap_or(rules.marginals);
    rules.depth = args.depth.unwrap_or(rules.depth);
    rules.gnupg = args.gnupg.map_or(rules.gnupg, Release::rules);
    if changes {
        stores
            .writable()?
            .web_mut()
            .set_rules(rules, cx.now.into())
            .map_err(talaria::Error::from)?;
    }
    let Rules { completes, marginals, depth, gnupg, .. } = rules;
    let gnupg = Release::of(gnupg).name();
    if cx.json {
        let json = RulesJson { completes, marginals, depth, gnupg };
        let json = serde_json::to_string(&json).map_err(std::io::Error::from)?;
        writeln!(cx.stdout(), "{json}")?;
    } else {
        writeln!(
            cx.stdout(),
            "{completes} full or {marginals} marginal certifications, up to {depth} steps, \
             SHA-1 as in GnuPG {gnupg}"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
