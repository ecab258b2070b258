//! The keyservers that this one exchanges certificates with.

use maud::{Markup, html};

use super::frame::Visit;
use super::number::grouped;
use super::text::{foreign, moment};
use crate::answer::Answer;
use crate::gossip::peers::PeerStatus;

/// The page.
pub(crate) fn page(visit: &Visit<'_>, peers: &[PeerStatus]) -> Answer {
    let texts = visit.texts;
    let body = html! {
        h1 { (texts.peers_title) }
        p.lead { (texts.peers_lead) }
        (table(visit, peers, false))
    };
    visit.page(texts.peers_title, &body)
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
