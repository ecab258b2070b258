//! `talaria-gpg`: verifies signatures and lists keys in place of GnuPG's `gpg`, and hands over the
//! rest.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    ExitCode::from(talaria_gpg::gpg(&arguments))
}
