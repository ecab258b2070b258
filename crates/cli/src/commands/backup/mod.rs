//! `talaria backup`

mod access;
mod attest;
mod check;
mod chosen;
mod client;
mod copy;
mod create;
mod diff;
mod drill;
mod find;
mod forget;
mod init;
mod key;
mod list;
mod ls;
mod mount;
mod notices;
mod option;
mod people;
mod place;
mod progress;
mod protect;
mod prune;
mod repair;
mod restore;
mod signer;
mod stats;
mod tools;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use self::place::is_remote;
use crate::context::Context;
use crate::error::CliError;
use crate::services::networks;

/// Back up files, encrypted to OpenPGP keys
///
/// A repository holds snapshots of files. Content that is in several snapshots is stored once.
/// Everything is encrypted to OpenPGP certificates, and snapshots are signed. The provider of the
/// storage can neither read nor forge them. docs/formats/backup.md shows how to recover files with
/// gpg alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Repository: a folder, or a URL (s3://, sftp://, webdav://, webdavs://; see docs/backup.md)
    #[arg(long, global = true, env = "TALARIA_REPO", value_name = "REPO")]
    repo: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Create(create::Args),
    List(list::Args),
    Ls(ls::Args),
    Find(find::Args),
    Diff(diff::Args),
    Restore(restore::Args),
    Drill(drill::Args),
    Copy(copy::Args),
    Mount(mount::Args),
    Check(check::Args),
    Stats(stats::Args),
    Key(key::Args),
    Client(client::Args),
    Signer(signer::Args),
    Forget(forget::Args),
    Protect(protect::Args),
    Attest(attest::Args),
    Prune(prune::Args),
    Repair(repair::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let place = args.repo.as_deref().ok_or_else(|| {
        CliError::Usage(
            "name the repository: --repo FOLDER or --repo URL, or set TALARIA_REPO".into(),
        )
    })?;
    let other = match &args.command {
        Command::Copy(args) => args.from(),
        _ => place,
    };
    if is_remote(place) || is_remote(other) {
        // Before anything is opened or asked for.
        networks()?;
    }
    match &args.command {
        Command::Init(args) => init::run(args, place, cx),
        Command::Create(args) => create::run(args, place, cx),
        Command::List(args) => list::run(args, place, cx),
        Command::Ls(args) => ls::run(args, place, cx),
        Command::Find(args) => find::run(args, place, cx),
        Command::Diff(args) => diff::run(args, place, cx),
        Command::Restore(args) => restore::run(args, place, cx),
        Command::Drill(args) => drill::run(args, place, cx),
        Command::Copy(args) => copy::run(args, place, cx),
        Command::Mount(args) => mount::run(args, place, cx),
        Command::Check(args) => check::run(args, place, cx),
        Command::Stats(args) => stats::run(args, place, cx),
        Command::Key(args) => key::run(args, place, cx),
        Command::Client(args) => client::run(args, place, cx),
        Command::Signer(args) => signer::run(args, place, cx),
        Command::Forget(args) => forget::run(args, place, cx),
        Command::Protect(args) => protect::run(args, place, cx),
        Command::Attest(args) => attest::run(args, place, cx),
        Command::Prune(args) => prune::run(args, place, cx),
        Command::Repair(args) => repair::run(args, place, cx),
    }
}
