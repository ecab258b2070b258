//! `talaria peer add`

use std::process::ExitCode;

use talaria::cert::View;
use talaria_server::{Access, Peer};

use super::target::Target;
use crate::context::{Content, Context};
use crate::error::CliError;

/// Add a gossip peer, or change one
///
/// The operator of the peer must add your server as well.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Peer; the default port is 11370
    #[arg(value_name = "HOST[:PORT]")]
    peer: Target,
    /// Data set (view) of the peer: sks, hockeypuck-2.1, hockeypuck-2.3 or hockeypuck-2.4 (see
    /// `talaria peer probe`)
    #[arg(long, value_name = "VIEW", default_value = "sks")]
    view: View,
    /// HKP port, if it differs from what the peer announces
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    http_port: Option<u16>,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let peer = Peer {
        host: args.peer.host.clone(),
        port: args.peer.port,
        http_port: args.http_port,
        view: args.view,
    };
    cx.operator(Access::Create)?.add_peer(peer.clone())?;
    cx.status(format_args!("Added {} with view {}.", args.peer, args.view.name()));
    let json = serde_json::json!({
        "action": "add_peer", "host": peer.host, "port": peer.port, "http_port": peer.http_port,
        "view": peer.view.name(),
    });
    cx.report(Content::Elsewhere, &json)?;
    Ok(ExitCode::SUCCESS)
}
