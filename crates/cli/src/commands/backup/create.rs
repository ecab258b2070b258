//! `talaria backup create`

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use talaria_backup::{CreateOptions, Role, Selection, WalkOptions, parse_path_list};

use super::{AccessArgs, with_progress};
use crate::context::{Content, Context};
use crate::error::{CliError, say};
use crate::progress::size;
use crate::render::{counted, printable};
use crate::terminal::Paint;

/// Back up files and folders
///
/// Writes a snapshot of each PATH and everything beneath it. Content that the repository has is not stored again, and
/// unchanged files are not read again. The repository itself is left out.
///
/// A path that cannot be read is named and left out; the exit status is 5 then, and the snapshot has everything else.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File or folder to back up (can be repeated)
    #[arg(value_name = "PATH", required_unless_present = "files_from")]
    paths: Vec<PathBuf>,
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

/// A pattern that matches this path only.
fn literal(path: &str) -> String {
    let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!' | ',');
    let escaped = |c: char| special(c).then_some('\\').into_iter().chain([c]);
    path.chars().flat_map(escaped).collect()
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
            exclude.extend(Selection::patterns(&String::from_utf8_lossy(&text)));
        }
        // A repository does not back up itself.
        exclude.extend(place.canonicalize().ok().and_then(|place| Some(literal(place.to_str()?))));
        let selection = Selection::new(&self.include, &exclude)
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
        let host = self.host.clone().map_or_else(
            || rustix::system::uname().nodename().to_bytes().to_vec(),
            String::into_bytes,
        );
        let tags = self.tag.iter().map(|tag| tag.clone().into_bytes()).collect();
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Ok(CreateOptions { paths, walk, host, tags, threads })
    }
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let options = args.options(place)?;
    let mut session = args.access.open(place, cx)?;
    let client = if session.repository.config().signed || args.sign_with.is_some() {
        let wanted = args.sign_with.as_deref();
        let (signer, cert) = args.access.signer(wanted, &session, Role::Create, cx)?;
        Some((cert.fingerprint(), signer))
    } else {
        None
    };
    let (repository, keys, state) = (&session.repository, &session.keys, &mut session.state);
    let now = cx.now;
    let (created, progress) = with_progress(cx, |progress| {
        let created = match client {
            Some((name, signer)) => {
                repository.create(keys, Some((&name, signer)), state, &options, progress, now)
            }
            None => repository.create(keys, None, state, &options, progress, now),
        };
        created.map(|created| (created, Arc::clone(progress)))
    })?;
    let warning = Paint::stderr().doubtful("Warning");
    for error in &created.unreadable {
        cx.status(format_args!("{warning}: {error}; what it names is stored again."));
    }
    for (path, error) in &created.unread {
        // Whoever wants no messages still wants to know of this.
        say(format_args!("{warning}: /{} is left out: {error}.", printable(path)));
    }
    for path in &created.changed {
        cx.status(format_args!("{warning}: /{} changed while it was read.", printable(path)));
    }
    for (path, error) in &created.without_attributes {
        let path = printable(path);
        cx.status(format_args!(
            "{warning}: /{path} has no extended attributes in the snapshot: {error}."
        ));
    }
    let snapshot = &created.snapshot;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    if cx.json {
        let json = serde_json::json!({
            "action": "backup create", "id": created.id.to_string(), "number": snapshot.number,
            "entries": snapshot.entries, "bytes": snapshot.bytes, "unread": snapshot.unread,
            "changed": created.changed.len(), "sockets": created.sockets,
            "read_bytes": count(&progress.read_bytes), "new_chunks": count(&progress.new_chunks),
            "new_bytes": count(&progress.new_bytes), "written_bytes": count(&progress.written_bytes),
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        let id = created.id.to_string();
        cx.status(format_args!(
            "Snapshot {}: {}, {}; {} read, {} new, {} written.",
            Paint::stderr().handle(&id[..12]),
            counted(snapshot.entries, "path"),
            size(snapshot.bytes),
            size(count(&progress.read_bytes)),
            size(count(&progress.new_bytes)),
            size(count(&progress.written_bytes)),
        ));
        if snapshot.unread > 0 {
            cx.status(format_args!("{} could not be read.", counted(snapshot.unread, "path")));
        }
    }
    Ok(if snapshot.unread > 0 { ExitCode::from(5) } else { ExitCode::SUCCESS })
}
