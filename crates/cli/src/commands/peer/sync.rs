//! `talaria peer sync`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::cert::View;
use talaria_server::{Access, Operator};

use super::settings::{Settings, named};
use super::target::{Target, name};
use crate::context::Context;
use crate::error::CliError;

/// Compare the store with a peer and fetch what is missing
///
/// Runs one exchange, also while a server uses the store. The peer fetches the certificates that it
/// lacks by itself.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Peer; the default port is 11370
    #[arg(value_name = "HOST[:PORT]")]
    peer: Target,
    /// Data set (view) of the peer: sks, hockeypuck-2.1, hockeypuck-2.3 or hockeypuck-2.4 [default:
    /// as added, or sks]
    #[arg(long, value_name = "VIEW")]
    view: Option<View>,
    /// Also retry certificates that the peer failed to deliver
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let config = args.settings.read()?;
    cx.make_folder()?;
    let peer = named(&args.peer, args.view, &config, cx.path()?)?;
    if args.again {
        let operator = Operator::open(cx.path()?, Access::Create)?;
        let forgotten = operator.ask_again(&peer.host, peer.port)?;
        cx.status(format_args!(
            "Retrying {forgotten} certificates that could not be fetched before."
        ));
    }
    let synced = talaria_server::sync(cx.path()?, config, &peer)?;
    let mut out = cx.stdout();
    if cx.json {
        let json = serde_json::json!({
            "host": peer.host, "port": peer.port, "view": peer.view.name(),
            "wanted": synced.wanted, "given_up": synced.given_up, "fetched": synced.fetched,
            "new": synced.new, "updated": synced.updated, "requests": synced.requests,
        });
        writeln!(out, "{json}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{}: {} wanted, {} fetched, {} new, {} updated",
        name(&peer),
        synced.wanted,
        synced.fetched,
        synced.new,
        synced.updated
    )?;
    if synced.given_up > 0 {
        cx.status(format_args!(
            "{} were skipped because fetching them failed before; --again retries them.",
            synced.given_up
        ));
    }
    Ok(ExitCode::SUCCESS)
}
