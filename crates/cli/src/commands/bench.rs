//! `talaria bench`

use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use talaria_bench::{Generate, Profile, generate, generate_files, keydb, scale, storage};

use crate::context::Context;
use crate::error::CliError;

/// Measure talaria and its peers, side by side
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
    /// Write valid certificates, as many as are wanted
    ///
    /// The same seed gives the same bytes. To standard output, or with --files into PREFIX-NNNN.pgp.
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
        /// The file, or the prefix of the files, to write to
        #[arg(long, short, value_name = "PATH")]
        output: Option<PathBuf>,
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
        What::Generate { count, profile, seed, first, files, output } => {
            let profile = match profile {
                Kind::Small => Profile::small(),
                Kind::Ring => Profile::ring(),
                Kind::Ed25519 => Profile::ed25519(),
            };
            let options = Generate { seed: *seed, first: *first, count: *count, profile };
            match (output, files) {
                (Some(prefix), Some(files)) => {
                    generate_files(&options, prefix, *files)?;
                }
                (Some(path), None) => {
                    let file = std::fs::File::create(path)?;
                    let mut file = BufWriter::with_capacity(1 << 20, file);
                    generate(&options, &mut file)?;
                    file.flush()?;
                }
                (None, _) => {
                    let mut out = BufWriter::with_capacity(1 << 20, out);
                    generate(&options, &mut out)?;
                    out.flush()?;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
