//! The `talaria` command: parses, calls one operation of the library, prints.

mod cli;
mod commands;
mod context;
mod error;
mod files;
mod keys;
mod passphrase;
mod render;
mod signatures;
mod trust;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no failure; a usage error is 2, as everywhere.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let mut context = context::Context::new(&cli.global);
    match commands::run(&cli.command, &mut context) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
