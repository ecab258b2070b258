//! `talaria peer probe`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::cert::View;

use super::settings::{Settings, named};
use super::target::{Target, name};
use crate::context::Context;
use crate::error::CliError;

/// Ask a keyserver for its software and data set
///
/// The exit status is 1 if the data set is unknown, or not the one given with --view.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keyserver; the default port is 11370
    #[arg(value_name = "HOST[:PORT]")]
    peer: Target,
    /// Expected data set (view): sks, hockeypuck-2.1, hockeypuck-2.3 or hockeypuck-2.4 [default:
    /// any]
    #[arg(long, value_name = "VIEW")]
    view: Option<View>,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let config = args.settings.read()?;
    let peer = named(&args.peer, args.view, &config, cx.path()?)?;
    let probed = talaria_server::probe(&config, &peer)?;
    let view = probed.view();
    let fits = match args.view {
        Some(wanted) => view == Some(wanted),
        None => view.is_some(),
    };
    let mut out = cx.report_stdout();
    if cx.json {
        let json = serde_json::json!({
            "host": peer.host, "port": peer.port, "version": probed.version,
            "http_port": probed.http_port, "filters": probed.filters,
            "bit_quantum": probed.bit_quantum, "m_bar": probed.m_bar,
            "view": view.map(View::name), "fits": fits,
        });
        writeln!(out, "{json}")?;
    } else {
        writeln!(out, "{}", name(&peer))?;
        writeln!(out, "  version   {}", probed.version.escape_debug())?;
        writeln!(out, "  HKP port  {}", probed.http_port)?;
        writeln!(out, "  filters   {}", probed.filters.escape_debug())?;
        writeln!(out, "  view      {}", view.map_or("none that is known here", View::name))?;
    }
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
