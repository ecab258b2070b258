//! `talaria admin`

mod backup;
mod block;
mod delete;
mod list;
mod log;
mod redact;
mod reindex;
mod restore;
mod set_aside;
mod unblock;
mod unredact;

use std::process::ExitCode;
use std::str::FromStr;

use clap::Subcommand;
use talaria::cert::{Fingerprint, Query, Summary};
use talaria_server::{Author, KeptOut, Operator};

use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;

/// Administer a keyserver: delete, block, redact, back up
///
/// The server can keep running; it sees changes at once. Certificates are given by the full fingerprint of their
/// primary key.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Delete(delete::Args),
    Block(block::Args),
    Unblock(unblock::Args),
    Redact(redact::Args),
    Unredact(unredact::Args),
    List(list::Args),
    Log(log::Args),
    Reindex(reindex::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    SetAside(set_aside::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Delete(args) => delete::run(args, cx),
        Command::Block(args) => block::run(args, cx),
        Command::Unblock(args) => unblock::run(args, cx),
        Command::Redact(args) => redact::run(args, cx),
        Command::Unredact(args) => unredact::run(args, cx),
        Command::List(args) => list::run(args, cx),
        Command::Log(args) => log::run(args, cx),
        Command::Reindex(args) => reindex::run(args, cx),
        Command::Backup(args) => backup::run(args, cx),
        Command::Restore(args) => restore::run(args, cx),
        Command::SetAside(args) => set_aside::run(args, cx),
    }
}

/// The reason of a command.
#[derive(Debug, clap::Args)]
struct Reason {
    /// Reason, for the audit log (`talaria admin log`)
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// The user who runs this program, for the audit log: the one behind sudo, if there is one.
fn user() -> String {
    let variables = ["SUDO_USER", "USER", "LOGNAME"];
    let named = variables.iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".into())
}

/// The bytes of a fingerprint: 16, 20 or 32.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Digits(pub(crate) Vec<u8>);

impl FromStr for Digits {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text.parse() {
            Ok(Query::Fingerprint(bytes)) => Ok(Self(bytes)),
            _ => Err("a fingerprint has 40 or 64 hexadecimal digits, 32 in version 3"),
        }
    }
}

impl Digits {
    /// The fingerprint with these bytes: a `known` one, otherwise that of the version with this length. `None` for a version
    /// 3 fingerprint that is not known, because the bytes do not give its key ID.
    pub(crate) fn resolve(
        &self,
        known: impl FnOnce(&Query) -> Result<Vec<Fingerprint>, CliError>,
    ) -> Result<Option<Fingerprint>, CliError> {
        let bytes = self.0.as_slice();
        let likely = match bytes.len() {
            20 => return Ok(bytes.try_into().ok().map(Fingerprint::V4)),
            32 => bytes.try_into().ok().map(Fingerprint::V6),
            _ => None,
        };
        let known = known(&Query::Fingerprint(bytes.to_vec()))?;
        let known = known.into_iter().find(|fingerprint| fingerprint.as_bytes() == bytes);
        Ok(known.or(likely))
    }

    /// The fingerprint with these bytes, or an error if it is unknown.
    fn known(&self, operator: &Operator) -> Result<Fingerprint, CliError> {
        let known = |query: &Query| {
            let here = operator.find(query, 100)?;
            let kept_out = operator.kept_out()?;
            let kept_out = kept_out.iter().map(KeptOut::fingerprint);
            Ok(here.iter().map(Summary::fingerprint).chain(kept_out).collect())
        };
        self.resolve(known)?.ok_or_else(|| CliError::Missing(format!("no certificate {self}")))
    }
}

impl std::fmt::Display for Digits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

/// An announcement of the action, with the names of the certificates.
fn announced(operator: &Operator, all: &[Fingerprint], verb: &str) -> Result<String, CliError> {
    let here = operator.summaries(all)?;
    let mut text = format!("This {verb}:");
    for fingerprint in all {
        let summary = here.iter().find(|summary| summary.fingerprint() == *fingerprint);
        let name = summary.and_then(Summary::primary_user_id);
        let name = name.map_or_else(|| "(not in the store)".to_owned(), printable);
        text.push_str(&format!("\n  {fingerprint} {name}"));
    }
    Ok(text)
}

/// The fingerprints of the named certificates.
fn known(all: &[Digits], operator: &Operator) -> Result<Vec<Fingerprint>, CliError> {
    all.iter().map(|digits| digits.known(operator)).collect()
}

/// Carries out a command about all of the certificates, or none, and prints the results. The exit status is 1 if there was
/// nothing to do for one of them.
fn carry_out(
    operator: &Operator,
    cx: &Context,
    reason: &Reason,
    fingerprints: &[Fingerprint],
    command: &talaria_server::Command,
) -> Result<ExitCode, CliError> {
    use std::io::Write as _;
    let author = Author { who: user(), from: None, reason: reason.reason.clone() };
    let outcomes = operator.carry_out(&author, fingerprints, command, cx.now)?;
    let mut out = cx.report_stdout();
    for (fingerprint, outcome) in fingerprints.iter().zip(&outcomes) {
        let (fingerprint, outcome) = (fingerprint.to_string(), outcome.words());
        if cx.json {
            let json = serde_json::json!({
                "action": command.name(), "fingerprint": fingerprint, "outcome": outcome,
            });
            writeln!(out, "{json}")?;
        } else {
            writeln!(out, "{fingerprint} {outcome}")?;
        }
    }
    let all = outcomes.iter().all(|outcome| outcome.did_something());
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_commands_require_whole_fingerprints() {
        let whole = "0123456789ABCDEF0123456789ABCDEF01234567";
        assert_eq!(whole.parse::<Digits>().unwrap().to_string(), whole);
        assert_eq!(format!("0x{}", whole.to_lowercase()).parse(), whole.parse::<Digits>());
        for bad in ["0123456789ABCDEF", "alice", "<alice@example.org>", ""] {
            assert!(bad.parse::<Digits>().is_err(), "{bad}");
        }
    }
}
