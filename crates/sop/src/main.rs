//! `talaria-sop`: the Stateless OpenPGP command line interface (draft-dkg-openpgp-stateless-cli).
//!
//! The `sop` crate parses the command line, opens what it names and turns errors into the exit
//! codes of the draft. What a subcommand does is here: `talaria-message` moves the data, Sequoia
//! makes and changes keys and certificates.

mod arguments;
mod armor;
mod buffer;
mod certify;
mod decrypt;
mod encrypt;
mod error;
mod generate;
mod inline;
mod maintain;
mod material;
mod operations;
mod passwords;
mod profile;
mod sign;
mod talaria;
mod text;
mod update;
mod verify;

// OpenSSL begins with what this program needs.
use talaria_programs as _;

use std::process::ExitCode;
use std::time::SystemTime;

use sop::cli::Variant;

use crate::talaria::Talaria;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(what) = arguments::missing(&arguments) {
        error::say(format_args!("{what} is missing"));
        return ExitCode::from(arguments::MISSING_ARG);
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
    sop::cli::main(&mut Talaria::new(now), Variant::Full)
}
