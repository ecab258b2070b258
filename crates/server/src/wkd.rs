//! Web key directories (draft-koch-openpgp-webkey-service) of the domains in the settings, both
//! with the domain in the path (advanced) and with the one that was asked for (direct).
//!
//! An answer has only user IDs with the address that was asked for. If vks is enabled and the owner
//! of an address has confirmed it, only that certificate is given out: a client takes any that it
//! gets.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use http::{Method, header};
use parking_lot::{Mutex, RwLock};
use percent_encoding::percent_decode_str;
use talaria_cert::address::{compared_domain, unicode_domain};
use talaria_cert::{Address, Cert, Summary, Tag, UserIdContent, Validity, user_id};

use crate::addresses;
use crate::answer::{Answer, Refusal, media, ok, open_to_all, options, with};
use crate::clock;
use crate::config::{Config, Settings};
use crate::engine::{Bounds, Changed, Engine, EngineError, Position, Query, Reading, Row};
use crate::request::Request;
use crate::search;

/// The path under which all directories are.
pub(crate) const ROOT: &str = "/.well-known/openpgpkey/";

/// Valid certificates in one answer, and others beside them: the first on this server. Anybody may
/// put the address into a certificate, so later ones displace none.
const CERTS_MAX: usize = 5;

/// Bytes of an answer with several certificates. GnuPG takes nothing of a longer one.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Certificates with an address that are looked at.
const LOOKS_MAX: usize = 200;

/// Addresses of a domain that are known by their hash.
const ADDRESSES_MAX: usize = 200_000;

/// Changes that are followed one by one; after more, the addresses are looked up again.
const CHANGES_MAX: usize = 10_000;

/// The object that is requested from a directory.
#[derive(Debug, Eq, PartialEq)]
enum Asked<'a> {
    Key { domain: &'a str, hash: &'a str },
    Policy { domain: &'a str },
}

impl<'a> Asked<'a> {
    /// Reads a path behind [`ROOT`]. Without a domain in it, it is that of `host`.
    fn parse(path: &'a str, host: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        Some(match parts[..] {
            ["hu", hash] => Self::Key { domain: host, hash },
            ["policy"] => Self::Policy { domain: host },
            [domain, "hu", hash] => Self::Key { domain, hash },
            [domain, "policy"] => Self::Policy { domain },
            _ => return None,
        })
    }

    fn domain(&self) -> &'a str {
        match self {
            Self::Key { domain, .. } | Self::Policy { domain } => domain,
        }
    }
}

/// Answers for the web key directories.
pub(crate) struct WebKeys {
    settings: Settings,
    engine: Engine,
    directories: Arc<Directories>,
}

impl WebKeys {
    pub(crate) fn new(settings: Settings, engine: Engine) -> Self {
        Self { settings, engine, directories: Arc::default() }
    }

    /// Answers everything below [`ROOT`].
    pub(crate) async fn handle(&self, request: &Request) -> Result<Answer, Refusal> {
        const ALLOW: &str = "GET, HEAD, OPTIONS";
        match *request.method() {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return Ok(open_to_all(options(ALLOW))),
            _ => {
                return Err(Refusal::Method { method: request.method().to_string(), allow: ALLOW });
            }
        }
        let nothing = || Refusal::NotFound("there is nothing at this path".into());
        let config = self.settings.load_full();
        let host = request.host().unwrap_or_default();
        let host = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let path = request.path().strip_prefix(ROOT).unwrap_or_default();
        let asked = Asked::parse(path, host).ok_or_else(nothing)?;
        let domain = compared_domain(asked.domain());
        let hosted = |hosted: &String| compared_domain(hosted) == domain;
        if !config.wkd.domains.iter().any(hosted) {
            return Err(nothing());
        }
        match asked {
            // All of its flags are off.
            Asked::Policy { .. } => Ok(open_to_all(ok(media::TEXT, ""))),
            Asked::Key { hash, .. } => {
                let hash = hash.to_ascii_lowercase();
                let local = local_part(request.parts.uri.query().unwrap_or_default());
                search::bounded(local.as_deref().unwrap_or_default())?;
                let network = config.rates.limited(request);
                let directories = Arc::clone(&self.directories);
                let read = async move |store: &mut Reading| {
                    let address = match local {
                        Some(local) if user_id::web_key_hash(&local) != hash => None,
                        Some(local) => Address::of_mailbox(format!("{local}@{domain}").as_bytes()),
                        None => directories.of(&domain).address(store, &domain, &hash).await?,
                    };
                    find(store, &address.ok_or_else(nothing)?, &config).await
                };
                self.engine.read_for(network, read).await
            }
        }
    }
}

/// The parameter `l`. A plus sign in it is one, and no blank: addresses have these, and not all
/// clients encode them.
fn local_part(query: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("l="))?;
    Some(percent_decode_str(value).decode_utf8().ok()?.into_owned())
}

/// The certificates of an address, cut down to it.
async fn find(store: &mut Reading, address: &Address, config: &Config) -> Result<Answer, Refusal> {
    let now = clock::now();
    let nothing = || Refusal::NotFound(format!("no certificate for {address}"));
    let confirmed =
        if config.vks.enabled { addresses::holder(store, address).await? } else { None };
    let rows = if let Some(row) = confirmed {
        vec![row]
    } else {
        let query = Query::Email(address.clone());
        let bounds = Bounds { results: LOOKS_MAX, looks: LOOKS_MAX };
        let mut rows = store.find(&query, bounds).await?.rows;
        rows.retain(search::is_for_all);
        rows
    };
    let (mut chosen, mut bytes, mut too_long) = (Vec::new(), 0, None);
    let (mut valid, mut others) = (0, 0);
    for row in rows {
        let name = name_validity(&row, address, now);
        let validity = row.summary.state(now).min(name);
        let count = if validity == Validity::Valid { &mut valid } else { &mut others };
        if *count == CERTS_MAX || name == Validity::Invalid {
            continue;
        }
        let Some(cert) = search::served(store, &row, config).await? else { continue };
        let cert = only(&cert, address);
        if cert.user_ids().next().is_none() {
            continue;
        }
        *count += 1;
        let length = cert.as_bytes().len();
        if bytes + length > ANSWER_BYTES_MAX {
            too_long.get_or_insert(cert);
        } else {
            bytes += length;
            chosen.push((validity, cert));
        }
    }
    // The best first.
    chosen.sort_by_key(|(validity, _)| std::cmp::Reverse(*validity));
    let mut bytes: Vec<u8> = chosen.into_iter().flat_map(|(_, cert)| cert.into_bytes()).collect();
    if bytes.is_empty() {
        // GnuPG does not take it, and other programs may.
        bytes = too_long.ok_or_else(nothing)?.into_bytes();
    }
    let answer = with(ok(media::BYTES, bytes), header::CACHE_CONTROL, "no-cache");
    Ok(open_to_all(answer))
}

/// The state of the best user ID with an address.
fn name_validity(row: &Row, address: &Address, now: u32) -> Validity {
    let of_address = row.summary.user_ids.iter().filter(|user_id| match &user_id.content {
        UserIdContent::Text(text) => address.is_of(text),
        UserIdContent::Attribute { .. } => false,
    });
    of_address.map(|user_id| user_id.validity(now)).max().unwrap_or(Validity::Invalid)
}

/// A certificate with only the user IDs that have an address.
fn only(cert: &Cert, address: &Address) -> Cert {
    cert.retain(|_, packet| match packet.tag {
        Tag::USER_ID => address.is_of(packet.body),
        Tag::USER_ATTRIBUTE => false,
        _ => true,
    })
}

/// The addresses of the directories by their hash, for clients that do not say the address. They
/// are looked up when the first such client comes, and follow the change log from then on.
///
/// No request waits for another one: locks are held for moments in memory only.
#[derive(Debug, Default)]
struct Directories(Mutex<HashMap<String, Arc<Addresses>>>);

/// The addresses of one directory.
#[derive(Debug, Default)]
struct Addresses {
    known: RwLock<Option<Directory>>,
    /// Held by the request that brings them up to date.
    update: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Directory {
    addresses: HashMap<String, Address>,
    /// The position up to which they are complete.
    reached: Position,
}

impl Directories {
    /// The addresses of a domain.
    fn of(&self, domain: &str) -> Arc<Addresses> {
        let mut directories = self.0.lock();
        Arc::clone(directories.entry(domain.to_owned()).or_default())
    }
}

impl Addresses {
    /// The address that a hash names. It may be one that is in no certificate any more. While
    /// another request looks addresses up, the newest may be missing.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] while the first request looks all of them up.
    async fn address(
        &self,
        store: &mut Reading,
        domain: &str,
        hash: &str,
    ) -> Result<Option<Address>, Refusal> {
        if let Some(address) = self.known(hash) {
            return Ok(Some(address));
        }
        let Ok(_update) = self.update.try_lock() else {
            return if self.reached().is_some() { Ok(None) } else { Err(Refusal::Busy) };
        };
        let changes = match self.reached() {
            Some(reached) => store.changed(reached, CHANGES_MAX).await?,
            None => None,
        };
        if let Some(Changed { fingerprints, end }) = changes {
            // One after the other: summaries can be large.
            let mut added = HashMap::new();
            for name in fingerprints {
                if let Some(row) = store.row(name).await? {
                    add(&mut added, &row.summary, domain);
                }
            }
            let mut known = self.known.write();
            if let Some(Directory { addresses, reached }) = &mut *known {
                let room = ADDRESSES_MAX.saturating_sub(addresses.len());
                addresses.extend(added.into_iter().take(room));
                *reached = end;
            }
        } else {
            // Without the index, all certificates would have to be looked at.
            let Some(directory) = Directory::build(store, domain).await? else { return Ok(None) };
            *self.known.write() = Some(directory);
        }
        Ok(self.known(hash))
    }

    fn known(&self, hash: &str) -> Option<Address> {
        let known = self.known.read();
        known.as_ref()?.addresses.get(hash).cloned()
    }

    fn reached(&self) -> Option<Position> {
        let known = self.known.read();
        Some(known.as_ref()?.reached)
    }
}

impl Directory {
    /// `None` if the engine would have to look at every certificate.
    async fn build(store: &mut Reading, domain: &str) -> Result<Option<Self>, EngineError> {
        let (mut addresses, mut end) = (HashMap::new(), None);
        // User IDs have the domain in either form.
        for written in std::iter::once(domain.to_owned()).chain(unicode_domain(domain)) {
            let query = Query::EmailEnd(format!("@{written}"));
            let scanned = store.scan(&query, |summary| {
                add(&mut addresses, summary, domain);
                if addresses.len() < ADDRESSES_MAX {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            end = scanned.await?;
        }
        Ok(end.map(|reached| Self { addresses, reached }))
    }
}

/// Adds the addresses of a certificate to those of a directory.
fn add(addresses: &mut HashMap<String, Address>, summary: &Summary, domain: &str) {
    for email in summary.texts().filter_map(Address::of_user_id) {
        if email.domain() == domain.as_bytes() && addresses.len() < ADDRESSES_MAX {
            addresses.insert(user_id::web_key_hash(email.local()), email);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Purpose;

    #[test]
    fn paths_of_both_methods_are_parsed() {
        let host = "example.org";
        let key = |domain| Some(Asked::Key { domain, hash: "abc" });
        assert_eq!(Asked::parse("hu/abc", host), key(host));
        assert_eq!(Asked::parse("example.net/hu/abc", host), key("example.net"));
        assert_eq!(Asked::parse("policy", host), Some(Asked::Policy { domain: host }));
        let advanced = Asked::Policy { domain: "example.net" };
        assert_eq!(Asked::parse("example.net/policy", host), Some(advanced));
        for wrong in ["", "hu", "submission-address", "example.net/submission-address", "a/b/c/d"] {
            assert_eq!(Asked::parse(wrong, host), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn no_request_waits_for_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certs.db");
        let engine = Engine::open(&path, Purpose::Serve, Arc::default()).unwrap().engine;
        let mut store = engine.reading().await.unwrap();
        let addresses = Addresses::default();
        // Somebody looks all addresses up for the first time.
        let update = addresses.update.lock().await;
        let got = addresses.address(&mut store, "example.org", "hash").await;
        assert!(matches!(got, Err(Refusal::Busy)));
        drop(update);
        assert_eq!(addresses.address(&mut store, "example.org", "hash").await.unwrap(), None);
        assert!(addresses.reached().is_some());
        // Somebody looks new ones up.
        let alice: Address = "alice@example.org".parse().unwrap();
        let known = |known: &mut Option<Directory>| {
            known.as_mut().unwrap().addresses.insert("alice".into(), alice.clone())
        };
        known(&mut addresses.known.write());
        let _update = addresses.update.lock().await;
        let got = addresses.address(&mut store, "example.org", "alice").await.unwrap();
        assert_eq!(got, Some(alice));
        assert_eq!(addresses.address(&mut store, "example.org", "bob").await.unwrap(), None);
    }

    #[test]
    fn a_plus_sign_is_part_of_an_address() {
        assert_eq!(local_part("l=a+b").as_deref(), Some("a+b"));
        assert_eq!(local_part("x=1&l=a%2Bb%20c").as_deref(), Some("a+b c"));
        assert_eq!(local_part(""), None);
    }
}
