//! Actions of an operator on certificates, which the audit log records.

use std::process::ExitCode;

use talaria::cert::{Fingerprint, Summary};
use talaria_server::{Author, Operator};

use super::digits::Digits;
use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;

/// The reason of a command.
#[derive(Debug, clap::Args)]
pub(super) struct Reason {
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

/// An announcement of the action, with the names of the certificates.
pub(super) fn announced(
    operator: &Operator,
    all: &[Fingerprint],
    verb: &str,
) -> Result<String, CliError> {
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
pub(super) fn known(all: &[Digits], operator: &Operator) -> Result<Vec<Fingerprint>, CliError> {
    all.iter().map(|digits| digits.known(operator)).collect()
}

/// Carries out a command about all of the certificates, or none, and prints the results. The exit
/// status is 1 if there was nothing to do for one of them.
pub(super) fn carry_out(
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
