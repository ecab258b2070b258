//! `talaria log stats`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria_log::{EntryId, Log};

use super::folder::open;
use super::list::{checkpoint_json, checkpoint_line};
use super::people::owners;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::{grouped, size};

/// Print figures of a log
///
/// Two nodes with the same entries print the same state.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let log = open(folder, cx)?;
    let bytes = log.bytes();
    let json = log.read(|log: &Log| {
        let owners: Vec<String> =
            log.genesis().owners.iter().map(|owner| owner.name().to_string()).collect();
        serde_json::json!({
            "log": log.id().to_string(), "entries": log.len(),
            "objects": log.state().objects().count(), "chains": log.chains().count(),
            "owners": owners, "threshold": log.genesis().threshold,
            "grants": log.grants().filter(|(_, _, in_force)| *in_force).count(),
            "forked": log.forks().len(), "bytes": bytes, "latest": log.latest().ms() / 1000,
            "state": EntryId(log.state_hash()).to_string(),
            "checkpoint": log.last_checkpoint().map(|last| checkpoint_json(&last)),
        })
    })?;
    if cx.json {
        return cx.report(Content::Elsewhere, &json).map(|()| ExitCode::SUCCESS);
    }
    let owners = log.read(owners)?;
    let number = |name: &str| grouped(json[name].as_u64().unwrap_or_default());
    let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    let mut out = cx.stdout();
    writeln!(out, "Log:      {}", text("log"))?;
    writeln!(out, "Owners:   {owners}")?;
    for (label, name) in
        [("Entries", "entries"), ("Objects", "objects"), ("Chains", "chains"), ("Grants", "grants")]
    {
        writeln!(out, "{:<9} {}", format!("{label}:"), number(name))?;
    }
    writeln!(out, "Forks:    {}", number("forked"))?;
    writeln!(out, "Size:     {}", size(bytes))?;
    let latest = u32::try_from(json["latest"].as_u64().unwrap_or_default()).unwrap_or(u32::MAX);
    writeln!(out, "Latest:   {}", talaria::timestamp(latest))?;
    writeln!(out, "State:    {}", text("state"))?;
    if let Some(last) = log.read(Log::last_checkpoint)? {
        writeln!(out, "Checkpoint: {}", checkpoint_line(&last))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
