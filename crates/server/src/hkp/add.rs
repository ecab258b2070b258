//! `/pks/add`: uploads by forms and by programs.

use std::sync::Arc;

use http::{Method, header};

use super::keytext::{keytext, read};
use crate::answer::{Answer, Refusal, json, media, ok, open_to_all};
use crate::config::Settings;
use crate::engine::Engine;
use crate::page::{self, Visit};
use crate::report::Report;
use crate::request::Request;
use crate::token::Tokens;
use crate::uploads::Uploads;

/// Answers uploads.
pub(crate) struct Adds {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) tokens: Tokens,
    pub(crate) uploads: Arc<Uploads>,
}

impl Adds {
    /// Answers `/pks/add`.
    pub(crate) async fn answer(&self, request: &Request) -> Result<Answer, Refusal> {
        if request.method() == Method::GET && request.wants_page() {
            return Ok(page::upload_form(&Visit::new(request, self.settings.load_full())));
        }
        if request.method() != Method::POST {
            return Err(Refusal::Method { method: request.method().to_string(), allow: "POST" });
        }
        let (keytext, options) = keytext(request).await?;
        let submission = read(request, keytext).await?;
        let report = self
            .uploads
            .submit(self.settings.load().rates.payer(request.client, request.via), submission)
            .await?;
        let as_json = options.option("json")
            || request.header(header::ACCEPT).is_some_and(|accept| accept.contains(media::JSON));
        let answer = if as_json {
            json(&report)
        } else if request.wants_page() && !options.option("mr") {
            let visit = Visit::new(request, self.settings.load_full());
            let mut store = self.engine.reading().await?;
            page::uploaded(&visit, &mut store, &self.tokens, &report).await?
        } else {
            ok(media::TEXT, said(&report))
        };
        if report.taken() == 0 {
            let mut answer = answer;
            *answer.status_mut() = http::StatusCode::UNPROCESSABLE_ENTITY;
            return Ok(open_to_all(answer));
        }
        Ok(open_to_all(answer))
    }
}

/// A report for people at a terminal.
fn said(report: &Report) -> String {
    let for_peers = report.added().filter(|named| named.is_for_peers).count();
    let added = report.added().count() - for_peers;
    let mut out = match (added, for_peers) {
        (0, 0) if report.taken() > 0 => {
            "Nothing new: the server already had every part of it.\n".to_owned()
        }
        (0, 1..) => String::new(),
        _ => format!("{added} key(s) added successfully.\n"),
    };
    if for_peers > 0 {
        out +=
            &format!("{for_peers} key(s) kept for other keyservers only: see the lines below.\n");
    }
    if report.is_cut() {
        out += "Not everything that was sent was kept: see the lines below.\n";
    }
    for (what, list) in [
        ("new", &report.inserted),
        ("updated", &report.updated),
        ("unchanged", &report.ignored),
        ("refused", &report.invalid),
    ] {
        for named in list {
            let comment = named.comment.as_deref().unwrap_or_default();
            out += format!("{what}: {} {comment}", named.fingerprint).trim_end();
            out.push('\n');
        }
    }
    out
}
