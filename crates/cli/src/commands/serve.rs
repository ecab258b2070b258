//! `talaria serve`

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::cert::ThirdParty;
use talaria_server::{Config, Server};

use crate::context::Context;
use crate::error::CliError;
use crate::stderr::say;
use crate::terminal::{Form, Output};

/// Run a keyserver on the store
///
/// Serves HKP, HKP version 2 and web pages; no configuration file is needed. SIGHUP reloads the
/// configuration, SIGTERM stops the server after open requests are answered. Other commands can use
/// the store meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on (can be repeated) [default: 127.0.0.1:11371]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    listen: Vec<SocketAddr>,
    /// Address to listen on for gossip with other keyservers (can be repeated) [default: no gossip]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    gossip: Vec<SocketAddr>,
    /// Third-party signatures to serve: "verified" by a key in the store, or "all" [default:
    /// verified]
    #[arg(long, value_name = "WHICH")]
    third_party: Option<ThirdParty>,
    /// Configuration file (TOML); command line options override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the effective configuration and exit
    #[arg(long)]
    show_config: bool,
}

fn parse_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "an address is IP:PORT, such as 127.0.0.1:11371, 0.0.0.0:11371 or [::]:11371")
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
    if let Some(chosen) = args.third_party {
        config.set_third_party(chosen);
    }
    config.validate()?;
    if args.show_config {
        let text = config.to_toml();
        if cx.json {
            let value: toml::Table = text
                .parse()
                .map_err(|error: toml::de::Error| CliError::Usage(error.to_string()))?;
            writeln!(cx.stdout(), "{}", serde_json::json!(value))?;
            return Ok(ExitCode::SUCCESS);
        }
        write!(Output::stdout(Form::Exact), "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    config.check_files()?;
    let log = talaria_server::start_log(&config.log);
    let served = serve(args, config, cx);
    drop(log);
    match served {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Ok(error.report_in_time(cx.json)),
    }
}

fn serve(args: &Args, config: Config, cx: &Context) -> Result<(), CliError> {
    cx.make_folder()?;
    let scheme = if config.http.tls_certificate.is_some() { "https" } else { "http" };
    let is_new = !cx.path()?.exists();
    let server = Server::start(cx.path()?, config, args.config.clone())?;
    let what = if is_new { "the new, empty store " } else { "" };
    let store = format!("{what}{}", cx.path()?.display());
    let addresses = server.addresses().into_iter();
    let mut lines: Vec<String> =
        addresses.map(|address| format!("Serving {store} at {scheme}://{address}/")).collect();
    let gossip = server.gossip_addresses().into_iter();
    lines.extend(gossip.map(|address| format!("Gossiping at {address}")));
    if !cx.quiet {
        // The server does not wait for the reader of standard error.
        std::thread::spawn(move || lines.iter().for_each(|line| say(format_args!("{line}"))));
    }
    Ok(server.run()?)
}
