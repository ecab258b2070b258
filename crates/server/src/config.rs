//! The settings of a server: one TOML file, of which every part may be missing.
//!
//! The defaults are in the types that read them; `docs/server.toml` shows all of them and a test
//! holds that file against this one.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::Uri;
use ipnet::IpNet;
use lettre::message::Mailbox;
use serde::{Deserialize, Serialize};
use talaria_cert::address::compared_domain;
use talaria_cert::{Address, Limits, Serving, ThirdParty, View};

use crate::engine::LINK_SECONDS_MAX;

/// The settings in force. A reload replaces them as a whole.
pub(crate) type Settings = Arc<ArcSwap<Config>>;

/// All settings.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The operator of the server.
    pub server: Identity,
    /// Addresses, TLS and limits of connections.
    pub http: Http,
    /// Limits for keeping and serving certificates.
    pub policy: Policy,
    /// Rate limits per network.
    pub rates: Rates,
    /// Exchange with other keyservers.
    pub gossip: Gossip,
    /// Pushing uploads to other keyservers.
    pub push: Push,
    /// Confirmation of addresses by mail.
    pub vks: Vks,
    /// Web key directories that are served.
    pub wkd: Wkd,
    /// The log.
    pub log: Log,
    /// The option `--third-party` of `talaria serve`: it overrides the file, also when the file is
    /// read again.
    #[serde(skip)]
    pub third_party: Option<ThirdParty>,
}

/// The operator of the server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// The public host name of the server.
    pub hostname: String,
    /// The contact of the operator, shown on the pages: an address or a URL.
    pub contact: String,
    /// The fingerprint of the operator's certificate, shown in the statistics.
    pub operator: String,
    /// The text of the page `/imprint`, plain text in paragraphs. If it is empty, there is no such
    /// page.
    pub imprint: String,
    /// The text of the page `/privacy`, in the same way.
    pub privacy: String,
    /// A picture beside the name of the server on all pages: a file in PNG, JPEG or WebP.
    pub logo: Option<PathBuf>,
    /// The colour of links and buttons, `#rrggbb`.
    pub colour: String,
    /// The picture in [`Self::logo`], read with the settings.
    #[serde(skip)]
    pub picture: Option<Picture>,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            hostname: "localhost".into(),
            contact: String::new(),
            operator: String::new(),
            imprint: String::new(),
            privacy: String::new(),
            logo: None,
            colour: String::new(),
            picture: None,
        }
    }
}

/// Bytes of a text or a picture of the operator on the pages.
const OPERATOR_BYTES_MAX: usize = 256 << 10;

impl Identity {
    fn validate(&self) -> Result<(), ConfigError> {
        if !is_host(&self.hostname) && host_and_port(&self.hostname).is_none() {
            return invalid(
                "server.hostname",
                format!("{:?} is not a host name such as keys.example.org", self.hostname),
            );
        }
        for (key, text) in [("server.imprint", &self.imprint), ("server.privacy", &self.privacy)] {
            let is_plain = text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'));
            if text.len() > OPERATOR_BYTES_MAX || !is_plain {
                return invalid(
                    key,
                    "it must be a text of at most 256 KiB without control characters",
                );
            }
        }
        let digits = self.colour.strip_prefix('#').unwrap_or_default();
        let is_colour = digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        if !self.colour.is_empty() && !is_colour {
            return invalid("server.colour", format!("{:?} is not like #1d4ed8", self.colour));
        }
        Ok(())
    }
}

/// A picture of the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    pub(crate) media: &'static str,
    pub(crate) bytes: Bytes,
}

impl Picture {
    /// Reads a picture, of a kind that has no script.
    fn read(path: &Path) -> Result<Self, ConfigError> {
        const KEY: &str = "server.logo";
        let bytes = std::fs::read(path).map_err(|source| ConfigError::File {
            key: KEY,
            path: path.to_owned(),
            source,
        })?;
        let media = match bytes.as_slice() {
            [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
            [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
            _ => None,
        };
        let media = media.filter(|_| bytes.len() <= OPERATOR_BYTES_MAX);
        let what = || {
            format!("{} is not a picture in PNG, JPEG or WebP of at most 256 KiB", path.display())
        };
        let media = media.ok_or_else(|| ConfigError::Value { key: KEY, what: what() })?;
        Ok(Self { media, bytes: bytes.into() })
    }
}

/// Addresses, TLS and limits of connections.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Addresses for an onion service. Its clients share one rate limit and are never operators.
    pub onion_listen: Vec<SocketAddr>,
    /// Addresses for operators: `/metrics` and `/operator` are answered there only, without TLS.
    pub operator_listen: Vec<SocketAddr>,
    /// A file with a token. With it (`Authorization: Bearer`), these are answered on all addresses.
    pub operator_token_file: Option<PathBuf>,
    /// Proxies that put the address of the client last into `X-Forwarded-For`. They may have any
    /// number of connections.
    pub proxies: Vec<IpNet>,
    /// The certificate chain for TLS, in PEM. If it is set, all addresses use TLS.
    pub tls_certificate: Option<PathBuf>,
    /// The key for TLS, in PEM.
    pub tls_key: Option<PathBuf>,
    /// Require a PROXY protocol header (version 1 or 2) at the start of each connection.
    pub proxy_protocol: bool,
    /// Maximum number of open connections to all addresses of a kind. If all are taken, the longest
    /// idle one of the network that has most is ended.
    pub connections: usize,
    /// Maximum number of open connections from one network, to all addresses of a kind. A /48 of
    /// IPv6 may have four times as many.
    pub connections_per_network: usize,
    /// Seconds within which the head of a request must arrive once it has begun, and then its body.
    pub timeout_s: u64,
    /// Seconds after which an idle connection is closed. What is to be sent to a client must be
    /// read within this time, and a second for each 4,096 bytes.
    pub idle_s: u64,
    /// Maximum size of a request body in bytes.
    pub body_bytes: usize,
    /// Maximum memory of all requests that are being read or answered, in bytes. One network gets a
    /// quarter.
    pub requests_bytes: usize,
    /// Maximum memory of all answers that are not yet sent, in bytes; a third of it is for answers
    /// up to 64 KiB. One network gets a quarter of each, or all that is free for a single answer.
    pub answers_bytes: usize,
    /// Seconds for which clients are to use TLS only (`Strict-Transport-Security`), where TLS is
    /// on. 0: not said.
    pub hsts_s: u64,
    /// Networks that are operators on the addresses of `operator_listen`.
    pub operators: Vec<IpNet>,
    /// Networks whose requests are refused, except on the addresses of `operator_listen`.
    pub banned: Vec<IpNet>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 11371))],
            onion_listen: Vec::new(),
            operator_listen: Vec::new(),
            operator_token_file: None,
            proxies: Vec::new(),
            tls_certificate: None,
            tls_key: None,
            proxy_protocol: false,
            connections: 16_384,
            connections_per_network: 256,
            timeout_s: 20,
            idle_s: 60,
            body_bytes: 8 << 20,
            requests_bytes: 36 << 20,
            answers_bytes: 64 << 20,
            hsts_s: 31_536_000,
            operators: loopback(),
            banned: Vec::new(),
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
    /// Maximum size of a stored packet in bytes.
    pub packet_bytes: usize,
    /// Maximum size of a stored user ID in bytes.
    pub user_id_bytes: usize,
    /// Maximum number of stored user IDs, attributes and subkeys of a certificate that its owner
    /// has not bound.
    pub components: usize,
    /// Maximum number of signatures of a certificate that an upload may bring it to before any is
    /// dropped. Above it, only signatures in the name of the owner are looked at.
    pub signatures: usize,
    /// Maximum number of stored packets of one signature, which differ only in parts that are not
    /// signed.
    pub variants: usize,
    /// Maximum number of stored signatures that the certificate's own key made.
    pub own_signatures: usize,
    /// Maximum number of stored signatures in its name that it did not make. They are stored only
    /// because some gossip peers store them.
    pub bad_signatures: usize,
    /// Maximum number of stored certifications by one known key on one user ID, and the same number
    /// of revocations.
    pub signatures_per_signer: usize,
    /// Maximum number of stored signatures by other keys on a certificate.
    pub foreign_signatures: usize,
    /// Maximum number of served signatures by other keys on a certificate: those of known keys
    /// first.
    pub served_foreign_signatures: usize,
    /// The served signatures by other keys: `verified` by a key on this server, or `all`.
    /// Revocations by revokers whom the owner named are served in any case.
    #[serde(with = "third_party")]
    pub third_party: ThirdParty,
    /// Serve photos (user attributes).
    pub photos: bool,
    /// Answer searches by short key IDs (32 bits), which are easily forged.
    pub short_key_ids: bool,
    /// Find certificates by words of their user IDs. If false, only by whole addresses.
    pub word_search: bool,
    /// Maximum number of certificates in an answer. A search with more matches gets the first ones,
    /// and is told so.
    pub results: usize,
    /// CPU time that one upload may cost, in milliseconds, by a model that counts its signatures
    /// before any is verified.
    pub upload_cpu_ms: u64,
    /// Accept uploads from anybody.
    pub uploads: bool,
    /// Accept from clients only certificates with an address at one of these domains, and new parts
    /// of certificates that are here. If empty, all certificates are accepted.
    pub upload_domains: Vec<String>,
    /// Let owners delete and replace their certificates with signed requests.
    pub owner_requests: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            packet_bytes: 128 << 10,
            user_id_bytes: 2048,
            components: 64,
            signatures: 1 << 16,
            variants: 4,
            own_signatures: 2000,
            bad_signatures: 64,
            signatures_per_signer: 8,
            foreign_signatures: 5000,
            served_foreign_signatures: 1000,
            third_party: ThirdParty::Verified,
            photos: false,
            short_key_ids: false,
            word_search: true,
            results: 500,
            upload_cpu_ms: 10_000,
            uploads: true,
            upload_domains: Vec::new(),
            owner_requests: true,
        }
    }
}

/// Bytes of a signature that its maker has not signed, such as issuers, beyond which it is not kept
/// if the owner of the certificate did not make it.
const HINT_BYTES: usize = 1 << 10;

impl Policy {
    /// The limits for the stored part of a certificate.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            packet_bytes: self.packet_bytes,
            user_id_bytes: self.user_id_bytes,
            components: self.components,
            signatures: self.signatures,
            variants: self.variants,
            hint_bytes: HINT_BYTES,
            attributes: true,
            own_signatures: self.own_signatures,
            bad_signatures: self.bad_signatures,
            signatures_per_signer: self.signatures_per_signer,
            foreign_signatures: self.foreign_signatures,
            foreign_unranked: self.served_foreign_signatures,
        }
    }

    /// Bytes of the largest certificate that is served: the signatures of its owner, as many bytes
    /// of components, because the size of a component counts for its signatures, and the signatures
    /// of others.
    fn largest_served(&self) -> usize {
        let of = |limit| Limits::largest(limit, self.packet_bytes);
        of(self.own_signatures)
            .saturating_mul(2)
            .saturating_add(of(self.served_foreign_signatures))
            .saturating_add(self.packet_bytes)
    }

    /// CPU time that one upload may cost.
    pub(crate) fn upload_cpu(&self) -> Duration {
        Duration::from_millis(self.upload_cpu_ms)
    }

    /// Whether uploads with this address are accepted, if uploads are limited to domains.
    pub(crate) fn is_upload_domain(&self, email: &Address) -> bool {
        self.upload_domains
            .iter()
            .any(|domain| email.domain() == compared_domain(domain).as_bytes())
    }

    /// The selection of the served part of a certificate.
    #[must_use]
    pub fn serving(&self) -> Serving {
        Serving {
            third_party: self.third_party,
            foreign_signatures: self.served_foreign_signatures,
            attributes: self.photos,
        }
    }
}

/// The name of a [`ThirdParty`] in a file. An unknown name is refused while parsing, so that the
/// error has the line number.
mod third_party {
    use serde::{Deserialize as _, Deserializer, Serializer, de};
    use talaria_cert::ThirdParty;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(super) fn serialize<S: Serializer>(
        chosen: &ThirdParty,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(chosen.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(value: D) -> Result<ThirdParty, D::Error> {
        String::deserialize(value)?.parse().map_err(de::Error::custom)
    }
}

/// Rate limits per network (token bucket: a rate and a burst).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rates {
    /// Exact lookups per second.
    pub lookups: Rate,
    /// Searches per second.
    pub searches: Rate,
    /// Uploads and other requests that write, per second.
    pub uploads: Rate,
    /// Prefix length that defines an IPv4 network, in bits.
    pub ipv4_bits: u8,
    /// Prefix length that defines an IPv6 network, in bits.
    pub ipv6_bits: u8,
    /// Networks without a rate limit. Requests through an onion service always count for the onion
    /// service.
    pub exempt: Vec<IpNet>,
    /// Rate limit for all requests through an onion service together, as a multiple of that for one
    /// network.
    pub onion_share: u32,
}

/// The rate and the burst of a token bucket.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Requests per second.
    pub per_second: f64,
    /// Maximum number of requests at once.
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
    /// Addresses to listen on for gossip peers. If empty, the server does not gossip: it neither
    /// accepts connections of peers nor connects to them.
    pub listen: Vec<SocketAddr>,
    /// Seconds between two exchanges started by this server.
    pub interval_s: f64,
    /// A membership file in SKS's format: a host and a port per line.
    pub membership: Option<PathBuf>,
    /// Further peers, besides those added with `talaria peer add`.
    pub peers: Vec<GossipPeer>,
    /// The HTTP port announced to peers; by default that of the first address in `http.listen`.
    pub http_port: Option<u16>,
    /// Maximum number of missing certificates found in one exchange.
    pub differences: usize,
    /// Maximum number of certificates per fetch request.
    pub fetch_certs: usize,
    /// Maximum size of the answer to a fetch request in bytes. Four times as much is for all peers
    /// together.
    pub fetch_bytes: usize,
    /// Seconds within which a peer must answer.
    pub timeout_s: u64,
    /// Maximum number of concurrent exchanges that are started from one address of a peer.
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
            fetch_bytes: 64 << 20,
            timeout_s: 60,
            exchanges: 4,
        }
    }
}

/// A gossip peer in the configuration.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GossipPeer {
    /// The host name or address of the peer, without a port.
    #[serde(deserialize_with = "known_host")]
    pub host: String,
    /// The gossip port of the peer.
    #[serde(default = "recon_port")]
    pub port: u16,
    /// The HKP port of the peer; by default the port that the peer announces.
    pub http_port: Option<u16>,
    /// The data set (view) of the peer: `sks`, `hockeypuck-2.1`, `hockeypuck-2.3` or
    /// `hockeypuck-2.4`.
    #[serde(default = "view_name", deserialize_with = "known_view")]
    pub view: String,
    /// The filters to announce instead of those of the view, for a peer whose software has the same
    /// rules under another list of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<String>,
}

fn recon_port() -> u16 {
    11370
}

fn view_name() -> String {
    View::Sks.name().into()
}

/// Refuses hosts with a port while parsing, so that the error has the line number.
fn known_host<'de, D: serde::Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    let host = String::deserialize(value)?;
    if is_host(&host) { Ok(host) } else { Err(serde::de::Error::custom(not_a_host(&host))) }
}

/// Refuses unknown names of views while parsing, so that the error has the line number.
fn known_view<'de, D: serde::Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    let name = String::deserialize(value)?;
    match name.parse::<View>() {
        Ok(_) => Ok(name),
        Err(error) => Err(serde::de::Error::custom(error)),
    }
}

/// Pushing uploads to other keyservers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Push {
    /// Keyservers to which uploads are pushed, by HKP address: `http://host:11371` or
    /// `https://host`.
    pub targets: Vec<String>,
}

/// Confirmation of addresses by mail, as on keys.openpgp.org.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vks {
    /// Serve `/vks/v1`.
    pub enabled: bool,
    /// Serve only confirmed user IDs over HKP, too.
    pub only_confirmed: bool,
    /// The public URL of the server, for links in mails.
    pub base_url: String,
    /// The mail server, `host:port`.
    pub smtp: String,
    /// Encryption of the connection to the mail server: `none`, `starttls` or `tls`.
    pub smtp_security: String,
    /// The user name for the mail server, if it requires one.
    pub smtp_user: String,
    /// A file with the password for the mail server.
    pub smtp_password_file: Option<PathBuf>,
    /// The sender address of mails.
    pub from: String,
    /// Seconds for which a link in a mail is valid.
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
    /// The domains whose web key directories are served from the store.
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
    /// Log each request.
    pub requests: bool,
    /// Log the addresses of clients.
    pub addresses: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: "text".into(), level: "info".into(), requests: false, addresses: false }
    }
}

/// A configuration error.
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
    /// A file that a setting names cannot be read.
    #[error("{key}: cannot read {}", path.display())]
    File {
        /// The setting.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is not TOML, or has an unknown setting.
    #[error("{}, line {line}: {what}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault.
        what: String,
    },
    /// The value of a setting is invalid.
    #[error("{key}: {what}")]
    Value {
        /// The setting.
        key: &'static str,
        /// The fault.
        what: String,
    },
    /// The value of a setting in a file is invalid.
    #[error("{}, line {line}: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The setting and the fault.
        source: Box<ConfigError>,
    },
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with the place of the fault.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
        let mut config: Self = toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let at = before.matches('\n').count();
            let line = text.lines().nth(at).unwrap_or_default().trim();
            ConfigError::Syntax {
                path: path.to_owned(),
                line: at + 1,
                what: format!("{} in `{line}`", error.message()),
            }
        })?;
        config.read_picture().and_then(|()| config.validate()).map_err(|error| match error {
            ConfigError::Value { key, .. } => ConfigError::Line {
                path: path.to_owned(),
                line: line_of(&text, key),
                source: Box::new(error),
            },
            other => other,
        })?;
        Ok(config)
    }

    /// Reads the picture of the operator. [`Self::read`] does so, too.
    ///
    /// # Errors
    ///
    /// [`ConfigError::File`] and [`ConfigError::Value`].
    pub fn read_picture(&mut self) -> Result<(), ConfigError> {
        self.server.picture = self.server.logo.as_deref().map(Picture::read).transpose()?;
        Ok(())
    }

    /// The settings that differ from those of `at_start`, and that change only at a restart.
    pub(crate) fn fixed_changes(&self, at_start: &Self) -> Vec<&'static str> {
        let (now, then) = (&self.http, &at_start.http);
        let all = [
            ("http.listen", now.listen != then.listen),
            ("http.onion_listen", now.onion_listen != then.onion_listen),
            ("http.operator_listen", now.operator_listen != then.operator_listen),
            ("http.tls_certificate", now.tls_certificate != then.tls_certificate),
            ("http.tls_key", now.tls_key != then.tls_key),
            ("http.connections", now.connections != then.connections),
            ("gossip.listen", self.gossip.listen != at_start.gossip.listen),
            ("log.level", self.log.level != at_start.log.level),
            ("log.format", self.log.format != at_start.log.format),
        ];
        all.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }

    /// Chooses the served signatures by other keys, whatever the file says.
    pub fn set_third_party(&mut self, chosen: ThirdParty) {
        self.policy.third_party = chosen;
        self.third_party = Some(chosen);
    }

    /// The settings as a file has them.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("settings can be written")
    }

    /// Checks the values for faults that the types do not exclude.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Value`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.server.validate()?;
        self.http.validate()?;
        if self.http.answers_bytes / 4 < self.policy.largest_served() {
            return invalid(
                "http.answers_bytes",
                "a quarter of it must hold the largest certificate that the limits in [policy] admit",
            );
        }
        self.policy.validate()?;
        self.rates.validate()?;
        self.gossip.validate()?;
        if let Some(target) = self.push.targets.iter().find(|target| !is_web_address(target)) {
            return invalid("push.targets", not_a_web_address(target));
        }
        self.vks.validate()?;
        if let Some(domain) = self.wkd.domains.iter().find(|domain| !is_domain(domain)) {
            return invalid("wkd.domains", not_a_domain(domain));
        }
        self.log.validate()
    }

    /// Reads the files that the server reads only when it needs them: the token of operators, the
    /// membership file and the password for the mail server. The files for TLS are read at the
    /// start in any case.
    ///
    /// # Errors
    ///
    /// [`ConfigError::File`], or [`ConfigError::Value`] if the token is empty.
    pub fn check_files(&self) -> Result<(), ConfigError> {
        let read = |key, path: &Path| {
            std::fs::read_to_string(path).map_err(|source| ConfigError::File {
                key,
                path: path.to_owned(),
                source,
            })
        };
        if let Some(path) = &self.http.operator_token_file {
            let key = "http.operator_token_file";
            if read(key, path)?.trim().is_empty() {
                return invalid(key, format!("{} is empty", path.display()));
            }
        }
        if let Some(path) = &self.gossip.membership {
            read("gossip.membership", path)?;
        }
        if let Some(path) = &self.vks.smtp_password_file
            && self.vks.enabled
            && !self.vks.smtp_user.is_empty()
        {
            read("vks.smtp_password_file", path)?;
        }
        Ok(())
    }
}

fn invalid(key: &'static str, what: impl Into<String>) -> Result<(), ConfigError> {
    Err(ConfigError::Value { key, what: what.into() })
}

/// Refuses a value below `least`.
fn at_least<T: Copy + PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: T,
    least: T,
) -> Result<(), ConfigError> {
    if value < least { invalid(key, format!("it must be at least {least}")) } else { Ok(()) }
}

/// The least `http.body_bytes`: the smallest certificates, in armor, are not longer.
const BODY_BYTES_MIN: usize = 1024;

impl Http {
    /// Whether requests from an address are refused.
    pub(crate) fn bans(&self, client: IpAddr) -> bool {
        self.banned.iter().any(|net| net.contains(&client.to_canonical()))
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if self.listen.is_empty() && self.onion_listen.is_empty() {
            return invalid("http.listen", "name at least one address, such as 127.0.0.1:11371");
        }
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            return invalid("http.tls_key", "set both http.tls_certificate and http.tls_key");
        }
        at_least("http.connections", self.connections, 1)?;
        at_least("http.connections_per_network", self.connections_per_network, 1)?;
        at_least("http.timeout_s", self.timeout_s, 1)?;
        at_least("http.idle_s", self.idle_s, 1)?;
        at_least("http.body_bytes", self.body_bytes, BODY_BYTES_MIN)?;
        if self.requests_bytes / 4 < self.body_bytes.saturating_add(64 << 10) {
            return invalid(
                "http.requests_bytes",
                "a quarter of it must hold a request of http.body_bytes and 65,536 bytes more",
            );
        }
        Ok(())
    }
}

impl Policy {
    fn validate(&self) -> Result<(), ConfigError> {
        at_least("policy.results", self.results, 1)?;
        at_least("policy.upload_cpu_ms", self.upload_cpu_ms, 1000)?;
        match self.upload_domains.iter().find(|domain| !is_domain(domain)) {
            Some(domain) => invalid("policy.upload_domains", not_a_domain(domain)),
            None => Ok(()),
        }
    }
}

impl Rates {
    fn validate(&self) -> Result<(), ConfigError> {
        for (key, rate) in [
            ("rates.lookups", self.lookups),
            ("rates.searches", self.searches),
            ("rates.uploads", self.uploads),
        ] {
            let fills = rate.per_second > 0.0 && rate.burst >= 1.0;
            if !fills {
                return invalid(key, "per_second must be above 0, burst at least 1");
            }
        }
        if self.ipv4_bits > 32 || self.ipv6_bits > 128 {
            return invalid(
                "rates.ipv4_bits",
                "a prefix has at most 32 bits for IPv4 and 128 bits for IPv6",
            );
        }
        Ok(())
    }
}

impl Gossip {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.interval_s.is_nan() || self.interval_s < 0.1 {
            return invalid("gossip.interval_s", "it must be at least 0.1");
        }
        at_least("gossip.timeout_s", self.timeout_s, 1)?;
        for peer in &self.peers {
            if !is_host(&peer.host) {
                return invalid("gossip.peers.host", not_a_host(&peer.host));
            }
            if let Err(error) = peer.view.parse::<View>() {
                return invalid("gossip.peers.view", error.to_string());
            }
        }
        Ok(())
    }
}

impl Vks {
    fn validate(&self) -> Result<(), ConfigError> {
        if !is_web_address(&self.base_url) {
            return invalid("vks.base_url", not_a_web_address(&self.base_url));
        }
        let link_seconds = 60..=u64::from(LINK_SECONDS_MAX);
        if !link_seconds.contains(&self.token_s) {
            return invalid("vks.token_s", "it must be 60 to 2,592,000 (30 days)");
        }
        if !matches!(self.smtp_security.as_str(), "none" | "starttls" | "tls") {
            return invalid("vks.smtp_security", "it must be one of none, starttls and tls");
        }
        if self.enabled && host_and_port(&self.smtp).is_none() {
            return invalid(
                "vks.smtp",
                format!("{:?} is not host:port, such as mail.example.org:25", self.smtp),
            );
        }
        if self.enabled && self.from.parse::<Mailbox>().is_err() {
            return invalid(
                "vks.from",
                format!(
                    "{:?} is not a mail address, such as keys@example.org or Keys <keys@example.org>",
                    self.from
                ),
            );
        }
        Ok(())
    }
}

impl Log {
    fn validate(&self) -> Result<(), ConfigError> {
        if !self.level.split(',').all(names_a_level) {
            return invalid(
                "log.level",
                "it must be error, warn, info, debug or trace, or a filter such as info,talaria_server::gossip=debug",
            );
        }
        if !matches!(self.format.as_str(), "text" | "json") {
            return invalid("log.format", "it must be text or json");
        }
        Ok(())
    }
}

/// Whether the text is a domain as in a mail address.
fn is_domain(text: &str) -> bool {
    let address = Address::of_user_id(format!("a@{text}").as_bytes());
    !text.starts_with('.')
        && address.is_some_and(|address| address.domain() == compared_domain(text).as_bytes())
}

fn not_a_domain(text: &str) -> String {
    format!("{text:?} is not a domain such as example.org")
}

/// Whether the text is a host name, or an IP address without brackets; neither has a port.
fn is_host(text: &str) -> bool {
    let is_foreign = |c: char| c.is_whitespace() || c.is_control() || ":/@[]?#".contains(c);
    text.parse::<IpAddr>().is_ok() || !text.is_empty() && !text.contains(is_foreign)
}

fn not_a_host(text: &str) -> String {
    format!(
        "{text:?} is not a host name or an IP address; the port is a setting of its own, `port`"
    )
}

/// The host and the port of `host:port`. An IPv6 address may have brackets.
pub(crate) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port > 0)?;
    is_host(bare).then_some((bare, port))
}

/// Whether the text is a URL of a web server, with a host and perhaps a port.
fn is_web_address(text: &str) -> bool {
    let Ok(url) = text.parse::<Uri>() else { return false };
    let Some(authority) = url.authority() else { return false };
    let server = authority.as_str().rsplit('@').next().unwrap_or_default();
    let port = server.strip_prefix(authority.host()).unwrap_or_default();
    matches!(url.scheme_str(), Some("http" | "https"))
        && !authority.host().is_empty()
        && (port.is_empty() || authority.port_u16().is_some_and(|port| port > 0))
}

fn not_a_web_address(text: &str) -> String {
    format!(
        "{text:?} is not a URL such as https://keys.example.org or http://keys.example.org:11371"
    )
}

/// Whether a part of a filter of the log ends with a level. The library takes any other word for a
/// module, and logs nothing of the rest.
fn names_a_level(directive: &str) -> bool {
    let level = directive.rsplit('=').next().unwrap_or_default().trim();
    ["off", "error", "warn", "info", "debug", "trace"]
        .iter()
        .any(|name| level.eq_ignore_ascii_case(name))
}

/// The line, from 1, in which a configuration sets a key, or else the line that starts its table,
/// or else 1.
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
