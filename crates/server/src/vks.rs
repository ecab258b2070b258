//! VKS, the protocol of keys.openpgp.org: certificates by fingerprint, key ID and confirmed address;
//! uploads; and the mails by which people confirm addresses and take them back.
//!
//! A certificate served here has only user IDs whose address was confirmed by mail, and no
//! third-party signatures. It may have no user ID at all: programs that know the certificate still
//! learn its revocation and its new subkeys.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, header};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use talaria_cert::{Address, Fingerprint, KeyId, Summary, UserIdContent, Validity, enarmor};
use talaria_store::{Query, Row, Store, StoreError};

use crate::answer::{Answer, Refusal, json, media, ok, with};
use crate::clock;
use crate::config::Config;
use crate::hkp;
use crate::hkp::v1::open_to_all;
use crate::mail::{Language, Letter, MailError, Payer, Purpose};
use crate::metrics::count;
use crate::page;
use crate::request::Request;
use crate::search;
use crate::secret;
use crate::state::{State, blocking};
use crate::submission;
use crate::token::{Link, Token, TokenError};

/// Addresses that one request asks mails for.
const ADDRESSES_MAX: usize = 50;

/// Bytes of an address (RFC 5321, section 4.5.3.1, with some room).
const ADDRESS_BYTES_MAX: usize = 320;

/// Certificates with a key ID that are looked at.
const KEY_IDS_MAX: usize = 16;

/// Facts about an address in a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It is not confirmed, and the certificate is not found by it.
    Unpublished,
    /// The certificate is found by it.
    Published,
    /// Its user ID or the whole certificate is revoked.
    Revoked,
    /// A mail is on its way.
    Pending,
}

/// Facts about the addresses in a certificate.
pub(crate) type Statuses = BTreeMap<Address, Status>;

/// The answer to an upload or to a request for mails.
#[derive(Debug, Serialize)]
struct Uploaded {
    token: String,
    key_fpr: String,
    status: BTreeMap<String, Status>,
}

#[derive(Debug, Deserialize)]
struct Upload {
    keytext: String,
}

#[derive(Debug, Deserialize)]
struct RequestVerify {
    token: String,
    addresses: Vec<String>,
    #[serde(default)]
    locale: Vec<String>,
}

/// Answers everything below `/vks`.
pub(crate) async fn handle(state: &Arc<State>, request: &Request) -> Answer {
    let enabled = state.config.load().vks.enabled;
    let rest = request.path().strip_prefix("/vks/").unwrap_or_default();
    let Some(action) = rest.strip_prefix("v1/") else {
        let page = if enabled { pages(state, request, rest).await } else { Err(disabled()) };
        return page.unwrap_or_else(|refusal| page::refusal(state, request, &refusal));
    };
    if *request.method() == Method::OPTIONS && enabled {
        return open_to_all(hkp::v2::options("GET, HEAD, POST, OPTIONS"));
    }
    let answer = match action {
        _ if !enabled => Err(disabled()),
        "upload" | "request-verify" if *request.method() != Method::POST => {
            Err(Refusal::Method { method: request.method().to_string(), allow: "POST, OPTIONS" })
        }
        "upload" => upload(state, request).await,
        "request-verify" => request_verify(state, request).await,
        _ => {
            let answer = lookup(state, request, action).await;
            return open_to_all(answer.unwrap_or_else(|refusal| refusal.text()));
        }
    };
    open_to_all(answer.unwrap_or_else(|refusal| refusal.json()))
}

fn disabled() -> Refusal {
    Refusal::NotFound("this server does not confirm addresses".into())
}

/// Answers `by-fingerprint`, `by-keyid` and `by-email`: one certificate.
async fn lookup(state: &Arc<State>, request: &Request, action: &str) -> Result<Answer, Refusal> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let method = request.method().to_string();
        return Err(Refusal::Method { method, allow: "GET, HEAD, OPTIONS" });
    }
    let (by, argument) = action.split_once('/').unwrap_or((action, ""));
    let argument = percent_decode_str(argument)
        .decode_utf8()
        .map_err(|_| Refusal::BadRequest("the path is not UTF-8".into()))?;
    let is_hex = |lengths: &[usize]| {
        lengths.contains(&argument.len()) && argument.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let query = match by {
        "by-fingerprint" if is_hex(&[40, 64]) => argument.parse::<Query>().ok(),
        "by-fingerprint" => {
            return Err(Refusal::BadRequest(
                "a fingerprint must have 40 or 64 hexadecimal digits and no prefix".into(),
            ));
        }
        "by-keyid" if is_hex(&[16]) => {
            u64::from_str_radix(&argument, 16).ok().map(|id| Query::KeyId(KeyId(id)))
        }
        "by-keyid" => {
            return Err(Refusal::BadRequest("a key ID must have 16 hexadecimal digits".into()));
        }
        "by-email" => Some(Query::Email(address(&argument)?)),
        _ => return Err(Refusal::NotFound("there is nothing at this path".into())),
    };
    let reading = Arc::clone(state);
    let read = move || {
        let nothing = || Refusal::NotFound("no certificate was found".into());
        let query = query.ok_or_else(nothing)?;
        let store = reading.readers.get()?;
        let row = match &query {
            Query::Email(email) => holder(&store, email)?,
            _ => store.owners(&query, KEY_IDS_MAX, search::LOOKS_MAX)?.rows.into_iter().next(),
        };
        let cert = search::confirmed(&store, row.ok_or_else(nothing)?.id)?.ok_or_else(nothing)?;
        let answer = ok(media::ARMORED, enarmor(cert.as_bytes()));
        let name = format!("attachment; filename={}.asc", cert.fingerprint());
        let answer = with(answer, header::CONTENT_DISPOSITION, &name);
        Ok(with(answer, header::CACHE_CONTROL, "no-cache"))
    };
    state.turns.run(read).await
}

/// An address that somebody typed, or pasted with the name before it.
fn address(text: &str) -> Result<Address, Refusal> {
    let text = text.trim();
    let address = text.parse().ok().or_else(|| Address::of_user_id(text.as_bytes()));
    address
        .filter(is_mailable)
        .ok_or_else(|| Refusal::BadRequest("the text is not an e-mail address".into()))
}

/// Whether mail to the address surely goes to this address. A mail server may map a domain that is not ASCII to another.
fn is_mailable(address: &Address) -> bool {
    address.as_bytes().len() <= ADDRESS_BYTES_MAX
        && address.domain().is_ascii()
        && address.to_str().is_some()
}

/// The certificate that is found by an address: the one that was confirmed for it, as long as the
/// user ID is not revoked. Strangers may put the address into certificates of theirs; these are
/// passed over, however many there are.
pub(crate) fn holder(store: &Store, email: &Address) -> Result<Option<Row>, Refusal> {
    let found = store.confirmed(email)?;
    let now = clock::now();
    let Some(row) = found else { return Ok(None) };
    let row = store.current(row, now.into())?;
    let valid = row.summary.user_ids.iter().any(|user_id| match &user_id.content {
        UserIdContent::Text(text) => user_id.validity(now) == Validity::Valid && email.is_of(text),
        UserIdContent::Attribute { .. } => false,
    });
    Ok(valid.then_some(row))
}

/// Facts about the addresses in a certificate at `now`.
fn statuses(summary: &Summary, published: &[Address], now: u32) -> Statuses {
    let mut statuses = Statuses::new();
    let revoked = summary.validity(now) == Validity::Revoked;
    for user_id in &summary.user_ids {
        let UserIdContent::Text(text) = &user_id.content else { continue };
        let Some(email) = Address::of_user_id(text).filter(is_mailable) else { continue };
        let status = match user_id.validity(now) {
            Validity::Revoked => Status::Revoked,
            Validity::Valid if revoked => Status::Revoked,
            Validity::Valid if published.contains(&email) => Status::Published,
            Validity::Valid => Status::Unpublished,
            Validity::Invalid | Validity::Expired => continue,
        };
        // Two user IDs can have one address; one that is revoked does not speak for the other.
        let known = statuses.entry(email).or_insert(status);
        if *known == Status::Revoked {
            *known = status;
        }
    }
    statuses
}

/// [`statuses`] of a certificate in the store; `None` if it is not there.
fn statuses_in(store: &Store, fingerprint: Fingerprint) -> Result<Option<Statuses>, StoreError> {
    let now = clock::now();
    let Some(row) = store.row(fingerprint)? else { return Ok(None) };
    let row = store.current(row, now.into())?;
    Ok(Some(statuses(&row.summary, &store.published(fingerprint)?, now)))
}

async fn read_statuses(
    state: &Arc<State>,
    fingerprint: Fingerprint,
) -> Result<Option<Statuses>, Refusal> {
    let reading = Arc::clone(state);
    state.turns.run(move || Ok(statuses_in(&*reading.readers.get()?, fingerprint)?)).await
}

fn expiry(config: &Config) -> u32 {
    clock::now().saturating_add(u32::try_from(config.vks.token_s).unwrap_or(u32::MAX))
}

/// The answer to an upload or a request for mails.
fn uploaded(state: &State, fingerprint: Fingerprint, status: Statuses) -> Answer {
    let token = Token::Upload(fingerprint).seal(&state.secret, expiry(&state.config.load()));
    let status = status.into_iter().map(|(email, status)| (email.to_string(), status)).collect();
    json(&Uploaded { token, key_fpr: fingerprint.to_string(), status })
}

/// Answers `upload`: one certificate, armored or in base64.
async fn upload(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    let Upload { keytext } = parse(&request.body)?;
    let submission = blocking(move || {
        if keytext.contains("-----BEGIN") {
            secret::refuse(keytext.as_bytes())?;
            return submission::read(keytext.as_bytes());
        }
        let digits: String = keytext.split_whitespace().collect();
        let bytes = STANDARD
            .decode(digits)
            .map_err(|_| Refusal::BadRequest("keytext is neither ASCII armor nor base64".into()))?;
        secret::refuse(&bytes)?;
        submission::read(&bytes)
    })
    .await
    .map_err(bad)?;
    let [cert] = submission.certs.as_slice() else {
        let why = submission.rejected.first().cloned();
        return Err(Refusal::BadRequest(
            why.unwrap_or_else(|| "upload one certificate at a time".into()),
        ));
    };
    let fingerprint = cert.fingerprint();
    let report = hkp::submit(state, submission).await?;
    // The answer of the protocol has no place for a part that was not kept.
    if report.taken() == 0 {
        let why = report.invalid.into_iter().find_map(|named| named.comment);
        return Err(Refusal::BadRequest(
            why.unwrap_or_else(|| "the certificate was refused".into()),
        ));
    }
    let status = read_statuses(state, fingerprint).await?.unwrap_or_default();
    Ok(uploaded(state, fingerprint, status))
}

/// The protocol has one status for malformed requests.
fn bad(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Malformed(why) | Refusal::TooLarge(why) => Refusal::BadRequest(why),
        Refusal::SecretKey => Refusal::BadRequest(refusal.to_string()),
        other => other,
    }
}

fn parse<T: for<'a> Deserialize<'a>>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::BadRequest(format!("cannot parse the request: {error}")))
}

/// Answers `request-verify`: sends a mail with a link to each of the addresses.
async fn request_verify(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    let RequestVerify { token, addresses, locale } = parse(&request.body)?;
    let language = Language::first_of(locale.iter().map(String::as_str));
    let asked = ask_to_confirm(state, request, &token, &addresses, language).await?;
    Ok(uploaded(state, asked.fingerprint, asked.status))
}

/// The result of a request for links that confirm addresses.
struct Asked {
    fingerprint: Fingerprint,
    /// All addresses; those to which a mail is on its way are pending.
    status: Statuses,
    /// Addresses to which no mail was sent, and why.
    failed: Vec<(Address, Failure)>,
}

/// Sends a mail with a link to each of `addresses` that is not confirmed yet.
///
/// # Errors
///
/// The first error if no mail could be sent at all.
async fn ask_to_confirm(
    state: &Arc<State>,
    request: &Request,
    token: &str,
    addresses: &[String],
    language: Language,
) -> Result<Asked, Refusal> {
    let fingerprint = match Token::open(token, &state.secret, clock::now()) {
        Ok(Token::Upload(fingerprint)) => fingerprint,
        Ok(_) => return Err(bad_token(TokenError::Unknown)),
        Err(error) => return Err(bad_token(error)),
    };
    if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
        return Err(Refusal::BadRequest(format!(
            "a request may have 1 to {ADDRESSES_MAX} addresses"
        )));
    }
    let gone = || Refusal::BadRequest("the certificate is no longer on this server".into());
    let mut status = read_statuses(state, fingerprint).await?.ok_or_else(gone)?;
    let mut wanted = Vec::new();
    for text in addresses {
        let email = address(text)?;
        match status.get(&email) {
            None => {
                return Err(Refusal::BadRequest(format!(
                    "{fingerprint} has no valid user ID with {email}"
                )));
            }
            Some(Status::Unpublished) if !wanted.contains(&email) => wanted.push(email),
            // Nothing is to be done.
            Some(_) => {}
        }
    }
    let mut failed = Vec::new();
    let asked_for = wanted.len();
    for email in wanted {
        match write_to(state, request, Purpose::Confirm, language, &email, fingerprint).await {
            Ok(()) => drop(status.insert(email, Status::Pending)),
            Err(error) => {
                let is_for_all = !error.is_about_address();
                failed.push((email, error));
                if is_for_all {
                    break;
                }
            }
        }
    }
    let none_sent = asked_for > 0 && !status.values().any(|status| *status == Status::Pending);
    if none_sent && !failed.is_empty() {
        return Err(failed.remove(0).1.into());
    }
    Ok(Asked { fingerprint, status, failed })
}

fn bad_token(error: TokenError) -> Refusal {
    Refusal::BadRequest(format!("the token is not valid: {error}; upload the certificate again"))
}

/// Why a link was not sent.
#[derive(Debug)]
enum Failure {
    Mail(MailError),
    Refused(Refusal),
}

impl Failure {
    /// Whether mails to other addresses can still be sent.
    fn is_about_address(&self) -> bool {
        matches!(
            self,
            Self::Mail(MailError::Address(_) | MailError::TooMany { who: Payer::Address(_), .. })
        )
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Mail(error) => error.into(),
            Failure::Refused(refusal) => refusal,
        }
    }
}

/// Sends a mail with a link.
async fn write_to(
    state: &State,
    request: &Request,
    purpose: Purpose,
    language: Language,
    email: &Address,
    fingerprint: Fingerprint,
) -> Result<(), Failure> {
    let config = state.config.load_full();
    let generation = state
        .readers
        .get()
        .map_err(Refusal::from)
        .and_then(|store| store.link_generation(fingerprint, email).map_err(Refusal::from));
    let generation = generation.map_err(Failure::Refused)?;
    let link = Link { fingerprint, email: email.clone(), generation };
    let (path, token) = match purpose {
        Purpose::Confirm => ("confirm", Token::Confirm(link)),
        Purpose::Manage => ("manage", Token::Manage(link)),
    };
    let sealed = token.seal(&state.secret, expiry(&config));
    let link = format!("{}/vks/{path}/{sealed}", config.vks.base_url.trim_end_matches('/'));
    let address = &email.to_string();
    let letter = Letter { purpose, language, address, fingerprint, link: &link };
    let network = config.rates.network(request.client, request.via);
    state.mails.send(&config, network, &letter).await.map_err(Failure::Mail)?;
    count(&state.metrics.mails, 1);
    Ok(())
}

/// Answers requests for pages that people open in a browser.
async fn pages(state: &Arc<State>, request: &Request, path: &str) -> Result<Answer, Refusal> {
    let posts = *request.method() == Method::POST;
    if !posts && !matches!(*request.method(), Method::GET | Method::HEAD) {
        let method = request.method().to_string();
        return Err(Refusal::Method { method, allow: "GET, HEAD, POST" });
    }
    if let Some(token) = path.strip_prefix("confirm/") {
        let link = match Token::open(token, &state.secret, clock::now()) {
            Ok(Token::Confirm(link)) => link,
            Ok(_) => return Err(bad_link(TokenError::Unknown)),
            Err(error) => return Err(bad_link(error)),
        };
        return if posts {
            confirm(state, request, link).await
        } else {
            // Programs that look at mails open links: that must not confirm anything.
            open_link(state, request, link).await
        };
    }
    if path == "request" && posts {
        return request_by_form(state, request).await;
    }
    match path.strip_prefix("manage").map(|rest| rest.strip_prefix('/').unwrap_or(rest)) {
        Some("") if posts => ask_to_manage(state, request).await,
        Some("") => Ok(page::verify::ask(state, request)),
        Some(token) => {
            let link = match Token::open(token, &state.secret, clock::now()) {
                Ok(Token::Manage(link)) => link,
                Ok(_) => return Err(bad_link(TokenError::Unknown)),
                Err(error) => return Err(bad_link(error)),
            };
            if !is_current(&*state.readers.get()?, &link)? {
                return Err(bad_link(TokenError::Ended));
            }
            let fingerprint = link.fingerprint;
            if posts {
                take_back(state, request, fingerprint).await?;
            }
            let all = read_statuses(state, fingerprint).await?.unwrap_or_default();
            Ok(page::verify::addresses(state, request, fingerprint, &all))
        }
        None => Err(Refusal::NotFound("no such page".into())),
    }
}

/// Whether no link to the address was used since this one was made, and the address was not taken back.
fn is_current(store: &Store, link: &Link) -> Result<bool, StoreError> {
    Ok(store.link_generation(link.fingerprint, &link.email)? == link.generation)
}

/// The page behind a link that confirms an address: it asks, or says that the address is confirmed.
async fn open_link(state: &Arc<State>, request: &Request, link: Link) -> Result<Answer, Refusal> {
    let reading = Arc::clone(state);
    let read = move || {
        let store = reading.readers.get()?;
        let is_published = store.published(link.fingerprint)?.contains(&link.email);
        Ok((is_published, is_current(&store, &link)?, link))
    };
    let (is_published, is_current, link) = state.turns.run(read).await?;
    match (is_published, is_current) {
        (true, _) => Ok(page::verify::confirmed(state, request, link.fingerprint, &link.email)),
        (false, true) => Ok(page::verify::confirm(state, request, link.fingerprint, &link.email)),
        (false, false) => Err(bad_link(TokenError::Ended)),
    }
}

/// Sends the mails that somebody asked for on the page after an upload.
async fn request_by_form(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    let form = request.form();
    let token = form.get("token").unwrap_or_default();
    let addresses: Vec<String> = form.all("address").map(str::to_owned).collect();
    let accepted = request.header(header::ACCEPT_LANGUAGE).unwrap_or_default();
    let language = Language::first_of(accepted.split(','));
    let asked = ask_to_confirm(state, request, token, &addresses, language).await?;
    let sent = asked.status.into_iter().filter(|(_, status)| *status == Status::Pending);
    let sent: Vec<Address> = sent.map(|(email, _)| email).collect();
    let mut failed = Vec::new();
    for (email, failure) in asked.failed {
        failed.push((email, Refusal::from(failure).to_string()));
    }
    Ok(page::verify::sent(state, request, asked.fingerprint, &sent, &failed))
}

/// The addresses of an uploaded certificate that can be confirmed, and a token to ask for the mails. `None` if there are none.
pub(crate) fn confirmable(
    state: &State,
    store: &Store,
    fingerprint: Fingerprint,
) -> Result<Option<(String, Vec<Address>)>, Refusal> {
    let config = state.config.load();
    if !config.vks.enabled {
        return Ok(None);
    }
    let all = statuses_in(store, fingerprint)?.unwrap_or_default();
    let all = all.into_iter().filter(|(_, status)| *status == Status::Unpublished);
    let emails: Vec<Address> = all.map(|(email, _)| email).take(ADDRESSES_MAX).collect();
    if emails.is_empty() {
        return Ok(None);
    }
    Ok(Some((Token::Upload(fingerprint).seal(&state.secret, expiry(&config)), emails)))
}

fn bad_link(error: TokenError) -> Refusal {
    Refusal::BadRequest(format!("this link cannot be used: {error}. Ask for a new mail."))
}

/// The result of pressing the button behind a link.
enum Confirmed {
    Now,
    Before,
    Ended,
    Revoked,
    Missing,
}

/// Makes a certificate be found by an address whose mail the client reads.
async fn confirm(state: &Arc<State>, request: &Request, link: Link) -> Result<Answer, Refusal> {
    let wanted = link.clone();
    let outcome = state
        .writer
        .run(move |store| {
            let Link { fingerprint, email, .. } = &wanted;
            let statuses = statuses_in(store, *fingerprint)?.unwrap_or_default();
            Ok(match statuses.get(email) {
                Some(Status::Unpublished) if !is_current(store, &wanted)? => Confirmed::Ended,
                Some(Status::Unpublished) => {
                    store.publish(*fingerprint, email, clock::now().into())?;
                    Confirmed::Now
                }
                Some(Status::Published | Status::Pending) => Confirmed::Before,
                Some(Status::Revoked) => Confirmed::Revoked,
                None => Confirmed::Missing,
            })
        })
        .await?;
    let Link { fingerprint, email, .. } = link;
    match outcome {
        Confirmed::Now => {
            state.announce(vec![fingerprint], None);
            Ok(page::verify::confirmed(state, request, fingerprint, &email))
        }
        Confirmed::Before => Ok(page::verify::confirmed(state, request, fingerprint, &email)),
        Confirmed::Ended => Err(bad_link(TokenError::Ended)),
        Confirmed::Revoked => Err(Refusal::Forbidden(format!(
            "{email} was not published: it is revoked in this certificate"
        ))),
        Confirmed::Missing => Err(Refusal::Forbidden(format!(
            "{email} was not published: the certificate no longer has a valid user ID with it"
        ))),
    }
}

/// Sends a link to the list of addresses to one of them.
async fn ask_to_manage(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    let email = address(request.form().get("address").unwrap_or_default())?;
    let found = {
        let (reading, email) = (Arc::clone(state), email.clone());
        state.turns.run(move || holder(&*reading.readers.get()?, &email)).await?
    };
    let Some(row) = found else { return Ok(page::verify::unknown(state, request, &email)) };
    let fingerprint = row.summary.fingerprint();
    let accepted = request.header(header::ACCEPT_LANGUAGE).unwrap_or_default();
    let language = Language::first_of(accepted.split(','));
    write_to(state, request, Purpose::Manage, language, &email, fingerprint).await?;
    Ok(page::verify::asked(state, request, &email))
}

/// Makes a certificate not be found by an address any more.
async fn take_back(
    state: &Arc<State>,
    request: &Request,
    fingerprint: Fingerprint,
) -> Result<(), Refusal> {
    let email = address(request.form().get("address").unwrap_or_default())?;
    let write = move |store: &mut Store| {
        if store.published(fingerprint)?.contains(&email) {
            store.unpublish(fingerprint, &email, clock::now().into())?;
        }
        Ok(())
    };
    state.writer.run(write).await.map_err(Refusal::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_in_lower_case_and_bounded() {
        assert_eq!(address(" Alice@Example.ORG ").unwrap().to_string(), "alice@example.org");
        assert_eq!(address("Alice <alice@example.org>").unwrap().to_string(), "alice@example.org");
        for wrong in ["", "alice", "a b@example.org", "@example.org", "support@ban\u{212a}.example"]
        {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        assert!(address(&format!("{}@example.org", "x".repeat(400))).is_err());
    }
}
