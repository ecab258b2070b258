//! `/pks/lookup`: certificates, lists of them, and the statistics.

use std::sync::Arc;

use http::header;
use talaria_cert::{Cert, Enarmor};

use super::answers::{COUNT, armored, armored_one, binary, binary_media, marked};
use super::index::entries;
use super::machine;
use super::statistics::Statistics;
use crate::addresses;
use crate::answer::{Answer, Refusal, json, media, ok, open_to_all, streamed, with};
use crate::clock;
use crate::config::{Config, Policy, Settings};
use crate::engine::{Digested, Engine, Page, Reading, Row};
use crate::gate::Gate;
use crate::limiter::Class;
use crate::memory::{Account, Memory, holding};
use crate::page::{self, Pages, Visit};
use crate::request::{Parameters, Request};
use crate::search::{self, Found, Search, Wants, Way};

/// What a look-up asks for.
enum Asked {
    /// The statistics.
    Figures,
    /// The certificate with this digest.
    Digest([u8; 16]),
    /// Certificates.
    Certificates(Search),
    /// A list of certificates; or, if `whole`, all about the only one.
    List { search: Search, whole: bool },
}

impl Asked {
    fn parse(query: &Parameters, policy: &Policy) -> Result<Self, Refusal> {
        let text = query.get("search").unwrap_or_default();
        let search = || Search::parse(text, query.is_on("exact"), policy);
        Ok(match query.get("op").unwrap_or_default() {
            "get" => Self::Certificates(search()?),
            "index" => Self::List { search: search()?, whole: false },
            "vindex" => Self::List { search: search()?, whole: true },
            "stats" => Self::Figures,
            "hget" => Self::Digest(digest(text).ok_or_else(|| {
                Refusal::BadRequest("hget needs a digest of 32 hexadecimal digits".into())
            })?),
            "" => return Err(Refusal::BadRequest("the parameter op is missing".into())),
            _ => {
                return Err(Refusal::NotImplemented(
                    "the parameter op must be one of get, index, vindex, stats and hget".into(),
                ));
            }
        })
    }
}

/// The kind of a look-up, which decides its cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Asks {
    /// Certificates by an exact index.
    Certificate,
    /// Certificates by words.
    Certificates,
    /// A list, or figures.
    Index,
}

/// The kind of the look-up with these parameters. One that is refused costs as little as any.
pub(crate) fn asks(query: &Parameters, policy: &Policy) -> Asks {
    match Asked::parse(query, policy) {
        Ok(Asked::Certificates(search)) if search.is_wide(true) => Asks::Certificates,
        Ok(Asked::Certificates(_) | Asked::Digest(_)) | Err(_) => Asks::Certificate,
        Ok(Asked::List { .. } | Asked::Figures) => Asks::Index,
    }
}

/// Answers look-ups.
pub(crate) struct Lookups {
    pub(crate) settings: Settings,
    pub(crate) gate: Arc<Gate>,
    pub(crate) engine: Engine,
    pub(crate) pages: Arc<Pages>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) memory: Arc<Memory>,
}

impl Lookups {
    /// Answers `/pks/lookup`.
    pub(crate) async fn answer(&self, request: &Request) -> Result<Answer, Refusal> {
        let query = request.query();
        let machine = ["mr", "json", "bin"].iter().any(|option| query.option(option));
        let answer = self.dispatch(request, query, machine).await;
        // Pages of the same server need no permission; programs in browsers do.
        if machine { answer.map(open_to_all) } else { answer }
    }

    async fn dispatch(
        &self,
        request: &Request,
        query: &Parameters,
        machine: bool,
    ) -> Result<Answer, Refusal> {
        let config = self.settings.load_full();
        let (search, content) = match Asked::parse(query, &config.policy)? {
            Asked::Figures if machine => return self.statistics.answer().await,
            Asked::Figures => return self.pages.statistics(request).await,
            Asked::Digest(digest) => {
                let account = self.memory.account(&config, request);
                let get = async move |store: &mut Reading| {
                    hash_get(store, digest, &config, &account).await
                };
                return self.engine.read(get).await;
            }
            Asked::Certificates(search) => (search, Content::Certificates),
            Asked::List { search, whole } => (search, Content::List { whole }),
        };
        let machine = machine || !request.wants_page();
        let binary = query.option("bin").then(|| binary_media(request));
        let form = Form { content, json: query.option("json"), machine, binary };
        let wants = form.wants();
        let network = config.rates.limited(request);
        let account = self.memory.account(&config, request);
        let text = query.get("search").unwrap_or_default().to_owned();
        let ask = Ask { config, account, form, text };
        let mut store = self.engine.reading().await?;
        let page = match search.way(&mut store, wants, &ask.config).await? {
            Way::Sole(cert, digest) => return Ok(armored_one(&cert, digest)),
            Way::Here(page) => return ask.answer(&self.engine, request, &mut store, page).await,
            Way::Apart(page) => Some(page),
            Way::Words => None,
        };
        drop(store);
        if page.is_none() && content == Content::Certificates && !search.is_wide(true) {
            // It was charged as a look-up, and becomes a search.
            self.gate.charge(request, Class::Search)?;
        }
        let (engine, request) = (self.engine.clone(), request.clone());
        let answer = async move |store: &mut Reading| {
            let page = match page {
                Some(page) => page,
                None => search.page_with_words(store, wants, &ask.config).await?,
            };
            ask.answer(&engine, &request, store, page).await
        };
        self.engine.read_for(network, answer).await
    }
}

/// What an answer has of the certificates that were found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Content {
    Certificates,
    /// See [`Asked::List`].
    List {
        whole: bool,
    },
}

/// The form of an answer.
#[derive(Clone, Copy, Debug)]
struct Form {
    content: Content,
    json: bool,
    /// For programs, and not as a page.
    machine: bool,
    /// Without armor, as this media type.
    binary: Option<&'static str>,
}

impl Form {
    fn wants(self) -> Wants {
        let is_list = self.content != Content::Certificates;
        Wants {
            bytes: self.machine && !is_list && self.binary.is_none(),
            rows: self.machine && is_list && !self.json,
            for_programs: self.machine,
        }
    }
}

/// A search whose certificates are given out.
struct Ask {
    config: Arc<Config>,
    account: Account,
    form: Form,
    text: String,
}

impl Ask {
    async fn answer(
        &self,
        engine: &Engine,
        request: &Request,
        store: &mut Reading,
        page: Page,
    ) -> Result<Answer, Refusal> {
        let Page { rows, more } = page;
        match self.given(engine, request, store, rows, more).await {
            // Those that were found have nothing to give out. There may be others behind them.
            Err(Refusal::NotFound(_)) if more => Err(Refusal::NotFound(
                "none of the first certificates that match can be given out, and there are more: search for the fingerprint"
                    .into(),
            )),
            answer => Ok(marked(answer?, more)),
        }
    }

    async fn given(
        &self,
        engine: &Engine,
        request: &Request,
        store: &mut Reading,
        rows: Vec<Row>,
        more: bool,
    ) -> Result<Answer, Refusal> {
        let nothing = || Refusal::NotFound("no certificate was found".into());
        // A keyring leaves out what is not given out while it is made.
        let is_keyring =
            matches!(self.form, Form { content: Content::Certificates, machine: true, .. });
        let rows = if is_keyring { rows } else { search::given(store, rows, &self.config).await? };
        if rows.is_empty() {
            return Err(nothing());
        }
        let visit = || Visit::new(request, Arc::clone(&self.config));
        Ok(match self.form {
            Form { content: Content::Certificates, machine: true, .. } => {
                self.keyring(engine, store, rows).await?
            }
            Form { content: Content::Certificates, .. } if rows.len() > 1 => {
                page::list(&visit(), store, rows, &self.text, more).await?
            }
            Form { content: Content::Certificates, .. } => {
                let cert = self.found(store, &rows).await?.swap_remove(0);
                let row = rows.into_iter().next().expect("there is one");
                page::armored(&visit(), store, Found { cert, row }).await?
            }
            Form { json: true, .. } => json(&entries(store, &rows, &self.config).await?),
            Form { machine: true, .. } => machine_index(store, &rows, &self.config).await?,
            Form { content: Content::List { whole: true }, .. } if rows.len() == 1 => {
                page::certificate(&visit(), store, &rows[0]).await?.ok_or_else(nothing)?
            }
            _ => page::list(&visit(), store, rows, &self.text, more).await?,
        })
    }

    /// Certificates, in armor unless the client wants none.
    async fn keyring(
        &self,
        engine: &Engine,
        store: &mut Reading,
        rows: Vec<Row>,
    ) -> Result<Answer, Refusal> {
        if let Some(media) = self.form.binary {
            return binary(engine, store, &rows, &self.config, &self.account, media).await;
        }
        let (all, largest) = search::lengths(store, &rows).await?;
        if rows.len() > 1 && all > search::WHOLE_BYTES {
            return armored_pieces(engine, &rows, largest, self).await;
        }
        let room = self.account.for_certs(all)?;
        Ok(holding(armored(&self.found(store, &rows).await?), room))
    }

    /// The certificates as they are given out, at least one.
    async fn found(&self, store: &mut Reading, rows: &[Row]) -> Result<Vec<Cert>, Refusal> {
        let found = search::found(store, rows, &self.config).await?;
        let nothing = || Refusal::NotFound("no certificate was found".into());
        if found.is_empty() { Err(nothing()) } else { Ok(found) }
    }
}

/// Many certificates in one armor, read and sent one after the other.
async fn armored_pieces(
    engine: &Engine,
    rows: &[Row],
    largest: u64,
    ask: &Ask,
) -> Result<Answer, Refusal> {
    let mut armor = Enarmor::new();
    let largest = usize::try_from(largest / 2 * 3).unwrap_or(usize::MAX);
    let room = ask.account.for_pieces(largest)?;
    let pieces = search::pieces(engine, rows, largest, &ask.config, move |cert| {
        let mut text = String::new();
        match cert {
            Some(cert) => armor.write(cert.as_bytes(), &mut text),
            None => armor.finish(&mut text),
        }
        text.into()
    })
    .await?;
    let answer = streamed(media::ARMORED, pieces);
    let answer = with(answer, header::CONTENT_DISPOSITION, "attachment; filename=openpgp.asc");
    Ok(holding(with(answer, header::CACHE_CONTROL, "no-cache"), room))
}

async fn machine_index(
    store: &mut Reading,
    rows: &[Row],
    config: &Config,
) -> Result<Answer, Refusal> {
    let names = if config.vks.only_confirmed { rows } else { &[] };
    let names = names.iter().map(Row::fingerprint).collect();
    let confirmed = addresses::confirmed(store, names).await?;
    let body =
        machine::index(rows.iter().map(|row| &row.summary), clock::now(), |summary, text| {
            confirmed.get(&summary.fingerprint()).is_none_or(|emails| {
                talaria_cert::Address::of_user_id(text).is_some_and(|email| emails.contains(&email))
            })
        });
    let answer = with(ok(media::TEXT, body), COUNT, &rows.len().to_string());
    Ok(with(answer, header::CACHE_CONTROL, "no-cache"))
}

async fn hash_get(
    store: &mut Reading,
    digest: [u8; 16],
    config: &Config,
    account: &Account,
) -> Result<Answer, Refusal> {
    let nothing = || Refusal::NotFound("no certificate has this digest".into());
    let Digested { fingerprint, .. } =
        store.by_digests(&[digest]).await?.pop().ok_or_else(nothing)?;
    let row = store.row(fingerprint).await?.ok_or_else(nothing)?;
    let rows = [row];
    let (all, _) = search::lengths(store, &rows).await?;
    let room = account.for_certs(all)?;
    let found = search::found(store, &rows, config).await?;
    if found.is_empty() { Err(nothing()) } else { Ok(holding(armored(&found), room)) }
}

fn digest(text: &str) -> Option<[u8; 16]> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}
