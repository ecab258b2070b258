//! Signing of documents (RFC 9580, section 5.2).

use std::io::{Read, Write};
use std::sync::Arc;

use aws_lc_rs::signature::Ed25519KeyPair;
use rayon::prelude::*;
use sequoia_openpgp::Fingerprint;
use sequoia_openpgp::crypto::mpi;
use sequoia_openpgp::crypto::{KeyPair, Signer};
use sequoia_openpgp::packet::Key;
use sequoia_openpgp::packet::key::{PublicParts, UnspecifiedRole};
use sequoia_openpgp::serialize::MarshalInto as _;
use sequoia_openpgp::types::{Curve, HashAlgorithm, PublicKeyAlgorithm};
use talaria_cert::{Hasher, LOG_NOTATION};

use crate::error::{MessageError, Result};
use crate::framing::{self, tag};
use crate::lines::Canonical;
use crate::preferences::{Preferences, digest_bytes};
use crate::random;

/// Type of a signature on binary data (RFC 9580, section 5.2.1.1).
pub(crate) const BINARY: u8 = 0x00;
/// Type of a signature on text (RFC 9580, section 5.2.1.2).
pub(crate) const TEXT: u8 = 0x01;

/// The minimum number of documents for which another core is worthwhile.
const SHARE_MIN: usize = 16;

/// The subpacket with the user ID of the signer (RFC 9580, section 5.2.3.30), and the most bytes of
/// a user ID.
const SIGNERS_USER_ID: u8 = 28;
const USER_ID_BYTES_MAX: usize = 2048;

/// A secret key that is ready to sign.
///
/// Sequoia encrypts a key in memory between uses. An Ed25519 key is in memory a second time for
/// AWS-LC: not encrypted, and overwritten on drop.
pub struct SigningKey {
    secret: Secret,
    /// The same key for the faster implementation, if there is one.
    fast: Option<Arc<Ed25519KeyPair>>,
    fingerprint: Fingerprint,
    version: u8,
    algorithm: u8,
    hash: u8,
    /// The minimum length of the digest for this key, in bytes.
    hash_bytes: usize,
    /// Whether the caller has chosen the digest.
    hash_chosen: bool,
    /// The subpacket with the user ID as which the key signs, if there is one.
    user_id: Arc<[u8]>,
}

/// The place of a secret key.
enum Secret {
    /// In memory, so that each core may have a copy.
    Here(Box<KeyPair>),
    /// In an agent or on a card, which handles one request at a time.
    Elsewhere(Box<dyn Signer + Send + Sync>),
}

impl Secret {
    fn signer(&self) -> &dyn Signer {
        match self {
            Self::Here(pair) => &**pair,
            Self::Elsewhere(signer) => signer,
        }
    }

    fn signer_mut(&mut self) -> &mut dyn Signer {
        match self {
            Self::Here(pair) => &mut **pair,
            Self::Elsewhere(signer) => signer,
        }
    }
}

impl SigningKey {
    /// A signing key in memory.
    #[must_use]
    pub fn new(pair: KeyPair) -> Self {
        let fast = ed25519(&pair).map(Arc::new);
        Self { fast, ..Self::with(Secret::Here(Box::new(pair))) }
    }

    /// A signing key that is elsewhere: in an agent, on a card.
    #[must_use]
    pub fn from_signer(signer: Box<dyn Signer + Send + Sync>) -> Self {
        Self::with(Secret::Elsewhere(signer))
    }

    fn with(secret: Secret) -> Self {
        let key = secret.signer().public();
        let (fingerprint, version) = (key.fingerprint(), key.version());
        let algorithm = u8::from(key.pk_algo());
        let hash = u8::from(hash_for(key, secret.signer().acceptable_hashes()));
        let hash_bytes = digest_bytes(u8::from(hash_needed(key)));
        let fast = None;
        let (hash_chosen, user_id) = (false, Arc::default());
        Self {
            secret,
            fast,
            fingerprint,
            version,
            algorithm,
            hash,
            hash_bytes,
            hash_chosen,
            user_id,
        }
    }

    /// A copy of a key in memory.
    fn another(&self) -> Option<Self> {
        let Secret::Here(pair) = &self.secret else { return None };
        let (secret, fast) = (Secret::Here(pair.clone()), self.fast.clone());
        let (fingerprint, user_id) = (self.fingerprint.clone(), self.user_id.clone());
        Some(Self { secret, fast, fingerprint, user_id, ..*self })
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> &Key<PublicParts, UnspecifiedRole> {
        self.secret.signer().public()
    }

    /// The number of the public-key algorithm (RFC 9580, section 9.1).
    #[must_use]
    pub fn algorithm(&self) -> u8 {
        self.algorithm
    }

    /// The number of the digest (RFC 9580, section 9.5).
    #[must_use]
    pub fn hash(&self) -> u8 {
        self.hash
    }

    /// The name of the digest, as in the `Hash` header of cleartext signatures.
    #[must_use]
    pub fn hash_name(&self) -> &'static str {
        hash_name(self.hash)
    }

    /// Sets the digest: SHA2-256, SHA2-384 or SHA2-512 (8, 9, 10 in RFC 9580, section 9.5).
    ///
    /// # Errors
    ///
    /// [`MessageError::Unsupported`] for all other digests.
    pub fn set_hash(&mut self, hash: u8) -> Result<()> {
        if !(8..=10).contains(&hash) {
            return Err(MessageError::Unsupported(format!("signing with digest number {hash}")));
        }
        (self.hash, self.hash_chosen) = (hash, true);
        Ok(())
    }

    /// Sets the user ID, or the mail address in it, as which the key signs (RFC 9580, section
    /// 5.2.3.30).
    ///
    /// # Errors
    ///
    /// [`MessageError::TooLarge`] for more than 2,048 bytes.
    pub fn sign_as(&mut self, user_id: &[u8]) -> Result<()> {
        if user_id.len() > USER_ID_BYTES_MAX {
            let limit = USER_ID_BYTES_MAX as u64;
            return Err(MessageError::TooLarge { what: "bytes of a user ID", limit });
        }
        let mut subpacket = subpacket_length(user_id.len() + 1);
        subpacket.push(SIGNERS_USER_ID);
        subpacket.extend_from_slice(user_id);
        self.user_id = subpacket.into();
        Ok(())
    }

    /// Selects a digest from the list that the key's owner prefers, if the usual digest is not in
    /// the list.
    pub(crate) fn restrict(&mut self, listed: &[HashAlgorithm]) {
        let safe = |hash: &&HashAlgorithm| {
            let number = u8::from(**hash);
            (8..=10).contains(&number) && digest_bytes(number) >= self.hash_bytes
        };
        if !listed.iter().any(|hash| u8::from(*hash) == self.hash)
            && let Some(first) = listed.iter().find(safe)
            && self.accepts(*first)
        {
            self.hash = u8::from(*first);
        }
    }

    /// Selects the cheapest digest that all recipients of a message accept, unless the caller has
    /// chosen one.
    pub(crate) fn prefer(&mut self, preferences: &Preferences) {
        if !self.hash_chosen
            && let Some(hash) = preferences.digest(self.hash_bytes)
            && self.accepts(HashAlgorithm::from(hash))
        {
            self.hash = hash;
        }
    }

    fn accepts(&self, hash: HashAlgorithm) -> bool {
        self.secret.signer().acceptable_hashes().contains(&hash)
    }

    /// Starts the digest of a document.
    pub(crate) fn begin(&self, text: bool) -> Result<DocumentHasher> {
        let mut salt = Vec::new();
        if self.version == 6 {
            salt = vec![0; salt_bytes(self.hash)];
            random::fill(&mut salt)?;
        }
        DocumentHasher::new(self.hash, text, salt)
    }

    /// The body of a one-pass signature packet (RFC 9580, section 5.4).
    pub(crate) fn one_pass(&self, hasher: &DocumentHasher, last: bool) -> Vec<u8> {
        let version = if self.version == 6 { 6 } else { 3 };
        let mut body = vec![version, hasher.kind(), self.hash, self.algorithm];
        if version == 6 {
            body.push(u8::try_from(hasher.salt.len()).unwrap_or(u8::MAX));
            body.extend_from_slice(&hasher.salt);
            body.extend_from_slice(self.fingerprint.as_bytes());
        } else {
            let id = sequoia_openpgp::KeyID::from(&self.fingerprint);
            body.extend_from_slice(id.as_bytes());
        }
        body.push(u8::from(last));
        body
    }

    /// Signs the document that `hasher` has hashed, at `now` in seconds since 1970. Returns the
    /// body of a signature packet.
    pub(crate) fn finish(&mut self, hasher: DocumentHasher, now: u32) -> Result<Vec<u8>> {
        self.finish_with(hasher, &[], now)
    }

    /// Like [`Self::finish`], with `more` subpackets at the end of the hashed area.
    fn finish_with(
        &mut self,
        mut hasher: DocumentHasher,
        more: &[u8],
        now: u32,
    ) -> Result<Vec<u8>> {
        let version = if self.version == 6 { 6 } else { 4 };
        let mut body = Vec::with_capacity(192);
        body.extend([version, hasher.kind(), self.algorithm, self.hash]);
        // The creation time, critical, and the issuer fingerprint.
        let mut hashed = vec![5, 0x82];
        hashed.extend(now.to_be_bytes());
        let fingerprint = self.fingerprint.as_bytes();
        hashed.extend([u8::try_from(fingerprint.len() + 2).unwrap_or(u8::MAX), 33, self.version]);
        hashed.extend_from_slice(fingerprint);
        hashed.extend_from_slice(&self.user_id);
        hashed.extend_from_slice(more);
        let wide = if version == 6 { 4 } else { 2 };
        let length = |bytes: usize| (bytes as u64).to_be_bytes()[8 - wide..].to_vec();
        body.extend(length(hashed.len()));
        body.extend(hashed);
        hasher.finish_text();
        hasher.inner.update(&body);
        hasher.inner.update(&[version, 0xff]);
        hasher.inner.update(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
        let digest = hasher.inner.finish().ok_or_else(|| unsupported_hash(self.hash))?;
        let digest = digest.as_bytes();
        // The issuer key ID, for readers that know key IDs only.
        let mut unhashed = Vec::new();
        if version == 4 {
            unhashed.extend([9, 16]);
            unhashed.extend_from_slice(sequoia_openpgp::KeyID::from(&self.fingerprint).as_bytes());
        }
        body.extend(length(unhashed.len()));
        body.extend(unhashed);
        body.extend_from_slice(&digest[..2]);
        if version == 6 {
            body.push(u8::try_from(hasher.salt.len()).unwrap_or(u8::MAX));
            body.extend_from_slice(&hasher.salt);
        }
        if let Some(pair) = &self.fast {
            let signed = pair.sign(digest);
            if self.algorithm == 27 {
                body.extend_from_slice(signed.as_ref());
            } else {
                signed.as_ref().chunks(32).for_each(|number| write_mpi(&mut body, number));
            }
        } else {
            let signed = self.secret.signer_mut().sign(HashAlgorithm::from(self.hash), digest);
            let signed: mpi::Signature = signed.map_err(MessageError::secret)?;
            body.extend(signed.to_vec().map_err(MessageError::secret)?);
        }
        Ok(body)
    }

    /// One detached signature on a document in memory: a signature packet.
    ///
    /// # Errors
    ///
    /// [`MessageError::Secret`] if the key refuses to sign.
    pub fn sign(&mut self, document: &[u8], now: u32) -> Result<Vec<u8>> {
        let mut hasher = self.begin(false)?;
        hasher.update(document);
        let body = self.finish(hasher, now)?;
        let mut packet = Vec::with_capacity(body.len() + 3);
        framing::write_packet(&mut packet, tag::SIGNATURE, &body)?;
        Ok(packet)
    }

    /// One detached signature in memory on an entry of the log `log`, or on a statement about
    /// entries (`docs/formats/log.md`). Verifiers of documents refuse it.
    ///
    /// # Errors
    ///
    /// [`MessageError::Secret`] if the key refuses to sign.
    pub fn sign_for_log(&mut self, entry: &[u8], log: &[u8; 32], now: u32) -> Result<Vec<u8>> {
        let name = LOG_NOTATION.as_bytes();
        let lengths = [0, 0, 0, 0, 0, u8::try_from(name.len()).unwrap_or(u8::MAX), 0, 32];
        let body = [&[20], &lengths[..], name, log].concat();
        let mut notation = vec![u8::try_from(body.len()).unwrap_or(u8::MAX)];
        notation.extend(body);
        let mut hasher = self.begin(false)?;
        hasher.update(entry);
        let body = self.finish_with(hasher, &notation, now)?;
        let mut packet = Vec::with_capacity(body.len() + 3);
        framing::write_packet(&mut packet, tag::SIGNATURE, &body)?;
        Ok(packet)
    }

    /// Makes a detached signature on each of `documents`, on all cores if the key is in memory.
    ///
    /// # Errors
    ///
    /// [`MessageError::Secret`] if the key refuses to sign.
    pub fn sign_many<B: AsRef<[u8]> + Sync>(
        &mut self,
        documents: &[B],
        now: u32,
    ) -> Result<Vec<Vec<u8>>> {
        let sign = |key: &mut Self, documents: &[B]| -> Result<Vec<Vec<u8>>> {
            documents.iter().map(|document| key.sign(document.as_ref(), now)).collect()
        };
        let share = documents.len().div_ceil(rayon::current_num_threads()).max(SHARE_MIN);
        let shares = documents.par_chunks(share);
        // A key that cannot be copied signs all documents.
        let Some(signed) = shares
            .map(|share| self.another().map(|mut key| sign(&mut key, share)))
            .collect::<Option<Vec<_>>>()
        else {
            return sign(self, documents);
        };
        Ok(signed.into_iter().collect::<Result<Vec<_>>>()?.concat())
    }
}

/// The key for AWS-LC, if it is an Ed25519 key in either form.
fn ed25519(pair: &KeyPair) -> Option<Ed25519KeyPair> {
    let point: [u8; 32] = match pair.public().mpis() {
        mpi::PublicKey::Ed25519 { a } => *a,
        mpi::PublicKey::EdDSA { curve: Curve::Ed25519, q } => {
            q.value().strip_prefix(&[0x40])?.try_into().ok()?
        }
        _ => return None,
    };
    pair.secret().map(|secret| {
        let seed: Vec<u8> = match secret {
            mpi::SecretKeyMaterial::Ed25519 { x } => x.to_vec(),
            mpi::SecretKeyMaterial::EdDSA { scalar } => {
                let mut seed = vec![0; 32usize.checked_sub(scalar.value().len())?];
                seed.extend_from_slice(scalar.value());
                seed
            }
            _ => return None,
        };
        let seed = zeroize::Zeroizing::new(seed);
        Ed25519KeyPair::from_seed_and_public_key(&seed, &point).ok()
    })
}

/// The shortest digest that readers accept for signatures by a key.
fn hash_needed(key: &Key<PublicParts, UnspecifiedRole>) -> HashAlgorithm {
    match (key.pk_algo(), key.mpis()) {
        (_, mpi::PublicKey::ECDSA { curve: Curve::NistP384, .. }) => HashAlgorithm::SHA384,
        // GnuPG requires 512 bits for both of the larger Brainpool curves.
        (
            _,
            mpi::PublicKey::ECDSA {
                curve: Curve::NistP521 | Curve::BrainpoolP384 | Curve::BrainpoolP512,
                ..
            },
        )
        | (PublicKeyAlgorithm::Ed448, _) => HashAlgorithm::SHA512,
        _ => HashAlgorithm::SHA256,
    }
}

/// The default digest for signatures by a key.
fn hash_for(key: &Key<PublicParts, UnspecifiedRole>, accepted: &[HashAlgorithm]) -> HashAlgorithm {
    let wanted = match hash_needed(key) {
        // SHA2-512 for long-term security of signatures; half as fast.
        _ if key.version() == 6 => HashAlgorithm::SHA512,
        needed => needed,
    };
    if accepted.contains(&wanted) { wanted } else { accepted.first().copied().unwrap_or(wanted) }
}

/// The length in bytes of the salt of version 6 signatures (RFC 9580, section 9.5).
pub(crate) fn salt_bytes(hash: u8) -> usize {
    match hash {
        9 => 24,
        10 | 14 => 32,
        _ => 16,
    }
}

pub(crate) fn hash_name(hash: u8) -> &'static str {
    talaria_cert::digest_name(hash).unwrap_or("unknown")
}

pub(crate) fn unsupported_hash(hash: u8) -> MessageError {
    MessageError::Unsupported(format!("digest number {hash}"))
}

/// The length of a subpacket as it is written (RFC 9580, section 5.2.3.7).
fn subpacket_length(bytes: usize) -> Vec<u8> {
    match u16::try_from(bytes) {
        Ok(short @ 0..192) => vec![short.to_be_bytes()[1]],
        Ok(middle) if bytes < 16_320 => (middle - 192 + (192 << 8)).to_be_bytes().to_vec(),
        _ => [&[255][..], &u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()].concat(),
    }
}

fn write_mpi(out: &mut Vec<u8>, number: &[u8]) {
    let start = number.iter().position(|&byte| byte != 0).unwrap_or(number.len());
    let number = &number[start..];
    let bits = number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize);
    out.extend(u16::try_from(bits).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(number);
}

/// The digest of a document: unchanged, or as text with canonical line ends (RFC 9580, section
/// 5.2.4).
#[derive(Clone)]
pub(crate) struct DocumentHasher {
    pub(crate) inner: Hasher,
    hash: u8,
    text: bool,
    pub(crate) salt: Vec<u8>,
    lines: Canonical,
}

impl DocumentHasher {
    pub(crate) fn new(hash: u8, text: bool, salt: Vec<u8>) -> Result<Self> {
        let mut inner = Hasher::new(hash).ok_or_else(|| unsupported_hash(hash))?;
        inner.update(&salt);
        Ok(Self { inner, hash, text, salt, lines: Canonical::default() })
    }

    /// Whether this is the digest of an algorithm, for text or not, with a salt.
    pub(crate) fn is(&self, hash: u8, text: bool, salt: &[u8]) -> bool {
        (self.hash, self.text) == (hash, text) && self.salt == salt
    }

    fn kind(&self) -> u8 {
        if self.text { TEXT } else { BINARY }
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        let Self { inner, text, lines, .. } = self;
        if *text { lines.push(data, |text| inner.update(text)) } else { inner.update(data) }
    }

    /// Hashes a final carriage return that was held back.
    pub(crate) fn finish_text(&mut self) {
        let Self { inner, lines, .. } = self;
        lines.finish(|text| inner.update(text));
    }
}

/// Signs the data of `input` and writes the signature packets.
///
/// # Errors
///
/// [`MessageError::Read`], [`MessageError::Write`], or [`MessageError::Secret`] if a key refuses.
pub fn sign_detached(
    input: &mut impl Read,
    output: &mut impl Write,
    signers: &mut [SigningKey],
    text: bool,
    now: u32,
) -> Result<()> {
    let mut hashers =
        signers.iter().map(|signer| signer.begin(text)).collect::<Result<Vec<_>>>()?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = framing::read_full(input, &mut buffer)?;
        hashers.iter_mut().for_each(|hasher| hasher.update(&buffer[..read]));
        if read < buffer.len() {
            break;
        }
    }
    for (signer, hasher) in signers.iter_mut().zip(hashers) {
        let body = signer.finish(hasher, now)?;
        let mut packet = Vec::new();
        framing::write_packet(&mut packet, tag::SIGNATURE, &body)?;
        output.write_all(&packet).map_err(MessageError::write)?;
    }
    Ok(())
}
