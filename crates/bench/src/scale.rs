//! The cost of a certificate in small and large stores: to build, to keep, to find.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use talaria_store::{Access, Store, StoreError};

use crate::error::BenchError;
use crate::lookups::{self, Lookup};
use crate::measure::{ProgramRun, in_process, own_program};
use crate::results;
use crate::table::{Cell, Table};
use talaria_corpus::{CorpusProfile, Generate, certs, generate_files};

/// Certificates in one dump file, as keyservers write them.
const FILE_CERTS: u64 = 20_000;

/// Lookups of each form within the process.
const LOOKUPS: usize = 1000;

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleOptions {
    /// Certificates in each store.
    pub counts: Vec<u64>,
    /// The profile of the certificates.
    pub profile: CorpusProfile,
    /// The talaria executable.
    pub program: PathBuf,
    /// A folder with room for four times the certificates (1 KB each) of the largest store.
    pub scratch: PathBuf,
    /// Runs of each lookup, of which the median is taken.
    pub runs: usize,
    /// The folder for `scale.csv` and its plots, if any.
    pub results: Option<PathBuf>,
}

impl Default for ScaleOptions {
    fn default() -> Self {
        Self {
            counts: vec![1000, 50_000],
            profile: CorpusProfile::small(),
            program: own_program(),
            scratch: std::env::temp_dir(),
            runs: 5,
            results: None,
        }
    }
}

/// Builds and searches stores of all sizes, prints the table and returns it.
///
/// # Errors
///
/// When the executable fails, or the scratch folder cannot be written.
pub fn run(options: &ScaleOptions, out: &mut dyn Write) -> Result<Table, BenchError> {
    let mut stores = Vec::new();
    for &count in &options.counts {
        stores.push(measure(options, count)?);
    }
    let table = table(&stores);
    table.print(out).map_err(BenchError::Output)?;
    results::save(options.results.as_deref(), "scale", &table)?;
    Ok(table)
}

/// The measurements of one store: figures by name, in order.
struct Figures {
    certs: u64,
    rows: Vec<(String, Option<f64>)>,
}

impl Figures {
    fn push(&mut self, name: impl Into<String>, figure: impl Into<Option<f64>>) {
        self.rows.push((name.into(), figure.into()));
    }

    fn of(&self, name: &str) -> Option<f64> {
        self.rows.iter().find(|(row, _)| row == name).and_then(|(_, figure)| *figure)
    }
}

#[expect(clippy::cast_precision_loss, reason = "of bytes and certificates three digits count")]
fn measure(options: &ScaleOptions, count: u64) -> Result<Figures, BenchError> {
    let folder = tempfile::tempdir_in(&options.scratch)
        .map_err(BenchError::io("make a folder in", &options.scratch))?;
    let generate = Generate { count, profile: options.profile.clone(), ..Generate::default() };
    let prefix = folder.path().join("dump");
    let files = generate_files(&generate, &prefix, count.div_ceil(FILE_CERTS))
        .map_err(BenchError::io("write", &prefix))?;
    let size = |path: &Path| -> Result<u64, BenchError> {
        Ok(fs::metadata(path).map_err(BenchError::io("read the size of", path))?.len())
    };
    let mut input_bytes = 0;
    for file in &files {
        input_bytes += size(file)?;
    }
    let mut figures = Figures { certs: count, rows: Vec::new() };
    figures.push("input MB", input_bytes as f64 / 1e6);
    let store = folder.path().join("store.db");
    for (verified, args) in [("verified", &[][..]), ("unverified", &["--no-verify"][..])] {
        if store.exists() {
            fs::remove_file(&store).map_err(BenchError::io("remove", &store))?;
        }
        let build = ProgramRun::new(&options.program).arg("--quiet").arg("--store").arg(&store);
        let cost = build.arg("build").args(args).args(&files).measure()?;
        figures.push(format!("build, {verified}: wall s"), cost.wall_s);
        figures.push(format!("build, {verified}: CPU s"), cost.cpu_s());
        let cpu_us = 1e6 * cost.cpu_s() / count as f64;
        figures.push(format!("build, {verified}: CPU us per certificate"), cpu_us);
        figures.push(format!("build, {verified}: certificates per s"), count as f64 / cost.wall_s);
        figures.push(format!("build, {verified}: peak memory MB"), cost.peak_bytes as f64 / 1e6);
    }
    figures.push("store size / input size", size(&store)? as f64 / input_bytes as f64);

    // Names differ between certificates, so the cost of a lookup is taken over many of them; the
    // process from start to end does one.
    let sample: Vec<Vec<Lookup>> = (0..LOOKUPS as u64)
        .filter_map(|at| {
            let first = (at * 7_368_787 + count / 2) % count;
            lookups_for(&generate, first)
        })
        .collect();
    let Some(one) = sample.first() else { return Err(BenchError::Empty { path: prefix }) };
    for lookup in one {
        let run = ProgramRun::new(&options.program).arg("--quiet").arg("--store").arg(&store);
        let run = run.args(["list", "--with-colons", "--", &lookup.text]).accept(1);
        let cost = run.median(options.runs)?;
        figures.push(format!("{}: process, CPU ms", lookup.form), 1e3 * cost.cpu_s());
        figures.push(format!("{}: process, wall ms", lookup.form), 1e3 * cost.wall_s);
    }
    let store = Store::open(&store, Access::Read)?;
    for (at, lookup) in one.iter().enumerate() {
        let queries: Vec<_> = sample.iter().map(|lookups| lookups[at].query()).collect();
        let find = || -> Result<(), StoreError> {
            queries.iter().try_for_each(|query| store.select(query, 10).map(drop))
        };
        // Once to warm the cache of pages, once to measure.
        find()?;
        let (done, cost) = in_process(find);
        done?;
        let cpu_us = 1e6 * cost.cpu_s() / queries.len() as f64;
        figures.push(format!("{}: library, CPU us", lookup.form), cpu_us);
    }
    Ok(figures)
}

/// The lookups for certificate `index`, made again on its own.
fn lookups_for(set: &Generate, index: u64) -> Option<Vec<Lookup>> {
    if set.profile.is_rsa(index) {
        return None;
    }
    // Only names are wanted. Without certifications and RSA keys, which change none of them,
    // nothing has to be made but this one certificate.
    let profile =
        CorpusProfile { certifications_median: 0.0, rsa_per_mille: 0, ..set.profile.clone() };
    lookups::of(&certs(&Generate { first: index, count: 1, profile, ..set.clone() })[0])
}

fn table(stores: &[Figures]) -> Table {
    let names: Vec<String> =
        stores.iter().map(|store| Cell::from(store.certs).to_string()).collect();
    let mut columns = vec!["certificates"];
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new("A certificate in a small store and in a large one", &columns);
    table.note(
        "Generated certificates, built by `talaria build` from dump files, all indexes, synced. \
         Lookups by `talaria list --with-colons`, a process each from start to end, median; and in \
         the library, the mean over many certificates with a warm page cache, at most ten results \
         each.",
    );
    for (name, _) in stores.first().map_or(&[][..], |store| &store.rows) {
        let mut row = vec![Cell::from(name.as_str())];
        row.extend(stores.iter().map(|store| Cell::from(store.of(name))));
        table.push(row);
    }
    if stores.len() > 1 {
        table.ratio("last / first", stores.len(), 1);
    }
    table
}
