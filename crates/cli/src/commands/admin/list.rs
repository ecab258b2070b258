//! `talaria admin list`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::cert::timestamp;
use talaria_server::{Access, KeptOut};

use crate::context::Context;
use crate::error::CliError;

/// List blocked certificates and redacted user IDs
///
/// A redacted user ID is shown as its SHA-256 digest, because the store keeps nothing else of it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, cx: &Context) -> Result<ExitCode, CliError> {
    let operator = cx.operator(Access::Read)?;
    let mut out = cx.stdout();
    for kept_out in operator.kept_out()? {
        match kept_out {
            KeptOut::Blocked { fingerprint, since } => {
                let fingerprint = fingerprint.to_string();
                let since = since.map(|time| timestamp(time.seconds()));
                if cx.json {
                    let json = serde_json::json!({
                        "fingerprint": fingerprint, "what": "blocked", "since": since,
                    });
                    writeln!(out, "{json}")?;
                } else {
                    let since = since.map(|since| format!(" since {}", &since[..10]));
                    writeln!(out, "{fingerprint} blocked{}", since.unwrap_or_default())?;
                }
            }
            KeptOut::Redacted { fingerprint, redaction } => {
                let (fingerprint, digest) = (fingerprint.to_string(), redaction.digest_text());
                if cx.json {
                    let json = serde_json::json!({
                        "fingerprint": fingerprint, "what": "redacted", "user_id_sha256": digest,
                    });
                    writeln!(out, "{json}")?;
                } else if let Some(digest) = digest {
                    writeln!(out, "{fingerprint} redacted the user ID with SHA-256 {digest}")?;
                } else {
                    writeln!(out, "{fingerprint} redacted all user IDs")?;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
