//! The report on encrypted backup for obnam again (2016): many tiny files and one large one, backed up, backed up again unchanged,
//! and restored, beside rsync, restic and borg.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::{env, process};

use crate::measure::{Cost, Run, median, version};
use crate::table::{Cell, Table};
use crate::{BenchError, results};

/// Files in a folder of the many files.
const FILES_PER_FOLDER: usize = 256;
/// The passphrase of peers that need one.
const PASSPHRASE: &str = "correct horse";

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupOptions {
    /// The number of files with one octet each; 0 leaves this measurement out.
    pub files: usize,
    /// The length of the large file in octets; 0 leaves this measurement out.
    pub bytes: u64,
    /// The talaria executable.
    pub program: PathBuf,
    /// A folder on the disk that is to be measured.
    pub scratch: PathBuf,
    /// Runs of which the median is taken. The programs take turns.
    pub runs: usize,
    /// The folder for tables and plots, if any.
    pub results: Option<PathBuf>,
}

impl Default for BackupOptions {
    fn default() -> Self {
        Self {
            files: 102_400,
            bytes: 1_000_000_000,
            program: env::current_exe().unwrap_or_else(|_| "talaria".into()),
            scratch: env::temp_dir(),
            runs: 5,
            results: None,
        }
    }
}

/// A program with its way to back up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Tool {
    Talaria(&'static str),
    Rsync,
    Restic,
    Borg,
}

/// Measures talaria and its peers, prints the tables and returns them. Peers that are not installed are left out.
///
/// # Errors
///
/// When a program fails, what it restores is not what was backed up, or the scratch folder cannot be written.
pub fn run(options: &BackupOptions, out: &mut dyn Write) -> Result<Vec<Table>, BenchError> {
    let folder = tempfile::Builder::new().prefix("backup").tempdir_in(&options.scratch);
    let folder = folder.map_err(BenchError::io("make a folder in", &options.scratch))?;
    let mut tables = Vec::new();
    for (name, wanted) in [("many", options.files > 0), ("one", options.bytes > 0)] {
        if !wanted {
            continue;
        }
        let source = folder.path().join(name);
        let title = if name == "many" {
            many_files(&source, options.files).map_err(BenchError::io("write", &source))?;
            format!("{} files of one random octet", options.files)
        } else {
            one_file(&source, options.bytes).map_err(BenchError::io("write", &source))?;
            format!("one file of {} random octets", options.bytes)
        };
        let table = measure(options, &title, &source, &folder.path().join("work"))?;
        table.print(out).map_err(BenchError::Output)?;
        results::save(options.results.as_deref(), &format!("backup-{name}"), &table)?;
        tables.push(table);
        fs::remove_dir_all(&source).map_err(BenchError::io("remove", &source))?;
    }
    Ok(tables)
}

fn measure(
    options: &BackupOptions,
    title: &str,
    source: &Path,
    work: &Path,
) -> Result<Table, BenchError> {
    let found = |name: &str| {
        let paths = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&paths).any(|path| path.join(name).is_file())
    };
    let mut tools: Vec<Tool> = ["rfc9580", "librepgp", "rfc4880", "none"].map(Tool::Talaria).into();
    tools.extend(
        [Tool::Rsync, Tool::Restic, Tool::Borg].into_iter().filter(|tool| found(tool.program())),
    );
    let mut costs: Vec<[Vec<Cost>; 3]> = vec![Default::default(); tools.len()];
    let mut sizes = vec![0; tools.len()];
    for turn in 0..options.runs.max(1) {
        for (at, tool) in tools.iter().enumerate() {
            let _ = fs::remove_dir_all(work);
            fs::create_dir_all(work).map_err(BenchError::io("make", work))?;
            let place = Place { program: &options.program, source, work };
            for run in place.prepare(*tool) {
                run.measure()?;
            }
            let [first, second, restore] = &mut costs[at];
            first.push(place.back_up(*tool, "a").measure()?);
            second.push(place.back_up(*tool, "b").measure()?);
            sizes[at] = octets(&place.repository()).map_err(BenchError::io("read", work))?;
            let target = work.join("restored");
            fs::create_dir_all(&target).map_err(BenchError::io("make", &target))?;
            restore.push(place.restore(*tool).measure()?);
            if turn == 0 {
                check_restored(source, &target, *tool)?;
            }
        }
    }
    let _ = fs::remove_dir_all(work);
    let mut columns = vec!["task".to_owned()];
    for tool in &tools {
        columns.extend([format!("{} CPU s", tool.name()), format!("{} wall s", tool.name())]);
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&format!("Backup of {title}"), &columns);
    for (task, name) in ["first run", "again, unchanged", "restore"].into_iter().enumerate() {
        let mut row = vec![Cell::from(name)];
        for costs in &costs {
            let cost = median(&costs[task]);
            row.extend([Cell::from(cost.cpu_s()), Cell::from(cost.wall_s)]);
        }
        table.push(row);
    }
    table.note(format!(
        "{title}. Medians of {} runs; the programs take turns, each with a new repository on the same file system. talaria syncs each \
         object before it is named, restic and borg sync too; rsync does not. talaria `none` does not encrypt.",
        options.runs.max(1)
    ));
    let sizes = tools.iter().zip(&sizes).map(|(tool, bytes)| format!("{} {bytes}", tool.name()));
    table.note(format!("Octets of the repository: {}.", sizes.collect::<Vec<_>>().join(", ")));
    let peaks = tools.iter().zip(&costs).map(|(tool, costs)| {
        format!("{} {} MB", tool.name(), median(&costs[0]).peak_bytes / 1_000_000)
    });
    table.note(format!("Peak memory of the first run: {}.", peaks.collect::<Vec<_>>().join(", ")));
    let versions = tools.iter().filter(|tool| !matches!(tool, Tool::Talaria(_)));
    let versions: Vec<String> =
        versions.filter_map(|tool| version(Path::new(tool.program()))).collect();
    table.note(format!("Peers: {}.", versions.join(", ")));
    Ok(table)
}

impl Tool {
    fn program(self) -> &'static str {
        match self {
            Self::Talaria(_) => "talaria",
            Self::Rsync => "rsync",
            Self::Restic => "restic",
            Self::Borg => "borg",
        }
    }

    fn name(self) -> String {
        match self {
            Self::Talaria("rfc9580") => "talaria".into(),
            Self::Talaria(profile) => format!("talaria {profile}"),
            tool => tool.program().into(),
        }
    }
}

/// Where a program works.
struct Place<'a> {
    program: &'a Path,
    source: &'a Path,
    work: &'a Path,
}

impl Place<'_> {
    fn repository(&self) -> PathBuf {
        self.work.join("repository")
    }

    /// A run with the settings of this place only.
    fn run(&self, program: &Path) -> Run {
        let setting = |name: &str, value: PathBuf| {
            let mut setting = OsString::from(name);
            setting.push("=");
            setting.push(value);
            setting
        };
        Run::new("env")
            .arg("-C")
            .arg(self.work)
            .arg(setting("HOME", self.work.into()))
            .arg(setting("TALARIA_CONFIG", PathBuf::new()))
            .arg(setting("XDG_DATA_HOME", self.work.join("data")))
            .arg(setting("RESTIC_PASSWORD", PASSPHRASE.into()))
            .arg(setting("RESTIC_CACHE_DIR", self.work.join("cache")))
            .arg(setting("BORG_PASSPHRASE", PASSPHRASE.into()))
            .arg(setting("BORG_BASE_DIR", self.work.join("borg")))
            .arg(program)
    }

    fn talaria(&self) -> Run {
        self.run(self.program).args(["-q", "backup", "--repo"]).arg(self.repository())
    }

    fn peer(&self, tool: Tool) -> Run {
        self.run(Path::new(tool.program()))
    }

    fn borg_archive(&self, name: &str) -> OsString {
        let mut archive = self.repository().into_os_string();
        archive.push("::");
        archive.push(name);
        archive
    }

    /// What makes the repository.
    fn prepare(&self, tool: Tool) -> Vec<Run> {
        let repository = self.repository();
        match tool {
            Tool::Talaria(profile) => vec![
                self.run(self.program).args([
                    "-q",
                    "key",
                    "generate",
                    "--no-passphrase",
                    "Backup <backup@example.org>",
                ]),
                self.talaria().args(["init", "--profile", profile]),
            ],
            Tool::Rsync => Vec::new(),
            Tool::Restic => vec![self.peer(tool).arg("-r").arg(repository).arg("init")],
            Tool::Borg => {
                vec![self.peer(tool).args(["init", "-e", "repokey-blake2"]).arg(repository)]
            }
        }
    }

    fn back_up(&self, tool: Tool, name: &str) -> Run {
        let repository = self.repository();
        match tool {
            Tool::Talaria(_) => self.talaria().arg("create").arg(self.source),
            Tool::Rsync => self.peer(tool).arg("-a").arg(self.source.join("")).arg(repository),
            Tool::Restic => {
                self.peer(tool).arg("-r").arg(repository).arg("backup").arg(self.source)
            }
            Tool::Borg => {
                self.peer(tool).arg("create").arg(self.borg_archive(name)).arg(self.source)
            }
        }
    }

    fn restore(&self, tool: Tool) -> Run {
        let (repository, target) = (self.repository(), self.work.join("restored"));
        match tool {
            Tool::Talaria(_) => self
                .talaria()
                .args(["restore", "latest", "--target"])
                .arg(target)
                .arg("--path")
                .arg(self.source),
            Tool::Rsync => self.peer(tool).arg("-a").arg(repository.join("")).arg(target),
            Tool::Restic => self
                .peer(tool)
                .arg("-r")
                .arg(repository)
                .args(["restore", "latest", "--target"])
                .arg(target),
            // It extracts into the working directory.
            Tool::Borg => self
                .run(Path::new("env"))
                .arg("-C")
                .arg(target)
                .args(["borg", "extract"])
                .arg(self.borg_archive("b")),
        }
    }
}

/// Random octets, fast and not for secrets.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let octets = self.next().to_le_bytes();
            chunk.copy_from_slice(&octets[..chunk.len()]);
        }
    }
}

fn many_files(folder: &Path, files: usize) -> io::Result<()> {
    let mut noise = Noise(u64::from(process::id()) + 1);
    for number in 0..files {
        let folder = folder.join((number / FILES_PER_FOLDER).to_string());
        if number % FILES_PER_FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(number.to_string()), &noise.next().to_le_bytes()[3..4])?;
    }
    Ok(())
}

fn one_file(folder: &Path, bytes: u64) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = File::create(folder.join("file"))?;
    let (mut noise, mut buffer) = (Noise(u64::from(process::id()) + 1), vec![0; 1 << 20]);
    let mut left = bytes;
    while left > 0 {
        noise.fill(&mut buffer);
        let length = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&buffer[..length])?;
        left -= length as u64;
    }
    Ok(())
}

/// The octets of all files in a folder.
fn octets(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        sum += if meta.is_dir() { octets(&entry.path())? } else { meta.len() };
    }
    Ok(sum)
}

/// Refuses a restore that is not what was backed up. Some programs restore the whole path below the target.
fn check_restored(source: &Path, target: &Path, tool: Tool) -> Result<(), BenchError> {
    let below = target.join(source.strip_prefix("/").unwrap_or(source));
    let restored = if below.is_dir() { below } else { target.to_owned() };
    match same(source, &restored) {
        Ok(true) => Ok(()),
        Ok(false) => Err(BenchError::Restored { program: tool.name() }),
        Err(error) => Err(BenchError::io("compare", &restored)(error)),
    }
}

/// Whether two folders have the same files with the same content.
fn same(a: &Path, b: &Path) -> io::Result<bool> {
    let names = |folder: &Path| -> io::Result<Vec<OsString>> {
        let mut names: Vec<_> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    };
    let all = names(a)?;
    if all != names(b)? {
        return Ok(false);
    }
    for name in all {
        let (a, b) = (a.join(&name), b.join(&name));
        let is_same = if a.is_dir() { same(&a, &b)? } else { same_file(&a, &b)? };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_file(a: &Path, b: &Path) -> io::Result<bool> {
    const STEP: u64 = 1 << 20;
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        Read::by_ref(&mut a).take(STEP).read_to_end(&mut left)?;
        Read::by_ref(&mut b).take(STEP).read_to_end(&mut right)?;
        if left != right || left.is_empty() {
            return Ok(left == right);
        }
    }
}
