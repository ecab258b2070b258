//! Many small messages: what is expensive is done once.

use sequoia_openpgp::crypto::Password;
use zeroize::Zeroizing;

use crate::decrypt::{DecryptOptions, Decrypted, Release, decrypt_with};
use crate::encrypt::{EncryptOptions, Recipients, Suite, seal};
use crate::error::{MessageError, Result};
use crate::framing;
use crate::packets::Limits;
use crate::secrets::{DecryptionKey, Remembered, Secrets};
use crate::sign::SigningKey;
use crate::verify::Verifier;
use crate::{cfb, content};

/// Encrypts many messages for the same recipients.
///
/// The passphrase is stretched once, and one session key is wrapped once; each message is sealed under it
/// with a salt of its own (RFC 9580, section 5.13.2: keys and nonces are derived from both), or in
/// version 1 with a random block of its own. Whoever has the session key of one message can read all, as
/// all recipients can anyway. Each message is complete and is read by any implementation.
pub struct Sealer {
    suite: Suite,
    wrapped: Vec<u8>,
    session_key: Zeroizing<Vec<u8>>,
    options: EncryptOptions,
}

impl Sealer {
    /// Stretches and wraps: 0.2 ms for each key; some 40 ms for a passphrase, or by default three passes of
    /// Argon2 over 64 MiB.
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

    /// Encrypts one message that is in memory.
    ///
    /// # Errors
    ///
    /// [`MessageError::TooLarge`] beyond 4 GiB.
    pub fn seal(&self, plain: &[u8]) -> Result<Vec<u8>> {
        self.seal_signed(plain, &mut [], 0)
    }

    /// Encrypts one message that is in memory, signed by `signers` at `now` in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`MessageError::TooLarge`] beyond 4 GiB; what the keys can meet.
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
            // Compressed: its length is known when it is done.
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
/// It remembers stretched passphrases and unwrapped session keys, the latest thousand of each, so that
/// messages of one [`Sealer`] cost the first of them only. All that is remembered is zeroed when it goes.
pub struct Opener {
    secrets: Secrets,
    remembered: Remembered,
}

/// What an [`Opener`] remembers of each kind.
const REMEMBERED: usize = 1000;

impl Opener {
    /// Opens with these.
    #[must_use]
    pub fn new(keys: Vec<DecryptionKey>, passwords: Vec<Password>) -> Self {
        let remembered = Remembered::with_limit(REMEMBERED);
        Self { secrets: Secrets { keys, passwords, ..Secrets::default() }, remembered }
    }

    /// Decrypts one message that is in memory, and checks its signatures.
    ///
    /// # Errors
    ///
    /// What is wrong with the message; nothing of it is returned.
    pub fn open(&mut self, sealed: &[u8], verifier: &Verifier<'_>) -> Result<(Vec<u8>, Decrypted)> {
        let mut plain = Vec::new();
        let options = DecryptOptions {
            // Nothing is returned unless all of it is good.
            release: Release::Streamed,
            limits: Limits::default(),
            threads: 1,
        };
        let Self { secrets, remembered } = self;
        let decrypted =
            decrypt_with(&mut &*sealed, &mut plain, secrets, remembered, verifier, options)?;
        Ok((plain, decrypted))
    }
}
