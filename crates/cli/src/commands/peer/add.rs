//! `talaria peer add`

use std::process::ExitCode;

use talaria::cert::View;
use talaria::store::{Access, Peer};

use super::Target;
use crate::context::Context;
use crate::error::CliError;

/// Add a gossip peer, or change one
///
/// The operator of the peer has to add this server on his side, too.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The peer; the port of gossip is 11370 if none is named
    #[arg(value_name = "HOST[:PORT]")]
    peer: Target,
    /// The data set that it has: sks or hockeypuck-2.3 (see `talaria peer probe`)
    #[arg(long, value_name = "VIEW", default_value = "sks")]
    view: View,
    /// The port of its HKP, if it is another than what it says itself
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    http_port: Option<u16>,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Create)?;
    let peer = Peer {
        host: args.peer.host.clone(),
        port: args.peer.port,
        http_port: args.http_port,
        view: args.view,
    };
    stores.writable()?.add_peer(&peer)?;
    cx.status(format_args!("Added {} with view {}.", args.peer, args.view.name()));
    Ok(ExitCode::SUCCESS)
}
