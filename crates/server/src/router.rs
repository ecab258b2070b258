//! From a request to its answer: the handler, the rate limit, and the headers of every answer.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Method;
use http::header::{self, HeaderValue};

use crate::admin::Admin;
use crate::admin::orders::Orders;
use crate::answer::{Answer, Content, Refusal, media, ok, open_to_all, options, with};
use crate::conditional::conditional;
use crate::config::{Config, Settings};
use crate::gate::Gate;
use crate::hkp::add::Adds;
use crate::hkp::hashquery::HashQueries;
use crate::hkp::lookup::{self, Asks, Lookups};
use crate::hkp::statistics::Statistics;
use crate::hkp::v2::{self, Version2};
use crate::limiter::Class;
use crate::metrics::{Metrics, RequestKind, count};
use crate::operators::operators_only;
use crate::owner::Owners;
use crate::page::{self, Pages, Visit};
use crate::request::{Request, Via};
use crate::vks::Vks;
use crate::wkd::{self, WebKeys};

/// The Content-Security-Policy of pages: they load files only from this server, and have no inline
/// script or style.
const CONTENT_SECURITY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// Bytes of the path and the query of a request. Requests whose head is above 16 KiB in all never
/// get here.
const TARGET_BYTES_MAX: usize = 8192;

/// One line of the table of routes: the handler of a path, its methods, and its cost.
struct Route {
    path: &'static str,
    /// Whether everything below the path belongs to it.
    below: bool,
    /// The methods, as the header `Allow` names them.
    methods: &'static str,
    /// The kind that a request is counted as, and its class for the rate limit. `None`: there is no
    /// limit.
    cost: fn(&Config, &Request) -> (RequestKind, Option<Class>),
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
    Route::below("/admin/", "GET, HEAD, POST", |c, r| for_operators(c, r, UPLOAD), Handler::Admin),
    Route::below("/pks/v2/", "GET, HEAD, POST, PUT, OPTIONS", version2_cost, Handler::Version2),
    Route::below("/vks/", BOTH, |_, r| by_method(r, RequestKind::Vks), Handler::Vks),
    Route::below(wkd::ROOT, READS, |_, _| (RequestKind::Wkd, LOOKUP), Handler::Wkd),
    Route::new("/health", READS, |_, _| FREE, Handler::Health),
    Route::new("/ready", READS, |_, _| FREE, Handler::Ready),
    Route::new("/metrics", READS, |c, r| for_operators(c, r, LOOKUP), Handler::Metrics),
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
        cost: fn(&Config, &Request) -> (RequestKind, Option<Class>),
        handler: Handler,
    ) -> Self {
        Self { path, below: false, methods, cost, handler }
    }

    const fn below(
        path: &'static str,
        methods: &'static str,
        cost: fn(&Config, &Request) -> (RequestKind, Option<Class>),
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

/// Operators pay nothing. Others pay for the try, since they may guess a token.
fn for_operators(
    config: &Config,
    request: &Request,
    others: Option<Class>,
) -> (RequestKind, Option<Class>) {
    let is_one = operators_only(config, request).is_ok();
    (RequestKind::Other, if is_one { None } else { others })
}

/// The cost of a lookup, from the same parameters, read in the same way, as its handler reads them.
fn lookup_cost(config: &Config, request: &Request) -> (RequestKind, Option<Class>) {
    if *request.method() == Method::OPTIONS {
        return (RequestKind::Get, LOOKUP);
    }
    match lookup::asks(request.query(), &config.policy) {
        Asks::Certificate => (RequestKind::Get, LOOKUP),
        Asks::Certificates => (RequestKind::Get, SEARCH),
        Asks::Index => (RequestKind::Index, SEARCH),
    }
}

fn version2_cost(_: &Config, request: &Request) -> (RequestKind, Option<Class>) {
    match by_method(request, RequestKind::V2) {
        (kind, LOOKUP) if v2::is_search(request.path()) => (kind, SEARCH),
        cost => cost,
    }
}

/// The handlers of all requests, and what it takes to admit one.
pub(crate) struct Router {
    pub(crate) settings: Settings,
    pub(crate) gate: Arc<Gate>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) lookups: Lookups,
    pub(crate) adds: Adds,
    pub(crate) hash_queries: HashQueries,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) owners: Owners,
    pub(crate) version2: Version2,
    pub(crate) vks: Vks,
    pub(crate) web_keys: WebKeys,
    pub(crate) admin: Admin,
    pub(crate) orders: Orders,
    pub(crate) pages: Arc<Pages>,
}

impl Router {
    /// Answers a request. `body` is read only when the request is admitted.
    pub(crate) async fn handle(
        &self,
        mut request: Request,
        body: impl Future<Output = Result<Bytes, Refusal>>,
    ) -> Answer {
        let started = Instant::now();
        let route = Route::of(request.path());
        let (kind, class) = (route.cost)(&self.settings.load(), &request);
        let answer = match self.admit(&request, route, class) {
            Ok(()) => match body.await {
                Ok(body) => {
                    request.body = body;
                    self.dispatched(&request, route).await
                }
                Err(refusal) => Err(refusal),
            },
            Err(refusal) => Err(refusal),
        };
        self.finish(&request, kind, started, answer)
    }

    /// The whole answer, which is counted and logged.
    fn finish(
        &self,
        request: &Request,
        kind: RequestKind,
        started: Instant,
        answer: Result<Answer, Refusal>,
    ) -> Answer {
        let answer = answer.unwrap_or_else(|refusal| self.refuse(request, kind, &refusal));
        let answer = self.with_headers(request, answer);
        let took = started.elapsed();
        self.metrics.answered(kind, answer.status().as_u16(), took);
        let config = self.settings.load();
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
    fn admit(&self, request: &Request, route: &Route, class: Option<Class>) -> Result<(), Refusal> {
        // Requests through an onion service all have the address of this machine.
        if request.via == Via::Public && self.settings.load().http.bans(request.client) {
            count(&self.metrics.banned, 1);
            return Err(Refusal::Forbidden(
                "the operator of this server refuses requests from your network".into(),
            ));
        }
        if let Some(class) = class {
            self.gate.charge(request, class)?;
        }
        let target = request.parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
        if target > TARGET_BYTES_MAX {
            return Err(Refusal::LongTarget { max: TARGET_BYTES_MAX });
        }
        if route.handler == Handler::Admin {
            // Before its body is read.
            operators_only(&self.settings.load(), request)?;
        }
        if route.allows(request.method()) {
            return Ok(());
        }
        if route.handler == Handler::Page {
            return Err(Refusal::NotFound("there is nothing at this path".into()));
        }
        Err(Refusal::Method { method: request.method().to_string(), allow: route.methods })
    }

    /// The answer of the handler, in memory that is taken only now: handlers need far more of it
    /// than a request whose body arrives.
    fn dispatched<'a>(
        &'a self,
        request: &'a Request,
        route: &'a Route,
    ) -> BoxFuture<'a, Result<Answer, Refusal>> {
        Box::pin(self.dispatch(request, route))
    }

    async fn dispatch(&self, request: &Request, route: &Route) -> Result<Answer, Refusal> {
        let asks_options = *request.method() == Method::OPTIONS;
        match route.handler {
            // These have methods of their own for the paths below theirs.
            Handler::Version2 => Ok(self.version2.handle(request).await),
            Handler::Vks => Ok(self.vks.handle(request).await),
            Handler::Wkd => self.web_keys.handle(request).await,
            Handler::Lookup | Handler::Add | Handler::HashQuery | Handler::Owner
                if asks_options =>
            {
                Ok(open_to_all(options(route.methods)))
            }
            _ if asks_options => Ok(options(route.methods)),
            Handler::Lookup => self.lookups.answer(request).await,
            Handler::Add => self.adds.answer(request).await,
            Handler::HashQuery => self.hash_queries.answer(request).await,
            Handler::Owner => self.owners.handle(request).await,
            Handler::Health => Ok(ok(media::TEXT, "ok\n")),
            Handler::Ready => self.admin.ready().await,
            Handler::Metrics => self.admin.metrics(request).await,
            Handler::Stats => self.statistics.answer().await.map(open_to_all),
            Handler::Admin => self.orders.handle(request).await,
            Handler::Page => match self.pages.route(request).await {
                Some(answer) => answer,
                None => Err(Refusal::NotFound("no such page".into())),
            },
        }
    }

    /// A refusal, in the form that the client reads.
    fn refuse(&self, request: &Request, kind: RequestKind, refusal: &Refusal) -> Answer {
        let machine = matches!(kind, RequestKind::Get | RequestKind::Index)
            && ["mr", "json", "bin"].iter().any(|option| request.query().option(option));
        let answer = match kind {
            RequestKind::V2 | RequestKind::Vks => refusal.json(),
            _ if request.path().starts_with("/admin/") => return refusal.json(),
            _ if request.wants_page() && !machine => {
                page::refusal(&Visit::new(request, self.settings.load_full()), refusal)
            }
            _ => refusal.text(),
        };
        match kind {
            RequestKind::Page => answer,
            _ => open_to_all(answer),
        }
    }

    /// The headers of every answer.
    fn with_headers(&self, request: &Request, answer: Answer) -> Answer {
        let mut answer = conditional(request, answer);
        let headers = answer.headers_mut();
        if let (true, Some(hsts)) = (request.secure, self.hsts()) {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts);
        }
        headers.insert(header::SERVER, HeaderValue::from_static("talaria"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let is_page = headers.get(header::CONTENT_TYPE).is_some_and(|media| {
            media.as_bytes().starts_with(b"text/html") || media.as_bytes().starts_with(b"image/svg")
        });
        if is_page {
            headers.insert(
                header::CONTENT_SECURITY_POLICY,
                HeaderValue::from_static(CONTENT_SECURITY),
            );
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
    fn hsts(&self) -> Option<HeaderValue> {
        let seconds = self.settings.load().http.hsts_s;
        if seconds == 0 { None } else { HeaderValue::try_from(format!("max-age={seconds}")).ok() }
    }
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
        let config = Config::default();
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
            // Strangers may guess the token of an operator.
            (LOOKUP, "/metrics".into()),
            (UPLOAD, "/admin/list".into()),
        ];
        let class_of = |target: &str, via| {
            let (parts, ()) = http::Request::get(target).body(()).unwrap().into_parts();
            let request = Request::new(parts, via, false, [127, 0, 0, 1].into());
            (Route::of(request.path()).cost)(&config, &request).1
        };
        for (class, target) in classes {
            assert_eq!(class_of(&target, Via::Public), class, "{target}");
        }
        for target in ["/metrics", "/admin/list"] {
            assert_eq!(class_of(target, Via::Operator), None, "{target}");
        }
    }
}
