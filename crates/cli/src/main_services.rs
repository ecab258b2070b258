//! The program `talaria-services`, which `talaria` starts in its place.

use std::process::ExitCode;

fn main() -> ExitCode {
    talaria_cli::services()
}
