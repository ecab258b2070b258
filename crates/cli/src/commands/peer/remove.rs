//! `talaria peer remove`

use std::process::ExitCode;

use talaria_server::Access;

use super::target::Target;
use crate::context::{Content, Context};
use crate::error::CliError;

/// Remove a gossip peer
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Peer, as `talaria peer list` shows it
    #[arg(value_name = "HOST[:PORT]")]
    peer: Target,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    if !cx.operator(Access::Write)?.remove_peer(&args.peer.host, args.peer.port)? {
        return Err(CliError::Missing(format!(
            "{} is not a peer in the store; to list the peers: talaria peer list",
            args.peer
        )));
    }
    cx.status(format_args!("Removed {}.", args.peer));
    let json = serde_json::json!({
        "action": "remove_peer", "host": args.peer.host, "port": args.peer.port,
    });
    cx.report(Content::Elsewhere, &json)?;
    Ok(ExitCode::SUCCESS)
}
