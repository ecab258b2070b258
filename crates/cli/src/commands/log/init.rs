//! `talaria log init`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria::store::Query;
use talaria_log::{
    Certificate, GRACE_S, Genesis, LogError, LogFolder, MergeRule, NoteKind, NoteSecret, Pattern,
    SignerError, WITNESSES_MAX, Witness, make_note_key, origin, public_path, read_public_note_key,
    write_note_key,
};

use super::SignArgs;
use super::grant::member;
use crate::commands::parse_query;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::expiry::Expiry;

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
    /// Make a key for checkpoints in a new FILE, and its public part in FILE.pub; see `talaria log checkpoint`
    #[arg(long, value_name = "FILE")]
    checkpointer: Option<PathBuf>,
    /// Public key of a witness who cosigns checkpoints, from `talaria log witness init` (can be repeated)
    #[arg(long, value_name = "FILE", requires = "checkpointer")]
    witness: Vec<PathBuf>,
    /// Number of witnesses who must cosign a checkpoint [default: the smallest majority]
    #[arg(long, value_name = "N", requires = "witness")]
    cosigners: Option<u8>,
    /// Time after the expiry of a key within which a checkpoint must cover its entries: 3d, 2w [default: 7d]
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

impl Args {
    /// Names the checkpointer and the witnesses in genesis. Returns the key of the checkpointer.
    fn checkpoints(&self, genesis: Genesis) -> Result<(Genesis, Option<NoteSecret>), CliError> {
        if self.checkpointer.is_none() {
            return Ok((genesis, None));
        }
        let mut witnesses: Vec<Witness> = Vec::new();
        for path in &self.witness {
            let found = read_public_note_key(path)?;
            if found.kind != NoteKind::Timed {
                return Err(CliError::Usage(format!(
                    "{} is not the key of a witness: talaria log witness init makes one",
                    path.display()
                )));
            }
            if witnesses.iter().all(|other| other.key != found.key) {
                witnesses.push(Witness { name: found.name, key: found.key });
            }
        }
        let count = witnesses.len();
        if count > WITNESSES_MAX {
            return Err(CliError::Usage(format!("a log has at most {WITNESSES_MAX} witnesses")));
        }
        // The name follows from the log, which does not exist yet.
        let key = make_note_key("checkpointer", NoteKind::Plain)?;
        let mut genesis = genesis.with_checkpointer(key.public().key, witnesses);
        let majority = genesis.witness_threshold;
        if let Some(wanted) = self.cosigners {
            if wanted < majority || usize::from(wanted) > count {
                return Err(CliError::Usage(format!(
                    "--cosigners {wanted}: it is a majority of the witnesses, so it is from {majority} to {count}"
                )));
            }
            genesis.witness_threshold = wanted;
        }
        genesis.grace_s = self.grace.unwrap_or(GRACE_S);
        Ok((genesis, Some(key)))
    }
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
    let (genesis, key) = args.checkpoints(genesis)?;
    let genesis = author.maker().begin(genesis, cx.now_ms()).map_err(LogError::from)?;
    // The key is on disk before the log: without it, the log would have no checkpoints for ever.
    let key = key.and_then(|key| key.named(&origin(genesis.id)));
    if let (Some(path), Some(key)) = (&args.checkpointer, &key) {
        write_note_key(path, key)?;
    }
    let made = LogFolder::create(folder, &genesis);
    if let (Err(LogError::Occupied { .. }), Some(path)) = (&made, &args.checkpointer) {
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(public_path(path));
    }
    let log = made?;
    let checkpointer = key.map(|key| key.public().to_string());
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
