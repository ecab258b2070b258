//! `talaria-gpgv`: verifies signatures in place of GnuPG's `gpgv`.

// OpenSSL begins with what this program needs.
use talaria_programs as _;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(talaria_gpg::gpgv(std::env::args_os().skip(1).collect()))
}
