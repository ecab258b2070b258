//! `talaria-gpg`: verifies signatures, lists keys and encrypts in place of GnuPG's `gpg`, and hands
//! over the rest.

// OpenSSL begins with what this program needs.
use talaria_programs as _;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    ExitCode::from(talaria_gpg::gpg(&arguments))
}
