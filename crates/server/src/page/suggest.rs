//! Suggestions while somebody types: `/suggest?q=…`, as JSON.

use http::header;
use serde::Serialize;
use talaria_cert::{Address, Summary, UserIdSummary, Validity, user_id};

use super::frame::Visit;
use super::parts::name;
use super::text::plain;
use crate::answer::{Answer, json, with};
use crate::clock;
use crate::config::Policy;
use crate::engine::Bounds;
use crate::request::Request;
use crate::search;

/// Suggestions in one answer.
const SUGGESTIONS: usize = 10;

/// Characters from which on something is suggested: fewer are in no index.
const CHARACTERS_MIN: usize = 3;

/// Characters beyond which nothing is suggested.
const CHARACTERS_MAX: usize = 100;

/// Certificates of which the best are suggested, and those that are looked at to find them.
pub(crate) const BOUNDS: Bounds = Bounds { results: 60, looks: 1000 };

/// Characters of a name.
const NAME_CHARACTERS: usize = 80;

/// A suggestion.
#[derive(Debug, Serialize)]
pub(crate) struct Suggestion {
    name: String,
    address: Option<String>,
    fingerprint: String,
    validity: &'static str,
    /// The validity in words.
    state: &'static str,
}

/// Whether something is suggested for a text, folded.
pub(crate) fn typed(request: &Request, policy: &Policy) -> Option<String> {
    let typed = search::bounded(request.query().get("q").unwrap_or_default().trim()).ok()?;
    let typed = user_id::folded(typed);
    let characters = typed.chars().count();
    let is_asked = (CHARACTERS_MIN..=CHARACTERS_MAX).contains(&characters) && policy.word_search;
    is_asked.then_some(typed)
}

/// The suggestions as an answer.
pub(crate) fn answer(found: &[Suggestion]) -> Answer {
    let answer = with(json(&found), header::CACHE_CONTROL, "private, max-age=60");
    with(answer, header::VARY, "Accept-Language")
}

/// A certificate that may be suggested.
pub(crate) struct Candidate {
    pub(crate) summary: Summary,
    /// Its user IDs that are shown.
    pub(crate) names: Vec<UserIdSummary>,
}

/// The suggestions for a typed text.
pub(crate) fn suggestions(
    visit: &Visit<'_>,
    mut candidates: Vec<Candidate>,
    typed: &str,
) -> Vec<Suggestion> {
    let now = clock::now();
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.summary.state(now)));
    let mut found = Vec::new();
    for Candidate { summary, names } in candidates {
        // A text that stands only in a user ID without a self-signature is not suggested.
        let Some(user_id) =
            names.iter().find(|user_id| user_id::folded(&name(user_id)).contains(typed))
        else {
            continue;
        };
        let text = name(user_id);
        let address = Address::of_user_id(text.as_bytes()).map(|address| address.to_string());
        let shown = match (&address, text.split_once('<')) {
            (Some(_), Some((before, _))) if !before.trim().is_empty() => before.trim(),
            _ => &text,
        };
        let validity = summary.state(now);
        found.push(Suggestion {
            name: plain(shown, NAME_CHARACTERS),
            address: address.filter(|address| address != shown).map(|a| plain(&a, NAME_CHARACTERS)),
            fingerprint: summary.fingerprint().to_string(),
            validity: word(validity),
            state: visit.texts.validity(validity),
        });
        if found.len() == SUGGESTIONS {
            break;
        }
    }
    found
}

fn word(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Expired => "expired",
        Validity::Revoked => "revoked",
        Validity::Invalid => "invalid",
    }
}
