//! `talaria backup create`

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use talaria::backup::{
    BackupProgress, CreateOptions, FileCounts, PathSelection, Seen, Stream, WalkOptions,
    parse_path_list,
};

use super::access::AccessArgs;
use super::progress::{TURN, with_progress};
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::{grouped, size};
use crate::render::{counted, printable};
use crate::stderr::say;
use crate::terminal::Paint;

/// Back up files and folders
///
/// Writes one snapshot of all PATHs with everything beneath them. Content that the repository has
/// is not stored again, and unchanged files are not read again. The repository itself is left out.
///
/// If a path cannot be read, talaria names it, backs up everything else, and ends with exit
/// status 5.
///
/// With --stdin, the end of the input is the end of the file: talaria cannot know whether the
/// program before the pipe has failed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File or folder to back up (can be repeated)
    #[arg(value_name = "PATH", required_unless_present_any = ["files_from", "stdin"])]
    paths: Vec<PathBuf>,
    /// Back up standard input as the file NAME, and nothing else
    #[arg(long, value_name = "NAME", conflicts_with_all = ["paths", "files_from", "dry_run"])]
    stdin: Option<PathBuf>,
    /// Show what would be stored, and write nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Also back up the paths in FILE, one per line
    #[arg(long, value_name = "FILE")]
    files_from: Vec<PathBuf>,
    /// Leave out paths that match GLOB (can be repeated)
    #[arg(long, short = 'e', value_name = "GLOB")]
    exclude: Vec<String>,
    /// Leave out paths that match a glob in FILE, one per line
    #[arg(long, value_name = "FILE")]
    exclude_from: Vec<PathBuf>,
    /// Only back up paths that match GLOB (can be repeated)
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Leave out the content of folders with a CACHEDIR.TAG
    #[arg(long)]
    exclude_caches: bool,
    /// Leave out the content of folders that have a file called NAME
    #[arg(long, value_name = "NAME")]
    exclude_if_present: Vec<String>,
    /// Leave out files with more than BYTES
    #[arg(long, value_name = "BYTES")]
    exclude_larger_than: Option<u64>,
    /// Stay on the file system of each PATH
    #[arg(long, short = 'x')]
    one_file_system: bool,
    /// Label of the snapshot (can be repeated)
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Name of the machine [default: its host name]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Key to sign with [default: your only key that may create snapshots here]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|source| {
        talaria::Error::Io { action: "read", name: path.display().to_string(), source }.into()
    })
}

impl Args {
    fn options(&self, place: &Path) -> Result<CreateOptions, CliError> {
        let mut paths = self.paths.clone();
        for file in &self.files_from {
            paths.extend(parse_path_list(&read(file)?));
        }
        let mut exclude = self.exclude.clone();
        for file in &self.exclude_from {
            let text = read(file)?;
            exclude.extend(PathSelection::patterns(&String::from_utf8_lossy(&text)));
        }
        // A repository does not back up itself.
        exclude.extend(place.canonicalize().ok().and_then(|place| PathSelection::literal(&place)));
        let selection = PathSelection::new(&self.include, &exclude)
            .map_err(|error| CliError::Usage(error.to_string()))?;
        let walk = WalkOptions {
            selection,
            exclude_caches: self.exclude_caches,
            exclude_if_present: self
                .exclude_if_present
                .iter()
                .map(|name| name.clone().into())
                .collect(),
            file_bytes_max: self.exclude_larger_than,
            one_file_system: self.one_file_system,
        };
        let host = host_name(self.host.as_deref());
        let tags = self.tag.iter().map(|tag| tag.clone().into_bytes()).collect();
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Ok(CreateOptions { paths, walk, host, tags, threads })
    }
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let options = args.options(place)?;
    let mut session = args.access.open(place, cx)?;
    let (name, signer) = args.access.creator(args.sign_with.as_deref(), &session, cx)?;
    let (repository, keys, state) = (&session.repository, &session.keys, &mut session.state);
    let now = cx.now;
    let client = name.as_ref().zip(signer);
    if args.dry_run {
        let (seen, progress) = with_progress(cx, |progress| {
            let seen = repository.try_create(keys, client, state, &options, progress, now);
            seen.map(|seen| (seen, Arc::clone(progress)))
        })?;
        return report_dry_run(&seen, &progress, cx);
    }
    let (created, progress) = with_progress(cx, |progress| {
        let created = match &args.stdin {
            None => repository.create(keys, client, state, &options, progress, now),
            Some(name) => {
                let input = Box::new(StdinInput(Arc::clone(progress)));
                let stream = Stream::new(name.as_os_str().as_bytes(), input)?;
                repository.create_from(keys, client, state, (&options, stream), progress, now)
            }
        };
        created.map(|created| (created, Arc::clone(progress)))
    })?;
    report_seen(&created.seen, cx);
    let snapshot = &created.snapshot;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    if cx.json {
        let json = serde_json::json!({
            "action": "backup create", "id": created.id.to_string(), "number": snapshot.number,
            "entries": snapshot.entries, "bytes": snapshot.bytes, "unread": snapshot.unread,
            "vanished": created.seen.vanished, "changed": created.seen.changed.len(), "sockets": created.seen.sockets,
            "files_new": created.seen.files.new, "files_changed": created.seen.files.changed,
            "files_unchanged": created.seen.files.unchanged,
            "read_bytes": count(&progress.read_bytes), "new_chunks": count(&progress.new_chunks),
            "new_bytes": count(&progress.new_bytes), "written_bytes": count(&progress.written_bytes),
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        let id = created.id.to_string();
        let (new, written) = (count(&progress.new_bytes), count(&progress.written_bytes));
        let stored = if new == 0 {
            "nothing new".to_owned()
        } else {
            format!("{} new, {} written", size(new), size(written))
        };
        cx.status(format_args!(
            "Snapshot {}: {}, {}; {} read, {stored}.",
            Paint::stderr().handle(&id[..12]),
            counted(snapshot.entries, "path"),
            size(snapshot.bytes),
            size(count(&progress.read_bytes)),
        ));
        if snapshot.unread > 0 {
            cx.status(format_args!("{} could not be read.", counted(snapshot.unread, "path")));
        }
    }
    Ok(if snapshot.unread > 0 { ExitCode::from(5) } else { ExitCode::SUCCESS })
}

/// Warnings about paths and indexes.
fn report_seen(seen: &Seen, cx: &Context) {
    let warning = Paint::stderr().doubtful("Warning");
    for error in &seen.unreadable {
        cx.status(format_args!("{warning}: {error}; the chunks that it lists are stored again."));
    }
    for (path, error) in &seen.unread {
        // Shown with --quiet, too: the snapshot lacks this path.
        say(format_args!("{warning}: /{} is left out: {error}.", printable(path)));
    }
    if seen.vanished > 0 {
        let paths = counted(seen.vanished, "path");
        cx.status(format_args!("{warning}: {paths} deleted before they were read, and left out."));
    }
    for path in &seen.changed {
        cx.status(format_args!("{warning}: /{} changed while it was read.", printable(path)));
    }
    for (path, error) in &seen.without_attributes {
        let path = printable(path);
        cx.status(format_args!(
            "{warning}: /{path} has no extended attributes in the snapshot: {error}."
        ));
    }
}

/// Prints the size of the snapshot that a run without `--dry-run` would store.
fn report_dry_run(
    seen: &Seen,
    progress: &BackupProgress,
    cx: &mut Context,
) -> Result<ExitCode, CliError> {
    report_seen(seen, cx);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let FileCounts { new, changed, unchanged } = seen.files;
    if cx.json {
        let json = serde_json::json!({
            "action": "backup create", "dry_run": true, "entries": seen.entries, "bytes": seen.bytes,
            "unread": seen.unread_count, "vanished": seen.vanished, "changed": seen.changed.len(), "sockets": seen.sockets,
            "files_new": new, "files_changed": changed, "files_unchanged": unchanged,
            "read_bytes": count(&progress.read_bytes), "new_chunks": count(&progress.new_chunks),
            "new_bytes": count(&progress.new_bytes), "written_bytes": count(&progress.written_bytes),
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "The snapshot would have {} ({}): {} new, {} changed, {} unchanged since the last run here.",
            counted(seen.entries, "path"),
            size(seen.bytes),
            counted(new, "file"),
            grouped(changed),
            grouped(unchanged),
        ));
        cx.status(format_args!(
            "{} of content would be new, and {} written. Nothing was written.",
            size(count(&progress.new_bytes)),
            size(count(&progress.written_bytes)),
        ));
        if seen.unread_count > 0 {
            cx.status(format_args!("{} could not be read.", counted(seen.unread_count, "path")));
        }
    }
    Ok(if seen.unread_count > 0 { ExitCode::from(5) } else { ExitCode::SUCCESS })
}

/// Standard input. It ends only if the user did not interrupt the run: an interrupt also ends the
/// program before the pipe, and half of its output is no backup.
struct StdinInput(Arc<BackupProgress>);

impl Read for StdinInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let cancelled = || io::Error::other("interrupted");
        self.0.go_on().map_err(|_| cancelled())?;
        let n = io::stdin().read(buffer)?;
        if n == 0 {
            // The interrupt may not have been seen yet.
            std::thread::sleep(2 * TURN);
            self.0.go_on().map_err(|_| cancelled())?;
        }
        Ok(n)
    }
}

/// The name of the machine: the one that is given, or what the system says.
pub(super) fn host_name(given: Option<&str>) -> Vec<u8> {
    given.map_or_else(
        || rustix::system::uname().nodename().to_bytes().to_vec(),
        |given| given.as_bytes().to_vec(),
    )
}
