//! The SKS report again (2011): what the page size of the store costs and brings.
//!
//! The report measured the build of one table only, and asked for the others. Here a store is
//! built, written to and searched with each page size, with the certificates of the caller or
//! generated ones. `talaria tune` is [`measure_page_size`] on the user's own store.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use talaria_cert::{Cert, Verification};
use talaria_store::{Access, BuildOptions, Builder, Cursor, Draft, Order, Position, Query, Store};

use crate::error::BenchError;
use crate::measure::{Cost, in_process};
use crate::table::{Table, grouped};
use crate::{lookups, results};
use talaria_corpus::{Generate, certs};

/// The page sizes that a store can have, in bytes.
pub const PAGE_SIZES: [u32; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// Certificates that are prepared and appended at a time.
const CHUNK_CERTS: usize = 2000;

/// How much of each kind of work is measured. A fifth of the certificates is kept for the commits,
/// at most.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mix {
    /// Commits of one certificate each.
    pub singles: usize,
    /// Commits of [`Self::batch_certs`] each.
    pub batches: usize,
    /// Certificates in one of them.
    pub batch_certs: usize,
    /// Lookups of each form.
    pub lookups: usize,
    /// The present, in seconds since 1970.
    pub now: u32,
}

impl Default for Mix {
    fn default() -> Self {
        Self { singles: 200, batches: 4, batch_certs: 500, lookups: 2000, now: crate::now() }
    }
}

/// The cost of one page size. CPU time is that of this process, in microseconds per certificate or
/// look-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageSizeFigures {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Certificates that were built.
    pub certs: u64,
    /// The whole build, sync included, signatures not computed.
    pub build: Cost,
    /// Bytes of the store for each byte of certificates.
    pub size_ratio: f64,
    /// CPU of a durable commit of one certificate.
    pub single_cpu_us: f64,
    /// Such commits in a second.
    pub singles_per_s: f64,
    /// CPU for one certificate of a batch.
    pub batch_cpu_us: f64,
    /// Certificates in a second, in batches.
    pub batch_certs_per_s: f64,
    /// CPU to get a certificate by fingerprint, its bytes included.
    pub fingerprint_cpu_us: f64,
    /// CPU to find by key ID.
    pub key_id_cpu_us: f64,
    /// CPU to find by e-mail address.
    pub email_cpu_us: f64,
    /// CPU to find up to ten by a part of a user ID.
    pub substring_cpu_us: f64,
    /// CPU for one certificate of a walk in the order of insertion.
    pub walk_cpu_us: f64,
    /// CPU for one certificate of a walk by fingerprint.
    pub walk_key_cpu_us: f64,
}

/// Builds a store of `certs` with this page size in `dir`, and measures `mix` on it. The store is
/// removed afterwards. `stop` ends the measurement early.
///
/// # Errors
///
/// Errors of the store, [`BenchError::Io`] if `dir` cannot be written, and [`BenchError::Stopped`].
///
/// # Panics
///
/// If the store lacks an added certificate, which is a bug.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
pub fn measure_page_size(
    certs: &[Cert],
    page_bytes: u32,
    mix: &Mix,
    dir: &Path,
    stop: &AtomicBool,
) -> Result<PageSizeFigures, BenchError> {
    let goes_on = || if stop.load(Ordering::Relaxed) { Err(BenchError::Stopped) } else { Ok(()) };
    let folder = tempfile::tempdir_in(dir).map_err(BenchError::io("make a folder in", dir))?;
    let path = folder.path().join("store.db");
    let kept_max = certs.len() / 5;
    let singles = mix.singles.min(kept_max / 2);
    let batches = mix.batches.min((kept_max - singles) / mix.batch_certs.max(1));
    let (built, later) = certs.split_at(certs.len() - singles - batches * mix.batch_certs);
    let (later_singles, later_batches) = later.split_at(singles);

    let mut options = BuildOptions::new(mix.now.into());
    options.layout.page_bytes = page_bytes;
    options.verification = Verification::Deferred;
    let (done, build_cost) = in_process(|| build(&path, built, &options, goes_on));
    done?;
    let size = std::fs::metadata(&path).map_err(BenchError::io("read the size of", &path))?.len();
    let cert_bytes: usize = built.iter().map(|cert| cert.as_bytes().len()).sum();
    let mut figures = PageSizeFigures {
        page_bytes,
        certs: built.len() as u64,
        build: build_cost,
        size_ratio: size as f64 / (cert_bytes.max(1)) as f64,
        ..PageSizeFigures::default()
    };

    let mut store = Store::open(&path, Access::Write)?;
    let per = |cost: &Cost, count: usize| (1e6 * cost.cpu_s() / count.max(1) as f64).max(0.0);
    let rate = |cost: &Cost, count: usize| count as f64 / cost.wall_s.max(1e-9);
    let (done, cost) = in_process(|| commit(&mut store, later_singles, 1, mix.now, goes_on));
    done?;
    (figures.single_cpu_us, figures.singles_per_s) = (per(&cost, singles), rate(&cost, singles));
    let (done, cost) =
        in_process(|| commit(&mut store, later_batches, mix.batch_certs, mix.now, goes_on));
    done?;
    let count = later_batches.len();
    (figures.batch_cpu_us, figures.batch_certs_per_s) = (per(&cost, count), rate(&cost, count));

    let wanted = spread(built, mix.lookups);
    let (done, cost) = in_process(|| {
        wanted.iter().try_for_each(|cert| {
            assert!(store.get(cert.fingerprint())?.is_some(), "what was built is there");
            goes_on()
        })
    });
    done?;
    figures.fingerprint_cpu_us = per(&cost, wanted.len());
    let prepared: Vec<_> = wanted.iter().filter_map(|cert| lookups::of(cert)).collect();
    let find = |form: &str| -> Result<f64, BenchError> {
        let queries: Vec<Query> = prepared
            .iter()
            .filter_map(|all| all.iter().find(|lookup| lookup.form == form))
            .map(lookups::Lookup::query)
            .collect();
        let (done, cost) = in_process(|| {
            queries.iter().try_for_each(|query| {
                store.select(query, 10)?;
                goes_on()
            })
        });
        done?;
        Ok(per(&cost, queries.len()))
    };
    figures.key_id_cpu_us = find("key ID")?;
    figures.email_cpu_us = find("<address>")?;
    figures.substring_cpu_us = find("*substring")?;
    let walk = |order: Order| -> Result<f64, BenchError> {
        goes_on()?;
        let mut count = 0;
        let (done, cost) = in_process(|| {
            store.walk(&mut Cursor::start(order), |_| {
                count += 1;
                ControlFlow::Continue(())
            })
        });
        done?;
        Ok(per(&cost, count))
    };
    figures.walk_cpu_us = walk(Order::Insertion)?;
    figures.walk_key_cpu_us = walk(Order::Key)?;
    Ok(figures)
}

/// Builds a store of `certs`, as long as `goes_on` allows it.
fn build(
    path: &Path,
    certs: &[Cert],
    options: &BuildOptions,
    goes_on: impl Fn() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut builder = Builder::start(path, "measurement", options.clone())?;
    for (number, chunk) in certs.chunks(CHUNK_CERTS).enumerate() {
        let raw: Vec<&[u8]> = chunk.iter().map(Cert::as_bytes).collect();
        let drafts: Vec<Draft> =
            Builder::prepare(options, &raw).into_iter().filter_map(Result::ok).collect();
        let offset = (number + 1) as u64;
        builder.append(&drafts, Position { input: 0, offset })?;
        goes_on()?;
    }
    builder.finish(|_| {})?;
    Ok(())
}

/// Commits `certs` in batches of `batch`, as long as `goes_on` allows it.
fn commit(
    store: &mut Store,
    certs: &[Cert],
    batch: usize,
    now: u32,
    goes_on: impl Fn() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    certs.chunks(batch.max(1)).try_for_each(|chunk| {
        store.ingest(chunk.to_vec(), Verification::Deferred, now.into())?;
        goes_on()
    })
}

/// `count` of the certificates, in an order that has nothing to do with that of the store.
fn spread(certs: &[Cert], count: usize) -> Vec<&Cert> {
    // A large odd step reaches any place.
    const STEP: usize = 7_368_787;
    if certs.is_empty() {
        return Vec::new();
    }
    (0..count).map(|at| &certs[at * STEP % certs.len()]).collect()
}

/// Options of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageOptions {
    /// The certificates.
    pub certs: Generate,
    /// The work on each store.
    pub mix: Mix,
    /// The page sizes, in bytes.
    pub page_sizes: Vec<u32>,
    /// A folder on the disk that is to be measured. Needs twice the size of the certificates.
    pub scratch: PathBuf,
    /// The folder for `storage.csv` and `storage.svg`, if any.
    pub results: Option<PathBuf>,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            certs: Generate { count: 50_000, ..Generate::default() },
            mix: Mix::default(),
            page_sizes: PAGE_SIZES.to_vec(),
            scratch: std::env::temp_dir(),
            results: None,
        }
    }
}

/// Measures all page sizes on generated certificates, prints the table and returns it.
///
/// # Errors
///
/// As [`measure_page_size`].
pub fn run(options: &StorageOptions, out: &mut dyn Write) -> Result<Table, BenchError> {
    let certs = certs(&options.certs);
    let never = AtomicBool::new(false);
    let figures: Result<Vec<PageSizeFigures>, BenchError> = options
        .page_sizes
        .iter()
        .map(|&bytes| measure_page_size(&certs, bytes, &options.mix, &options.scratch, &never))
        .collect();
    let figures = figures?;
    let table = table(&figures);
    table.print(out).map_err(BenchError::Output)?;
    results::save(options.results.as_deref(), "storage", &table)?;
    Ok(table)
}

/// The figures as a table, with those of the report beside them.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
pub fn table(figures: &[PageSizeFigures]) -> Table {
    let mut table = Table::new(
        "Page size of the store (SKS database tuning, November 2011)",
        &[
            "page KiB",
            "build wall s",
            "build CPU s",
            "build certs/s",
            "size ratio",
            "commit of 1 CPU us",
            "commits of 1 per s",
            "batch CPU us per cert",
            "batch certs/s",
            "get by fingerprint CPU us",
            "key ID CPU us",
            "address CPU us",
            "substring CPU us",
            "walk CPU us per cert",
            "walk by key CPU us per cert",
            "SKS 2011 keys/s",
            "SKS 2011 elapsed h",
        ],
    );
    let certs = figures.first().map_or(0, |figures| figures.certs);
    table.note(format!(
        "{} certificates are built into an empty store with all its indexes (synced, \
         signatures not computed), then single certificates and batches are added, a durable \
         commit each, and certificates are found, all within one process and with a warm page \
         cache. SKS: `sks build -cache 100 -ptree_cache 100 -pagesize N` of a full dump, where \
         CPU was 9 to 15 % of the time; the page size was that of its key table alone.",
        grouped(&certs.to_string())
    ));
    for figures in figures {
        let rate = figures.certs as f64 / figures.build.wall_s.max(1e-9);
        let (keys, hours) = match figures.page_bytes {
            4096 => (Some(145u64), Some(5.744)),
            8192 => (Some(183), Some(4.547)),
            16_384 => (Some(199), Some(4.179)),
            32_768 => (Some(199), Some(4.187)),
            65_536 => (Some(220), Some(3.791)),
            _ => (None, None),
        };
        table.push(vec![
            u64::from(figures.page_bytes >> 10).into(),
            figures.build.wall_s.into(),
            figures.build.cpu_s().into(),
            rate.into(),
            figures.size_ratio.into(),
            figures.single_cpu_us.into(),
            figures.singles_per_s.into(),
            figures.batch_cpu_us.into(),
            figures.batch_certs_per_s.into(),
            figures.fingerprint_cpu_us.into(),
            figures.key_id_cpu_us.into(),
            figures.email_cpu_us.into(),
            figures.substring_cpu_us.into(),
            figures.walk_cpu_us.into(),
            figures.walk_key_cpu_us.into(),
            keys.into(),
            hours.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every column has a figure, also for a set that is too small for the whole mix.
    #[test]
    fn storage_measures_every_operation() {
        let folder = tempfile::tempdir().unwrap();
        let options = StorageOptions {
            certs: Generate { count: 300, ..Generate::default() },
            mix: Mix { singles: 20, batches: 2, batch_certs: 10, lookups: 50, ..Mix::default() },
            page_sizes: vec![4096, 65_536],
            scratch: folder.path().to_owned(),
            results: Some(folder.path().to_owned()),
        };
        let mut out = Vec::new();
        let table = run(&options, &mut out).unwrap();
        assert_eq!(table.rows.len(), 2);
        for row in &table.rows {
            for (name, cell) in table.columns.iter().zip(row) {
                assert!(cell.number().is_some_and(|number| number > 0.0), "{name:?}: {cell}");
            }
        }
        assert!(folder.path().join("storage.svg").exists());
        let csv = std::fs::read_to_string(folder.path().join("storage.csv")).unwrap();
        assert_eq!(csv.lines().count(), 3);
        assert!(String::from_utf8(out).unwrap().starts_with("Page size"));
    }
}
