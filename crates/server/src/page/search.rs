//! The start page with its search form, and the results of a search.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use maud::{Markup, html};
use talaria_cert::{
    Address, Fingerprint, Summary, UserIdContent, UserIdSummary, Validity, user_id,
};

use super::frame::Visit;
use super::number::grouped;
use super::parts::{self, keyserver, name, names};
use super::text::{encoded, fingerprint, foreign, path, rest};
use crate::answer::Answer;
use crate::search::{SEARCH_BYTES_MAX, Search};

/// User IDs beside the primary one that a card shows.
const OTHERS_MAX: usize = 4;

/// Certificates on one page.
const PAGE: usize = 25;

/// Domains that are offered to narrow a search.
const DOMAINS_MAX: usize = 8;

/// The start page.
pub(crate) fn home(visit: &Visit<'_>, count: u64) -> Answer {
    let texts = visit.texts;
    let keyserver = keyserver(visit);
    let body = html! {
        section.hero {
            h1 { (texts.home_title) }
            p.lead { (texts.home_lead) }
            (form(visit, ""))
            p.count { strong { (grouped(count, texts.thousands)) } " " (texts.home_count) }
        }
        div.columns {
            section {
                h2 { (texts.home_trust_title) }
                p { (texts.home_trust) }
            }
            section {
                h2 { (texts.home_publish_title) }
                p { (texts.home_publish) }
                p { a href="/upload" { (texts.nav_upload) } }
            }
            section {
                h2 { (texts.home_gnupg_title) }
                p { (texts.home_gnupg) }
                pre.command tabindex="0" { code { "gpg --keyserver " (keyserver) " \\\n  --search-keys alice@example.org" } }
            }
        }
    };
    visit.page(texts.home_title, &body)
}

/// The search form.
pub(crate) fn form(visit: &Visit<'_>, value: &str) -> Markup {
    let texts = visit.texts;
    let policy = &visit.config.policy;
    let hint = if policy.word_search { texts.search_hint } else { texts.search_hint_exact };
    html! {
        form.search action="/pks/lookup" method="get" role="search" {
            input type="hidden" name="op" value="index";
            label for="search" { (texts.search_label) }
            div.field {
                input #search type="search" name="search" value=(super::text::visible(value)) required maxlength=(SEARCH_BYTES_MAX)
                    autocomplete="off" autocapitalize="none" spellcheck="false"
                    aria-describedby="search-hint"
                    data-suggest=[policy.word_search.then_some("/suggest")]
                    data-found=(texts.suggest_found) data-none=(texts.suggest_none);
                button type="submit" { (texts.search_button) }
            }
            p.hint #search-hint { (hint) }
        }
    }
}

/// The certificates that a search has found, and what else their page shows.
pub(crate) struct Listing {
    /// In the order of the pages: the first ones, if there are more.
    pub(crate) summaries: Vec<Summary>,
    pub(crate) confirmed: HashMap<Fingerprint, Vec<Address>>,
    text: String,
    more: bool,
    /// The page that is shown, from 1, and their number.
    page: usize,
    pages: usize,
    now: u32,
}

impl Listing {
    /// `confirmed` has the addresses that the order and the number of the certificates depend on.
    pub(crate) fn new(
        visit: &Visit<'_>,
        mut summaries: Vec<Summary>,
        confirmed: HashMap<Fingerprint, Vec<Address>>,
        text: &str,
        more: bool,
        now: u32,
    ) -> Self {
        // The search for an address has put its owner first. Dates say nothing: anybody can choose
        // them.
        if is_for_words(visit, text) {
            let is_confirmed = |summary: &Summary| {
                confirmed.get(&summary.fingerprint()).is_some_and(|emails| !emails.is_empty())
            };
            let rank = |summary: &Summary| (summary.state(now), is_confirmed(summary));
            summaries.sort_by_key(|summary| std::cmp::Reverse(rank(summary)));
        }
        let pages = summaries.len().div_ceil(PAGE).max(1);
        let asked = visit.request.query().get("page").and_then(|page| page.parse().ok());
        let page = asked.unwrap_or(1).clamp(1, pages);
        Self { summaries, confirmed, text: text.to_owned(), more, page, pages, now }
    }

    /// The certificates on the page that is shown.
    pub(crate) fn on_page(&self) -> &[Summary] {
        self.summaries.chunks(PAGE).nth(self.page - 1).unwrap_or_default()
    }
}

/// A list of certificates.
pub(crate) fn list(visit: &Visit<'_>, listing: &Listing) -> Answer {
    let texts = visit.texts;
    let &Listing { ref summaries, ref text, more, page, pages, now, .. } = listing;
    let valid = summaries.iter().filter(|summary| summary.state(now) == Validity::Valid).count();
    let count = summaries.len();
    let confirmed = |summary: &Summary| listing.confirmed.get(&summary.fingerprint());
    let mut domains: BTreeMap<String, usize> = BTreeMap::new();
    for summary in summaries {
        for domain in domains_of(&names(visit, summary, confirmed(summary))) {
            *domains.entry(domain).or_default() += 1;
        }
    }
    let title = (texts.results_title)(&super::text::plain(text, 60));
    let body = html! {
        h1 { (texts.results_for) " " q { (foreign(text)) } }
        (form(visit, text))
        @if more {
            aside.note.warning role="status" {
                p {
                    @if is_address(text) { ((texts.found_more_of_address)(count as u64)) }
                    @else { ((texts.found_more)(count as u64)) }
                }
            }
        } @else {
            p.count role="status" { ((texts.found)(count as u64)) }
        }
        @if more || pages > 1 { (narrower(visit, text, count, domains, more)) }
        aside.note {
            p {
                @if valid > 1 { (texts.ambiguous) }
                @else if count > 1 { (texts.several) }
                @else { (texts.name_unverified) " " (texts.compare) }
            }
        }
        ol.cards {
            @for summary in listing.on_page() {
                li { (card(visit, summary, confirmed(summary), now)) }
            }
        }
        @if pages > 1 { (pager(visit, text, page, pages)) }
    };
    visit.page(&title, &body)
}

/// Whether a search is for words, and not for a key or an address.
pub(super) fn is_for_words(visit: &Visit<'_>, text: &str) -> bool {
    let is_exact = visit.request.query().is_on("exact");
    Search::parse(text, is_exact, &visit.config.policy)
        .is_ok_and(|search| matches!(search, Search::Words(_)))
}

/// Whether a search is for an address.
fn is_address(text: &str) -> bool {
    Address::of_user_id(text.as_bytes()).is_some()
}

/// The address of a search.
fn address(text: &str, page: usize) -> String {
    let page = if page > 1 { format!("&page={page}") } else { String::new() };
    format!("/pks/lookup?op=index&search={}{page}", encoded(text))
}

/// Links to the pages before and after this one.
fn pager(visit: &Visit<'_>, text: &str, page: usize, pages: usize) -> Markup {
    let texts = visit.texts;
    html! {
        nav.pager aria-label=(texts.result_pages) {
            @if page > 1 { a.button.quiet rel="prev" href=(address(text, page - 1)) { (texts.previous) } }
            span { ((texts.page_of)(page as u64, pages as u64)) }
            @if page < pages { a.button.quiet rel="next" href=(address(text, page + 1)) { (texts.next) } }
        }
    }
}

/// The domains of the addresses of a certificate, each once.
fn domains_of(names: &[UserIdSummary]) -> BTreeSet<String> {
    let texts = names.iter().filter_map(|user_id| match &user_id.content {
        UserIdContent::Text(text) => Address::of_user_id(text),
        UserIdContent::Attribute { .. } => None,
    });
    texts.filter_map(|address| Some(address.to_string().rsplit_once('@')?.1.to_owned())).collect()
}

/// Searches that find fewer certificates: with a domain of those that were found. If there are
/// `more` certificates, nobody knows how many have a domain.
fn narrower(
    visit: &Visit<'_>,
    text: &str,
    count: usize,
    domains: BTreeMap<String, usize>,
    more: bool,
) -> Markup {
    let texts = visit.texts;
    // A domain that is in the search already, or that all have, narrows nothing.
    let folded = user_id::folded(text);
    let mut domains: Vec<_> = domains
        .into_iter()
        .filter(|(domain, n)| *n < count && !folded.contains(&user_id::folded(domain)))
        .collect();
    domains.sort_by(|(a, n), (b, m)| m.cmp(n).then(a.cmp(b)));
    domains.truncate(DOMAINS_MAX);
    html! {
        @if !domains.is_empty() && !is_address(text) {
            nav.narrower aria-label=(texts.narrow) {
                span { (texts.narrow) }
                ul {
                    @for (domain, n) in &domains {
                        li {
                            a href=(address(&format!("{text} {domain}"), 1)) {
                                (foreign(domain))
                                @if !more { " " small { (grouped(*n as u64, texts.thousands)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn card(
    visit: &Visit<'_>,
    summary: &Summary,
    published: Option<&Vec<Address>>,
    now: u32,
) -> Markup {
    let texts = visit.texts;
    let key = &summary.primary;
    let names = names(visit, summary, published);
    let first = names.first().map(name);
    let validity = summary.state(now);
    let is_told = visit.config.vks.enabled && validity == Validity::Valid;
    let published = published.filter(|_| is_told).map_or(&[][..], Vec::as_slice);
    let confirmed = |user_id: &UserIdSummary| parts::is_confirmed(user_id, published, now);
    html! {
        article.card.old[validity != Validity::Valid] {
            header {
                h2 {
                    a href=(path(summary.fingerprint())) {
                        @match &first {
                            Some(name) => { (foreign(name)) }
                            None => { (texts.no_name) }
                        }
                    }
                }
                span.badges {
                    @if let Some(first) = names.first().filter(|first| confirmed(first)) {
                        (parts::confirmed(texts, first)) " "
                    }
                    (parts::state(visit, summary, now))
                }
            }
            @if let Some(name) = &first { (rest(name, texts)) }
            @if names.len() > 1 {
                // To say that one is left out takes as much room as to show it.
                @let others = names.len() - 1;
                @let shown = if others <= OTHERS_MAX + 1 { others } else { OTHERS_MAX };
                ul.names aria-label=(texts.other_names) {
                    @for user_id in names.iter().skip(1).take(shown) {
                        li {
                            (foreign(&name(user_id))) (rest(&name(user_id), texts))
                            @if confirmed(user_id) { " " (parts::confirmed(texts, user_id)) }
                        }
                    }
                    @if others > shown { li { ((texts.more)((others - shown) as u64)) } }
                }
            }
            p.key {
                span.visually-hidden { (texts.fingerprint) ": " }
                (fingerprint(summary.fingerprint()))
            }
            (parts::facts(visit, key))
        }
    }
}
