//! The keys to encrypt to: which ones gpg takes for the names that the user gives, and what it says
//! about them.
//!
//! All is decided before anything is written, so that the real gpg can still do it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use talaria_cert::{Fingerprint, Splitter};

use crate::catalog::Catalog;
use crate::code::Code;
use crate::gpg::chosen;
use crate::gpg::handover::Reason;
use crate::gpg::list::Issuers;
use crate::gpg::names::Name;
use crate::gpg::preferred::Preferred;
use crate::gpg::sealing::{Addressee, Fallback, Kind};
use crate::gpg::start::Started;
use crate::gpg::trust::{Level, Trust};
use crate::keyblock::{Keyblock, damage};
use crate::log::Log;
use crate::session::Session;
use crate::status::Field;

/// The purpose of encryption in GnuPG's numbers.
const ENCRYPTS: u32 = 2;

/// The subpackets with preferred ciphers, digests and compressions (RFC 9580, sections 5.2.3.14,
/// 5.2.3.16 and 5.2.3.17).
const PREFERENCES: [u8; 3] = [11, 21, 22];

/// The longest file with a certificate that is read, in bytes.
const FILE_BYTES_MAX: u64 = 5 << 20;

/// Why GnuPG refuses an addressee, in its numbers.
mod refused {
    pub(super) const OTHER: u8 = 0;
    pub(super) const NOT_FOUND: u8 = 1;
    pub(super) const UNTRUSTED: u8 = 10;
    pub(super) const DISABLED: u8 = 13;
}

/// A key to encrypt to.
#[derive(Clone, Debug)]
pub(crate) struct Recipient {
    fingerprint: Fingerprint,
    /// The body of its packet.
    pub(crate) body: Vec<u8>,
    /// The message does not name it.
    pub(crate) is_hidden: bool,
    pub(crate) preferred: Preferred,
}

/// What gpg says while it looks for keys.
enum Event {
    Considered(Rc<Keyblock>, u8),
    Text(String),
    Error(String),
    /// A status line about an addressee who is refused.
    Invalid(u8, String),
    Status(&'static str),
    /// The trust database was asked for the first time.
    Trust,
}

/// The keys to encrypt to, in the order of the message; or why there are none.
pub(crate) struct Recipients {
    events: Vec<Event>,
    pub(crate) found: Result<Vec<Recipient>, Code>,
}

impl Recipients {
    /// Finds the keys that the user asked for.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must find them.
    pub(crate) fn find(started: &Started) -> Result<Self, Reason> {
        let addressees = started.settings.sealing.addressees()?;
        let needs = |what: &str| Reason::Undone(format!("an encryption {what}"));
        let catalog = started.catalog().map_err(needs)?;
        let Some(manner) = &started.session.gpg else { return Err(needs("without a manner")) };
        let mut search = Search {
            started,
            issuers: Issuers::new(&started.session, &catalog),
            catalog: &catalog,
            trust: &manner.trust,
            events: Vec::new(),
            keys: Vec::new(),
        };
        let result = match search.all(&addressees) {
            Ok(()) => Ok(()),
            Err(Stop::Failed(code)) => Err(code),
            Err(Stop::HandOver(reason)) => return Err(reason),
        };
        let Search { events, keys, .. } = search;
        Ok(Self { events, found: result.map(|()| keys) })
    }

    /// Says what gpg says.
    pub(crate) fn report(&self, session: &Session) {
        for event in &self.events {
            match event {
                Event::Considered(keyblock, flags) => keyblock.report_considered(session, *flags),
                Event::Text(text) => session.log.info(text),
                Event::Error(text) => session.log.error(text),
                Event::Invalid(number, name) => {
                    let before = format!("{number} ");
                    session.status.bytes("INV_RECP", &before, name.as_bytes(), Field::Text);
                }
                Event::Status(line) => session.status.line(line),
                Event::Trust => {
                    if let Some(manner) = &session.gpg {
                        manner.trust.tell(&session.log);
                    }
                }
            }
        }
    }
}

/// The end of a search without keys.
enum Stop {
    Failed(Code),
    HandOver(Reason),
}

/// What a name may stand for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scope {
    /// A certificate that its owner and the user still want to be used.
    Usable,
    Any,
}

/// A key that was found.
struct Found {
    keyblock: Rc<Keyblock>,
    key: Recipient,
    id: u64,
    /// The user ID that was meant.
    user_id: Option<Vec<u8>>,
}

struct Search<'a> {
    started: &'a Started,
    issuers: Issuers<'a>,
    catalog: &'a Catalog,
    trust: &'a Trust,
    events: Vec<Event>,
    /// The key that was found last comes first.
    keys: Vec<Recipient>,
}

impl Search<'_> {
    fn all(&mut self, addressees: &[Addressee]) -> Result<(), Stop> {
        let sealing = &self.started.settings.sealing;
        if sealing.has_always() {
            for addressee in addressees.iter().filter(|one| one.kind == Kind::Always) {
                self.always(addressee)?;
            }
        }
        let mut named = addressees.iter().filter(|one| one.kind != Kind::Always).peekable();
        if named.peek().is_some() {
            return named.try_for_each(|addressee| self.named(addressee));
        }
        let is_batch = self.started.settings.batch;
        match &sealing.fallback {
            _ if !is_batch => Err(hand_over("without a recipient")),
            Fallback::Own => Err(hand_over("to one's own default key")),
            Fallback::Named(name) => self.fallback(&name.to_string_lossy()),
            Fallback::Nobody => self.nobody(),
        }
    }

    /// A key to which every message is encrypted: its validity does not matter.
    fn always(&mut self, addressee: &Addressee) -> Result<(), Stop> {
        let name = addressee.name.to_string_lossy();
        match self.find(&name, addressee.is_hidden, Scope::Any)? {
            Ok(found) => self.add(found.key, format!("{name}: {ALREADY}")),
            Err(code) => return Err(self.skip(&name, refused::OTHER, code)),
        }
        Ok(())
    }

    fn fallback(&mut self, name: &str) -> Result<(), Stop> {
        match self.find(name, false, Scope::Any)? {
            Ok(found) => {
                let text = "skipped: public key already set as default recipient";
                // GnuPG says this one whatever the options.
                if self.has(&found.key) {
                    self.events.push(Event::Text(text.to_owned()));
                } else {
                    self.keys.insert(0, found.key);
                }
                Ok(())
            }
            Err(code) => {
                self.events.push(Event::Error(format!("unknown default recipient \"{name}\"")));
                Err(Stop::Failed(code))
            }
        }
    }

    fn nobody(&mut self) -> Result<(), Stop> {
        self.events.push(Event::Error("no valid addressees".to_owned()));
        self.events.push(Event::Status("NO_RECP 0"));
        Err(Stop::Failed(Code::NoUserId))
    }

    fn named(&mut self, addressee: &Addressee) -> Result<(), Stop> {
        let name = addressee.name.to_string_lossy();
        let is_file = addressee.kind == Kind::File;
        let found = if is_file {
            self.in_file(addressee)?
        } else {
            self.find(&name, addressee.is_hidden, Scope::Usable)?
        };
        let found = match found {
            Ok(found) => found,
            Err(Code::NoKey) if name.contains('@') => {
                return Err(hand_over("to an address that may have to be looked up"));
            }
            Err(code) => {
                let number = if code == Code::NoKey { refused::NOT_FOUND } else { refused::OTHER };
                return Err(self.skip(&name, number, code));
            }
        };
        if !is_file {
            self.check(&found, &name)?;
        }
        self.add(found.key, format!("{name}: {ALREADY}"));
        Ok(())
    }

    /// Refuses an addressee whose key may not be that of whom it names.
    fn check(&mut self, found: &Found, name: &str) -> Result<(), Stop> {
        if self.trust.is_always {
            return Ok(());
        }
        self.events.push(Event::Trust);
        let silent = Log::silent();
        let believed = self.trust.find(&silent, found.keyblock.primary().fingerprint);
        let believed = believed.map_err(|_| hand_over("with a damaged trust database"))?;
        let refuse = |number| [Event::Invalid(number, name.to_owned())];
        if believed.is_disabled() {
            self.events.extend(refuse(refused::DISABLED));
            self.events.push(Event::Text(format!("{name}: skipped: public key is disabled")));
            return Err(Stop::Failed(Code::UnusableKey));
        }
        let level = match &found.user_id {
            Some(user_id) => believed.of(user_id),
            None => believed.best(),
        };
        let id = self.started.session.key_id(found.id);
        let text = match level {
            Level::Full | Level::Ultimate => return Ok(()),
            Level::Marginal => {
                let what = "There is limited assurance this key belongs to the named user";
                self.events.push(Event::Text(format!("{id}: {what}")));
                return Ok(());
            }
            Level::Expired => return Err(hand_over("to an expired key")),
            Level::Never => {
                format!("{id}: This key is bad!  It has been marked as untrusted!")
            }
            Level::Unknown | Level::Undefined => {
                format!("{id}: There is no assurance this key belongs to the named user")
            }
        };
        if !self.started.settings.batch {
            return Err(hand_over("to an untrusted key, which gpg asks about"));
        }
        self.events.push(Event::Text(text));
        self.events.extend(refuse(refused::UNTRUSTED));
        Err(Stop::Failed(Code::UnusableKey))
    }

    fn skip(&mut self, name: &str, number: u8, code: Code) -> Stop {
        self.events.push(Event::Error(format!("{name}: skipped: {}", code.text())));
        self.events.push(Event::Invalid(number, name.to_owned()));
        Stop::Failed(code)
    }

    fn has(&self, key: &Recipient) -> bool {
        self.keys.iter().any(|known| known.fingerprint == key.fingerprint)
    }

    fn add(&mut self, key: Recipient, already: String) {
        if !self.has(&key) {
            self.keys.insert(0, key);
        } else if !self.started.settings.quiet {
            self.events.push(Event::Text(already));
        }
    }

    /// The first certificate with a name that has a key for encryption.
    fn find(
        &mut self,
        name: &str,
        is_hidden: bool,
        scope: Scope,
    ) -> Result<Result<Found, Code>, Stop> {
        let parsed = Name::read(name.as_ref()).ok_or_else(|| hand_over("to such a name"))?;
        let damaged = || hand_over("with a damaged keyring");
        let names = std::slice::from_ref(&parsed);
        let places = self.catalog.find(names).ok_or_else(damaged)?;
        if scope == Scope::Usable && name.contains('@') && places.len() > 1 {
            return Err(hand_over("to one of several certificates with an address"));
        }
        let mut code = Code::NoKey;
        for (place, _) in places {
            let raw = self.catalog.read(place).filter(|raw| damage(raw).is_none());
            raw.ok_or_else(damaged)?;
            let (_, keyblock) = self.issuers.read(place).ok_or_else(damaged)?;
            let keyblock = Rc::new(keyblock);
            let user_id = match keyblock.user_id(|text| parsed.is_user_id(text)) {
                // GnuPG counts attributes here, and not there, and so takes another user ID.
                Some(_) if keyblock.has_attribute() => {
                    return Err(hand_over("to a user ID beside an attribute"));
                }
                found => found.map(|(_, id)| id),
            };
            if scope == Scope::Usable && parsed.is_of_user_id() {
                self.events.push(Event::Considered(Rc::clone(&keyblock), 0));
                let primary = keyblock.primary();
                let disabled = self.trust.is_disabled(&Log::silent(), primary.fingerprint);
                let is_disabled =
                    disabled.map_err(|_| hand_over("with a damaged trust database"))?;
                let is_rejected = user_id.is_some_and(|id| id.is_rejected);
                if primary.is_revoked || primary.has_expired || is_rejected || is_disabled {
                    continue;
                }
            }
            let (key, flags) = chosen::choose(&keyblock, ENCRYPTS, self.started.session.now);
            self.events.push(Event::Considered(Rc::clone(&keyblock), flags));
            let Some(key) = key else {
                code = Code::UnusableKey;
                continue;
            };
            let preferences = keyblock.preferences(user_id, PREFERENCES);
            let [ciphers, digests, compressions] =
                preferences.ok_or_else(|| hand_over("to a key with several preferences"))?;
            let preferred = Preferred { ciphers, digests, compressions };
            let (fingerprint, body) = (key.fingerprint, key.body.clone());
            let (id, user_id) = (key.id, user_id.map(|id| id.raw.clone()));
            let key = Recipient { fingerprint, body, is_hidden, preferred };
            return Ok(Ok(Found { keyblock, key, id, user_id }));
        }
        Ok(Err(code))
    }

    /// The key in the first certificate of a file.
    fn in_file(&mut self, addressee: &Addressee) -> Result<Result<Found, Code>, Stop> {
        let raw = certificate(Path::new(&addressee.name))
            .filter(|raw| damage(raw).is_none())
            .ok_or_else(|| hand_over("to such a file"))?;
        let keyblock = Keyblock::read(&self.started.session, &raw, |_| None);
        let keyblock = keyblock.ok_or_else(|| hand_over("to such a file"))?;
        if !keyblock.summary.revokers.is_empty() {
            return Err(hand_over("to a file with designated revokers"));
        }
        let keyblock = Rc::new(keyblock);
        let (key, flags) = chosen::choose(&keyblock, ENCRYPTS, self.started.session.now);
        self.events.push(Event::Considered(Rc::clone(&keyblock), flags));
        let Some(key) = key else { return Ok(Err(Code::UnusableKey)) };
        let preferences = keyblock.preferences(None, PREFERENCES);
        let [ciphers, digests, compressions] =
            preferences.ok_or_else(|| hand_over("to a key with several preferences"))?;
        let key = Recipient {
            fingerprint: key.fingerprint,
            body: key.body.clone(),
            is_hidden: addressee.is_hidden,
            preferred: Preferred { ciphers, digests, compressions },
        };
        Ok(Ok(Found { keyblock, key, id: 0, user_id: None }))
    }
}

const ALREADY: &str = "skipped: public key already present";

fn hand_over(what: &str) -> Stop {
    Stop::HandOver(Reason::Undone(format!("an encryption {what}")))
}

/// The packets of the first certificate of a regular file, which may be armored.
fn certificate(path: &Path) -> Option<Vec<u8>> {
    let meta = path.metadata().ok()?;
    if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let packets = talaria_message::unarmored(&bytes).ok()?;
    let batch = Splitter::new(&packets[..], packets.len().max(1)).next_batch().ok()??;
    let first = batch.certs().next().filter(|(offset, _)| *offset == 0);
    first.map(|(_, raw)| raw.to_vec())
}
