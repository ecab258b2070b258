//! The start page with its search form, and the results of a search.

use maud::{Markup, html};
use talaria_cert::{Address, KeySummary, Summary, UserIdContent, UserIdSummary, Validity, user_id};
use talaria_store::{Row, Store};

use super::text::{day, fingerprint, foreign, grouped, path, rest};
use super::{Visit, certificate};
use crate::answer::{Answer, Refusal};
use crate::clock;
use crate::hkp::v1::Op;
use crate::request::Request;
use crate::state::State;

/// User IDs beside the primary one that a card shows.
const OTHERS_MAX: usize = 6;

/// The start page.
pub(crate) fn home(visit: &Visit<'_>) -> Result<Answer, Refusal> {
    let texts = visit.texts;
    let count = visit.state.figures.count(visit.state)?;
    let keyserver = certificate::keyserver(visit);
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
    Ok(visit.page(texts.home_title, &body))
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
                input #search type="search" name="search" value=(super::text::visible(value)) required maxlength="1024"
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

/// The result of a search.
pub(crate) fn results(
    state: &State,
    request: &Request,
    store: &Store,
    rows: Vec<Row>,
    text: &str,
    op: Op,
    more: bool,
) -> Result<Answer, Refusal> {
    let visit = Visit::new(state, request);
    if op == Op::VerboseIndex
        && let [row] = &rows[..]
        && let Some(answer) = certificate::page(&visit, store, row, None)?
    {
        return Ok(answer);
    }
    list(&visit, store, rows, text, more)
}

/// A list of certificates: the first ones, if there are `more`.
pub(crate) fn list(
    visit: &Visit<'_>,
    store: &Store,
    mut rows: Vec<Row>,
    text: &str,
    more: bool,
) -> Result<Answer, Refusal> {
    let (texts, now) = (visit.texts, clock::now());
    let rank = |row: &Row| (row.summary.validity(now), row.summary.primary.created);
    rows.sort_by_key(|row| std::cmp::Reverse(rank(row)));
    let mut cards = Vec::with_capacity(rows.len());
    for row in &rows {
        cards.push(card(visit, &names(visit, store, &row.summary)?, &row.summary, now));
    }
    let valid = rows.iter().filter(|row| row.summary.validity(now) == Validity::Valid).count();
    let count = rows.len() as u64;
    let title = (texts.results_title)(&super::text::plain(text, 60));
    let body = html! {
        h1 { (texts.results_for) " " q { (foreign(text)) } }
        (form(visit, text))
        p.count role="status" { ((texts.found)(count)) }
        @if more { aside.note.warning { p { ((texts.found_more)(count)) } } }
        @if rows.len() > 1 {
            aside.note { p { (if valid > 1 { texts.ambiguous } else { texts.several }) } }
        }
        ol.cards {
            @for card in cards { li { (card) } }
        }
    };
    Ok(visit.page(&title, &body))
}

/// The user IDs of a certificate that are shown: those that its owner has bound, and confirmed where
/// that is asked for; the primary one first.
pub(crate) fn names(
    visit: &Visit<'_>,
    store: &Store,
    summary: &Summary,
) -> Result<Vec<UserIdSummary>, Refusal> {
    let confirmed = if visit.config.vks.only_confirmed {
        Some(store.published(summary.fingerprint())?)
    } else {
        None
    };
    let mut names: Vec<_> = summary
        .user_ids
        .iter()
        .filter(|user_id| match &user_id.content {
            UserIdContent::Text(text) => {
                user_id.created > 0
                    && confirmed.as_ref().is_none_or(|confirmed| {
                        Address::of_user_id(text).is_some_and(|email| confirmed.contains(&email))
                    })
            }
            UserIdContent::Attribute { .. } => false,
        })
        .cloned()
        .collect();
    names.sort_by_key(|user_id| !user_id.primary);
    Ok(names)
}

/// The text of a user ID.
pub(crate) fn name(user_id: &UserIdSummary) -> std::borrow::Cow<'_, str> {
    match &user_id.content {
        UserIdContent::Text(text) => user_id::text(text),
        UserIdContent::Attribute { .. } => "".into(),
    }
}

fn card(visit: &Visit<'_>, names: &[UserIdSummary], summary: &Summary, now: u32) -> Markup {
    let texts = visit.texts;
    let key = &summary.primary;
    let first = names.first().map(name);
    html! {
        article.card {
            header {
                h2 {
                    a href=(path(summary.fingerprint())) {
                        @match &first {
                            Some(name) => { (foreign(name)) }
                            None => { (texts.no_name) }
                        }
                    }
                }
                (badge(visit, summary.validity(now)))
            }
            @if let Some(name) = &first { (rest(name, texts)) }
            @if names.len() > 1 {
                ul.names aria-label=(texts.other_names) {
                    @for user_id in names.iter().skip(1).take(OTHERS_MAX) {
                        li { (foreign(&name(user_id))) (rest(&name(user_id), texts)) }
                    }
                    @if names.len() > 1 + OTHERS_MAX {
                        li { ((texts.more)((names.len() - 1 - OTHERS_MAX) as u64)) }
                    }
                }
            }
            p.key {
                span.visually-hidden { (texts.fingerprint) ": " }
                (fingerprint(summary.fingerprint()))
            }
            (facts(visit, key))
        }
    }
}

/// Algorithm and times of a key, on a line.
pub(crate) fn facts(visit: &Visit<'_>, key: &KeySummary) -> Markup {
    let texts = visit.texts;
    html! {
        dl.facts {
            div { dt { (texts.algorithm) } dd { (talaria::algorithm(key)) } }
            div { dt { (texts.created) } dd { (day(key.created)) } }
            div {
                dt { (texts.expires) }
                dd { @if key.expires == 0 { (texts.never) } @else { (day(key.expires)) } }
            }
        }
    }
}

/// A state, in words and with a sign: never by colour alone.
pub(crate) fn badge(visit: &Visit<'_>, validity: Validity) -> Markup {
    let (class, sign) = match validity {
        Validity::Valid => ("valid", "✓"),
        Validity::Expired => ("expired", "◷"),
        Validity::Revoked => ("revoked", "✕"),
        Validity::Invalid => ("invalid", "?"),
    };
    html! {
        span class={ "badge " (class) } {
            span aria-hidden="true" { (sign) } " " (visit.texts.validity(validity))
        }
    }
}
