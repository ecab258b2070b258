//! Builds from a dump, at every page size of both sides.

use std::fs;
use std::path::Path;

use super::bench::{Bench, Results};
use super::dump::{self, file_bytes};
use super::figures::{float, middle};
use super::sks::Sks;
use crate::error::BenchError;
use crate::measure::{Cost, ProgramRun, median};
use crate::table::{Cell, Table};

/// Pages of SKS in units of 512 bytes, as in the report, and the report's keys per second.
const SKS_PAGES: [(u32, f64); 5] =
    [(8, 145.0), (16, 183.0), (32, 199.0), (64, 199.0), (128, 220.0)];

/// Certificates of the build under strace, which slows it down.
const TRACED_FILES: usize = 1;

/// Columns of the table.
const COLUMNS: [&str; 12] = [
    "work",
    "certificates",
    "page KiB",
    "wall s",
    "CPU s",
    "CPU us per key",
    "keys/s",
    "peak MB",
    "size MB",
    "size / input",
    "syncs",
    "SKS 2011 keys/s",
];

/// The cost of one kind of build.
struct Built {
    work: &'static str,
    certs: u64,
    page_kib: u64,
    costs: Vec<Cost>,
    bytes: f64,
    syncs: Option<u64>,
    in_2011: Option<f64>,
}

impl Built {
    fn new(work: &'static str, certs: u64, page_bytes: u32) -> Self {
        Self {
            work,
            certs,
            page_kib: u64::from(page_bytes >> 10),
            costs: Vec::new(),
            bytes: 0.0,
            syncs: None,
            in_2011: None,
        }
    }

    fn cost(&self) -> Cost {
        median(&self.costs)
    }

    fn cpu_s(&self) -> f64 {
        middle(self.costs.iter().map(Cost::cpu_s).collect())
    }

    fn cpu_us(&self) -> f64 {
        1e6 * self.cpu_s() / float(self.certs)
    }

    fn keys_per_s(&self) -> f64 {
        float(self.certs) / self.cost().wall_s
    }

    fn row(&self, input_bytes: f64) -> Vec<Cell> {
        let cost = self.cost();
        vec![
            self.work.into(),
            self.certs.into(),
            self.page_kib.into(),
            cost.wall_s.into(),
            self.cpu_s().into(),
            self.cpu_us().into(),
            self.keys_per_s().into(),
            (float(cost.peak_bytes) / 1e6).into(),
            (self.bytes / 1e6).into(),
            (self.bytes / input_bytes).into(),
            self.syncs.into(),
            self.in_2011.into(),
        ]
    }
}

/// With the indexes that SKS has.
const NO_TRIGRAMS: &str = "talaria build --no-verify --no-trigrams";
const UNVERIFIED: &str = "talaria build --no-verify";
const VERIFIED: &str = "talaria build";
const OURS: [&str; 3] = [NO_TRIGRAMS, UNVERIFIED, VERIFIED];
const SKS: &str = "sks build";
const SKS_TREE: &str = "sks pbuild";

/// Builds with every page size, in turn, and then as the dump grows.
pub(super) fn run(bench: &Bench<'_>) -> Result<Results, BenchError> {
    let certs = bench.options.certs;
    let sizes = &bench.options.page_sizes;
    let store = bench.folder.join("build.db");
    let sks = bench.sks("b")?;
    let mut ours = Vec::new();
    for &bytes in sizes {
        ours.extend(OURS.map(|work| Built::new(work, certs, bytes)));
    }
    let pages = SKS_PAGES.into_iter().filter(|(page, _)| sizes.contains(&(page * 512)));
    let mut theirs: Vec<(u32, Built)> = pages
        .map(|(page, in_2011)| {
            let built = Built::new(SKS, certs, page * 512);
            (page, Built { in_2011: Some(in_2011), ..built })
        })
        .collect();
    let mut tree = Built::new(SKS_TREE, certs, 8192);
    for _ in 0..bench.runs() {
        for built in &mut ours {
            talaria(bench, &store, built)?;
        }
        let Some(sks) = &sks else { continue };
        for (page, built) in &mut theirs {
            built.costs.push(sks.measure_build(&bench.dump.files(certs), *page)?);
            built.bytes = sks.bytes()?.0;
        }
        if !theirs.is_empty() {
            tree.costs.push(sks.measure_tree()?);
            tree.bytes = sks.bytes()?.1;
        }
    }
    let mut growth = Vec::new();
    for &count in &bench.options.growth {
        growth.push(Built::new(UNVERIFIED, count, 16 << 10));
        growth.push(Built::new(VERIFIED, count, 16 << 10));
    }
    for run in 0..bench.runs() {
        // A large dump takes as long as many small ones, and has as little noise.
        for built in growth.iter_mut().filter(|built| run == 0 || built.certs <= 2 * certs) {
            talaria(bench, &store, built)?;
        }
    }

    let mut table =
        Table::new("Building a keyserver from a dump (SKS tuning, November 2011)", &COLUMNS);
    describe(&mut table, bench);
    if let Some(sks) = &sks {
        smallest_pages(bench, sks, &mut table)?;
        syncs(bench, &store, sks, &mut ours, &mut theirs)?;
    }
    let theirs: Vec<Built> = theirs.into_iter().map(|(_, built)| built).collect();
    if !tree.costs.is_empty() {
        ratios(&mut table, &ours, &theirs, &tree);
    }
    growth_note(&mut table, &growth);
    let trees = (!tree.costs.is_empty()).then_some(tree);
    for built in ours.iter().chain(&theirs).chain(&trees).chain(&growth) {
        table.push(built.row(bench.dump.bytes(built.certs)?));
    }
    Ok(Results { name: "keyserver-build", table })
}

/// Measures one build by talaria; the store is removed.
fn talaria(bench: &Bench<'_>, store: &Path, built: &mut Built) -> Result<(), BenchError> {
    let run = talaria_run(bench, store, built, &bench.dump.files(built.certs));
    built.costs.push(run.measure()?);
    built.bytes = file_bytes(store)?;
    fs::remove_file(store).map_err(BenchError::io("remove", store))
}

fn talaria_run(bench: &Bench<'_>, store: &Path, built: &Built, files: &[&Path]) -> ProgramRun {
    let run = dump::build(&bench.options.program, store, files);
    // The options are in its name.
    let run = run.args(built.work.split_whitespace().skip(2));
    run.arg("--page-size").arg(built.page_kib.to_string())
}

fn describe(table: &mut Table, bench: &Bench<'_>) {
    table.note(
        "Generated certificates (small profile), in dump files of at most 10,000. Processes from \
         start to end, median of runs that alternate; CPU is user and system time of all threads.",
    );
    table.note(
        "talaria build: all indexes (key IDs, addresses, words, trigrams, digests), on the disk \
         when it ends; with --no-verify no signature is computed, otherwise all self-signatures \
         are; with --no-trigrams it has the indexes that SKS has. Digests for gossip are stored; the tree is made of them when the server starts.",
    );
    if bench.has_sks {
        table.note(
            "sks build -n 10 -cache 100 -pagesize N (page = N x 512 bytes): computes no signature, \
             indexes words but no trigrams, promises no durability. sks pbuild -cache 20 \
             -ptree_cache 70 makes the tree that gossip needs; it is needed on top.",
        );
    }
    table.note(
        "SKS 2011: the report's full dump on its machine, where CPU was 9 to 15 % of the time.",
    );
}

/// SKS with pages of 512 bytes, which the report recommends for some tables.
fn smallest_pages(bench: &Bench<'_>, sks: &Sks, table: &mut Table) -> Result<(), BenchError> {
    sks.clear()?;
    let run = sks.build(&bench.dump.files(bench.options.certs), 1).within(bench.options.patience);
    table.note(match run.measure() {
        Ok(cost) => format!(
            "sks build -pagesize 1: {} s, {} CPU s.",
            Cell::from(cost.wall_s),
            Cell::from(cost.cpu_s())
        ),
        Err(BenchError::Endless { after_s, cpu_s, .. }) => format!(
            "sks build -pagesize 1: was stopped after {after_s} s, having used {} s of CPU time.",
            Cell::from(cpu_s)
        ),
        Err(BenchError::Failed { stderr, .. }) => {
            let said = stderr.lines().next_back().unwrap_or_default();
            format!("sks build -pagesize 1: failed ({said}).")
        }
        Err(error) => return Err(error),
    });
    sks.clear()
}

/// Counts how often each side asks for its data to be put on the disk.
fn syncs(
    bench: &Bench<'_>,
    store: &Path,
    sks: &Sks,
    ours: &mut [Built],
    theirs: &mut [(u32, Built)],
) -> Result<(), BenchError> {
    let mut files = bench.dump.files(bench.options.certs);
    files.truncate(TRACED_FILES);
    for built in ours {
        built.syncs = talaria_run(bench, store, built, &files).syncs();
        if store.exists() {
            fs::remove_file(store).map_err(BenchError::io("remove", store))?;
        }
    }
    for (page, built) in theirs {
        sks.clear()?;
        built.syncs = sks.build(&files, *page).syncs();
    }
    Ok(())
}

/// The ratio of SKS's costs to ours, each with its best page size.
fn ratios(table: &mut Table, ours: &[Built], theirs: &[Built], tree: &Built) {
    let best = |all: &[Built], work: &str, figure: fn(&Built) -> f64| {
        let of = all.iter().filter(|built| built.work == work).map(figure);
        of.fold(f64::INFINITY, f64::min)
    };
    let wall = |built: &Built| built.cost().wall_s;
    for work in OURS {
        let (cpu, time) = (best(ours, work, Built::cpu_us), best(ours, work, wall));
        let (sks_cpu, sks_time) = (best(theirs, SKS, Built::cpu_us), best(theirs, SKS, wall));
        let times = |ratio: f64| Cell::Ratio(ratio);
        table.note(format!(
            "SKS / {work}, the best page size of each: sks build {} CPU, {} wall; with sks pbuild \
             {} CPU, {} wall.",
            times(sks_cpu / cpu),
            times(sks_time / time),
            times((sks_cpu + tree.cpu_us()) / cpu),
            times((sks_time + wall(tree)) / time),
        ));
    }
    let verified = best(ours, VERIFIED, Built::cpu_us);
    table.note(format!(
        "Hockeypuck 2.3.3, which also computes self-signatures, took 3,100 us of CPU time per key \
         in files of 1,000 and 7,300 us in one of 10,000 (measured before, not in this run): {} of \
         talaria's.",
        Cell::Ratio(3100.0 / verified),
    ));
}

fn growth_note(table: &mut Table, growth: &[Built]) {
    for work in [UNVERIFIED, VERIFIED] {
        let mut of = growth.iter().filter(|built| built.work == work);
        let (Some(first), Some(last)) = (of.next(), of.next_back()) else { continue };
        table.note(format!(
            "{work}, CPU per key with {} certificates against {}: {}.",
            Cell::from(last.certs),
            Cell::from(first.certs),
            Cell::Ratio(last.cpu_us() / first.cpu_us()),
        ));
    }
}
