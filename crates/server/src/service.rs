//! From a request to its answer: the handler, the rate limit, and the headers of every answer.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};

use crate::answer::{Answer, Content, Refusal, media, ok, with};
use crate::hkp;
use crate::hkp::v1::Asks;
use crate::limiter::Class;
use crate::metrics::{RequestKind, count};
use crate::request::Request;
use crate::state::State;
use crate::{admin, owner, page, vks, wkd};

/// The Content-Security-Policy of pages: they load files only from this server, and have no inline script or style.
const CONTENT_SECURITY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// Bytes of the path and the query of a request. Requests whose head is above 16 KiB in all never get here.
const TARGET_BYTES_MAX: usize = 8192;

/// One line of the table of routes: the handler of a path, its methods, and its cost.
struct Route {
    path: &'static str,
    /// Whether everything below the path belongs to it.
    below: bool,
    /// The methods, as the header `Allow` names them.
    methods: &'static str,
    /// The kind that a request is counted as, and its class for the rate limit. `None`: there is no limit.
    cost: fn(&State, &Request) -> (RequestKind, Option<Class>),
    handler: Handler,
}

/// The handler of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Handler {
    Lookup,
    Add,
    HashQuery,
    Owner,
    Version2,
    Vks,
    Wkd,
    Health,
    Ready,
    Metrics,
    Stats,
    Admin,
    Page,
}

const READS: &str = "GET, HEAD, OPTIONS";
const WRITES: &str = "POST, OPTIONS";
const BOTH: &str = "GET, HEAD, POST, OPTIONS";

/// All routes. The first one that fits is taken; the last one fits all.
const ROUTES: [Route; 18] = [
    Route::new("/pks/lookup", READS, lookup_cost, Handler::Lookup),
    Route::new("/pks/add", BOTH, |_, r| by_method(r, RequestKind::Add), Handler::Add),
    Route::new("/pks/hashquery", WRITES, |_, _| HASH_QUERY, Handler::HashQuery),
    Route::new("/pks/delete", WRITES, |_, _| OWNER, Handler::Owner),
    Route::new("/pks/replace", WRITES, |_, _| OWNER, Handler::Owner),
    Route::new("/pks/health", READS, |_, _| FREE, Handler::Health),
    Route::new("/pks/stats", READS, |_, _| (RequestKind::Index, SEARCH), Handler::Stats),
    Route::new("/pks/v2", "GET, HEAD, POST, PUT, OPTIONS", version2_cost, Handler::Version2),
    Route::below("/admin/", "GET, HEAD, POST", |_, _| FREE, Handler::Admin),
    Route::below("/pks/v2/", "GET, HEAD, POST, PUT, OPTIONS", version2_cost, Handler::Version2),
    Route::below("/vks/", BOTH, |_, r| by_method(r, RequestKind::Vks), Handler::Vks),
    Route::below(wkd::ROOT, READS, |_, _| (RequestKind::Wkd, LOOKUP), Handler::Wkd),
    Route::new("/health", READS, |_, _| FREE, Handler::Health),
    Route::new("/ready", READS, |_, _| FREE, Handler::Ready),
    Route::new("/metrics", READS, |_, _| FREE, Handler::Metrics),
    Route::new("/suggest", READS, |_, _| (RequestKind::Page, SEARCH), Handler::Page),
    Route::new("/statistics", READS, |_, _| (RequestKind::Page, SEARCH), Handler::Page),
    Route::below("/", READS, |_, _| (RequestKind::Page, LOOKUP), Handler::Page),
];

const LOOKUP: Option<Class> = Some(Class::Lookup);
const SEARCH: Option<Class> = Some(Class::Search);
const UPLOAD: Option<Class> = Some(Class::Upload);
const HASH_QUERY: (RequestKind, Option<Class>) = (RequestKind::HashQuery, LOOKUP);
const OWNER: (RequestKind, Option<Class>) = (RequestKind::Owner, UPLOAD);
const FREE: (RequestKind, Option<Class>) = (RequestKind::Other, None);

impl Route {
    const fn new(
        path: &'static str,
        methods: &'static str,
        cost: fn(&State, &Request) -> (RequestKind, Option<Class>),
        handler: Handler,
    ) -> Self {
        Self { path, below: false, methods, cost, handler }
    }

    const fn below(
        path: &'static str,
        methods: &'static str,
        cost: fn(&State, &Request) -> (RequestKind, Option<Class>),
        handler: Handler,
    ) -> Self {
        Self { path, below: true, methods, cost, handler }
    }

    /// The route of a path.
    fn of(path: &str) -> &'static Self {
        let fits = |route: &&Self| {
            if route.below { path.starts_with(route.path) } else { path == route.path }
        };
        ROUTES.iter().find(fits).unwrap_or(&ROUTES[ROUTES.len() - 1])
    }

    fn allows(&self, method: &Method) -> bool {
        self.methods.split(", ").any(|allowed| method == allowed)
    }
}

/// A POST counts as an upload, every other method as a lookup.
fn by_method(request: &Request, kind: RequestKind) -> (RequestKind, Option<Class>) {
    (kind, if *request.method() == Method::POST { UPLOAD } else { LOOKUP })
}

/// The cost of a lookup, from the same parameters, read in the same way, as its handler reads them.
fn lookup_cost(state: &State, request: &Request) -> (RequestKind, Option<Class>) {
    if *request.method() == Method::OPTIONS {
        return (RequestKind::Get, LOOKUP);
    }
    match hkp::v1::asks(&request.query(), &state.config.load().policy) {
        Asks::Certificate => (RequestKind::Get, LOOKUP),
        Asks::Certificates => (RequestKind::Get, SEARCH),
        Asks::Index => (RequestKind::Index, SEARCH),
    }
}

fn version2_cost(_: &State, request: &Request) -> (RequestKind, Option<Class>) {
    match by_method(request, RequestKind::V2) {
        (kind, LOOKUP) if hkp::v2::is_search(request.path()) => (kind, SEARCH),
        cost => cost,
    }
}

/// Answers a request. `body` is read only when the request is admitted.
pub(crate) async fn handle(
    state: &Arc<State>,
    mut request: Request,
    body: impl Future<Output = Result<Bytes, Refusal>>,
) -> Answer {
    let started = Instant::now();
    let route = Route::of(request.path());
    let (kind, class) = (route.cost)(state, &request);
    let answer = match admit(state, &request, route, class) {
        Ok(()) => match body.await {
            Ok(body) => {
                request.body = body;
                dispatch(state, &request, route).await
            }
            Err(refusal) => Err(refusal),
        },
        Err(refusal) => Err(refusal),
    };
    let answer = answer.unwrap_or_else(|refusal| refuse(state, &request, kind, &refusal));
    let answer = finish(state, &request, answer);
    let took = started.elapsed();
    state.metrics.answered(kind, answer.status().as_u16(), took);
    let config = state.config.load();
    if config.log.requests {
        let client = config.log.addresses.then(|| request.client.to_string());
        tracing::info!(
            method = %request.method(),
            path = request.path(),
            status = answer.status().as_u16(),
            bytes = answer.body().length(),
            us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            client,
            "request"
        );
    }
    answer
}

/// Checks the method and takes the request from the client's bucket.
fn admit(
    state: &State,
    request: &Request,
    route: &Route,
    class: Option<Class>,
) -> Result<(), Refusal> {
    if let Some(class) = class {
        let config = state.config.load();
        if let Some(network) = config.rates.network(request.client, request.via) {
            let taken = state.limiter.take(&config.rates, network, class, Instant::now());
            taken.map_err(|seconds| {
                count(&state.metrics.rate_limited, 1);
                Refusal::TooMany { seconds }
            })?;
        }
    }
    let target = request.parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > TARGET_BYTES_MAX {
        return Err(Refusal::LongTarget { max: TARGET_BYTES_MAX });
    }
    if route.allows(request.method()) {
        return Ok(());
    }
    if route.handler == Handler::Page {
        return Err(Refusal::NotFound("there is nothing at this path".into()));
    }
    Err(Refusal::Method { method: request.method().to_string(), allow: route.methods })
}

async fn dispatch(state: &Arc<State>, request: &Request, route: &Route) -> Result<Answer, Refusal> {
    let asks_options = *request.method() == Method::OPTIONS;
    match route.handler {
        // These have methods of their own for the paths below theirs.
        Handler::Version2 => Ok(hkp::v2::handle(state, request).await),
        Handler::Vks => Ok(vks::handle(state, request).await),
        Handler::Wkd => wkd::handle(state, request).await,
        Handler::Lookup | Handler::Add | Handler::HashQuery | Handler::Owner if asks_options => {
            Ok(hkp::v1::open_to_all(hkp::v2::options(route.methods)))
        }
        _ if asks_options => Ok(hkp::v2::options(route.methods)),
        Handler::Lookup => hkp::v1::lookup(state, request).await,
        Handler::Add => hkp::v1::add(state, request).await,
        Handler::HashQuery => hkp::v1::hash_query(state, request).await,
        Handler::Owner => owner::handle(state, request).await,
        Handler::Health => Ok(ok(media::TEXT, "ok\n")),
        Handler::Ready => admin::ready(state),
        Handler::Metrics => admin::metrics(state, request).await,
        Handler::Stats => hkp::v1::statistics(state).await.map(hkp::v1::open_to_all),
        Handler::Admin => admin::orders::handle(state, request).await,
        Handler::Page => match page::route(state, request).await {
            Some(answer) => answer,
            None => Err(Refusal::NotFound("no such page".into())),
        },
    }
}

/// A refusal, in the form that the client reads.
fn refuse(state: &Arc<State>, request: &Request, kind: RequestKind, refusal: &Refusal) -> Answer {
    let machine = matches!(kind, RequestKind::Get | RequestKind::Index)
        && (request.query().option("mr") || request.query().option("json"));
    let answer = match kind {
        RequestKind::V2 | RequestKind::Vks => refusal.json(),
        _ if request.path().starts_with("/admin/") => return refusal.json(),
        _ if request.wants_page() && !machine => page::refusal(state, request, refusal),
        _ => refusal.text(),
    };
    match kind {
        RequestKind::Page => answer,
        _ => hkp::v1::open_to_all(answer),
    }
}

/// The headers of every answer.
fn finish(state: &State, request: &Request, answer: Answer) -> Answer {
    let mut answer = conditional(request, answer);
    let headers = answer.headers_mut();
    if let (true, Some(hsts)) = (request.secure, hsts(state)) {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts);
    }
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
    if *request.method() == Method::HEAD {
        // The length is that of the answer to GET, if it is known.
        if let Some(length) = answer.body().length() {
            answer = with(answer, header::CONTENT_LENGTH, &length.to_string());
        }
        *answer.body_mut() = Content::from(Bytes::new());
    }
    answer
}

/// For how long browsers and other clients are to use TLS only.
fn hsts(state: &State) -> Option<HeaderValue> {
    let seconds = state.config.load().http.hsts_s;
    if seconds == 0 { None } else { HeaderValue::try_from(format!("max-age={seconds}")).ok() }
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
        *answer.body_mut() = Content::from(Bytes::new());
        answer.headers_mut().remove(header::CONTENT_TYPE);
        return answer;
    }
    let Some(range) = request.header(header::RANGE) else { return answer };
    if request.header(header::IF_RANGE).is_some_and(|theirs| theirs != tag) {
        return answer;
    }
    // An answer with an `ETag` is one certificate, held whole in memory.
    let Content::Whole(body) = answer.body() else { return answer };
    let length = body.len();
    match parse_range(range, length) {
        None => answer,
        Some(Ok((from, to))) => {
            let part = body.slice(from..to);
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            *answer.body_mut() = Content::Whole(part);
            let range = format!("bytes {from}-{}/{length}", to - 1);
            with(answer, header::CONTENT_RANGE, &range)
        }
        Some(Err(())) => {
            *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            *answer.body_mut() = Content::from(Bytes::new());
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
    fn each_path_has_one_route() {
        let handlers = [
            ("/pks/lookup", Handler::Lookup),
            ("/pks/lookup/x", Handler::Page),
            ("/pks/add", Handler::Add),
            ("/pks/v2/certs/by-keyid/x", Handler::Version2),
            ("/pks/v2", Handler::Version2),
            ("/pks/stats", Handler::Stats),
            ("/admin/list", Handler::Admin),
            ("/vks/v1/upload", Handler::Vks),
            ("/.well-known/openpgpkey/hu/x", Handler::Wkd),
            ("/pks/health", Handler::Health),
            ("/", Handler::Page),
            ("*", Handler::Page),
            ("", Handler::Page),
        ];
        for (path, handler) in handlers {
            assert_eq!(Route::of(path).handler, handler, "{path}");
        }
        // None is hidden behind one before it.
        for route in &ROUTES {
            assert_eq!(Route::of(route.path).path, route.path);
        }
    }

    #[test]
    fn each_request_has_the_class_of_its_cost() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = crate::Config::default();
        config.http.listen = vec![([127, 0, 0, 1], 0).into()];
        let path = folder.path().join("certs.db");
        let server = crate::Server::start(&path, config, None).unwrap();
        let key = "0x0123456789ABCDEF";
        let classes = [
            (LOOKUP, format!("/pks/lookup?op=get&search={key}")),
            (LOOKUP, "/pks/lookup?op=get&search=alice@example.org".into()),
            (LOOKUP, "/pks/lookup?op=hget&search=00".into()),
            (SEARCH, "/pks/lookup?op=get&search=alice".into()),
            (SEARCH, format!("/pks/lookup?op=index&search={key}")),
            (SEARCH, "/pks/lookup?op=stats".into()),
            (SEARCH, "/pks/lookup?op=stats&op=get&search=0x01".into()),
            (SEARCH, "/pks/stats".into()),
            (SEARCH, "/statistics?op=get".into()),
            (SEARCH, "/suggest?q=alice".into()),
            (LOOKUP, "/pks/v2/certs/by-keyid/0123456789ABCDEF".into()),
            (LOOKUP, "/pks/v2/certs/by-identity/alice%40example.org".into()),
            (SEARCH, "/pks/v2/certs/by-identity/alice".into()),
            (LOOKUP, "/pks/v2/index/alice@example.org".into()),
            (SEARCH, "/pks/v2/index/Alice%20Example".into()),
            (SEARCH, "/pks/v2/prefixlog/2026-11-22".into()),
            (LOOKUP, "/vks/v1/by-email/alice%40example.org".into()),
            (LOOKUP, "/.well-known/openpgpkey/hu/x?l=alice".into()),
            (LOOKUP, "/certificate/0123456789ABCDEF".into()),
            (None, "/health".into()),
            // For operators only.
            (None, "/metrics".into()),
        ];
        for (class, target) in classes {
            let (parts, ()) = http::Request::get(&target).body(()).unwrap().into_parts();
            let request = Request {
                parts,
                body: Bytes::new(),
                via: crate::request::Via::Public,
                secure: false,
                client: [127, 0, 0, 1].into(),
            };
            let route = Route::of(request.path());
            assert_eq!((route.cost)(&server.state, &request).1, class, "{target}");
        }
    }

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
