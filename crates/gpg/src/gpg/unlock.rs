//! Who opens a message: the keys that it names, those of them that gpg-agent has, and the session
//! key that one of them gives.
//!
//! The agent is asked before anything is written, so that the real gpg can still do it all.

use std::io::{Cursor, Read};
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::Mutex;
use talaria_agent::{Agent, AgentKey, Refusal};
use talaria_cert::Fingerprint;
use talaria_message::openpgp::crypto::{Decryptor, SessionKey, mpi};
use talaria_message::openpgp::packet::Key;
use talaria_message::openpgp::packet::key::{PublicParts, UnspecifiedRole};
use talaria_message::{
    Cipher, DecryptionKey, Message, MessageError, Opened, OpenedBy, ReadLimits, Secrets, openpgp,
    read_key,
};

use crate::algorithm::{self, CIPHERS, public_name};
use crate::code::{Code, Exit, cause};
use crate::gpg::described;
use crate::gpg::handover::Reason;
use crate::gpg::list::Issuers;
use crate::gpg::names::Name;
use crate::gpg::plain::Recipient;
use crate::gpg::secrets::Secrets as Own;
use crate::gpg::start::Started;
use crate::keyblock::{KeyState, Keyblock, damage};
use crate::session::Session;
use crate::time;

/// GnuPG's number and text of a key that did not fit. They say nothing about why: a sender of
/// messages to a service could use that to compute with the service's key.
const NOT_FITTING: (u32, &str) = ((2 << 24) + 18, "Wrong secret key used");

/// The start of a message whose session key is known.
pub(crate) type Unlocked = Opened<Box<dyn Read + Send>>;

/// The keys that a message names, and what became of each.
pub(crate) struct Holders {
    all: Vec<Holder>,
    /// The cipher of the message, if it is known.
    cipher: Option<Cipher>,
    /// They are only listed.
    is_list: bool,
}

struct Holder {
    recipient: Recipient,
    /// The certificate with the key, if it is in the keyrings.
    found: Option<Rc<Found>>,
    fate: Fate,
}

struct Found {
    keyblock: Keyblock,
    key: Fingerprint,
    public: Key<PublicParts, UnspecifiedRole>,
    /// The agent has the secret key.
    is_own: bool,
}

/// What became of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Fate {
    /// It has opened the message.
    Opened,
    /// There is no secret key, or there was no need to try it.
    Untried,
    /// With GnuPG's number and text.
    Failed(u32, String),
}

/// Finds the keys that a message names, for a list of them.
///
/// # Errors
///
/// [`Reason`] if the real gpg must do it.
pub(crate) fn list(started: &Started, named: &[Recipient]) -> Result<Holders, Reason> {
    Ok(Holders { all: find(started, named)?, cipher: None, is_list: true })
}

/// Finds the keys that a message names, and lets the agent unwrap the session key in the first
/// bytes of the message. Without one, the second result says why.
///
/// # Errors
///
/// [`Reason`] if the real gpg must do it.
pub(crate) fn unlock(
    started: &Started,
    named: &[Recipient],
    start: Vec<u8>,
) -> Result<(Holders, Result<Unlocked, String>), Reason> {
    let mut holders = find(started, named)?;
    if !holders.iter().any(Holder::is_own) {
        return Err(needs("without a secret key for it"));
    }
    let home = &started.settings.home;
    let agent = Agent::of_home(home).map_err(|_| needs("without an agent"))?;
    let agent = agent.with_passwords(started.settings.passwords());
    let failures = Failures::default();
    let keys = keys(&holders, &agent, &failures);
    let mut secrets = Secrets { keys, ..Secrets::default() };
    let opened = Message::new(Cursor::new(start)).and_then(Message::into_packets);
    let opened = opened.and_then(|packets| {
        let packets: Box<dyn Read + Send> = Box::new(packets);
        Opened::new(packets, &mut secrets, ReadLimits::default())
    });
    if let Err(MessageError::Unsupported(what)) = &opened
        && !started.settings.has_read_descriptor()
    {
        return Err(needs(&format!("with {what}")));
    }
    let by = opened.as_ref().ok().map(Opened::by);
    let mut is_open = false;
    for Holder { found, fate, .. } in &mut holders {
        let Some(found) = found.as_ref().filter(|found| found.is_own && !is_open) else { continue };
        is_open = by == Some(&OpenedBy::Key(found.key.to_string()));
        *fate = if is_open { Fate::Opened } else { failures.of(found.key) };
    }
    let unlocked = match opened {
        Ok(opened) => Ok(opened),
        Err(
            MessageError::NoSecret { .. } | MessageError::Unopened { .. } | MessageError::Secret(_),
        ) => Err(Code::NoSecret.text().to_owned()),
        Err(error) => Err(cause(&error)),
    };
    let cipher = unlocked.as_ref().ok().map(Opened::cipher);
    Ok((Holders { all: holders, cipher, is_list: false }, unlocked))
}

/// The certificates of the recipients.
fn find(started: &Started, named: &[Recipient]) -> Result<Vec<Holder>, Reason> {
    let Started { session, settings, .. } = started;
    let catalog = started.catalog().map_err(needs)?;
    let own = Own::of_home(&settings.home).map_err(needs)?;
    let damaged = || needs("with a damaged keyring");
    let names: Vec<Name> = named.iter().map(|recipient| Name::KeyId(recipient.id)).collect();
    let places = catalog.find(&names).ok_or_else(damaged)?;
    let issuers = Issuers::new(session, &catalog);
    let mut holders: Vec<Holder> = Vec::with_capacity(named.len());
    for &recipient in named {
        // A message may name a key many times.
        let mut same = holders.iter().filter(|known| known.recipient.id == recipient.id);
        let mut found = same.find_map(|known| known.found.clone());
        if found.is_some() {
            holders.push(Holder { recipient, found, fate: Fate::Untried });
            continue;
        }
        for (place, _) in &places {
            let raw = catalog.read(*place).ok_or_else(damaged)?;
            if Name::KeyId(recipient.id).find(&raw).is_none() {
                continue;
            }
            if damage(&raw).is_some() {
                return Err(damaged());
            }
            let (_, keyblock) = issuers.read(*place).ok_or_else(damaged)?;
            let state = keyblock.find(|key| key.id == recipient.id).ok_or_else(damaged)?;
            let grip = state.key().and_then(|key| key.keygrip());
            let is_own = own.has(grip);
            if let Some(grip) = grip.filter(|_| is_own) {
                own.check(grip).map_err(needs)?;
            }
            // gpg says why, and decrypts.
            if is_own && state.is_revoked {
                return Err(needs("by a key that is revoked"));
            }
            let public = read_key(&state.body).map_err(|_| needs("by such a key"))?;
            let key = state.fingerprint;
            found = Some(Rc::new(Found { keyblock, key, public, is_own }));
            break;
        }
        holders.push(Holder { recipient, found, fate: Fate::Untried });
    }
    Ok(holders)
}

/// The keys that the agent has, each once.
fn keys(holders: &[Holder], agent: &Agent, failures: &Failures) -> Vec<DecryptionKey> {
    let (mut keys, mut known) = (Vec::new(), Vec::new());
    for found in holders.iter().filter_map(|holder| holder.found.as_ref()) {
        let Some(state) = found.state().filter(|_| found.is_own) else { continue };
        if known.contains(&found.key) {
            continue;
        }
        known.push(found.key);
        let about = described::for_agent(&found.keyblock, state);
        let key = agent.key(found.public.clone()).named(about);
        let asked = Asked { key, name: found.key, failures: failures.clone() };
        let primary = found.keyblock.primary().fingerprint;
        let certificate = openpgp::Fingerprint::from_bytes(4, primary.as_bytes());
        keys.extend(certificate.map(|name| DecryptionKey::new(Box::new(asked), name)));
    }
    keys
}

impl Holders {
    /// Says for whom the message is, and what became of each key.
    ///
    /// # Errors
    ///
    /// [`Exit`] if the trust database is damaged.
    pub(crate) fn tell(&self, session: &Session) -> Result<(), Exit> {
        for Holder { recipient, found, fate } in &self.all {
            let Recipient { id, algorithm } = recipient;
            session.chat(|| format!("public key is {}", session.key_id(*id)));
            session.status.line(&format!("ENC_TO {id:016X} {algorithm} 0"));
            let Some(found) = found.as_ref().filter(|_| *fate != Fate::Untried) else { continue };
            found.report(session);
            if *fate == Fate::Opened {
                found.keyblock.report_considered(session, 0);
                let primary = found.keyblock.primary().fingerprint;
                let Some(manner) = &session.gpg else { return Err(Exit(2)) };
                self.warn_of_cipher(session, &found.keyblock);
                found.note_expiry(session);
                manner.trust.tell(&session.log);
                let trust = manner.trust.ownertrust(&session.log, primary)?;
                session.status.line(&format!("DECRYPTION_KEY {} {primary} {trust}", found.key));
            }
        }
        if self.is_list && !session.quiet {
            self.all.iter().rev().for_each(|holder| holder.tell(session, true));
        } else if !session.quiet {
            // GnuPG has the last one first, and those that failed before the one that did not.
            for is_opened in [false, true] {
                let of_kind = |holder: &&Holder| (holder.fate == Fate::Opened) == is_opened;
                self.all
                    .iter()
                    .rev()
                    .filter(of_kind)
                    .for_each(|holder| holder.tell(session, false));
            }
        }
        Ok(())
    }
}

impl Holders {
    /// Warns of a cipher that the owner of the key has not asked for.
    fn warn_of_cipher(&self, session: &Session, keyblock: &Keyblock) {
        let Some(cipher) = self.cipher.filter(|_| !session.quiet) else { return };
        let number = cipher as u8;
        if cipher != Cipher::TripleDes && !keyblock.prefers_cipher(number) {
            let name = algorithm::name(&CIPHERS, number);
            session.log.info(format!(
                "WARNING: cipher algorithm {name} not found in recipient preferences"
            ));
        }
    }
}

impl Holder {
    /// Whether the agent has the secret key.
    fn is_own(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.is_own)
    }

    /// Says that the message is for this key.
    fn tell(&self, session: &Session, is_list: bool) {
        let Self { recipient: Recipient { id, algorithm }, found, fate } = self;
        let shown = session.key_id(*id);
        if let Some(found) = found
            && let Some(state) = found.state()
        {
            found.report(session);
            let kind = described::kind(state);
            let day = time::day(state.created);
            session.log.info(format!("encrypted with {kind} key, ID {shown}, created {day}"));
            session.log.plain(format!("      \"{}\"", described::user_id(&found.keyblock)));
        } else {
            let kind = public_name(*algorithm);
            session.log.info(format!("encrypted with {kind} key, ID {shown}"));
        }
        match fate {
            Fate::Opened => {}
            Fate::Untried if is_list && self.is_own() => {}
            Fate::Untried => session.status.line(&format!("NO_SECKEY {id:016X}")),
            Fate::Failed(number, text) => {
                session.log.info(format!("public key decryption failed: {text}"));
                session.status.line(&format!("ERROR pkdecrypt_failed {number}"));
            }
        }
    }
}

impl Found {
    /// Says that the key has expired, which prevents nothing.
    fn note_expiry(&self, session: &Session) {
        let Some(state) = self.state() else { return };
        if state.expires != 0 && state.expires <= session.now {
            let (id, then) = (session.key_id(state.id), time::local(state.expires));
            session.log.info(format!("Note: secret key {id} expired at {then}"));
        }
    }

    /// Says that the key was looked at.
    fn report(&self, session: &Session) {
        if let Some(state) = self.state() {
            self.keyblock.report(session, state);
        }
    }

    fn state(&self) -> Option<&KeyState> {
        self.keyblock.find(|key| key.fingerprint == self.key)
    }
}

/// A key of the agent that notes why it did not decrypt.
struct Asked {
    key: AgentKey,
    name: Fingerprint,
    failures: Failures,
}

/// What the agent said in place of session keys: GnuPG's numbers and texts, by key.
#[derive(Clone, Default)]
struct Failures(Arc<Mutex<Vec<(Fingerprint, u32, String)>>>);

impl Failures {
    /// What became of a key that did not open the message.
    fn of(&self, key: Fingerprint) -> Fate {
        let all = self.0.lock();
        match all.iter().find(|(name, ..)| *name == key) {
            Some((_, number, text)) => Fate::Failed(*number, text.clone()),
            None => Fate::Failed(NOT_FITTING.0, NOT_FITTING.1.to_owned()),
        }
    }
}

impl Decryptor for Asked {
    fn public(&self) -> &Key<PublicParts, UnspecifiedRole> {
        self.key.public()
    }

    fn decrypt(
        &mut self,
        ciphertext: &mpi::Ciphertext,
        plaintext_len: Option<usize>,
    ) -> openpgp::Result<SessionKey> {
        self.key.decrypt(ciphertext, plaintext_len).inspect_err(|error| {
            if let Some(refusal) = Refusal::of(error.as_ref()) {
                let failure = (self.name, refusal.number(), refusal.text().to_owned());
                self.failures.0.lock().push(failure);
            }
        })
    }
}

fn needs(what: &str) -> Reason {
    Reason::Undone(format!("a decryption {what}"))
}
