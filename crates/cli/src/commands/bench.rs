//! `talaria bench`

use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use talaria_bench::{
    Generate, Profile, file_names, generate, generate_files, keydb, keyserver, messages, report,
    scale, storage, trust,
};

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Existing, OutputArgs};

/// Measure talaria and other programs side by side
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Import, listing and look-ups of a keyring, with gpg and sq beside talaria
    ///
    /// The report on a key database for GnuPG (2015), repeated. gpg needs over a minute to import
    /// Debian's keyring; --quick takes the first certificates only.
    Keydb {
        /// The keyring
        #[arg(value_name = "FILE", default_value = "/usr/share/keyrings/debian-keyring.gpg")]
        keyring: PathBuf,
        /// Only the first N certificates of it
        #[arg(long, value_name = "N")]
        quick: Option<usize>,
        #[command(flatten)]
        common: Common,
    },
    /// Build, commits, look-ups and scan at every page size
    ///
    /// The report on tuning the database of SKS (2011), repeated on generated certificates.
    Storage {
        /// Certificates
        #[arg(long, value_name = "N", default_value_t = 20_000)]
        certs: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Bulk build and look-ups as a store grows
    Scale {
        /// Certificates in each store
        #[arg(value_name = "N", default_values_t = [1000, 50_000])]
        counts: Vec<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// A keyserver: builds, lookups, uploads and gossip, with SKS beside talaria
    ///
    /// The report on tuning the database of SKS (2011), repeated on generated certificates, and what
    /// has to hold for a keyserver today. Lookups need wrk; SKS is measured where it is installed.
    Keyserver {
        /// Certificates
        #[arg(long, value_name = "N", default_value_t = 200_000,
              value_parser = clap::value_parser!(u64).range(100..))]
        certs: u64,
        /// Further numbers of certificates, which talaria alone builds; it serves the largest
        #[arg(long, value_name = "N", value_delimiter = ',', default_value = "100000,1000000",
              value_parser = clap::value_parser!(u64).range(100..))]
        growth: Vec<u64>,
        /// Page sizes in KiB
        #[arg(long, value_name = "KIB", value_delimiter = ',', default_value = "4,8,16,32,64",
              value_parser = ["4", "8", "16", "32", "64"])]
        page_sizes: Vec<String>,
        /// Parts that are left out
        #[arg(long, value_name = "PART", value_delimiter = ',')]
        skip: Vec<Part>,
        /// Seconds of each load
        #[arg(long, value_name = "SECONDS", default_value_t = 3,
              value_parser = clap::value_parser!(u64).range(1..600))]
        load: u64,
        /// Certificates of each run of uploads
        #[arg(long, value_name = "N", default_value_t = 4000)]
        uploads: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Messages: a large file, many small objects, many signatures, with gpg, rnp, sq and age beside talaria
    ///
    /// The reports on obnam (2016) and libdinemic (2018), repeated. Files are in memory unless --scratch
    /// names another folder; the large file needs ten times its size there.
    Messages {
        /// MiB of the large file
        #[arg(long, value_name = "MIB", default_value_t = 1024)]
        size: u64,
        /// Small objects, and signatures
        #[arg(long, value_name = "N", default_value_t = 20_000)]
        objects: usize,
        /// The gpg to compare with; may be given for each of several versions
        #[arg(long, value_name = "PROGRAM", default_value = "gpg")]
        gpg: Vec<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
    /// Trust: the first listing with TOFU, and the check of the web of trust, with gpg beside talaria
    ///
    /// Both reports on trust for GnuPG (2015), repeated, and how the web grows.
    Trust {
        /// The keyring
        #[arg(value_name = "FILE", default_value = "/usr/share/keyrings/debian-keyring.gpg")]
        keyring: PathBuf,
        /// Only the first N certificates of it
        #[arg(long, value_name = "N")]
        quick: Option<usize>,
        /// Numbers of generated certificates, which talaria alone checks; 0 for none
        #[arg(long, value_name = "N", value_delimiter = ',', default_value = "10000,100000")]
        growth: Vec<u64>,
        /// The gpg to compare with
        #[arg(long, value_name = "PROGRAM", default_value = "gpg")]
        gpg: PathBuf,
        #[command(flatten)]
        common: Common,
    },
    /// Write one HTML page with all tables and plots of earlier measurements
    ///
    /// Reads the CSV files that the other commands wrote with --results, draws every plot again, and
    /// writes report.html and summary.svg into the same folder. Nothing is measured.
    #[command(after_help = "Example:\n  talaria bench report docs/benchmarks")]
    Report {
        /// The folder with the results
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Write valid certificates, as many as are wanted
    ///
    /// The same seed gives the same bytes. To standard output, or with --files into PREFIX-NNNN.pgp.
    #[command(mut_arg("output", |arg| arg.help("The file, or the prefix of the files, to write to")))]
    Generate {
        /// How many
        #[arg(value_name = "N")]
        count: u64,
        /// What they are like
        #[arg(long, value_enum, default_value_t = Kind::Small)]
        profile: Kind,
        /// The seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The number of the first one
        #[arg(long, value_name = "N", default_value_t = 0)]
        first: u64,
        /// Write so many files
        #[arg(long, value_name = "N", requires = "output")]
        files: Option<u64>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// What all measurements have in common.
#[derive(Debug, clap::Args)]
struct Common {
    /// Runs of each look-up and listing, of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
    /// Write the table as CSV and as SVG plots into this folder
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// A folder on the disk that is to be measured [default: the temporary folder]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl Common {
    fn scratch(&self) -> PathBuf {
        self.scratch.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Parts of the measurement of a keyserver.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    /// Builds from a dump
    Builds,
    /// The prefix tree
    Trees,
    /// Lookups under load, and memory
    Lookups,
    /// Durable uploads
    Uploads,
    /// Gossip between two servers
    Gossip,
    /// SKS in all of them
    Sks,
}

/// What generated certificates are like.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// About 1 KB, a twentieth of them RSA
    Small,
    /// As in the keyring of a distribution: many third-party certifications
    Ring,
    /// One user ID and one subkey each, nothing else
    Ed25519,
}

pub(crate) fn run(args: &Args, _: &mut Context) -> Result<ExitCode, CliError> {
    let mut out = io::stdout().lock();
    let failed = |error: talaria_bench::BenchError| CliError::Bench(talaria::describe(&error));
    match &args.what {
        What::Keydb { keyring, quick, common } => {
            let options = keydb::KeydbOptions {
                keyring: keyring.clone(),
                quick: *quick,
                scratch: common.scratch(),
                runs: common.runs,
                results: common.results.clone(),
                ..keydb::KeydbOptions::default()
            };
            keydb::run(&options, &mut out).map_err(failed)?;
        }
        What::Storage { certs, common } => {
            let defaults = storage::StorageOptions::default();
            let options = storage::StorageOptions {
                certs: Generate { count: *certs, ..defaults.certs.clone() },
                scratch: common.scratch(),
                results: common.results.clone(),
                ..defaults
            };
            storage::run(&options, &mut out).map_err(failed)?;
        }
        What::Messages { size, objects, gpg, common } => {
            let defaults = messages::MessagesOptions::default();
            let options = messages::MessagesOptions {
                bytes: size << 20,
                runs: common.runs,
                objects: *objects,
                signatures: *objects,
                program: std::env::current_exe()?,
                gpg: gpg.clone(),
                scratch: common.scratch.clone().unwrap_or(defaults.scratch),
                results: common.results.clone(),
            };
            messages::run(&options, &mut out).map_err(failed)?;
        }
        What::Trust { keyring, quick, growth, gpg, common } => {
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
            trust::run(&options, &mut out).map_err(failed)?;
        }
        What::Scale { counts, common } => {
            let options = scale::ScaleOptions {
                counts: counts.clone(),
                scratch: common.scratch(),
                runs: common.runs,
                results: common.results.clone(),
                ..scale::ScaleOptions::default()
            };
            scale::run(&options, &mut out).map_err(failed)?;
        }
        What::Keyserver { certs, growth, page_sizes, skip, load, uploads, common } => {
            let kib = page_sizes.iter().filter_map(|size| size.parse::<u32>().ok());
            let skip = skip.iter().map(|part| match part {
                Part::Builds => keyserver::Part::Builds,
                Part::Trees => keyserver::Part::Trees,
                Part::Lookups => keyserver::Part::Queries,
                Part::Uploads => keyserver::Part::Uploads,
                Part::Gossip => keyserver::Part::Gossip,
                Part::Sks => keyserver::Part::Sks,
            });
            let options = keyserver::KeyserverOptions {
                certs: *certs,
                growth: growth.clone(),
                page_sizes: kib.map(|kib| kib << 10).collect(),
                skip: skip.collect(),
                load: Duration::from_secs(*load),
                uploads: *uploads,
                scratch: common.scratch(),
                runs: common.runs,
                results: common.results.clone(),
                ..keyserver::KeyserverOptions::default()
            };
            keyserver::run(&options, &mut out).map_err(failed)?;
        }
        What::Report { folder } => {
            let written = report::write(folder).map_err(failed)?;
            writeln!(
                out,
                "{}: {} tables, {} plots",
                written.page.display(),
                written.tables,
                written.pictures
            )?;
        }
        What::Generate { count, profile, seed, first, files, output } => {
            let profile = match profile {
                Kind::Small => Profile::small(),
                Kind::Ring => Profile::ring(),
                Kind::Ed25519 => Profile::ed25519(),
            };
            let options = Generate { seed: *seed, first: *first, count: *count, profile };
            if let (Some(prefix), Some(files)) = (&output.path, files) {
                let existing = Existing::with_overwrite(output.overwrite);
                file_names(&options, prefix, *files).try_for_each(|path| existing.check(&path))?;
                generate_files(&options, prefix, *files)?;
            } else {
                let mut file = BufWriter::with_capacity(1 << 20, output.open(true)?);
                generate(&options, &mut file)?;
                file.into_inner().map_err(io::IntoInnerError::into_error)?.keep(false)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
