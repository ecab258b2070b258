//! `talaria peer list`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::cert::hex::Upper;
use talaria::cert::timestamp;
use talaria_server::{Access, GivenUp, Operator};

use super::settings::Settings;
use super::target::{Target, name};
use crate::context::Context;
use crate::error::CliError;

/// List the gossip peers
///
/// With --config, also lists the peers of the configuration and of its membership file.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// List the certificates that peers announced and failed to deliver, by their digests
    #[arg(long, conflicts_with = "config")]
    given_up: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let config = args.settings.read()?;
    let operator = cx.operator(Access::Read)?;
    if args.given_up {
        return given_up(&operator, cx);
    }
    let stored = operator.peers()?;
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

fn given_up(operator: &Operator, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut out = cx.stdout();
    for GivenUp { peer, view, digest, tries, time } in operator.given_up()? {
        let digest = Upper(&digest).to_string();
        let (view, last) = (view.name(), timestamp(time));
        // Its last colon stands before the port.
        let (host, port) = peer.rsplit_once(':').unwrap_or((&peer, ""));
        let port: u16 = port.parse().unwrap_or_default();
        if cx.json {
            let json = serde_json::json!({
                "host": host, "port": port, "view": view, "digest": digest, "tries": tries,
                "last_try": last,
            });
            writeln!(out, "{json}")?;
        } else {
            let peer = Target { host: host.to_owned(), port };
            let tries = if tries == 1 { "1 try".into() } else { format!("{tries} tries") };
            writeln!(out, "{peer} view {view} {digest} {tries}, last {last}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
