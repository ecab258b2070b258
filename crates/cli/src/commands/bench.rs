//! `talaria bench`

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use talaria_bench::BenchError;
use talaria_bench::command::Measurement;
use talaria_corpus::{CorpusProfile, Generate, file_names, generate, generate_files};
use talaria_programs::Program;

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
    #[command(flatten)]
    Measurement(Measurement),
    /// Generate valid certificates for tests
    ///
    /// The same seed gives the same bytes. Writes to standard output, or with --files to
    /// PREFIX-NNNN.pgp.
    #[command(mut_arg("output", |arg| arg.help("Write to this file, or with --files to files with this prefix")))]
    Generate {
        /// Number of certificates
        #[arg(value_name = "N")]
        count: u64,
        /// Kind of certificates
        #[arg(long, value_enum, default_value_t = Kind::Small)]
        profile: Kind,
        /// Seed of the random numbers
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of the first certificate in the sequence
        #[arg(long, value_name = "N", default_value_t = 0)]
        first: u64,
        /// Write N files
        #[arg(long, value_name = "N", requires = "output")]
        files: Option<u64>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Kinds of generated certificates.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// About 1 KB, a twentieth of them RSA
    Small,
    /// Many third-party certifications, as in the keyring of a distribution
    Ring,
    /// One user ID and one subkey each, nothing else
    Ed25519,
}

/// Measures. Only `talaria-bench` does.
pub(crate) fn measure(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let What::Measurement(measurement) = &args.what else { return run(args, cx) };
    let mut out = cx.stdout();
    let status = measurement.run(&mut out).map_err(|error| match error {
        BenchError::Output(error) => CliError::Output(error),
        error => CliError::Bench(talaria::describe(&error)),
    })?;
    out.flush()?;
    Ok(status)
}

pub(crate) fn run(args: &Args, _: &mut Context) -> Result<ExitCode, CliError> {
    let What::Generate { count, profile, seed, first, files, output } = &args.what else {
        return Err(Program::Bench.take_over().into());
    };
    let profile = match profile {
        Kind::Small => CorpusProfile::small(),
        Kind::Ring => CorpusProfile::ring(),
        Kind::Ed25519 => CorpusProfile::ed25519(),
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
    Ok(ExitCode::SUCCESS)
}
