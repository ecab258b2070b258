//! The measurements as commands, with their options.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use talaria_corpus::Generate;

use crate::error::BenchError;
use crate::measure::own_program;
use crate::{backup, keydb, keyserver, log, messages, ratios, report, scale, storage, trust};

/// A measurement.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "a comment on the options of all measurements would be their help")]
pub enum Measurement {
    /// Measure import, listings and lookups of a keyring, beside gpg and sq
    ///
    /// Repeats the report on a key database for GnuPG (2015). gpg needs over a minute to import
    /// Debian's keyring; --quick uses the first certificates only.
    Keydb {
        /// Keyring
        #[arg(value_name = "FILE", default_value = "/usr/share/keyrings/debian-keyring.gpg")]
        keyring: PathBuf,
        /// Use only the first N certificates of the keyring
        #[arg(long, value_name = "N")]
        quick: Option<usize>,
        #[command(flatten)]
        common: Common,
    },
    /// Measure build, commits, lookups and scans at every page size
    ///
    /// Repeats the report on tuning the database of SKS (2011) with generated certificates.
    Storage {
        /// Number of certificates
        #[arg(long, value_name = "N", default_value_t = 20_000)]
        certs: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Measure bulk build and lookups of growing stores
    Scale {
        /// Number of certificates in each store
        #[arg(value_name = "N", default_values_t = [1000, 50_000])]
        counts: Vec<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// Measure builds, lookups, uploads and gossip of a keyserver, beside SKS
    ///
    /// Repeats the report on tuning the database of SKS (2011) with generated certificates, and
    /// adds the needs of a keyserver today. Lookups need wrk; SKS is measured if it is installed.
    Keyserver(KeyserverArgs),
    /// Measure a large file, small objects and signatures, beside gpg, rnp, sq and age
    ///
    /// Repeats the reports on obnam (2016) and libdinemic (2018). Files are in memory unless
    /// --scratch names another folder; the large file needs ten times its size there.
    Messages {
        /// Size of the large file in MiB
        #[arg(long, value_name = "MIB", default_value_t = 1024)]
        size: u64,
        /// Number of small objects, and of signatures
        #[arg(long, value_name = "N", default_value_t = 20_000)]
        objects: usize,
        /// The gpg to compare with (can be repeated for several versions)
        #[arg(long, value_name = "PROGRAM", default_value = "gpg")]
        gpg: Vec<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
    /// Measure backup of many tiny files and of a large one, beside rsync, restic, borg and
    /// duplicity
    ///
    /// Repeats the report on obnam (2016): a first run, an unchanged second one, and a restore that
    /// is compared with the source. Also measures the cost of encryption, and the memory for large
    /// repositories. The scratch folder needs some 35 GB, and more for a source tree. Start with an
    /// empty disk: deleting many files slows down the next run.
    Backup {
        /// Number of files of one byte; 0 for none
        #[arg(long, value_name = "N", default_value_t = 102_400)]
        files: usize,
        /// Length of the large file in bytes; 0 for none
        #[arg(long, value_name = "BYTES", default_value_t = 1_000_000_000)]
        bytes: u64,
        /// Also measure a source tree
        #[arg(long, value_name = "FOLDER")]
        tree: Option<PathBuf>,
        /// Number of runs with each encryption profile and without encryption, alternating; 0 for
        /// none
        #[arg(long, value_name = "N", default_value_t = 10)]
        profile_runs: usize,
        /// Also measure the memory of repositories with these numbers of chunks
        #[arg(long, value_name = "N", value_delimiter = ',')]
        chunks: Vec<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// Measure signed updates at two nodes, beside popen(gpg), libsodium and git
    ///
    /// Repeats the report on libdinemic (2018): updates are made, signed, stored, verified by a
    /// second node, and read back. The loop over libsodium needs a C compiler and libsodium's
    /// headers.
    Log {
        /// Number of updates in each run
        #[arg(long, value_name = "N", default_value_t = 1000,
              value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        updates: u32,
        /// Number of runs of gpg and git, which take half a minute each
        #[arg(long, value_name = "N", default_value_t = 3)]
        slow_runs: usize,
        /// Numbers of updates of a growing log, only for talaria; 0 for none
        #[arg(
            long,
            value_name = "N",
            value_delimiter = ',',
            default_value = "10000,100000,1000000"
        )]
        growth: Vec<usize>,
        /// The gpg to compare with
        #[arg(long, value_name = "PROGRAM", default_value = "gpg")]
        gpg: PathBuf,
        #[command(flatten)]
        common: Common,
    },
    /// Measure the first TOFU listing and the check of the web of trust, beside gpg
    ///
    /// Repeats both reports on trust for GnuPG (2015), and measures growing webs of trust.
    Trust {
        /// Keyring
        #[arg(value_name = "FILE", default_value = "/usr/share/keyrings/debian-keyring.gpg")]
        keyring: PathBuf,
        /// Use only the first N certificates of the keyring
        #[arg(long, value_name = "N")]
        quick: Option<usize>,
        /// Numbers of generated certificates, only for talaria; 0 for none
        #[arg(long, value_name = "N", value_delimiter = ',', default_value = "10000,100000")]
        growth: Vec<u64>,
        /// The gpg to compare with
        #[arg(long, value_name = "PROGRAM", default_value = "gpg")]
        gpg: PathBuf,
        #[command(flatten)]
        common: Common,
    },
    /// Compare costs beside gpg, age, rsync, SKS and libsodium with recorded ones
    ///
    /// Takes two minutes. talaria and a peer do each task in turns, and their CPU times give one
    /// ratio for each pair of runs. A task has slipped if the 95 % interval of the median lies
    /// above 1.25 times the recorded ratio, and a command if it takes 1.15 times the recorded
    /// memory. The exit status is then 1. A task whose peer is not installed is named.
    #[command(after_help = "Example:\n  talaria bench ratios crates/bench/ratios.csv")]
    Ratios(RatiosArgs),
    /// Write one HTML page with all tables and plots of earlier measurements
    ///
    /// Reads the CSV files that the other commands wrote with --results, draws every plot again,
    /// and writes report.html and summary.svg into the same folder. It measures nothing.
    #[command(
        after_help = "Example:\n  talaria bench report docs/benchmarks --page docs/benchmarks.md"
    )]
    Report {
        /// Folder with the results
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Also write each table into the block of text after `<!-- table NAME -->` in FILE
        #[arg(long, value_name = "FILE")]
        page: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
#[expect(missing_docs, reason = "a comment would be the help of the measurement")]
pub struct KeyserverArgs {
    /// Number of certificates
    #[arg(long, value_name = "N", default_value_t = 200_000,
          value_parser = clap::value_parser!(u64).range(100..))]
    certs: u64,
    /// Further numbers of certificates, only for talaria, which then serves the largest store
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "100000,1000000",
          value_parser = clap::value_parser!(u64).range(100..))]
    growth: Vec<u64>,
    /// Page sizes in KiB
    #[arg(long, value_name = "KIB", value_delimiter = ',', default_value = "4,8,16,32,64",
          value_parser = ["4", "8", "16", "32", "64"])]
    page_sizes: Vec<String>,
    /// Parts to skip
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    skip: Vec<keyserver::Section>,
    /// Duration of each load test in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3,
          value_parser = clap::value_parser!(u64).range(1..600))]
    load: u64,
    /// Number of certificates in each run of uploads
    #[arg(long, value_name = "N", default_value_t = 4000)]
    uploads: usize,
    #[command(flatten)]
    common: Common,
}

impl KeyserverArgs {
    fn options(&self) -> keyserver::KeyserverOptions {
        let kib = self.page_sizes.iter().filter_map(|size| size.parse::<u32>().ok());
        keyserver::KeyserverOptions {
            certs: self.certs,
            growth: self.growth.clone(),
            page_sizes: kib.map(|kib| kib << 10).collect(),
            skip: self.skip.clone(),
            load: Duration::from_secs(self.load),
            uploads: self.uploads,
            scratch: self.common.scratch(),
            runs: self.common.runs,
            results: self.common.results.clone(),
            ..keyserver::KeyserverOptions::default()
        }
    }
}

#[derive(Debug, clap::Args)]
#[expect(missing_docs, reason = "a comment would be the help of the comparison")]
pub struct RatiosArgs {
    /// CSV file with the recorded ratios
    #[arg(value_name = "FILE")]
    recorded: PathBuf,
    /// Write the ratios of this run into FILE instead of comparing
    #[arg(long)]
    record: bool,
    /// Number of pairs of runs of each task
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pairs: u16,
    /// Folder for keys, stores and messages [default: /dev/shm, if it has 2 GiB, or else the
    /// temporary folder]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl RatiosArgs {
    /// Compares ratios, or records them.
    fn compare(&self, out: &mut impl Write) -> Result<ExitCode, BenchError> {
        let defaults = ratios::RatiosOptions::default();
        let options = ratios::RatiosOptions {
            recorded: self.recorded.clone(),
            record: self.record,
            pairs: usize::from(self.pairs),
            scratch: self.scratch.clone().unwrap_or(defaults.scratch),
            ..defaults
        };
        let result = ratios::run(&options, out)?;
        for (what, sentences) in [("Left out", &result.left_out), ("Slipped", &result.slipped)] {
            for sentence in sentences {
                writeln!(out, "{what}: {sentence}.").map_err(BenchError::Output)?;
            }
        }
        Ok(if result.slipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Options of all measurements.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Number of runs of each lookup and listing; the result is the median
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
    /// Write the table as CSV and as SVG plots into this folder
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Folder on the disk to measure [default: the temporary folder]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl Common {
    fn scratch(&self) -> PathBuf {
        self.scratch.clone().unwrap_or_else(std::env::temp_dir)
    }
}

impl Measurement {
    /// Measures, and prints the tables. A ratio that slipped gives exit status 1.
    ///
    /// # Errors
    ///
    /// [`BenchError`], if it cannot be measured.
    pub fn run(&self, out: &mut impl Write) -> Result<ExitCode, BenchError> {
        match self {
            Self::Keydb { keyring, quick, common } => {
                let options = keydb::KeydbOptions {
                    keyring: keyring.clone(),
                    quick: *quick,
                    scratch: common.scratch(),
                    runs: common.runs,
                    results: common.results.clone(),
                    ..keydb::KeydbOptions::default()
                };
                keydb::run(&options, out)?;
            }
            Self::Storage { certs, common } => {
                let defaults = storage::StorageOptions::default();
                let options = storage::StorageOptions {
                    certs: Generate { count: *certs, ..defaults.certs.clone() },
                    scratch: common.scratch(),
                    results: common.results.clone(),
                    ..defaults
                };
                storage::run(&options, out)?;
            }
            Self::Messages { size, objects, gpg, common } => {
                let defaults = messages::MessagesOptions::default();
                let options = messages::MessagesOptions {
                    bytes: size << 20,
                    runs: common.runs,
                    objects: *objects,
                    signatures: *objects,
                    program: own_program(),
                    gpg: gpg.clone(),
                    scratch: common.scratch.clone().unwrap_or(defaults.scratch),
                    results: common.results.clone(),
                };
                messages::run(&options, out)?;
            }
            Self::Backup { files, bytes, tree, profile_runs, chunks, common } => {
                let options = backup::BackupOptions {
                    files: *files,
                    bytes: *bytes,
                    tree: tree.clone(),
                    profile_runs: *profile_runs,
                    chunks: chunks.clone(),
                    program: own_program(),
                    scratch: common.scratch(),
                    runs: common.runs,
                    results: common.results.clone(),
                };
                backup::run(&options, out)?;
            }
            Self::Log { updates, slow_runs, growth, gpg, common } => {
                let options = log::LogOptions {
                    updates: usize::try_from(*updates).unwrap_or(usize::MAX),
                    runs: common.runs,
                    slow_runs: *slow_runs,
                    growth: growth.clone(),
                    gpg: gpg.clone(),
                    program: own_program(),
                    scratch: common.scratch(),
                    results: common.results.clone(),
                };
                log::run(&options, out)?;
            }
            Self::Trust { keyring, quick, growth, gpg, common } => {
                let options = trust::TrustOptions {
                    keyring: keyring.clone(),
                    quick: *quick,
                    growth: growth.iter().copied().filter(|&count| count > 0).collect(),
                    gpg: gpg.clone(),
                    scratch: common.scratch(),
                    runs: common.runs,
                    results: common.results.clone(),
                    ..trust::TrustOptions::default()
                };
                trust::run(&options, out)?;
            }
            Self::Scale { counts, common } => {
                let options = scale::ScaleOptions {
                    counts: counts.clone(),
                    scratch: common.scratch(),
                    runs: common.runs,
                    results: common.results.clone(),
                    ..scale::ScaleOptions::default()
                };
                scale::run(&options, out)?;
            }
            Self::Keyserver(args) => {
                keyserver::run(&args.options(), out)?;
            }
            Self::Ratios(args) => return args.compare(out),
            Self::Report { folder, page: text } => {
                let report::Report { page, tables, pictures } = report::write(folder)?;
                let page = page.display();
                writeln!(out, "{page}: {tables} tables, {pictures} plots")
                    .map_err(BenchError::Output)?;
                if let Some(text) = text {
                    let tables = report::fill(folder, text)?;
                    writeln!(out, "{}: {tables} tables", text.display())
                        .map_err(BenchError::Output)?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
