//! The command line as a whole: from here come help, completions and man pages.

use std::path::PathBuf;

use clap::{Args, Parser};

use crate::commands::Command;
use crate::terminal::ColorWhen;

/// OpenPGP at the speed of the disk and the CPU
///
/// talaria keeps OpenPGP certificates in a store: one file, indexed, verified once, safe to use from
/// several programs at the same time.
///
/// A certificate is named as gpg names it: by fingerprint, key ID or the ID of a subkey; =exact user
/// ID; <mail@address>; @part-of-address; *part of a user ID, or just the part; +all words; &keygrip.
#[derive(Debug, Parser)]
#[command(
    name = "talaria",
    version,
    arg_required_else_help = true,
    propagate_version = true,
    after_long_help = "Exit status: 0 done; 1 no such thing; 2 usage; 3 bad input; \
        4 store damaged or unavailable; 5 input or output failed; 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command has, before or after its name.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// The store, a file; can be repeated: all are searched, the first is written to. A keyring file
    /// is read as it is [default: talaria/certs.db in the XDG data folder]
    #[arg(long, global = true, value_name = "PATH", env = "TALARIA_STORE", value_delimiter = None)]
    pub(crate) store: Vec<PathBuf>,
    /// The folder of secret keys [default: talaria/keys in the XDG data folder]
    #[arg(long, global = true, value_name = "DIR", env = "TALARIA_KEYS")]
    pub(crate) keys: Option<PathBuf>,
    /// Print JSON, one object per line, instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing but results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) color: ColorWhen,
    /// The time to take for now, in seconds since 1970
    #[arg(long, global = true, value_name = "SECONDS", hide = true)]
    pub(crate) faked_time: Option<u32>,
}
