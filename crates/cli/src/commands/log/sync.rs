//! `talaria log sync`

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use talaria_log::{EntryId, FolderReplica, LogError, SessionReport};
use talaria_log_net::{NodePublic, Stop, Synced};

use super::folder::open;
use super::identity::parse_entry;
use super::{node, serve};
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::render::counted;
use crate::services::networks;

/// Exchange entries with another node, once
///
/// Connects with a node that serves the log (`talaria log serve`). Afterwards each side has what
/// the other one had. Both keys must be published: `talaria log node publish`. If the folder has no
/// log, a copy is made; then --expect and --peer-key say which log and which node, as its owner
/// says.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of the node
    #[arg(value_name = "HOST:PORT")]
    address: String,
    /// Identity of the log, as its owner says
    #[arg(long, value_name = "LOG", value_parser = parse_entry)]
    expect: Option<EntryId>,
    /// Public key that the node must have; it need not be published
    #[arg(long, value_name = "KEY")]
    peer_key: Option<NodePublic>,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let networks = networks()?;
    let replica = match open(folder, cx) {
        Ok(log) => {
            if let Some(wanted) = args.expect.filter(|wanted| *wanted != log.id()) {
                let (name, found) = (folder.display().to_string(), log.id());
                return Err(LogError::Unexpected { name, found, wanted }.into());
            }
            FolderReplica::new(Arc::new(log))
        }
        Err(CliError::Log(LogError::NotALog { .. })) => {
            let (Some(log), Some(_)) = (args.expect, args.peer_key) else {
                return Err(CliError::Usage(format!(
                    "{} has no log: to make a copy of one, say which log and which node: --expect LOG --peer-key KEY",
                    folder.display()
                )));
            };
            FolderReplica::wanted(folder, log)
        }
        Err(error) => return Err(error),
    };
    let secret = node::secret(folder)?;
    let log = replica.id();
    let Synced { peer, report, result, .. } = cx.step("Exchanging entries", || {
        (networks.sync_log)(replica, &secret, args.peer_key, &args.address, &Stop::default())
    })?;
    let is_complete = report.is_complete();
    if cx.json {
        let json = serde_json::json!({
            "action": "log sync", "log": log.to_string(), "address": args.address,
            "peer": peer.to_string(), "added": report.added, "known": report.known,
            "values": report.values,
            "waiting": report.waiting, "ahead": report.ahead, "lacking": report.lacking,
            "sent": report.sent, "refused": report.refused, "complete": result.is_ok() && is_complete,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else if result.is_ok() || report != SessionReport::default() {
        cx.status(format_args!("{}: {}", args.address, serve::traffic(&report)));
        if report.values > 0 {
            cx.status(format_args!(
                "  {} of known entries received",
                counted(report.values, "deletable value")
            ));
        }
        for (kind, count) in &report.refused {
            cx.status(format_args!("  {} refused ({kind})", counted(*count, "entry")));
        }
        if report.waiting > 0 {
            cx.status(format_args!(
                "  {} not taken, because entries before them are missing.",
                counted(report.waiting, "entry")
            ));
        }
        if report.ahead > 0 {
            cx.status(format_args!(
                "  {} not taken, because their clock is more than a minute ahead. Check both clocks, and try again later.",
                counted(report.ahead, "entry")
            ));
        }
    }
    result?;
    Ok(ExitCode::from(u8::from(!is_complete)))
}
