//! `talaria backup key`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use talaria::message::openpgp::{Cert, Fingerprint};

use super::access::AccessArgs;
use super::people::{Action, Person, change};
use crate::context::Context;
use crate::error::CliError;

/// Manage the readers of a repository
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the owner, readers and clients of a repository
    List(ListArgs),
    /// Let a certificate read all snapshots, old ones included
    Add(Person),
    /// Stop a certificate from reading new snapshots
    ///
    /// Later backups use new keys. Earlier backups stay readable for everybody who kept the old
    /// keys and has access to the repository.
    Remove(Person),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::List(args) => list(args, place, cx),
        Command::Add(person) => change(person, Action::AddReader, place, cx),
        Command::Remove(person) => change(person, Action::Remove, place, cx),
    }
}

fn list(args: &ListArgs, place: &Path, cx: &Context) -> Result<ExitCode, CliError> {
    let session = args.access.open(place, cx)?;
    let config = session.repository.config();
    let mut out = cx.stdout();
    if cx.json {
        let names = |set: &std::collections::BTreeSet<Fingerprint>| -> Vec<String> {
            set.iter().map(Fingerprint::to_hex).collect()
        };
        let json = serde_json::json!({
            "repository": session.repository.id().to_string(), "owner": config.owner.to_hex(),
            "readers": names(&config.readers), "clients": names(&config.clients),
            "epoch": config.newest_epoch().number, "profile": config.newest_epoch().profile.name(),
            "configuration": config.number, "signed": config.signed,
        });
        writeln!(out, "{json}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let described = |fingerprint: &Fingerprint| {
        let cert = session.repository.cert(fingerprint);
        cert.map_or_else(|| fingerprint.to_hex(), |cert: &Cert| talaria::described(cert))
    };
    writeln!(out, "owner   {}", described(&config.owner))?;
    for reader in &config.readers {
        writeln!(out, "reader  {}", described(reader))?;
    }
    for client in &config.clients {
        writeln!(out, "client  {}", described(client))?;
    }
    Ok(ExitCode::SUCCESS)
}
