//! VKS, the protocol of keys.openpgp.org: certificates by fingerprint, key ID and confirmed
//! address; uploads; and the mails by which people confirm addresses and take them back.
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
use talaria_cert::{Address, Fingerprint, KeyId, enarmor};

use crate::addresses::{ADDRESSES_MAX, Status, Statuses, address, holder, statuses, statuses_in};
use crate::answer::{Answer, Refusal, json, media, ok, open_to_all, options, with};
use crate::clock;
use crate::config::Settings;
use crate::engine::{
    Bounds, Conflict, Engine, EngineError, Order, Query, Reading, Since, Terms, Wish,
};
use crate::mail::{Language, Letter, MailError, Mails, Purpose};
use crate::news::Newsroom;
use crate::page::{self, Visit};
use crate::request::Request;
use crate::search;
use crate::secret;
use crate::submission;
use crate::token::{Link, Token, TokenError, Tokens};
use crate::turns::parsing;
use crate::uploads::Uploads;

/// Certificates with a key that are looked at for the one to give out.
const BOUNDS: Bounds = Bounds { results: 256, looks: search::LOOKS_MAX };

/// The answer to an upload or to a request for mails.
#[derive(Debug, Serialize)]
struct Uploaded {
    token: String,
    key_fpr: String,
    status: BTreeMap<String, Status>,
    /// What of the upload was not kept, and why. The protocol has no such field; clients skip
    /// fields that they do not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
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

/// Times that a confirmation is decided again because somebody else changed the certificate first.
const TRIES: usize = 8;

/// Bytes of a request for mails.
const ASK_BYTES_MAX: usize = 64 << 10;

/// Answers everything below `/vks`.
pub(crate) struct Vks {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) tokens: Tokens,
    /// The mails to owners of addresses.
    pub(crate) mails: Arc<Mails>,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) news: Newsroom,
}

impl Vks {
    fn visit<'a>(&self, request: &'a Request) -> Visit<'a> {
        Visit::new(request, self.settings.load_full())
    }

    /// Answers everything below `/vks`.
    pub(crate) async fn handle(&self, request: &Request) -> Answer {
        let enabled = self.settings.load().vks.enabled;
        let rest = request.path().strip_prefix("/vks/").unwrap_or_default();
        let Some(action) = rest.strip_prefix("v1/") else {
            let page = if enabled { self.pages(request, rest).await } else { Err(disabled()) };
            return page.unwrap_or_else(|refusal| page::refusal(&self.visit(request), &refusal));
        };
        if *request.method() == Method::OPTIONS && enabled {
            return open_to_all(options("GET, HEAD, POST, OPTIONS"));
        }
        let answer = match action {
            _ if !enabled => Err(disabled()),
            "upload" | "request-verify" if *request.method() != Method::POST => {
                Err(Refusal::Method {
                    method: request.method().to_string(),
                    allow: "POST, OPTIONS",
                })
            }
            "upload" => self.upload(request).await,
            "request-verify" => self.request_verify(request).await,
            _ => {
                let answer = self.lookup(request, action).await;
                return open_to_all(answer.unwrap_or_else(|refusal| refusal.text()));
            }
        };
        open_to_all(answer.unwrap_or_else(|refusal| refusal.json()))
    }

    /// Answers `by-fingerprint`, `by-keyid` and `by-email`: one certificate.
    async fn lookup(&self, request: &Request, action: &str) -> Result<Answer, Refusal> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let method = request.method().to_string();
            return Err(Refusal::Method { method, allow: "GET, HEAD, OPTIONS" });
        }
        let (by, argument) = action.split_once('/').unwrap_or((action, ""));
        let argument = percent_decode_str(argument)
            .decode_utf8()
            .map_err(|_| Refusal::BadRequest("the path is not UTF-8".into()))?;
        let argument = search::bounded(&argument)?;
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
                u64::from_str_radix(argument, 16).ok().map(|id| Query::KeyId(KeyId(id)))
            }
            "by-keyid" => {
                return Err(Refusal::BadRequest("a key ID must have 16 hexadecimal digits".into()));
            }
            "by-email" => Some(Query::Email(address(argument)?)),
            _ => return Err(Refusal::NotFound("there is nothing at this path".into())),
        };
        let read = async move |store: &mut Reading| {
            let nothing = || Refusal::NotFound("no certificate was found".into());
            let query = query.ok_or_else(nothing)?;
            let row = match &query {
                Query::Email(email) => holder(store, email).await?,
                _ => store.find(&query, BOUNDS).await?.rows.into_iter().next(),
            };
            let cert =
                search::confirmed(store, &row.ok_or_else(nothing)?).await?.ok_or_else(nothing)?;
            let answer = ok(media::ARMORED, enarmor(cert.as_bytes()));
            let name = format!("attachment; filename={}.asc", cert.fingerprint());
            let answer = with(answer, header::CONTENT_DISPOSITION, &name);
            Ok(with(answer, header::CACHE_CONTROL, "no-cache"))
        };
        let network = self.settings.load().rates.limited(request);
        self.engine.read_for(network, read).await
    }

    async fn read_statuses(&self, fingerprint: Fingerprint) -> Result<Option<Statuses>, Refusal> {
        let read = async move |store: &mut Reading| Ok(statuses_in(store, fingerprint).await?);
        self.engine.read(read).await
    }

    /// The answer to an upload or a request for mails.
    fn uploaded(
        &self,
        fingerprint: Fingerprint,
        status: Statuses,
        comment: Option<String>,
    ) -> Answer {
        let token = self.tokens.seal(&Token::Upload(fingerprint));
        let status =
            status.into_iter().map(|(email, status)| (email.to_string(), status)).collect();
        json(&Uploaded { token, key_fpr: fingerprint.to_string(), status, comment })
    }

    /// Answers `upload`: one certificate, armored or in base64.
    async fn upload(&self, request: &Request) -> Result<Answer, Refusal> {
        let Upload { keytext } = parse(&request.body)?;
        let submission = parsing(keytext.len(), move || {
            if keytext.contains("-----BEGIN") {
                secret::refuse(keytext.as_bytes())?;
                return submission::read(keytext.as_bytes());
            }
            let digits: String = keytext.split_whitespace().collect();
            let bytes = STANDARD.decode(digits).map_err(|_| {
                Refusal::BadRequest("keytext is neither ASCII armor nor base64".into())
            })?;
            secret::refuse(&bytes)?;
            submission::read(&bytes)
        })
        .await
        .map_err(bad)?;
        let [cert] = submission.certs.as_slice() else {
            let why = submission.rejected.first().map(|rejected| rejected.why.clone());
            return Err(Refusal::BadRequest(
                why.unwrap_or_else(|| "upload one certificate at a time".into()),
            ));
        };
        let fingerprint = cert.fingerprint();
        let report = self
            .uploads
            .submit(self.settings.load().rates.payer(request.client, request.via), submission)
            .await?;
        let not_kept = report.not_kept();
        // Owners may confirm the addresses that are here, whatever else they have sent again.
        if report.taken() + report.here_before == 0 {
            let why = not_kept.unwrap_or_else(|| "the certificate was refused".into());
            return Err(Refusal::BadRequest(why));
        }
        let status = self.read_statuses(fingerprint).await?.unwrap_or_default();
        Ok(self.uploaded(fingerprint, status, not_kept))
    }

    /// Answers `request-verify`: sends a mail with a link to each of the addresses.
    async fn request_verify(&self, request: &Request) -> Result<Answer, Refusal> {
        if request.body.len() > ASK_BYTES_MAX {
            return Err(Refusal::TooLarge(format!(
                "a request for mails may have at most {ASK_BYTES_MAX} bytes"
            )));
        }
        let RequestVerify { token, addresses, locale } = parse(&request.body)?;
        let language = Language::first_of(locale.iter().map(String::as_str));
        let asked = self.ask_to_confirm(request, &token, &addresses, language).await?;
        Ok(self.uploaded(asked.fingerprint, asked.status, None))
    }

    /// Sends a mail with a link to each of `addresses` that is not confirmed yet.
    ///
    /// # Errors
    ///
    /// The first error if no mail could be sent at all.
    async fn ask_to_confirm(
        &self,
        request: &Request,
        token: &str,
        addresses: &[String],
        language: Language,
    ) -> Result<Asked, Refusal> {
        let fingerprint = match self.tokens.open(token) {
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
        let mut status = self.read_statuses(fingerprint).await?.ok_or_else(gone)?;
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
            match self.write_to(request, Purpose::Confirm, language, &email, fingerprint).await {
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

    /// Sends a mail with a link. Nobody learns from it whether the mail server knows the address.
    async fn write_to(
        &self,
        request: &Request,
        purpose: Purpose,
        language: Language,
        email: &Address,
        fingerprint: Fingerprint,
    ) -> Result<(), Failure> {
        let config = self.settings.load_full();
        let generation = async {
            let mut store = self.engine.reading().await?;
            store.generation(fingerprint, email).await
        };
        let generation =
            generation.await.map_err(|error: EngineError| Failure::Refused(error.into()))?;
        let link = Link { fingerprint, email: email.clone(), generation };
        let (path, token) = match purpose {
            Purpose::Confirm => ("confirm", Token::Confirm(link)),
            Purpose::Manage => ("manage", Token::Manage(link)),
        };
        let sealed = self.tokens.seal(&token);
        let link = format!("{}/vks/{path}/{sealed}", config.vks.base_url.trim_end_matches('/'));
        let address = &email.to_string();
        let letter = Letter { purpose, language, address, fingerprint, link: &link };
        let network = config.rates.network(request.client, request.via);
        self.mails.send(&config, network, &letter).await.map_err(Failure::Mail)
    }

    /// Answers requests for pages that people open in a browser.
    async fn pages(&self, request: &Request, path: &str) -> Result<Answer, Refusal> {
        let posts = *request.method() == Method::POST;
        if !posts && !matches!(*request.method(), Method::GET | Method::HEAD) {
            let method = request.method().to_string();
            return Err(Refusal::Method { method, allow: "GET, HEAD, POST" });
        }
        if let Some(token) = path.strip_prefix("confirm/") {
            let link = match self.tokens.open(token) {
                Ok(Token::Confirm(link)) => link,
                Ok(_) => return Err(bad_link(TokenError::Unknown)),
                Err(error) => return Err(bad_link(error)),
            };
            return if posts {
                self.confirm(request, link).await
            } else {
                // Programs that look at mails open links: that must not confirm anything.
                self.open_link(request, link).await
            };
        }
        if path == "request" && posts {
            return self.request_by_form(request).await;
        }
        match path.strip_prefix("manage").map(|rest| rest.strip_prefix('/').unwrap_or(rest)) {
            Some("") if posts => self.ask_to_manage(request).await,
            Some("") => Ok(page::verify::ask(&self.visit(request))),
            Some(token) => {
                let link = match self.tokens.open(token) {
                    Ok(Token::Manage(link)) => link,
                    Ok(_) => return Err(bad_link(TokenError::Unknown)),
                    Err(error) => return Err(bad_link(error)),
                };
                if !is_current(&mut self.engine.reading().await?, &link).await? {
                    return Err(bad_link(TokenError::Ended));
                }
                let fingerprint = link.fingerprint;
                if posts {
                    self.take_back(request, fingerprint).await?;
                }
                let all = self.read_statuses(fingerprint).await?.unwrap_or_default();
                Ok(page::verify::addresses(&self.visit(request), fingerprint, &all))
            }
            None => Err(Refusal::NotFound("no such page".into())),
        }
    }

    /// The page behind a link that confirms an address: it asks, or says that the address is
    /// confirmed.
    async fn open_link(&self, request: &Request, link: Link) -> Result<Answer, Refusal> {
        let read = async move |store: &mut Reading| {
            let facts = store.facts_of(link.fingerprint).await?;
            let is_published = facts.published.contains(&link.email);
            Ok::<_, Refusal>((is_published, is_current(store, &link).await?, link))
        };
        let (is_published, is_current, link) = self.engine.read(read).await?;
        match (is_published, is_current) {
            (true, _) => {
                Ok(page::verify::confirmed(&self.visit(request), link.fingerprint, &link.email))
            }
            (false, true) => {
                Ok(page::verify::confirm(&self.visit(request), link.fingerprint, &link.email))
            }
            (false, false) => Err(bad_link(TokenError::Ended)),
        }
    }

    /// Sends the mails that somebody asked for on the page after an upload.
    async fn request_by_form(&self, request: &Request) -> Result<Answer, Refusal> {
        let form = request.form();
        let token = form.get("token").unwrap_or_default();
        let addresses: Vec<String> = form.all("address").map(str::to_owned).collect();
        let accepted = request.header(header::ACCEPT_LANGUAGE).unwrap_or_default();
        let language = Language::first_of(accepted.split(','));
        let asked = self.ask_to_confirm(request, token, &addresses, language).await?;
        let sent = asked.status.into_iter().filter(|(_, status)| *status == Status::Pending);
        let sent: Vec<Address> = sent.map(|(email, _)| email).collect();
        let mut failed = Vec::new();
        for (email, failure) in asked.failed {
            failed.push((email, Refusal::from(failure).to_string()));
        }
        Ok(page::verify::sent(&self.visit(request), asked.fingerprint, &sent, &failed))
    }

    /// Makes a certificate be found by an address whose mail the client reads.
    async fn confirm(&self, request: &Request, link: Link) -> Result<Answer, Refusal> {
        let outcome = self.publish(&link).await?;
        let Link { fingerprint, email, .. } = link;
        match outcome {
            Ok(()) => {
                self.news.announce(vec![fingerprint], None);
                if let Some(network) = self.settings.load().rates.limited(request) {
                    self.mails.has_confirmed(network);
                }
                Ok(page::verify::confirmed(&self.visit(request), fingerprint, &email))
            }
            Err(Unconfirmed::Before) => {
                Ok(page::verify::confirmed(&self.visit(request), fingerprint, &email))
            }
            Err(Unconfirmed::Ended) => Err(bad_link(TokenError::Ended)),
            Err(Unconfirmed::Revoked) => Err(Refusal::Forbidden(format!(
                "{email} was not confirmed: it is revoked in this certificate"
            ))),
            Err(Unconfirmed::Missing) => Err(Refusal::Forbidden(format!(
                "{email} was not confirmed: the certificate no longer has a valid user ID with it"
            ))),
        }
    }

    /// Makes the certificate of a link be found by its address, by what is there at the moment of
    /// the change.
    async fn publish(&self, link: &Link) -> Result<Result<(), Unconfirmed>, Refusal> {
        for _ in 0..TRIES {
            let looked = link.clone();
            let look = async move |store: &mut Reading| Ok(publishable(store, &looked).await?);
            let since = match self.engine.read::<_, Refusal>(look).await? {
                Ok(since) => since,
                Err(why) => return Ok(Err(why)),
            };
            let Link { fingerprint, email, generation } = link.clone();
            let wish = Wish::Publish { email, generation };
            // Otherwise somebody else was faster.
            if self.carry_out(fingerprint, wish, Some(since)).await?.is_ok() {
                return Ok(Ok(()));
            }
        }
        Err(Refusal::Busy)
    }

    async fn carry_out(
        &self,
        fingerprint: Fingerprint,
        wish: Wish,
        unless_changed_since: Option<Since>,
    ) -> Result<Result<(), Conflict>, EngineError> {
        let order = Order { fingerprint, wish, unless_changed_since };
        let terms = Terms::now(self.settings.load().policy.limits());
        Ok(self.engine.carry_out(vec![order], terms).await?.map(drop))
    }

    /// Sends a link to the list of addresses to one of them.
    async fn ask_to_manage(&self, request: &Request) -> Result<Answer, Refusal> {
        let email = address(request.form().get("address").unwrap_or_default())?;
        let found = {
            let email = email.clone();
            self.engine.read(async move |store: &mut Reading| holder(store, &email).await).await?
        };
        let Some(row) = found else {
            return Ok(page::verify::unknown(&self.visit(request), &email));
        };
        let fingerprint = row.fingerprint();
        let accepted = request.header(header::ACCEPT_LANGUAGE).unwrap_or_default();
        let language = Language::first_of(accepted.split(','));
        self.write_to(request, Purpose::Manage, language, &email, fingerprint).await?;
        Ok(page::verify::asked(&self.visit(request), &email))
    }

    /// Makes a certificate not be found by an address any more.
    async fn take_back(&self, request: &Request, fingerprint: Fingerprint) -> Result<(), Refusal> {
        let email = address(request.form().get("address").unwrap_or_default())?;
        // An order without a condition meets no conflict.
        let _ = self.carry_out(fingerprint, Wish::Unpublish(email), None).await?;
        Ok(())
    }
}

fn disabled() -> Refusal {
    Refusal::NotFound("this server does not confirm addresses".into())
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

/// The result of a request for links that confirm addresses.
struct Asked {
    fingerprint: Fingerprint,
    /// All addresses; those to which a mail is on its way are pending.
    status: Statuses,
    /// Addresses to which no mail was sent, and why.
    failed: Vec<(Address, Failure)>,
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
        matches!(self, Self::Mail(error) if error.is_about_address())
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

/// Whether an address can be confirmed by a link, and as of when.
async fn publishable(
    store: &mut Reading,
    link: &Link,
) -> Result<Result<Since, Unconfirmed>, EngineError> {
    let Some(row) = store.row(link.fingerprint).await? else {
        return Ok(Err(Unconfirmed::Missing));
    };
    let facts = store.facts_of(link.fingerprint).await?;
    let statuses = statuses(&row.summary, &facts.published, clock::now());
    Ok(match statuses.get(&link.email) {
        Some(Status::Unpublished) if !is_current(store, link).await? => Err(Unconfirmed::Ended),
        Some(Status::Unpublished) => Ok(Since::Position(row.position())),
        Some(Status::Published | Status::Pending) => Err(Unconfirmed::Before),
        Some(Status::Revoked) => Err(Unconfirmed::Revoked),
        None => Err(Unconfirmed::Missing),
    })
}

/// Whether no link to the address was used since this one was made, and the address was not taken
/// back.
async fn is_current(store: &mut Reading, link: &Link) -> Result<bool, EngineError> {
    Ok(store.generation(link.fingerprint, &link.email).await? == link.generation)
}

fn bad_link(error: TokenError) -> Refusal {
    Refusal::BadRequest(format!("this link cannot be used: {error}. Ask for a new mail."))
}

/// Why pressing the button behind a link has changed nothing.
enum Unconfirmed {
    /// The address was confirmed before.
    Before,
    Ended,
    Revoked,
    Missing,
}
