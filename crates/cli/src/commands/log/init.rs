//! `talaria log init`

use std::path::Path;
use std::process::ExitCode;

use talaria::store::Query;
use talaria_log::{Certificate, Genesis, LogError, LogFolder, MergeRule, Pattern, SignerError};

use super::SignArgs;
use super::grant::member;
use crate::commands::parse_query;
use crate::context::{Content, Context};
use crate::error::CliError;

/// Make a log
///
/// Your key signs the first entry and becomes an owner. The first entry also fixes the other owners and the merge rules, for
/// ever. Other nodes get the log with `talaria log import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificate of a further owner (can be repeated)
    #[arg(long, value_name = "CERT", value_parser = parse_query)]
    owner: Vec<Query>,
    /// Number of owners who must agree on a grant, a revocation or a choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    threshold: u8,
    /// Merge rule of the fields that match PATTERN, which may end with *: last-writer, strict, set, counter or list (can be
    /// repeated, the first match counts) [default: last-writer]
    #[arg(long, value_name = "PATTERN=RULE", value_parser = parse_rule)]
    rule: Vec<(Pattern, MergeRule)>,
    #[command(flatten)]
    sign: SignArgs,
}

fn parse_rule(text: &str) -> Result<(Pattern, MergeRule), String> {
    let (pattern, name) = text.rsplit_once('=').ok_or("a rule is PATTERN=RULE, as tags*=set")?;
    let pattern = Pattern::new(pattern).ok_or("a pattern has 1 to 256 octets")?;
    let rule =
        MergeRule::from_name(name).ok_or("a rule is last-writer, strict, set, counter or list")?;
    Ok((pattern, rule))
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut author = args.sign.author(cx)?;
    let fit = |error: SignerError| CliError::from(LogError::from(error));
    let mut owners: Vec<Certificate> =
        vec![Certificate::of_signer(&author.cert, cx.now).map_err(fit)?];
    for query in &args.owner {
        let owner = member(query, cx)?;
        if owners.iter().all(|other| other.name() != owner.name()) {
            owners.push(owner);
        }
    }
    if args.threshold == 0 || usize::from(args.threshold) > owners.len() {
        return Err(CliError::Usage(format!(
            "--threshold {}: the log has {}, so it is from 1 to {}",
            args.threshold,
            crate::render::counted(owners.len(), "owner"),
            owners.len()
        )));
    }
    let mut genesis = Genesis::new(owners, args.threshold);
    genesis.allow_keys_of_owners();
    genesis.rules.clone_from(&args.rule);
    let owners: Vec<String> = genesis.owners.iter().map(|cert| cert.name().to_string()).collect();
    let genesis = author.maker().begin(genesis, cx.now_ms()).map_err(LogError::from)?;
    let log = LogFolder::create(folder, &genesis)?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log init", "log": log.id().to_string(), "owners": owners,
            "threshold": args.threshold,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "Made the log {} in {}.\n  Owners: {}",
            log.id(),
            folder.display(),
            owners.join("\n          ")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
