//! Encryption and decryption of many small messages, with the expensive steps done once.

use sequoia_openpgp::crypto::Password;
use zeroize::Zeroizing;

use crate::algorithm::{Aead, Cipher};
use crate::compression::Compression;
use crate::decrypt::{DecryptOptions, Decrypted, Release, decrypt_with};
use crate::encrypt::{EncryptOptions, Profile, Recipients, Suite, seal};
use crate::error::{MessageError, Result};
use crate::framing;
use crate::packets::ReadLimits;
use crate::secrets::{DecryptionKey, Remembered, Secrets};
use crate::sign::SigningKey;
use crate::verify::Verifier;
use crate::{cfb, content};

/// Encrypts many messages for the same recipients.
///
/// A sealer stretches the passphrase once and wraps one session key once. Each message is encrypted
/// under this session key with a salt of its own (RFC 9580, section 5.13.2: keys and nonces are
/// derived from both), or in version 1 with a random block of its own. A session key from one
/// message decrypts them all, which every recipient can do anyway. Each message is complete, and
/// any implementation can read it.
pub struct Sealer {
    suite: Suite,
    wrapped: Vec<u8>,
    session_key: Zeroizing<Vec<u8>>,
    options: EncryptOptions,
}

impl Sealer {
    /// Stretches and wraps. Each key costs 0.2 ms; a passphrase costs about 40 ms, or by default
    /// three passes of Argon2 over 64 MiB.
    ///
    /// # Errors
    ///
    /// [`MessageError::Usage`] without recipients, [`MessageError::Key`] for a key that cannot be
    /// used.
    pub fn new(recipients: &Recipients, options: EncryptOptions) -> Result<Self> {
        if recipients.is_empty() {
            return Err(MessageError::Usage("a message needs a recipient or a passphrase"));
        }
        let suite = Suite::choose(recipients, &options);
        let compression = recipients.compression(options.compression);
        let options = EncryptOptions { compression, ..options };
        let session_key = suite.session_key()?;
        let wrapped = suite.wrap(&session_key, recipients)?;
        Ok(Self { suite, wrapped, session_key, options })
    }

    /// Encrypts under a session key that the recipients have already. Each message is one packet of
    /// RFC 9580 (version 2 of type 18) with AES-256 and OCB, without compression and without a
    /// wrapped session key.
    #[must_use]
    pub fn with_session_key(session_key: &[u8; 32]) -> Self {
        let options = EncryptOptions::default();
        let suite = Suite {
            profile: Profile::Rfc9580,
            cipher: Cipher::Aes256,
            aead: Aead::Ocb,
            chunk: options.chunk,
        };
        let options = EncryptOptions { compression: Compression::None, ..options };
        let session_key = Zeroizing::new(session_key.to_vec());
        Self { suite, wrapped: Vec::new(), session_key, options }
    }

    /// Encrypts one message in memory.
    ///
    /// # Errors
    ///
    /// [`MessageError::TooLarge`] beyond 4 GiB.
    pub fn seal(&self, plain: &[u8]) -> Result<Vec<u8>> {
        self.seal_signed(plain, &mut [], 0)
    }

    /// Encrypts one message in memory, signed by `signers` at `now` in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`MessageError::TooLarge`] beyond 4 GiB; errors of the keys.
    pub fn seal_signed(
        &self,
        plain: &[u8],
        signers: &mut [SigningKey],
        now: u32,
    ) -> Result<Vec<u8>> {
        let (fields, chunks) = self.suite.begin(&self.session_key)?;
        let EncryptOptions { literal, compression, .. } = &self.options;
        let size = Some(plain.len() as u64);
        let mut content = content::content(plain, size, literal, signers, now, *compression)?;
        let mut sealed = Vec::with_capacity(plain.len() + self.wrapped.len() + 256);
        sealed.extend_from_slice(&self.wrapped);
        let Some(bytes) = content.bytes else {
            // The length of compressed content is known only after compression.
            let mut body = fields;
            seal(
                self.suite,
                chunks.as_ref(),
                &self.session_key,
                &mut content.stream,
                &mut body,
                1,
            )?;
            framing::write_packet(&mut sealed, self.suite.tag(), &body)?;
            return Ok(sealed);
        };
        let body = fields.len() as u64 + self.suite.sealed_bytes(chunks.as_ref(), bytes);
        framing::write_header(&mut sealed, self.suite.tag(), body)?;
        sealed.extend(fields);
        let stream = &mut content.stream;
        match &chunks {
            Some(chunks) => chunks.seal(stream, &mut sealed, 1)?,
            None => cfb::seal(&self.session_key, self.suite.cipher, stream, &mut sealed, 1)?,
        }
        Ok(sealed)
    }
}

/// Decrypts many messages with the same keys and passphrases.
///
/// An opener caches the latest thousand stretched passphrases and the latest thousand unwrapped
/// session keys, so that only the first message of a [`Sealer`] is expensive. Dropped entries are
/// zeroed.
pub struct Opener {
    secrets: Secrets,
    remembered: Remembered,
    limits: ReadLimits,
}

/// The number of cached entries of each kind.
const REMEMBERED: usize = 1000;

impl Opener {
    /// Decrypts with these keys and passphrases.
    #[must_use]
    pub fn new(keys: Vec<DecryptionKey>, passwords: Vec<Password>) -> Self {
        Self::with(Secrets { keys, passwords, ..Secrets::default() }, ReadLimits::default())
    }

    /// Decrypts with secrets of any kind, within limits.
    #[must_use]
    pub fn with(secrets: Secrets, limits: ReadLimits) -> Self {
        Self { secrets, remembered: Remembered::with_limit(REMEMBERED), limits }
    }

    /// Decrypts one message in memory, and checks its signatures.
    ///
    /// # Errors
    ///
    /// Errors of the message; no content is returned then.
    pub fn open(&mut self, sealed: &[u8], verifier: &Verifier<'_>) -> Result<(Vec<u8>, Decrypted)> {
        let mut plain = Vec::new();
        let options = DecryptOptions {
            // Streaming is safe here: no content is returned unless the whole message is good.
            release: Release::Streamed,
            limits: self.limits,
            threads: 1,
        };
        let Self { secrets, remembered, .. } = self;
        let decrypted =
            decrypt_with(&mut &*sealed, &mut plain, secrets, remembered, verifier, options)?;
        Ok((plain, decrypted))
    }
}
