//! `talaria completions`

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::context::Context;
use crate::error::CliError;

/// Print the completion script for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args, _: &mut Context) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "talaria", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(ExitCode::SUCCESS)
}
