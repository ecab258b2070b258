//! The page of an error: the cause, and the next step.

use maud::html;

use super::frame::Visit;
use super::search;
use super::text::foreign;
use crate::answer::{Answer, Refusal};
use crate::engine::EngineError;

/// The page for a refusal.
pub(crate) fn refusal(visit: &Visit<'_>, refusal: &Refusal) -> Answer {
    let (texts, request) = (visit.texts, visit.request);
    let is_search = request.path() == "/pks/lookup";
    let searched = request.query().get("search").unwrap_or_default().to_owned();
    let (title, advice) = match refusal {
        Refusal::NotFound(_) if is_search => (texts.nothing_title, texts.nothing_advice.to_owned()),
        Refusal::NotFound(_) => (texts.missing_title, texts.missing_advice.to_owned()),
        Refusal::TooLarge(_) | Refusal::TooCostly(_) | Refusal::LongTarget { .. } => {
            (texts.too_large_title, texts.too_large_advice.to_owned())
        }
        Refusal::TooMany { seconds } => (texts.slow_down_title, (texts.slow_down_advice)(*seconds)),
        Refusal::BadRequest(_) if is_search => {
            (texts.bad_search_title, texts.bad_search_advice.to_owned())
        }
        Refusal::BadRequest(_)
        | Refusal::Timeout
        | Refusal::Method { .. }
        | Refusal::Closed { .. }
        | Refusal::NotImplemented(_) => {
            (texts.bad_request_title, texts.bad_request_advice.to_owned())
        }
        Refusal::SecretKey => (texts.secret_title, texts.secret_advice.to_owned()),
        Refusal::Malformed(_) => (texts.malformed_title, texts.malformed_advice.to_owned()),
        Refusal::Forbidden(_) => (texts.forbidden_title, texts.forbidden_advice.to_owned()),
        Refusal::Store(EngineError::Full(_)) => (texts.full_title, texts.full_advice.to_owned()),
        Refusal::Store(EngineError::Failed(_)) => {
            (texts.damaged_title, texts.damaged_advice.to_owned())
        }
        Refusal::Unavailable(_) | Refusal::Busy | Refusal::Store(_) => {
            (texts.unavailable_title, texts.unavailable_advice.to_owned())
        }
    };
    let status = refusal.status();
    let body = html! {
        section.failure {
            p.status { ((texts.status)(status.as_u16())) }
            h1 { (title) }
            @if is_search && !searched.is_empty() {
                p { (texts.searched_for) " " q { (foreign(&searched)) } }
            }
            p.lead { (advice) }
            @if !matches!(refusal, Refusal::NotFound(_) | Refusal::SecretKey) {
                p.detail { (texts.detail) " " span lang="en" { (foreign(&refusal.to_string())) } }
            }
        }
        @if is_search {
            (search::form(visit, &searched))
        }
        @if request.path() == "/pks/add" {
            p { a href="/upload" { (texts.back_to_upload) } }
        } @else if !is_search {
            p { a href="/" { (texts.back_to_search) } }
        }
    };
    let mut answer = visit.page(title, &body);
    *answer.status_mut() = status;
    refusal.decorate(answer)
}
