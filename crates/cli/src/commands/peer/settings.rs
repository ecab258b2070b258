//! The settings of a server, and those of its peers.

use std::path::{Path, PathBuf};

use talaria::cert::View;
use talaria_server::{Access, Config, Operator, Peer};

use super::target::Target;
use crate::error::CliError;

/// The settings of a server.
#[derive(Debug, clap::Args)]
pub(super) struct Settings {
    /// Configuration file of the server, TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Settings {
    pub(super) fn read(&self) -> Result<Config, CliError> {
        Ok(self.config.as_deref().map_or_else(|| Ok(Config::default()), Config::read)?)
    }
}

/// The peer that a user named: its stored settings, with `view` if that is given. An unknown peer
/// is allowed, too.
pub(super) fn named(
    target: &Target,
    view: Option<View>,
    config: &Config,
    store: &Path,
) -> Result<Peer, CliError> {
    let stored =
        if store.exists() { Operator::open(store, Access::Read)?.peers()? } else { Vec::new() };
    let known = talaria_server::peers(config, stored)?;
    let known = known.into_iter().map(|(peer, _)| peer);
    let known = known.rev().find(|peer| peer.host == target.host && peer.port == target.port);
    let mut peer = known.unwrap_or_else(|| Peer {
        host: target.host.clone(),
        port: target.port,
        http_port: None,
        view: View::Sks,
    });
    peer.view = view.unwrap_or(peer.view);
    Ok(peer)
}
