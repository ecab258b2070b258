//! The signed log: updates that one node signs and a second one reads back, with popen(gpg),
//! libsodium and git beside talaria.
//!
//! Repeats the report on libdinemic (2018). The first node makes and processes updates and stores
//! them durably. The second node takes them, verifies all, stores them durably, and reads each
//! value back. All ways run in one run and alternate.

mod growth;
mod nodes;
mod options;
mod updates;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use talaria_log::{EntryId, LogError, LogFolder, Maker, Signing, Update};
use talaria_message::make::{GenerateOptions, KeyUses, Protection, generate};
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::{Rules, signing_key};

use self::nodes::{Author, now_ms, prepare, read_back, send, take};
pub use self::options::LogOptions;
use self::updates::{FIELDS, OBJECTS, update, value};
use crate::error::BenchError;
use crate::measure::{Cost, ProgramRun, daemon_cpu_s, in_process, median, version};
use crate::results;
use crate::table::{Cell, Table};

/// Measures and prints.
///
/// # Errors
///
/// When a program that is there fails, a value comes back changed, or a file cannot be written.
pub fn run(options: &LogOptions, out: &mut dyn Write) -> Result<Vec<Table>, BenchError> {
    // gpg has its sockets in the folder, whose path must be short.
    let folder = tempfile::Builder::new()
        .prefix("l")
        .tempdir_in(&options.scratch)
        .map_err(BenchError::io("make a folder in", &options.scratch))?;
    let mut author = Author::new()?;
    let mut tables = Vec::new();
    for (name, table) in [
        ("log-updates", updates(options, folder.path(), &mut author)?),
        ("log-apart", apart(options, folder.path(), &mut author)?),
        ("log-growth", growth::growth(options, folder.path(), &mut author)?),
    ] {
        table.print(out).map_err(BenchError::Output)?;
        results::save(options.results.as_deref(), name, &table)?;
        tables.push(table);
    }
    Ok(tables)
}

/// One run of a way: the cost at both nodes, and the number of syncs.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Cost,
    second: Cost,
    syncs: Option<u64>,
}

impl Run {
    fn both(self) -> Cost {
        let mut sum = self.first;
        sum.add(self.second);
        sum
    }
}

/// A way to sign, store, verify and read back updates.
enum Way {
    /// talaria, with one commit for all updates.
    Talaria(Signing),
    /// talaria, with a caller who waits for each update.
    Waiting,
    /// A loop over libsodium that syncs each update, or all at the end.
    Libsodium(Loop, &'static str),
    /// A gpg process for each signature.
    Gpg(Gpg),
    /// A signed commit for each update.
    Git(Gpg),
}

impl Way {
    fn name(&self) -> String {
        match self {
            Self::Talaria(Signing::Each) => "talaria, each signed".into(),
            Self::Talaria(Signing::Together) => "talaria, batch-signed".into(),
            Self::Waiting => "talaria, each signed and waited for".into(),
            Self::Libsodium(_, "each") => "libsodium loop, a sync each".into(),
            Self::Libsodium(..) => "libsodium loop, one sync".into(),
            Self::Gpg(gpg) => format!("popen({})", gpg.name),
            Self::Git(_) => "git commit -S".into(),
        }
    }

    fn is_slow(&self) -> bool {
        matches!(self, Self::Gpg(_) | Self::Git(_))
    }

    /// Runs it in a new folder, which goes.
    fn run_anew(
        &self,
        count: usize,
        folder: &Path,
        author: &mut Author,
    ) -> Result<Run, BenchError> {
        fs::create_dir_all(folder).map_err(BenchError::io("make", folder))?;
        let run = self.run(count, folder, author)?;
        fs::remove_dir_all(folder).map_err(BenchError::io("remove", folder))?;
        Ok(run)
    }

    fn run(&self, count: usize, folder: &Path, author: &mut Author) -> Result<Run, BenchError> {
        let updates: Vec<Update> = (0..count).map(update).collect();
        match self {
            Self::Talaria(signing) => talaria(folder, author, &updates, |log, maker, updates| {
                log.put(maker, updates, *signing, now_ms()).map_err(|error| error.error)
            }),
            Self::Waiting => talaria(folder, author, &updates, |log, maker, updates| {
                let mut ids = Vec::new();
                for one in updates.chunks(1) {
                    let put = log.put(maker, one, Signing::Each, now_ms());
                    ids.extend(put.map_err(|error| error.error)?);
                }
                Ok(ids)
            }),
            Self::Libsodium(peer, syncs) => peer.run(count, syncs, folder),
            Self::Gpg(gpg) => gpg.files(count, folder),
            Self::Git(gpg) => gpg.commits(count, folder),
        }
    }
}

/// The updates beside the loop over libsodium, each signed and with one sync at each node.
pub(crate) struct Pair {
    folder: PathBuf,
    updates: usize,
    author: Author,
    peer: Way,
}

impl Pair {
    /// `None` without a C compiler or libsodium.
    pub(crate) fn new(folder: &Path, updates: usize) -> Result<Option<Self>, BenchError> {
        let Some(peer) = Loop::compile(folder)? else { return Ok(None) };
        let (folder, peer) = (folder.join("pair"), Way::Libsodium(peer, "once"));
        Ok(Some(Self { folder, updates, author: Author::new()?, peer }))
    }

    pub(crate) fn talaria(&mut self) -> Result<Cost, BenchError> {
        let ours = Way::Talaria(Signing::Each);
        ours.run_anew(self.updates, &self.folder, &mut self.author).map(Run::both)
    }

    pub(crate) fn libsodium(&mut self) -> Result<Cost, BenchError> {
        self.peer.run_anew(self.updates, &self.folder, &mut self.author).map(Run::both)
    }
}

/// Updates at a first node, which `put` writes, and at a second one.
fn talaria(
    folder: &Path,
    author: &mut Author,
    updates: &[Update],
    put: impl Fn(&LogFolder, &mut Maker<'_>, &[Update]) -> Result<Vec<EntryId>, LogError>,
) -> Result<Run, BenchError> {
    let (one, two) = author.nodes(folder)?;
    let before = one.syncs() + two.syncs();
    let mut maker = author.maker(one.instance())?;
    let (sent, first) = in_process(|| {
        let heads = two.read(talaria_log::Log::heads).map_err(BenchError::Log)?;
        let ids = put(&one, &mut maker, updates).map_err(BenchError::Log)?;
        assert_eq!(ids.len(), updates.len(), "an update is an entry");
        send(&one, &heads)
    });
    let sent = sent?;
    let (done, second) = in_process(|| {
        let added = take(&two, &sent)?;
        assert_eq!(added, updates.len(), "the second node takes all");
        read_back(&two, updates.len())
    });
    done?;
    let syncs = one.syncs() + two.syncs() - before;
    Ok(Run { first, second, syncs: Some(syncs) })
}

/// The compiled `loop.c`.
struct Loop(PathBuf);

impl Loop {
    /// `None` without a C compiler or libsodium.
    fn compile(folder: &Path) -> Result<Option<Self>, BenchError> {
        let (source, program) = (folder.join("loop.c"), folder.join("loop"));
        write(&source, include_bytes!("log/loop.c"))?;
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-o"]).arg(&program).arg(&source).arg("-lsodium");
        let is_made = compiler.output().is_ok_and(|output| output.status.success());
        Ok(is_made.then_some(Self(program)))
    }

    fn run(&self, count: usize, syncs: &str, folder: &Path) -> Result<Run, BenchError> {
        let (sent, copy) = (folder.join("records"), folder.join("copy"));
        let start = |command: &mut Command| -> Result<(Cost, u64), BenchError> {
            let output = command.output().map_err(|source| BenchError::Start {
                program: self.0.display().to_string(),
                source,
            })?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut words = text.split_whitespace();
            let mut next = || words.next().and_then(|word| word.parse::<f64>().ok());
            let (Some(wall_s), Some(user_s), Some(syncs)) = (next(), next(), next()) else {
                return Err(BenchError::Failed {
                    command: format!("{command:?}"),
                    status: output.status,
                    stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                });
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            Ok((Cost { wall_s, user_s, ..Cost::default() }, syncs as u64))
        };
        let count = count.to_string();
        let (first, one) =
            start(Command::new(&self.0).arg("sign").arg(&sent).args([&count, syncs]))?;
        let mut verify = Command::new(&self.0);
        // The second node syncs once, as that of talaria.
        let (second, two) =
            start(verify.arg("verify").arg(&sent).arg(&copy).args([&count, "once"]))?;
        Ok(Run { first, second, syncs: Some(one + two) })
    }
}

/// A gpg with the key of the author.
struct Gpg {
    program: PathBuf,
    home: PathBuf,
    name: String,
}

impl Gpg {
    /// `None` if it is not installed.
    fn new(program: &Path, home: &Path, author: &Author) -> Result<Option<Self>, BenchError> {
        let Some(name) = version(program) else { return Ok(None) };
        fs::create_dir_all(home).map_err(BenchError::io("make", home))?;
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(home, private).map_err(BenchError::io("change", home))?;
        let gpg = Self { program: program.to_owned(), home: home.to_owned(), name };
        let key = home.join("key.pgp");
        let secret = author.cert.as_tsk().to_vec().map_err(|error| prepare("a key")(&error))?;
        write(&key, &secret)?;
        gpg.base().arg("--import").arg(&key).measure()?;
        // The first signature starts the agent.
        gpg.base().args(["-o", "/dev/null", "-b"]).arg(&key).measure()?;
        Ok(Some(gpg))
    }

    fn arguments() -> [&'static str; 6] {
        ["--batch", "--yes", "--quiet", "--no-auto-check-trustdb", "--trust-model", "always"]
    }

    fn base(&self) -> ProgramRun {
        ProgramRun::new(&self.program).arg("--homedir").arg(&self.home).args(Self::arguments())
    }

    /// A shell with gpg, as popen starts it.
    fn popen(&self, rest: &str) -> ProgramRun {
        let line = format!(
            "{} --homedir {} {} {rest}",
            self.program.display(),
            self.home.display(),
            Self::arguments().join(" ")
        );
        ProgramRun::new("sh").args(["-c", &line])
    }

    fn agent_s(&self) -> f64 {
        daemon_cpu_s("gpg-agent", &self.home)
    }

    /// Each update is a file, which a process signs and another one verifies at the second node.
    fn files(&self, count: usize, folder: &Path) -> Result<Run, BenchError> {
        let [one, two] = ["one", "two"].map(|node| folder.join(node));
        for node in [&one, &two] {
            fs::create_dir_all(node).map_err(BenchError::io("make", node))?;
        }
        let agent = self.agent_s();
        let (mut first, mut second) = (Cost::default(), Cost::default());
        for number in 0..count {
            let file = one.join(number.to_string());
            write(&file, value(number).as_bytes())?;
            let file = file.display();
            first.add(self.popen(&format!("-o {file}.sig -b {file}")).measure()?);
        }
        first.user_s += self.agent_s() - agent;
        for number in 0..count {
            let (from, to) = (one.join(number.to_string()), two.join(number.to_string()));
            let signature = two.join(format!("{number}.sig"));
            fs::copy(&from, &to).map_err(BenchError::io("write", &to))?;
            fs::copy(one.join(format!("{number}.sig")), &signature)
                .map_err(BenchError::io("write", &signature))?;
            let verify = format!("--verify {} {}", signature.display(), to.display());
            second.add(self.popen(&verify).measure()?);
            let read = fs::read(&to).map_err(BenchError::io("read", &to))?;
            assert_eq!(read, value(number).as_bytes(), "a value came back changed");
        }
        Ok(Run { first, second, syncs: None })
    }

    /// Each update is a signed commit, which `git verify-commit` verifies in a clone.
    fn commits(&self, count: usize, folder: &Path) -> Result<Run, BenchError> {
        let [one, two] = ["one", "two"].map(|node| folder.join(node));
        fs::create_dir_all(&one).map_err(BenchError::io("make", &one))?;
        // git takes a program for gpg, without arguments.
        let wrapper = folder.join("gpg");
        let line = format!(
            "#!/bin/sh\nexec {} --homedir {} {} \"$@\"\n",
            self.program.display(),
            self.home.display(),
            Self::arguments().join(" ")
        );
        write(&wrapper, line.as_bytes())?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o700))
            .map_err(BenchError::io("change", &wrapper))?;
        let git = |at: &Path| {
            let program = format!("gpg.program={}", wrapper.display());
            ProgramRun::new("git").arg("-C").arg(at).args(["-c", &program]).args([
                "-c",
                "user.email=bench@example.org",
                "-c",
                "user.name=bench",
                "-c",
                "user.signingkey=bench@example.org",
                "-c",
                "gc.auto=0",
            ])
        };
        git(&one).args(["init", "-q"]).measure()?;
        let file = one.join("update");
        write(&file, b"")?;
        git(&one).args(["add", "update"]).measure()?;
        let agent = self.agent_s();
        let (mut first, mut second) = (Cost::default(), Cost::default());
        for number in 0..count {
            write(&file, value(number).as_bytes())?;
            first.add(git(&one).args(["commit", "-q", "-S", "-a", "-m", "update"]).measure()?);
        }
        first.user_s += self.agent_s() - agent;
        let clone = git(folder).args(["clone", "-q"]).arg(&one).arg(&two);
        second.add(clone.measure()?);
        let commits = Command::new("git").arg("-C").arg(&two).args(["rev-list", "HEAD"]).output();
        let commits = commits.map_err(BenchError::io("read", &two))?.stdout;
        let commits = String::from_utf8_lossy(&commits).into_owned();
        let commits: Vec<&str> = commits.lines().collect();
        assert_eq!(commits.len(), count, "an update is a commit");
        for some in commits.chunks(100) {
            second.add(git(&two).arg("verify-commit").args(some).measure()?);
            second.add(git(&two).args(["log", "--no-walk", "-p"]).args(some).measure()?);
        }
        Ok(Run { first, second, syncs: None })
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let mut end = Command::new("gpgconf");
        let _ = end.arg("--homedir").arg(&self.home).args(["--kill", "all"]).output();
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BenchError> {
    fs::write(path, bytes).map_err(BenchError::io("write", path))
}

fn updates(options: &LogOptions, folder: &Path, author: &mut Author) -> Result<Table, BenchError> {
    let mut ways = vec![Way::Talaria(Signing::Each), Way::Talaria(Signing::Together), Way::Waiting];
    if let Some(peer) = Loop::compile(folder)? {
        let again = Loop(peer.0.clone());
        ways.extend([Way::Libsodium(peer, "each"), Way::Libsodium(again, "once")]);
    }
    let homes = ["g", "h"].map(|home| folder.join(home));
    ways.extend(Gpg::new(&options.gpg, &homes[0], author)?.map(Way::Gpg));
    if version(Path::new("git")).is_some() {
        ways.extend(Gpg::new(&options.gpg, &homes[1], author)?.map(Way::Git));
    }
    let mut runs: Vec<Vec<Run>> = ways.iter().map(|_| Vec::new()).collect();
    for number in 0..options.runs.max(1) {
        for (way, runs) in ways.iter().zip(&mut runs) {
            if way.is_slow() && number >= options.slow_runs.max(1) {
                continue;
            }
            runs.push(way.run_anew(options.updates, &folder.join("run"), author)?);
        }
    }
    let mut table = Table::new(
        "Signed updates at two nodes (libdinemic, 2018)",
        &[
            "",
            "CPU ms node 1",
            "CPU ms node 2",
            "CPU ms both",
            "wall ms both",
            "syncs",
            "CPU of each-signed, times",
            "wall of each-signed, times",
            "CPU of batch-signed, times",
        ],
    );
    table.note(format!(
        "{} updates of 64 characters in {} fields of {} objects. Node 1 makes, signs and stores them. Node 2 verifies, stores and \
         reads each back. Without the start of a process and the unlocking of the key, except for gpg and git, which start with each update. \
         Ways alternate; medians of {} runs (gpg and git: {}).",
        options.updates,
        FIELDS,
        OBJECTS,
        options.runs.max(1),
        options.slow_runs.clamp(1, options.runs.max(1)),
    ));
    table.note(
        "talaria and the libsodium loop have updates on disk before they are acknowledged, at both nodes: with one sync for all, or one \
         for each update at node 1. gpg writes files and git objects without a sync; the CPU time of gpg-agent is counted. popen(gpg) and git \
         commit -S keep no fields, and the loop no index, links, grants or merge rules.",
    );
    let middle: Vec<(Cost, Cost, Option<u64>)> = runs
        .iter()
        .map(|runs| {
            let of = |node: fn(&Run) -> Cost| median(&runs.iter().map(node).collect::<Vec<_>>());
            (of(|run| run.first), of(|run| run.second), runs[0].syncs)
        })
        .collect();
    let both = |at: usize, figure: fn(&Cost) -> f64| figure(&middle[at].0) + figure(&middle[at].1);
    for (at, way) in ways.iter().enumerate() {
        let (cpu, wall) = (both(at, Cost::cpu_s), both(at, |cost| cost.wall_s));
        let (first, second, syncs) = &middle[at];
        table.push(vec![
            way.name().into(),
            (first.cpu_s() * 1000.0).into(),
            (second.cpu_s() * 1000.0).into(),
            (cpu * 1000.0).into(),
            (wall * 1000.0).into(),
            syncs.map_or(Cell::Missing, Cell::Count),
            Cell::Ratio(cpu / both(0, Cost::cpu_s)),
            Cell::Ratio(wall / both(0, |cost| cost.wall_s)),
            Cell::Ratio(cpu / both(1, Cost::cpu_s)),
        ]);
    }
    Ok(table)
}

/// The parts that the other table leaves out.
fn apart(options: &LogOptions, folder: &Path, author: &mut Author) -> Result<Table, BenchError> {
    let mut table = Table::new("Before the first update", &["", "CPU ms", "wall ms"]);
    table.note(format!("Medians of {} runs.", options.runs.max(1)));
    let mut row = |name: &str, costs: &[Cost]| {
        let cost = median(costs);
        table.push(vec![
            name.into(),
            (cost.cpu_s() * 1000.0).into(),
            (cost.wall_s * 1000.0).into(),
        ]);
    };
    let runs = options.runs.max(1);
    let start = ProgramRun::new(&options.program).arg("--version");
    let costs: Result<Vec<Cost>, _> = (0..runs).map(|_| start.measure()).collect();
    row("start of a process", &costs?);

    let failed = prepare("a key");
    let password = || Password::from("correct horse battery staple");
    let now = crate::now();
    let mut options_of_key = GenerateOptions::default();
    options_of_key.uses = KeyUses::Sign;
    let locked = generate(&options_of_key, &Protection::Passphrase(password()), now - 3600);
    let locked = locked.map_err(|error| failed(&error))?.cert;
    let mut costs = Vec::new();
    for _ in 0..runs {
        let (key, cost) = in_process(|| {
            signing_key(&locked, Rules::default(), now, &mut |asked, _| (asked == 0).then(password))
        });
        key.map_err(|error| failed(&error))?;
        costs.push(cost);
    }
    row("unlocking a key with a passphrase", &costs);

    let place = folder.join("apart");
    let updates: Vec<Update> = (0..options.updates).map(update).collect();
    talaria(&place, author, &updates, |log, maker, updates| {
        log.put(maker, updates, Signing::Each, now_ms()).map_err(|error| error.error)
    })?;
    let mut costs = Vec::new();
    for _ in 0..runs {
        let (log, cost) = in_process(|| LogFolder::open(&place.join("second")));
        log.map_err(BenchError::Log)?;
        costs.push(cost);
    }
    row(&format!("opening a log of {} updates", options.updates), &costs);
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_that_is_there_stores_and_reads_back() {
        let folder = tempfile::Builder::new().prefix("l").tempdir_in("/tmp").unwrap();
        let options = LogOptions {
            updates: 12,
            runs: 1,
            growth: vec![500],
            program: "true".into(),
            scratch: folder.path().to_owned(),
            results: Some(folder.path().join("results")),
            ..LogOptions::default()
        };
        let mut out = Vec::new();
        let tables = run(&options, &mut out).unwrap_or_else(|error| panic!("{error:?}"));
        let syncs: Vec<(String, String)> =
            tables[0].rows.iter().map(|row| (row[0].to_string(), row[5].to_string())).collect();
        let ours =
            [("each signed", "2"), ("batch-signed", "2"), ("each signed and waited for", "13")];
        for ((name, syncs), (way, wanted)) in syncs.iter().zip(ours) {
            assert_eq!((name, &**syncs), (&format!("talaria, {way}"), wanted));
        }
        // The loop is there wherever talaria is tested.
        let of_loop = syncs.iter().find(|(name, _)| name == "libsodium loop, a sync each");
        assert_eq!(of_loop.map(|(_, syncs)| &**syncs), Some("13"), "{syncs:?}");
        assert!(tables[0].rows.iter().all(|row| row[3].number().is_some_and(|cpu| cpu > 0.0)));
        assert_eq!(tables[1].rows.len(), 3);
        assert_eq!((tables[2].rows.len(), tables[2].rows[0][0].to_string()), (1, "500".into()));
        assert!(tables[2].rows[0].iter().all(|cell| cell.number().is_some_and(f64::is_finite)));
        assert!(folder.path().join("results/log-updates.svg").exists());
    }
}
