//! `talaria peer sync`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::cert::View;
use talaria::store::{Access, Store};

use super::{Settings, Target, name, named};
use crate::context::Context;
use crate::error::CliError;

/// Compare the store with a peer now, and fetch what the peer has more
///
/// Once, and also while a server runs on the store. What the peer lacks it has to fetch itself.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The peer; the port of gossip is 11370 if none is named
    #[arg(value_name = "HOST[:PORT]")]
    peer: Target,
    /// The data set that it has: sks or hockeypuck-2.3 [default: what is known of the peer, or sks]
    #[arg(long, value_name = "VIEW")]
    view: Option<View>,
    /// Ask again for what no peer could give so far
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let config = args.settings.read()?;
    cx.make_folder()?;
    let peer = named(&args.peer, args.view, &config, cx.path())?;
    if args.again {
        let forgotten = Store::open(cx.path(), Access::Create)?.forget_unobtainable()?;
        cx.status(format_args!(
            "Retrying {forgotten} certificates that could not be fetched before."
        ));
    }
    let synced = talaria_server::sync(cx.path(), config, &peer)?;
    let mut out = std::io::stdout().lock();
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
