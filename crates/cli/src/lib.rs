//! The `talaria` command: parses arguments, calls one operation of the library, and prints the
//! result.
//!
//! Three programs are made of it. `talaria` ([`front`]) has what people and programs run many times
//! a second, and starts `talaria-services` ([`services()`]) or `talaria-bench` ([`bench()`]) in its
//! place for the rest, so that a look-up does not pay for a server.

mod cli;
mod commands;
mod completion;
mod config;
mod confirm;
mod context;
mod descriptor;
mod error;
mod examples;
mod expiry;
mod files;
mod folders;
mod global;
mod gnupg;
mod hints;
mod keys;
mod outcome;
mod output;
mod paint;
mod passphrase;
mod pipe;
mod policy;
mod progress;
mod query;
mod recipients;
mod render;
mod report;
mod services;
mod shell;
mod signatures;
mod stderr;
mod terminal;
mod trust;
mod usage;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGXFSZ;
use talaria_programs::Program;

use crate::outcome::Outcome;

/// Entries and certificates are many short-lived pieces of memory. With the allocator of the C
/// library, these cost a fifth of the time in which a node of a log takes entries (decision record
/// 16).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The largest number of threads that `RAYON_NUM_THREADS` can ask for. Many more than the CPUs only
/// cost time and memory; tens of thousands stop the machine.
const THREADS_MAX: usize = 256;

fn limit_threads() {
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|number| number.parse().ok());
    if asked.is_some_and(|number: usize| number > THREADS_MAX) {
        // The pool is that of the process. Nothing has made it before.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(THREADS_MAX).build_global();
    }
}

/// The program `talaria`: runs the command line of this process, or `talaria-services` in its
/// place.
pub fn front() -> ExitCode {
    run(commands::run_front)
}

/// The program `talaria-services`: runs every command line, if `talaria` has started it.
pub fn services() -> ExitCode {
    match services::offer() {
        Ok(()) => run(commands::run),
        Err(error) => error::CliError::from(error).report(usage::wants_json()),
    }
}

/// The program `talaria-bench`: measures, if `talaria` has started it.
pub fn bench() -> ExitCode {
    match Program::Bench.check_start() {
        Ok(()) => run(commands::run_bench),
        Err(error) => error::CliError::from(error).report(usage::wants_json()),
    }
}

fn run(
    command: fn(&commands::Command, &mut context::Context) -> Result<ExitCode, error::CliError>,
) -> ExitCode {
    // With a handler, a write beyond the limit on file sizes fails with an error. Otherwise it
    // kills the process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    clap_complete::CompleteEnv::with_factory(|| completion::with_names(cli::command())).complete();
    if usage::asks_version() {
        // Without the definitions of all commands, which take twice the memory and time.
        let version = concat!("talaria ", env!("CARGO_PKG_VERSION"));
        return match writeln!(terminal::Output::stdout(terminal::Form::Exact), "{version}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => error::CliError::from(error).report(false),
        };
    }
    limit_threads();
    // For help and usage errors.
    usage::wanted_color().apply();
    let settings = match config::Settings::read() {
        Ok(settings) => settings,
        Err(error) => return error::CliError::from(error).report(usage::wants_json()),
    };
    // Or the value of an option before the command, which then has an error.
    let named = std::env::args_os().skip(1).find_map(|name| cli::one_command(name.to_str()?));
    let alone = named.and_then(|named| settings.apply(named).try_get_matches().ok());
    // Help and errors need all commands.
    let matches = alone.map_or_else(|| settings.apply(cli::command()).try_get_matches(), Ok);
    let cli = match matches.and_then(|matches| cli::Cli::of(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no failure; a usage error has exit status 2, as usual.
            let error = usage::improved(error);
            if !error.use_stderr() {
                return match error.print().and_then(|()| io::stdout().flush()) {
                    Ok(()) => ExitCode::SUCCESS,
                    Err(error) => error::CliError::from(error).report(usage::wants_json()),
                };
            }
            if usage::wants_json() {
                let text = error.render().to_string();
                let text = text.strip_prefix("error: ").unwrap_or(&text);
                let (message, more) = text.split_once("\n\n").unwrap_or((text, ""));
                let hint = Some(more.trim()).filter(|more| !more.is_empty());
                report::report_json(Outcome::USAGE, message.trim(), hint, &[]);
            } else {
                let text = usage::text(&error, || settings.apply(cli::command()));
                stderr::say(format_args!("{}", text.trim_end()));
            }
            return ExitCode::from(2);
        }
    };
    cli.global.color.apply();
    let mut context = context::Context::new(&cli.global);
    match command(&cli.command, &mut context) {
        Ok(code) => code,
        Err(error) => error.report(cli.global.json),
    }
}
