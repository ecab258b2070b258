//! `talaria log revoke`

use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::message::openpgp::Fingerprint;
use talaria::{Error, Revoked, log_author, log_grant, log_revoke};
use talaria_log::{EntryId, Honoured, KeyName, Log, Target};

use super::author::SignArgs;
use super::folder::open;
use super::grant::wait_for_approvals;
use super::identity::parse_entry;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::expiry::Expiry;
use crate::query::parse_query;
use crate::render::counted;

/// End a grant, a key or an author
///
/// By default everything counts that this node has from the author now, and nothing else: other
/// entries do not count, whatever date they have. If a key was stolen earlier, name the last good
/// entry of each device with --last. `talaria log history` shows the identities of entries.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Grant (its identity), or author (certificate)
    #[arg(value_name = "GRANT|CERT")]
    what: String,
    /// End only this key of the author: the fingerprint of the key
    #[arg(long, value_name = "FINGERPRINT", value_parser = parse_key)]
    only_key: Option<KeyName>,
    /// Last entry of a device that counts (can be repeated). Devices without one do not count at
    /// all
    #[arg(long, value_name = "ENTRY", value_parser = parse_entry)]
    last: Vec<EntryId>,
    /// No entry counts, from the beginning
    #[arg(long, conflicts_with = "last")]
    all: bool,
    /// The key was stolen at this time: a date (2026-11-22), or seconds since 1970. Entries count
    /// if a valid checkpoint covered them before
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["last", "all"], value_parser = parse_when)]
    stolen: Option<u64>,
    /// Reason
    #[arg(long, value_enum, value_name = "REASON", default_value = "none")]
    reason: Reason,
    #[command(flatten)]
    sign: SignArgs,
}

/// Reasons for a revocation (RFC 9580, section 5.2.3.31).
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reason {
    /// No reason
    None = 0,
    /// Replaced by another key
    Superseded = 1,
    /// In the hands of somebody else
    Compromised = 2,
    /// No longer used
    Retired = 3,
}

fn parse_when(text: &str) -> Result<u64, String> {
    let seconds = text.parse::<u64>().ok().filter(|time| *time > 0 && *time < 1 << 63);
    match (seconds, text.parse::<Expiry>()) {
        (Some(seconds), _) => Ok(seconds),
        (None, Ok(Expiry::At(time @ 1..))) => Ok(time.into()),
        _ => Err("it is a date, as 2026-11-22, or seconds since 1970".to_owned()),
    }
}

fn parse_key(text: &str) -> Result<KeyName, String> {
    let parsed: Result<Fingerprint, _> = text.parse();
    let name = parsed.ok().and_then(|fingerprint| KeyName::of_openpgp(&fingerprint));
    name.ok_or_else(|| "a fingerprint has 40 or 64 hexadecimal digits".to_owned())
}

impl Args {
    fn target(&self, log: &Log) -> Result<Target, CliError> {
        // A grant and a fingerprint of version 6 have the same form.
        if let Some(id) = log_grant(log, &self.what) {
            return match self.only_key {
                None => Ok(Target::Grant(id)),
                Some(_) => Err(CliError::Usage("--only-key needs an author, not a grant".into())),
            };
        }
        let query = parse_query(&self.what).map_err(CliError::Usage)?;
        let author = log_author(log, &query).map_err(|error| match error {
            Error::NoAuthor { .. } => {
                let more = "to see the authors: talaria log list --grants".to_owned();
                CliError::With { error: Box::new(error), more }
            }
            error => error.into(),
        })?;
        let Some(key) = self.only_key else { return Ok(Target::Author(author)) };
        let has = |name: &KeyName| *name == key;
        let theirs = log.certificates().filter(|cert| cert.name() == author);
        if theirs.flat_map(talaria_log::Certificate::key_names).any(|name| has(&name)) {
            Ok(Target::Key(author, key))
        } else {
            Err(CliError::Missing(format!("{key} is no signing key of {author} in this log")))
        }
    }
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    let honoured = match args.stolen {
        Some(time) => Honoured::Before(time),
        None if args.all => Honoured::Nothing,
        None if args.last.is_empty() => Honoured::Known,
        None => Honoured::Last(args.last.clone()),
    };
    let target = log.read(|log| args.target(log))??;
    let (maker, reason) = (&mut author.maker(), args.reason as u8);
    let Revoked { entry: id, devices: count, approvals_missing: missing } =
        log_revoke(&log, maker, target, &honoured, reason, cx.now_ms())?;
    if cx.json {
        let (kind, of, key) = match target {
            Target::Author(author) => ("author", author.to_string(), None),
            Target::Key(author, key) => ("key", author.to_string(), Some(key.to_string())),
            Target::Grant(grant) => ("grant", grant.to_string(), None),
        };
        let json = serde_json::json!({
            "action": "log revoke", "entry": id.to_string(), "kind": kind, "of": of, "key": key,
            "heads": count, "stolen": args.stolen, "in_force": missing == 0, "approvals_missing": missing,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        let named = match target {
            Target::Author(author) => format!("the author {author}"),
            Target::Key(author, key) => format!("the key {key} of the author {author}"),
            Target::Grant(grant) => format!("the grant {grant}"),
        };
        if args.stolen.is_some() {
            cx.status(format_args!(
                "Revoked {named}. Entries count that a valid checkpoint covered before that time.\n  Revocation: {id}"
            ));
            wait_for_approvals(missing, &id.to_string(), cx);
            return Ok(ExitCode::SUCCESS);
        }
        cx.status(format_args!(
            "Revoked {named}. Entries count up to the last known one of {}.\n  Revocation: {id}",
            counted(count, "device")
        ));
        wait_for_approvals(missing, &id.to_string(), cx);
    }
    Ok(ExitCode::SUCCESS)
}
