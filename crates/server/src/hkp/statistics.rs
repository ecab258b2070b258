//! The statistics for programs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::answer::{Answer, Refusal, json};
use crate::clock;
use crate::config::{Config, Settings};
use crate::engine::Engine;
use crate::figures::Figures;
use crate::gossip::Peers;
use crate::metrics::{Metrics, RequestKind};

/// Answers with the statistics in JSON.
#[derive(Clone)]
pub(crate) struct Statistics {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) figures: Arc<Figures>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) started: Instant,
}

impl Statistics {
    /// The statistics for programs, with the fields that crawlers of the network know from
    /// Hockeypuck.
    pub(crate) async fn answer(&self) -> Result<Answer, Refusal> {
        let changes = self.figures.changes().await;
        let this = self.clone();
        let answer = async move || {
            let config = this.settings.load();
            let certs = this.figures.certs_now().await?;
            let last_change = this.engine.reading().await?.last_change().await?;
            // Beside our own names, those of Hockeypuck.
            let mut peers = Vec::new();
            for peer in this.peers.statuses().await? {
                let mut entry = serde_json::to_value(&peer).unwrap_or_default();
                if let Some(entry) = entry.as_object_mut() {
                    entry.insert("Name".into(), peer.name.clone().into());
                    entry.insert("reconAddr".into(), peer.name.clone().into());
                    // Hockeypuck has no scheme there.
                    let http = peer.http.as_deref().unwrap_or_default();
                    let http = http.trim_start_matches("http://").trim_start_matches("https://");
                    entry.insert("httpAddr".into(), http.into());
                }
                peers.push(entry);
            }
            let days: Vec<serde_json::Value> = changes
                .iter()
                .flat_map(|changes| &changes.value)
                .map(|&(day, [new, updated, deleted])| {
                    serde_json::json!({
                        "day": clock::day_text(day), "new": new, "updated": updated, "deleted": deleted,
                    })
                })
                .collect();
            Ok(json(&serde_json::json!({
                "now": talaria_cert::timestamp(clock::now()),
                "nodename": config.server.hostname,
                "httpAddr": public_address(&config, config.http.listen.first()),
                "reconAddr": public_address(&config, config.gossip.listen.first()),
                "server_contact": config.server.operator,
                "queryConfig": {
                    "selfSignedOnly": false,
                    "keywordSearchDisabled": !config.policy.word_search,
                },
                "Total": certs,
                "software": "talaria",
                "version": env!("CARGO_PKG_VERSION"),
                "hostname": config.server.hostname,
                "contact": config.server.contact,
                "operator": config.server.operator,
                "numkeys": certs,
                "last_change": last_change,
                "uptime_s": this.started.elapsed().as_secs(),
                "days": days,
                "days_counted": changes.map(|changes| talaria_cert::timestamp(changes.time)),
                "requests": RequestKind::ALL.iter().zip(this.metrics.requests())
                    .map(|(kind, n)| (kind.name().to_owned(), n.into()))
                    .collect::<serde_json::Map<_, _>>(),
                "peers": peers,
            })))
        };
        self.engine.long(answer).await
    }
}

/// The public name of the server with the port of one of its addresses; empty if there is none.
fn public_address(config: &Config, address: Option<&SocketAddr>) -> String {
    let name = config.server.hostname.split(':').next().unwrap_or_default();
    address.map_or_else(String::new, |address| format!("{name}:{}", address.port()))
}
