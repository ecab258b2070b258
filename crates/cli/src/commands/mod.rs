//! The subcommands, one file each, named as they are typed.

pub(crate) mod admin;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod certify;
pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod decrypt;
pub(crate) mod delete;
pub(crate) mod dump;
pub(crate) mod encrypt;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod pack;
pub(crate) mod peer;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod sign;
pub(crate) mod stats;
pub(crate) mod tofu;
pub(crate) mod trust;
pub(crate) mod tune;
pub(crate) mod unpack;
pub(crate) mod verify;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args as _, FromArgMatches as _};
use talaria_programs::Program;

use crate::context::Context;
use crate::error::CliError;

/// Makes the enum of the commands, each of which is named as its file is. `talaria-services` runs
/// the second part.
macro_rules! commands {
    (front { $($front:ident => $front_file:ident,)* } services { $($there:ident => $there_file:ident,)* }) => {
        commands! { @all $($front => $front_file,)* $($there => $there_file,)* }

        /// Runs a command in `talaria`.
        pub(crate) fn run_front(command: &Command, cx: &mut Context) -> Result<ExitCode, CliError> {
            match command {
                $(Command::$front(args) => $front_file::run(args, cx),)*
                $(Command::$there(_))|* => Err(Program::Services.take_over().into()),
            }
        }
    };
    (@all $($variant:ident => $file:ident,)*) => {
        #[derive(Debug)]
        pub(crate) enum Command {
            $($variant(Box<$file::Args>),)*
        }

        impl Command {
            /// The definitions of all commands, or of one alone: those of all take more time and
            /// memory than a look-up.
            pub(crate) fn definitions(only: Option<&str>) -> Vec<clap::Command> {
                /// A table, so that the code of the other commands is not even near.
                const ALL: &[(&str, fn(clap::Command) -> clap::Command)] =
                    &[$((stringify!($file), $file::Args::augment_args),)*];
                ALL.iter()
                    .filter(|(name, _)| only.is_none_or(|only| only == *name))
                    .map(|(name, define)| define(clap::Command::new(*name)))
                    .collect()
            }

            /// The command that was given.
            pub(crate) fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
                type Read = fn(&ArgMatches) -> Result<Command, clap::Error>;
                const ALL: &[(&str, Read)] = &[$((stringify!($file), |matches| {
                    let args = $file::Args::from_arg_matches(matches)?;
                    Ok(Command::$variant(Box::new(args)))
                }),)*];
                let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
                let (given, matches) = matches.subcommand().ok_or_else(missing)?;
                let (_, read) = ALL.iter().find(|(name, _)| *name == given).ok_or_else(missing)?;
                read(matches)
            }
        }

        /// Runs any command.
        pub(crate) fn run(command: &Command, cx: &mut Context) -> Result<ExitCode, CliError> {
            match command {
                $(Command::$variant(args) => $file::run(args, cx),)*
            }
        }
    };
}

/// Runs a command in `talaria-bench`.
pub(crate) fn run_bench(command: &Command, cx: &mut Context) -> Result<ExitCode, CliError> {
    match command {
        Command::Bench(args) => bench::measure(args, cx),
        other => run_front(other, cx),
    }
}

commands! {
    front {
        Import => import,
        Export => export,
        List => list,
        Show => show,
        Delete => delete,
        Stats => stats,
        Encrypt => encrypt,
        Decrypt => decrypt,
        Sign => sign,
        Verify => verify,
        Pack => pack,
        Unpack => unpack,
        Inspect => inspect,
        Key => key,
        Certify => certify,
        Trust => trust,
        Tofu => tofu,
        Changes => changes,
        Check => check,
        Compact => compact,
        Index => index,
        Build => build,
        Dump => dump,
        Backup => backup,
        Log => log,
        Completions => completions,
        Man => man,
        Bench => bench,
    }
    services {
        Tune => tune,
        Serve => serve,
        Peer => peer,
        Admin => admin,
    }
}
