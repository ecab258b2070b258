//! `talaria log verify`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria_log::{BadSnapshot, EntryId, Log};

use super::folder::open;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::grouped;
use crate::render::counted;
use crate::terminal::Paint;

/// Check the whole log again
///
/// Reads all entries from disk and checks every signature, hash and rule, as if they came from a
/// stranger. Deletable values are hashed again. Also lists forks: two different entries of one
/// author at one place, which are evidence against this author, and checkpoints that do not see
/// each other, which are evidence against the checkpointer. The last 16 snapshots are computed
/// again, and wrong ones are listed: evidence against the owners who have signed them. If something
/// fails, the exit status is 4.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let log = open(folder, cx)?;
    let verified = cx.step("Checking the log", || log.verify())?;
    let (forks, held) = log.read(|log: &Log| (log.forks(), log.state_hash()))?;
    let (branches, key) = log.read(|log: &Log| (log.checkpoint_forks(), log.checkpointer()))?;
    let key = key.map(|key| key.to_string()).unwrap_or_default();
    let (checkpoints, valid) = verified.checkpoints;
    let snapshots = &verified.snapshots;
    let failed = verified.failed.len() as u64 + verified.more_failed;
    // What this process shows must be what the entries on disk give.
    let is_good = failed == 0 && verified.state_hash == held;
    let state = EntryId(verified.state_hash).to_string();
    if cx.json {
        let one = |(id, why): &(EntryId, String)| serde_json::json!({ "entry": id.to_string(), "why": why });
        let fork = |fork: &talaria_log::ForkEvidence| {
            let entries: Vec<String> = fork.entries.iter().map(ToString::to_string).collect();
            serde_json::json!({
                "author": fork.chain.author.to_string(), "sequence": fork.sequence, "entries": entries,
            })
        };
        let checkpoint_fork = |fork: &talaria_log::CheckpointFork| {
            let entries: Vec<String> = fork.branches.iter().map(ToString::to_string).collect();
            serde_json::json!({ "checkpointer": key, "before": fork.before.to_string(), "entries": entries })
        };
        let wrong = |(id, bad): &(EntryId, BadSnapshot)| serde_json::json!({ "entry": id.to_string(), "kind": bad.kind(), "why": bad.to_string() });
        let json = serde_json::json!({
            "action": "log verify", "log": log.id().to_string(), "good": is_good,
            "entries": verified.entries, "state": state,
            "missing_values": verified.missing,
            "failed": verified.failed.iter().map(one).collect::<Vec<_>>(),
            "more_failed": verified.more_failed,
            "forks": forks.iter().map(fork).collect::<Vec<_>>(),
            "checkpoints": checkpoints, "valid_checkpoints": valid,
            "checkpoint_forks": branches.iter().map(checkpoint_fork).collect::<Vec<_>>(),
            "snapshots": snapshots.right, "wrong_snapshots": snapshots.wrong.iter().map(wrong).collect::<Vec<_>>(),
            "snapshots_left_out": snapshots.left_out,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        let paint = Paint::stdout();
        let mut out = cx.report_stdout();
        let count = counted(verified.entries, "entry");
        if is_good {
            writeln!(out, "{}: {count}, state {state}", paint.good("Good"))?;
        } else {
            writeln!(out, "{count} good, {} not", paint.bad(grouped(failed)))?;
        }
        if verified.missing > 0 {
            writeln!(out, "{} not here", counted(verified.missing, "deletable value"))?;
        }
        for (id, why) in &verified.failed {
            writeln!(out, "  {id}: {why}")?;
        }
        if failed == 0 && !is_good {
            writeln!(out, "  The state in memory is not that of the entries on disk.")?;
        }
        for fork in &forks {
            writeln!(
                out,
                "{}: {} has {} at place {}",
                paint.doubtful("Fork"),
                fork.chain.author,
                counted(fork.entries.len(), "entry"),
                fork.sequence
            )?;
            fork.entries.iter().try_for_each(|id| writeln!(out, "  {id}"))?;
        }
        if checkpoints > 0 {
            writeln!(
                out,
                "{}, {} valid",
                counted(checkpoints, "checkpoint"),
                grouped(valid as u64)
            )?;
        }
        for fork in &branches {
            let count = counted(fork.branches.len(), "checkpoint");
            writeln!(
                out,
                "{}: the checkpointer {key} made {count} that do not see each other",
                paint.doubtful("Fork")
            )?;
            fork.branches.iter().try_for_each(|id| writeln!(out, "  {id}"))?;
        }
        if snapshots.right > 0 {
            writeln!(out, "{} right", counted(snapshots.right, "snapshot"))?;
        }
        for (id, bad) in &snapshots.wrong {
            writeln!(out, "{}: the snapshot {id}: {bad}", paint.bad("Wrong"))?;
        }
        if snapshots.left_out > 0 {
            writeln!(out, "{} not computed", counted(snapshots.left_out, "older snapshot"))?;
        }
        out.flush()?;
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(4) })
}
