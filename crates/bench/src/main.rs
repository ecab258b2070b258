//! The program `talaria-bench`, which `talaria` starts in its place.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use talaria_bench::BenchError;
use talaria_bench::command::Measurement;
use talaria_programs::Program;

/// The allocator of `talaria`, so that the library is measured as `talaria` uses it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit status if a measurement, or this program, does not run.
const FAILED: u8 = 5;

/// The command line of `talaria`, which has found no error in it. Of its general options, only one
/// matters here.
#[derive(Debug, Parser)]
#[command(name = "talaria")]
struct Line {
    #[arg(long, global = true)]
    json: bool,
    #[arg(long, global = true)]
    store: Vec<PathBuf>,
    #[arg(long, global = true)]
    keys: Option<PathBuf>,
    #[arg(long, short, global = true)]
    quiet: bool,
    #[arg(long, global = true)]
    color: Option<String>,
    #[arg(long, global = true)]
    faked_time: Option<u32>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench {
        #[command(subcommand)]
        measurement: Measurement,
    },
}

fn main() -> ExitCode {
    if let Err(error) = Program::Bench.check_start() {
        eprintln!("talaria: {error}\n  {}", error.hint());
        return ExitCode::from(FAILED);
    }
    let line = Line::parse();
    let Command::Bench { measurement } = line.command;
    match measurement.run(&mut io::stdout().lock()) {
        Ok(status) => status,
        // The reader of the tables has ended, which is no failure.
        Err(BenchError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(&described(&error), line.json);
            ExitCode::from(FAILED)
        }
    }
}

/// An error with its causes.
fn described(error: &BenchError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Reports an error as `talaria` does.
fn report(message: &str, json: bool) {
    if json {
        let error = serde_json::json!({ "error": {
            "kind": "io", "exit_status": FAILED, "message": message, "hint": null, "candidates": [],
        } });
        eprintln!("{error}");
    } else {
        eprintln!("talaria: {}", message.replace('\n', r"\n"));
    }
}
