//! The page for operators: how the server is, and with which settings it runs.

use maud::html;
use talaria_cert::View;

use super::frame::Visit;
use super::number::grouped;
use super::peers;
use crate::answer::Answer;
use crate::config::Config;
use crate::gossip::peers::PeerStatus;
use crate::memory::resident_bytes;

/// What the page shows.
pub(crate) struct Health {
    pub(crate) certs: u64,
    pub(crate) last_change: u64,
    pub(crate) uptime_s: u64,
    pub(crate) commits: u64,
    pub(crate) writes_waiting: u64,
    /// `None` if they are not counted yet.
    pub(crate) unobtainable: Option<u64>,
    /// The digests in the tree of each view.
    pub(crate) views: Vec<(View, u64)>,
    pub(crate) peers: Vec<PeerStatus>,
    /// Counters: name, help, value.
    pub(crate) counters: Vec<(String, String, u64)>,
}

/// The page.
pub(crate) fn page(visit: &Visit<'_>, shown: &Health) -> Answer {
    let texts = visit.texts;
    let number = |n: u64| grouped(n, texts.thousands);
    let uptime = shown.uptime_s;
    let health = [
        (texts.certificates, number(shown.certs)),
        (texts.last_change, number(shown.last_change)),
        (texts.uptime, (texts.days_hours)(uptime / 86400, uptime / 3600 % 24, uptime / 60 % 60)),
        (texts.memory, format!("{} MiB", number(resident_bytes() >> 20))),
        (texts.commits, number(shown.commits)),
        (texts.writes_waiting, number(shown.writes_waiting)),
        (texts.unobtainable, shown.unobtainable.map_or_else(|| "–".to_owned(), number)),
    ];
    let body = html! {
        h1 { (texts.operator_title) }
        p {
            a href="/metrics" { "/metrics" } " · " a href="/health" { "/health" } " · "
            a href="/ready" { "/ready" } " · "
            a href="/pks/lookup?op=stats&options=mr" { "stats.json" }
        }
        div.columns.two {
            section {
                h2 { (texts.health) }
                table {
                    tbody {
                        @for (what, value) in health {
                            tr { th scope="row" { (what) } td.number { (value) } }
                        }
                    }
                }
            }
            section {
                h2 { (texts.views) }
                table {
                    thead {
                        tr {
                            th scope="col" { (texts.peer_view) }
                            th.number scope="col" { (texts.digests) }
                        }
                    }
                    tbody {
                        @for (view, digests) in &shown.views {
                            tr { th scope="row" { (view.name()) } td.number { (number(*digests)) } }
                        }
                    }
                }
            }
        }
        section {
            h2 { (texts.peers_title) }
            (peers::table(visit, &shown.peers, true))
        }
        section {
            h2 { (texts.counters) }
            div.scroll tabindex="0" role="region" aria-label=(texts.counters) {
                table {
                    tbody {
                        @for (name, help, value) in &shown.counters {
                            tr {
                                th scope="row" { code { (name) } }
                                td lang="en" { (help) }
                                td.number { (number(*value)) }
                            }
                        }
                    }
                }
            }
        }
        section {
            h2 { (texts.settings) }
            details {
                summary { (texts.settings_show) }
                pre tabindex="0" { code { (public(&visit.config).to_toml()) } }
            }
        }
    };
    visit.page(texts.operator_title, &body)
}

/// The settings, with secrets hidden.
fn public(config: &Config) -> Config {
    let mut config = config.clone();
    let hide = |text: &mut String| {
        if !text.is_empty() {
            "(hidden)".clone_into(text);
        }
    };
    hide(&mut config.vks.smtp_user);
    config.vks.smtp_password_file = None;
    config.http.tls_key = None;
    for target in &mut config.push.targets {
        if let (Some((scheme, rest)), true) = (target.split_once("://"), target.contains('@')) {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            *target = format!("{scheme}://(hidden)@{host}");
        }
    }
    config
}
