//! The reports on trust for GnuPG again (2015): the first listing with trust on first use, and the
//! check of the web of trust; and how the web grows.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use talaria_cert::{Cert, Fingerprint, KeyId, Summary, Validity, Verification, verdicts};
use talaria_trust::issuers;

use crate::error::BenchError;
use crate::measure::{Cost, ProgramRun, own_program, version};
use crate::table::{Cell, Table};
use crate::{lookups, now, results};
use talaria_corpus::{CorpusProfile, Generate, generate};

/// Certificates of the report's listing.
const LISTED: usize = 500;
/// Owners that are trusted: ultimately, fully, marginally.
const OWNERS: [usize; 3] = [3, 60, 137];
/// Certificates that are changed, one after the other.
const CHANGED: usize = 5;

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct TrustOptions {
    /// A keyring in OpenPGP's own format.
    pub keyring: PathBuf,
    /// Only the first so many certificates of it.
    pub quick: Option<usize>,
    /// Generated certificates, in stores of their own.
    pub growth: Vec<u64>,
    /// The talaria executable.
    pub program: PathBuf,
    /// The gpg to compare with.
    pub gpg: PathBuf,
    /// A folder on the disk that is to be measured.
    pub scratch: PathBuf,
    /// Runs of which the median is taken.
    pub runs: usize,
    /// The folder for tables and plots, if any.
    pub results: Option<PathBuf>,
}

impl Default for TrustOptions {
    fn default() -> Self {
        Self {
            keyring: "/usr/share/keyrings/debian-keyring.gpg".into(),
            quick: None,
            growth: vec![10_000, 100_000],
            program: own_program(),
            gpg: "gpg".into(),
            scratch: std::env::temp_dir(),
            runs: 5,
            results: None,
        }
    }
}

/// Measures talaria, and gpg beside it, prints the tables and returns them.
///
/// # Errors
///
/// When a program fails, the keyring cannot be read or the scratch folder cannot be written.
pub fn run(options: &TrustOptions, out: &mut dyn Write) -> Result<Vec<Table>, BenchError> {
    let folder = tempfile::Builder::new()
        .prefix("trust")
        .tempdir_in(&options.scratch)
        .map_err(BenchError::io("make a folder in", &options.scratch))?;
    let certs = lookups::read(&options.keyring, options.quick)?;
    let mut tables = Vec::new();
    let table = listing(options, &certs, &folder.path().join("listing"))?;
    table.print(out).map_err(BenchError::Output)?;
    results::save(options.results.as_deref(), "trust-listing", &table)?;
    tables.push(table);
    let table = check(options, &certs, &folder.path().join("check"))?;
    table.print(out).map_err(BenchError::Output)?;
    results::save(options.results.as_deref(), "trust-check", &table)?;
    tables.push(table);
    if !options.growth.is_empty() {
        let table = growth(options, &folder.path().join("growth"))?;
        table.print(out).map_err(BenchError::Output)?;
        results::save(options.results.as_deref(), "trust-growth", &table)?;
        tables.push(table);
    }
    Ok(tables)
}

/// A store, and a home of gpg with the same certificates.
struct Pair<'o> {
    options: &'o TrustOptions,
    store: PathBuf,
    home: PathBuf,
}

impl<'o> Pair<'o> {
    fn new(options: &'o TrustOptions, certs: &[Cert], folder: &Path) -> Result<Self, BenchError> {
        use std::os::unix::fs::PermissionsExt as _;
        let pair = Self { options, store: folder.join("store.db"), home: folder.join("g") };
        let make = || {
            fs::create_dir_all(&pair.home)?;
            fs::set_permissions(&pair.home, fs::Permissions::from_mode(0o700))
        };
        make().map_err(BenchError::io("make", &pair.home))?;
        let ring = folder.join("ring.pgp");
        write(&ring, certs.iter())?;
        pair.talaria().arg("import").arg(&ring).measure()?;
        pair.talaria().args(["export", "--to-gnupg"]).arg(&pair.home).measure()?;
        Ok(pair)
    }

    fn talaria(&self) -> ProgramRun {
        ProgramRun::new(&self.options.program).arg("--quiet").arg("--store").arg(&self.store)
    }

    fn gpg(&self) -> ProgramRun {
        let run = ProgramRun::new(&self.options.gpg).args([
            "--batch",
            "--quiet",
            "--no-auto-check-trustdb",
        ]);
        run.arg("--no-autostart").arg("--homedir").arg(&self.home)
    }

    /// gpg's check, whether it thinks it necessary or not.
    fn gpg_check(&self) -> ProgramRun {
        self.gpg().args(["--yes", "--check-trustdb"])
    }
}

fn write<'c>(path: &Path, certs: impl Iterator<Item = &'c Cert>) -> Result<(), BenchError> {
    let bytes: Vec<&[u8]> = certs.map(Cert::as_bytes).collect();
    fs::write(path, bytes.concat()).map_err(BenchError::io("write", path))
}

fn row(name: &str, talaria: Option<Cost>, gpg: Option<Cost>, then: [Option<f64>; 2]) -> Vec<Cell> {
    let mut row = vec![Cell::from(name.to_owned())];
    for cost in [talaria, gpg] {
        row.push(cost.map(|cost| cost.cpu_s()).into());
        row.push(cost.map(|cost| cost.wall_s).into());
    }
    row.extend(then.map(Cell::from));
    row
}

const COLUMNS: [&str; 5] = ["work", "talaria CPU s", "talaria wall s", "gpg CPU s", "gpg wall s"];

/// The report on the databases of trust on first use: listings of 500 certificates.
fn listing(options: &TrustOptions, certs: &[Cert], folder: &Path) -> Result<Table, BenchError> {
    let certs = &certs[..certs.len().min(LISTED)];
    let pair = Pair::new(options, certs, folder)?;
    let columns = [&COLUMNS[..], &["flat 2015 wall s", "split 2015 wall s"]].concat();
    let mut table =
        Table::new("Listing with trust on first use (gnupg-devel, October 2015)", &columns);
    let user_ids: usize = certs.iter().map(|cert| cert.user_ids().count()).sum();
    table.note(format!(
        "{} certificates with {user_ids} user IDs, beside {}. Programs are measured as processes from start to end; gpg's \
         first listing once, all else as a median. gpg records each binding as it lists, in one transaction; \
         talaria's listing writes nothing: bindings are recorded when a signature is verified or a message \
         encrypted.",
        certs.len(),
        version(&options.gpg).unwrap_or_default()
    ));
    table.note("2015: the report's figures for 500 keys, one file or a file for each binding; without TOFU 0.092 s.");
    let ours = |model: &str| pair.talaria().args(["list", "--with-colons", "--trust-model", model]);
    let theirs = |model: &str| pair.gpg().args(["--with-colons", "-k", "--trust-model", model]);
    let runs = options.runs;
    for model in ["pgp", "tofu", "tofu+pgp"] {
        if model == "pgp" {
            let (talaria, gpg) = (ours(model).median(runs)?, theirs(model).median(runs)?);
            table.push(row("list, no TOFU", Some(talaria), Some(gpg), [Some(0.092), None]));
            continue;
        }
        let then = if model == "tofu" { [Some(28.5), Some(95.6)] } else { [None, None] };
        if model == "tofu" {
            let first = row(
                "list, tofu, the first time",
                Some(ours(model).median(runs)?),
                Some(theirs(model).measure()?),
                then,
            );
            table.push(first);
        }
        let then = if model == "tofu" { [Some(0.945), Some(3.15)] } else { [None, None] };
        let name = format!("list, {model}, again");
        let (talaria, gpg) = (ours(model).median(runs)?, theirs(model).median(runs)?);
        table.push(row(&name, Some(talaria), Some(gpg), then));
    }
    let key = certs[0].fingerprint().to_string();
    let decide = pair.talaria().args(["tofu", "policy", &key, "good"]);
    if let (Some(listing), Some(decision)) = (ours("tofu").syncs(), decide.syncs()) {
        table.note(format!(
            "Syncs (fsync and its kin, by strace): a listing by talaria {listing}; a decision recorded {decision}, \
             which is one of the commit, and those that begin the log of the store and empty it at the end."
        ));
    }
    table.ratio("gpg / talaria CPU", 3, 1);
    Ok(table)
}

/// The certificates of whom most has been certified, the owners whom it costs most to trust.
fn owners(certs: &[Cert]) -> Vec<Fingerprint> {
    let mut certified: HashMap<KeyId, usize> = HashMap::new();
    for cert in certs {
        issuers(cert).into_iter().for_each(|issuer| *certified.entry(issuer).or_default() += 1);
    }
    let refs: Vec<&Cert> = certs.iter().collect();
    let now = now();
    let mut usable: Vec<(usize, Fingerprint)> = refs
        .iter()
        .zip(verdicts(&refs, Verification::Full))
        .filter(|(cert, verdicts)| {
            Summary::evaluate(cert, verdicts, now).validity(now) == Validity::Valid
        })
        .map(|(cert, _)| cert.fingerprint())
        .map(|found| (certified.get(&found.key_id()).copied().unwrap_or(0), found))
        .collect();
    usable.sort_unstable_by(|a, b| b.cmp(a));
    usable.into_iter().map(|(_, fingerprint)| fingerprint).collect()
}

/// A list of ownertrust: so many ultimate, so many full, so many marginal.
fn ownertrust(owners: &[Fingerprint], counts: [usize; 3]) -> String {
    let values = counts.iter().zip([6, 5, 4]).flat_map(|(&n, value)| std::iter::repeat_n(value, n));
    owners.iter().zip(values).map(|(owner, value)| format!("{owner}:{value}:\n")).collect()
}

/// A certificate without the last certification on one of its user IDs, to be changed by importing
/// it whole.
fn shortened(cert: &Cert) -> Option<Cert> {
    let own = cert.fingerprint().key_id();
    let foreign = |body: &[u8]| {
        talaria_cert::Signature::parse(body).is_some_and(|signature| !signature.names(own))
    };
    let last = cert.packets().enumerate().rfind(|(_, packet)| foreign(packet.body))?.0;
    Some(cert.retain(|at, _| at != last))
}

/// The report on a key database: the check of the web of trust, and what a change costs.
fn check(options: &TrustOptions, certs: &[Cert], folder: &Path) -> Result<Table, BenchError> {
    let owners = owners(certs);
    let trusted: Vec<Fingerprint> = owners.iter().take(OWNERS.iter().sum()).copied().collect();
    // The ring has a shorter form of the certificates that are imported later.
    let mut ring: Vec<Cert> = certs.to_vec();
    let mut changed = Vec::new();
    for (at, cert) in certs.iter().enumerate().rev() {
        if changed.len() < CHANGED
            && !trusted.contains(&cert.fingerprint())
            && let Some(short) = shortened(cert)
        {
            ring[at] = short;
            changed.push(folder.join(format!("changed-{at}.pgp")));
            fs::create_dir_all(folder).map_err(BenchError::io("make", folder))?;
            write(&folder.join(format!("changed-{at}.pgp")), std::iter::once(cert))?;
        }
    }
    let pair = Pair::new(options, &ring, folder)?;
    let columns = [&COLUMNS[..], &["gpg kbx 2015 wall s", "SQLite 2015 wall s"]].concat();
    let mut table =
        Table::new("Check of the web of trust (gnupg-devel, 29 October 2015)", &columns);
    table.note(format!(
        "{} certificates, beside {}; {} ultimately, {} fully, {} marginally trusted owners: those who certified most of \
         them. Every certification that matters is computed by both; gpg computes all of those by valid keys. \
         gpg is run with --no-auto-check-trustdb, its check is asked for. Both are on the disk when they end \
         (talaria syncs, gpg does not).",
        certs.len(),
        version(&options.gpg).unwrap_or_default(),
        OWNERS[0],
        OWNERS[1],
        OWNERS[2]
    ));
    table.note("2015: the report's figures for 751 keys with nothing trusted.");
    let runs = options.runs;
    let nothing = (pair.talaria().args(["trust", "check"]), pair.gpg_check());
    table.push(row(
        "check, nobody trusted",
        Some(nothing.0.median(runs)?),
        Some(nothing.1.median(runs)?),
        [Some(0.975), Some(0.158)],
    ));
    let list = folder.join("ownertrust");
    fs::write(&list, ownertrust(&owners, OWNERS)).map_err(BenchError::io("write", &list))?;
    let first = pair.talaria().args(["trust", "import-ownertrust"]).arg(&list).measure()?;
    pair.gpg().arg("--import-ownertrust").arg(&list).measure()?;
    table.push(row("trust 200 owners, and what follows", Some(first), None, [None; 2]));
    let anew = pair.talaria().args(["trust", "check", "--anew"]);
    let gpg = pair.gpg_check().median(runs.min(3))?;
    table.push(row("check from nothing", Some(anew.median(runs)?), Some(gpg), [None; 2]));
    let one_core = ProgramRun::new("env").arg("RAYON_NUM_THREADS=1").arg(&options.program);
    let one_core = one_core.arg("--quiet").arg("--store").arg(&pair.store);
    let one_core = one_core.args(["trust", "check", "--anew"]).median(runs)?;
    table.push(row("check from nothing, one core", Some(one_core), None, [None; 2]));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for path in &changed {
        ours.push(pair.talaria().arg("import").arg(path).measure()?);
        // gpg answers 2 if any signature of any certificate displeased it.
        let import = pair.gpg().arg("--import").arg(path).accept(2).measure()?;
        let check = pair.gpg_check().measure()?;
        theirs.push(sum(import, check));
    }
    let name = "import one changed certificate, and check";
    table.push(row(name, Some(middle(&ours)), Some(middle(&theirs)), [None; 2]));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let one = folder.join("one");
    for (at, owner) in trusted.iter().skip(OWNERS[0]).take(CHANGED).enumerate() {
        let level = if at % 2 == 0 { ("marginal", 4) } else { ("never", 3) };
        ours.push(pair.talaria().args(["trust", "set", &owner.to_string(), level.0]).measure()?);
        let text = format!("{owner}:{}:\n", level.1);
        fs::write(&one, text).map_err(BenchError::io("write", &one))?;
        let set = pair.gpg().arg("--import-ownertrust").arg(&one).measure()?;
        theirs.push(sum(set, pair.gpg_check().measure()?));
    }
    let name = "trust one owner otherwise, and check";
    table.push(row(name, Some(middle(&ours)), Some(middle(&theirs)), [None; 2]));
    table.ratio("gpg / talaria CPU", 3, 1);
    table.ratio("gpg / talaria wall", 4, 2);
    Ok(table)
}

fn sum(one: Cost, other: Cost) -> Cost {
    Cost {
        wall_s: one.wall_s + other.wall_s,
        user_s: one.user_s + other.user_s,
        system_s: one.system_s + other.system_s,
        peak_bytes: one.peak_bytes.max(other.peak_bytes),
        peak_anonymous_bytes: one.peak_anonymous_bytes.max(other.peak_anonymous_bytes),
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn number(count: u64) -> f64 {
    count as f64
}

fn middle(costs: &[Cost]) -> Cost {
    if costs.is_empty() { Cost::default() } else { crate::measure::median(costs) }
}

/// Time and memory as the number of certificates grows, ten certifications on each.
fn growth(options: &TrustOptions, folder: &Path) -> Result<Table, BenchError> {
    let columns = ["work", "certificates", "certifications", "CPU s", "wall s", "peak MB"];
    let mut table = Table::new("The web of trust as it grows", &columns);
    table.note(
        "Generated certificates (seed 1), about ten certifications on each, most of them by 128 that sign many. \
         1 of these is ultimately, 50 are fully, 77 marginally trusted.",
    );
    fs::create_dir_all(folder).map_err(BenchError::io("make", folder))?;
    for &count in &options.growth {
        let profile = CorpusProfile {
            certifications_median: 6.5,
            rsa_per_mille: 0,
            ..CorpusProfile::small()
        };
        let generated = Generate { count, profile, ..Generate::default() };
        let ring = folder.join(format!("{count}.pgp"));
        let mut file = fs::File::create(&ring).map_err(BenchError::io("write", &ring))?;
        generate(&generated, &mut file).map_err(BenchError::io("write", &ring))?;
        let certs = lookups::read(&ring, None)?;
        let certifications: usize = certs.iter().map(Cert::signature_count).sum();
        let owners = owners(&certs);
        let list = folder.join("ownertrust");
        fs::write(&list, ownertrust(&owners, [1, 50, 77]))
            .map_err(BenchError::io("write", &list))?;
        let (one, short) = certs
            .iter()
            .rev()
            .find_map(|cert| Some((cert.clone(), shortened(cert)?)))
            .unwrap_or_else(|| (certs[0].clone(), certs[0].clone()));
        let changed = folder.join("one.pgp");
        write(&changed, std::iter::once(&one))?;
        let rest = certs.iter().map(|cert| if *cert == one { &short } else { cert });
        write(&ring, rest)?;
        drop(certs);
        let store = folder.join(format!("{count}.db"));
        let talaria =
            || ProgramRun::new(&options.program).arg("--quiet").arg("--store").arg(&store);
        talaria().arg("build").arg(&ring).measure()?;
        let mut add = |name: &str, cost: Cost| {
            table.push(vec![
                name.to_owned().into(),
                count.into(),
                (certifications as u64).into(),
                cost.cpu_s().into(),
                cost.wall_s.into(),
                (number(cost.peak_bytes) / 1e6).into(),
            ]);
        };
        add(
            "trust 128 owners, and what follows",
            talaria().args(["trust", "import-ownertrust"]).arg(&list).measure()?,
        );
        let anew = talaria().args(["trust", "check", "--anew"]).measure()?;
        add("check from nothing", anew);
        add("import one changed certificate", talaria().arg("import").arg(&changed).measure()?);
        let owner = owners[10].to_string();
        let set = talaria().args(["trust", "set", &owner, "marginal"]).measure()?;
        add("trust one owner otherwise", set);
        let list = talaria().args(["list", "--with-colons"]);
        add("list all, with validity", list.median(options.runs.min(3))?);
        let tofu = talaria().args(["list", "--with-colons", "--trust-model", "tofu"]);
        add("list all, tofu", tofu.median(options.runs.min(3))?);
        let _ = fs::remove_file(&ring);
    }
    Ok(table)
}
