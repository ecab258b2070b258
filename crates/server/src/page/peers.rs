//! The keyservers that this one exchanges certificates with.

use maud::{Markup, html};

use super::Visit;
use super::text::{foreign, grouped, moment};
use crate::answer::{Answer, Refusal};
use crate::gossip;
use crate::state::{PeerStatus, State};

/// The page.
pub(crate) fn page(visit: &Visit<'_>) -> Result<Answer, Refusal> {
    let texts = visit.texts;
    let body = html! {
        h1 { (texts.peers_title) }
        p.lead { (texts.peers_lead) }
        (table(visit, &all(visit)?, false))
    };
    Ok(visit.page(texts.peers_title, &body))
}

/// All peers: those that were talked to, and those that are configured only.
pub(crate) fn all(visit: &Visit<'_>) -> Result<Vec<PeerStatus>, Refusal> {
    of_server(visit.state)
}

/// The same without a visitor.
pub(crate) fn of_server(state: &State) -> Result<Vec<PeerStatus>, Refusal> {
    let mut all = state.peer_statuses();
    for peer in gossip::peers::all(state)? {
        let name = format!("{}:{}", peer.host, peer.port);
        if all.iter().all(|known| known.name != name) {
            all.push(PeerStatus { name, view: peer.view.name().into(), ..PeerStatus::default() });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The peers as a table. Operators see the errors, too.
pub(crate) fn table(visit: &Visit<'_>, peers: &[PeerStatus], errors: bool) -> Markup {
    let texts = visit.texts;
    let number = |n: u64| grouped(n, texts.thousands);
    if peers.is_empty() {
        return html! { p { (texts.peers_none) } };
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label=(texts.peers_title) {
            table.stack {
                thead {
                    tr {
                        th scope="col" { (texts.peer_name) }
                        th scope="col" { (texts.peer_state) }
                        th scope="col" { (texts.peer_view) }
                        th scope="col" { (texts.peer_last) }
                        th.number scope="col" { (texts.peer_exchanges) }
                        th.number scope="col" { (texts.peer_failures) }
                        th.number scope="col" { (texts.peer_learnt) }
                        th.number scope="col" { (texts.peer_fetched) }
                        @if errors { th scope="col" { (texts.peer_error) } }
                    }
                }
                tbody {
                    @for peer in peers {
                        tr {
                            th scope="row" {
                                (foreign(&peer.name))
                                @if let Some(version) = &peer.version {
                                    br; small { (foreign(version)) }
                                }
                            }
                            td data-label=(texts.peer_state) { (state(visit, peer)) }
                            td data-label=(texts.peer_view) { (peer.view) }
                            td data-label=(texts.peer_last) {
                                @match peer.last_exchange {
                                    Some(time) => { (moment(time)) }
                                    None => { "–" }
                                }
                            }
                            td.number data-label=(texts.peer_exchanges) { (number(peer.exchanges)) }
                            td.number data-label=(texts.peer_failures) { (number(peer.failures)) }
                            td.number data-label=(texts.peer_learnt) { (number(peer.learnt)) }
                            td.number data-label=(texts.peer_fetched) { (number(peer.fetched)) }
                            @if errors {
                                td lang="en" data-label=(texts.peer_error) {
                                    (foreign(peer.last_error.as_deref().unwrap_or("–")))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn state(visit: &Visit<'_>, peer: &PeerStatus) -> Markup {
    let texts = visit.texts;
    let (class, sign, text) = match peer {
        PeerStatus { failing: 1.., .. } => ("revoked", "✕", texts.peer_failing),
        PeerStatus { last_exchange: Some(_), .. } => ("confirmed", "✓", texts.peer_good),
        _ => ("expired", "◷", texts.peer_waiting),
    };
    html! { span class={ "badge " (class) } { span aria-hidden="true" { (sign) } " " (text) } }
}
