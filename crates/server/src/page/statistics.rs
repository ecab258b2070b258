//! The statistics: the content of the store, its growth, and the requests.
//!
//! Counting reads every certificate, so the page shows the last counts ([`Dated`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use maud::{Markup, html};
use talaria_cert::Fingerprint;

use super::chart::Chart;
use super::frame::Visit;
use super::number::grouped;
use super::peers;
use super::text::{fingerprint, foreign, moment};
use crate::answer::Answer;
use crate::clock::{self, day_text};
use crate::figures::{Contents, DAYS, Dated};
use crate::gossip::peers::PeerStatus;
use crate::metrics::RequestKind;

/// Algorithms that are shown; the others are in the table of the rest.
const BARS_MAX: usize = 10;

/// What the page shows.
pub(crate) struct Shown {
    /// The last counts, `None` if there are none yet.
    pub(crate) counted: Option<Arc<Dated<Contents>>>,
    /// The number of certificates at this moment.
    pub(crate) certs: u64,
    /// Requests since the start, by kind.
    pub(crate) requests: [u64; RequestKind::ALL.len()],
    pub(crate) peers: Vec<PeerStatus>,
    /// The certificate of the operator.
    pub(crate) operator: Option<Fingerprint>,
}

/// The page.
pub(crate) fn page(visit: &Visit<'_>, shown: &Shown) -> Answer {
    let texts = visit.texts;
    let number = |n: u64| grouped(n, texts.thousands);
    let counted = shown.counted.as_deref();
    let total = counted.map_or(shown.certs, |counted| counted.value.holds.certificates);
    let body = html! {
        h1 { (texts.statistics_title) }
        p.lead { strong { (number(total)) } " " (texts.home_count) }
        @match counted {
            Some(counted) => {
                p.hint { (texts.counted_at) " " (moment(counted.time)) }
                (charts(visit, counted))
            }
            None => { p role="status" { (texts.counting) } }
        }
        (requests(visit, shown))
        section {
            h2 { (texts.peers_title) }
            (peers::table(visit, &shown.peers, false))
        }
        (for_programs(visit, total, shown))
    };
    visit.page(texts.statistics_title, &body)
}

fn charts(visit: &Visit<'_>, counted: &Dated<Contents>) -> Markup {
    let texts = visit.texts;
    let holds = &counted.value.holds;
    let number = |n: u64| grouped(n, texts.thousands);
    let totals = [
        (texts.certificates, holds.certificates),
        (texts.user_ids, holds.user_ids),
        (texts.subkeys, holds.subkeys),
        (texts.all_signatures, holds.signatures),
    ];
    let by_day: BTreeMap<u32, [u64; 3]> = counted.value.changes.iter().copied().collect();
    let growth = Chart {
        title: texts.chart_growth,
        labels: texts.day,
        series: &[texts.report_new, texts.report_updated],
        rows: days(counted.time / 86400)
            .map(|day| {
                let [new, updated, _] = by_day.get(&day).copied().unwrap_or_default();
                (day_text(day), vec![new, updated])
            })
            .collect(),
    };
    let certificates = [texts.certificates];
    let chart = |title, labels, rows| Chart { title, labels, series: &certificates, rows };
    let states = ["valid", "expired", "revoked", "invalid", "unchecked"];
    let by_validity = states.iter().filter_map(|&state| {
        let &n = holds.by_validity.get(state)?;
        Some((texts.validity_word(state).to_owned(), vec![n]))
    });
    let (families, sizes) = kinds(&holds.by_algorithm);
    let years = holds.by_year.keys().next().zip(holds.by_year.keys().next_back());
    let by_year = years.into_iter().flat_map(|(&first, &last)| {
        // A few clocks are far off. Years before the first OpenPGP software are not shown.
        (first.max(1991)..=last.min(2106))
            .map(|year| (year.to_string(), vec![holds.by_year.get(&year).copied().unwrap_or(0)]))
    });
    html! {
        dl.totals {
            @for (name, n) in totals { div { dt { (name) } dd { (number(n)) } } }
        }
        section {
            h2 { (texts.growth) }
            (growth.columns(texts))
        }
        section {
            h2 { (texts.contents) }
            div.columns.two {
                (chart(texts.chart_validity, texts.state, by_validity.collect()).bars(texts))
                (chart(texts.chart_algorithms, texts.algorithm, largest(families)).bars(texts))
                (chart(texts.chart_sizes, texts.key_size, largest(sizes)).bars(texts))
                (chart(texts.chart_years, texts.year, by_year.collect()).columns(texts))
            }
        }
    }
}

/// The days that are shown, the last of which is `today`.
fn days(today: u32) -> impl Iterator<Item = u32> {
    today.saturating_sub(DAYS - 1)..=today
}

/// Algorithms, and the sizes of those that come in several.
fn kinds(by_algorithm: &BTreeMap<String, u64>) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let (mut families, mut sizes) = (BTreeMap::new(), BTreeMap::new());
    for (name, &n) in by_algorithm {
        let sized = [("rsa", "RSA"), ("dsa", "DSA"), ("elg", "Elgamal")];
        let family = sized.into_iter().find_map(|(short, family)| {
            let bits = name.strip_prefix(short)?;
            bits.bytes().all(|b| b.is_ascii_digit()).then(|| (family, bits.to_owned()))
        });
        match family {
            Some((family, bits)) => {
                *families.entry(family.to_owned()).or_default() += n;
                *sizes.entry(format!("{family} {bits}")).or_default() += n;
            }
            None => *families.entry(name.clone()).or_default() += n,
        }
    }
    (families, sizes)
}

/// The largest of some counts, the largest first.
fn largest(counts: BTreeMap<String, u64>) -> Vec<(String, Vec<u64>)> {
    let mut rows: Vec<_> = counts.into_iter().map(|(name, n)| (name, vec![n])).collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1));
    let others: u64 = rows.iter().skip(BARS_MAX).map(|(_, n)| n[0]).sum();
    rows.truncate(BARS_MAX);
    if others > 0 {
        rows.push(("…".to_owned(), vec![others]));
    }
    rows
}

/// Requests by day and kind, and those since the start.
fn requests(visit: &Visit<'_>, shown: &Shown) -> Markup {
    let texts = visit.texts;
    let kinds = RequestKind::ALL.iter().zip(shown.requests);
    let since_start =
        kinds.filter(|(_, n)| *n > 0).map(|(kind, n)| (kind.name().to_owned(), n)).collect();
    let since_start = Chart {
        title: texts.chart_requests_kind,
        labels: texts.kind,
        series: &[texts.requests],
        rows: largest(since_start),
    };
    let (mut names, mut by_day): (Vec<&str>, BTreeMap<u32, BTreeMap<&str, u64>>) =
        Default::default();
    let tally = shown.counted.as_ref().map(|counted| &counted.value.tally);
    for ((day, name), &n) in tally.into_iter().flatten() {
        let Some(kind) = name.strip_prefix("requests.") else { continue };
        if !names.contains(&kind) {
            names.push(kind);
        }
        *by_day.entry(*day).or_default().entry(kind).or_default() += n;
    }
    let by_day = Chart {
        title: texts.chart_requests_day,
        labels: texts.day,
        series: &names,
        rows: if by_day.is_empty() {
            Vec::new()
        } else {
            days(clock::today())
                .map(|day| {
                    let of_day = by_day.get(&day);
                    let figure =
                        |name: &&str| of_day.and_then(|of| of.get(name)).copied().unwrap_or(0);
                    (day_text(day), names.iter().map(figure).collect())
                })
                .collect()
        },
    };
    html! {
        section {
            h2 { (texts.requests) }
            div.columns.two {
                (by_day.columns(texts))
                (since_start.bars(texts))
            }
        }
    }
}

/// The same in the form of SKS, which programs that look after networks of keyservers read.
fn for_programs(visit: &Visit<'_>, total: u64, shown: &Shown) -> Markup {
    let texts = visit.texts;
    let config = &visit.config;
    let port = |addresses: &[std::net::SocketAddr]| {
        addresses.first().map_or_else(|| "-".to_owned(), |address| address.port().to_string())
    };
    let settings = [
        ("Hostname:", config.server.hostname.clone()),
        ("Nodename:", config.server.hostname.clone()),
        ("Software:", "talaria".to_owned()),
        ("Version:", env!("CARGO_PKG_VERSION").to_owned()),
        ("Server contact:", config.server.operator.clone()),
        ("HTTP port:", port(&config.http.listen)),
        ("Recon port:", port(&config.gossip.listen)),
    ];
    html! {
        section {
            @if let Some(operator) = shown.operator {
                h2 { (texts.operated_by) }
                p {
                    a href=(super::text::path(operator)) {
                        (fingerprint(operator))
                    }
                }
            }
            details {
                summary { (texts.for_programs) }
                div lang="en" {
                    h2 { "Settings" }
                    table {
                        tbody {
                            @for (name, value) in settings { tr { td { (name) } td { (value) } } }
                        }
                    }
                    h2 { "Gossip Peers" }
                    table {
                        tbody {
                            @for peer in &shown.peers { tr { td { (foreign(&peer.name)) } } }
                        }
                    }
                    h2 { "Statistics" }
                    p { "Total number of keys: " (total) }
                    h2 { "Daily Histogram" }
                    table {
                        thead { tr { th { "Time" } th { "New Keys" } th { "Updated Keys" } } }
                        tbody {
                            @for (day, [new, updated, _]) in
                                shown.counted.iter().flat_map(|counted| counted.value.changes.iter().rev()) {
                                tr { td { (day_text(*day)) } td { (new) } td { (updated) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
