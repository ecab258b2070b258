//! Decryption: wrapped session keys, the encrypted packet, and its content.

use std::fmt;
use std::io::{self, Read, Write};

use zeroize::Zeroizing;

use crate::algorithm::{Aead, ChunkSize, Cipher, TAG_BYTES};
use crate::cfb;
use crate::chunked::{Chunks, SALT_BYTES};
use crate::content::Literal;
use crate::encrypt::Profile;
use crate::error::{MessageError, Result};
use crate::framing::{self, Body, Length, read_full, tag};
use crate::held::{Held, Spool};
use crate::packets::{PacketWriter, ReadLimits};
use crate::secrets::{Candidate, OpenedBy, Remembered, Secrets, Wrapped};
use crate::verify::Verifier;
use crate::verify::receiver::Receiver;
use crate::verify::report::SignatureReport;

/// The moment at which the plaintext of a version 1 message is released. Its integrity is known
/// only at the end; that of all other messages is known after each chunk.
pub enum Release<'a> {
    /// Release after the integrity check.
    Checked {
        /// Creates the storage for plaintext that waits until then: all beyond 32 MiB, encrypted.
        spool: &'a (dyn Fn() -> io::Result<Box<dyn Spool>> + Send + Sync),
        /// Opens the message again. Then one longer than 8 MiB is read twice, and nothing waits.
        again: Option<Again<'a>>,
    },
    /// Release at once. The caller must discard the output if an error comes at the end.
    Streamed,
}

/// A function that opens a message, in binary form, a second time.
pub type Again<'a> = &'a (dyn Fn() -> Result<Box<dyn Read + Send>> + Sync);

/// Options for decryption. Programs set the fields of [`Self::new`].
#[non_exhaustive]
pub struct DecryptOptions<'a> {
    /// The moment at which the plaintext of version 1 messages is released.
    pub release: Release<'a>,
    /// Limits on the size of the content and on the cost of passphrases.
    pub limits: ReadLimits,
    /// The number of threads.
    pub threads: usize,
}

impl<'a> DecryptOptions<'a> {
    /// The default limits, and a thread for each CPU.
    #[must_use]
    pub fn new(release: Release<'a>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { release, limits: ReadLimits::default(), threads }
    }
}

/// The result of a decryption that read the whole message and found it unchanged.
pub struct Decrypted {
    /// The key, passphrase or session key that decrypted the message.
    pub by: OpenedBy,
    /// The format of the encrypted packet.
    pub profile: Profile,
    /// The cipher.
    pub cipher: Cipher,
    /// The AEAD mode, `None` for version 1.
    pub aead: Option<Aead>,
    /// The session key, for callers who must disclose it.
    pub session_key: Zeroizing<Vec<u8>>,
    /// The metadata of the content.
    pub literal: Literal,
    /// Reports on the signatures, in the order of their packets.
    pub signatures: Vec<SignatureReport>,
}

/// Leaves the session key out, which must not be in any log.
impl fmt::Debug for Decrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, profile, cipher, aead, session_key: _, literal, signatures } = self;
        let mut text = f.debug_struct("Decrypted");
        text.field("by", by).field("profile", profile).field("cipher", cipher).field("aead", aead);
        text.field("literal", literal).field("signatures", signatures).finish_non_exhaustive()
    }
}

/// The maximum number of bytes of plaintext held in memory until the integrity is known.
const HELD_BYTES_MAX: usize = 32 << 20;
/// The number of bytes of a message that is never read twice.
const ONCE_BYTES: u64 = 8 << 20;
/// The maximum length of a packet with a wrapped session key, in bytes.
const WRAPPED_BYTES_MAX: u64 = 64 << 10;

/// The session key of a message, and what follows from it.
pub(crate) struct Opening {
    pub(crate) found: Candidate,
    pub(crate) cipher: Cipher,
    /// Except for version 1, the keys of the chunks.
    pub(crate) chunks: Option<Chunks>,
}

/// Reads the wrapped session keys in front of an encrypted packet. Returns type and length of the
/// packet, and the input at its body.
pub(crate) fn read_wrapped<R: Read>(
    mut input: R,
    wrapped: &mut Wrapped,
) -> Result<(u8, Length, R)> {
    loop {
        let Some((tag, length)) = framing::read_header(&mut input)? else {
            return Err(MessageError::Malformed("the input is empty, or has no encrypted data"));
        };
        let mut small = |what| {
            let mut body = Body::new(&mut input, length);
            body.read_small(WRAPPED_BYTES_MAX, what)
        };
        match tag {
            tag::PKESK | tag::SKESK => {
                wrapped.add(tag, &small("bytes in a wrapped session key")?)?;
            }
            tag::MARKER | tag::PADDING => {
                small("bytes in a packet to be skipped")?;
            }
            tag::SEIPD | tag::AEAD => return Ok((tag, length, input)),
            tag::SED => return Err(MessageError::Unprotected),
            _ => return Err(MessageError::Malformed("the input is not encrypted")),
        }
    }
}

/// The kind of encrypted packet, with its parsed fields.
pub(crate) enum Sealed {
    Version1,
    Version2 { cipher: Cipher, aead: Aead, chunk: ChunkSize, salt: [u8; SALT_BYTES] },
    LibrePgp { cipher: Cipher, aead: Aead, chunk: ChunkSize, iv: Vec<u8> },
}

impl Sealed {
    pub(crate) fn read(tag: u8, body: &mut impl Read) -> Result<Self> {
        let mut bytes = |n: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; n];
            if read_full(body, &mut bytes)? < n {
                return Err(MessageError::Truncated("the encrypted packet is too short"));
            }
            Ok(bytes)
        };
        let version = bytes(1)?[0];
        match (tag, version) {
            (tag::SEIPD, 1) => Ok(Self::Version1),
            (tag::SEIPD, 2) | (tag::AEAD, 1) => {
                let numbers = bytes(3)?;
                let cipher = Cipher::from_number(numbers[0])?;
                let aead = Aead::from_number(numbers[1])?;
                let chunk = ChunkSize::from_byte(numbers[2])?;
                if tag == tag::AEAD {
                    let iv = bytes(aead.nonce_bytes())?;
                    return Ok(Self::LibrePgp { cipher, aead, chunk, iv });
                }
                let mut salt = [0; SALT_BYTES];
                salt.copy_from_slice(&bytes(SALT_BYTES)?);
                Ok(Self::Version2 { cipher, aead, chunk, salt })
            }
            _ => {
                let what = format!("an encrypted packet of version {version}");
                Err(MessageError::Unsupported(what))
            }
        }
    }

    /// The cipher and, except for version 1, the keys of the chunks; `None` if the session key
    /// cannot be the right one.
    fn keys(
        &self,
        named: Option<Cipher>,
        session_key: &[u8],
    ) -> Result<Option<(Cipher, Option<Chunks>)>> {
        let (cipher, chunks) = match self {
            Self::Version1 => {
                let Some(cipher) = named else { return Ok(None) };
                (cipher, None)
            }
            Self::Version2 { cipher, aead, chunk, salt } => {
                if session_key.len() != cipher.key_bytes() {
                    return Ok(None);
                }
                (*cipher, Some(Chunks::seipd_v2(session_key, *cipher, *aead, *chunk, salt)?))
            }
            Self::LibrePgp { cipher, aead, chunk, iv } => {
                if session_key.len() != cipher.key_bytes() {
                    return Ok(None);
                }
                (*cipher, Some(Chunks::librepgp(session_key, *cipher, *aead, *chunk, iv)?))
            }
        };
        Ok((session_key.len() == cipher.key_bytes()).then_some((cipher, chunks)))
    }

    /// Bytes of the start that are needed to detect a wrong session key: for AEAD the first chunk,
    /// if it is checked.
    fn start_bytes_of(&self, secrets: &Secrets, wrapped: &Wrapped) -> usize {
        let doubtful =
            secrets.session_keys.len() > 1 || wrapped.is_doubtful() || wrapped.keys() > 0;
        match self {
            Self::Version2 { chunk, .. } | Self::LibrePgp { chunk, .. } if doubtful => {
                chunk.bytes() + 2 * TAG_BYTES
            }
            _ => 18,
        }
    }

    /// Finds the session key. `start` has at least [`Self::start_bytes_of`] bytes of the encrypted
    /// stream, or all of it.
    pub(crate) fn open(
        &self,
        secrets: &mut Secrets,
        remembered: &mut Remembered,
        wrapped: Wrapped,
        start: &[u8],
        argon2_mib: u64,
    ) -> Result<Opening> {
        let several = secrets.session_keys.len() > 1;
        let for_keys = wrapped.keys();
        let doubtful = wrapped.is_doubtful();
        // The keys that the accepted session key gives.
        let mut keys = None;
        let found = secrets.find(remembered, wrapped, argon2_mib, |candidate| {
            let key = &candidate.session_key;
            keys = self.keys(key.cipher, &key.key)?;
            Ok(match (&keys, &candidate.by) {
                // The session key of a single wrapped key is not checked by the repeated bytes: the
                // result would tell a sender about the plaintext (RFC 9580, section 5.13.1).
                (Some((_, None)), OpenedBy::Key(_)) if for_keys == 1 => true,
                (Some((cipher, None)), _) => cfb::fits(&key.key, *cipher, start)?,
                (Some((_, Some(chunks))), by) => {
                    let proven = match by {
                        OpenedBy::SessionKey => !several,
                        OpenedBy::Password(_) => !doubtful,
                        // A separate answer for a wrong session key would tell a sender what was
                        // unwrapped.
                        OpenedBy::Key(_) => false,
                    };
                    proven || candidate.remembered || chunks.fits(start)?
                }
                (None, _) => false,
            })
        })?;
        let Some((cipher, chunks)) = keys else {
            return Err(MessageError::Malformed("the session key does not match the message"));
        };
        Ok(Opening { found, cipher, chunks })
    }

    pub(crate) fn profile(&self) -> Profile {
        match self {
            Self::Version1 => Profile::Rfc4880,
            Self::Version2 { .. } => Profile::Rfc9580,
            Self::LibrePgp { .. } => Profile::LibrePgp,
        }
    }

    fn aead(&self) -> Option<Aead> {
        match self {
            Self::Version1 => None,
            Self::Version2 { aead, .. } | Self::LibrePgp { aead, .. } => Some(*aead),
        }
    }
}

/// Decrypts `input`, in binary form, and checks its signatures with `verifier`.
///
/// # Errors
///
/// Errors of the message, of reading and of writing. The output before an error is the start of the
/// authentic content, unless [`Release::Streamed`] was chosen.
pub fn decrypt(
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    secrets: &mut Secrets,
    verifier: &Verifier<'_>,
    options: DecryptOptions<'_>,
) -> Result<Decrypted> {
    decrypt_with(input, output, secrets, &mut Remembered::default(), verifier, options)
}

/// Like [`decrypt`], with the cache of earlier messages.
pub(crate) fn decrypt_with(
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    secrets: &mut Secrets,
    remembered: &mut Remembered,
    verifier: &Verifier<'_>,
    options: DecryptOptions<'_>,
) -> Result<Decrypted> {
    let DecryptOptions { release, limits, threads } = options;
    let mut opened = Opened::find(input, secrets, remembered, limits.argon2_mib)?;
    let mut receiver = Receiver::new(output);
    let mut packets = PacketWriter::new(&mut receiver, limits);
    opened.release(&mut packets, release, threads)?;
    packets.finish()?;
    let Opened { body, sealed, opening, .. } = opened;
    let Opening { found, cipher, .. } = opening;
    let (literal, signatures) = receiver.finish(verifier, found.recipient.as_slice())?;
    output.flush().map_err(MessageError::write)?;
    nothing_follows(body)?;
    Ok(Decrypted {
        by: found.by,
        profile: sealed.profile(),
        cipher,
        aead: sealed.aead(),
        session_key: found.session_key.key,
        literal,
        signatures,
    })
}

/// An encrypted message whose session key was found, and whose content was not read yet.
///
/// [`decrypt`] is the whole of decryption. This type is for programs that read the packets of the
/// content themselves, as GnuPG's own do.
pub struct Opened<R> {
    /// The rest of the encrypted packet behind `start`.
    body: Body<Counted<R>>,
    start: Vec<u8>,
    /// The place of the encrypted packet in the input, and its length.
    place: (u64, Length),
    sealed: Sealed,
    opening: Opening,
    /// The recipients of a version 1 message.
    recipients: Vec<String>,
}

impl<R: Read + Send> Opened<R> {
    /// Reads the start of a message, in binary form, and finds its session key. Passphrases that
    /// cost more than `limits` allow are not tried.
    ///
    /// # Errors
    ///
    /// Errors of the message, of reading, and of the secrets.
    pub fn new(input: R, secrets: &mut Secrets, limits: ReadLimits) -> Result<Self> {
        Self::find(input, secrets, &mut Remembered::default(), limits.argon2_mib)
    }

    fn find(
        input: R,
        secrets: &mut Secrets,
        remembered: &mut Remembered,
        argon2_mib: u64,
    ) -> Result<Self> {
        let mut wrapped = Wrapped::default();
        let (tag, length, input) = read_wrapped(Counted { input, bytes: 0 }, &mut wrapped)?;
        let place = (input.bytes, length);
        let mut body = Body::new(input, length);
        let sealed = Sealed::read(tag, &mut body)?;
        let mut start = Vec::new();
        (&mut body)
            .take(sealed.start_bytes_of(secrets, &wrapped) as u64)
            .read_to_end(&mut start)
            .map_err(MessageError::read)?;
        let is_version_1 = matches!(sealed, Sealed::Version1);
        let recipients = if is_version_1 { wrapped.recipients() } else { Vec::new() };
        let opening = sealed.open(secrets, remembered, wrapped, &start, argon2_mib)?;
        Ok(Self { body, start, place, sealed, opening, recipients })
    }

    /// The secret that gave the session key. Only the content shows whether it is the right one.
    #[must_use]
    pub fn by(&self) -> &OpenedBy {
        &self.opening.found.by
    }

    /// The cipher.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        self.opening.cipher
    }

    /// The same message, read from its start by `input`. So the session key can be found in the
    /// first bytes of a message, long before the rest is there.
    ///
    /// # Errors
    ///
    /// Errors of the message and of reading.
    pub fn again<S: Read + Send>(self, input: S) -> Result<Opened<S>> {
        let Opening { found, .. } = self.opening;
        let (mut wrapped, input) = (Wrapped::default(), Counted { input, bytes: 0 });
        let (tag, length, input) = read_wrapped(input, &mut wrapped)?;
        let place = (input.bytes, length);
        let mut body = Body::new(input, length);
        let sealed = Sealed::read(tag, &mut body)?;
        let session_key = &found.session_key;
        let Some((cipher, chunks)) = sealed.keys(session_key.cipher, &session_key.key)? else {
            return Err(MessageError::Malformed("the message is no longer the same"));
        };
        let opening = Opening { found, cipher, chunks };
        let recipients = self.recipients;
        Ok(Opened { body, start: Vec::new(), place, sealed, opening, recipients })
    }

    /// Writes the packets of the content, which are authentic unless [`Release::Streamed`] is
    /// chosen. Nothing is known of them: they can be malformed, and expand without a limit.
    ///
    /// # Errors
    ///
    /// Errors of the message, of reading and of writing. The output before an error is the start of
    /// the authentic packets, unless [`Release::Streamed`] was chosen.
    pub fn write_packets(
        mut self,
        output: &mut (impl Write + Send),
        release: Release<'_>,
        threads: usize,
    ) -> Result<()> {
        self.release(output, release, threads)?;
        output.flush().map_err(MessageError::write)?;
        nothing_follows(self.body)
    }

    fn release(
        &mut self,
        packets: &mut (impl Write + Send),
        release: Release<'_>,
        threads: usize,
    ) -> Result<()> {
        let Self { body, start, place, sealed, opening, recipients } = self;
        let Opening { found, cipher, chunks } = opening;
        let (session_key, cipher) = (&found.session_key.key, *cipher);
        let is_version_1 = matches!(sealed, Sealed::Version1);
        debug_assert_eq!(is_version_1, chunks.is_none());
        // If decryption fails after a key unwrapped a session key, the error is the same as if the
        // key had not fitted.
        let failed = |error| match (error, &found.by) {
            (MessageError::Tampered(_), OpenedBy::Key(_)) if is_version_1 => {
                MessageError::Unopened { recipients: recipients.clone() }
            }
            (error, _) => error,
        };
        let mut stream = io::Cursor::new(std::mem::take(start)).chain(body);
        match (chunks, release) {
            (Some(chunks), _) => chunks.open(&mut stream, packets, threads),
            (None, Release::Streamed) => {
                // An error in the content is reported if the sender caused it, but not if somebody
                // changed the message to learn from the answer.
                let mut later = Later { inner: packets, failed: None };
                cfb::open(session_key, cipher, &mut stream, &mut later, threads).map_err(failed)?;
                later.failed.map_or(Ok(()), Err)
            }
            (None, Release::Checked { spool, again }) => {
                let mut begin = Vec::new();
                if again.is_some() {
                    (&mut stream)
                        .take(ONCE_BYTES)
                        .read_to_end(&mut begin)
                        .map_err(MessageError::read)?;
                }
                let again = again.filter(|_| begin.len() as u64 == ONCE_BYTES);
                let mut stream = io::Cursor::new(begin).chain(&mut stream);
                if let Some(again) = again {
                    let checked =
                        cfb::check(session_key, cipher, &mut stream, threads).map_err(failed)?;
                    let mut stream = at_body(again()?, *place)?;
                    checked.open(session_key, &mut stream, packets, threads)
                } else {
                    let mut held = Held::with_memory(Box::new(spool), HELD_BYTES_MAX);
                    cfb::open(session_key, cipher, &mut stream, &mut held, threads)
                        .map_err(failed)?;
                    held.release(packets)
                }
            }
        }
    }
}

/// An input that counts what is read from it.
struct Counted<R> {
    input: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buf)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// The ciphertext of a version 1 packet whose body has this offset and length in `input`.
fn at_body<R: Read>(mut input: R, (offset, length): (u64, Length)) -> Result<Body<R>> {
    io::copy(&mut (&mut input).take(offset), &mut io::sink()).map_err(MessageError::read)?;
    let mut body = Body::new(input, length);
    // The version.
    read_full(&mut body, &mut [0])?;
    Ok(body)
}

/// Continues reading after an error in the content until it is known whether the message was
/// changed.
struct Later<W> {
    inner: W,
    failed: Option<MessageError>,
}

impl<W: Write> Write for Later<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.failed.is_none()
            && let Err(error) = self.inner.write_all(data)
        {
            match MessageError::write(error) {
                // The output is local, and senders of messages have no influence on it.
                error @ (MessageError::Write(_) | MessageError::Read(_)) => {
                    return Err(error.into());
                }
                error => self.failed = Some(error),
            }
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Refuses a second message after the first: it would look like a part of the first.
fn nothing_follows(body: Body<impl Read>) -> Result<()> {
    let mut input = body.into_inner();
    match framing::read_header(&mut input)? {
        None => Ok(()),
        Some(_) => Err(MessageError::Malformed("other data follow the encrypted data")),
    }
}
