//! The settings of a server: one TOML file, of which every part may be missing.
//!
//! The defaults are in the types that read them; `docs/server.toml` shows all of them and a test
//! holds that file against this one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use talaria_cert::{Limits, Serving, View};

/// All settings.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The operator of the server.
    pub server: Identity,
    /// How it is reached.
    pub http: Http,
    /// Limits for keeping and serving certificates.
    pub policy: Policy,
    /// How much one network may ask.
    pub rates: Rates,
    /// Exchange with other keyservers.
    pub gossip: Gossip,
    /// Passing on what is uploaded here.
    pub push: Push,
    /// Addresses that their owners confirm by mail.
    pub vks: Vks,
    /// Web key directories that are served.
    pub wkd: Wkd,
    /// The log.
    pub log: Log,
}

/// The operator of the server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// The name by which the server is known.
    pub hostname: String,
    /// How its operator is reached, shown on the page: an address or a URL.
    pub contact: String,
    /// The fingerprint of the operator's certificate, shown in the statistics.
    pub operator: String,
}

impl Default for Identity {
    fn default() -> Self {
        Self { hostname: "localhost".into(), contact: String::new(), operator: String::new() }
    }
}

/// How the server is reached.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// The certificate chain for TLS, in PEM. With it all addresses speak TLS.
    pub tls_certificate: Option<PathBuf>,
    /// The key for it, in PEM.
    pub tls_key: Option<PathBuf>,
    /// Whether each connection starts with a header of the PROXY protocol (version 1 or 2).
    pub proxy_protocol: bool,
    /// Connections at a time; more wait.
    pub connections: usize,
    /// Connections at a time from one network.
    pub connections_per_network: usize,
    /// Seconds for a request to come in whole, and for a client to take a part of its answer.
    pub timeout_s: u64,
    /// Seconds that an idle connection is kept.
    pub idle_s: u64,
    /// Bytes of a request body.
    pub body_bytes: usize,
    /// Networks that may see the page for operators and the metrics.
    pub operators: Vec<IpNet>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 11371))],
            tls_certificate: None,
            tls_key: None,
            proxy_protocol: false,
            connections: 16_384,
            connections_per_network: 16_384,
            timeout_s: 20,
            idle_s: 60,
            body_bytes: 8 << 20,
            operators: loopback(),
        }
    }
}

fn loopback() -> Vec<IpNet> {
    ["127.0.0.0/8", "::1/128"].map(|net| net.parse().expect("a network")).to_vec()
}

/// Limits for keeping and serving certificates.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Bytes of a certificate that are kept.
    pub cert_bytes: usize,
    /// Bytes of a packet that are kept.
    pub packet_bytes: usize,
    /// Bytes of a user ID that are kept.
    pub user_id_bytes: usize,
    /// User IDs, attributes and subkeys of a certificate that are kept.
    pub components: usize,
    /// Signatures in the name of a certificate's own key that are kept.
    pub own_signatures: usize,
    /// Of these, the ones kept that are not really its own, for the sake of peers that keep them.
    pub bad_signatures: usize,
    /// Signatures of one other key on one user ID that are kept; as many revocations come on top.
    pub signatures_per_signer: usize,
    /// Signatures of other keys on a certificate that are kept.
    pub foreign_signatures: usize,
    /// Signatures of other keys on a certificate that are given out: the newest.
    pub served_foreign_signatures: usize,
    /// Whether photos (user attributes) are given out.
    pub photos: bool,
    /// Whether key IDs of 32 bits are answered. They are easily forged.
    pub short_key_ids: bool,
    /// Whether certificates are found by words of their user IDs, or by whole addresses only.
    pub word_search: bool,
    /// Certificates in one answer; a search that finds more is refused.
    pub results: usize,
    /// Whether anybody may upload.
    pub uploads: bool,
    /// Whether owners may delete and replace their certificates by signed requests.
    pub owner_requests: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            cert_bytes: 4 << 20,
            packet_bytes: 128 << 10,
            user_id_bytes: 2048,
            components: 1000,
            own_signatures: 2000,
            bad_signatures: 64,
            signatures_per_signer: 8,
            foreign_signatures: 5000,
            served_foreign_signatures: 1000,
            photos: false,
            short_key_ids: false,
            word_search: true,
            results: 500,
            uploads: true,
            owner_requests: true,
        }
    }
}

impl Policy {
    /// The part that is kept.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            cert_bytes: self.cert_bytes,
            packet_bytes: self.packet_bytes,
            user_id_bytes: self.user_id_bytes,
            components: self.components,
            attributes: true,
            own_signatures: self.own_signatures,
            bad_signatures: self.bad_signatures,
            signatures_per_signer: self.signatures_per_signer,
            foreign_signatures: self.foreign_signatures,
        }
    }

    /// The part of a certificate that is served.
    #[must_use]
    pub fn serving(&self) -> Serving {
        Serving { foreign_signatures: self.served_foreign_signatures, attributes: self.photos }
    }
}

/// How much one network may ask: a bucket for each, which fills at a rate up to a burst.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rates {
    /// Exact lookups per second.
    pub lookups: Rate,
    /// Searches per second.
    pub searches: Rate,
    /// Uploads and other requests that write, per second.
    pub uploads: Rate,
    /// Bits of an IPv4 address that make a network.
    pub ipv4_bits: u8,
    /// Bits of an IPv6 address that make a network.
    pub ipv6_bits: u8,
    /// Networks without a limit. A request that came through an onion service counts for the onion
    /// service wherever it is from.
    pub exempt: Vec<IpNet>,
    /// How many networks' worth all that comes through an onion service gets together.
    pub onion_share: u32,
}

/// How a bucket fills.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Requests per second.
    pub per_second: f64,
    /// Requests at once.
    pub burst: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            lookups: Rate { per_second: 100.0, burst: 1000.0 },
            searches: Rate { per_second: 10.0, burst: 100.0 },
            uploads: Rate { per_second: 2.0, burst: 100.0 },
            ipv4_bits: 32,
            ipv6_bits: 56,
            exempt: loopback(),
            onion_share: 50,
        }
    }
}

/// Exchange with other keyservers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gossip {
    /// Addresses to listen on for peers; none: the server does not gossip. To accept connections is
    /// one half, to make them the other: both happen where there is an address.
    pub listen: Vec<SocketAddr>,
    /// Seconds between two exchanges that are started here.
    pub interval_s: f64,
    /// A membership file as SKS has it: a host and a port per line.
    pub membership: Option<PathBuf>,
    /// Further peers; those of `talaria peer add` come on top.
    pub peers: Vec<GossipPeer>,
    /// The port that is announced to peers for fetching; the first one of `http.listen` if missing.
    pub http_port: Option<u16>,
    /// Certificates that are learnt of in one exchange, at most.
    pub differences: usize,
    /// Certificates that are fetched with one request.
    pub fetch_certs: usize,
    /// Bytes that one fetch may bring.
    pub fetch_bytes: usize,
    /// Seconds for a peer to answer.
    pub timeout_s: u64,
    /// Exchanges at a time.
    pub exchanges: usize,
}

impl Default for Gossip {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            interval_s: 60.0,
            membership: None,
            peers: Vec::new(),
            http_port: None,
            differences: 15_000,
            fetch_certs: 100,
            fetch_bytes: 256 << 20,
            timeout_s: 60,
            exchanges: 4,
        }
    }
}

/// A gossip peer in the configuration.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GossipPeer {
    /// Its name or address.
    pub host: String,
    /// The port of its gossip.
    #[serde(default = "recon_port")]
    pub port: u16,
    /// The port of its HKP, if it is another than what it says itself.
    pub http_port: Option<u16>,
    /// The data set that it has: `sks` or `hockeypuck-2.3`.
    #[serde(default = "view_name", deserialize_with = "known_view")]
    pub view: String,
}

fn recon_port() -> u16 {
    11370
}

fn view_name() -> String {
    View::Sks.name().into()
}

/// Refuses the name of no view where the file can be named, line and all.
fn known_view<'de, D: serde::Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    let name = String::deserialize(value)?;
    match name.parse::<View>() {
        Ok(_) => Ok(name),
        Err(error) => Err(serde::de::Error::custom(error)),
    }
}

/// Passing on what is uploaded here.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Push {
    /// Keyservers that get what is new here, by their HKP address: `http://host:11371` or
    /// `https://host`.
    pub targets: Vec<String>,
}

/// Addresses that their owners confirm by mail, as keys.openpgp.org does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vks {
    /// Whether `/vks/v1` is there.
    pub enabled: bool,
    /// Whether HKP, too, gives out only user IDs that were confirmed.
    pub only_confirmed: bool,
    /// The URL at which people reach the server, for links in mails.
    pub base_url: String,
    /// The mail server, `host:port`.
    pub smtp: String,
    /// `none`, `starttls` or `tls`.
    pub smtp_security: String,
    /// The user for it, if it wants one.
    pub smtp_user: String,
    /// A file with the password.
    pub smtp_password_file: Option<PathBuf>,
    /// The address that mails come from.
    pub from: String,
    /// Seconds for which a link in a mail holds.
    pub token_s: u64,
}

impl Default for Vks {
    fn default() -> Self {
        Self {
            enabled: false,
            only_confirmed: false,
            base_url: "http://localhost:11371".into(),
            smtp: "localhost:25".into(),
            smtp_security: "none".into(),
            smtp_user: String::new(),
            smtp_password_file: None,
            from: "keyserver@localhost".into(),
            token_s: 24 * 3600,
        }
    }
}

/// Web key directories that are served.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wkd {
    /// The domains whose addresses are found here.
    pub domains: Vec<String>,
}

/// The log, on standard error.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `text` or `json`, one object per line.
    pub format: String,
    /// `error`, `warn`, `info`, `debug` or `trace`, or a filter by module.
    pub level: String,
    /// Whether each request gets a line.
    pub requests: bool,
    /// Whether addresses of clients are in it.
    pub addresses: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: "text".into(), level: "info".into(), requests: false, addresses: false }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// It is no TOML, or has a key that is not known.
    #[error("{}: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The fault and its place.
        source: Box<toml::de::Error>,
    },
    /// A value that cannot be.
    #[error("{key}: {what}")]
    Value {
        /// The setting.
        key: &'static str,
        /// The fault.
        what: String,
    },
    /// A value that cannot be, in a file.
    #[error("{}, line {line}: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The setting, and what is wrong with it.
        source: Box<ConfigError>,
    },
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with the place of what is wrong.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
        let config: Self = toml::from_str(&text).map_err(|source| ConfigError::Syntax {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        config.validate().map_err(|error| match error {
            ConfigError::Value { key, .. } => ConfigError::Line {
                path: path.to_owned(),
                line: line_of(&text, key),
                source: Box::new(error),
            },
            other => other,
        })?;
        Ok(config)
    }

    /// The settings as a file has them.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("settings can be written")
    }

    /// Looks at values that the types cannot rule out.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Value`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        let value = |key, what: &str| Err(ConfigError::Value { key, what: what.to_owned() });
        if self.http.tls_certificate.is_some() != self.http.tls_key.is_some() {
            return value("http.tls_key", "a certificate and a key go together");
        }
        if self.policy.results == 0 {
            return value("policy.results", "it must be at least 1");
        }
        if self.gossip.interval_s.is_nan() || self.gossip.interval_s < 0.1 {
            return value("gossip.interval_s", "it must be at least 0.1");
        }
        for (key, rate) in [
            ("rates.lookups", self.rates.lookups),
            ("rates.searches", self.rates.searches),
            ("rates.uploads", self.rates.uploads),
        ] {
            let fills = rate.per_second > 0.0 && rate.burst >= 1.0;
            if !fills {
                return value(key, "per_second must be above 0, burst at least 1");
            }
        }
        if self.rates.ipv4_bits > 32 || self.rates.ipv6_bits > 128 {
            return value("rates.ipv4_bits", "addresses have 32 and 128 bits");
        }
        for peer in &self.gossip.peers {
            if let Err(error) = peer.view.parse::<View>() {
                return Err(ConfigError::Value {
                    key: "gossip.peers.view",
                    what: error.to_string(),
                });
            }
        }
        if !matches!(self.vks.smtp_security.as_str(), "none" | "starttls" | "tls") {
            return value("vks.smtp_security", "it is one of none, starttls and tls");
        }
        if !matches!(self.log.format.as_str(), "text" | "json") {
            return value("log.format", "it is text or json");
        }
        Ok(())
    }
}

/// The line, from 1, in which a configuration sets a key, or starts the table that it is in; 1 if none
/// does.
fn line_of(text: &str, key: &str) -> usize {
    let mut table = "";
    let mut near = 1;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let named = if line.starts_with('[') {
            table = line.trim_start_matches('[').split(']').next().unwrap_or_default();
            table.to_owned()
        } else {
            let name = line.split('=').next().unwrap_or_default().trim();
            if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
        };
        let is_in = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
        };
        if named == key || is_in(key, &named) {
            return number;
        }
        if is_in(&named, key) {
            near = number;
        }
    }
    near
}
