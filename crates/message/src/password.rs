//! Session keys wrapped with passphrases (RFC 9580, section 5.3; version 5 is GnuPG's,
//! draft-koch-librepgp, section 5.3.2).

use openssl::cipher_ctx::CipherCtx;
use sequoia_openpgp::crypto::{Password, S2K};
use sequoia_openpgp::parse::Parse as _;
use sequoia_openpgp::serialize::MarshalInto as _;
use zeroize::Zeroizing;

use crate::aead::AeadKey;
use crate::algorithm::{Aead, Cipher, TAG_BYTES};
use crate::error::{MessageError, Result};
use crate::framing::tag;
use crate::guard::guarded;
use crate::kdf::hkdf_sha256;
use crate::random;

/// A session key, and its cipher if the packet tells the cipher.
pub(crate) struct SessionKey {
    pub(crate) cipher: Option<Cipher>,
    pub(crate) key: Zeroizing<Vec<u8>>,
}

/// A session key wrapped with a passphrase.
#[derive(Clone, Debug)]
pub(crate) struct Skesk {
    version: u8,
    cipher: Cipher,
    aead: Option<Aead>,
    pub(crate) s2k: S2K,
    nonce: Vec<u8>,
    /// The wrapped key; empty if the stretched passphrase itself is the session key (version 4
    /// only).
    wrapped: Vec<u8>,
}

/// The largest memory parameter of Argon2 in the format, as a power of two of KiB (RFC 9580,
/// section 3.7.1.4). [`ReadLimits::argon2_mib`](crate::ReadLimits::argon2_mib) limits the memory
/// that a message may actually use.
const ARGON2_LOG_KIB_MAX: u8 = 31;

const SHORT: MessageError =
    MessageError::Malformed("a packet with a wrapped session key is too short");

impl Skesk {
    /// Parses the body of a packet.
    pub(crate) fn parse(body: &[u8]) -> Result<Self> {
        let version = *body.first().ok_or(SHORT)?;
        let fields = match version {
            4 | 5 => &body[1..],
            6 => body.get(2..).ok_or(SHORT)?,
            other => {
                let what = format!("a wrapped session key of version {other}");
                return Err(MessageError::Unsupported(what));
            }
        };
        let (&cipher, mut rest) = fields.split_first().ok_or(SHORT)?;
        let cipher = Cipher::from_number(cipher)?;
        let mut aead = None;
        if version > 4 {
            let (&mode, behind) = rest.split_first().ok_or(SHORT)?;
            aead = Some(Aead::from_number(mode)?);
            rest = behind;
        }
        if version == 6 {
            let (_, behind) = rest.split_first().ok_or(SHORT)?;
            rest = behind;
        }
        let s2k_bytes = match rest.first().ok_or(SHORT)? {
            0 => 2,
            1 => 10,
            3 => 11,
            4 => 20,
            other => return Err(MessageError::Unsupported(format!("S2K number {other}"))),
        };
        let (s2k, rest) = rest.split_at_checked(s2k_bytes).ok_or(SHORT)?;
        let s2k = S2K::from_bytes(s2k).map_err(|_| SHORT)?;
        if let S2K::Argon2 { m, .. } = s2k
            && m > ARGON2_LOG_KIB_MAX
        {
            return Err(MessageError::Malformed(
                "Argon2 asks for more memory than the format allows",
            ));
        }
        let (nonce, wrapped) =
            rest.split_at_checked(aead.map_or(0, Aead::nonce_bytes)).ok_or(SHORT)?;
        if aead.is_some() && wrapped.len() < TAG_BYTES {
            return Err(SHORT);
        }
        Ok(Self { version, cipher, aead, s2k, nonce: nonce.to_vec(), wrapped: wrapped.to_vec() })
    }

    /// The memory needed to try a passphrase, in MiB.
    pub(crate) fn memory_mib(&self) -> u64 {
        match self.s2k {
            S2K::Argon2 { m, .. } => (1 << m.min(ARGON2_LOG_KIB_MAX).saturating_sub(10)).max(1),
            _ => 0,
        }
    }

    /// The cost of trying a passphrase: MiB of memory times passes of Argon2.
    pub(crate) fn cost_mib(&self) -> u64 {
        match self.s2k {
            S2K::Argon2 { t, .. } => self.memory_mib() * u64::from(t),
            _ => 0,
        }
    }

    /// Whether a successful unwrapping proves that the passphrase is right.
    pub(crate) fn proves(&self) -> bool {
        self.aead.is_some()
    }

    /// The length of a stretched passphrase in bytes.
    pub(crate) fn key_bytes(&self) -> usize {
        self.cipher.key_bytes()
    }

    /// Stretches a passphrase: about 40 ms with iterated S2K; with Argon2 the parameters decide.
    pub(crate) fn stretch(&self, password: &Password) -> Result<Zeroizing<Vec<u8>>> {
        let key = guarded(|| self.s2k.derive_key(password, self.cipher.key_bytes()));
        let unsupported = || MessageError::Unsupported(format!("the S2K {:?}", self.s2k));
        let key = key.and_then(sequoia_openpgp::Result::ok).ok_or_else(unsupported)?;
        Ok(Zeroizing::new(key.to_vec()))
    }

    /// Unwraps the session key with a stretched passphrase; `None` if the passphrase is certainly
    /// wrong.
    pub(crate) fn unwrap(&self, stretched: &[u8]) -> Result<Option<SessionKey>> {
        let Some(aead) = self.aead else {
            return self.unwrap_v4(stretched);
        };
        let info = [0xc0 | tag::SKESK, self.version, self.cipher as u8, aead as u8];
        let key = key_encryption_key(self.version, stretched, &info)?;
        let (wrapped, tag) = self.wrapped.split_at(self.wrapped.len() - TAG_BYTES);
        let mut session_key = Zeroizing::new(wrapped.to_vec());
        let opened =
            AeadKey::new(aead, self.cipher, &key)?.open(&self.nonce, &info, &mut session_key, tag);
        Ok(opened.is_ok().then(|| {
            // In version 5 the cipher of the packet is also that of the session key.
            let cipher = (self.version == 5).then_some(self.cipher);
            SessionKey { cipher, key: session_key }
        }))
    }

    fn unwrap_v4(&self, stretched: &[u8]) -> Result<Option<SessionKey>> {
        if self.wrapped.is_empty() {
            let key = Zeroizing::new(stretched.to_vec());
            return Ok(Some(SessionKey { cipher: Some(self.cipher), key }));
        }
        let block = self.cipher.block_bytes();
        let mut plain = Zeroizing::new(self.wrapped.clone());
        crate::cfb::decrypt(stretched, self.cipher, &vec![0; block], &mut plain)?;
        // Only its form shows whether this is a session key.
        let key = Zeroizing::new(plain.split_off(1));
        Ok(Cipher::from_number(plain[0])
            .ok()
            .filter(|cipher| cipher.key_bytes() == key.len())
            .map(|cipher| SessionKey { cipher: Some(cipher), key }))
    }
}

/// The key that wraps the session key. Version 6 derives it from the stretched passphrase (RFC
/// 9580, section 5.3.2).
fn key_encryption_key(version: u8, stretched: &[u8], info: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let mut key = Zeroizing::new(stretched.to_vec());
    if version == 6 {
        hkdf_sha256(stretched, &[], info, &mut key)?;
    }
    Ok(key)
}

/// A stretched passphrase, to wrap exactly one session key. In version 4, a second session key
/// wrapped with the same key would reveal the difference of the two.
pub(crate) struct Stretched {
    cipher: Cipher,
    s2k: S2K,
    key: Zeroizing<Vec<u8>>,
}

/// The format of a packet that wraps a session key with a passphrase.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wrapping {
    /// Version 4: CFB. Every implementation reads it.
    Version4,
    /// Version 5 of GnuPG: OCB.
    Version5,
    /// Version 6 of RFC 9580, stretched with Argon2.
    Version6(Aead),
}

impl Stretched {
    /// Stretches a passphrase with a fresh salt. Version 6 uses Argon2 with the second choice of
    /// RFC 9106: three passes over 64 MiB, about 0.1 seconds. All readers of version 6 support it.
    /// Other versions use SHA2-256 over 65,011,712 bytes, the maximum of the format, about 40 ms.
    pub(crate) fn new(password: &Password, cipher: Cipher, wrapping: Wrapping) -> Result<Self> {
        let s2k = if let Wrapping::Version6(_) = wrapping {
            let mut salt = [0; 16];
            random::fill(&mut salt)?;
            S2K::Argon2 { salt, t: 3, p: 4, m: 16 }
        } else {
            let mut salt = [0; 8];
            random::fill(&mut salt)?;
            let hash = sequoia_openpgp::types::HashAlgorithm::SHA256;
            S2K::Iterated { hash, salt, hash_bytes: 0x03e0_0000 }
        };
        let key = s2k.derive_key(password, cipher.key_bytes()).map_err(MessageError::secret)?;
        Ok(Self { cipher, s2k, key: Zeroizing::new(key.to_vec()) })
    }

    /// The body of a packet that wraps `session_key`.
    pub(crate) fn wrap(self, session_key: &[u8], wrapping: Wrapping) -> Result<Vec<u8>> {
        let s2k = self.s2k.to_vec().map_err(MessageError::secret)?;
        let cipher = self.cipher as u8;
        let (version, aead) = match wrapping {
            Wrapping::Version4 => {
                let mut body = vec![4, cipher];
                body.extend(s2k);
                let mut plain = Zeroizing::new(vec![cipher]);
                plain.extend_from_slice(session_key);
                let mut context = CipherCtx::new().map_err(MessageError::secret)?;
                context
                    .encrypt_init(Some(self.cipher.cfb()?), Some(&self.key), Some(&[0; 16]))
                    .map_err(MessageError::secret)?;
                let len = plain.len();
                context.cipher_update_inplace(&mut plain, len).map_err(MessageError::secret)?;
                body.extend_from_slice(&plain);
                return Ok(body);
            }
            Wrapping::Version5 => (5, Aead::Ocb),
            Wrapping::Version6(aead) => (6, aead),
        };
        let info = [0xc0 | tag::SKESK, version, cipher, aead as u8];
        let key = key_encryption_key(version, &self.key, &info)?;
        let mut nonce = vec![0; aead.nonce_bytes()];
        random::fill(&mut nonce)?;
        let mut wrapped = Zeroizing::new(session_key.to_vec());
        let tag = AeadKey::new(aead, self.cipher, &key)?.seal(&nonce, &info, &mut wrapped)?;
        let byte = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        let mut body = vec![version];
        if version == 6 {
            body.push(byte(3 + s2k.len() + nonce.len()));
        }
        body.extend([cipher, aead as u8]);
        if version == 6 {
            body.push(byte(s2k.len()));
        }
        body.extend(s2k);
        body.extend(nonce);
        body.extend_from_slice(&wrapped);
        body.extend(tag);
        Ok(body)
    }
}
