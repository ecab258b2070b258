//! What opens messages: secret keys, passphrases, session keys, and what was computed from them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use sequoia_openpgp as openpgp;
use sequoia_openpgp::crypto::{Decryptor, Password, mpi};
use sequoia_openpgp::packet::key::{PublicParts, UnspecifiedRole};
use sequoia_openpgp::packet::{Key, PKESK};
use sequoia_openpgp::parse::Parse as _;
use sequoia_openpgp::serialize::MarshalInto as _;
use zeroize::Zeroizing;

use crate::algorithm::Cipher;
use crate::error::{MessageError, Result};
use crate::password::{SessionKey, Skesk};

/// A secret key that can unwrap session keys, wherever it is. It is asked only for messages that name it,
/// or nobody, so it may ask for a passphrase when it is.
pub type DecryptionKey = Box<dyn Decryptor + Send + Sync>;

/// What a message may be opened with.
#[derive(Default)]
pub struct Secrets {
    /// Secret keys.
    pub keys: Vec<DecryptionKey>,
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
}

/// Packets with wrapped session keys in front of a message.
const WRAPPED_MAX: usize = 4096;
/// Packets that a passphrase is tried on: each costs 40 ms and more.
const STRETCHED_MAX: usize = 16;
/// Passphrases that are asked for.
const ASKED_MAX: usize = 3;

/// The wrapped session keys of a message.
#[derive(Default)]
pub(crate) struct Wrapped {
    keys: Vec<PKESK>,
    passwords: Vec<Skesk>,
    /// All of them as they are in the message, to recognise them again.
    packets: Vec<u8>,
    /// Why one could not be read, if none could.
    unreadable: Option<MessageError>,
}

impl Wrapped {
    /// Adds a packet.
    pub(crate) fn add(&mut self, tag: u8, body: &[u8]) -> Result<()> {
        if self.keys.len() + self.passwords.len() == WRAPPED_MAX {
            let limit = WRAPPED_MAX as u64;
            return Err(MessageError::TooLarge { what: "wrapped session keys", limit });
        }
        let start = self.packets.len();
        crate::framing::write_packet(&mut self.packets, tag, body)?;
        if tag == crate::framing::tag::SKESK {
            match Skesk::parse(body) {
                Ok(skesk) => self.passwords.push(skesk),
                Err(error) => self.unreadable = Some(error),
            }
        } else if let Ok(openpgp::Packet::PKESK(pkesk)) =
            openpgp::Packet::from_bytes(&self.packets[start..])
        {
            self.keys.push(pkesk);
        }
        Ok(())
    }

    /// Names of keys, for an error.
    fn recipients(&self) -> Vec<String> {
        self.keys
            .iter()
            .map(|key| key.recipient().map_or("an unnamed key".to_owned(), |name| name.to_hex()))
            .collect()
    }

    /// The error if nothing fits.
    pub(crate) fn no_secret(mut self) -> MessageError {
        let (recipients, passwords) = (self.recipients(), self.passwords.len());
        match self.unreadable.take() {
            Some(error) if recipients.is_empty() && passwords == 0 => error,
            _ => MessageError::NoSecret { recipients, passwords },
        }
    }
}

impl Secrets {
    /// Offers session keys for a message to `fits` until it takes one.
    pub(crate) fn find(
        &mut self,
        remembered: &mut Remembered,
        wrapped: Wrapped,
        mut fits: impl FnMut(&Candidate) -> Result<bool>,
    ) -> Result<Candidate> {
        for (cipher, key) in &self.session_keys {
            let session_key = SessionKey { cipher: *cipher, key: key.clone() };
            let candidate = Candidate { session_key, by: OpenedBy::SessionKey };
            if fits(&candidate)? {
                return Ok(candidate);
            }
        }
        if let Some(known) = remembered.sessions.get(&wrapped.packets) {
            let (session_key, by) = (known.session_key.copy(), known.by.clone());
            let candidate = Candidate { session_key, by };
            if fits(&candidate)? {
                return Ok(candidate);
            }
        }
        let mut found = self.by_key(&wrapped, &mut fits)?;
        if found.is_none() && !wrapped.passwords.is_empty() {
            found = self.by_password(remembered, &wrapped, &mut fits)?;
        }
        let Some(found) = found else { return Err(wrapped.no_secret()) };
        let kept = Candidate { session_key: found.session_key.copy(), by: found.by.clone() };
        remembered.sessions.insert(wrapped.packets, kept);
        Ok(found)
    }

    fn by_key(
        &mut self,
        wrapped: &Wrapped,
        fits: &mut impl FnMut(&Candidate) -> Result<bool>,
    ) -> Result<Option<Candidate>> {
        let mut refused = None;
        for pkesk in &wrapped.keys {
            for key in &mut self.keys {
                let fingerprint = key.public().fingerprint();
                let handle = openpgp::KeyHandle::from(fingerprint.clone());
                if pkesk.recipient().is_some_and(|recipient| !recipient.aliases(&handle)) {
                    continue;
                }
                if pkesk.pk_algo() != key.public().pk_algo() {
                    continue;
                }
                let mut key = Noting { key: key.as_mut(), refusal: None };
                let opened = match pkesk {
                    PKESK::V3(packet) => {
                        packet.decrypt(&mut key, None).map(|(cipher, key)| (Some(cipher), key))
                    }
                    PKESK::V6(packet) => packet.decrypt(&mut key, None).map(|key| (None, key)),
                    _ => None,
                };
                let Some((cipher, session_key)) = opened else {
                    refused = Some(key.refusal.unwrap_or_else(|| MessageError::Key {
                        name: fingerprint.to_hex(),
                        why: "did not open the message, which may be damaged".into(),
                    }));
                    continue;
                };
                let cipher = cipher.map(|cipher| Cipher::from_number(cipher.into())).transpose()?;
                let key = Zeroizing::new(session_key.to_vec());
                let candidate = Candidate {
                    session_key: SessionKey { cipher, key },
                    by: OpenedBy::Key(fingerprint.to_hex()),
                };
                if fits(&candidate)? {
                    return Ok(Some(candidate));
                }
            }
        }
        match refused {
            Some(refusal) if wrapped.passwords.is_empty() => Err(refusal),
            _ => Ok(None),
        }
    }

    fn by_password(
        &mut self,
        remembered: &mut Remembered,
        wrapped: &Wrapped,
        fits: &mut impl FnMut(&Candidate) -> Result<bool>,
    ) -> Result<Option<Candidate>> {
        let mut place = 0;
        let mut asked = 0;
        loop {
            if place == self.passwords.len() {
                // What fits is kept: the next message may need it.
                let ask = self.ask.as_mut().filter(|_| asked < ASKED_MAX);
                match ask.and_then(|ask| ask(asked)) {
                    Some(password) => self.passwords.push(password),
                    None => return Ok(None),
                }
                asked += 1;
            }
            for skesk in wrapped.passwords.iter().take(STRETCHED_MAX) {
                let stretched = remembered.stretch(skesk, place, &self.passwords[place])?;
                let Some(session_key) = skesk.unwrap(&stretched)? else { continue };
                let candidate = Candidate { session_key, by: OpenedBy::Password(place) };
                if fits(&candidate)? {
                    return Ok(Some(candidate));
                }
            }
            place += 1;
        }
    }
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
    /// Session keys by the packets that wrap them.
    sessions: Bounded<Vec<u8>, Candidate>,
}

impl Remembered {
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { stretched: Bounded::new(limit), sessions: Bounded::new(limit) }
    }

    fn stretch(
        &mut self,
        skesk: &Skesk,
        place: usize,
        password: &Password,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let s2k = skesk.s2k.to_vec().map_err(MessageError::secret)?;
        let key = (s2k, skesk.key_bytes(), place);
        if let Some(stretched) = self.stretched.get(&key) {
            return Ok(stretched.clone());
        }
        let stretched = skesk.stretch(password)?;
        self.stretched.insert(key, stretched.clone());
        Ok(stretched)
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
