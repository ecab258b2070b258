//! `talaria peer again`

use std::process::ExitCode;

use talaria_server::Access;

use super::target::Target;
use crate::context::{Content, Context};
use crate::error::CliError;

/// Ask a peer again for certificates that it failed to deliver
///
/// Forgets the failed attempts that `talaria peer list --given-up` shows. A running server asks at
/// the next exchange with the peer.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Peer; the default port is 11370
    #[arg(value_name = "HOST[:PORT]")]
    peer: Target,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let Target { host, port } = &args.peer;
    let forgotten = cx.operator(Access::Write)?.ask_again(host, *port)?;
    let what = if forgotten == 1 { "certificate" } else { "certificates" };
    cx.status(format_args!("{} will be asked again for {forgotten} {what}.", args.peer));
    let json = serde_json::json!({
        "action": "peer_again", "host": host, "port": port, "certificates": forgotten,
    });
    cx.report(Content::Elsewhere, &json)?;
    Ok(ExitCode::SUCCESS)
}
