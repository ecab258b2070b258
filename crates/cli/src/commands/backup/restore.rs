//! `talaria backup restore`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use talaria_backup::{Event, Overwrite, RestoreOptions, Selection, Tree, restore};

use super::place::restore_threads;
use super::{AccessArgs, ClientArgs, tree_path, with_progress};
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::size;
use crate::render::{counted, printable};
use crate::terminal::Paint;

/// Restore files from a snapshot
///
/// Writes beneath the target folder only, whatever the snapshot contains. Every chunk is verified before it is written.
///
/// What cannot be restored is named; the exit status is 5 then, and everything else is restored.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Snapshot: `latest`, `latest~1` for the one before, or the start of its identifier
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
    /// Folder to restore into; it is made if it is not there
    #[arg(long, short, value_name = "FOLDER")]
    target: PathBuf,
    /// Restore this folder of the snapshot as the target folder, or only this file
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,
    /// Only restore paths that match GLOB (can be repeated)
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Leave out paths that match GLOB (can be repeated)
    #[arg(long, short = 'e', value_name = "GLOB")]
    exclude: Vec<String>,
    /// What to do with files that are there
    #[arg(long, value_enum, default_value = "never", value_name = "WHEN")]
    overwrite: OverwriteArg,
    /// Restore owners and groups [default: if you are root]
    #[arg(long)]
    owners: bool,
    /// Also restore devices, set-user-ID and set-group-ID bits, and security attributes
    #[arg(long)]
    privileged: bool,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    access: AccessArgs,
}

/// When files are replaced.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OverwriteArg {
    /// Leave files that are there
    Never,
    /// Replace files whose size, time, mode or owner differs
    IfChanged,
    /// Replace all files
    Always,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let selection = Selection::new(&args.include, &args.exclude)
        .map_err(|error| CliError::Usage(error.to_string()))?;
    let options = RestoreOptions {
        selection,
        subfolder: args.path.as_deref().map(tree_path).unwrap_or_default(),
        overwrite: match args.overwrite {
            OverwriteArg::Never => Overwrite::Never,
            OverwriteArg::IfChanged => Overwrite::IfChanged,
            OverwriteArg::Always => Overwrite::Always,
        },
        owners: args.owners || rustix::process::geteuid().is_root(),
        privileged: args.privileged,
        threads: restore_threads(place),
    };
    let mut session = args.access.open(place, cx)?;
    let (listed, reader) = session.read(&args.snapshot, args.client.client.as_ref(), cx)?;
    let tree = Tree::new(&reader, listed.snapshot.root);
    let paint = Paint::stderr();
    let tell = |path: &[u8], event: Event| {
        let name = if path.is_empty() { "the tree".to_owned() } else { printable(path) };
        match event {
            // Their number stands at the end.
            Event::Kept => {}
            Event::Withheld { what } => cx.status(format_args!(
                "{}: {name}: {what} is left out without --privileged.",
                paint.doubtful("Warning")
            )),
            Event::Incomplete { what, source } => {
                cx.status(format_args!("{}: {name}: {what}: {source}", paint.doubtful("Warning")));
            }
            Event::Failed { source } => {
                cx.status(format_args!("{}: {name}: {source}", paint.bad("Not restored")));
            }
        }
    };
    let report =
        with_progress(cx, |progress| restore(&tree, &args.target, &options, progress, &tell))?;
    if cx.json {
        let json = serde_json::json!({
            "action": "backup restore", "id": listed.id.to_string(), "files": report.files,
            "bytes": report.bytes, "folders": report.folders, "others": report.others,
            "unchanged": report.unchanged, "kept": report.kept, "withheld": report.withheld,
            "incomplete": report.incomplete, "failed": report.failed,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "Restored {} ({}) and {} to {}.",
            counted(report.files, "file"),
            size(report.bytes),
            counted(report.folders, "folder"),
            args.target.display()
        ));
        for (count, what) in [
            (report.unchanged, "already as in the snapshot"),
            (report.kept, "already there and left as it was: see --overwrite"),
            (report.withheld, "restored without privileged parts: see --privileged"),
            (report.incomplete, "restored in part"),
            (report.failed, "not restored"),
        ] {
            if count > 0 {
                cx.status(format_args!("  {} {what}", counted(count, "path")));
            }
        }
    }
    let is_whole = report.failed == 0 && report.incomplete == 0;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(5) })
}
