//! `talaria backup repair`

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use talaria::backup::{Authority, ObjectHash, ReadData, RepairOptions, Role};

use super::access::AccessArgs;
use super::check::{json_problems, write_problems};
use super::progress::with_progress;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::size;
use crate::render::counted;

/// Repair a damaged repository, without deleting anything
///
/// Rebuilds missing and damaged indexes from the packs. A signed document lists the damaged packs:
/// each client that still has their content then stores it again. talaria also lists the files that
/// lost content, with their snapshots.
///
/// With --yes, damaged packs and indexes are moved to the folder "set-aside" of the repository.
/// Their readable content is copied first. Nothing is ever deleted.
///
/// You need the key of a reader, and the role "prune". Afterwards, run a backup on every machine.
///
/// The exit status is 4 if anything is lost or damaged.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read all packs, not only those that no index describes
    #[arg(long)]
    read_data: bool,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Move damaged packs and indexes away
    #[arg(long)]
    yes: bool,
    /// Key to sign with [default: your only key with this role]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let session = args.access.open_storage(place, cx)?;
    let read = if args.read_data { ReadData::All } else { ReadData::No };
    let options = RepairOptions { read, set_aside: args.yes };
    let (repository, keys, seen) = (&session.repository, &session.keys, &session.state.heads);
    let now = cx.now;
    let repaired = if args.dry_run {
        with_progress(cx, |progress| repository.repair_dry(keys, &options, seen, progress, now))?
    } else {
        let wanted = args.sign_with.as_deref();
        let (signer, cert) =
            args.access.signer(wanted, &session, Authority::Role(Role::Prune), cx)?;
        with_progress(cx, |progress| {
            let by = (&cert.fingerprint(), signer);
            repository.repair(keys, by, &options, seen, &Arc::clone(progress), now)
        })?
    };
    let checked = &repaired.checked;
    if cx.json {
        let damaged: Vec<_> = repaired.damaged.iter().map(ObjectHash::to_string).collect();
        let json = serde_json::json!({
            "action": "backup repair", "indexed": repaired.indexed, "damaged": damaged,
            "copied_bytes": repaired.copied_bytes, "set_aside": repaired.set_aside,
            "problems": json_problems(checked), "more": checked.more, "dry_run": args.dry_run,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        write_problems(&mut cx.report_stdout(), checked)?;
        let would = if args.dry_run { "Would make" } else { "Made" };
        cx.status(format_args!("{would} indexes of {}.", counted(repaired.indexed, "pack")));
        if !repaired.damaged.is_empty() {
            cx.status(format_args!(
                "{} damaged: the next backups {} the content again if the files still exist.",
                match repaired.damaged.len() {
                    1 => "1 pack is".to_owned(),
                    count => format!("{count} packs are"),
                },
                if args.dry_run { "would store" } else { "store" },
            ));
        }
        if args.yes {
            cx.status(format_args!(
                "{} {} to \"set-aside\", after {} were copied.",
                if args.dry_run { "Would move" } else { "Moved" },
                counted(repaired.set_aside.len(), "object"),
                size(repaired.copied_bytes),
            ));
        }
        if checked.problems.is_empty() {
            cx.status(format_args!("Nothing is lost."));
        } else {
            cx.status(format_args!(
                "{} found. Back up again on every machine, then check.",
                counted(checked.problems.len(), "problem")
            ));
        }
    }
    Ok(if checked.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(4) })
}
