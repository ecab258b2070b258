//! Version 2 of HKP (draft-ietf-openpgp-hkp-01, as Hockeypuck 2.4 speaks it): binary, exact matches
//! only, open to programs in browsers.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use talaria_cert::{Address, KeyId, UserIdContent, parse_day};

use super::answers::{binary, binary_media, marked};
use super::index::entries;
use super::keytext;
use crate::answer::{
    Answer, Pieces, Refusal, json, media, ok, open_to_all, options, streamed, with,
};
use crate::config::{Config, Settings};
use crate::engine::{Bounds, Engine, Page, Query, Reading, Row};
use crate::memory::{Account, Memory};
use crate::request::Request;
use crate::search::{self, Search};
use crate::uploads::Uploads;

/// The operations below `/pks/v2`.
const READ: &str = "GET, HEAD, OPTIONS";

/// Answers everything below `/pks/v2`.
pub(crate) struct Version2 {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) memory: Arc<Memory>,
}

impl Version2 {
    /// Answers everything below `/pks/v2`. Every answer is open to programs in browsers.
    pub(crate) async fn handle(&self, request: &Request) -> Answer {
        let answer = self.route(request).await.unwrap_or_else(|refusal| refusal.json());
        open_to_all(answer)
    }

    async fn route(&self, request: &Request) -> Result<Answer, Refusal> {
        let (category, action, argument) = parts(request.path());
        let argument = decoded(argument)?;
        match (category, action) {
            ("certs", "certs") => match *request.method() {
                Method::POST => self.add(request).await,
                Method::OPTIONS => Ok(with(
                    options("POST, OPTIONS"),
                    header::ACCEPT,
                    "application/pgp, application/pgp-keys;armor=no, multipart/form-data",
                )),
                Method::GET | Method::HEAD => Err(Refusal::Forbidden(
                    "this server does not list all certificates; ask for one by fingerprint or address"
                        .into(),
                )),
                _ => method(request, "POST, OPTIONS"),
            },
            ("certs", "by-vfingerprint" | "by-keyid" | "by-identity")
            | ("index" | "prefixlog" | "canonical", _) => match *request.method() {
                Method::OPTIONS => Ok(options(READ)),
                Method::GET | Method::HEAD if argument.is_empty() => {
                    Err(Refusal::Forbidden("the path needs an identifier at its end".into()))
                }
                Method::GET | Method::HEAD => {
                    let (engine, config) = (self.engine.clone(), self.settings.load_full());
                    let (action, network) = (action.to_owned(), config.rates.limited(request));
                    let account = self.memory.account(&config, request);
                    let media = binary_media(request);
                    let read = async move || {
                        read(&engine, &config, &account, &action, &argument, media).await
                    };
                    self.engine.long_for(network, read).await
                }
                Method::PUT if action == "canonical" => Err(Refusal::Closed {
                    allow: READ,
                    why: "the owner of an address confirms it by a mail to that address: upload at \
                          /vks/v1/upload, then ask for the mail at /vks/v1/request-verify",
                }),
                _ => method(request, READ),
            },
            ("sendtoken", _) => Err(Refusal::NotImplemented(
                "request the mail with the token at /vks/v1/request-verify".into(),
            )),
            _ => Err(Refusal::NotImplemented("this server has no such category".into())),
        }
    }

    async fn add(&self, request: &Request) -> Result<Answer, Refusal> {
        let (keytext, _) = keytext::keytext(request).await?;
        let submission = keytext::read(request, keytext).await?;
        let report = self
            .uploads
            .submit(self.settings.load().rates.payer(request.client, request.via), submission)
            .await?;
        let mut answer = json(&report);
        if report.taken() == 0 {
            *answer.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        }
        Ok(answer)
    }
}

/// The category, the action and the argument of a path. The argument is still encoded.
fn parts(path: &str) -> (&str, &str, &str) {
    let rest = path.strip_prefix("/pks/v2/").unwrap_or_default();
    let (category, rest) = rest.split_once('/').unwrap_or((rest, ""));
    match category {
        "certs" if !rest.is_empty() => {
            let (action, argument) = rest.split_once('/').unwrap_or((rest, ""));
            (category, action, argument)
        }
        _ => (category, category, rest),
    }
}

fn decoded(argument: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(argument).decode_utf8();
    let decoded = decoded.map_err(|_| Refusal::BadRequest("the path is not UTF-8".into()))?;
    search::bounded(&decoded).map(str::to_owned)
}

/// Whether a request for this path looks at many certificates or changes. An identity that is not
/// ASCII or has no address is looked for in all user IDs.
pub(crate) fn is_search(path: &str) -> bool {
    let (_, action, argument) = parts(path);
    match action {
        "prefixlog" => true,
        "index" | "by-identity" => decoded(argument).is_ok_and(|identity| !is_indexed(&identity)),
        _ => false,
    }
}

fn method(request: &Request, allow: &'static str) -> Result<Answer, Refusal> {
    Err(Refusal::Method { method: request.method().to_string(), allow })
}

async fn read(
    engine: &Engine,
    config: &Arc<Config>,
    account: &Account,
    action: &str,
    argument: &str,
    media: &'static str,
) -> Result<Answer, Refusal> {
    let mut store = engine.reading().await?;
    let mut more = false;
    let rows = match action {
        "by-vfingerprint" => by_vfingerprint(&mut store, argument).await?,
        "by-keyid" => by_key_id(&mut store, argument).await?,
        "by-identity" => {
            let page = by_identity(&mut store, argument, config).await?;
            more = page.more;
            page.rows
        }
        "index" => {
            let page = by_identity(&mut store, argument, config).await?;
            let rows = search::given(&mut store, page.rows, config).await?;
            let entries = entries(&mut store, &rows, config).await?;
            if entries.is_empty() {
                return Err(Refusal::NotFound("no certificate was found".into()));
            }
            return Ok(marked(json(&entries), page.more));
        }
        "canonical" => canonical(&mut store, argument).await?,
        _ => return prefix_log(&mut store, argument).await,
    };
    let answer = binary(engine, &mut store, &rows, config, account, media).await?;
    Ok(marked(answer, more))
}

/// A version byte and a fingerprint, with a slash between them; drafts before
/// draft-ietf-openpgp-hkp-01 have none.
async fn by_vfingerprint(store: &mut Reading, argument: &str) -> Result<Vec<Row>, Refusal> {
    let digits: String = argument.chars().filter(|&c| c != '/').collect();
    let Some((version, fingerprint)) = digits.split_at_checked(2) else { return Ok(Vec::new()) };
    let length = match version {
        "03" => 32,
        "04" => 40,
        "05" | "06" => 64,
        _ => return Ok(Vec::new()),
    };
    if fingerprint.len() != length || !fingerprint.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(Vec::new());
    }
    let Ok(query) = fingerprint.parse::<Query>() else { return Ok(Vec::new()) };
    let version = version.parse::<u8>().unwrap_or(0);
    let mut rows = store.find(&query, bounds(10)).await?.rows;
    rows.retain(|row| {
        row.summary.keys().any(|key| {
            key.fingerprint.version() == version
                && key.fingerprint.to_string().eq_ignore_ascii_case(fingerprint)
        })
    });
    Ok(rows)
}

fn bounds(results: usize) -> Bounds {
    Bounds { results, looks: search::LOOKS_MAX }
}

/// By key ID; certificates of a later version than 4 are not found by it.
async fn by_key_id(store: &mut Reading, argument: &str) -> Result<Vec<Row>, Refusal> {
    if argument.len() != 16 {
        return Ok(Vec::new());
    }
    let Ok(id) = u64::from_str_radix(argument, 16) else { return Ok(Vec::new()) };
    let mut rows = store.find(&Query::KeyId(KeyId(id)), bounds(100)).await?.rows;
    rows.retain(|row| row.fingerprint().version() <= 4);
    Ok(rows)
}

/// By a whole address or a whole user ID, in any case. An address within another text is not looked
/// for.
async fn by_identity(
    store: &mut Reading,
    identity: &str,
    config: &Config,
) -> Result<Page, Refusal> {
    let whole: Option<Address> = identity.parse().ok();
    let email = whole.clone().or_else(|| Address::of_user_id(identity.as_bytes()));
    let exact = email.map_or_else(|| Query::Exact(identity.to_owned()), Query::Email);
    let mut page = Search::Exact(exact).rows(store, config).await?;
    let in_any_case = Query::Identity(identity.to_owned());
    if !is_indexed(identity) {
        let others = store.find(&in_any_case, bounds(config.policy.results)).await?;
        page.more |= others.more;
        for row in others.rows {
            if page.rows.iter().all(|known| known.fingerprint() != row.fingerprint()) {
                page.rows.push(row);
            }
        }
    }
    let matcher = in_any_case.matcher();
    // A row is shown only if its owner has bound the user ID that was asked for.
    page.rows.retain(|row| {
        row.summary.user_ids.iter().any(|user_id| match &user_id.content {
            UserIdContent::Text(text) => {
                user_id.created > 0
                    && (matcher.names_text(text)
                        || whole.as_ref().is_some_and(|email| email.is_of(text)))
            }
            UserIdContent::Attribute { .. } => false,
        })
    });
    page.more |= page.rows.len() > config.policy.results;
    page.rows.truncate(config.policy.results);
    Ok(page)
}

/// Whether the index of addresses finds an identity in any case.
fn is_indexed(identity: &str) -> bool {
    identity.is_ascii() && Address::of_user_id(identity.as_bytes()).is_some()
}

/// The certificate whose owner confirmed the address.
async fn canonical(store: &mut Reading, identity: &str) -> Result<Vec<Row>, Refusal> {
    let Ok(email) = identity.parse::<Address>() else { return Ok(Vec::new()) };
    Ok(store.confirmed(&email).await?.into_iter().collect())
}

/// Lines of a piece of a log.
const LINES: usize = 4096;

/// The leading bytes of the certificates that changed on a day.
async fn prefix_log(store: &mut Reading, day: &str) -> Result<Answer, Refusal> {
    let day = parse_day(day)
        .ok_or_else(|| Refusal::BadRequest("a date must have the form YYYY-MM-DD".into()))?;
    let prefixes = store.changed_on(day).await?;
    // The answer holds the prefixes, too, until all of it is sent.
    let largest = size_of_val(&*prefixes) + LINES * "00000000\r\n".len();
    let lines = |prefixes: &[[u8; 4]]| {
        let lines =
            prefixes.iter().map(|&prefix| format!("{:08x}\r\n", u32::from_be_bytes(prefix)));
        Bytes::from(lines.collect::<String>())
    };
    if prefixes.len() <= LINES {
        return Ok(ok(media::TEXT, lines(&prefixes)));
    }
    let pieces = (0..prefixes.len().div_ceil(LINES)).map(move |number| {
        let rest = &prefixes[number * LINES..];
        Ok(lines(&rest[..rest.len().min(LINES)]))
    });
    Ok(streamed(media::TEXT, Pieces::new(largest, stream::iter(pieces))))
}
