//! The `talaria` command: parses, calls one operation of the library, prints.

mod cli;
mod commands;
mod config;
mod context;
mod descriptor;
mod error;
mod expiry;
mod files;
mod gnupg;
mod keys;
mod passphrase;
mod progress;
mod render;
mod signatures;
mod terminal;
mod trust;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

fn main() -> ExitCode {
    let settings = match config::Settings::read() {
        Ok(settings) => settings,
        Err(error) => return error::CliError::from(error).report(),
    };
    let matches = settings.apply(cli::Cli::command()).try_get_matches();
    let cli = match matches.and_then(|matches| cli::Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no failure; a usage error is 2, as everywhere.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    cli.global.color.apply();
    let mut context = context::Context::new(&cli.global);
    match commands::run(&cli.command, &mut context) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
