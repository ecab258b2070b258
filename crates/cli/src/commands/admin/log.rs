//! `talaria admin log`

use std::process::ExitCode;

use talaria_server::{Access, AuditEntry};

use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;

/// List what operators ordered: who, when and why
///
/// Each `delete`, `block`, `unblock`, `redact` and `unredact` adds an entry, also over HTTP. The
/// log is a file beside the store (`certs.db.audit`). It has no user IDs.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, cx: &Context) -> Result<ExitCode, CliError> {
    let operator = cx.operator(Access::Read)?;
    let mut out = cx.stdout();
    let mut written = Ok(());
    operator.for_each_audit_entry(|entry| {
        if written.is_ok() {
            written = write(&mut out, &entry, cx.json);
        }
    })?;
    written?;
    Ok(ExitCode::SUCCESS)
}

fn write(out: &mut impl std::io::Write, entry: &AuditEntry, json: bool) -> std::io::Result<()> {
    if json {
        return writeln!(out, "{}", serde_json::json!(entry));
    }
    let AuditEntry { time, who, from, action, fingerprint, outcome, reason } = entry;
    write!(out, "{time} {}", printable(who.as_bytes()))?;
    if let Some(from) = from {
        write!(out, " ({})", printable(from.as_bytes()))?;
    }
    write!(out, " {action} {fingerprint}: {outcome}")?;
    if let Some(reason) = reason {
        write!(out, " ({})", printable(reason.as_bytes()))?;
    }
    writeln!(out)
}
