//! From a request to its answer: which handler is asked, what it may cost, and what every answer has.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};

use crate::answer::{Answer, Refusal, media, ok, with};
use crate::hkp;
use crate::limiter::Class;
use crate::metrics::{RequestKind, count};
use crate::request::Request;
use crate::state::State;
use crate::{admin, owner, page, vks, wkd};

/// What pages may load: only what comes from here, and no script or style within them.
const CONTENT_SECURITY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// Answers a request.
pub(crate) async fn handle(state: &Arc<State>, request: &Request) -> Answer {
    let started = Instant::now();
    let (kind, class) = classify(request);
    let answer = match admit(state, request, class) {
        Ok(()) => dispatch(state, request, kind).await,
        Err(refusal) => {
            count(&state.metrics.rate_limited, 1);
            Err(refusal)
        }
    };
    let answer = answer.unwrap_or_else(|refusal| refuse(state, request, kind, &refusal));
    let answer = finish(request, answer);
    let took = started.elapsed();
    state.metrics.answered(kind, answer.status().as_u16(), took);
    let config = state.config.load();
    if config.log.requests {
        let client = config.log.addresses.then(|| request.client.to_string());
        tracing::info!(
            method = %request.method(),
            path = request.path(),
            status = answer.status().as_u16(),
            bytes = answer.body().len(),
            us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            client,
            "request"
        );
    }
    answer
}

/// What a request is counted as, and from which bucket it is taken. `None`: it costs nothing.
fn classify(request: &Request) -> (RequestKind, Option<Class>) {
    let path = request.path();
    let writes = *request.method() == Method::POST;
    match path {
        "/pks/lookup" => {
            let query = request.parts.uri.query().unwrap_or_default();
            if query.contains("op=get") || query.contains("op=hget") {
                (RequestKind::Get, Some(Class::Lookup))
            } else {
                (RequestKind::Index, Some(Class::Search))
            }
        }
        "/pks/add" if writes => (RequestKind::Add, Some(Class::Upload)),
        "/pks/add" => (RequestKind::Page, Some(Class::Lookup)),
        "/pks/hashquery" => (RequestKind::HashQuery, Some(Class::Lookup)),
        "/pks/delete" | "/pks/replace" => (RequestKind::Owner, Some(Class::Upload)),
        "/metrics" | "/health" | "/ready" => (RequestKind::Other, None),
        _ if path.starts_with("/pks/v2/") => {
            (RequestKind::V2, Some(if writes { Class::Upload } else { Class::Lookup }))
        }
        _ if path.starts_with("/vks/") => {
            (RequestKind::Vks, Some(if writes { Class::Upload } else { Class::Lookup }))
        }
        _ if path.starts_with("/.well-known/openpgpkey") => (RequestKind::Wkd, Some(Class::Lookup)),
        "/suggest" => (RequestKind::Page, Some(Class::Search)),
        _ => (RequestKind::Page, Some(Class::Lookup)),
    }
}

fn admit(state: &State, request: &Request, class: Option<Class>) -> Result<(), Refusal> {
    let Some(class) = class else { return Ok(()) };
    let config = state.config.load();
    match config.rates.network(request.client, request.host()) {
        None => Ok(()),
        Some(network) => state
            .limiter
            .take(&config.rates, network, class, Instant::now())
            .map_err(|seconds| Refusal::TooMany { seconds }),
    }
}

async fn dispatch(
    state: &Arc<State>,
    request: &Request,
    kind: RequestKind,
) -> Result<Answer, Refusal> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let only = |allow| {
        let method = request.method().to_string();
        Err(Refusal::Method { method, allow })
    };
    match request.path() {
        "/pks/lookup" if reads => hkp::v1::lookup(state, request).await,
        "/pks/lookup" if *request.method() == Method::OPTIONS => {
            Ok(hkp::v2::options("GET, HEAD, OPTIONS"))
        }
        "/pks/lookup" => only("GET, HEAD, OPTIONS"),
        "/pks/add" if *request.method() == Method::OPTIONS => {
            Ok(hkp::v2::options("GET, POST, OPTIONS"))
        }
        "/pks/add" => hkp::v1::add(state, request).await,
        "/pks/hashquery" => hkp::v1::hash_query(state, request).await,
        "/health" if reads => Ok(ok(media::TEXT, "ok\n")),
        "/ready" if reads => admin::ready(state),
        "/metrics" if reads => admin::metrics(state, request),
        path if path.starts_with("/pks/v2/") => Ok(hkp::v2::handle(state, request).await),
        "/pks/delete" | "/pks/replace" => owner::handle(state, request).await,
        path if path.starts_with("/vks/") => Ok(vks::handle(state, request).await),
        path if path.starts_with(wkd::ROOT) => wkd::handle(state, request).await,
        _ if kind == RequestKind::Page && reads => match page::route(state, request).await {
            Some(answer) => answer,
            None => Err(Refusal::NotFound("no such page".into())),
        },
        _ => Err(Refusal::NotFound("there is nothing at this path".into())),
    }
}

/// A refusal, in the form that the client reads.
fn refuse(state: &Arc<State>, request: &Request, kind: RequestKind, refusal: &Refusal) -> Answer {
    let machine = matches!(kind, RequestKind::Get | RequestKind::Index)
        && (request.query().option("mr") || request.query().option("json"));
    let answer = match kind {
        RequestKind::V2 | RequestKind::Vks => refusal.json(),
        _ if request.wants_page() && !machine => page::refusal(state, request, refusal),
        _ => refusal.text(),
    };
    match kind {
        RequestKind::Page => answer,
        _ => hkp::v1::open_to_all(answer),
    }
}

/// The headers of every answer.
fn finish(request: &Request, answer: Answer) -> Answer {
    let mut answer = conditional(request, answer);
    let headers = answer.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("talaria"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let is_page = headers.get(header::CONTENT_TYPE).is_some_and(|media| {
        media.as_bytes().starts_with(b"text/html") || media.as_bytes().starts_with(b"image/svg")
    });
    if is_page {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    }
    let length = answer.body().len();
    if *request.method() == Method::HEAD {
        // The length is that of what GET gives.
        answer = with(answer, header::CONTENT_LENGTH, &length.to_string());
        *answer.body_mut() = Bytes::new();
    }
    answer
}

/// The parts that the client has already.
pub(crate) fn conditional(request: &Request, mut answer: Answer) -> Answer {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads || answer.status() != StatusCode::OK {
        return answer;
    }
    let tag = answer.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let Some(tag) = tag.map(str::to_owned) else { return answer };
    answer.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if request.header(header::IF_NONE_MATCH).is_some_and(|theirs| theirs.contains(&tag)) {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        *answer.body_mut() = Bytes::new();
        answer.headers_mut().remove(header::CONTENT_TYPE);
        return answer;
    }
    let Some(range) = request.header(header::RANGE) else { return answer };
    if request.header(header::IF_RANGE).is_some_and(|theirs| theirs != tag) {
        return answer;
    }
    let length = answer.body().len();
    match parse_range(range, length) {
        None => answer,
        Some(Ok((from, to))) => {
            let part = answer.body().slice(from..to);
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            *answer.body_mut() = part;
            let range = format!("bytes {from}-{}/{length}", to - 1);
            with(answer, header::CONTENT_RANGE, &range)
        }
        Some(Err(())) => {
            *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            *answer.body_mut() = Bytes::new();
            with(answer, header::CONTENT_RANGE, &format!("bytes */{length}"))
        }
    }
}

/// One range of bytes (RFC 9110, section 14.1.2): `None` if it is to be ignored, an error if there is
/// no such part.
fn parse_range(text: &str, length: usize) -> Option<Result<(usize, usize), ()>> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (from, to) = (from.trim(), to.trim());
    let range = match (from.parse::<usize>(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) if from <= to => (from, to.saturating_add(1).min(length)),
        (Ok(from), Err(_)) if to.is_empty() => (from, length),
        (Err(_), Ok(last)) if from.is_empty() => {
            if last == 0 {
                return Some(Err(()));
            }
            (length.saturating_sub(last), length)
        }
        _ => return None,
    };
    Some(if range.0 < range.1 { Ok(range) } else { Err(()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_by_the_rfc() {
        assert_eq!(parse_range("bytes=0-9", 100), Some(Ok((0, 10))));
        assert_eq!(parse_range("bytes=90-", 100), Some(Ok((90, 100))));
        assert_eq!(parse_range("bytes=-10", 100), Some(Ok((90, 100))));
        assert_eq!(parse_range("bytes=-1000", 100), Some(Ok((0, 100))));
        assert_eq!(parse_range("bytes=50-1000", 100), Some(Ok((50, 100))));
        assert_eq!(parse_range("bytes=100-", 100), Some(Err(())));
        assert_eq!(parse_range("bytes=-0", 100), Some(Err(())));
        for ignored in ["bytes=9-1", "bytes=a-b", "lines=1-2", "bytes=1-2,4-5", "bytes=-"] {
            assert_eq!(parse_range(ignored, 100), None, "{ignored}");
        }
    }
}
