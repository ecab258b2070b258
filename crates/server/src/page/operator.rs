//! The page for operators: how the server is, and with which settings it runs.

use maud::html;
use talaria_cert::View;

use super::text::grouped;
use super::{Visit, peers};
use crate::admin;
use crate::answer::{Answer, Refusal};
use crate::config::Config;
use crate::figures;

/// The page.
pub(crate) fn page(visit: &Visit<'_>) -> Result<Answer, Refusal> {
    admin::operators_only(visit.state, visit.request)?;
    let (texts, state) = (visit.texts, visit.state);
    let store = state.readers.get()?;
    let number = |n: u64| grouped(n, texts.thousands);
    let uptime = state.started.elapsed().as_secs();
    let health = [
        (texts.certificates, number(figures::certs(state))),
        (texts.last_change, number(store.last_change()?.get().unsigned_abs())),
        (texts.uptime, (texts.days_hours)(uptime / 86400, uptime / 3600 % 24, uptime / 60 % 60)),
        (texts.memory, format!("{} MiB", number(admin::resident_bytes() >> 20))),
        (texts.commits, number(state.writer.commits())),
        (texts.writes_waiting, number(state.writer.waiting() as u64)),
        (texts.unobtainable, number(store.unobtainable_count()?)),
    ];
    let views: Vec<(View, u64)> = state
        .trees
        .views()
        .into_iter()
        .map(|view| {
            (view, state.trees.with(view, talaria_recon::PrefixTree::len).unwrap_or(0) as u64)
        })
        .collect();
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
                        @for (view, digests) in views {
                            tr { th scope="row" { (view.name()) } td.number { (number(digests)) } }
                        }
                    }
                }
            }
        }
        section {
            h2 { (texts.peers_title) }
            (peers::table(visit, &peers::all(visit)?, true))
        }
        section {
            h2 { (texts.counters) }
            div.scroll tabindex="0" role="region" aria-label=(texts.counters) {
                table {
                    tbody {
                        @for (name, help, value) in state.metrics.counters() {
                            tr {
                                th scope="row" { code { (name) } }
                                td lang="en" { (help) }
                                td.number { (number(value)) }
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
    Ok(visit.page(texts.operator_title, &body))
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
