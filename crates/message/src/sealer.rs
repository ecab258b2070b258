//! Encryption and decryption of many small messages, with the expensive steps done once.

use sequoia_openpgp::crypto::Password;
use zeroize::Zeroizing;

use crate::decrypt::{DecryptOptions, Decrypted, Release, decrypt_with};
use crate::encrypt::{EncryptOptions, Recipients, Suite, seal};
use crate::error::{MessageError, Result};
use crate::framing;
use crate::packets::ReadLimits;
use crate::secrets::{DecryptionKey, Remembered, Secrets};
use crate::sign::SigningKey;
use crate::verify::Verifier;
use crate::{cfb, content};

/// Encrypts many messages for the same recipients.
///
/// A sealer stretches the passphrase once and wraps one session key once. Each message is encrypted under
/// this session key with a salt of its own (RFC 9580, section 5.13.2: keys and nonces are derived from both),
/// or in version 1 with a random block of its own. A session key from one message decrypts them all, which
/// every recipient can do anyway. Each message is complete, and any implementation can read it.
pub struct Sealer {
    suite: Suite,
    wrapped: Vec<u8>,
    session_key: Zeroizing<Vec<u8>>,
    options: EncryptOptions,
}

impl Sealer {
    /// Stretches and wraps. Each key costs 0.2 ms; a passphrase costs about 40 ms, or by default three passes
    /// of Argon2 over 64 MiB.
    ///
    /// # Errors
    ///
    /// [`MessageError::Usage`] without recipients, [`MessageError::Key`] for a key that cannot be used.
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
/// An opener caches the latest thousand stretched passphrases and the latest thousand unwrapped session keys,
/// so that only the first message of a [`Sealer`] is expensive. Dropped entries are zeroed.
pub struct Opener {
    secrets: Secrets,
    remembered: Remembered,
}

/// The number of cached entries of each kind.
const REMEMBERED: usize = 1000;

impl Opener {
    /// Decrypts with these keys and passphrases.
    #[must_use]
    pub fn new(keys: Vec<DecryptionKey>, passwords: Vec<Password>) -> Self {
        let remembered = Remembered::with_limit(REMEMBERED);
        Self { secrets: Secrets { keys, passwords, ..Secrets::default() }, remembered }
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
            limits: ReadLimits::default(),
            threads: 1,
        };
        let Self { secrets, remembered } = self;
        let decrypted =
            decrypt_with(&mut &*sealed, &mut plain, secrets, remembered, verifier, options)?;
        Ok((plain, decrypted))
    }
}
