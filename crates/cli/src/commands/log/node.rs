//! `talaria log node`

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use talaria_log::{Action, EntryId, KeyName, Log, LogError, NodeKey};
use talaria_log_net::{NodePublic, NodeSecret};

use super::author::SignArgs;
use super::folder::open;
use super::people::{people, person};
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::render::printable;
use crate::terminal::{PagerArgs, Paint};

/// Say which nodes may connect
///
/// Each node has a key for its connections, in its folder. A node talks only to nodes whose keys
/// are published in the log. An author publishes the key of each of their nodes; the key ends with
/// the author or their grant, or when they end it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the key of this node
    ///
    /// Prints the public key. If the folder has no key, one is made; the folder need not have a log
    /// yet.
    Key,
    /// Publish the key of a node
    Publish(PublishArgs),
    /// End the key of a node
    ///
    /// Connections with this key end, and no new ones are made. Authors end their own keys, and
    /// owners end all keys.
    End(EndArgs),
    /// List the keys of nodes
    List(ListArgs),
}

#[derive(Debug, clap::Args)]
struct PublishArgs {
    /// Public key of the node [default: the key of this node]
    #[arg(value_name = "KEY")]
    key: Option<NodePublic>,
    /// Name of the node, for people
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    sign: SignArgs,
}

#[derive(Debug, clap::Args)]
struct EndArgs {
    /// Public key of the node
    #[arg(value_name = "KEY")]
    key: NodePublic,
    #[command(flatten)]
    sign: SignArgs,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    pager: PagerArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Key => key(folder, cx),
        Command::Publish(args) => publish(args, folder, cx),
        Command::End(args) => end(args, folder, cx),
        Command::List(args) => list(args, folder, cx),
    }
}

/// The key of the node in a folder. Both are made if they do not exist.
pub(super) fn secret(folder: &Path) -> Result<NodeSecret, CliError> {
    let failed = |source| LogError::Io { action: "make", path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    Ok(NodeSecret::of_folder(folder)?)
}

fn key(folder: &Path, cx: &Context) -> Result<ExitCode, CliError> {
    let key = secret(folder)?.public();
    if cx.json {
        let json = serde_json::json!({ "action": "log node key", "key": key.to_string() });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        writeln!(cx.stdout(), "{key}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn publish(args: &PublishArgs, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    let key = match args.key {
        Some(key) => key,
        None => secret(folder)?.public(),
    };
    if log.read(|log| log.node(&key.0).is_some())? {
        return Err(CliError::Missing(format!(
            "the key {key} is published already; to see the keys: talaria log node list"
        )));
    }
    let node = NodeKey { key: key.0, name: args.name.clone().unwrap_or_default() };
    let id = author.put(&log, Action::PublishNode(node), cx.now_ms())?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log node publish", "entry": id.to_string(), "key": key.to_string(),
            "name": args.name,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!("The node with the key {key} may connect."));
    }
    Ok(ExitCode::SUCCESS)
}

fn end(args: &EndArgs, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    let key = args.key;
    // A key can be published more than once.
    let open: Vec<EntryId> = log.read(|log| {
        let with_key = log.nodes().filter(|(_, _, node, may)| *may && node.key == key.0);
        with_key.map(|(id, ..)| id).collect()
    })?;
    if open.is_empty() {
        return Err(CliError::Missing(format!(
            "no node with the key {key} may connect; to see the keys: talaria log node list"
        )));
    }
    let mut ended = Vec::new();
    for id in open {
        ended.push(author.put(&log, Action::EndNode(id), cx.now_ms())?.to_string());
    }
    if cx.json {
        let json = serde_json::json!({
            "action": "log node end", "entries": ended, "key": key.to_string(),
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!("The node with the key {key} may not connect any more."));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(args: &ListArgs, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let log = open(folder, cx)?;
    let lines = log.read(|log| lines(log, cx))?;
    drop(log);
    let mut out = args.pager.open(cx.form());
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn lines(log: &Log, cx: &Context) -> Vec<String> {
    let people = people(log);
    let paint = Paint::stdout();
    let line = |(id, author, node, may): (EntryId, KeyName, &NodeKey, bool)| {
        let key = NodePublic(node.key);
        if cx.json {
            let json = serde_json::json!({
                "entry": id.to_string(), "key": key.to_string(), "name": node.name,
                "author": author.to_string(), "may_connect": may,
            });
            return json.to_string();
        }
        let state = if may { paint.good("may connect") } else { paint.doubtful("ended") };
        let name = printable(node.name.as_bytes());
        format!("{state}  {}  {name}  {}", paint.handle(key), person(&author, &people))
    };
    log.nodes().map(line).collect()
}
