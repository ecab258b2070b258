//! The report on a key database for GnuPG again (2015): import, listing and lookups of a keyring,
//! by talaria and by the programs that people use today.

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use talaria_cert::Cert;
use talaria_store::{Access, Cursor, Order, Store};

use crate::error::BenchError;
use crate::lookups::{self, Lookup};
use crate::measure::{Cost, ProgramRun, daemon_cpu_s, in_process, own_program};
use crate::results;
use crate::table::{Cell, Table};

/// Certificates of the import under strace, which slows it down.
const TRACED_CERTS: usize = 100;

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct KeydbOptions {
    /// A keyring in OpenPGP's own format.
    pub keyring: PathBuf,
    /// Only the first so many certificates of it: the full import by gpg takes over a minute.
    pub quick: Option<usize>,
    /// The talaria executable.
    pub program: PathBuf,
    /// The gpg to compare with. From 2.4 on it is measured with keyboxd as well.
    pub gpg: PathBuf,
    /// The sq to compare with, if it is installed.
    pub sq: PathBuf,
    /// A folder on the disk that is to be measured. Sockets are made in it, so its path is short.
    pub scratch: PathBuf,
    /// Runs of listings and lookups, of which the median is taken. Imports are run once.
    pub runs: usize,
    /// The folder for `keydb.csv` and `keydb.svg`, if any.
    pub results: Option<PathBuf>,
}

impl Default for KeydbOptions {
    fn default() -> Self {
        Self {
            keyring: "/usr/share/keyrings/debian-keyring.gpg".into(),
            quick: None,
            program: own_program(),
            gpg: "gpg".into(),
            sq: "sq".into(),
            scratch: std::env::temp_dir(),
            runs: 5,
            results: None,
        }
    }
}

/// The work that is measured.
#[derive(Clone, Copy, Debug)]
enum Work<'a> {
    Import,
    ImportAgain,
    List,
    ListSignatures,
    Find(&'a Lookup),
}

impl Work<'_> {
    fn name(self) -> String {
        match self {
            Self::Import => "import into an empty store".to_owned(),
            Self::ImportAgain => "import the same again".to_owned(),
            Self::List => "list all".to_owned(),
            Self::ListSignatures => "list all with signatures".to_owned(),
            Self::Find(lookup) => format!("find: {}", lookup.form),
        }
    }

    /// Seconds on the clock in 2015: GnuPG with its keybox, and with the report's SQLite prototype.
    fn in_2015(self) -> Option<(f64, f64)> {
        match self {
            Self::Import => Some((112.56, 7.73)),
            Self::List => Some((1.245, 2.515)),
            _ => None,
        }
    }

    /// Imports change what they measure, so they are run once.
    fn runs(self, runs: usize) -> usize {
        if matches!(self, Self::Import | Self::ImportAgain) { 1 } else { runs }
    }
}

/// A program that is compared, with a place of its own.
struct Side {
    name: String,
    kind: Kind,
    program: PathBuf,
    place: PathBuf,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Talaria,
    Keybox,
    Keyboxd,
    /// Sequoia's sq before it had a store: it lists keyring files.
    SqFiles,
    /// Sequoia's sq with its certificate directory.
    SqStore,
}

impl Side {
    fn run(&self, work: Work<'_>, keyring: &Path) -> Option<ProgramRun> {
        let run = ProgramRun::new(&self.program);
        Some(match self.kind {
            Kind::Talaria => {
                let run = run.arg("--quiet").arg("--store").arg(&self.place);
                match work {
                    Work::Import | Work::ImportAgain => run.arg("import").arg(keyring),
                    Work::List => run.args(["list", "--with-colons"]),
                    Work::ListSignatures => run.args(["list", "--with-colons", "--with-sigs"]),
                    Work::Find(lookup) => {
                        let run = run.args(["list", "--with-colons", "--", &lookup.text]);
                        if lookup.hits { run } else { run.accept(1) }
                    }
                }
            }
            Kind::Keybox | Kind::Keyboxd => {
                let run = run.args(["--batch", "--quiet", "--no-auto-check-trustdb", "--homedir"]);
                let run = run.arg(&self.place);
                // No agent, which has no part in this and would outlive it; keyboxd is started
                // alike.
                let run = if self.kind == Kind::Keybox { run.arg("--no-autostart") } else { run };
                match work {
                    Work::Import | Work::ImportAgain => {
                        // gpg answers 2 if any signature of any certificate displeased it.
                        let run = match self.kind {
                            Kind::Keyboxd => run.args(["--import-options", "bulk-import"]),
                            _ => run,
                        };
                        run.arg("--import").arg(keyring).accept(2)
                    }
                    Work::List => run.args(["--with-colons", "--list-keys"]),
                    Work::ListSignatures => run.args(["--with-colons", "--list-sigs"]),
                    Work::Find(lookup) => {
                        let run = run.args(["--with-colons", "--list-keys", "--", &lookup.text]);
                        if lookup.hits { run } else { run.accept(2) }
                    }
                }
            }
            Kind::SqFiles => match work {
                Work::List => run.args(["keyring", "list"]).arg(keyring),
                _ => return None,
            },
            Kind::SqStore => {
                let run = run.arg("--home").arg(&self.place).arg("cert");
                match work {
                    Work::Import | Work::ImportAgain => run.arg("import").arg(keyring),
                    Work::List => run.arg("list"),
                    Work::Find(lookup) => match lookup.form {
                        "fingerprint" | "key ID" | "subkey ID" => {
                            run.args(["list", "--cert", &lookup.text])
                        }
                        _ => return None,
                    },
                    Work::ListSignatures => return None,
                }
            }
        })
    }

    /// The cost of the work, including the daemon's part.
    fn measure(
        &self,
        work: Work<'_>,
        keyring: &Path,
        runs: usize,
    ) -> Result<Option<Cost>, BenchError> {
        let Some(run) = self.run(work, keyring) else { return Ok(None) };
        let runs = work.runs(runs).max(1);
        if self.kind != Kind::Keyboxd {
            return run.median(runs).map(Some);
        }
        let before = daemon_cpu_s("keyboxd", &self.place);
        let cost = run.median(runs)?;
        let daemon_s = daemon_cpu_s("keyboxd", &self.place) - before;
        let runs = u32::try_from(runs).unwrap_or(u32::MAX);
        Ok(Some(Cost { user_s: cost.user_s + daemon_s / f64::from(runs), ..cost }))
    }

    /// The other programs may refuse what they do not have; that leaves a gap and a note.
    fn try_measure(
        &self,
        work: Work<'_>,
        keyring: &Path,
        runs: usize,
        table: &mut Table,
    ) -> Result<Option<Cost>, BenchError> {
        match self.measure(work, keyring, runs) {
            Err(BenchError::Failed { stderr, .. }) if self.kind != Kind::Talaria => {
                let said = stderr.lines().next_back().unwrap_or_default();
                table.note(format!("{}, {}: refused ({said}).", self.name, work.name()));
                Ok(None)
            }
            result => result,
        }
    }
}

/// Measures talaria and the programs that are there on the keyring, prints the table, returns it.
///
/// # Errors
///
/// When talaria fails, the keyring cannot be read or the scratch folder cannot be written. What
/// another program does not do is left out.
pub fn run(options: &KeydbOptions, out: &mut dyn Write) -> Result<Table, BenchError> {
    let folder = tempfile::Builder::new()
        .prefix("kdb")
        .tempdir_in(&options.scratch)
        .map_err(BenchError::io("make a folder in", &options.scratch))?;
    let certs = lookups::read(&options.keyring, options.quick)?;
    let lookups = lookups::of_middle(&certs, &options.keyring)?;
    let keyring = match options.quick {
        Some(_) => ring(&folder.path().join("ring.pgp"), &certs)?,
        None => options.keyring.clone(),
    };
    let traced_certs = &certs[..certs.len().min(TRACED_CERTS)];
    let traced = ring(&folder.path().join("traced.pgp"), traced_certs)?;
    let sides = sides(options, folder.path())?;

    let mut table = Table::new("Key database (gnupg-devel, 29 October 2015)", &["work"]);
    describe(&mut table, &sides, &options.keyring, &certs);
    for side in &sides {
        table.columns.push(format!("{} CPU s", side.name));
        table.columns.push(format!("{} wall s", side.name));
    }
    table.columns.extend(["gpg kbx 2015 wall s".to_owned(), "SQLite 2015 wall s".to_owned()]);
    let works = [Work::Import, Work::ImportAgain, Work::List, Work::ListSignatures];
    for work in works.into_iter().chain(lookups.iter().map(Work::Find)) {
        let mut row = vec![Cell::from(work.name())];
        for side in &sides {
            let cost = side.try_measure(work, &keyring, options.runs, &mut table)?;
            row.push(cost.map(|cost| cost.cpu_s()).into());
            row.push(cost.map(|cost| cost.wall_s).into());
        }
        let before = work.in_2015();
        row.extend([before.map(|(kbx, _)| kbx).into(), before.map(|(_, sqlite)| sqlite).into()]);
        table.push(row);
    }
    let store = Store::open(&sides[0].place, Access::Read)?;
    for (order, name) in [(Order::Insertion, "insertion"), (Order::Key, "fingerprint")] {
        let (done, cost) =
            in_process(|| store.walk(&mut Cursor::start(order), |_| ControlFlow::Continue(())));
        done?;
        let name = format!("walk all in the library, by {name}");
        table.push(vec![name.into(), cost.cpu_s().into(), cost.wall_s.into()]);
    }
    if let Some(counts) = syncs(&sides, &traced, folder.path()) {
        table.note(format!(
            "Syncs (fsync and its kin, by strace) of an import of the first {} certificates: \
             {counts}.",
            traced_certs.len(),
        ));
    }
    if let Some(gpg) = sides.iter().position(|side| side.kind == Kind::Keybox) {
        table.ratio("gpg / talaria CPU", 1 + 2 * gpg, 1);
        table.ratio("gpg / talaria wall", 2 + 2 * gpg, 2);
    }
    for side in sides.iter().filter(|side| side.kind == Kind::Keyboxd) {
        // A daemon that outlives its folder would be left behind.
        let _ = Command::new("gpgconf")
            .arg("--homedir")
            .arg(&side.place)
            .args(["--kill", "all"])
            .output();
    }
    table.drop_empty_columns();
    table.print(out).map_err(BenchError::Output)?;
    results::save(options.results.as_deref(), "keydb", &table)?;
    Ok(table)
}

/// Writes a keyring.
pub(crate) fn ring(path: &Path, certs: &[Cert]) -> Result<PathBuf, BenchError> {
    let bytes: Vec<&[u8]> = certs.iter().map(Cert::as_bytes).collect();
    fs::write(path, bytes.concat()).map_err(BenchError::io("write", path))?;
    Ok(path.to_owned())
}

/// The programs that are there, talaria first.
fn sides(options: &KeydbOptions, folder: &Path) -> Result<Vec<Side>, BenchError> {
    let mut sides = vec![Side {
        name: "talaria".to_owned(),
        kind: Kind::Talaria,
        program: options.program.clone(),
        place: folder.join("store.db"),
    }];
    if let Some(version) = version(&options.gpg) {
        let has_daemon = version.split('.').map_while(|part| part.parse::<u32>().ok()).ge([2, 4]);
        for kind in [Kind::Keybox, Kind::Keyboxd] {
            let (name, place) = match kind {
                Kind::Keyboxd if !has_daemon => continue,
                Kind::Keyboxd => (format!("gpg {version} keyboxd"), home(folder, "d", true)?),
                _ => (format!("gpg {version}"), home(folder, "k", false)?),
            };
            sides.push(Side { name, kind, program: options.gpg.clone(), place });
        }
    }
    if let Some(version) = version(&options.sq) {
        let has_store = Command::new(&options.sq).args(["cert", "import", "--help"]).output();
        let has_store = has_store.is_ok_and(|output| output.status.success());
        let kind = if has_store { Kind::SqStore } else { Kind::SqFiles };
        let place = home(folder, "s", false)?;
        sides.push(Side {
            name: format!("sq {version}"),
            kind,
            program: options.sq.clone(),
            place,
        });
    }
    Ok(sides)
}

/// A home folder that only its owner can read, as gpg wants it.
fn home(folder: &Path, name: &str, keyboxd: bool) -> Result<PathBuf, BenchError> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    let make = || {
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        // An empty file keeps a new gpg from choosing for itself.
        fs::write(path.join("common.conf"), if keyboxd { "use-keyboxd\n" } else { "" })
    };
    make().map_err(BenchError::io("make", &path))?;
    Ok(path)
}

/// The version that a program says it has; `None` if it is not there.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    text.lines().next()?.split_whitespace().find(numbers).map(str::to_owned)
}

fn describe(table: &mut Table, sides: &[Side], keyring: &Path, certs: &[Cert]) {
    let signatures: usize = certs.iter().map(Cert::signature_count).sum();
    let bytes: usize = certs.iter().map(|cert| cert.as_bytes().len()).sum();
    table.note(format!(
        "{}: {} certificates, {} signatures, {} bytes. Programs are measured as processes from \
         start to end; imports once, all else as a median. CPU is user and system time of all \
         threads.",
        keyring.display(),
        Cell::from(certs.len() as u64),
        Cell::from(signatures as u64),
        Cell::from(bytes as u64),
    ));
    table.note(
        "talaria: the import is on the disk when it ends; self-signatures are computed once and \
         the verdicts kept.",
    );
    for side in sides {
        let does = match side.kind {
            Kind::Talaria => continue,
            Kind::Keybox => {
                "each certificate rewrites the keybox file, nothing is synced; listings compute \
                 self-signatures anew; run with --no-auto-check-trustdb"
            }
            Kind::Keyboxd => "SQLite behind a daemon whose CPU time is included; bulk-import",
            Kind::SqFiles => "has no store; `keyring list` reads the keyring file",
            Kind::SqStore => "a certificate directory; `cert list` authenticates every binding",
        };
        table.note(format!("{}: {does}.", side.name));
    }
    table.note(
        "2015: the report's own figures for 751 keys of the Debian keyring of then (import: 37.9 \
         and 5.73 CPU s).",
    );
}

/// Counts how often each side asks for its data to be put on the disk.
fn syncs(sides: &[Side], traced: &Path, folder: &Path) -> Option<String> {
    let mut counts = Vec::new();
    for (at, side) in sides.iter().enumerate() {
        let place = match side.kind {
            Kind::Talaria => folder.join("traced.db"),
            Kind::Keybox => match home(folder, &format!("t{at}"), false) {
                Ok(home) => home,
                Err(_) => continue,
            },
            // The daemon is not a child; sq before 1.0 has no import.
            Kind::Keyboxd | Kind::SqFiles | Kind::SqStore => continue,
        };
        let side = Side { name: side.name.clone(), program: side.program.clone(), place, ..*side };
        if let Some(syncs) = side.run(Work::Import, traced).and_then(|run| run.syncs()) {
            counts.push(format!("{} {syncs}", side.name));
        }
    }
    (!counts.is_empty()).then(|| counts.join(", "))
}
