//! `talaria log`

mod approve;
mod checkpoint;
mod choose;
mod compact;
mod cosign;
mod delete;
mod encrypt;
mod export;
mod get;
mod grant;
mod history;
mod import;
mod init;
mod list;
mod node;
mod put;
mod revoke;
mod serve;
mod snapshot;
mod stats;
mod sync;
mod values;
mod verify;
mod watch;
mod witness;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Subcommand;
use talaria::keys::names;
use talaria::message::openpgp::Cert;
use talaria::message::{Secrets, SigningKey, read_cert};
use talaria::store::Query;
use talaria_log::{
    Action, Certificate, ChainName, EntryId, EpochKeys, KeyName, Log, LogFolder, Maker, Recovered,
};

use crate::context::{Content, Context};
use crate::error::{CliError, say};
use crate::keys::{KeyArgs, certificate};
use crate::passphrase::PassphraseArgs;
use crate::render::printable;

/// Share data in which every change is signed
///
/// A log is a small database that several nodes change. Each change carries the OpenPGP signature of its author, and each
/// node checks all of them. Owners say who may change which fields. Nodes exchange entries over the network (`talaria log serve`,
/// `talaria log sync`) or as files (`talaria log export`, `talaria log import`). docs/log.md says what a log is good for.
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

/// An object or one of its fields.
#[derive(Debug, clap::Args)]
struct PartArgs {
    /// Object: its name, or its identity
    #[arg(value_name = "OBJECT")]
    object: String,
    /// Field [default: all]
    #[arg(value_name = "FIELD")]
    field: Option<String>,
}

/// The key that signs an entry.
#[derive(Debug, clap::Args)]
struct SignArgs {
    /// Key to sign with [default: your only key]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// The keys that open encrypted values.
#[derive(Debug, clap::Args)]
struct ReadArgs {
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// The keys of the epochs of a log that the user's keys open. Without any epoch, nobody's keys are looked at.
fn epoch_keys(
    keys: &KeyArgs,
    passphrase: &PassphraseArgs,
    log: &Log,
    cx: &Context,
) -> Result<EpochKeys, CliError> {
    if !log.state().has_epochs() {
        return Ok(EpochKeys::default());
    }
    let (keys, elsewhere) = keys.decryption(&passphrase.given()?, cx)?;
    Ok(EpochKeys::new(Secrets { keys, elsewhere, ..Secrets::default() }))
}

impl ReadArgs {
    fn epoch_keys(&self, log: &Log, cx: &Context) -> Result<EpochKeys, CliError> {
        epoch_keys(&self.keys, &self.passphrase, log, cx)
    }
}

/// An author, ready to sign. The log is opened afterwards, so that nobody waits for it while a passphrase is typed.
struct Author {
    cert: Cert,
    key: SigningKey,
    chain: ChainName,
}

impl SignArgs {
    fn epoch_keys(&self, log: &Log, cx: &Context) -> Result<EpochKeys, CliError> {
        epoch_keys(&self.keys, &self.passphrase, log, cx)
    }

    fn author(&self, cx: &Context) -> Result<Author, CliError> {
        let given = self.passphrase.given()?;
        let key = match &self.sign_with {
            Some(name) => self.keys.signers(std::slice::from_ref(name), &given, cx)?.remove(0),
            None => self.keys.only_signer(given, cx)?,
        };
        let cert = certificate(&key, &self.keys.certs(cx)?, cx)?;
        let named = |name: Option<KeyName>| {
            name.ok_or_else(|| {
                CliError::Usage(format!(
                    "keys of versions 4 and 6 sign entries; {} has another version",
                    cert.fingerprint().to_hex()
                ))
            })
        };
        let author = named(KeyName::of_openpgp(&cert.fingerprint()))?;
        let subkey = named(KeyName::of_openpgp(&key.public().fingerprint()))?;
        // A folder has its instance.
        let chain = ChainName { author, subkey, instance: [0; 16] };
        Ok(Author { cert, key, chain })
    }
}

impl Author {
    fn maker(&mut self) -> Maker<'_> {
        Maker { chain: self.chain, key: &mut self.key }
    }

    /// Writes one operation on the log itself.
    fn put(&mut self, log: &LogFolder, action: Action, cx: &Context) -> Result<EntryId, CliError> {
        Ok(log.put_action(&mut self.maker(), action, cx.now_ms())?)
    }
}

/// Time in which a process that serves the log lends it.
const LENT: Duration = Duration::from_secs(1);

/// Opens the log in a folder. While another process has it open, waits, and says so if it takes long.
fn open(folder: &Path, cx: &Context) -> Result<LogFolder, CliError> {
    let (opened, waits) = mpsc::channel::<()>();
    let (name, quiet) = (folder.display().to_string(), cx.quiet);
    let log = LogFolder::open_when_free(folder, || {
        thread::spawn(move || {
            if waits.recv_timeout(LENT) == Err(RecvTimeoutError::Timeout) && !quiet {
                say(format_args!("Another process has {name} open. Waiting for it."));
            }
        });
    });
    drop(opened);
    let log = log?;
    if log.recovered() == Recovered::Torn {
        cx.status(format_args!(
            "The last write to {} was cut off, and was never reported as stored. It is removed.",
            folder.display()
        ));
    }
    Ok(log)
}

/// Writes an approval or a choice, which names another entry. `name` is that of the command, and `done` says what it did.
fn put_about(
    entry: EntryId,
    action: fn(EntryId) -> Action,
    (name, done): (&str, &str),
    (sign, folder): (&SignArgs, &Path),
    cx: &mut Context,
) -> Result<ExitCode, CliError> {
    let mut author = sign.author(cx)?;
    let log = open(folder, cx)?;
    if log.read(|log| log.entry(&entry).is_none())? {
        return Err(CliError::Missing(format!(
            "no entry {entry} is in this log; import it first: talaria log import FILE"
        )));
    }
    let id = author.put(&log, action(entry), cx)?;
    if cx.json {
        let json = serde_json::json!({
            "action": name, "entry": id.to_string(), "of": entry.to_string(),
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!("{done} {entry}."));
    }
    Ok(ExitCode::SUCCESS)
}

/// The user IDs of the authors of a log.
fn people(log: &Log) -> HashMap<KeyName, String> {
    let named = |cert: &Certificate| {
        let user_id = cert.user_id().unwrap_or_default();
        (cert.name(), printable(user_id.as_bytes()))
    };
    log.certificates().map(named).collect()
}

/// The name of an author for people.
fn person(name: &KeyName, people: &HashMap<KeyName, String>) -> String {
    match people.get(name) {
        Some(user_id) if !user_id.is_empty() => user_id.clone(),
        _ => name.to_string(),
    }
}

/// The owners of a log, for people: a line each, below the first.
fn owners(log: &Log) -> String {
    let people = people(log);
    let one =
        |owner: &Certificate| format!("{} ({})", owner.name(), person(&owner.name(), &people));
    log.genesis().owners.iter().map(one).collect::<Vec<_>>().join("\n          ")
}

/// The only author of a log whom a query names exactly.
fn author_named(query: &Query, log: &Log) -> Result<KeyName, CliError> {
    let mut found: Vec<(KeyName, String)> = Vec::new();
    let exact = query.exact();
    for certificate in log.certificates() {
        let Ok(cert) = read_cert(certificate.as_octets()) else { continue };
        let is_named = exact.as_ref().is_some_and(|query| names(query, &cert));
        if is_named && found.iter().all(|(name, _)| *name != certificate.name()) {
            found.push((certificate.name(), talaria::described(&cert)));
        }
    }
    match found.len() {
        1 => Ok(found.remove(0).0),
        0 => Err(CliError::Missing(format!(
            "{query} is no author of this log; to see the authors: talaria log list --grants"
        ))),
        count => Err(CliError::Ambiguous {
            query: query.to_string(),
            count: count.to_string(),
            candidates: found.into_iter().map(|(_, described)| described).collect(),
        }),
    }
}

/// Reads the identity of an entry.
fn parse_entry(text: &str) -> Result<EntryId, String> {
    text.parse().map_err(|_| "an identity has 64 hexadecimal digits".to_owned())
}

/// The first digits of an identity, for people.
fn short(id: &impl ToString) -> String {
    id.to_string()[..16].to_owned()
}
