//! Version 1 of the encrypted and integrity protected data packet (RFC 9580, section 5.13.1): CFB
//! with a digest of the plaintext at the end.
//!
//! Each block needs the ciphertext of the previous block. Encryption is therefore sequential: one
//! core encrypts while another reads ahead and computes the digest. Decryption runs on all cores in
//! parallel, and only the digest is sequential. Nothing is authenticated before the end, so the
//! caller must hold the plaintext back until [`open`] has returned without an error, or read twice:
//! [`check`], then [`Checked::open`].

use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::mpsc;

use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockCipher, BlockEncryptMut, InnerIvInit as _, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use cfb_mode::BufEncryptor;
use openssl::cipher_ctx::CipherCtx;
use zeroize::Zeroizing;

use crate::aead::AeadKey;
use crate::algorithm::{Aead, Cipher, TAG_BYTES};
use crate::error::{MessageError, Result};
use crate::framing::{read_behind, tag};
use crate::pipeline::{self, Source, Stage, Work};
use crate::random;

/// The header of the digest packet at the end.
const MDC_HEADER: [u8; 2] = [0xc0 | tag::MDC, 20];
/// Bytes of the digest packet.
const MDC_BYTES: usize = 22;
/// Bytes of a segment while encrypting.
const SEGMENT_BYTES: usize = 256 << 10;
/// Bytes of a segment while decrypting. Two threads that pass segments of 256 KiB to and fro take 6 %
/// more CPU time for a message of 1 GiB than with these.
const OPEN_BYTES: usize = 1 << 20;
/// The number of threads that decrypt: more would wait for the digest.
const OPEN_THREADS_MAX: usize = 4;
/// The number of segments read ahead while encrypting.
const AHEAD: usize = 8;

/// The length of the encrypted stream in bytes for `plain` bytes of plaintext, without the version
/// byte.
pub(crate) fn sealed_bytes(cipher: Cipher, plain: u64) -> u64 {
    plain + (cipher.block_bytes() + 2 + MDC_BYTES) as u64
}

/// The random prefix of the plaintext: one block, then its last two bytes again (RFC 9580, section
/// 5.13.1).
fn prefix(cipher: Cipher) -> Result<Zeroizing<Vec<u8>>> {
    let block = cipher.block_bytes();
    let mut prefix = Zeroizing::new(vec![0; block + 2]);
    random::fill(&mut prefix[..block])?;
    prefix.copy_within(block - 2..block, block);
    Ok(prefix)
}

/// Encrypts the stream `plain` on this thread and, unless the stream is short, on a second one.
pub(crate) fn seal(
    session_key: &[u8],
    cipher: Cipher,
    plain: &mut (impl Read + Send),
    sealed: &mut impl Write,
    threads: usize,
) -> Result<()> {
    let mut chain = Chain::new(session_key, cipher)?;
    let mut encrypt = |mut segment: Vec<u8>| -> Result<Vec<u8>> {
        chain.encrypt(&mut segment)?;
        sealed.write_all(&segment).map_err(MessageError::write)?;
        Ok(segment)
    };
    let mut hashed = Hashed {
        plain,
        digest: Some(Context::new(&SHA1_FOR_LEGACY_USE_ONLY)),
        prefix: Some(prefix(cipher)?),
    };
    let mut first = Vec::new();
    let more = hashed.fill(&mut first)?;
    if !more || threads < 2 {
        let mut segment = encrypt(first)?;
        let mut more = more;
        while more {
            more = hashed.fill(&mut segment)?;
            segment = encrypt(segment)?;
        }
        return Ok(());
    }
    std::thread::scope(|scope| {
        let (full, filled) = mpsc::sync_channel::<Result<Vec<u8>>>(AHEAD);
        let (empty, emptied) = mpsc::channel::<Vec<u8>>();
        scope.spawn(move || {
            let mut more = full.send(Ok(first)).is_ok();
            while more {
                let mut segment = emptied.try_recv().unwrap_or_default();
                let read = hashed.fill(&mut segment);
                more = matches!(read, Ok(true));
                // The receiver is gone if writing failed.
                more &= full.send(read.map(|_| segment)).is_ok();
            }
        });
        for segment in filled {
            let _ = empty.send(encrypt(segment?)?);
        }
        Ok(())
    })
}

/// The cipher in CFB mode, with a zero initialization vector.
enum Chain {
    Aes128(Box<BufEncryptor<Aes128>>),
    Aes192(Box<BufEncryptor<Aes192>>),
    Aes256(Box<BufEncryptor<Aes256>>),
    /// Without the instructions of the CPU that the others use.
    OpenSsl(CipherCtx),
}

impl Chain {
    fn new(session_key: &[u8], cipher: Cipher) -> Result<Self> {
        fn by<C: BlockEncryptMut + BlockCipher + KeyInit>(
            key: &[u8],
        ) -> Result<Box<BufEncryptor<C>>> {
            let iv = GenericArray::default();
            let inner = C::new_from_slice(key)
                .map_err(|_| MessageError::Malformed("the session key has the wrong length"))?;
            Ok(Box::new(BufEncryptor::inner_iv_init(inner, &iv)))
        }
        // OpenSSL calls a function for each block, and takes 1.3 times the CPU time.
        if has_aes() {
            match cipher {
                Cipher::Aes128 => return by(session_key).map(Self::Aes128),
                Cipher::Aes192 => return by(session_key).map(Self::Aes192),
                Cipher::Aes256 => return by(session_key).map(Self::Aes256),
                _ => {}
            }
        }
        Self::by_openssl(session_key, cipher)
    }

    fn by_openssl(session_key: &[u8], cipher: Cipher) -> Result<Self> {
        let mut context = CipherCtx::new().map_err(MessageError::secret)?;
        let zero = [0; 16];
        let zero = &zero[..cipher.block_bytes()];
        context
            .encrypt_init(Some(cipher.cfb()?), Some(session_key), Some(zero))
            .map_err(MessageError::secret)?;
        Ok(Self::OpenSsl(context))
    }

    /// Encrypts the next bytes of the stream in place.
    fn encrypt(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self {
            Self::Aes128(chain) => chain.encrypt(bytes),
            Self::Aes192(chain) => chain.encrypt(bytes),
            Self::Aes256(chain) => chain.encrypt(bytes),
            Self::OpenSsl(context) => {
                let len = bytes.len();
                context.cipher_update_inplace(bytes, len).map_err(MessageError::secret)?;
            }
        }
        Ok(())
    }
}

/// Whether the CPU has the instructions for AES with which the crate `aes` is fast and takes the
/// same time for all keys.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = std::arch::is_x86_feature_detected!("aes");
    #[cfg(not(target_arch = "x86_64"))]
    let has = false;
    has
}

/// The plaintext with its random prefix and, at the end, its digest.
struct Hashed<'a, R> {
    plain: &'a mut R,
    digest: Option<Context>,
    prefix: Option<Zeroizing<Vec<u8>>>,
}

impl<R: Read> Hashed<'_, R> {
    /// Reads the next segment; `false` for the last one.
    fn fill(&mut self, segment: &mut Vec<u8>) -> Result<bool> {
        let prefix = self.prefix.take().unwrap_or_default();
        if segment.len() < prefix.len() {
            segment.resize(prefix.len(), 0);
        }
        segment[..prefix.len()].copy_from_slice(&prefix);
        let read = read_behind(self.plain, segment, prefix.len(), SEGMENT_BYTES)?;
        let more = read == SEGMENT_BYTES;
        let Some(digest) = &mut self.digest else { return Ok(false) };
        digest.update(segment);
        if !more {
            digest.update(&MDC_HEADER);
            segment.extend(MDC_HEADER);
            if let Some(digest) = self.digest.take() {
                segment.extend_from_slice(digest.finish().as_ref());
            }
        }
        Ok(more)
    }
}

/// Whether a session key fits the first bytes of an encrypted stream: the last two bytes of the
/// random prefix occur twice. One wrong key in 65,536 fits, too.
///
/// Use this check to choose between keys only, and never reveal the result to the sender (RFC 9580,
/// section 5.13.1, on oracles).
pub(crate) fn fits(session_key: &[u8], cipher: Cipher, start: &[u8]) -> Result<bool> {
    let block = cipher.block_bytes();
    let Some(start) = start.get(..block + 2) else { return Ok(true) };
    let mut plain = start.to_vec();
    Blocks::new(session_key, cipher)?.decrypt(&vec![0; block], &mut plain)?;
    Ok(plain[block - 2..block] == plain[block..])
}

/// Decrypts `bytes` in place; `before` is the preceding block of ciphertext.
pub(crate) fn decrypt(key: &[u8], cipher: Cipher, before: &[u8], bytes: &mut [u8]) -> Result<()> {
    Blocks::new(key, cipher)?.decrypt(before, bytes)
}

/// Decrypts the stream `sealed`. The data written to `plain` is authentic only after this function
/// has returned without an error.
pub(crate) fn open(
    session_key: &[u8],
    cipher: Cipher,
    sealed: &mut (impl Read + Send),
    plain: &mut (impl Write + Send),
    threads: usize,
) -> Result<()> {
    let mut check = Check::new(cipher);
    let stages = (&mut check, &mut Written { plain });
    run((session_key, cipher), sealed, stages, threads, None)?;
    check.finish()
}

/// A ciphertext whose integrity was checked. Each segment has a tag, by which a second reading
/// proves that it reads the same.
pub(crate) struct Checked {
    cipher: Cipher,
    tag_key: Zeroizing<[u8; 32]>,
    tags: Vec<[u8; TAG_BYTES]>,
    /// The length of the ciphertext in bytes.
    bytes: u64,
}

/// Checks the integrity of the stream `sealed`, whose plaintext is dropped.
pub(crate) fn check(
    session_key: &[u8],
    cipher: Cipher,
    sealed: &mut (impl Read + Send),
    threads: usize,
) -> Result<Checked> {
    let mut tag_key = Zeroizing::new([0; 32]);
    random::fill(&mut *tag_key)?;
    let mut check = Check::new(cipher);
    let mut found = Checked { cipher, tag_key, tags: Vec::new(), bytes: 0 };
    let tag_key = found.tag_key.clone();
    let stages = (&mut check, &mut Noted(&mut found));
    run((session_key, cipher), sealed, stages, threads, Some(&tag_key))?;
    check.finish()?;
    Ok(found)
}

impl Checked {
    /// Decrypts the stream `sealed`, which is read a second time. Nothing that was not read the
    /// first time is written to `plain`.
    pub(crate) fn open(
        &self,
        session_key: &[u8],
        sealed: &mut (impl Read + Send),
        plain: &mut (impl Write + Send),
        threads: usize,
    ) -> Result<()> {
        let content = self.cipher.block_bytes() as u64 + 2..self.bytes - MDC_BYTES as u64;
        let mut same = Same { tags: self.tags.iter(), content, at: 0 };
        let stages = (&mut same, &mut Written { plain });
        run((session_key, self.cipher), sealed, stages, threads, Some(&self.tag_key))?;
        if same.tags.len() > 0 { Err(changed()) } else { Ok(()) }
    }
}

fn changed() -> MessageError {
    MessageError::Read(io::Error::other("the file changed while it was read"))
}

fn run(
    (session_key, cipher): (&[u8], Cipher),
    sealed: &mut (impl Read + Send),
    stages: (&mut impl Stage<Segment>, &mut impl Stage<Segment>),
    threads: usize,
    tag_key: Option<&[u8; 32]>,
) -> Result<()> {
    let block = cipher.block_bytes();
    let threads = threads.clamp(1, OPEN_THREADS_MAX);
    let mut source = OpenSource { sealed, before: vec![0; block], at: 0 };
    let worker = |_| {
        let tagger = tag_key.map(|key| AeadKey::new(Aead::Gcm, Cipher::Aes256, key)).transpose()?;
        Ok(Worker { blocks: Blocks::new(session_key, cipher)?, tagger })
    };
    let mut workers = (0..threads).map(worker).collect::<Result<Vec<_>>>()?;
    let next = || workers.pop().expect("one for each thread");
    pipeline::run(threads, &mut source, stages, next)
}

#[derive(Default)]
struct Segment {
    bytes: Vec<u8>,
    /// The number of segments before this one.
    at: u64,
    /// The block of ciphertext before this segment.
    before: Vec<u8>,
    /// The tag of the ciphertext, if there is a key for it.
    tag: [u8; TAG_BYTES],
    /// Plaintext before this segment that could have been the digest, but was content.
    held: Vec<u8>,
    /// The range of content in this segment, without the random prefix and without a possible
    /// digest.
    plain: Range<usize>,
}

struct OpenSource<'a, R> {
    sealed: &'a mut R,
    before: Vec<u8>,
    at: u64,
}

impl<R: Read + Send> Source<Segment> for OpenSource<'_, R> {
    fn fill(&mut self, segment: &mut Segment) -> Result<bool> {
        let read = read_behind(self.sealed, &mut segment.bytes, 0, OPEN_BYTES)?;
        segment.before.clone_from(&self.before);
        segment.at = self.at;
        self.at += 1;
        let more = read == OPEN_BYTES;
        if more {
            let last = read - self.before.len();
            self.before.copy_from_slice(&segment.bytes[last..]);
        }
        Ok(more)
    }
}

/// The cipher on single blocks, to decrypt CFB in any order.
struct Blocks {
    context: CipherCtx,
    stream: Vec<u8>,
}

impl Blocks {
    fn new(session_key: &[u8], cipher: Cipher) -> Result<Self> {
        if session_key.len() != cipher.key_bytes() {
            return Err(MessageError::Malformed("the session key has the wrong length"));
        }
        let mut context = CipherCtx::new().map_err(MessageError::secret)?;
        context
            .encrypt_init(Some(cipher.ecb()), Some(session_key), None)
            .map_err(MessageError::secret)?;
        context.set_padding(false);
        Ok(Self { context, stream: Vec::new() })
    }

    /// Decrypts `bytes`; `before` is the preceding block of ciphertext.
    fn decrypt(&mut self, before: &[u8], bytes: &mut [u8]) -> Result<()> {
        let Self { context, stream } = self;
        let block = before.len();
        // The key stream of a block is the encrypted previous block of ciphertext.
        let whole = bytes.len().div_ceil(block).saturating_sub(1) * block;
        stream.resize(block + whole + block, 0);
        context.cipher_update(before, Some(stream)).map_err(MessageError::secret)?;
        context
            .cipher_update(&bytes[..whole], Some(&mut stream[block..]))
            .map_err(MessageError::secret)?;
        let (blocks, rest) = bytes.as_chunks_mut::<16>();
        let (keys, rest_keys) = stream.as_chunks::<16>();
        for (block, key) in blocks.iter_mut().zip(keys) {
            *block = (u128::from_ne_bytes(*block) ^ u128::from_ne_bytes(*key)).to_ne_bytes();
        }
        let keys = keys[blocks.len()..].as_flattened().iter().chain(rest_keys);
        rest.iter_mut().zip(keys).for_each(|(byte, key)| *byte ^= key);
        Ok(())
    }
}

struct Worker {
    blocks: Blocks,
    tagger: Option<AeadKey>,
}

impl Work<Segment> for Worker {
    fn work(&mut self, segment: &mut Segment) -> Result<()> {
        if let Some(tagger) = &mut self.tagger {
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&segment.at.to_be_bytes());
            segment.tag = tagger.seal(&nonce, &segment.bytes, &mut [])?;
        }
        self.blocks.decrypt(&segment.before, &mut segment.bytes)
    }
}

/// Hashes the plaintext, marks the content in it, and keeps back the bytes that may be the digest.
struct Check {
    digest: Context,
    /// Bytes of the random prefix that are still to come.
    skip: usize,
    held: Vec<u8>,
}

impl Check {
    fn new(cipher: Cipher) -> Self {
        let digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        Self { digest, skip: cipher.block_bytes() + 2, held: Vec::new() }
    }

    /// Hashes bytes that are certainly not the digest; returns how many of them are random prefix.
    fn hash(&mut self, bytes: &[u8]) -> usize {
        self.digest.update(bytes);
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        skipped
    }

    fn finish(mut self) -> Result<()> {
        if self.held.len() < MDC_BYTES || self.skip > 0 {
            return Err(MessageError::Truncated("the integrity check (MDC) is missing"));
        }
        self.digest.update(&self.held[..2]);
        let digest = self.digest.finish();
        let same =
            aws_lc_rs::constant_time::verify_slices_are_equal(digest.as_ref(), &self.held[2..]);
        if self.held[..2] == MDC_HEADER && same.is_ok() {
            Ok(())
        } else {
            Err(MessageError::Tampered("the integrity check (MDC) does not match"))
        }
    }
}

impl Stage<Segment> for Check {
    fn pass(&mut self, segment: &mut Segment) -> Result<()> {
        // The last bytes received so far may be the digest.
        let bytes = &segment.bytes;
        let certain = (self.held.len() + bytes.len()).saturating_sub(MDC_BYTES);
        let mut held = std::mem::take(&mut self.held);
        let rest = held.split_off(certain.min(held.len()));
        let certain = certain - held.len();
        let no_content = self.hash(&held);
        held.drain(..no_content);
        segment.plain = self.hash(&bytes[..certain])..certain;
        self.held = rest;
        self.held.extend_from_slice(&bytes[certain..]);
        segment.held = held;
        Ok(())
    }
}

/// The stage that keeps the tags.
struct Noted<'a>(&'a mut Checked);

impl Stage<Segment> for Noted<'_> {
    fn pass(&mut self, segment: &mut Segment) -> Result<()> {
        self.0.tags.push(segment.tag);
        self.0.bytes += segment.bytes.len() as u64;
        Ok(())
    }
}

/// The stage that compares the tags with those of the first reading, and marks the content.
struct Same<'a> {
    tags: std::slice::Iter<'a, [u8; TAG_BYTES]>,
    /// The range of content in the stream.
    content: Range<u64>,
    /// The bytes of the segments before.
    at: u64,
}

impl Stage<Segment> for Same<'_> {
    fn pass(&mut self, segment: &mut Segment) -> Result<()> {
        if self.tags.next() != Some(&segment.tag) {
            return Err(changed());
        }
        let len = segment.bytes.len();
        let within = |place: u64| {
            usize::try_from(place.saturating_sub(self.at)).map_or(len, |place| place.min(len))
        };
        segment.plain = within(self.content.start)..within(self.content.end);
        self.at += len as u64;
        Ok(())
    }
}

/// The stage that writes the content.
struct Written<'a, W> {
    plain: &'a mut W,
}

impl<W: Write + Send> Stage<Segment> for Written<'_, W> {
    fn pass(&mut self, segment: &mut Segment) -> Result<()> {
        self.plain.write_all(&segment.held).map_err(MessageError::write)?;
        self.plain.write_all(&segment.bytes[segment.plain.clone()]).map_err(MessageError::write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_libraries_encrypt_alike_in_any_pieces() {
        let plain: Vec<u8> = (0..1000).map(|at| u8::try_from(at % 251).unwrap()).collect();
        for cipher in [Cipher::Aes128, Cipher::Aes192, Cipher::Aes256] {
            let key: Vec<u8> = (1..).take(cipher.key_bytes()).collect();
            let mut whole = plain.clone();
            Chain::by_openssl(&key, cipher).unwrap().encrypt(&mut whole).unwrap();
            let mut pieces = plain.clone();
            let mut chain = Chain::new(&key, cipher).unwrap();
            assert_eq!(has_aes(), !matches!(chain, Chain::OpenSsl(_)));
            let mut rest = &mut pieces[..];
            for len in [0, 1, 15, 16, 17, 33, 200, 718] {
                let (piece, more) = rest.split_at_mut(len);
                chain.encrypt(piece).unwrap();
                rest = more;
            }
            assert!(rest.is_empty());
            assert_eq!(whole, pieces);
        }
    }
}
