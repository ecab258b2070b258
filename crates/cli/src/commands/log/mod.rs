//! `talaria log`

mod about;
mod approve;
mod author;
mod checkpoint;
mod choose;
mod compact;
mod cosign;
mod delete;
mod encrypt;
mod export;
mod folder;
mod get;
mod grant;
mod history;
mod identity;
mod import;
mod init;
mod list;
mod node;
mod people;
mod put;
mod reading;
mod revoke;
mod serve;
mod snapshot;
mod stats;
mod sync;
mod values;
mod verify;
mod watch;
mod witness;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;

/// Share data in which every change is signed
///
/// A log is a small database that several nodes change. Each change carries the OpenPGP signature
/// of its author, and each node checks all of them. Owners say who may change which fields. Nodes
/// exchange entries over the network (`talaria log serve`, `talaria log sync`) or as files
/// (`talaria log export`, `talaria log import`). docs/log.md says what a log is good for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the log
    #[arg(long, global = true, env = "TALARIA_LOG", value_name = "DIR")]
    log: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Put(put::Args),
    Delete(delete::Args),
    Encrypt(encrypt::Args),
    Get(get::Args),
    List(list::Args),
    History(history::Args),
    Watch(watch::Args),
    Verify(verify::Args),
    Export(export::Args),
    Import(import::Args),
    Sync(sync::Args),
    Serve(serve::Args),
    Node(node::Args),
    Grant(grant::Args),
    Revoke(revoke::Args),
    Approve(approve::Args),
    Choose(choose::Args),
    Checkpoint(checkpoint::Args),
    Cosign(cosign::Args),
    Witness(witness::Args),
    Snapshot(snapshot::Args),
    Compact(compact::Args),
    Stats(stats::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    if let Command::Witness(args) = &args.command {
        return witness::run(args, cx);
    }
    let folder = || {
        args.log.as_deref().ok_or_else(|| {
            CliError::Usage("name the folder of the log: --log DIR, or set TALARIA_LOG".into())
        })
    };
    if let Command::Snapshot(args) = &args.command {
        return snapshot::run(args, folder, cx);
    }
    let folder = folder()?;
    match &args.command {
        Command::Init(args) => init::run(args, folder, cx),
        Command::Put(args) => put::run(args, folder, cx),
        Command::Delete(args) => delete::run(args, folder, cx),
        Command::Encrypt(args) => encrypt::run(args, folder, cx),
        Command::Get(args) => get::run(args, folder, cx),
        Command::List(args) => list::run(args, folder, cx),
        Command::History(args) => history::run(args, folder, cx),
        Command::Watch(args) => watch::run(args, folder, cx),
        Command::Verify(args) => verify::run(args, folder, cx),
        Command::Export(args) => export::run(args, folder, cx),
        Command::Import(args) => import::run(args, folder, cx),
        Command::Sync(args) => sync::run(args, folder, cx),
        Command::Serve(args) => serve::run(args, folder, cx),
        Command::Node(args) => node::run(args, folder, cx),
        Command::Grant(args) => grant::run(args, folder, cx),
        Command::Revoke(args) => revoke::run(args, folder, cx),
        Command::Approve(args) => approve::run(args, folder, cx),
        Command::Choose(args) => choose::run(args, folder, cx),
        Command::Checkpoint(args) => checkpoint::run(args, folder, cx),
        Command::Cosign(args) => cosign::run(args, folder, cx),
        Command::Witness(args) => witness::run(args, cx),
        Command::Snapshot(args) => snapshot::run(args, || Ok(folder), cx),
        Command::Compact(args) => compact::run(args, folder, cx),
        Command::Stats(args) => stats::run(args, folder, cx),
    }
}
