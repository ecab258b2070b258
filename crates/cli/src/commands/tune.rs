//! `talaria tune`

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ValueEnum;
use talaria::store::{Access, Cursor, Order, Store};
use talaria_bench::BenchError;
use talaria_bench::storage::{Mix, PageSizeFigures, measure_page_size, table};

use crate::context::Context;
use crate::error::{CliError, failed};

/// Find the best page size for your store
///
/// Builds a sample of your certificates at each page size from 4 to 64 KiB, measures builds,
/// commits, lookups and scans, and recommends a page size for the kind of use.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Main use of the store
    #[arg(long = "for", value_enum, default_value_t = Use::Mixed)]
    purpose: Use,
    /// Certificates in the sample
    #[arg(long, value_name = "N", default_value_t = 5000)]
    sample: usize,
    /// Rewrite the store with the recommended page size; no other program may have it open
    #[arg(long)]
    apply: bool,
}

/// A mix of work.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Use {
    /// A mix of all
    Mixed,
    /// Lookups, as by a mail program
    Lookups,
    /// Single commits under load, as on a keyserver
    Commits,
    /// Builds and full scans, as for statistics
    Bulk,
}

/// The page sizes to measure, in KiB.
const PAGE_KIB: [u32; 5] = [4, 8, 16, 32, 64];

/// The minimum gain for a recommendation: a smaller one is within the noise of a shared machine.
const GAIN_MIN: f64 = 0.05;

impl Use {
    /// Weights of bulk build, single commits, batches, look-ups and scan.
    fn weights(self) -> [f64; 5] {
        match self {
            Self::Mixed => [1.0, 1.0, 1.0, 1.0, 1.0],
            Self::Lookups => [0.2, 0.5, 0.3, 5.0, 1.0],
            Self::Commits => [0.2, 5.0, 2.0, 2.0, 0.2],
            Self::Bulk => [5.0, 0.2, 1.0, 0.5, 3.0],
        }
    }

    /// The cost of a page size relative to another: the weighted geometric mean of the five ratios.
    fn cost(self, figures: &PageSizeFigures, beside: &PageSizeFigures) -> f64 {
        let parts = |f: &PageSizeFigures| {
            let lookups =
                f.fingerprint_cpu_us + f.key_id_cpu_us + f.email_cpu_us + f.substring_cpu_us;
            [f.build.cpu_s(), f.single_cpu_us, f.batch_cpu_us, lookups, f.walk_cpu_us]
        };
        let weights = self.weights();
        let sum: f64 = weights
            .iter()
            .zip(parts(figures).iter().zip(parts(beside)))
            .map(|(weight, (a, b))| weight * (a.max(1e-9) / b.max(1e-9)).ln())
            .sum();
        (sum / weights.iter().sum::<f64>()).exp()
    }
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(if args.apply { Access::Write } else { Access::Read })?;
    let certs = {
        let Some(opened) = stores.iter().next() else { return Ok(ExitCode::SUCCESS) };
        sample(&opened.store, args.sample)?
    };
    if certs.len() < 50 {
        return Err(CliError::Usage(
            "the store has fewer than 50 certificates, too few for a sample; import more first"
                .into(),
        ));
    }
    let scratch = Scratch::new(cx.path()?)?;
    let mix = Mix { now: cx.now, ..Mix::default() };
    let measure = |kib: u32, stop: &AtomicBool| {
        cx.status(format_args!("Measuring pages of {kib} KiB with {} certificates …", certs.len()));
        let measured = measure_page_size(&certs, kib << 10, &mix, &scratch.path, stop);
        measured.map_err(|error| match error {
            BenchError::Stopped => talaria::Error::Interrupted.into(),
            error => CliError::Bench(error.to_string()),
        })
    };
    let figures = cx.long(|monitor| {
        let all = PAGE_KIB.into_iter().map(|kib| measure(kib, monitor.stop));
        all.collect::<Result<Vec<PageSizeFigures>, CliError>>()
    })?;
    drop(scratch);
    let store = &stores.iter().next().expect("opened above").store;
    let present = store.pages()?.page_bytes;
    let today = figures.iter().find(|f| u64::from(f.page_bytes) == present).unwrap_or(&figures[2]);
    let costs: Vec<f64> = figures.iter().map(|f| args.purpose.cost(f, today)).collect();
    let best = (0..figures.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(2);
    let worth = costs[best] < 1.0 - GAIN_MIN;
    let recommended = if worth { figures[best].page_bytes } else { today.page_bytes };
    let mut out = cx.stdout();
    if cx.json {
        let rows: Vec<_> = figures
            .iter()
            .zip(&costs)
            .map(|(f, cost)| {
                serde_json::json!({
                    "page_bytes": f.page_bytes, "build_cpu_s": f.build.cpu_s(),
                    "build_wall_s": f.build.wall_s, "size_ratio": f.size_ratio,
                    "single_commit_cpu_us": f.single_cpu_us, "single_commits_per_s": f.singles_per_s,
                    "batch_cpu_us_per_cert": f.batch_cpu_us, "fingerprint_cpu_us": f.fingerprint_cpu_us,
                    "key_id_cpu_us": f.key_id_cpu_us, "email_cpu_us": f.email_cpu_us,
                    "substring_cpu_us": f.substring_cpu_us, "cost": cost,
                })
            })
            .collect();
        let json = serde_json::json!({
            "present": present, "recommended": recommended, "sample": certs.len(), "sizes": rows,
        });
        writeln!(out, "{json}")?;
    } else {
        table(&figures).print(&mut out)?;
        writeln!(out, "\nCost beside the present {} KiB, for this use:", today.page_bytes >> 10)?;
        for (f, cost) in figures.iter().zip(&costs) {
            writeln!(out, "  {:>2} KiB  {cost:.2}", f.page_bytes >> 10)?;
        }
        if worth {
            writeln!(
                out,
                "Recommended: {} KiB. It costs {:.0} % less than the present {} KiB.",
                recommended >> 10,
                (1.0 - costs[best]) * 100.0,
                today.page_bytes >> 10
            )?;
        } else {
            writeln!(
                out,
                "Recommended: stay with {} KiB. No other size is better by {:.0} %.",
                today.page_bytes >> 10,
                GAIN_MIN * 100.0
            )?;
        }
    }
    if args.apply && u64::from(recommended) != present {
        let store = stores.writable()?;
        cx.step("rewriting the store", || store.compact(Some(recommended), Duration::ZERO))?;
        cx.status(format_args!("The store now has pages of {} KiB.", recommended >> 10));
    }
    Ok(ExitCode::SUCCESS)
}

/// The folder for the measured stores beside the user's store. It is locked while it is in use, and
/// removed when dropped.
struct Scratch {
    path: PathBuf,
    lock: File,
}

impl Scratch {
    /// Makes the folder. Copies of certificates that a killed process left in it are removed.
    fn new(store: &Path) -> Result<Self, CliError> {
        let mut path = store.to_owned().into_os_string();
        path.push(".tuning");
        let path = PathBuf::from(path);
        let name = path.display().to_string();
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("make", &name, error));
            }
            _ => {}
        }
        // Nothing is removed from a folder that a link names.
        let is_folder = fs::symlink_metadata(&path).map(|found| found.is_dir());
        if !is_folder.map_err(|error| failed("open", &name, error))? {
            return Err(failed("use", &name, io::ErrorKind::NotADirectory.into()));
        }
        let lock = File::open(&path).map_err(|error| failed("open", &name, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let busy = io::Error::other("another talaria tune measures there");
                return Err(failed("use", &name, busy));
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock", &name, error)),
        }
        for entry in fs::read_dir(&path).map_err(|error| failed("read", &name, error))? {
            let left = entry.map_err(|error| failed("read", &name, error))?;
            if left.file_name().as_encoded_bytes().starts_with(b".tmp") {
                fs::remove_dir_all(left.path())
                    .map_err(|error| failed("remove", &left.path().display().to_string(), error))?;
            }
        }
        Ok(Self { path, lock })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The measurements have removed their folders.
        let _ = fs::remove_dir(&self.path);
        // A program that another thread is just starting has a copy of the file for a moment, which
        // keeps the lock.
        let _ = self.lock.unlock();
    }
}

/// A sample of certificates, evenly spread over the store.
fn sample(store: &Store, count: usize) -> Result<Vec<talaria::cert::Cert>, CliError> {
    let total = usize::try_from(store.count()?).unwrap_or(usize::MAX);
    let step = total.div_ceil(count.max(1)).max(1);
    let mut ids = Vec::new();
    let mut number = 0;
    store.walk(&mut Cursor::start(Order::Insertion), |row| {
        if number % step == 0 {
            ids.push(row.id);
        }
        number += 1;
        ControlFlow::Continue(())
    })?;
    let mut certs = Vec::with_capacity(ids.len());
    for id in ids {
        certs.extend(store.stored(id)?.map(|stored| stored.cert));
    }
    Ok(certs)
}
