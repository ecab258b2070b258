//! The pages, rendered here: useful without JavaScript.

use std::sync::Arc;

use maud::{DOCTYPE, Markup, html};
use talaria_cert::user_id;
use talaria_store::{Row, Store};

use crate::answer::{Answer, Refusal, answer, media, ok};
use crate::hkp::Report;
use crate::hkp::v1::Op;
use crate::request::Request;
use crate::search::Found;
use crate::state::State;

/// Answers the paths that are pages and nothing else; `None` if the path is not one of them.
pub(crate) async fn route(
    state: &Arc<State>,
    request: &Request,
) -> Option<Result<Answer, Refusal>> {
    match request.path() {
        "/" => Some(Ok(frame(state, request, "talaria", &html! { p { "…" } }))),
        _ => None,
    }
}

fn frame(_: &State, _: &Request, title: &str, body: &Markup) -> Answer {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { (title) } }
            body { (body) }
        }
    };
    ok(media::HTML, page.into_string())
}

/// The statistics.
pub(crate) async fn statistics(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    Ok(frame(state, request, "Statistics", &html! {}))
}

/// Certificates in armor, for people.
pub(crate) fn armored(_: &State, _: &Request, found: &[Found]) -> Result<Answer, Refusal> {
    Ok(crate::hkp::v1::armored(found))
}

/// What a search found.
pub(crate) fn results(
    state: &State,
    request: &Request,
    _: &Store,
    rows: Vec<Row>,
    text: &str,
    _: Op,
    _: bool,
) -> Result<Answer, Refusal> {
    let body = html! {
        h1 { "Certificates for " (text) }
        @for row in &rows {
            p { (row.summary.fingerprint().to_string()) }
            @for text in row.summary.texts() { p { (user_id::text(text)) } }
        }
    };
    Ok(frame(state, request, "Results", &body))
}

/// The form for uploading.
pub(crate) fn upload_form(state: &State, request: &Request) -> Answer {
    frame(state, request, "Upload", &html! {})
}

/// What became of an upload.
pub(crate) fn uploaded(
    state: &State,
    request: &Request,
    report: &Report,
) -> Result<Answer, Refusal> {
    Ok(frame(state, request, "Uploaded", &html! { p { (report.taken()) } }))
}

/// Why a request gets no other answer.
pub(crate) fn refusal(_: &State, _: &Request, refusal: &Refusal) -> Answer {
    refusal.decorate(answer(refusal.status(), media::HTML, refusal.to_string()))
}
