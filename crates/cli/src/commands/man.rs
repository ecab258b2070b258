//! `talaria man`

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::context::Context;
use crate::error::CliError;

/// Write the manual pages
///
/// To standard output, or with --dir one file per command (talaria.1, talaria-import.1, …).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The command whose page to print [default: talaria itself]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
    /// Write all pages into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, _: &mut Context) -> Result<ExitCode, CliError> {
    let mut top = Cli::command().disable_help_subcommand(true);
    top.build();
    if let Some(folder) = &args.dir {
        fs::create_dir_all(folder)?;
        pages(folder, "talaria", &top)?;
        return Ok(ExitCode::SUCCESS);
    }
    let command = match &args.command {
        None => top,
        Some(name) => top
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| CliError::Usage(format!("there is no command {name}")))?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    std::io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The page of a command and those of its subcommands.
fn pages(folder: &Path, name: &str, command: &clap::Command) -> Result<(), CliError> {
    page(folder, name, command.clone())?;
    for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
        pages(folder, &format!("{name}-{}", part.get_name()), part)?;
    }
    Ok(())
}

fn page(folder: &Path, name: &str, command: clap::Command) -> Result<(), CliError> {
    let mut text = Vec::new();
    // Leaked once per page, in a command that ends right after.
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    clap_mangen::Man::new(command.name(name)).render(&mut text)?;
    Ok(fs::write(folder.join(format!("{name}.1")), text)?)
}
