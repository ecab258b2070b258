//! The program `talaria-bench`, which `talaria` starts in its place.

use std::process::ExitCode;

fn main() -> ExitCode {
    talaria_cli::bench()
}
