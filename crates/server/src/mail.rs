//! Mails to people whose addresses are in certificates: their texts, their limits, and the connection to
//! the mail server.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0};
use lettre::transport::smtp::PoolConfig;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use talaria_cert::Fingerprint;
use tokio::sync::Semaphore;

use crate::answer::Refusal;
use crate::config::{Config, Vks, host_and_port};
use crate::network::Network;

/// Mails to one address within [`WINDOW`].
const ADDRESS_MAILS_MAX: usize = 4;

/// Mails about one certificate within [`WINDOW`]. Nearly all certificates have fewer addresses.
const CERT_MAILS_MAX: usize = 20;

/// Mails that one network asks for within [`WINDOW`]. Anybody can make certificates with addresses of others.
const NETWORK_MAILS_MAX: usize = 60;

/// The time in which mails are counted.
const WINDOW: Duration = Duration::from_secs(3600);

/// Addresses, certificates and networks that are remembered. If more are asked for within [`WINDOW`], no further mail
/// is sent: to forget some would lift their limit.
const REMEMBERED_MAX: usize = 65_536;

/// The time limit of the mail server.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The time for which the connection to the mail server is kept without a mail.
const IDLE: Duration = Duration::from_secs(60);

/// Octets of the random part of a Message-ID.
const MESSAGE_ID_BYTES: usize = 16;

/// Why a mail was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MailError {
    /// It is no address that mail can be sent to, or the mail server takes only addresses in ASCII.
    #[error("mail cannot be sent to {0}")]
    Address(String),
    /// Somebody got their mails for now.
    #[error("no more mails for {who} within this hour; use one that was sent, or try again later")]
    TooMany { who: Payer, seconds: u64 },
    /// Too many got mails.
    #[error("too many mails were requested within the last hour; try again later")]
    Busy,
    /// The settings cannot be used.
    #[error("vks.{key}: {what}")]
    Config { key: &'static str, what: String },
    /// The password cannot be read.
    #[error("cannot read {}", path.display())]
    Password { path: PathBuf, source: io::Error },
    /// The mail server cannot be reached, or takes no mail for now.
    #[error("the mail server did not take the mail")]
    Server(#[source] lettre::transport::smtp::Error),
    /// The mail server does not answer. It may send the mail nevertheless.
    #[error("the mail server did not answer within {} seconds", TIMEOUT.as_secs())]
    Silent,
}

impl From<MailError> for Refusal {
    fn from(error: MailError) -> Self {
        match &error {
            MailError::Address(_) => Self::BadRequest(error.to_string()),
            MailError::TooMany { seconds, .. } => Self::TooMany { seconds: *seconds },
            MailError::Busy => Self::Unavailable(error.to_string()),
            MailError::Config { .. }
            | MailError::Password { .. }
            | MailError::Server(_)
            | MailError::Silent => {
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

/// The answer of the mail server to a mail. Clients do not learn it, since it says which addresses there are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answered {
    Taken,
    /// It takes no mail for the address, now or later.
    Refused,
}

/// Whose number of mails is limited.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Payer {
    Address(String),
    Cert(Fingerprint),
    Network(Network),
}

impl fmt::Display for Payer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => f.write_str(address),
            Self::Cert(fingerprint) => write!(f, "the certificate {fingerprint}"),
            Self::Network(_) => f.write_str("your network"),
        }
    }
}

/// The times of the mails that have reached the mail server.
#[derive(Debug, Default)]
struct Quota(Mutex<HashMap<Payer, VecDeque<Instant>>>);

impl Quota {
    /// Takes the place of one mail from each of `payers`, or from none. [`Self::give_back`] frees it if the mail did not
    /// reach the mail server.
    fn take(&self, payers: &[(Payer, usize)], now: Instant) -> Result<(), MailError> {
        let recent = |sent: &Instant| now.saturating_duration_since(*sent) < WINDOW;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = payers.iter().filter(|(payer, _)| !all.contains_key(payer)).count();
        if all.len() + new > REMEMBERED_MAX {
            all.retain(|_, sent| sent.back().is_some_and(recent));
            let new = payers.iter().filter(|(payer, _)| !all.contains_key(payer)).count();
            if all.len() + new > REMEMBERED_MAX {
                return Err(MailError::Busy);
            }
        }
        for (payer, max) in payers {
            let Some(sent) = all.get_mut(payer) else { continue };
            while sent.front().is_some_and(|sent| !recent(sent)) {
                sent.pop_front();
            }
            if let (true, Some(first)) = (sent.len() >= *max, sent.front()) {
                let wait = WINDOW.saturating_sub(now.saturating_duration_since(*first));
                let who = payer.clone();
                return Err(MailError::TooMany { who, seconds: wait.as_secs() + 1 });
            }
        }
        for (payer, _) in payers {
            all.entry(payer.clone()).or_default().push_back(now);
        }
        Ok(())
    }

    fn give_back(&self, payers: &[(Payer, usize)]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (payer, _) in payers {
            let Some(sent) = all.get_mut(payer) else { continue };
            sent.pop_back();
            if sent.is_empty() {
                all.remove(payer);
            }
        }
    }
}

/// The mails of a server: their limits, and the one connection to the mail server.
pub(crate) struct Mails {
    quota: Quota,
    /// The connection, with the settings and the password it was made with.
    connection: Mutex<Option<Connection>>,
    turn: Semaphore,
}

struct Connection {
    vks: Vks,
    hostname: String,
    password: String,
    transport: AsyncSmtpTransport<Tokio1Executor>,
}

impl Default for Mails {
    fn default() -> Self {
        Self { quota: Quota::default(), connection: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Mails {
    /// Sends a mail that a client asked for, who is in `network` if it has limits. The mail server has answered when this
    /// returns. A mail that has reached it counts, whatever the answer.
    pub(crate) async fn send(
        &self,
        config: &Config,
        network: Option<Network>,
        letter: &Letter<'_>,
    ) -> Result<Answered, MailError> {
        let message = message(config, letter)?;
        let transport = self.transport(config)?;
        let mut payers = vec![
            (Payer::Address(letter.address.to_owned()), ADDRESS_MAILS_MAX),
            (Payer::Cert(letter.fingerprint), CERT_MAILS_MAX),
        ];
        if let Some(network) = network {
            let share = match network {
                Network::Onion => config.rates.onion_share as usize,
                Network::Net(_) => 1,
            };
            payers.push((Payer::Network(network), NETWORK_MAILS_MAX.saturating_mul(share)));
        }
        self.quota.take(&payers, Instant::now())?;
        let send = async {
            // One connection is enough, and the mail server sees one client.
            let turn = tokio::time::timeout(TIMEOUT, self.turn.acquire()).await;
            let _turn = turn.map_err(|_| MailError::Busy)?.map_err(|_| MailError::Busy)?;
            // The library bounds only the time for connecting.
            match tokio::time::timeout(TIMEOUT, transport.send(message)).await {
                Ok(Ok(_)) => Ok(Answered::Taken),
                Ok(Err(error)) => refused(error, letter.address),
                Err(_) => {
                    // The next mail has another connection, since this one waits for its answer.
                    self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
                    Err(MailError::Silent)
                }
            }
        };
        send.await.inspect_err(|error| {
            if !has_reached_server(error) {
                self.quota.give_back(&payers);
            }
        })
    }

    /// Ends the connection, which must happen while the runtime is there.
    pub(crate) async fn close(&self) {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = connection {
            connection.transport.shutdown().await;
        }
    }

    /// The connection, or a new one if the settings are others now.
    fn transport(&self, config: &Config) -> Result<AsyncSmtpTransport<Tokio1Executor>, MailError> {
        let vks = &config.vks;
        let password = match &vks.smtp_password_file {
            Some(path) if !vks.smtp_user.is_empty() => fs::read_to_string(path)
                .map_err(|source| MailError::Password { path: path.clone(), source })?,
            _ => String::new(),
        };
        let hostname = &config.server.hostname;
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*connection
            && (&known.vks, &known.hostname, &known.password) == (vks, hostname, &password)
        {
            return Ok(known.transport.clone());
        }
        let transport = transport(config, &password)?;
        let (vks, hostname) = (vks.clone(), hostname.clone());
        *connection = Some(Connection { vks, hostname, password, transport: transport.clone() });
        Ok(transport)
    }
}

/// Permanent answers about the session and not about a mail: unknown commands (RFC 5321, section 4.2.2), no mail at all
/// (RFC 7504), and authentication (RFC 4954, section 6).
const OF_SESSION: [u16; 8] = [500, 502, 503, 521, 530, 534, 535, 538];

/// Why the mail server did not take a mail: the mail, for good, or the address if the server takes only ASCII, or anything
/// else.
fn refused(error: lettre::transport::smtp::Error, address: &str) -> Result<Answered, MailError> {
    let is_of_session = error.status().is_some_and(|code| OF_SESSION.contains(&code.into()));
    if error.is_permanent() && !is_of_session {
        tracing::debug!(%error, "the mail server refused a mail");
        return Ok(Answered::Refused);
    }
    if error.is_client() && !address.is_ascii() {
        return Err(MailError::Address(address.to_owned()));
    }
    Err(MailError::Server(error))
}

/// Whether the mail server has answered, or may have the mail.
fn has_reached_server(error: &MailError) -> bool {
    matches!(error, MailError::Address(_) | MailError::Silent)
        || matches!(error, MailError::Server(error) if error.status().is_some() || error.is_response())
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
                    "Hello,\n\nsomebody, probably you, wants to confirm on the keyserver {server}\n\
                     that the OpenPGP key\n\n    {fingerprint}\n\nbelongs to your e-mail address \
                     {address}.\n\n\
                     If that is your key, open this page and press the button on it:\n\n\
                     {link}\n\nThe link holds for {hours} hours. \
                     If this is not your key, do nothing:\n\
                     the address stays unconfirmed.\n"
                ),
            ),
            (Purpose::Confirm, Language::German) => (
                format!("{address} für Ihren Schlüssel auf {server} bestätigen"),
                format!(
                    "Guten Tag,\n\njemand, vermutlich Sie selbst, möchte auf dem Keyserver {server}\n\
                     bestätigen, dass der OpenPGP-Schlüssel\n\n    {fingerprint}\n\nzu Ihrer \
                     E-Mail-Adresse {address} gehört.\n\nWenn das Ihr Schlüssel ist, öffnen Sie diese Seite \
                     und betätigen Sie dort\ndie Schaltfläche:\n\n{link}\n\nDer Link gilt \
                     {hours} Stunden. Wenn es nicht Ihr Schlüssel ist, tun Sie nichts:\ndie Adresse \
                     wird dann nicht bestätigt.\n"
                ),
            ),
            (Purpose::Manage, Language::English) => (
                format!("Your key on {server}"),
                format!(
                    "Hello,\n\non this page you can see the addresses that are confirmed for the OpenPGP \
                     key\n\n    {fingerprint}\n\non the keyserver {server},\nand take addresses \
                     back:\n\n{link}\n\nThe link holds for {hours} hours. If you did not ask for \
                     it, do nothing.\n"
                ),
            ),
            (Purpose::Manage, Language::German) => (
                format!("Ihr Schlüssel auf {server}"),
                format!(
                    "Guten Tag,\n\nauf dieser Seite sehen Sie, welche Adressen für den \
                     OpenPGP-Schlüssel\n\n    {fingerprint}\n\nauf dem Keyserver {server}\nbestätigt \
                     sind, und können Adressen zurückziehen:\n\n{link}\n\nDer Link gilt {hours} \
                     Stunden. Wenn Sie ihn nicht angefordert haben, tun Sie nichts.\n"
                ),
            ),
        }
    }
}

fn message(config: &Config, letter: &Letter<'_>) -> Result<Message, MailError> {
    let unusable =
        |key, what: &dyn std::fmt::Display| MailError::Config { key, what: what.to_string() };
    let from: Mailbox = config.vks.from.parse().map_err(|error| unusable("from", &error))?;
    let no_address = || MailError::Address(letter.address.to_owned());
    let to: Address = letter.address.parse().map_err(|_| no_address())?;
    let to = Mailbox::new(None, to);
    // lettre reads the header for the envelope, and there no addresses of machines without a domain.
    if !to.to_string().parse().is_ok_and(|read: Mailbox| read == to) {
        return Err(no_address());
    }
    let server = &config.server.hostname;
    let (subject, text) = letter.text(server, config.vks.token_s.div_ceil(3600));
    let name = HeaderName::new_from_ascii_str("Auto-Submitted");
    let mut random = [0; MESSAGE_ID_BYTES];
    aws_lc_rs::rand::fill(&mut random).map_err(|error| unusable("enabled", &error))?;
    let id = format!("<{:032x}@{}>", u128::from_be_bytes(random), without_port(server));
    Message::builder()
        .from(from)
        .to(to)
        .subject(subject)
        .date_now()
        .message_id(Some(id))
        .header(MIME_VERSION_1_0)
        // No answers of programs to a program (RFC 3834).
        .raw_header(HeaderValue::new(name, "auto-generated".to_owned()))
        .header(ContentType::TEXT_PLAIN)
        .body(text)
        .map_err(|error| unusable("from", &error))
}

/// A host name without its port.
fn without_port(hostname: &str) -> &str {
    hostname.split(':').next().unwrap_or_default()
}

fn transport(
    config: &Config,
    password: &str,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, MailError> {
    let vks = &config.vks;
    let unusable = |key, what: String| MailError::Config { key, what };
    let (host, port) = host_and_port(&vks.smtp)
        .ok_or_else(|| unusable("smtp", format!("{} is not host:port", vks.smtp)))?;
    let parameters = || {
        TlsParameters::new(host.to_owned())
            .map_err(|error| unusable("smtp_security", error.to_string()))
    };
    let tls = match vks.smtp_security.as_str() {
        "tls" => Tls::Wrapper(parameters()?),
        "starttls" => Tls::Required(parameters()?),
        _ => Tls::None,
    };
    let name = without_port(&config.server.hostname);
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
        .port(port)
        .timeout(Some(TIMEOUT))
        .hello_name(ClientId::Domain(name.to_owned()))
        .pool_config(PoolConfig::new().max_size(1).idle_timeout(IDLE))
        .tls(tls);
    if !vks.smtp_user.is_empty() {
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        builder = builder.credentials(Credentials::new(vks.smtp_user.clone(), password));
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// The payers of a mail.
    fn payers(address: &str, cert: u8, network: u8) -> Vec<(Payer, usize)> {
        let network = IpAddr::from([192, 0, 2, network]).into();
        vec![
            (Payer::Address(address.to_owned()), ADDRESS_MAILS_MAX),
            (Payer::Cert(Fingerprint::V4([cert; 20])), CERT_MAILS_MAX),
            (Payer::Network(Network::Net(network)), NETWORK_MAILS_MAX),
        ]
    }

    #[test]
    fn an_address_gets_a_limited_number_of_mails_per_hour() {
        let (quota, start) = (Quota::default(), Instant::now());
        let take =
            |address, s| quota.take(&payers(address, 1, 1), start + Duration::from_secs(s)).is_ok();
        for n in 0..ADDRESS_MAILS_MAX {
            assert!(take("a@example.org", n as u64));
        }
        assert!(!take("a@example.org", 10) && take("b@example.org", 10));
        // A mail that was not sent does not count.
        quota.give_back(&payers("a@example.org", 1, 1));
        assert!(take("a@example.org", 11) && !take("a@example.org", 12));
        // The first mail no longer counts after an hour.
        assert!(!take("a@example.org", 3599) && take("a@example.org", 3600));
    }

    #[test]
    fn a_certificate_and_a_network_have_limits_of_their_own() {
        let (quota, start) = (Quota::default(), Instant::now());
        let take = |address: usize, cert, network| {
            quota.take(&payers(&format!("{address}@example.org"), cert, network), start)
        };
        let who = |result: Result<(), MailError>| match result {
            Err(MailError::TooMany { who, .. }) => who,
            other => panic!("{other:?}"),
        };
        for n in 0..CERT_MAILS_MAX {
            take(n, 1, 1).unwrap();
        }
        assert!(matches!(who(take(99, 1, 2)), Payer::Cert(_)));
        for n in CERT_MAILS_MAX..NETWORK_MAILS_MAX {
            take(n, u8::try_from(n).unwrap(), 1).unwrap();
        }
        assert!(matches!(who(take(99, 99, 1)), Payer::Network(_)));
        // What was refused took nothing from the others.
        take(99, 99, 2).unwrap();
    }

    #[test]
    fn requests_for_many_addresses_reset_no_limit() {
        let (quota, start) = (Quota::default(), Instant::now());
        let one = |n: usize| [(Payer::Address(format!("{n}@example.org")), ADDRESS_MAILS_MAX)];
        for n in 0..REMEMBERED_MAX {
            quota.take(&one(n), start).unwrap();
        }
        assert!(matches!(quota.take(&one(REMEMBERED_MAX), start), Err(MailError::Busy)));
        assert!(quota.take(&one(7), start).is_ok());
        assert!(quota.take(&one(REMEMBERED_MAX), start + WINDOW).is_ok());
        assert!(quota.0.lock().unwrap().len() <= REMEMBERED_MAX);
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
