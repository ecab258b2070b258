//! The server's metrics, in the format of Prometheus.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::Collector as _;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
    TextEncoder,
};

use crate::log;

/// Kinds of requests that are counted apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestKind {
    Get,
    Index,
    Add,
    HashQuery,
    V2,
    Vks,
    Wkd,
    Page,
    Owner,
    Other,
}

impl RequestKind {
    pub(crate) const ALL: [Self; 10] = [
        Self::Get,
        Self::Index,
        Self::Add,
        Self::HashQuery,
        Self::V2,
        Self::Vks,
        Self::Wkd,
        Self::Page,
        Self::Owner,
        Self::Other,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Index => "index",
            Self::Add => "add",
            Self::HashQuery => "hashquery",
            Self::V2 => "v2",
            Self::Vks => "vks",
            Self::Wkd => "wkd",
            Self::Page => "page",
            Self::Owner => "owner",
            Self::Other => "other",
        }
    }
}

/// Upper bounds of the buckets of durations, in seconds.
const BOUNDS: [f64; 12] =
    [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5];

/// Requests of one kind.
#[derive(Debug)]
struct Requests {
    /// By the first digit of the status, from 1 to 5.
    status: [IntCounter; 5],
    duration: Histogram,
}

/// All counters. They start at 0 with the server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: [Requests; RequestKind::ALL.len()],
    /// The counters below.
    plain: Vec<IntCounter>,
    pub(crate) connections: IntCounter,
    pub(crate) connections_refused: IntCounter,
    pub(crate) rate_limited: IntCounter,
    pub(crate) banned: IntCounter,
    pub(crate) memory_refused: IntCounter,
    pub(crate) certs_new: IntCounter,
    pub(crate) certs_updated: IntCounter,
    pub(crate) certs_unchanged: IntCounter,
    pub(crate) certs_refused: IntCounter,
    pub(crate) certs_too_costly: IntCounter,
    pub(crate) uploads_too_costly: IntCounter,
    pub(crate) exchanges: IntCounter,
    pub(crate) exchanges_failed: IntCounter,
    pub(crate) strangers: IntCounter,
    pub(crate) certs_fetched: IntCounter,
    pub(crate) certs_given: IntCounter,
    pub(crate) pushed: IntCounter,
    pub(crate) mails: IntCounter,
    pub(crate) mails_refused: IntCounter,
    /// Counts over the whole store.
    pub(crate) counted: IntCounter,
    /// The counts at the last write of the daily tally.
    tallied: Mutex<[u64; RequestKind::ALL.len()]>,
}

pub(crate) fn count(counter: &IntCounter, n: usize) {
    counter.inc_by(n as u64);
}

/// A registry, the names of which begin with that of the program.
fn registry() -> prometheus::Result<Registry> {
    Registry::new_custom(Some("talaria".into()), None)
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new().expect("all metrics have good names, and different ones")
    }
}

impl Metrics {
    fn new() -> prometheus::Result<Self> {
        let registry = registry()?;
        let answered = Opts::new("http_requests_total", "Requests that were answered.");
        let answered = IntCounterVec::new(answered, &["kind", "status"])?;
        let took = "http_request_duration_seconds";
        let took = HistogramOpts::new(took, "Time from request to answer.").buckets(BOUNDS.into());
        let took = HistogramVec::new(took, &["kind"])?;
        registry.register(Box::new(answered.clone()))?;
        registry.register(Box::new(took.clone()))?;
        let status = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        registry.register(Box::new(log::LOST.clone()))?;
        let mut plain = Vec::new();
        let mut listed = |counter: IntCounter| {
            registry.register(Box::new(counter.clone()))?;
            plain.push(counter.clone());
            prometheus::Result::Ok(counter)
        };
        let mut counter = |name, help| listed(IntCounter::new(name, help)?);
        Ok(Self {
            requests: RequestKind::ALL.map(|kind| Requests {
                status: status.map(|status| answered.with_label_values(&[kind.name(), status])),
                duration: took.with_label_values(&[kind.name()]),
            }),
            connections: counter("connections_total", "Connections accepted.")?,
            connections_refused: counter(
                "connections_refused_total",
                "Connections closed because there were too many.",
            )?,
            rate_limited: counter("rate_limited_total", "Requests refused by the rate limit.")?,
            banned: counter("banned_total", "Requests refused because their network is banned.")?,
            memory_refused: counter(
                "memory_refused_total",
                "Requests refused because others, or the same network, hold the memory.",
            )?,
            certs_new: counter("certs_new_total", "Certificates added.")?,
            certs_updated: counter("certs_updated_total", "Certificates updated with new parts.")?,
            certs_unchanged: counter(
                "certs_unchanged_total",
                "Certificates received without new parts.",
            )?,
            certs_refused: counter("certs_refused_total", "Certificates refused.")?,
            uploads_too_costly: counter(
                "uploads_too_costly_total",
                "Uploads refused because verifying them would take too much CPU time.",
            )?,
            certs_too_costly: counter(
                "gossip_certs_too_costly_total",
                "Certificates of peers left out because verifying them would take too much CPU time.",
            )?,
            exchanges: counter("gossip_exchanges_total", "Completed exchanges with peers.")?,
            exchanges_failed: counter(
                "gossip_exchanges_failed_total",
                "Failed exchanges with peers.",
            )?,
            strangers: counter(
                "gossip_strangers_total",
                "Connections for gossip from addresses that are not those of peers.",
            )?,
            certs_fetched: counter(
                "gossip_certs_fetched_total",
                "Certificates fetched from peers.",
            )?,
            certs_given: counter("gossip_certs_given_total", "Certificates sent to peers.")?,
            pushed: counter("pushed_total", "Certificates pushed to other keyservers.")?,
            mails: counter("mails_total", "Mails sent.")?,
            mails_refused: counter(
                "mails_refused_total",
                "Mails that the mail server refused for good.",
            )?,
            counted: counter("counted_total", "Counts over the whole store, for statistics.")?,
            tallied: Mutex::default(),
            plain,
            registry,
        })
    }

    pub(crate) fn answered(&self, kind: RequestKind, status: u16, took: Duration) {
        let requests = &self.requests[kind as usize];
        requests.status[usize::from(status / 100).clamp(1, 5) - 1].inc();
        requests.duration.observe(took.as_secs_f64());
    }

    /// Requests so far, by kind.
    pub(crate) fn requests(&self) -> [u64; RequestKind::ALL.len()] {
        RequestKind::ALL
            .map(|kind| self.requests[kind as usize].status.iter().map(IntCounter::get).sum())
    }

    /// Requests since the last call, by name, for the tally of the day.
    pub(crate) fn since_last_tally(&self) -> Vec<(String, u64)> {
        let now = self.requests();
        let mut tallied = self.tallied.lock();
        let before = std::mem::replace(&mut *tallied, now);
        RequestKind::ALL
            .iter()
            .zip(now.iter().zip(before))
            .filter(|(_, (now, before))| *now > before)
            .map(|(kind, (now, before))| (format!("requests.{}", kind.name()), now - before))
            .collect()
    }

    /// The text format of Prometheus, with `gauges` (name, help, value) of the moment.
    ///
    /// # Errors
    ///
    /// If two gauges have one name.
    pub(crate) fn text(&self, gauges: &[(&str, &str, f64)]) -> prometheus::Result<String> {
        let mut families = self.registry.gather();
        let now = registry()?;
        for &(name, help, value) in gauges {
            let gauge = Gauge::new(name, help)?;
            gauge.set(value);
            now.register(Box::new(gauge))?;
        }
        families.extend(now.gather());
        TextEncoder::new().encode_to_string(&families)
    }

    /// The plain counters: name, help, value.
    pub(crate) fn counters(&self) -> Vec<(String, String, u64)> {
        let descriptions = self
            .plain
            .iter()
            .chain([&*log::LOST])
            .map(|counter| (counter.desc()[0], counter.get()));
        descriptions.map(|(desc, n)| (desc.fq_name.clone(), desc.help.clone(), n)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_metrics_have_their_names() {
        let metrics = Metrics::default();
        count(&metrics.certs_new, 3);
        metrics.answered(RequestKind::ALL[0], 404, Duration::from_micros(70));
        let text = metrics.text(&[("certs", "Certificates in the store.", 7.5)]).unwrap();
        let names: Vec<&str> =
            text.lines().filter_map(|l| l.strip_prefix("# TYPE talaria_")).collect();
        let expected = [
            "banned_total counter",
            "certs_new_total counter",
            "certs_refused_total counter",
            "certs_unchanged_total counter",
            "certs_updated_total counter",
            "connections_refused_total counter",
            "connections_total counter",
            "counted_total counter",
            "gossip_certs_fetched_total counter",
            "gossip_certs_given_total counter",
            "gossip_certs_too_costly_total counter",
            "gossip_exchanges_failed_total counter",
            "gossip_exchanges_total counter",
            "gossip_strangers_total counter",
            "http_request_duration_seconds histogram",
            "http_requests_total counter",
            "log_lines_lost_total counter",
            "mails_refused_total counter",
            "mails_total counter",
            "memory_refused_total counter",
            "pushed_total counter",
            "rate_limited_total counter",
            "uploads_too_costly_total counter",
            "certs gauge",
        ];
        assert_eq!(names, expected);
        let kind = RequestKind::ALL[0].name();
        for line in [
            "# HELP talaria_certs_new_total Certificates added.".to_owned(),
            "talaria_certs_new_total 3".to_owned(),
            "talaria_certs 7.5".to_owned(),
            format!("talaria_http_requests_total{{kind=\"{kind}\",status=\"4xx\"}} 1"),
            format!("talaria_http_requests_total{{kind=\"{kind}\",status=\"2xx\"}} 0"),
            format!(
                "talaria_http_request_duration_seconds_bucket{{kind=\"{kind}\",le=\"0.00005\"}} 0"
            ),
            format!(
                "talaria_http_request_duration_seconds_bucket{{kind=\"{kind}\",le=\"0.0001\"}} 1"
            ),
            format!(
                "talaria_http_request_duration_seconds_bucket{{kind=\"{kind}\",le=\"+Inf\"}} 1"
            ),
            format!("talaria_http_request_duration_seconds_count{{kind=\"{kind}\"}} 1"),
        ] {
            assert!(text.lines().any(|l| l == line), "no {line} in {text}");
        }
        // Two metrics of one name are an error, not a panic.
        assert!(metrics.text(&[("x", "One.", 1.0), ("x", "Two.", 2.0)]).is_err());
    }
}
