//! The pages: rendered here, useful without JavaScript, in the language of the reader.
//!
//! A page is a function of the client ([`Visit`]) and of the data to show. Texts by strangers (user IDs,
//! search terms, answers of peers) go through [`text`], so that they cannot change how the rest of the
//! page reads.

mod asset;
mod certificate;
mod chart;
mod failure;
mod frame;
mod language;
mod operator;
mod peers;
mod qr;
mod search;
mod signers;
mod statistics;
mod suggest;
mod text;
mod timeline;
mod upload;
pub(crate) mod verify;

use std::sync::Arc;

use http::header;
use maud::Markup;

use crate::answer::{Answer, Refusal, media, ok, with};
use crate::config::Config;
use crate::request::Request;
use crate::state::State;

pub(crate) use certificate::armored;
pub(crate) use failure::refusal;
pub(crate) use peers::of_server as all_peers;
pub(crate) use search::results;
pub(crate) use statistics::page as statistics;
pub(crate) use upload::{form as upload_form, report as uploaded};

use language::Texts;

/// The client of a page, and data that all pages need.
pub(crate) struct Visit<'a> {
    state: &'a State,
    request: &'a Request,
    texts: &'static Texts,
    config: Arc<Config>,
}

impl<'a> Visit<'a> {
    fn new(state: &'a State, request: &'a Request) -> Self {
        Self { state, request, texts: language::of(request), config: state.config.load_full() }
    }

    /// A page as an answer.
    fn page(&self, title: &str, body: &Markup) -> Answer {
        let page = frame::page(self, title, body).into_string();
        let answer = with(ok(media::HTML, page), header::CONTENT_LANGUAGE, self.texts.lang);
        let answer = with(answer, header::CACHE_CONTROL, "no-cache");
        with(answer, header::VARY, "Accept, Accept-Language")
    }
}

/// Answers the paths that are pages and nothing else; `None` if the path is not one of them.
pub(crate) async fn route(
    state: &Arc<State>,
    request: &Request,
) -> Option<Result<Answer, Refusal>> {
    let path = request.path();
    Some(match path {
        "/" => Ok(search::home(&Visit::new(state, request))),
        "/suggest" => suggest::answer(state, request).await,
        "/upload" => Ok(upload_form(state, request)),
        "/statistics" => statistics(state, request).await,
        "/peers" => peers::page(&Visit::new(state, request)),
        "/operator" => operator::page(&Visit::new(state, request)),
        _ => match path.strip_prefix("/certificate/") {
            Some(fingerprint) => certificate::lookup(state, request, fingerprint).await,
            None => return asset::answer(request),
        },
    })
}
