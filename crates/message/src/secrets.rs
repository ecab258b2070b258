//! The secrets that decrypt messages: secret keys, passphrases, session keys, and a cache of values
//! derived from them.

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
use crate::error::{Cost, KeyFault, MessageError, Result};
use crate::guard::guarded;
use crate::password::{SessionKey, Skesk};
use crate::unsupported::unsupported;

/// A secret key that can unwrap session keys, in memory or elsewhere. It is used only for messages
/// that name it as a recipient or name nobody, so it may ask for a passphrase on use.
pub struct DecryptionKey {
    key: Box<dyn Decryptor + Send + Sync>,
    certificate: openpgp::Fingerprint,
}

impl DecryptionKey {
    /// Names the certificate of the key by its fingerprint.
    #[must_use]
    pub fn new(key: Box<dyn Decryptor + Send + Sync>, certificate: openpgp::Fingerprint) -> Self {
        Self { key, certificate }
    }

    /// The fingerprint of the key's certificate.
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

/// A function that gives secret keys from elsewhere, an agent or a card, for a message that nothing
/// else decrypts. Its argument is true if the message can be decrypted with a passphrase. Then the
/// given passphrases are meant for the message, and none of them is for an agent or a card.
pub type Elsewhere = Box<dyn FnMut(bool) -> Result<Vec<DecryptionKey>> + Send>;

/// The secrets to decrypt a message, in the order of the tries: session keys, secret keys,
/// passphrases, keys from elsewhere, and passphrases that `ask` gives.
#[derive(Default)]
pub struct Secrets {
    /// Secret keys in memory.
    pub keys: Vec<DecryptionKey>,
    /// Secret keys in an agent or on a card.
    pub elsewhere: Option<Elsewhere>,
    /// Passphrases to try.
    pub passwords: Vec<Password>,
    /// Session keys, each with its cipher if that is known (version 1 messages need it).
    pub session_keys: Vec<(Option<Cipher>, Zeroizing<Vec<u8>>)>,
    /// A function that is called for another passphrase when none fits, with the number of
    /// passphrases it gave before.
    pub ask: Option<Box<dyn FnMut(usize) -> Option<Password> + Send>>,
}

/// The secret that decrypted a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OpenedBy {
    /// The key with this fingerprint.
    Key(String),
    /// A passphrase: its index among the given ones and those from `ask`.
    Password(usize),
    /// A given session key.
    SessionKey,
}

/// A session key to try.
pub(crate) struct Candidate {
    pub(crate) session_key: SessionKey,
    pub(crate) by: OpenedBy,
    /// The session key was cached for an earlier message with the same wrapped session keys.
    pub(crate) remembered: bool,
    /// The certificate of the key that unwrapped it, the possible intended recipient of the
    /// signatures.
    pub(crate) recipient: Option<Fingerprint>,
}

impl Candidate {
    fn new(session_key: SessionKey, by: OpenedBy) -> Self {
        Self { session_key, by, remembered: false, recipient: None }
    }
}

/// The maximum number of packets with wrapped session keys in front of a message.
const WRAPPED_MAX: usize = 4096;
/// The maximum number of bytes in all these packets, readable or not: enough for the same number of
/// packets for larger, future keys.
const WRAPPED_BYTES_MAX: usize = 8 << 20;
/// The maximum number of packets on which a passphrase is tried: each costs 40 ms and more.
const STRETCHED_MAX: usize = 16;
/// The length of the shortest session key, in bytes.
const SESSION_KEY_BYTES_MIN: usize = 16;
/// The maximum number of passphrases to ask for.
const ASKED_MAX: usize = 3;

/// The wrapped session keys of a message.
pub(crate) struct Wrapped {
    keys: Vec<PKESK>,
    passwords: Vec<Skesk>,
    /// The number of packets, and of bytes in them.
    count: usize,
    bytes: usize,
    /// A digest of all packets, to recognise the same packets again.
    seen: digest::Context,
    /// The reason why a packet could not be parsed.
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
            return Err(MessageError::TooLarge { what: "bytes of wrapped session keys", limit });
        }
        // The digest does not depend on the form of the packet header.
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
            match guarded(|| openpgp::Packet::from_bytes(&packet)) {
                Some(Ok(openpgp::Packet::PKESK(pkesk))) => self.keys.push(pkesk),
                _ => self.unreadable = Some(unreadable_key(body)),
            }
        }
        Ok(())
    }

    /// The digest of all packets.
    fn seen(&self) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.copy_from_slice(self.seen.clone().finish().as_ref());
        digest
    }

    /// The number of session keys that are wrapped for keys.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Whether a passphrase can or may decrypt the message.
    pub(crate) fn has_passwords(&self) -> bool {
        !self.passwords.is_empty()
    }

    /// Whether only the encrypted data can show which of several session keys is right, or whether
    /// the only one is. In version 4, a wrong passphrase occasionally unwraps to something that
    /// looks like a session key.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.keys.len() + self.passwords.len() > 1 || self.passwords.iter().any(|s| !s.proves())
    }

    /// The names of the keys, for an error.
    pub(crate) fn recipients(&self) -> Vec<String> {
        self.keys
            .iter()
            .map(|key| key.recipient().map_or(HIDDEN_RECIPIENT.to_owned(), |name| name.to_hex()))
            .collect()
    }

    /// The error if no secret fits.
    fn no_secret(&mut self) -> MessageError {
        let (recipients, passwords) = (self.recipients(), self.passwords.len());
        match self.unreadable.take() {
            Some(error) if recipients.is_empty() && passwords == 0 => error,
            _ => MessageError::NoSecret { recipients, passwords },
        }
    }
}

/// The name of a recipient whom the sender has hidden.
pub const HIDDEN_RECIPIENT: &str = "an unnamed key";

/// The reason why a session key that is wrapped for a key could not be parsed.
fn unreadable_key(body: &[u8]) -> MessageError {
    let what = match body.first() {
        Some(3 | 6) => "a wrapped session key of an unknown algorithm".to_owned(),
        Some(version) => format!("a wrapped session key of version {version}"),
        None => "an empty packet for a wrapped session key".to_owned(),
    };
    MessageError::Unsupported(what)
}

/// The budget for trying passphrases on a message.
struct Purse {
    /// The remaining budget of Argon2: MiB of memory times passes.
    mib: u64,
    limit: u64,
    /// Whether the budget was too small for a try.
    short: bool,
    /// The reason why a passphrase could not be stretched.
    failed: Option<MessageError>,
}

impl Purse {
    fn new(limit: u64) -> Self {
        Self { mib: limit, limit, short: false, failed: None }
    }

    /// Whether the budget is enough to stretch a passphrase for `skesk`. If so, the cost is
    /// deducted.
    fn pay(&mut self, skesk: &Skesk) -> bool {
        // One try may use half of the limit as memory, because the largest memory needs two passes
        // within the limit.
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
    /// Offers session keys for a message to `fits` until it accepts one.
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
                // A separate error would tell a sender whether the key unwrapped the session key,
                // see [`MessageError::Unopened`].
                Refused { unopened: true, .. } => {
                    MessageError::Unopened { recipients: wrapped.recipients() }
                }
                Refused { key: Some(refusal), .. } if !wrapped.has_passwords() => refusal,
                _ if purse.short => {
                    MessageError::OverLimit { what: Cost::Argon2, limit: argon2_mib }
                }
                _ => purse.failed.unwrap_or_else(|| wrapped.no_secret()),
            });
        };
        let (session_key, recipient) = (found.session_key.copy(), found.recipient);
        let kept = Candidate { recipient, ..Candidate::new(session_key, found.by.clone()) };
        remembered.sessions.insert(seen, kept);
        Ok(found)
    }

    /// Tries the given passphrases.
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
            // Keep the passphrase that fits: the next message may need it.
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
        // Try the cheap packets first: anybody can put an expensive one in front of a message.
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

/// The outcome for keys that a message names.
#[derive(Default)]
struct Refused {
    /// A key did not unwrap the session key, or unwrapped one that does not fit.
    unopened: bool,
    /// A key was not used: it is locked, or its card is missing.
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
            let opened = guarded(|| match pkesk {
                PKESK::V3(packet) => {
                    packet.decrypt(&mut key, None).map(|(cipher, key)| (Some(cipher), key))
                }
                PKESK::V6(packet) => packet.decrypt(&mut key, None).map(|key| (None, key)),
                _ => None,
            });
            let Some((cipher, session_key)) = opened.flatten() else {
                match (key.refusal, unsupported(key.key.public())) {
                    (Some(refusal), _) => refused.key = Some(refusal),
                    (None, Some(what)) => {
                        let why = KeyFault::Other(format!("is {what}, which is not supported"));
                        refused.key = Some(MessageError::Key { name: fingerprint.to_hex(), why });
                    }
                    (None, None) => refused.unopened = true,
                }
                continue;
            };
            // A checksum protects the session key, so a wrong one does not get this far.
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

/// A key that records its error, because Sequoia does not report it.
struct Noting<'k> {
    key: &'k mut (dyn Decryptor + Send + Sync),
    /// The recorded error, if it is a [`MessageError`].
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
        let unwrapped = self.key.decrypt(ciphertext, plaintext_len).or_else(|error| {
            let error = error.downcast::<MessageError>();
            error.and_then(|error| {
                let said = error.to_string();
                self.refusal = Some(error);
                Err(MessageError::Secret(said.into()).into())
            })
        })?;
        // Sequoia takes bytes for the cipher and the checksum out of the content without looking at
        // its length.
        if unwrapped.len() < SESSION_KEY_BYTES_MIN {
            return Err(MessageError::Malformed("a wrapped session key is too short").into());
        }
        Ok(unwrapped)
    }
}

impl SessionKey {
    fn copy(&self) -> Self {
        Self { cipher: self.cipher, key: self.key.clone() }
    }
}

/// The cache of values from earlier messages. Without a limit it keeps nothing.
#[derive(Default)]
pub(crate) struct Remembered {
    /// Stretched passphrases by S2K, key length and index of the passphrase.
    stretched: Bounded<(Vec<u8>, usize, usize), Zeroizing<Vec<u8>>>,
    /// Session keys by the digest of the packets that wrap them. The packets themselves would be
    /// too large as keys: strangers can send large ones.
    sessions: Bounded<[u8; 32], Candidate>,
}

impl Remembered {
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { stretched: Bounded::new(limit), sessions: Bounded::new(limit) }
    }

    /// Stretches a passphrase, or takes it from the cache; `None` if the budget is too small.
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
            // Another packet may fit.
            Err(error) => {
                purse.failed = Some(error);
                Ok(None)
            }
        }
    }
}

/// A map of limited size that drops its oldest entry.
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
