//! `talaria log init`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria::store::Query;
use talaria::{Error, NewLog, log_certificate};
use talaria_log::{MergeRule, NewCheckpointer, Pattern};

use super::author::SignArgs;
use super::grant::member;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::expiry::Expiry;
use crate::query::parse_query;
use crate::render::counted;

/// Make a log
///
/// Your key signs the first entry and becomes an owner. The first entry also fixes the other owners
/// and the merge rules, for ever. Other nodes get the log with `talaria log import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificate of a further owner: a fingerprint, or the address of a confirmed certificate
    /// (can be repeated)
    #[arg(long, value_name = "CERT", value_parser = parse_query)]
    owner: Vec<Query>,
    /// Number of owners who must agree on a grant, a revocation or a choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    threshold: u8,
    /// Merge rule of the fields that match PATTERN, which may end with *: last-writer, strict, set,
    /// counter or list (can be repeated, the first match counts) [default: last-writer]
    #[arg(long, value_name = "PATTERN=RULE", value_parser = parse_rule)]
    rule: Vec<(Pattern, MergeRule)>,
    /// Make a key for checkpoints in a new FILE, and its public part in FILE.pub; see `talaria log
    /// checkpoint`
    #[arg(long, value_name = "FILE")]
    checkpointer: Option<PathBuf>,
    /// Public key of a witness who cosigns checkpoints, from `talaria log witness init` (can be
    /// repeated)
    #[arg(long, value_name = "FILE", requires = "checkpointer")]
    witness: Vec<PathBuf>,
    /// Number of witnesses who must cosign a checkpoint [default: the smallest majority]
    #[arg(long, value_name = "N", requires = "witness")]
    cosigners: Option<u8>,
    /// Time after the expiry of a key within which a checkpoint must cover its entries: 3d, 2w
    /// [default: 7d]
    #[arg(long, value_name = "TIME", requires = "checkpointer", value_parser = parse_grace)]
    grace: Option<u32>,
    #[command(flatten)]
    sign: SignArgs,
}

fn parse_grace(text: &str) -> Result<u32, String> {
    match text.parse::<Expiry>() {
        Ok(Expiry::In(seconds)) => Ok(seconds),
        _ => Err("it is a time, as 3d or 2w".to_owned()),
    }
}

fn parse_rule(text: &str) -> Result<(Pattern, MergeRule), String> {
    let (pattern, name) = text.rsplit_once('=').ok_or("a rule is PATTERN=RULE, as tags*=set")?;
    let pattern = Pattern::new(pattern).ok_or("a pattern has 1 to 256 bytes")?;
    let rule =
        MergeRule::from_name(name).ok_or("a rule is last-writer, strict, set, counter or list")?;
    Ok((pattern, rule))
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut author = args.sign.author(cx)?;
    let mut owners = vec![log_certificate(author.cert(), cx.now)?];
    for query in &args.owner {
        owners.push(member(query, cx)?);
    }
    let checkpointer = args.checkpointer.as_deref().map(|key| NewCheckpointer {
        key,
        witnesses: &args.witness,
        cosigners: args.cosigners,
        grace_s: args.grace,
    });
    let threshold = args.threshold;
    let new = NewLog { owners, threshold, rules: args.rule.clone(), checkpointer };
    let made = new.make(folder, &mut author.maker(), cx.now_ms());
    let (log, key) = made.map_err(|error| match error {
        Error::LogThreshold { owners } => CliError::Usage(format!(
            "--threshold {threshold}: the log has {}, so it is from 1 to {owners}",
            counted(owners, "owner")
        )),
        error => error.into(),
    })?;
    let checkpointer = key.map(|key| key.to_string());
    let owners = log.read(|log| {
        let names = log.genesis().owners.iter().map(|cert| cert.name().to_string());
        names.collect::<Vec<String>>()
    })?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log init", "log": log.id().to_string(), "owners": owners,
            "threshold": args.threshold, "checkpointer": checkpointer,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "Made the log {} in {}.\n  Owners: {}",
            log.id(),
            folder.display(),
            owners.join("\n          ")
        ));
        if let (Some(path), Some(key)) = (&args.checkpointer, checkpointer) {
            cx.status(format_args!("  Checkpointer: {key}\n  Its secret key: {}", path.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
