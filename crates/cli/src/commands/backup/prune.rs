//! `talaria backup prune`

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use talaria::backup::{Authority, Id, Patience, PruneOptions, Role};

use super::access::AccessArgs;
use super::progress::with_progress;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::size;
use crate::render::counted;
use crate::stderr::say;
use crate::terminal::Paint;

/// Delete content that no snapshot needs
///
/// Packs that no snapshot needs are deleted. If a pack is used in part, its needed content is
/// copied to new packs first. Others can back up meanwhile: talaria waits for the backups that are
/// running. The next prune continues an interrupted one.
///
/// You need the role "prune" and the key of a reader: only the content of snapshots shows which
/// packs are needed.
///
/// The exit status is 4 if needed content is damaged or a snapshot is missing. Damaged content
/// stays where it is. If this machine has seen the missing snapshot, nothing is deleted: the storage
/// may list it late, or somebody has deleted it. If only clients name it, what its client wrote
/// stays.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tolerate unused content in partly used packs, up to PERCENT of the repository
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    max_unused: u32,
    /// Also encrypt again the content that former readers could read
    #[arg(long)]
    rekey: bool,
    /// Do not wait for a backup that has shown no activity for SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    stale_after: u64,
    /// Prune although this snapshot is missing (can be repeated)
    #[arg(long, value_name = "ID")]
    despite_missing: Vec<Id>,
    /// Show how much would be deleted, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Key to sign with [default: your only key with this role]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    /// How often leases are listed while a prune waits.
    const TURN: Duration = Duration::from_secs(1);
    let session = args.access.open(place, cx)?;
    let patience = Patience { idle: args.stale_after, ..Patience::default() };
    let options = PruneOptions {
        max_unused: args.max_unused,
        rekey: args.rekey,
        patience,
        seen: session.state.heads.clone(),
        despite_missing: args.despite_missing.iter().copied().collect(),
    };
    let (repository, keys, now) = (&session.repository, &session.keys, cx.now);
    let pruned = if args.dry_run {
        with_progress(cx, |progress| repository.prune_dry(keys, &options, progress, now))?
    } else {
        let wanted = args.sign_with.as_deref();
        let (signer, cert) =
            args.access.signer(wanted, &session, Authority::Role(Role::Prune), cx)?;
        let is_quiet = cx.json;
        with_progress(cx, |progress| {
            let began = Instant::now();
            let mut told = 0;
            let mut wait = |runs| {
                if runs > 0 {
                    if runs != told && !is_quiet {
                        say(format_args!("Waiting for {} to end.", counted(runs, "backup")));
                        told = runs;
                    }
                    let until = Instant::now() + TURN;
                    while Instant::now() < until {
                        progress.go_on()?;
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
                Ok(began.elapsed().as_secs())
            };
            let by = (&cert.fingerprint(), signer);
            repository.prune(keys, by, &options, &mut wait, &Arc::clone(progress), now)
        })?
    };
    if cx.json {
        let kept: Vec<_> = pruned
            .kept
            .iter()
            .map(|problem| serde_json::json!({ "object": problem.object, "why": problem.why }))
            .collect();
        let json = serde_json::json!({
            "action": "backup prune", "packs": pruned.packs, "bytes": pruned.bytes,
            "deleted_packs": pruned.deleted_packs, "deleted_bytes": pruned.deleted_bytes,
            "copied_bytes": pruned.copied_bytes, "snapshots": pruned.snapshots, "kept": kept,
            "missing": pruned.missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "prepared": pruned.prepared.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "dry_run": args.dry_run,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        let warning = Paint::stderr().doubtful("Warning");
        for problem in &pruned.kept {
            cx.status(format_args!("{warning}: {} stays: {}", problem.object, problem.why));
        }
        for missing in &pruned.missing {
            cx.status(format_args!(
                "{warning}: {missing}. What its client wrote stays, until you forget it."
            ));
        }
        for id in &pruned.prepared {
            cx.status(format_args!(
                "The content of snapshot {id} stays, though its backup has not ended. If it never will: talaria backup forget {id}"
            ));
        }
        cx.status(format_args!(
            "{} {} of {} ({} of {}).{}",
            if args.dry_run { "Would delete" } else { "Deleted" },
            pruned.deleted_packs,
            counted(pruned.packs, "pack"),
            size(pruned.deleted_bytes),
            size(pruned.bytes),
            match (size(pruned.copied_bytes), args.dry_run) {
                _ if pruned.copied_bytes == 0 => String::new(),
                (copied, true) => {
                    format!(
                        " {copied} of these are still needed, and would be copied to new packs."
                    )
                }
                (copied, false) => {
                    format!(" {copied} of these were still needed, and are in new packs now.")
                }
            },
        ));
    }
    let is_sound = pruned.kept.is_empty() && pruned.missing.is_empty();
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(4) })
}
