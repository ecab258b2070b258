//! The Stateless OpenPGP command line, alone and with other programs.

mod attacks;
mod common;
mod exit_codes;
mod gpg;
mod memory;
mod peers;
mod subcommands;
