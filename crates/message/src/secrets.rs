//! What opens messages: secret keys, passphrases, session keys, and what was computed from them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use aws_lc_rs::digest;
use sequoia_openpgp as openpgp;
use sequoia_openpgp::crypto::{Decryptor, Password, mpi};
use sequoia_openpgp::packet::key::{PublicParts, UnspecifiedRole};
use sequoia_openpgp::packet::{Key, PKESK};
use sequoia_openpgp::parse::Parse as _;
use sequoia_openpgp::serialize::MarshalInto as _;
use talaria_cert::Fingerprint;
use zeroize::Zeroizing;

use crate::algorithm::Cipher;
use crate::error::{MessageError, Result};
use crate::keys::unsupported;
use crate::password::{SessionKey, Skesk};

/// A secret key that can unwrap session keys, wherever it is. It is asked only for messages that name it,
/// or nobody, so it may ask for a passphrase when it is.
pub struct DecryptionKey {
    key: Box<dyn Decryptor + Send + Sync>,
    certificate: openpgp::Fingerprint,
}

impl DecryptionKey {
    /// A key of the certificate with that fingerprint.
    #[must_use]
    pub fn new(key: Box<dyn Decryptor + Send + Sync>, certificate: openpgp::Fingerprint) -> Self {
        Self { key, certificate }
    }

    /// The fingerprint of its certificate.
    fn recipient(&self) -> Option<Fingerprint> {
        let bytes = self.certificate.as_bytes();
        match self.certificate {
            openpgp::Fingerprint::V4(_) => bytes.try_into().ok().map(Fingerprint::V4),
            openpgp::Fingerprint::V6(_) => bytes.try_into().ok().map(Fingerprint::V6),
            _ => None,
        }
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> &Key<PublicParts, UnspecifiedRole> {
        self.key.public()
    }
}

/// Gives secret keys that are somewhere else, in an agent or on cards, for a message that nothing here opens. It
/// is told whether the message may be opened with a passphrase: then those that were given are the message's,
/// and none of them is for an agent or a card.
pub type Elsewhere = Box<dyn FnMut(bool) -> Result<Vec<DecryptionKey>> + Send>;

/// What a message may be opened with, in the order in which it is tried: session keys, secret keys,
/// passphrases, keys that are elsewhere, and passphrases that are asked for.
#[derive(Default)]
pub struct Secrets {
    /// Secret keys.
    pub keys: Vec<DecryptionKey>,
    /// Secret keys that are somewhere else.
    pub elsewhere: Option<Elsewhere>,
    /// Passphrases.
    pub passwords: Vec<Password>,
    /// Session keys, each with its cipher where that is known (version 1 messages need it).
    pub session_keys: Vec<(Option<Cipher>, Zeroizing<Vec<u8>>)>,
    /// Asked for another passphrase when none fits, with the number of those it gave before.
    pub ask: Option<Box<dyn FnMut(usize) -> Option<Password> + Send>>,
}

/// What opened a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OpenedBy {
    /// The key with this fingerprint.
    Key(String),
    /// A passphrase: its place among those given, counting those asked for.
    Password(usize),
    /// A session key that was given.
    SessionKey,
}

/// A session key that may be the one.
pub(crate) struct Candidate {
    pub(crate) session_key: SessionKey,
    pub(crate) by: OpenedBy,
    /// It was the one of an earlier message with the same wrapped session keys.
    pub(crate) remembered: bool,
    /// The certificate of the key that opened it: whom its signatures may be meant for.
    pub(crate) recipient: Option<Fingerprint>,
}

impl Candidate {
    fn new(session_key: SessionKey, by: OpenedBy) -> Self {
        Self { session_key, by, remembered: false, recipient: None }
    }
}

/// Packets with wrapped session keys in front of a message.
const WRAPPED_MAX: usize = 4096;
/// Octets of all of them, whether they can be read or not: as many for keys of the next kind.
const WRAPPED_BYTES_MAX: usize = 8 << 20;
/// Packets that a passphrase is tried on: each costs 40 ms and more.
const STRETCHED_MAX: usize = 16;
/// Passphrases that are asked for.
const ASKED_MAX: usize = 3;

/// The wrapped session keys of a message.
pub(crate) struct Wrapped {
    keys: Vec<PKESK>,
    passwords: Vec<Skesk>,
    /// How many packets there were, and how many octets in them.
    count: usize,
    bytes: usize,
    /// The digest of all of them, to recognise them again.
    seen: digest::Context,
    /// Why one could not be read, if none could.
    unreadable: Option<MessageError>,
}

impl Default for Wrapped {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            passwords: Vec::new(),
            count: 0,
            bytes: 0,
            seen: digest::Context::new(&digest::SHA256),
            unreadable: None,
        }
    }
}

impl Wrapped {
    /// Adds a packet.
    pub(crate) fn add(&mut self, tag: u8, body: &[u8]) -> Result<()> {
        self.count += 1;
        if self.count > WRAPPED_MAX {
            let limit = WRAPPED_MAX as u64;
            return Err(MessageError::TooLarge { what: "wrapped session keys", limit });
        }
        self.bytes += body.len();
        if self.bytes > WRAPPED_BYTES_MAX {
            let limit = WRAPPED_BYTES_MAX as u64;
            return Err(MessageError::TooLarge { what: "octets of wrapped session keys", limit });
        }
        // Whatever the form of its header is.
        self.seen.update(&[tag]);
        self.seen.update(&(body.len() as u64).to_be_bytes());
        self.seen.update(body);
        if tag == crate::framing::tag::SKESK {
            match Skesk::parse(body) {
                Ok(skesk) => self.passwords.push(skesk),
                Err(error) => self.unreadable = Some(error),
            }
        } else {
            let mut packet = Vec::with_capacity(body.len() + 6);
            crate::framing::write_packet(&mut packet, tag, body)?;
            match openpgp::Packet::from_bytes(&packet) {
                Ok(openpgp::Packet::PKESK(pkesk)) => self.keys.push(pkesk),
                _ => self.unreadable = Some(unreadable_key(body)),
            }
        }
        Ok(())
    }

    /// The digest of all of them.
    fn seen(&self) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.copy_from_slice(self.seen.clone().finish().as_ref());
        digest
    }

    /// How many of them are for keys.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Whether a passphrase opens it, or may.
    pub(crate) fn has_passwords(&self) -> bool {
        !self.passwords.is_empty()
    }

    /// Whether nothing but the sealed data say which of several session keys is right, or whether the only
    /// one is. A passphrase in version 4 unwraps to something that looks like a session key once in so many
    /// tries.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.keys.len() + self.passwords.len() > 1 || self.passwords.iter().any(|s| !s.proves())
    }

    /// Names of keys, for an error.
    fn recipients(&self) -> Vec<String> {
        self.keys
            .iter()
            .map(|key| key.recipient().map_or("an unnamed key".to_owned(), |name| name.to_hex()))
            .collect()
    }

    /// The error if nothing fits.
    fn no_secret(&mut self) -> MessageError {
        let (recipients, passwords) = (self.recipients(), self.passwords.len());
        match self.unreadable.take() {
            Some(error) if recipients.is_empty() && passwords == 0 => error,
            _ => MessageError::NoSecret { recipients, passwords },
        }
    }
}

/// Why a session key that is wrapped for a key could not be read.
fn unreadable_key(body: &[u8]) -> MessageError {
    let what = match body.first() {
        Some(3 | 6) => "a wrapped session key of an algorithm that is not known".to_owned(),
        Some(version) => format!("a wrapped session key of version {version}"),
        None => "an empty packet for a wrapped session key".to_owned(),
    };
    MessageError::Unsupported(what)
}

/// What trying passphrases on a message may cost.
struct Purse {
    /// MiB of memory times passes of Argon2 that are left.
    mib: u64,
    limit: u64,
    /// Whether something was too dear.
    short: bool,
    /// Why a passphrase could not be stretched.
    failed: Option<MessageError>,
}

impl Purse {
    fn new(limit: u64) -> Self {
        Self { mib: limit, limit, short: false, failed: None }
    }

    /// Whether stretching for `skesk` can be paid; then it is.
    fn pay(&mut self, skesk: &Skesk) -> bool {
        // One try has half of it for its memory: two passes of the largest are what all may cost.
        let payable = skesk.memory_mib() <= self.limit / 2 && skesk.cost_mib() <= self.mib;
        if payable {
            self.mib -= skesk.cost_mib();
        } else {
            self.short = true;
        }
        payable
    }
}

impl Secrets {
    /// Offers session keys for a message to `fits` until it takes one.
    pub(crate) fn find(
        &mut self,
        remembered: &mut Remembered,
        mut wrapped: Wrapped,
        argon2_mib: u64,
        mut fits: impl FnMut(&Candidate) -> Result<bool>,
    ) -> Result<Candidate> {
        for (cipher, key) in &self.session_keys {
            let session_key = SessionKey { cipher: *cipher, key: key.clone() };
            let candidate = Candidate::new(session_key, OpenedBy::SessionKey);
            if fits(&candidate)? {
                return Ok(candidate);
            }
        }
        let seen = wrapped.seen();
        if let Some(known) = remembered.sessions.get(&seen) {
            let (session_key, by) = (known.session_key.copy(), known.by.clone());
            let recipient = known.recipient;
            let candidate = Candidate { session_key, by, remembered: true, recipient };
            if fits(&candidate)? {
                return Ok(candidate);
            }
        }
        let mut refused = Refused::default();
        let mut purse = Purse::new(argon2_mib);
        let mut found = by_key(&mut self.keys, &wrapped, &mut refused, &mut fits)?;
        if found.is_none() && wrapped.has_passwords() {
            found = self.by_given_password(remembered, &wrapped, &mut purse, &mut fits)?;
        }
        if found.is_none()
            && wrapped.keys() > 0
            && let Some(elsewhere) = &mut self.elsewhere
        {
            let mut keys = elsewhere(wrapped.has_passwords())?;
            let here = self.keys.iter().map(|key| key.public().fingerprint()).collect::<Vec<_>>();
            keys.retain(|key| !here.contains(&key.public().fingerprint()));
            found = by_key(&mut keys, &wrapped, &mut refused, &mut fits)?;
        }
        if found.is_none() && wrapped.has_passwords() {
            found = self.by_asked_password(remembered, &wrapped, &mut purse, &mut fits)?;
        }
        let Some(found) = found else {
            return Err(match refused {
                // Whether it was unwrapped says something about the key, see the error.
                Refused { unopened: true, .. } => MessageError::Unopened,
                Refused { key: Some(refusal), .. } if !wrapped.has_passwords() => refusal,
                _ if purse.short => {
                    let what = "a cost of Argon2 (MiB of memory times passes, over all tries)";
                    MessageError::TooLarge { what, limit: argon2_mib }
                }
                _ => purse.failed.unwrap_or_else(|| wrapped.no_secret()),
            });
        };
        let (session_key, recipient) = (found.session_key.copy(), found.recipient);
        let kept = Candidate { recipient, ..Candidate::new(session_key, found.by.clone()) };
        remembered.sessions.insert(seen, kept);
        Ok(found)
    }

    /// Tries the passphrases that were given.
    fn by_given_password(
        &self,
        remembered: &mut Remembered,
        wrapped: &Wrapped,
        purse: &mut Purse,
        fits: &mut impl FnMut(&Candidate) -> Result<bool>,
    ) -> Result<Option<Candidate>> {
        for place in 0..self.passwords.len() {
            if let Some(found) = self.with_password(place, remembered, wrapped, purse, fits)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Asks for passphrases, and tries each.
    fn by_asked_password(
        &mut self,
        remembered: &mut Remembered,
        wrapped: &Wrapped,
        purse: &mut Purse,
        fits: &mut impl FnMut(&Candidate) -> Result<bool>,
    ) -> Result<Option<Candidate>> {
        for asked in 0..ASKED_MAX {
            let Some(password) = self.ask.as_mut().and_then(|ask| ask(asked)) else { break };
            // What fits is kept: the next message may need it.
            self.passwords.push(password);
            let place = self.passwords.len() - 1;
            if let Some(found) = self.with_password(place, remembered, wrapped, purse, fits)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn with_password(
        &self,
        place: usize,
        remembered: &mut Remembered,
        wrapped: &Wrapped,
        purse: &mut Purse,
        fits: &mut impl FnMut(&Candidate) -> Result<bool>,
    ) -> Result<Option<Candidate>> {
        // The cheap ones first: anybody can put a dear one in front of a message.
        let mut skesks: Vec<&Skesk> = wrapped.passwords.iter().take(STRETCHED_MAX).collect();
        skesks.sort_by_key(|skesk| skesk.cost_mib());
        for skesk in skesks {
            let Some(stretched) =
                remembered.stretch(skesk, place, &self.passwords[place], purse)?
            else {
                continue;
            };
            let Some(session_key) = skesk.unwrap(&stretched)? else { continue };
            let candidate = Candidate::new(session_key, OpenedBy::Password(place));
            if fits(&candidate)? {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }
}

/// What became of keys that a message names.
#[derive(Default)]
struct Refused {
    /// One did not unwrap the session key, or what it unwrapped does not fit.
    unopened: bool,
    /// One was not used: it is locked, or a card is not there.
    key: Option<MessageError>,
}

/// Tries the keys that a message names.
fn by_key(
    keys: &mut [DecryptionKey],
    wrapped: &Wrapped,
    refused: &mut Refused,
    fits: &mut impl FnMut(&Candidate) -> Result<bool>,
) -> Result<Option<Candidate>> {
    for pkesk in &wrapped.keys {
        for key in &mut *keys {
            let fingerprint = key.public().fingerprint();
            let handle = openpgp::KeyHandle::from(fingerprint.clone());
            if pkesk.recipient().is_some_and(|recipient| !recipient.aliases(&handle)) {
                continue;
            }
            if pkesk.pk_algo() != key.public().pk_algo() {
                continue;
            }
            let recipient = key.recipient();
            let mut key = Noting { key: key.key.as_mut(), refusal: None };
            let opened = match pkesk {
                PKESK::V3(packet) => {
                    packet.decrypt(&mut key, None).map(|(cipher, key)| (Some(cipher), key))
                }
                PKESK::V6(packet) => packet.decrypt(&mut key, None).map(|key| (None, key)),
                _ => None,
            };
            let Some((cipher, session_key)) = opened else {
                match (key.refusal, unsupported(key.key.public())) {
                    (Some(refusal), _) => refused.key = Some(refusal),
                    (None, Some(what)) => {
                        let why = format!("is {what}, which is not supported");
                        refused.key = Some(MessageError::Key { name: fingerprint.to_hex(), why });
                    }
                    (None, None) => refused.unopened = true,
                }
                continue;
            };
            // It is under a checksum: a wrong session key does not get this far.
            let cipher = match cipher.map(|cipher| Cipher::from_number(cipher.into())).transpose() {
                Ok(cipher) => cipher,
                Err(error) => {
                    refused.key = Some(error);
                    continue;
                }
            };
            let session_key = SessionKey { cipher, key: Zeroizing::new(session_key.to_vec()) };
            let by = OpenedBy::Key(fingerprint.to_hex());
            let candidate = Candidate { recipient, ..Candidate::new(session_key, by) };
            if fits(&candidate)? {
                return Ok(Some(candidate));
            }
            refused.unopened = true;
        }
    }
    Ok(None)
}

/// A key that notes why it did not work, which Sequoia keeps to itself.
struct Noting<'k> {
    key: &'k mut (dyn Decryptor + Send + Sync),
    /// One of our errors, if it was one.
    refusal: Option<MessageError>,
}

impl Decryptor for Noting<'_> {
    fn public(&self) -> &Key<PublicParts, UnspecifiedRole> {
        self.key.public()
    }

    fn decrypt(
        &mut self,
        ciphertext: &mpi::Ciphertext,
        plaintext_len: Option<usize>,
    ) -> openpgp::Result<openpgp::crypto::SessionKey> {
        self.key.decrypt(ciphertext, plaintext_len).or_else(|error| {
            let error = error.downcast::<MessageError>();
            error.and_then(|error| {
                let said = error.to_string();
                self.refusal = Some(error);
                Err(MessageError::Secret(said.into()).into())
            })
        })
    }
}

impl SessionKey {
    fn copy(&self) -> Self {
        Self { cipher: self.cipher, key: self.key.clone() }
    }
}

/// What was computed for earlier messages. Without a limit given it keeps nothing.
#[derive(Default)]
pub(crate) struct Remembered {
    /// Stretched passphrases by S2K, length and place of the passphrase.
    stretched: Bounded<(Vec<u8>, usize, usize), Zeroizing<Vec<u8>>>,
    /// Session keys by the digest of the packets that wrap them. Not by the packets: strangers can send large
    /// ones.
    sessions: Bounded<[u8; 32], Candidate>,
}

impl Remembered {
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { stretched: Bounded::new(limit), sessions: Bounded::new(limit) }
    }

    /// Stretches a passphrase, if that was not done before and can be paid.
    fn stretch(
        &mut self,
        skesk: &Skesk,
        place: usize,
        password: &Password,
        purse: &mut Purse,
    ) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let s2k = skesk.s2k.to_vec().map_err(MessageError::secret)?;
        let key = (s2k, skesk.key_bytes(), place);
        if let Some(stretched) = self.stretched.get(&key) {
            return Ok(Some(stretched.clone()));
        }
        if !purse.pay(skesk) {
            return Ok(None);
        }
        match skesk.stretch(password) {
            Ok(stretched) => {
                self.stretched.insert(key, stretched.clone());
                Ok(Some(stretched))
            }
            // Another packet may be the one.
            Err(error) => {
                purse.failed = Some(error);
                Ok(None)
            }
        }
    }
}

/// A map that forgets what came in first.
struct Bounded<K, V> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
    limit: usize,
}

impl<K, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Self { map: HashMap::new(), order: VecDeque::new(), limit: 0 }
    }
}

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    fn insert(&mut self, key: K, value: V) {
        if self.limit == 0 || self.map.contains_key(&key) {
            return;
        }
        if self.order.len() == self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.map.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.map.insert(key, value);
    }
}
