//! Paths for an operator's programs: readiness and metrics.

pub(crate) mod orders;

use std::sync::Arc;
use std::time::Instant;

use talaria_cert::View;
use talaria_recon::PrefixTree;

use crate::answer::{Answer, Refusal, media, ok};
use crate::config::Settings;
use crate::engine::Engine;
use crate::figures::Figures;
use crate::memory::{Memory, resident_bytes};
use crate::metrics::Metrics;
use crate::operators::operators_only;
use crate::request::Request;

/// Answers the paths for an operator's programs.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) figures: Arc<Figures>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) started: Instant,
}

impl Admin {
    /// Answers `/ready`: whether the store is at its place and can be read, and somebody writes to
    /// it.
    pub(crate) async fn ready(&self) -> Result<Answer, Refusal> {
        if self.engine.progress().has_ended {
            return Err(Refusal::Unavailable(
                "the server has stopped writing to its store; see its log".into(),
            ));
        }
        self.engine.check().await?;
        // Anybody may ask, as often as they like: one row is read.
        self.engine.reading().await?.last_change().await?;
        Ok(ok(media::TEXT, "ready\n"))
    }

    /// Answers `/metrics`.
    pub(crate) async fn metrics(&self, request: &Request) -> Result<Answer, Refusal> {
        operators_only(&self.settings.load(), request)?;
        let admin = self.clone();
        let body = async move || {
            let text = admin.metrics.text(&admin.gauges().await?);
            text.map_err(|error| Refusal::Unavailable(format!("the metrics are wrong: {error}")))
        };
        let body = self.engine.long(body).await?;
        Ok(ok("text/plain; version=0.0.4; charset=utf-8", body))
    }

    /// The figures of the moment: name, help, value.
    #[expect(clippy::cast_precision_loss, reason = "figures for plots")]
    async fn gauges(&self) -> Result<Vec<(&'static str, &'static str, f64)>, Refusal> {
        let certs = self.figures.certs_now().await?;
        let last_change = self.engine.reading().await?.last_change().await?;
        let progress = self.engine.progress();
        let mut gauges = vec![
            ("certs", "Certificates in the store.", certs as f64),
            ("last_change", "Number of the last change.", last_change as f64),
            ("writes_waiting", "Uploads waiting for the disk.", progress.waiting as f64),
            ("commits", "Transactions since the start.", progress.commits as f64),
            ("uptime_seconds", "Seconds since the start.", self.started.elapsed().as_secs_f64()),
            ("resident_bytes", "Memory of the process.", resident_bytes() as f64),
            (
                "request_bytes",
                "Memory of requests that are being read or answered.",
                self.memory.requests.taken() as f64,
            ),
            (
                "answer_bytes",
                "Memory of answers that are not yet sent.",
                (self.memory.answers.taken() + self.memory.small_answers.taken()) as f64,
            ),
        ];
        if let Some(in_vain) = self.figures.in_vain().await {
            let help = "Certificates that a peer announced and did not deliver.";
            gauges.push(("gossip_unobtainable", help, in_vain as f64));
        }
        for view in View::ALL {
            let Some(len) = self.engine.with_tree(view, PrefixTree::len) else { continue };
            let name = match view {
                View::Sks => "digests_sks",
                View::Hockeypuck21 => "digests_hockeypuck21",
                View::Hockeypuck23 => "digests_hockeypuck23",
                View::Hockeypuck24 => "digests_hockeypuck24",
            };
            gauges.push((name, "Digests in the prefix tree of a view.", len as f64));
        }
        Ok(gauges)
    }
}
