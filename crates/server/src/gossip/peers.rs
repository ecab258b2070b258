//! Gossip peers: from the membership file, the configuration, and the store.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::Mutex;
use talaria_cert::View;

use crate::answer::Refusal;
use crate::config::{Config, ConfigError, Settings};
use crate::engine::{Engine, Peer};

/// The source of a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// In the membership file.
    Membership,
    /// In the configuration.
    Config,
    /// In the store, by `talaria peer add`.
    Store,
}

impl Origin {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Membership => "membership file",
            Self::Config => "configuration",
            Self::Store => "store",
        }
    }
}

/// The name of a peer in the log and on the pages.
pub(crate) fn name(peer: &Peer) -> String {
    Peer::name(&peer.host, peer.port)
}

/// The state of gossip with a peer.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct PeerStatus {
    /// Its name and gossip port.
    pub(crate) name: String,
    pub(crate) view: String,
    /// The address from which its certificates are fetched.
    pub(crate) http: Option<String>,
    /// Its software and the version of that, as it names them over HTTP.
    pub(crate) version: Option<String>,
    /// When it was asked for its software, in seconds since 1970.
    #[serde(skip)]
    pub(crate) asked: u32,
    /// The end of the last finished exchange, in seconds since 1970.
    pub(crate) last_exchange: Option<u32>,
    pub(crate) exchanges: u64,
    pub(crate) failures: u64,
    /// Failures since the last success.
    pub(crate) failing: u32,
    pub(crate) last_failure: Option<u32>,
    pub(crate) last_error: Option<String>,
    /// Digests that it had and we had not, over all exchanges.
    pub(crate) learnt: u64,
    pub(crate) fetched: u64,
    /// The requests of the last exchange; one is enough where all is equal.
    pub(crate) last_requests: u64,
    /// The seconds that the last exchange took, with fetching and storing.
    pub(crate) last_seconds: f64,
}

/// The peers of a running server.
#[derive(Debug)]
pub(crate) struct Peers {
    settings: Settings,
    engine: Engine,
    statuses: Mutex<Vec<PeerStatus>>,
    addresses: Addresses,
}

impl Peers {
    pub(crate) fn new(settings: Settings, engine: Engine) -> Self {
        Self { settings, engine, statuses: Mutex::default(), addresses: Addresses::default() }
    }

    /// All peers.
    pub(crate) async fn all(&self) -> Result<Vec<Peer>, Refusal> {
        let config = self.settings.load();
        let peers = known(&config, self.engine.reading().await?.peers().await?)
            .map_err(|error| Refusal::Unavailable(talaria::describe(&error)))?;
        Ok(peers.into_iter().map(|(peer, _)| peer).collect())
    }

    /// The peers at an address.
    pub(crate) async fn at(&self, address: IpAddr) -> Vec<Peer> {
        let peers = match self.all().await {
            Ok(peers) => peers,
            Err(error) => {
                tracing::error!(%error, "cannot read the list of peers");
                return Vec::new();
            }
        };
        // Side by side, since one of them may be slow.
        let found = peers.iter().map(|peer| self.addresses.of(&peer.host));
        let found = join_all(found).await;
        let here = peers.into_iter().zip(found);
        here.filter(|(_, found)| found.contains(&address.to_canonical()))
            .map(|(peer, _)| peer)
            .collect()
    }

    /// Changes the status of a peer.
    pub(crate) fn note(&self, name: &str, change: impl FnOnce(&mut PeerStatus)) {
        let mut statuses = self.statuses.lock();
        let at = statuses.iter().position(|peer| peer.name == name).unwrap_or_else(|| {
            statuses.push(PeerStatus { name: name.to_owned(), ..PeerStatus::default() });
            statuses.len() - 1
        });
        change(&mut statuses[at]);
    }

    /// The status of a peer that was talked to.
    pub(crate) fn status(&self, name: &str) -> Option<PeerStatus> {
        let statuses = self.statuses.lock();
        statuses.iter().find(|status| status.name == name).cloned()
    }

    /// The status of all peers: those that were talked to, and those that are configured only.
    pub(crate) async fn statuses(&self) -> Result<Vec<PeerStatus>, Refusal> {
        let mut all = self.statuses.lock().clone();
        for peer in self.all().await? {
            let name = name(&peer);
            if all.iter().all(|known| known.name != name) {
                let view = peer.view.name().into();
                all.push(PeerStatus { name, view, ..PeerStatus::default() });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

/// All peers, and where each is named. One that is named in several places is as the last of them
/// says: the membership file, the configuration, the store.
pub(crate) fn known(
    config: &Config,
    stored: Vec<Peer>,
) -> Result<Vec<(Peer, Origin)>, ConfigError> {
    let mut peers: Vec<(Peer, Origin)> = Vec::new();
    let mut add = |peer: Peer, origin| {
        peers.retain(|(known, _)| (&known.host, known.port) != (&peer.host, peer.port));
        peers.push((peer, origin));
    };
    if let Some(path) = &config.gossip.membership {
        membership(path)?.into_iter().for_each(|peer| add(peer, Origin::Membership));
    }
    for peer in &config.gossip.peers {
        let peer = Peer {
            host: peer.host.clone(),
            port: peer.port,
            http_port: peer.http_port,
            view: peer.view.parse().unwrap_or(View::Sks),
        };
        add(peer, Origin::Config);
    }
    stored.into_iter().for_each(|peer| add(peer, Origin::Store));
    Ok(peers)
}

/// The addresses of the hosts of peers, and when they were looked up.
#[derive(Debug, Default)]
struct Addresses(Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>);

/// The time for which an address is believed: peers move.
const LOOKED_UP: Duration = Duration::from_secs(60);

/// The time for looking up a name.
const LOOK_UP: Duration = Duration::from_secs(5);

impl Addresses {
    /// The addresses of a host; none if it cannot be looked up.
    async fn of(&self, host: &str) -> Vec<IpAddr> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return vec![address.to_canonical()];
        }
        let known = self.0.lock().get(host).cloned();
        if let Some((since, addresses)) = known
            && since.elapsed() < LOOKED_UP
        {
            return addresses;
        }
        let found = tokio::time::timeout(LOOK_UP, tokio::net::lookup_host((host, 0))).await;
        let found = found.map(|found| found.map(Iterator::collect::<Vec<_>>));
        let addresses: Vec<IpAddr> = match found {
            Ok(Ok(found)) => found.into_iter().map(|found| found.ip().to_canonical()).collect(),
            Ok(Err(_)) | Err(_) => Vec::new(),
        };
        let mut known = self.0.lock();
        known.retain(|_, (since, _)| since.elapsed() < LOOKED_UP);
        known.insert(host.to_owned(), (Instant::now(), addresses.clone()));
        addresses
    }
}

/// Reads a membership file of SKS: a host and a port per line, `#` before a comment.
fn membership(path: &Path) -> Result<Vec<Peer>, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(parse_membership(&text)),
        Err(source) => Err(ConfigError::Io { path: path.to_owned(), source }),
    }
}

/// Lines that name no host and port are passed over.
pub(crate) fn parse_membership(text: &str) -> Vec<Peer> {
    text.lines()
        .filter_map(|line| {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let (host, port) = (words.next()?, words.next()?.parse().ok()?);
            Some(Peer { host: host.to_owned(), port, http_port: None, view: View::Sks })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_membership_file_of_sks_is_read() {
        let text = "# ours\nkeys.example.org 11370 # <op@example.org> 0xFFFF\n\n  192.0.2.1\t11380\n\
                    broken\nkeys.example.net port\n2001:db8::1 11370";
        let peers = parse_membership(text);
        let short: Vec<_> = peers.iter().map(|peer| (peer.host.as_str(), peer.port)).collect();
        assert_eq!(
            short,
            [("keys.example.org", 11370), ("192.0.2.1", 11380), ("2001:db8::1", 11370)]
        );
    }
}
