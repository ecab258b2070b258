//! `talaria backup restore`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::backup::{
    Mapping, Mismatch, Overwrite, Owners, PathSelection, RestoreEvent, RestoreOptions,
    RestoreReport, Tree, VerifyReport, map_folders, restore, verify,
};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::ls::tree_path;
use super::notices::teller;
use super::place::restore_threads;
use super::progress::with_progress;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::size;
use crate::render::{counted, printable};
use crate::terminal::Paint;

/// Restore files from a snapshot
///
/// Writes beneath the target folder only, whatever the snapshot contains. Every chunk is verified
/// before it is written.
///
/// If a path cannot be restored, talaria names it, restores everything else, and ends with exit
/// status 5. The same holds for a path where something else is, which is left as it is without
/// --overwrite.
///
/// A restore that was interrupted completes if the same command is run again.
///
/// With --verify, talaria reads the files again at the end and compares them with the snapshot. The
/// exit status is 5 if one differs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Snapshot: `latest`, `latest~1` for the one before, or the start of its identifier;
    /// SNAPSHOT:PATH is short for --path
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    snapshot: String,
    /// Folder to restore into; it is created if it does not exist
    #[arg(long, short, value_name = "FOLDER")]
    target: PathBuf,
    /// Restore this folder of the snapshot as the target folder, or only this file
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,
    /// Restore the folder OLD of the snapshot as the folder NEW of the target, and nothing else
    /// (can be repeated)
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_mapping, conflicts_with = "path")]
    map: Vec<Mapping>,
    /// Read the restored files again, and compare them with the snapshot
    #[arg(long)]
    verify: bool,
    /// Only restore paths that match GLOB (can be repeated)
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Leave out paths that match GLOB (can be repeated)
    #[arg(long, short = 'e', value_name = "GLOB")]
    exclude: Vec<String>,
    /// When to replace existing files
    #[arg(long, value_enum, default_value = "never", value_name = "WHEN")]
    overwrite: OverwriteArg,
    /// Restore owners and groups [default: if you are root]
    #[arg(long)]
    owners: bool,
    /// Restore owners by name instead of by number, where this machine knows the name
    #[arg(long)]
    owners_by_name: bool,
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
    /// Keep existing files
    Never,
    /// Replace files whose size, time, mode, attributes or owner differ
    IfChanged,
    /// The same, and compare the content of the others
    IfDifferent,
    /// Replace files with an older time than in the snapshot
    IfNewer,
    /// Replace all files
    Always,
}

/// A mapping such as `/home/alice=alice`.
fn parse_mapping(text: &str) -> Result<Mapping, String> {
    let (from, to) = text.split_once('=').ok_or("a mapping is OLD=NEW, such as /etc=etc-before")?;
    Ok(Mapping { from: tree_path(Path::new(from)), to: to.into() })
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    if args.target.as_os_str() == "-" {
        let why = "restore writes beneath a folder, and not to standard output; a folder with the name - is ./-";
        return Err(CliError::Usage(why.into()));
    }
    let selection = PathSelection::new(&args.include, &args.exclude)
        .map_err(|error| CliError::Usage(error.to_string()))?;
    // An identifier has no colon.
    let (name, path) = match args.snapshot.split_once(':') {
        None => (args.snapshot.as_str(), args.path.as_deref()),
        Some(_) if args.path.is_some() || !args.map.is_empty() => {
            let why = "SNAPSHOT:PATH cannot be used with --path or --map";
            return Err(CliError::Usage(why.into()));
        }
        Some((name, path)) => (name, Some(Path::new(path))),
    };
    let mut options = RestoreOptions {
        selection,
        subfolder: path.map(tree_path).unwrap_or_default(),
        overwrite: match args.overwrite {
            OverwriteArg::Never => Overwrite::Never,
            OverwriteArg::IfChanged => Overwrite::IfChanged,
            OverwriteArg::IfDifferent => Overwrite::IfDifferent,
            OverwriteArg::IfNewer => Overwrite::IfNewer,
            OverwriteArg::Always => Overwrite::Always,
        },
        owners: args.owners || args.owners_by_name || rustix::process::geteuid().is_root(),
        names: Owners::default(),
        privileged: args.privileged,
        threads: restore_threads(place),
    };
    let mut session = args.access.open(place, cx)?;
    let (listed, reader) =
        session.read(name, args.client.client.as_ref(), cx.now, &mut teller(cx))?;
    if args.owners_by_name {
        options.names = Owners::by_name(&listed.snapshot);
        for stranger in options.names.strangers() {
            let kind = if stranger.is_group { "group" } else { "user" };
            cx.status(format_args!(
                "{}: {kind} {} is not known here, and {} has its number {}: what it owned becomes yours.",
                Paint::stderr().doubtful("Warning"),
                stranger.name,
                stranger.here,
                stranger.number,
            ));
        }
    }
    let tree = Tree::new(&reader, listed.snapshot.root);
    let places = if args.map.is_empty() {
        vec![(args.target.clone(), options)]
    } else {
        map_folders(&tree, &args.target, &args.map, &options)?
    };
    let identifiers = session.keys.identifiers();
    let paint = Paint::stderr();
    let tell = |path: &[u8], event: RestoreEvent| tell_event(path, event, paint, cx);
    let tell_difference = |path: &[u8], difference: Mismatch| {
        let different = paint.bad("Different");
        let name = name_of(path);
        match difference {
            Mismatch::Differs(what) => cx.status(format_args!("{different}: {name}: {what}")),
            Mismatch::Absent => cx.status(format_args!("{different}: {name} is not there")),
            Mismatch::Failed(error) => cx.status(format_args!("{different}: {name}: {error}")),
        }
    };
    let (report, verified) = with_progress(cx, |progress| {
        let (mut report, mut verified) = (RestoreReport::default(), VerifyReport::default());
        for (target, options) in &places {
            report += restore(&tree, target, options, progress, &tell)?;
        }
        if args.verify {
            for (target, options) in &places {
                verified +=
                    verify(&tree, identifiers, target, options, progress, &tell_difference)?;
            }
        }
        Ok((report, verified))
    })?;
    if cx.json {
        let mut json = serde_json::json!({
            "action": "backup restore", "id": listed.id.to_string(), "files": report.files,
            "bytes": report.bytes, "folders": report.folders, "others": report.others,
            "unchanged": report.unchanged, "kept": report.kept,
            "kept_different": report.differing, "withheld": report.withheld,
            "incomplete": report.incomplete, "failed": report.failed,
        });
        if args.verify {
            json["verified"] = verified.files.into();
            json["verified_bytes"] = verified.bytes.into();
            json["different"] = verified.different.into();
        }
        cx.report(Content::Elsewhere, &json)?;
    } else {
        report_in_words(&report, args, cx);
        if args.verify {
            cx.status(format_args!(
                "{} ({}) as in the snapshot; {} different.",
                counted(verified.files, "file"),
                size(verified.bytes),
                counted(verified.different, "path"),
            ));
        }
    }
    let is_whole = report.failed == 0
        && report.incomplete == 0
        && report.differing == 0
        && verified.different == 0;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

fn name_of(path: &[u8]) -> String {
    if path.is_empty() { "the tree".into() } else { printable(path) }
}

fn tell_event(path: &[u8], event: RestoreEvent, paint: Paint, cx: &Context) {
    let name = name_of(path);
    match event {
        // Their number stands at the end.
        RestoreEvent::Kept => {}
        RestoreEvent::Differs => cx.status(format_args!(
            "{}: {name} was there, is not as in the snapshot, and was left as it is",
            paint.bad("Different")
        )),
        RestoreEvent::Withheld { what } => cx.status(format_args!(
            "{}: {name}: {what} is left out without --privileged.",
            paint.doubtful("Warning")
        )),
        RestoreEvent::Incomplete { what, source } => {
            cx.status(format_args!("{}: {name}: {what}: {source}", paint.doubtful("Warning")));
        }
        RestoreEvent::Failed { source } => {
            cx.status(format_args!("{}: {name}: {source}", paint.bad("Not restored")));
        }
    }
}

fn report_in_words(report: &RestoreReport, args: &Args, cx: &Context) {
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
        (report.differing, "not as in the snapshot, and left as it was: see --overwrite"),
        (report.withheld, "restored without privileged parts: see --privileged"),
        (report.incomplete, "restored in part"),
        (report.failed, "not restored"),
    ] {
        if count > 0 {
            cx.status(format_args!("  {} {what}", counted(count, "path")));
        }
    }
}
