//! `talaria peer list`

use std::io::Write as _;
use std::process::ExitCode;

use talaria_server::Access;

use super::{Settings, name};
use crate::context::Context;
use crate::error::CliError;

/// List the gossip peers
///
/// With --config, also lists the peers of the configuration and of its membership file.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let config = args.settings.read()?;
    let stored = cx.operator(Access::Read)?.peers()?;
    let mut out = cx.stdout();
    for (peer, origin) in talaria_server::peers(&config, stored)? {
        if cx.json {
            let json = serde_json::json!({
                "host": peer.host, "port": peer.port, "http_port": peer.http_port,
                "view": peer.view.name(), "origin": origin.name(),
            });
            writeln!(out, "{json}")?;
            continue;
        }
        let http = peer.http_port.map(|port| format!(", HKP at port {port}")).unwrap_or_default();
        let (view, origin) = (peer.view.name(), origin.name());
        writeln!(out, "{} view {view}{http} ({origin})", name(&peer))?;
    }
    Ok(ExitCode::SUCCESS)
}
