//! The program `talaria`.

use std::process::ExitCode;

fn main() -> ExitCode {
    talaria_cli::front()
}
