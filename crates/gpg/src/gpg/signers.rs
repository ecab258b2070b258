//! The keys that sign: which ones gpg takes for the names that the user gives, and what it says about
//! them.
//!
//! All is decided before anything is written, so that the real gpg can still do it.

use std::ffi::OsString;
use std::rc::Rc;

use talaria_agent::Agent;
use talaria_cert::Fingerprint;
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::packet::Key;
use talaria_message::openpgp::packet::key::{PublicParts, UnspecifiedRole};
use talaria_message::{MessageError, SigningKey, read_key};

use crate::algorithm;
use crate::catalog::{Catalog, Place};
use crate::gpg::chosen;
use crate::gpg::described;
use crate::gpg::handover::Reason;
use crate::gpg::list::Issuers;
use crate::gpg::names::Name;
use crate::gpg::preferred::{self, Preferred};
use crate::gpg::request::Settings;
use crate::gpg::secrets::Secrets;
use crate::gpg::signing::Signing;
use crate::gpg::start::Started;
use crate::keyblock::{KeyState, Keyblock, damage};
use crate::session::Session;
use crate::status::Field;
use crate::text::mailbox;

/// The purpose of signing in GnuPG's numbers.
const SIGNS: u32 = 1;

/// GnuPG's numbers of the algorithms that sign here.
const RSA: u8 = 1;
const ECDSA: u8 = 19;
const EDDSA: u8 = 22;

/// The digests of signatures that are made here: SHA-256, SHA-384 and SHA-512.
const DIGESTS: std::ops::RangeInclusive<u8> = 8..=10;

/// GnuPG's number of a key without its secret part, of which it says so.
const NO_SECRET: u8 = 9;

/// A key that signs.
pub(crate) struct Signer {
    public: Key<PublicParts, UnspecifiedRole>,
    fingerprint: Fingerprint,
    /// What the agent calls it.
    about: String,
    /// The digest, by its number.
    digest: u8,
    /// The address of the signer, if signatures name it.
    address: Option<String>,
    /// The length of the shortest digest that it signs, in bytes.
    least: usize,
}

/// Something to be said about a name.
enum Event {
    /// A certificate was looked at, with GnuPG's flags.
    Considered(Rc<Keyblock>, u8),
    /// The default key has this name.
    Default(String),
    /// There is no secret key with this name.
    Missing(String),
}

/// The keys that sign, in the order of the names; or none, as was said.
pub(crate) struct Signers {
    events: Vec<Event>,
    pub(crate) found: Vec<Signer>,
    /// The agent, if there are any.
    agent: Option<Agent>,
}

impl Signers {
    /// Finds the keys that the user asked for, or the first one that can sign.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must find them.
    pub(crate) fn find(started: &Started) -> Result<Self, Reason> {
        let settings = &started.settings;
        let catalog = started.catalog().map_err(needs)?;
        let secrets = Secrets::of_home(&settings.home).map_err(needs)?;
        let issuers = Issuers::new(&started.session, &catalog);
        let mut search =
            Search { started, catalog: &catalog, issuers, secrets: &secrets, events: Vec::new() };
        let mut chosen = Vec::new();
        if settings.signers.is_empty() {
            let first = search.default(&settings.default_keys)?;
            // GnuPG looks at the default key first, and then at its purpose.
            let (keyblock, ..) = &first;
            search.events.insert(0, Event::Considered(Rc::clone(keyblock), 0));
            if let Some(name) = settings.default_keys.last() {
                let name = name.to_string_lossy().into_owned();
                search.events.insert(0, Event::Default(name));
            }
            chosen.push(first);
        }
        // GnuPG looks for the last one first.
        for (at, name) in settings.signers.iter().enumerate().rev() {
            if settings.signers[..at].contains(name) {
                return Err(needs("by the same key twice"));
            }
            let parsed = Name::read(name).ok_or_else(|| needs("by such a name"))?;
            match search.first(Some(&parsed))? {
                Some(found) => chosen.insert(0, found),
                None => search.events.push(Event::Missing(name.to_string_lossy().into_owned())),
            }
        }
        let Search { events, .. } = search;
        let mut found: Vec<Signer> = Vec::new();
        if chosen.is_empty() {
            return Ok(Self { events, found, agent: None });
        }
        let agent = Agent::of_home(&settings.home).map_err(|_| needs("without an agent"))?;
        for (keyblock, fingerprint, user_id) in chosen {
            if found.iter().any(|known| known.fingerprint == fingerprint) {
                return Err(needs("by the same key twice"));
            }
            let state = keyblock.find(|key| key.fingerprint == fingerprint);
            let state = state.ok_or_else(|| needs("by a key that may not sign"))?;
            found.push(signer(&keyblock, state, user_id.as_deref(), settings)?);
        }
        Ok(Self { events, found, agent: Some(agent) })
    }

    /// Takes the digest that the recipients of the message prefer.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must sign with it.
    pub(crate) fn prefer(&mut self, all: &[Preferred], settings: &Settings) -> Result<(), Reason> {
        // ECDSA keys need a digest of their own length. If they need several, each of an increasing
        // length, GnuPG does not ask the recipients.
        let mut lengths: Vec<usize> = Vec::new();
        for length in self.found.iter().map(|signer| signer.least) {
            if lengths.iter().all(|&known| known < length) && length > 0 {
                lengths.push(length);
            }
        }
        if lengths.len() > 1 {
            return Ok(());
        }
        let bytes = lengths.first().copied();
        let preferred = preferred::digest(all, settings.digest, &settings.digests, bytes);
        let Some(number) = preferred else { return Ok(()) };
        // GnuPG warns of a digest that the recipients do not prefer.
        if settings.digest.is_some_and(|wanted| wanted != number) {
            return Err(needs("with such a digest"));
        }
        if !DIGESTS.contains(&number) {
            return Err(needs("with such a digest"));
        }
        self.found.iter_mut().for_each(|signer| signer.digest = number);
        Ok(())
    }

    /// The keys in the agent, with the passphrases of the caller.
    pub(crate) fn into_keys(self, passwords: Vec<Password>) -> Result<Signing, MessageError> {
        let mut signing = Signing::default();
        let Some(agent) = self.agent.map(|agent| agent.with_passwords(passwords)) else {
            return Ok(signing);
        };
        for Signer { public, fingerprint, about, digest, address, .. } in self.found {
            let mut key = SigningKey::from_signer(Box::new(agent.key(public).named(about)));
            key.set_hash(digest)?;
            if let Some(address) = address {
                key.sign_as(address.as_bytes())?;
            }
            signing.add(key, fingerprint);
        }
        Ok(signing)
    }

    /// Says what gpg says.
    pub(crate) fn report(&self, session: &Session) {
        for event in &self.events {
            match event {
                Event::Considered(keyblock, flags) => keyblock.report_considered(session, *flags),
                Event::Default(name) => {
                    if session.quiet {
                        continue;
                    }
                    session.log.info(format!("using \"{name}\" as default secret key for signing"));
                }
                Event::Missing(name) => {
                    session.log.error(format!("skipped \"{name}\": No secret key"));
                    let before = format!("{NO_SECRET} ");
                    session.status.bytes("INV_SGNR", &before, name.as_bytes(), Field::Text);
                }
            }
        }
    }
}

/// A certificate, the key in it, and the user ID by which it was found.
type Chosen = (Rc<Keyblock>, Fingerprint, Option<Vec<u8>>);

struct Search<'a> {
    started: &'a Started,
    catalog: &'a Catalog,
    issuers: Issuers<'a>,
    secrets: &'a Secrets,
    events: Vec<Event>,
}

impl Search<'_> {
    /// The certificate that signs if none is named: that of the last of these names, or else the
    /// first that can.
    fn default(&mut self, names: &[OsString]) -> Result<Chosen, Reason> {
        let mut last = None;
        for name in names {
            let name = Name::read(name).ok_or_else(|| needs("by such a name"))?;
            let places = self.catalog.find(std::slice::from_ref(&name)).unwrap_or_default();
            let mut certs = places.iter().filter_map(|(place, _)| self.catalog.read(*place));
            if !certs.any(|raw| self.secrets.has_any(&raw)) {
                return Err(needs("by a default key that is not there"));
            }
            last = Some(name);
        }
        self.first(last.as_ref())?.ok_or_else(|| needs("without a key of one's own"))
    }

    /// The first certificate with a name that has a secret key for signing; without a name, the
    /// first of all.
    fn first(&mut self, name: Option<&Name>) -> Result<Option<Chosen>, Reason> {
        let damaged = || needs("with a damaged keyring");
        let names = name.map_or(&[][..], std::slice::from_ref);
        let places: Vec<Place> =
            self.catalog.find(names).ok_or_else(damaged)?.into_iter().map(|(at, _)| at).collect();
        for place in places {
            let raw = self.catalog.read(place).ok_or_else(damaged)?;
            if !self.secrets.has_any(&raw) {
                continue;
            }
            if damage(&raw).is_some() {
                return Err(damaged());
            }
            let (_, keyblock) = self.issuers.read(place).ok_or_else(damaged)?;
            let keyblock = Rc::new(keyblock);
            let user_id = match name {
                Some(name) => keyblock.user_id(|text| name.is_user_id(text)),
                None => None,
            };
            if user_id.is_some() && keyblock.has_attribute() {
                return Err(needs("by a user ID beside an attribute"));
            }
            let user_id = user_id.map(|(_, id)| id.raw.clone());
            let (found, flags) = self.choose(&keyblock)?;
            self.events.push(Event::Considered(Rc::clone(&keyblock), flags));
            return Ok(Some((keyblock, found, user_id)));
        }
        Ok(None)
    }

    /// The key that signs, and GnuPG's flags.
    fn choose(&self, keyblock: &Keyblock) -> Result<(Fingerprint, u8), Reason> {
        let now = self.started.session.now;
        let primary = keyblock.primary();
        if primary.is_revoked || primary.has_expired || primary.created > now {
            return Err(needs("by a key that is no longer valid"));
        }
        let (key, flags) = chosen::choose(keyblock, SIGNS, now);
        let key = key.ok_or_else(|| needs("by a key that may not sign"))?;
        let grip =
            key.key().and_then(|key| key.keygrip()).filter(|&grip| self.secrets.has(Some(grip)));
        let grip = grip.ok_or_else(|| needs("by a key whose secret is elsewhere"))?;
        self.secrets.check(grip).map_err(needs)?;
        Ok((key.fingerprint, flags))
    }
}

/// A key that signs, if it can do so here.
fn signer(
    keyblock: &Keyblock,
    state: &KeyState,
    user_id: Option<&[u8]>,
    settings: &Settings,
) -> Result<Signer, Reason> {
    let unsupported = |_| needs("by a key of such a kind");
    let public = read_key(&state.body).map_err(unsupported)?;
    let algorithm = u8::from(public.pk_algo());
    let (number, least) = match (algorithm, state.name.as_str()) {
        // Without a preference GnuPG takes SHA-512.
        (RSA, _) => (settings.digests.first().copied().unwrap_or(10), 0),
        (ECDSA | EDDSA, _) if settings.digest.is_none() && !settings.digests.is_empty() => {
            return Err(needs("with a preferred digest"));
        }
        (EDDSA, "ed25519") => (8, 0),
        (ECDSA, "nistp256" | "brainpoolP256r1") => (8, 32),
        (ECDSA, "nistp384" | "brainpoolP384r1") => (9, 48),
        (ECDSA, "nistp521" | "brainpoolP512r1") => (10, 64),
        _ => return Err(needs("by a key of such a kind")),
    };
    let digest = settings.digest.unwrap_or(number);
    if !DIGESTS.contains(&digest) || algorithm::digest_bytes(digest) < least {
        return Err(needs("with such a digest"));
    }
    let about = described::for_agent(keyblock, state);
    let address = user_id.and_then(|text| mailbox(&String::from_utf8_lossy(text)));
    let address = address.filter(|_| settings.names_signers);
    Ok(Signer { public, fingerprint: state.fingerprint, about, digest, address, least })
}

fn needs(what: &str) -> Reason {
    Reason::Undone(format!("a signature {what}"))
}
