//! `talaria serve`

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria_server::{Config, Server};

use crate::context::Context;
use crate::error::CliError;

/// Run a keyserver on the store
///
/// Works without a configuration file: HKP, its second version and the pages at the given address.
/// SIGHUP reads the configuration again, SIGTERM lets open requests end. Other commands can be used
/// on the store meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on (can be repeated) [default: 127.0.0.1:11371]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Address to listen on for gossip with other keyservers (can be repeated) [default: no gossip]
    #[arg(long, value_name = "ADDRESS:PORT")]
    gossip: Vec<SocketAddr>,
    /// Configuration file, TOML; what is on the command line comes first
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the configuration in force, and end
    #[arg(long)]
    show_config: bool,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    if !args.listen.is_empty() {
        config.http.listen.clone_from(&args.listen);
    }
    if !args.gossip.is_empty() {
        config.gossip.listen.clone_from(&args.gossip);
    }
    config.validate()?;
    if args.show_config {
        write!(std::io::stdout().lock(), "{}", config.to_toml())?;
        return Ok(ExitCode::SUCCESS);
    }
    talaria_server::start_log(&config.log);
    cx.make_folder()?;
    let scheme = if config.http.tls_certificate.is_some() { "https" } else { "http" };
    let server = Server::start(cx.path(), config, args.config.clone())?;
    for address in server.addresses() {
        cx.status(format_args!("Serving {} at {scheme}://{address}/", cx.path().display()));
    }
    for address in server.gossip_addresses() {
        cx.status(format_args!("Gossiping at {address}"));
    }
    server.run();
    Ok(ExitCode::SUCCESS)
}
