//! Mails to people whose addresses are in certificates: their texts, their limits, and the connection to
//! the mail server.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use talaria_cert::Fingerprint;

use crate::answer::Refusal;
use crate::config::Config;

/// Mails to one address within [`WINDOW`].
const MAILS_MAX: usize = 4;

/// The time in which mails are counted.
const WINDOW: Duration = Duration::from_secs(3600);

/// Addresses that are remembered. If more are asked for within [`WINDOW`], no further mail is sent:
/// to forget some would lift their limit.
const ADDRESSES_MAX: usize = 65_536;

/// The time limit of the mail server.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Why a mail was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MailError {
    /// It is no address that mail can be sent to.
    #[error("mail cannot be sent to {0}")]
    Address(String),
    /// The address got its mails for now.
    #[error("{address} got {MAILS_MAX} mails within an hour; use one of them, or try again later")]
    TooMany { address: String, seconds: u64 },
    /// Too many addresses got mails.
    #[error("too many mails were requested within the last hour; try again later")]
    Busy,
    /// The settings cannot be used.
    #[error("vks.{key}: {what}")]
    Config { key: &'static str, what: String },
    /// The password cannot be read.
    #[error("cannot read {}", path.display())]
    Password { path: PathBuf, source: io::Error },
    /// The mail server did not take it.
    #[error("the mail server refused the mail")]
    Server(#[source] lettre::transport::smtp::Error),
}

impl From<MailError> for Refusal {
    fn from(error: MailError) -> Self {
        match &error {
            MailError::Address(_) => Self::BadRequest(error.to_string()),
            MailError::TooMany { seconds, .. } => Self::TooMany { seconds: *seconds },
            MailError::Busy => Self::Unavailable(error.to_string()),
            MailError::Config { .. } | MailError::Password { .. } | MailError::Server(_) => {
                // The operator sees the cause in the log; the client does not.
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(%error, source, "a mail was not sent");
                Self::Unavailable(
                    "no mail can be sent at the moment, and nothing was changed; try again later"
                        .into(),
                )
            }
        }
    }
}

/// The times of the mails that were sent, by address.
#[derive(Debug, Default)]
pub(crate) struct Quota(Mutex<HashMap<String, VecDeque<Instant>>>);

impl Quota {
    /// Takes the place of one mail, which [`Self::give_back`] frees if the mail was not sent.
    fn take(&self, address: &str, now: Instant) -> Result<(), MailError> {
        let recent = |sent: &Instant| now.saturating_duration_since(*sent) < WINDOW;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= ADDRESSES_MAX && !all.contains_key(address) {
            all.retain(|_, sent| sent.back().is_some_and(recent));
            if all.len() >= ADDRESSES_MAX {
                return Err(MailError::Busy);
            }
        }
        let sent = all.entry(address.to_owned()).or_default();
        while sent.front().is_some_and(|sent| !recent(sent)) {
            sent.pop_front();
        }
        if let (true, Some(first)) = (sent.len() >= MAILS_MAX, sent.front()) {
            let wait = WINDOW.saturating_sub(now.saturating_duration_since(*first));
            let address = address.to_owned();
            return Err(MailError::TooMany { address, seconds: wait.as_secs() + 1 });
        }
        sent.push_back(now);
        Ok(())
    }

    fn give_back(&self, address: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sent) = all.get_mut(address) {
            sent.pop_back();
            if sent.is_empty() {
                all.remove(address);
            }
        }
    }
}

/// The language of a mail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Language {
    English,
    German,
}

impl Language {
    /// The first of some locales (`de_DE`, `en-GB`, `fr`) that there are texts for.
    pub(crate) fn first_of<'a>(locales: impl IntoIterator<Item = &'a str>) -> Self {
        locales
            .into_iter()
            .find_map(|locale| {
                let language = locale.trim().split(['_', '-', ';', '.']).next();
                match language.unwrap_or_default().to_ascii_lowercase().as_str() {
                    "en" => Some(Self::English),
                    "de" => Some(Self::German),
                    _ => None,
                }
            })
            .unwrap_or(Self::English)
    }
}

/// The subject of a mail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// To confirm that an address belongs to a certificate.
    Confirm,
    /// To take confirmed addresses back.
    Manage,
}

/// A mail to one address with a link in it.
#[derive(Clone, Debug)]
pub(crate) struct Letter<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) language: Language,
    pub(crate) address: &'a str,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) link: &'a str,
}

impl Letter<'_> {
    /// Subject and text.
    fn text(&self, server: &str, hours: u64) -> (String, String) {
        let Self { address, link, .. } = self;
        let digits = self.fingerprint.to_string();
        let groups: Vec<&str> = (0..digits.len())
            .step_by(4)
            .map(|at| &digits[at..(at + 4).min(digits.len())])
            .collect();
        let fingerprint = groups.join(" ");
        match (self.purpose, self.language) {
            (Purpose::Confirm, Language::English) => (
                format!("Confirm {address} for your key on {server}"),
                format!(
                    "Hello,\n\nsomebody, probably you, wants the OpenPGP key\n\n    {fingerprint}\n\n\
                     to be found by your e-mail address {address}\non the keyserver {server}.\n\n\
                     If that is your key, open this page and press the button on it:\n\n\
                     {link}\n\nThe link holds for {hours} hours. \
                     If this is not your key, do nothing:\n\
                     the address stays unpublished.\n"
                ),
            ),
            (Purpose::Confirm, Language::German) => (
                format!("{address} für Ihren Schlüssel auf {server} bestätigen"),
                format!(
                    "Guten Tag,\n\njemand, vermutlich Sie selbst, möchte, dass der OpenPGP-Schlüssel\
                     \n\n    {fingerprint}\n\nauf dem Keyserver {server}\nunter Ihrer E-Mail-Adresse \
                     {address} gefunden wird.\n\nWenn das Ihr Schlüssel ist, öffnen Sie diese Seite \
                     und betätigen Sie dort\ndie Schaltfläche:\n\n{link}\n\nDer Link gilt \
                     {hours} Stunden. Wenn es nicht Ihr Schlüssel ist, tun Sie nichts:\ndie Adresse \
                     wird dann nicht veröffentlicht.\n"
                ),
            ),
            (Purpose::Manage, Language::English) => (
                format!("Your key on {server}"),
                format!(
                    "Hello,\n\non this page you can see by which addresses the OpenPGP key\n\n    \
                     {fingerprint}\n\nis found on the keyserver {server},\nand take addresses \
                     back:\n\n{link}\n\nThe link holds for {hours} hours. If you did not ask for \
                     it, do nothing.\n"
                ),
            ),
            (Purpose::Manage, Language::German) => (
                format!("Ihr Schlüssel auf {server}"),
                format!(
                    "Guten Tag,\n\nauf dieser Seite sehen Sie, unter welchen Adressen der \
                     OpenPGP-Schlüssel\n\n    {fingerprint}\n\nauf dem Keyserver {server}\ngefunden \
                     wird, und können Adressen zurückziehen:\n\n{link}\n\nDer Link gilt {hours} \
                     Stunden. Wenn Sie ihn nicht angefordert haben, tun Sie nichts.\n"
                ),
            ),
        }
    }
}

/// Sends a mail. It is with the mail server when this returns.
pub(crate) async fn send(
    quota: &Quota,
    config: &Config,
    letter: &Letter<'_>,
) -> Result<(), MailError> {
    let message = message(config, letter)?;
    let transport = transport(config)?;
    quota.take(letter.address, Instant::now())?;
    transport.send(message).await.map(drop).map_err(|error| {
        quota.give_back(letter.address);
        MailError::Server(error)
    })
}

fn message(config: &Config, letter: &Letter<'_>) -> Result<Message, MailError> {
    let unusable =
        |key, what: &dyn std::fmt::Display| MailError::Config { key, what: what.to_string() };
    let from: Mailbox = config.vks.from.parse().map_err(|error| unusable("from", &error))?;
    let no_address = || MailError::Address(letter.address.to_owned());
    let to: Address = letter.address.parse().map_err(|_| no_address())?;
    let server = &config.server.hostname;
    let (subject, text) = letter.text(server, config.vks.token_s.div_ceil(3600));
    let name = HeaderName::new_from_ascii_str("Auto-Submitted");
    Message::builder()
        .from(from)
        .to(Mailbox::new(None, to))
        .subject(subject)
        .date_now()
        // No answers of programs to a program (RFC 3834).
        .raw_header(HeaderValue::new(name, "auto-generated".to_owned()))
        .header(ContentType::TEXT_PLAIN)
        .body(text)
        .map_err(|error| unusable("from", &error))
}

fn transport(config: &Config) -> Result<AsyncSmtpTransport<Tokio1Executor>, MailError> {
    let vks = &config.vks;
    let unusable = |key, what: String| MailError::Config { key, what };
    let (host, port) = vks
        .smtp
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)))
        .ok_or_else(|| unusable("smtp", format!("{} is not host:port", vks.smtp)))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let parameters = || {
        TlsParameters::new(host.to_owned())
            .map_err(|error| unusable("smtp_security", error.to_string()))
    };
    let tls = match vks.smtp_security.as_str() {
        "tls" => Tls::Wrapper(parameters()?),
        "starttls" => Tls::Required(parameters()?),
        _ => Tls::None,
    };
    let name = config.server.hostname.split(':').next().unwrap_or_default();
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
        .port(port)
        .timeout(Some(TIMEOUT))
        .hello_name(ClientId::Domain(name.to_owned()))
        .tls(tls);
    if !vks.smtp_user.is_empty() {
        let password = match &vks.smtp_password_file {
            Some(path) => fs::read_to_string(path)
                .map_err(|source| MailError::Password { path: path.clone(), source })?,
            None => String::new(),
        };
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        builder = builder.credentials(Credentials::new(vks.smtp_user.clone(), password));
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_a_limited_number_of_mails_per_hour() {
        let (quota, start) = (Quota::default(), Instant::now());
        let take = |address, s| quota.take(address, start + Duration::from_secs(s)).is_ok();
        for n in 0..MAILS_MAX {
            assert!(take("a@example.org", n as u64));
        }
        assert!(!take("a@example.org", 10) && take("b@example.org", 10));
        // A mail that was not sent does not count.
        quota.give_back("a@example.org");
        assert!(take("a@example.org", 11) && !take("a@example.org", 12));
        // The first mail no longer counts after an hour.
        assert!(!take("a@example.org", 3599) && take("a@example.org", 3600));
    }

    #[test]
    fn requests_for_many_addresses_reset_no_limit() {
        let (quota, start) = (Quota::default(), Instant::now());
        for n in 0..ADDRESSES_MAX {
            quota.take(&format!("{n}@example.org"), start).unwrap();
        }
        assert!(matches!(quota.take("new@example.org", start), Err(MailError::Busy)));
        assert!(quota.take("7@example.org", start).is_ok());
        assert!(quota.take("new@example.org", start + WINDOW).is_ok());
        assert!(quota.0.lock().unwrap().len() <= ADDRESSES_MAX);
    }

    #[test]
    fn mails_use_the_first_available_language() {
        let of = |locales: &[&str]| Language::first_of(locales.iter().copied());
        assert_eq!(of(&["de_DE", "en"]), Language::German);
        assert_eq!(of(&["fr-FR", "de-AT;q=0.5"]), Language::German);
        assert_eq!(of(&["en-GB", "de"]), Language::English);
        assert_eq!(of(&["fr"]), Language::English);
        assert_eq!(of(&[]), Language::English);
    }

    #[test]
    fn an_address_cannot_add_a_header() {
        let config = Config::default();
        for address in ["a@b\r\nBcc: c@d", "a@b, c@d", "a@b>", "x", "\"\r\n\"@b"] {
            let letter = Letter {
                purpose: Purpose::Confirm,
                language: Language::English,
                address,
                fingerprint: Fingerprint::V4([1; 20]),
                link: "http://localhost/",
            };
            assert!(message(&config, &letter).is_err(), "{address}");
        }
    }
}
