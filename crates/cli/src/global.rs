//! The options that every command has.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use talaria::message::Rules;

use crate::terminal::ColorWhen;

fn rules_parser() -> impl TypedValueParser<Value = Rules> {
    PossibleValuesParser::new(Rules::ALL.map(Rules::name))
        .map(|name| name.parse().expect("it is one of them"))
}

/// Options that every command has, before or after its name.
#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Store to use: a file (can be repeated: all are searched, the first is written to). A keyring
    /// file is used read-only [default: talaria/certs.db in the XDG data folder]
    #[arg(long, global = true, value_name = "PATH", env = "TALARIA_STORE", hide_env = true, value_delimiter = None)]
    pub(crate) store: Vec<PathBuf>,
    /// Folder of secret keys [default: talaria/keys in the XDG data folder]
    #[arg(long, global = true, value_name = "DIR", env = "TALARIA_KEYS", hide_env = true)]
    pub(crate) keys: Option<PathBuf>,
    /// Which certificates may be used: by default, SHA-1 binds a key only if it is dated before 2023
    /// and the key has no better signature; strict: SHA-1 never counts [default: standard]
    #[arg(long, id = "rules", global = true, value_name = "RULES", env = "TALARIA_POLICY", hide_env = true, value_parser = rules_parser())]
    pub(crate) policy: Option<Rules>,
    /// Print results and errors as JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// When to use colors
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) color: ColorWhen,
    /// Use this time as the current time, in seconds since 1970
    #[arg(long, global = true, value_name = "SECONDS", hide = true)]
    pub(crate) faked_time: Option<u32>,
    /// Print help (-h: short)
    #[arg(long, short, global = true, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print version
    #[arg(long, short = 'V', global = true, action = ArgAction::Version)]
    version: Option<bool>,
}
