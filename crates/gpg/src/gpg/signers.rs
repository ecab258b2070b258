//! The keys that sign: which ones gpg takes for the names that the user gives, and what it says about
//! them.
//!
//! All is decided before anything is written, so that the real gpg can still do it.

use std::rc::Rc;

use talaria_agent::Agent;
use talaria_cert::Fingerprint;
use talaria_message::{SigningKey, read_key};

use crate::catalog::{Catalog, Place};
use crate::gpg::handover::Reason;
use crate::gpg::list::Issuers;
use crate::gpg::names::Name;
use crate::gpg::request::Settings;
use crate::gpg::secrets::Secrets;
use crate::gpg::start::Started;
use crate::gpg::{chosen, described};
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

/// GnuPG's number of a key without its secret part, of which it says so.
const NO_SECRET: u8 = 9;

/// A key that signs.
pub(crate) struct Signer {
    pub(crate) key: SigningKey,
    pub(crate) fingerprint: Fingerprint,
}

/// Something to be said about a name.
enum Event {
    /// A certificate was looked at, with GnuPG's flags.
    Considered(Rc<Keyblock>, u8),
    /// There is no secret key with this name.
    Missing(String),
}

/// The keys that sign, in the order of the names; or none, as was said.
pub(crate) struct Signers {
    events: Vec<Event>,
    pub(crate) found: Vec<Signer>,
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
            let first = search.first(None)?.ok_or_else(|| needs("without a key of one's own"))?;
            // GnuPG looks at the default key first, and then at its purpose.
            let (keyblock, ..) = &first;
            search.events.insert(0, Event::Considered(Rc::clone(keyblock), 0));
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
            return Ok(Self { events, found });
        }
        let agent = Agent::of_home(&settings.home).map_err(|_| needs("without an agent"))?;
        for (keyblock, fingerprint, user_id) in chosen {
            if found.iter().any(|known| known.fingerprint == fingerprint) {
                return Err(needs("by the same key twice"));
            }
            let state = keyblock.find(|key| key.fingerprint == fingerprint);
            let state = state.ok_or_else(|| needs("by a key that may not sign"))?;
            found.push(signer(&agent, &keyblock, state, user_id.as_deref(), settings)?);
        }
        Ok(Self { events, found })
    }

    /// Says what gpg says.
    pub(crate) fn report(&self, session: &Session) {
        for event in &self.events {
            match event {
                Event::Considered(keyblock, flags) => keyblock.report_considered(session, *flags),
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
        if !self.secrets.has(key.key().and_then(|key| key.keygrip())) {
            return Err(needs("by a key whose secret is elsewhere"));
        }
        Ok((key.fingerprint, flags))
    }
}

/// A key of the agent that is ready to sign.
fn signer(
    agent: &Agent,
    keyblock: &Keyblock,
    state: &KeyState,
    user_id: Option<&[u8]>,
    settings: &Settings,
) -> Result<Signer, Reason> {
    let unsupported = |_| needs("by a key of such a kind");
    let public = read_key(&state.body).map_err(unsupported)?;
    let algorithm = u8::from(public.pk_algo());
    let number = match (algorithm, state.name.as_str()) {
        // Without a preference GnuPG takes SHA-512.
        (RSA, _) => settings.digests.first().copied().unwrap_or(10),
        (ECDSA | EDDSA, _) if !settings.digests.is_empty() => {
            return Err(needs("with a preferred digest"));
        }
        (ECDSA, "nistp256" | "brainpoolP256r1") | (EDDSA, "ed25519") => 8,
        (ECDSA, "nistp384" | "brainpoolP384r1") => 9,
        (ECDSA, "nistp521" | "brainpoolP512r1") => 10,
        _ => return Err(needs("by a key of such a kind")),
    };
    let about = described::for_agent(keyblock, state);
    let mut key = SigningKey::from_signer(Box::new(agent.key(public).named(about)));
    key.set_hash(number).map_err(|_| needs("with such a digest"))?;
    let address = user_id.and_then(|text| mailbox(&String::from_utf8_lossy(text)));
    if let Some(address) = address.filter(|_| settings.names_signers) {
        key.sign_as(address.as_bytes()).map_err(|_| needs("by such a name"))?;
    }
    Ok(Signer { key, fingerprint: state.fingerprint })
}

fn needs(what: &str) -> Reason {
    Reason::Undone(format!("a signature {what}"))
}
