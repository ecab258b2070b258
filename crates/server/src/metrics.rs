//! The server's metrics, in the format of Prometheus.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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

/// Upper bounds of the buckets of durations, in microseconds.
const BOUNDS_US: [u64; 12] =
    [50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 100_000, 500_000, 2_500_000];

/// Durations of one kind of request.
#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// Requests of one kind.
#[derive(Debug, Default)]
struct Requests {
    /// By the first digit of the status, from 1 to 5.
    status: [AtomicU64; 5],
    duration: Histogram,
}

/// All counters. They start at 0 with the server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: [Requests; RequestKind::ALL.len()],
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) rate_limited: AtomicU64,
    pub(crate) memory_refused: AtomicU64,
    pub(crate) certs_new: AtomicU64,
    pub(crate) certs_updated: AtomicU64,
    pub(crate) certs_unchanged: AtomicU64,
    pub(crate) certs_refused: AtomicU64,
    pub(crate) certs_too_costly: AtomicU64,
    pub(crate) uploads_too_costly: AtomicU64,
    pub(crate) exchanges: AtomicU64,
    pub(crate) exchanges_failed: AtomicU64,
    pub(crate) certs_fetched: AtomicU64,
    pub(crate) certs_given: AtomicU64,
    pub(crate) pushed: AtomicU64,
    pub(crate) mails: AtomicU64,
    /// Counts over the whole store.
    pub(crate) counted: AtomicU64,
    /// The counts at the last write of the daily tally.
    tallied: Mutex<[u64; RequestKind::ALL.len()]>,
}

pub(crate) fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Metrics {
    pub(crate) fn answered(&self, kind: RequestKind, status: u16, took: Duration) {
        let requests = &self.requests[kind as usize];
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        requests.status[class].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|&bound| bound < us);
        requests.duration.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        requests.duration.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Requests so far, by kind.
    pub(crate) fn requests(&self) -> [u64; RequestKind::ALL.len()] {
        RequestKind::ALL.map(|kind| {
            self.requests[kind as usize].status.iter().map(|n| n.load(Ordering::Relaxed)).sum()
        })
    }

    /// Requests since the last call, by name, for the tally of the day.
    pub(crate) fn since_last_tally(&self) -> Vec<(String, u64)> {
        let now = self.requests();
        let mut tallied = self.tallied.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = std::mem::replace(&mut *tallied, now);
        RequestKind::ALL
            .iter()
            .zip(now.iter().zip(before))
            .filter(|(_, (now, before))| *now > before)
            .map(|(kind, (now, before))| (format!("requests.{}", kind.name()), now - before))
            .collect()
    }

    /// The text format of Prometheus, with `gauges` (name, help, value) of the moment.
    pub(crate) fn prometheus(&self, gauges: &[(&str, &str, f64)]) -> String {
        let mut out = String::with_capacity(8192);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        out.push_str(
            "# HELP talaria_http_requests_total Requests that were answered.\n\
             # TYPE talaria_http_requests_total counter\n",
        );
        for kind in RequestKind::ALL {
            for (class, n) in self.requests[kind as usize].status.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "talaria_http_requests_total{{kind=\"{}\",status=\"{}xx\"}} {}",
                    kind.name(),
                    class + 1,
                    load(n)
                );
            }
        }
        out.push_str(
            "# HELP talaria_http_request_duration_seconds Time from request to answer.\n\
             # TYPE talaria_http_request_duration_seconds histogram\n",
        );
        for kind in RequestKind::ALL {
            let duration = &self.requests[kind as usize].duration;
            let name = kind.name();
            let mut total = 0;
            for (bound, n) in BOUNDS_US.iter().zip(&duration.buckets) {
                total += load(n);
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let le = *bound as f64 / 1e6;
                let _ = writeln!(
                    out,
                    "talaria_http_request_duration_seconds_bucket{{kind=\"{name}\",le=\"{le}\"}} {total}"
                );
            }
            total += load(&duration.buckets[BOUNDS_US.len()]);
            #[expect(clippy::cast_precision_loss, reason = "a sum for people")]
            let sum = load(&duration.sum_us) as f64 / 1e6;
            let _ = writeln!(
                out,
                "talaria_http_request_duration_seconds_bucket{{kind=\"{name}\",le=\"+Inf\"}} {total}\n\
                 talaria_http_request_duration_seconds_sum{{kind=\"{name}\"}} {sum}\n\
                 talaria_http_request_duration_seconds_count{{kind=\"{name}\"}} {total}"
            );
        }
        for (name, help, value) in self.counters() {
            let _ = writeln!(
                out,
                "# HELP talaria_{name} {help}\n# TYPE talaria_{name} counter\ntalaria_{name} {value}"
            );
        }
        for (name, help, value) in gauges {
            let _ = writeln!(
                out,
                "# HELP talaria_{name} {help}\n# TYPE talaria_{name} gauge\ntalaria_{name} {value}"
            );
        }
        out
    }

    /// The plain counters: name, help, value.
    pub(crate) fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        [
            ("connections_total", "Connections accepted.", &self.connections),
            (
                "connections_refused_total",
                "Connections closed because there were too many.",
                &self.connections_refused,
            ),
            ("rate_limited_total", "Requests refused by the rate limit.", &self.rate_limited),
            (
                "memory_refused_total",
                "Requests refused because others, or the same network, hold the memory.",
                &self.memory_refused,
            ),
            ("certs_new_total", "Certificates added.", &self.certs_new),
            ("certs_updated_total", "Certificates updated with new parts.", &self.certs_updated),
            (
                "certs_unchanged_total",
                "Certificates received without new parts.",
                &self.certs_unchanged,
            ),
            ("certs_refused_total", "Certificates refused.", &self.certs_refused),
            (
                "uploads_too_costly_total",
                "Uploads refused because verifying them would take too much CPU time.",
                &self.uploads_too_costly,
            ),
            (
                "gossip_certs_too_costly_total",
                "Certificates of peers left out because verifying them would take too much CPU time.",
                &self.certs_too_costly,
            ),
            ("gossip_exchanges_total", "Completed exchanges with peers.", &self.exchanges),
            (
                "gossip_exchanges_failed_total",
                "Failed exchanges with peers.",
                &self.exchanges_failed,
            ),
            ("gossip_certs_fetched_total", "Certificates fetched from peers.", &self.certs_fetched),
            ("gossip_certs_given_total", "Certificates sent to peers.", &self.certs_given),
            ("pushed_total", "Certificates pushed to other keyservers.", &self.pushed),
            ("mails_total", "Mails sent.", &self.mails),
            ("counted_total", "Counts over the whole store, for statistics.", &self.counted),
        ]
        .map(|(name, help, counter)| (name, help, counter.load(Ordering::Relaxed)))
        .into_iter()
        .chain([("log_lines_lost_total", "Log lines that could not be written.", log::lost())])
        .collect()
    }
}
