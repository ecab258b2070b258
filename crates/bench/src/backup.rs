//! The report on encrypted backup for obnam again (2016): many tiny files, one large file, and a
//! source tree are backed up, backed up again unchanged, and restored, beside rsync, restic, borg
//! and duplicity.

mod growth;
mod options;
mod source;
mod tool;

use std::fs;
use std::io::Write;
use std::iter;
use std::path::{Path, PathBuf};

pub use self::options::BackupOptions;
pub(crate) use self::source::many_files;
use self::source::{bytes, check_restored, one_file};
use self::tool::{PROFILES, Place, Tool};
use crate::error::BenchError;
use crate::measure::{Cost, median, version};
use crate::results;
use crate::table::{Cell, Table, grouped};

/// Measures talaria and its peers, prints the tables and returns them. Peers that are not installed
/// are left out.
///
/// # Errors
///
/// When a program fails, what it restores is not what was backed up, or the scratch folder cannot
/// be written.
pub fn run(options: &BackupOptions, out: &mut dyn Write) -> Result<Vec<Table>, BenchError> {
    let folder = tempfile::Builder::new().prefix("backup").tempdir_in(&options.scratch);
    let folder = folder.map_err(BenchError::io("make a folder in", &options.scratch))?;
    let mut tables = Vec::new();
    let mut keep = |name: &str, table: Table| -> Result<(), BenchError> {
        table.print(out).map_err(BenchError::Output)?;
        results::save(options.results.as_deref(), name, &table)?;
        tables.push(table);
        Ok(())
    };
    let mut sources = Vec::new();
    if options.files > 0 {
        let path = folder.path().join("many");
        many_files(&path, options.files).map_err(BenchError::io("write", &path))?;
        let title = format!("{} files of one random byte", grouped(&options.files.to_string()));
        sources.push(Source { name: "many", title, path });
    }
    if options.bytes > 0 {
        let path = folder.path().join("one");
        one_file(&path, options.bytes).map_err(BenchError::io("write", &path))?;
        let title = format!("one file of {} random bytes", grouped(&options.bytes.to_string()));
        sources.push(Source { name: "one", title, path });
    }
    if let Some(path) = &options.tree {
        let path = path.canonicalize().map_err(BenchError::io("find", path))?;
        let (files, bytes) = source::counts(&path).map_err(BenchError::io("read", &path))?;
        let (files, bytes) = (grouped(&files.to_string()), grouped(&bytes.to_string()));
        let title = format!("a source tree of {files} files with {bytes} bytes");
        sources.push(Source { name: "tree", title, path });
    }
    let tools: Vec<Tool> = iter::once(Tool::Talaria(PROFILES[0])).chain(Tool::peers()).collect();
    for source in &sources {
        let work = folder.path().join(format!("peers-{}", source.name));
        let costs = measure(options, source, &tools, options.runs.max(1), &work)?;
        keep(&format!("backup-{}", source.name), beside_peers(options, source, &tools, &costs))?;
    }
    if options.profile_runs > 0 && !sources.is_empty() {
        let profiles = PROFILES.map(Tool::Talaria);
        let mut table = profile_table(options.profile_runs);
        for source in &sources {
            let work = folder.path().join(format!("profiles-{}", source.name));
            let costs = measure(options, source, &profiles, options.profile_runs, &work)?;
            add_profiles(&mut table, source, &costs);
        }
        keep("backup-profiles", table)?;
    }
    if !options.chunks.is_empty() {
        keep("backup-memory", growth::run(options, folder.path())?)?;
    }
    Ok(tables)
}

/// Something that is backed up.
struct Source {
    name: &'static str,
    title: String,
    path: PathBuf,
}

/// The costs of a program.
#[derive(Clone, Default)]
struct Costs {
    first: Vec<Cost>,
    again: Vec<Cost>,
    restore: Vec<Cost>,
    /// Bytes of the repository.
    bytes: u64,
}

/// The tasks, as rows.
const TASKS: [&str; 3] = ["first run", "again, unchanged", "restore"];

impl Costs {
    fn tasks(&self) -> [&[Cost]; 3] {
        [&self.first, &self.again, &self.restore]
    }
}

/// Runs each program in turn, each time in a new folder and with the disk at rest.
fn measure(
    options: &BackupOptions,
    source: &Source,
    tools: &[Tool],
    runs: usize,
    work: &Path,
) -> Result<Vec<Costs>, BenchError> {
    let mut all = vec![Costs::default(); tools.len()];
    for turn in 0..runs {
        for at in 0..tools.len() {
            // The order gives no program an advantage.
            let at = (at + turn) % tools.len();
            let (tool, costs) = (tools[at], &mut all[at]);
            let work = work.join(format!("{turn}-{at}"));
            fs::create_dir_all(&work).map_err(BenchError::io("make", &work))?;
            let place = Place { program: &options.program, source: &source.path, work: &work };
            for run in place.prepare(tool) {
                run.measure()?;
            }
            rustix::fs::sync();
            costs.first.push(place.back_up(tool, "a").measure()?);
            rustix::fs::sync();
            costs.again.push(place.back_up(tool, "b").measure()?);
            costs.bytes = bytes(&place.repository()).map_err(BenchError::io("read", &work))?;
            let target = work.join("restored");
            fs::create_dir_all(&target).map_err(BenchError::io("make", &target))?;
            rustix::fs::sync();
            costs.restore.push(place.restore(tool).measure()?);
            if turn == 0 {
                check_restored(&source.path, &target, &tool.name())?;
            }
            // After many files were deleted, ext4 makes new ones slowly for minutes: it looks past
            // the inodes. So they are deleted at the end.
            if source.name == "one" {
                fs::remove_dir_all(&work).map_err(BenchError::io("remove", &work))?;
            }
        }
    }
    Ok(all)
}

fn beside_peers(options: &BackupOptions, source: &Source, tools: &[Tool], all: &[Costs]) -> Table {
    let mut columns = vec!["task".to_owned()];
    for tool in tools {
        columns.extend([format!("{} CPU s", tool.name()), format!("{} wall s", tool.name())]);
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&format!("Backup of {}", source.title), &columns);
    for (task, name) in TASKS.into_iter().enumerate() {
        let mut row = vec![Cell::from(name)];
        for costs in all {
            let cost = median(costs.tasks()[task]);
            row.extend([Cell::from(cost.cpu_s()), Cell::from(cost.wall_s)]);
        }
        table.push(row);
    }
    table.note(format!(
        "{}. Medians of {} runs; the programs take turns, each with a new repository on the same file system. talaria syncs each object before it is named, restic and borg sync too; rsync and duplicity do not.",
        source.title,
        options.runs.max(1)
    ));
    let each = |figure: &dyn Fn(&Costs) -> String| {
        let texts =
            tools.iter().zip(all).map(|(tool, costs)| format!("{} {}", tool.name(), figure(costs)));
        texts.collect::<Vec<_>>().join(", ")
    };
    let bytes = each(&|costs| grouped(&costs.bytes.to_string()));
    table.note(format!("Bytes of the repository: {bytes}."));
    let peak = |costs: &Costs| format!("{} MB", median(&costs.first).peak_bytes / 1_000_000);
    table.note(format!("Peak memory of the first run: {}.", each(&peak)));
    let peers = tools.iter().filter(|tool| !matches!(tool, Tool::Talaria(_)));
    let versions: Vec<String> =
        peers.filter_map(|tool| version(Path::new(tool.program()))).collect();
    table.note(format!("Peers: {}.", versions.join(", ")));
    table
}

fn profile_table(runs: usize) -> Table {
    let mut columns = vec!["task".to_owned()];
    for profile in PROFILES {
        columns.extend([format!("{profile} CPU s"), format!("{profile} wall s")]);
    }
    for profile in &PROFILES[..3] {
        columns.extend([format!("{profile} adds CPU %"), format!("{profile} adds wall %")]);
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("The cost of encryption in a backup", &columns);
    table.note(format!(
        "Medians of {runs} runs of each profile, in turns, by the same program. `none` does not encrypt, and does everything else."
    ));
    table
}

#[expect(clippy::cast_precision_loss, reason = "a share in per cent")]
fn add_profiles(table: &mut Table, source: &Source, all: &[Costs]) {
    for (task, name) in TASKS.into_iter().enumerate() {
        let costs: Vec<Cost> = all.iter().map(|costs| median(costs.tasks()[task])).collect();
        let Some((without, with)) = costs.split_last() else { continue };
        let mut row = vec![Cell::from(format!("{}: {name}", source.name))];
        row.extend(
            costs.iter().flat_map(|cost| [Cell::from(cost.cpu_s()), Cell::from(cost.wall_s)]),
        );
        let added = |with: f64, without: f64| Cell::from((with / without - 1.0) * 100.0);
        row.extend(with.iter().flat_map(|cost| {
            [added(cost.cpu_s(), without.cpu_s()), added(cost.wall_s, without.wall_s)]
        }));
        table.push(row);
    }
    table.note(format!("{}: {}.", source.name, source.title));
    let Some((without, with)) = all.split_last() else { return };
    let sizes = with.iter().zip(PROFILES).map(|(costs, profile)| {
        let percent = (costs.bytes as f64 / without.bytes as f64 - 1.0) * 100.0;
        format!("{profile} {percent:.2} %")
    });
    let sizes: Vec<String> = sizes.collect();
    table.note(format!(
        "{}: encryption makes the repository larger by {}.",
        source.name,
        sizes.join(", ")
    ));
}
