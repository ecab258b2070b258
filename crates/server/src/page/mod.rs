//! The pages: rendered here, useful without JavaScript, in the language of the reader.
//!
//! A page is a function of the client ([`Visit`]) and of the data to show, which `gather` reads
//! before. Texts by strangers (user IDs, search terms, answers of peers) go through [`text`], so
//! that they cannot change how the rest of the page reads.

mod asset;
mod certificate;
mod chart;
mod failure;
mod frame;
mod gather;
mod language;
mod number;
mod operator;
mod parts;
mod peers;
mod qr;
mod search;
mod statistics;
mod suggest;
mod text;
mod texts;
mod timeline;
mod upload;
pub(crate) mod verify;

use std::sync::Arc;
use std::time::Instant;

use talaria_cert::View;
use talaria_recon::PrefixTree;

use crate::answer::{Answer, Refusal};
use crate::config::{Identity, Settings};
use crate::engine::{Bounds, Engine, Query, Reading, Row};
use crate::figures::Figures;
use crate::gossip::Peers;
use crate::metrics::Metrics;
use crate::operators::operators_only;
use crate::report::Report;
use crate::request::Request;
use crate::search::{Found, LOOKS_MAX, given};
use crate::token::Tokens;

pub(crate) use failure::refusal;
pub(crate) use frame::Visit;
pub(crate) use upload::form as upload_form;

use certificate::Armor;
use texts::Texts;

/// The page of a certificate, `None` if no part of it is served.
pub(crate) async fn certificate(
    visit: &Visit<'_>,
    store: &mut Reading,
    row: &Row,
) -> Result<Option<Answer>, Refusal> {
    let shown = gather::certificate(visit, store, row, None).await?;
    Ok(shown.map(|shown| certificate::page(visit, &shown, Armor::Left)))
}

/// The page of a certificate that was found, with its armor.
pub(crate) async fn armored(
    visit: &Visit<'_>,
    store: &mut Reading,
    found: Found,
) -> Result<Answer, Refusal> {
    let shown = gather::certificate(visit, store, &found.row, Some(found.cert)).await?;
    let page = shown.map(|shown| certificate::page(visit, &shown, Armor::Shown));
    page.ok_or_else(|| Refusal::NotFound("no certificate was found".into()))
}

/// A list of certificates: the first ones, if there are `more`.
pub(crate) async fn list(
    visit: &Visit<'_>,
    store: &mut Reading,
    rows: Vec<Row>,
    text: &str,
    more: bool,
) -> Result<Answer, Refusal> {
    Ok(search::list(visit, &gather::listing(visit, store, rows, text, more).await?))
}

/// The result of an upload.
pub(crate) async fn uploaded(
    visit: &Visit<'_>,
    store: &mut Reading,
    tokens: &Tokens,
    report: &Report,
) -> Result<Answer, Refusal> {
    let uploaded = gather::uploaded(visit, store, tokens, report).await?;
    Ok(upload::report(visit, report, &uploaded))
}

/// Answers the paths that are pages and nothing else.
pub(crate) struct Pages {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) figures: Arc<Figures>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) started: Instant,
}

impl Pages {
    /// Answers a request; `None` if its path is not that of a page.
    pub(crate) async fn route(&self, request: &Request) -> Option<Result<Answer, Refusal>> {
        let path = request.path();
        Some(match path {
            "/" => Ok(search::home(&self.visit(request), self.figures.certs())),
            "/suggest" => self.suggest(request).await,
            "/upload" => Ok(upload_form(&self.visit(request))),
            "/statistics" => self.statistics(request).await,
            "/peers" => {
                self.peers.statuses().await.map(|all| peers::page(&self.visit(request), &all))
            }
            "/operator" => self.operator(request).await,
            "/imprint" => self.operator_text(request, |texts, identity| {
                (texts.imprint, identity.imprint.clone())
            })?,
            "/privacy" => self.operator_text(request, |texts, identity| {
                (texts.privacy, identity.privacy.clone())
            })?,
            _ => match path.strip_prefix("/certificate/") {
                Some(fingerprint) => self.certificate(request, fingerprint).await,
                None => return asset::answer(request, &self.settings.load().server),
            },
        })
    }

    fn visit<'a>(&self, request: &'a Request) -> Visit<'a> {
        Visit::new(request, self.settings.load_full())
    }

    /// A page with a text of the operator; `None` if there is no such text.
    fn operator_text(
        &self,
        request: &Request,
        choose: impl FnOnce(&'static Texts, &Identity) -> (&'static str, String),
    ) -> Option<Result<Answer, Refusal>> {
        let visit = self.visit(request);
        let (title, text) = choose(visit.texts, &visit.config.server);
        (!text.is_empty()).then(|| Ok(frame::operator_text(&visit, title, &text)))
    }

    async fn suggest(&self, request: &Request) -> Result<Answer, Refusal> {
        let config = self.settings.load_full();
        let Some(typed) = suggest::typed(request, &config.policy) else {
            return Ok(suggest::answer(&[]));
        };
        let (request, network) = (request.clone(), config.rates.limited(request));
        let read = self.engine.read_for(network, async move |store: &mut Reading| {
            let visit = Visit::new(&request, config);
            let candidates = gather::candidates(&visit, store, &typed).await?;
            Ok::<_, Refusal>(suggest::suggestions(&visit, candidates, &typed))
        });
        Ok(suggest::answer(&read.await?))
    }

    /// The statistics, for people.
    pub(crate) async fn statistics(&self, request: &Request) -> Result<Answer, Refusal> {
        let counted = self.figures.contents().await;
        let visit = self.visit(request);
        let operator = match visit.config.server.operator.parse::<Query>() {
            Ok(query) => {
                let bounds = Bounds { results: 1, looks: LOOKS_MAX };
                let mut store = self.engine.reading().await?;
                store.find(&query, bounds).await?.rows.into_iter().next()
            }
            Err(_) => None,
        };
        let shown = statistics::Shown {
            counted,
            certs: self.figures.certs(),
            requests: self.metrics.requests(),
            peers: self.peers.statuses().await?,
            operator: operator.map(|row| row.fingerprint()),
        };
        Ok(statistics::page(&visit, &shown))
    }

    async fn operator(&self, request: &Request) -> Result<Answer, Refusal> {
        let visit = self.visit(request);
        operators_only(&visit.config, request)?;
        let last_change = self.engine.reading().await?.last_change().await?;
        let (engine, progress) = (&self.engine, self.engine.progress());
        let digests = |view| Some((view, engine.with_tree(view, PrefixTree::len)? as u64));
        let shown = operator::Health {
            certs: self.figures.certs(),
            last_change,
            uptime_s: self.started.elapsed().as_secs(),
            commits: progress.commits,
            writes_waiting: progress.waiting as u64,
            unobtainable: self.figures.in_vain().await,
            views: View::ALL.into_iter().filter_map(digests).collect(),
            peers: self.peers.statuses().await?,
            counters: self.metrics.counters(),
        };
        Ok(operator::page(&visit, &shown))
    }

    /// Answers `/certificate/FINGERPRINT`, of a primary key or a subkey.
    async fn certificate(&self, request: &Request, fingerprint: &str) -> Result<Answer, Refusal> {
        let nothing = || Refusal::NotFound("there is no certificate with this fingerprint".into());
        let rows = gather::lookup(&mut self.engine.reading().await?, fingerprint).await?;
        let (config, request) = (self.settings.load_full(), request.clone());
        let (text, network) = (fingerprint.to_owned(), config.rates.limited(&request));
        let read = self.engine.read_for(network, async move |store: &mut Reading| {
            let rows = given(store, rows, &config).await?;
            let visit = Visit::new(&request, config);
            match &rows[..] {
                [] => Err(nothing()),
                [row] => certificate(&visit, store, row).await?.ok_or_else(nothing),
                _ => list(&visit, store, rows, &text, false).await,
            }
        });
        read.await
    }
}
