//! Version 1 of HKP: `/pks/lookup`, `/pks/add`, `/pks/hashquery`.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, header};
use talaria_cert::{Enarmor, View, enarmor, sha256};
use talaria_recon::{Digest, HASHQUERY_DIGESTS_MAX, decode_hashquery};
use talaria_store::{Row, Store};

use super::{Report, machine, submit, v2};
use crate::answer::{Answer, Pieces, Refusal, json, media, ok, streamed, with};
use crate::clock;
use crate::config::{Config, Policy};
use crate::figures::{self, Figures};
use crate::metrics::count;
use crate::page;
use crate::push;
use crate::reader::Reader;
use crate::request::{Parameters, Request};
use crate::search::{self, Found, Page, Search};
use crate::secret;
use crate::state::{State, blocking};
use crate::submission;

/// Bytes of certificates in one answer to a hash query; the rest is left out and asked for again.
const HASHQUERY_BYTES: u64 = 16 << 20;

/// The operation of `op`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Op {
    Get,
    Index,
    VerboseIndex,
    Stats,
    HashGet,
}

impl Op {
    fn parse(text: &str) -> Result<Self, Refusal> {
        Ok(match text {
            "get" => Self::Get,
            "index" => Self::Index,
            "vindex" => Self::VerboseIndex,
            "stats" => Self::Stats,
            "hget" => Self::HashGet,
            "" => return Err(Refusal::BadRequest("the parameter op is missing".into())),
            _ => {
                return Err(Refusal::NotImplemented(
                    "the parameter op must be one of get, index, vindex, stats and hget".into(),
                ));
            }
        })
    }
}

/// The kind of a lookup, which decides its cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Asks {
    /// Certificates by an exact index.
    Certificate,
    /// Certificates by words.
    Certificates,
    /// A list, or figures.
    Index,
}

/// The kind of the lookup with these parameters, which it reads just as [`lookup`] does.
pub(crate) fn asks(query: &Parameters, policy: &Policy) -> Asks {
    match Op::parse(query.get("op").unwrap_or_default()) {
        Ok(Op::HashGet) => Asks::Certificate,
        Ok(Op::Get) => {
            let text = query.get("search").unwrap_or_default();
            match Search::parse(text, query.is_on("exact"), policy) {
                Ok(search) if search.is_wide() => Asks::Certificates,
                _ => Asks::Certificate,
            }
        }
        _ => Asks::Index,
    }
}

/// Answers `/pks/lookup`.
pub(crate) async fn lookup(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    let query = request.query();
    let machine = query.option("mr") || query.option("json");
    let answer = dispatch(state, request, &query, machine).await;
    // Pages of the same server need no permission; programs in browsers do.
    if machine { answer.map(open_to_all) } else { answer }
}

async fn dispatch(
    state: &Arc<State>,
    request: &Request,
    query: &Parameters,
    machine: bool,
) -> Result<Answer, Refusal> {
    let config = state.config.load_full();
    let op = Op::parse(query.get("op").unwrap_or_default())?;
    if op == Op::Stats {
        return if machine {
            statistics(state).await
        } else {
            page::statistics(state, request).await
        };
    }
    let text = query.get("search").unwrap_or_default();
    if op == Op::HashGet {
        let digest = digest(text).ok_or_else(|| {
            Refusal::BadRequest("hget needs a digest of 32 hexadecimal digits".into())
        })?;
        let reading = Arc::clone(state);
        return state.turns.run(move || hash_get(&reading, digest, &config)).await;
    }
    let search = Search::parse(text, query.is_on("exact"), &config.policy)?;
    let options = Options { op, json: query.option("json"), machine, text: text.to_owned() };
    let reading = Arc::clone(state);
    let work = {
        let (state, request, config) = (Arc::clone(state), request.clone(), Arc::clone(&config));
        move |store: &Reader, page: Page| -> Result<Answer, Refusal> {
            let Page { rows, more } = page;
            let answer = render(&state, &request, store, rows, more, &config, &options)?;
            Ok(marked(answer, more))
        }
    };
    if search.is_wide() {
        let find = move || {
            let store = reading.readers.get()?;
            work(&store, search.rows(&store, &config)?)
        };
        return state.turns.run(find).await;
    }
    let store = state.readers.get()?;
    let page = search.rows(&store, &config)?;
    if page.rows.len() > 1 || search::is_heavy(&store, &page.rows, &config.policy) {
        drop(store);
        return state.turns.run(move || work(&reading.readers.get()?, page)).await;
    }
    work(&store, page)
}

/// The format of an answer.
struct Options {
    op: Op,
    json: bool,
    machine: bool,
    text: String,
}

fn render(
    state: &Arc<State>,
    request: &Request,
    store: &Reader,
    rows: Vec<Row>,
    more: bool,
    config: &Arc<Config>,
    options: &Options,
) -> Result<Answer, Refusal> {
    let nothing = || Refusal::NotFound("no certificate was found".into());
    if rows.is_empty() {
        return Err(nothing());
    }
    match options.op {
        Op::Get => {
            let for_programs = options.machine || !request.wants_page();
            if rows.len() > 1 && !for_programs {
                return page::results(
                    state,
                    request,
                    store,
                    rows,
                    &options.text,
                    options.op,
                    false,
                );
            }
            if rows.len() > 1 {
                let (all, largest) = search::lengths(store, &rows)?;
                if all > search::WHOLE_BYTES {
                    return armored_pieces(state, &rows, largest, config);
                }
            }
            let found = search::found(store, rows, config)?;
            if found.is_empty() {
                return Err(nothing());
            }
            if for_programs {
                return Ok(armored(&found));
            }
            page::armored(state, request, &found[0])
        }
        _ if options.json => Ok(json(&v2::entries(store, &rows, config)?)),
        _ if options.machine || !request.wants_page() => Ok(machine_index(store, &rows, config)?),
        _ => page::results(state, request, store, rows, &options.text, options.op, more),
    }
}

/// Certificates in armor. Legacy clients get no others.
pub(crate) fn armored(found: &[Found]) -> Answer {
    let length = found.iter().map(|found| found.cert.as_bytes().len()).sum();
    let mut bytes = Vec::with_capacity(length);
    found.iter().for_each(|found| bytes.extend_from_slice(found.cert.as_bytes()));
    let answer = ok(media::ARMORED, enarmor(&bytes));
    let answer = with(answer, header::CONTENT_DISPOSITION, "attachment; filename=openpgp.asc");
    let answer = with(answer, COUNT, &found.len().to_string());
    tagged(answer, found)
}

/// Many certificates in one armor, read and sent one after the other.
fn armored_pieces(
    state: &State,
    rows: &[Row],
    largest: u64,
    config: &Arc<Config>,
) -> Result<Answer, Refusal> {
    let mut armor = Enarmor::new();
    let pieces = search::pieces(&state.readers, rows, largest / 3 * 4, config, move |cert| {
        let mut text = String::new();
        match cert {
            Some(cert) => armor.write(cert.as_bytes(), &mut text),
            None => armor.finish(&mut text),
        }
        text.into()
    })?;
    let answer = streamed(media::ARMORED, pieces);
    let answer = with(answer, header::CONTENT_DISPOSITION, "attachment; filename=openpgp.asc");
    Ok(with(answer, header::CACHE_CONTROL, "no-cache"))
}

const COUNT: header::HeaderName = header::HeaderName::from_static("x-hkp-results-count");

/// Says that more certificates match than the answer has.
const MORE: header::HeaderName = header::HeaderName::from_static("x-hkp-results-more");

/// Marks an answer that has only the first of the certificates that match.
pub(crate) fn marked(answer: Answer, more: bool) -> Answer {
    if more { with(answer, MORE, "true") } else { answer }
}

/// Adds an entity tag to an answer, so that a client need not fetch it twice. The served parts depend on other
/// certificates and on settings, too, so the tag is a digest of them.
pub(crate) fn tagged(answer: Answer, found: &[Found]) -> Answer {
    let answer = with(answer, header::CACHE_CONTROL, "no-cache");
    match found {
        [one] => {
            let digest = sha256(&[one.cert.as_bytes()]);
            let digits: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            let tag = format!("\"{digits}\"");
            with(answer, header::ETAG, &tag)
        }
        _ => answer,
    }
}

fn machine_index(store: &Store, rows: &[Row], config: &Config) -> Result<Answer, Refusal> {
    let mut confirmed = std::collections::HashMap::new();
    if config.vks.only_confirmed {
        for row in rows {
            let fingerprint = row.summary.fingerprint();
            confirmed.insert(fingerprint, store.published(fingerprint)?);
        }
    }
    let body = machine::index(rows, clock::now(), |summary, text| {
        confirmed.get(&summary.fingerprint()).is_none_or(|emails| {
            talaria_cert::Address::of_user_id(text).is_some_and(|email| emails.contains(&email))
        })
    });
    let answer = with(ok(media::TEXT, body), COUNT, &rows.len().to_string());
    Ok(with(answer, header::CACHE_CONTROL, "no-cache"))
}

fn hash_get(state: &State, digest: [u8; 16], config: &Config) -> Result<Answer, Refusal> {
    let store = state.readers.get()?;
    let nothing = || Refusal::NotFound("no certificate has this digest".into());
    let (_, id) = store.by_digest(digest)?.ok_or_else(nothing)?;
    let row = store.row_by_id(id)?.ok_or_else(nothing)?;
    let found = search::found(&store, vec![row], config)?;
    if found.is_empty() { Err(nothing()) } else { Ok(armored(&found)) }
}

fn digest(text: &str) -> Option<[u8; 16]> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}

/// Answers `/pks/add`.
pub(crate) async fn add(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    if request.method() == Method::GET && request.wants_page() {
        return Ok(page::upload_form(state, request));
    }
    if request.method() != Method::POST {
        return Err(Refusal::Method { method: request.method().to_string(), allow: "POST" });
    }
    let (keytext, options) = v2::keytext(request).await?;
    let read = move || {
        secret::refuse(&keytext)?;
        submission::read(&keytext)
    };
    let mut submission = blocking(read).await?;
    submission.via = push::via(request);
    let nothing = submission.certs.is_empty();
    let report = submit(state, submission).await?;
    let as_json = options.option("json")
        || request.header(header::ACCEPT).is_some_and(|accept| accept.contains(media::JSON));
    let answer = if as_json {
        json(&report)
    } else if request.wants_page() && !options.option("mr") {
        page::uploaded(state, request, &report)?
    } else {
        ok(media::TEXT, said(&report))
    };
    if nothing || report.taken() == 0 {
        let mut answer = answer;
        *answer.status_mut() = http::StatusCode::UNPROCESSABLE_ENTITY;
        return Ok(open_to_all(answer));
    }
    Ok(open_to_all(answer))
}

/// A report for people at a terminal.
fn said(report: &Report) -> String {
    let mut out = format!("{} key(s) added successfully.\n", report.taken());
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

/// Answers `/pks/hashquery`: certificates by digest, as the view of the peer that knows the digest has
/// them. Unknown digests are left out.
pub(crate) async fn hash_query(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::Method { method: request.method().to_string(), allow: "POST" });
    }
    let digests = decode_hashquery(&request.body).map_err(|error| {
        Refusal::BadRequest(format!(
            "not a list of at most {HASHQUERY_DIGESTS_MAX} digests: {error}"
        ))
    })?;
    let reading = Arc::clone(state);
    state.turns.run(move || hash_reply(&reading, &digests)).await
}

/// The certificates are found first, then read and sent one after the other. One that has changed since
/// is sent as it is; if one is gone, the answer is cut off, and the peer asks again.
fn hash_reply(state: &State, digests: &[Digest]) -> Result<Answer, Refusal> {
    let (mut found, mut all, mut largest) = (Vec::with_capacity(digests.len()), 0, 0);
    let store = state.readers.get()?;
    for digest in digests {
        let Some((view, id)) = store.by_digest(digest.0)? else { continue };
        let length = store.cert_length(id)?;
        all += length;
        if all > HASHQUERY_BYTES && !found.is_empty() {
            break;
        }
        largest = length.max(largest);
        found.push((view, id));
    }
    drop(store);
    count(&state.metrics.certs_given, found.len());
    let mut start = Some(u32::try_from(found.len()).unwrap_or(u32::MAX));
    let (readers, mut found) = (state.readers.clone(), found.into_iter());
    let mut ended = false;
    let mut next = move || -> Result<Option<Bytes>, Refusal> {
        if let Some(count) = start.take() {
            return Ok(Some(count.to_be_bytes().to_vec().into()));
        }
        let Some((view, id)) = found.next() else {
            let is_last = !std::mem::replace(&mut ended, true);
            return Ok(is_last.then(|| Bytes::from_static(b"\r\n")));
        };
        let gone = || Refusal::NotFound("a certificate was deleted meanwhile".into());
        let stored = readers.get()?.stored(id)?.ok_or_else(gone)?;
        let cert = match view {
            View::Sks => stored.cert,
            View::Hockeypuck21 | View::Hockeypuck23 => {
                view.cert(&stored.cert, &stored.verdicts).ok_or_else(gone)?
            }
        };
        let length = u32::try_from(cert.as_bytes().len()).unwrap_or(u32::MAX);
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend_from_slice(cert.as_bytes());
        Ok(Some(bytes.into()))
    };
    if all > search::WHOLE_BYTES {
        let largest = usize::try_from(largest).unwrap_or(usize::MAX);
        return Ok(streamed("pgp/keys", Pieces::new(largest, next)));
    }
    let mut body = Vec::new();
    while let Some(piece) = next()? {
        body.extend_from_slice(&piece);
    }
    Ok(ok("pgp/keys", body))
}

/// The statistics for programs, with the fields that crawlers of the network know from Hockeypuck.
pub(crate) async fn statistics(state: &Arc<State>) -> Result<Answer, Refusal> {
    let changes = Figures::changes(state).await;
    let reading = Arc::clone(state);
    let answer = move || {
        let state = &*reading;
        let config = state.config.load();
        let certs = figures::certs_now(state)?;
        let store = state.readers.get()?;
        // Beside our own names, those of Hockeypuck.
        let mut peers = Vec::new();
        for peer in page::all_peers(state)? {
            let mut entry = serde_json::to_value(&peer).unwrap_or_default();
            if let Some(entry) = entry.as_object_mut() {
                entry.insert("Name".into(), peer.name.clone().into());
                entry.insert("reconAddr".into(), peer.name.clone().into());
                entry.insert("httpAddr".into(), peer.http.clone().unwrap_or_default().into());
            }
            peers.push(entry);
        }
        let days: Vec<serde_json::Value> = changes
            .iter()
            .flat_map(|changes| &changes.value)
            .map(|&(day, [new, updated, deleted])| {
                serde_json::json!({
                    "day": day_text(day), "new": new, "updated": updated, "deleted": deleted,
                })
            })
            .collect();
        Ok(json(&serde_json::json!({
            "now": talaria_cert::timestamp(clock::now()),
            "nodename": config.server.hostname,
            "httpAddr": public_address(&config, config.http.listen.first()),
            "reconAddr": public_address(&config, config.gossip.listen.first()),
            "server_contact": config.server.operator,
            "queryConfig": {
                "selfSignedOnly": false,
                "keywordSearchDisabled": !config.policy.word_search,
            },
            "Total": certs,
            "software": "talaria",
            "version": env!("CARGO_PKG_VERSION"),
            "hostname": config.server.hostname,
            "contact": config.server.contact,
            "operator": config.server.operator,
            "numkeys": certs,
            "last_change": store.last_change()?.get(),
            "uptime_s": state.started.elapsed().as_secs(),
            "days": days,
            "days_counted": changes.map(|changes| talaria_cert::timestamp(changes.time)),
            "requests": crate::metrics::RequestKind::ALL.iter().zip(state.metrics.requests())
                .map(|(kind, n)| (kind.name().to_owned(), n.into()))
                .collect::<serde_json::Map<_, _>>(),
            "peers": peers,
        })))
    };
    state.turns.run(answer).await
}

/// The public name of the server with the port of one of its addresses; empty if there is none.
fn public_address(config: &Config, address: Option<&SocketAddr>) -> String {
    let name = config.server.hostname.split(':').next().unwrap_or_default();
    address.map_or_else(String::new, |address| format!("{name}:{}", address.port()))
}

/// A day as it is written: YYYY-MM-DD.
pub(crate) fn day_text(day: u32) -> String {
    let (year, month, day) = talaria::date(day.saturating_mul(86400));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Lets programs in browsers read the answer.
pub(crate) fn open_to_all(answer: Answer) -> Answer {
    with(answer, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")
}
