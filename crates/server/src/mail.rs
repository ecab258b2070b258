//! Mails to people whose addresses are in certificates: their texts, their limits, and the
//! connection to the mail server.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0};
use lettre::transport::smtp::PoolConfig;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use parking_lot::{Mutex, MutexGuard};
use talaria_cert::Fingerprint;
use tokio::sync::Semaphore;

use crate::answer::Refusal;
use crate::config::{Config, Vks, host_and_port};
use crate::metrics::{Metrics, count};
use crate::network::Network;
use crate::quota::{
    CERT_MAILS_MAX, DOMAIN_MAILS_MAX, MAILBOX_MAILS_MAX, NETWORK_MAILS_MAX, Payer, Quota,
    SHARE_MAILS_MAX, Spent, domain_of, mailbox,
};

/// Mails that wait because their domain has its mails for now: in all, and of one network.
const WAITING_MAX: usize = 1024;
const WAITING_OF_ONE_MAX: usize = 4;

/// The time for which they wait at most, and after which they are tried again.
const WAIT: Duration = Duration::from_secs(3600);
const AGAIN: Duration = Duration::from_secs(5);

/// The time limit of the mail server.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The time for which the connection to the mail server is kept without a mail.
const IDLE: Duration = Duration::from_secs(60);

/// Bytes of the random part of a Message-ID.
const MESSAGE_ID_BYTES: usize = 16;

/// Why a mail was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MailError {
    /// It is no address that mail can be sent to, or the mail server takes only addresses in ASCII.
    #[error("mail cannot be sent to {0}")]
    Address(String),
    /// Somebody got their mails for now.
    #[error("no more mails for {who} for now; use one that was sent, or try again later")]
    TooMany { who: Payer, seconds: u64 },
    /// Others have mails sent.
    #[error("too many mails are being sent; try again later")]
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

impl MailError {
    /// Whether mails to other addresses can still be sent.
    pub(crate) fn is_about_address(&self) -> bool {
        matches!(
            self,
            Self::Address(_)
                | Self::TooMany {
                    who: Payer::Mailbox(_) | Payer::Share(..) | Payer::Domain(_),
                    ..
                }
        )
    }
}

impl From<Spent> for MailError {
    fn from(Spent { who, seconds }: Spent) -> Self {
        Self::TooMany { who, seconds }
    }
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

/// The answer of the mail server to a mail. Clients do not learn it, since it says which addresses
/// there are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answered {
    Taken,
    /// It takes no mail for the address, now or later.
    Refused,
}

/// A mail that may be sent when each of `payers` has a place for it.
struct Mail {
    message: Message,
    address: String,
    payers: Vec<(Payer, usize)>,
    config: Arc<Config>,
    since: Instant,
}

impl Mail {
    fn new(
        config: &Arc<Config>,
        network: Option<Network>,
        letter: &Letter<'_>,
    ) -> Result<Self, MailError> {
        let message = message(config, letter)?;
        let mailbox = mailbox(letter.address);
        let mut payers = vec![
            (Payer::Mailbox(mailbox.clone()), MAILBOX_MAILS_MAX),
            (Payer::Cert(letter.fingerprint), CERT_MAILS_MAX),
        ];
        if let Some(network) = network {
            let share = match network {
                Network::Onion => config.rates.onion_share as usize,
                Network::Net(_) => 1,
            };
            payers.push((Payer::Share(network, mailbox), SHARE_MAILS_MAX));
            payers.push((Payer::Network(network), NETWORK_MAILS_MAX.saturating_mul(share)));
        }
        let (address, config) = (letter.address.to_owned(), Arc::clone(config));
        Ok(Self { message, address, payers, config, since: Instant::now() })
    }
}

/// Mails that wait because their domain has its mails for now. Networks take turns.
#[derive(Default)]
struct Waiting {
    networks: VecDeque<(Network, VecDeque<Mail>)>,
    /// Whether a task sends them when they are due.
    is_running: bool,
}

impl Waiting {
    fn has(&self, domain: &Payer) -> bool {
        let mut mails = self.networks.iter().flat_map(|(_, mails)| mails);
        mails.any(|mail| mail.payers.iter().any(|(payer, _)| payer == domain))
    }

    /// Adds a mail, unless its network has too many, or all networks together.
    fn add(&mut self, network: Network, mail: Mail) -> bool {
        let count_all: usize = self.networks.iter().map(|(_, mails)| mails.len()).sum();
        let known = self.networks.iter_mut().find(|(known, _)| *known == network);
        if count_all >= WAITING_MAX
            || known.as_ref().is_some_and(|(_, mails)| mails.len() >= WAITING_OF_ONE_MAX)
        {
            return false;
        }
        match known {
            Some((_, mails)) => mails.push_back(mail),
            None => self.networks.push_back((network, VecDeque::from([mail]))),
        }
        true
    }

    /// The next mail that may be sent now: of the network whose turn it is, or of the next one that
    /// has such a mail. Mails that have waited for too long, or whose limits are used up otherwise,
    /// are dropped.
    fn next_due(&mut self, quota: &Quota, now: Instant) -> Option<Mail> {
        for _ in 0..self.networks.len() {
            let (network, mut mails) = self.networks.pop_front()?;
            let mut due = None;
            let mut rest = VecDeque::new();
            while let Some(mail) = mails.pop_front() {
                if now.saturating_duration_since(mail.since) >= WAIT {
                    continue;
                }
                match quota.take(&mail.payers, now) {
                    Ok(()) => {
                        due = Some(mail);
                        rest.append(&mut mails);
                    }
                    Err(Spent { who: Payer::Domain(_), .. }) => rest.push_back(mail),
                    Err(_) => {
                        tracing::debug!("a mail that waited is not sent: its limit is reached");
                    }
                }
            }
            if !rest.is_empty() {
                self.networks.push_back((network, rest));
            }
            if due.is_some() {
                return due;
            }
        }
        None
    }
}

/// The mails of a server: their limits, and the one connection to the mail server.
pub(crate) struct Mails {
    metrics: Arc<Metrics>,
    quota: Quota,
    waiting: Mutex<Waiting>,
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

impl Mails {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            quota: Quota::default(),
            waiting: Mutex::default(),
            connection: Mutex::default(),
            turn: Semaphore::new(1),
        }
    }

    /// Sends a mail that a client asked for, who is in `network` if it has limits. The mail server
    /// has answered when this returns, or the mail waits until its domain may get more. A mail that
    /// has reached the mail server counts, whatever the answer.
    pub(crate) async fn send(
        self: &Arc<Self>,
        config: &Arc<Config>,
        network: Option<Network>,
        letter: &Letter<'_>,
    ) -> Result<(), MailError> {
        let mut mail = Mail::new(config, network, letter)?;
        let now = Instant::now();
        let stranger = network.filter(|&network| !self.quota.is_known(network, now));
        let Some(stranger) = stranger else {
            self.quota.take(&mail.payers, now)?;
            return self.deliver(mail).await;
        };
        self.quota.check(&mail.payers, now)?;
        let domain = Payer::Domain(domain_of(letter.address));
        mail.payers.push((domain.clone(), DOMAIN_MAILS_MAX));
        // Those that wait come first.
        let spent = if self.waiting().has(&domain) {
            Spent { who: domain, seconds: AGAIN.as_secs() }
        } else {
            match self.quota.take(&mail.payers, now) {
                Ok(()) => return self.deliver(mail).await,
                Err(spent) => spent,
            }
        };
        let is_of_domain = matches!(spent.who, Payer::Domain(_));
        let mut waiting = self.waiting();
        if !is_of_domain || !waiting.add(stranger, mail) {
            return Err(spent.into());
        }
        if !waiting.is_running {
            waiting.is_running = true;
            tokio::spawn(Arc::clone(self).work_off());
        }
        Ok(())
    }

    /// Notes that somebody in a network has confirmed an address, whose mail they read.
    pub(crate) fn has_confirmed(&self, network: Network) {
        self.quota.has_confirmed(network, Instant::now());
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// Sends the mails that wait, when their domains may get more.
    async fn work_off(self: Arc<Self>) {
        loop {
            tokio::time::sleep(AGAIN).await;
            loop {
                let due = self.waiting().next_due(&self.quota, Instant::now());
                let Some(mail) = due else { break };
                if let Err(error) = self.deliver(mail).await {
                    tracing::warn!(%error, "a mail that waited was not sent");
                }
            }
            let mut waiting = self.waiting();
            if waiting.networks.is_empty() {
                waiting.is_running = false;
                return;
            }
        }
    }

    /// Sends a mail whose payers have paid for it.
    async fn deliver(&self, mail: Mail) -> Result<(), MailError> {
        let Mail { message, address, payers, config, .. } = mail;
        let send = async {
            let transport = self.transport(&config)?;
            // One connection is enough, and the mail server sees one client.
            let turn = tokio::time::timeout(TIMEOUT, self.turn.acquire()).await;
            let _turn = turn.map_err(|_| MailError::Busy)?.map_err(|_| MailError::Busy)?;
            // The library bounds only the time for connecting.
            match tokio::time::timeout(TIMEOUT, transport.send(message)).await {
                Ok(Ok(_)) => Ok(Answered::Taken),
                Ok(Err(error)) => refused(error, &address),
                Err(_) => {
                    // The next mail has another connection, since this one waits for its answer.
                    self.connection.lock().take();
                    Err(MailError::Silent)
                }
            }
        };
        let answered = send.await.inspect_err(|error| {
            if !has_reached_server(error) {
                self.quota.give_back(&payers);
            }
        })?;
        let counter = match answered {
            Answered::Taken => &self.metrics.mails,
            Answered::Refused => &self.metrics.mails_refused,
        };
        count(counter, 1);
        Ok(())
    }

    /// Ends the connection, which must happen while the runtime is there.
    pub(crate) async fn close(&self) {
        self.waiting().networks.clear();
        let connection = self.connection.lock().take();
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
        let mut connection = self.connection.lock();
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

/// Permanent answers about the session and not about a mail: unknown commands (RFC 5321, section
/// 4.2.2), no mail at all (RFC 7504), and authentication (RFC 4954, section 6).
const OF_SESSION: [u16; 8] = [500, 502, 503, 521, 530, 534, 535, 538];

/// Why the mail server did not take a mail: the mail, for good, or the address if the server takes
/// only ASCII, or anything else.
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
    // lettre reads the header for the envelope, and there no addresses of machines without a
    // domain.
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

    fn network(number: u8) -> Network {
        Network::Net(IpAddr::from([192, 0, 2, number]).into())
    }

    /// A mail to an address of a domain that has its mails.
    fn waits(address: &str, since: Instant) -> Mail {
        let config = Arc::new(Config::default());
        let letter = Letter {
            purpose: Purpose::Confirm,
            language: Language::English,
            address,
            fingerprint: Fingerprint::V4([1; 20]),
            link: "http://localhost/",
        };
        let payers = vec![
            (Payer::Mailbox(mailbox(address)), MAILBOX_MAILS_MAX),
            (Payer::Domain(domain_of(address)), DOMAIN_MAILS_MAX),
        ];
        let message = message(&config, &letter).unwrap();
        Mail { message, address: address.into(), payers, config, since }
    }

    #[test]
    fn mails_that_wait_for_a_domain_are_sent_in_turns_of_networks() {
        let (quota, start) = (Quota::default(), Instant::now());
        let minutes = |n: u64| start + Duration::from_secs(60 * n);
        let one = [(Payer::Domain("example.org".into()), DOMAIN_MAILS_MAX)];
        (0..DOMAIN_MAILS_MAX).for_each(|_| quota.take(&one, start).unwrap());
        let mut waiting = Waiting::default();
        for n in 0..WAITING_OF_ONE_MAX {
            assert!(waiting.add(network(1), waits(&format!("a{n}@example.org"), start)));
        }
        assert!(!waiting.add(network(1), waits("a9@example.org", start)));
        assert!(waiting.add(network(2), waits("b@example.org", start)));
        assert!(waiting.add(network(3), waits("c@example.org", start)));
        assert!(waiting.has(&Payer::Domain("example.org".into())));
        assert!(waiting.next_due(&quota, minutes(9)).is_none());
        let due: Vec<String> =
            std::iter::from_fn(|| Some(waiting.next_due(&quota, minutes(10))?.address)).collect();
        let expected = ["a0", "b", "c", "a1", "a2", "a3"].map(|name| format!("{name}@example.org"));
        assert_eq!(due, expected);
        assert!(waiting.networks.is_empty());
        // Nobody waits for another domain, and not for ever.
        assert!(waiting.add(network(1), waits("d@example.org", start)));
        assert!(!waiting.has(&Payer::Domain("example.net".into())));
        assert!(waiting.next_due(&quota, minutes(60)).is_none() && waiting.networks.is_empty());
        let fill = |n: u8| (0..4).all(|_| waiting.add(network(n), waits("e@example.org", start)));
        assert!((0..=255).all(fill));
        assert!(!waiting.add(Network::Onion, waits("e@example.org", start)));
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
