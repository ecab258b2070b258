//! Chunked AEAD: the encrypted data packets of RFC 9580 (version 2 of type 18, section 5.13.2) and
//! of GnuPG (type 20, draft-koch-librepgp, section 5.16). The two formats differ only in how nonces
//! and associated data are made.
//!
//! Chunks are independent, so all cores encrypt and decrypt in parallel. The last tag covers the
//! number of chunks and of bytes, so a missing chunk is detected. No plaintext is released before
//! the tag of its chunk was verified.

use std::io::{BufRead, Read, Write};
use std::ops::Range;

use zeroize::Zeroizing;

use crate::aead::AeadKey;
use crate::algorithm::{Aead, ChunkSize, Cipher, TAG_BYTES};
use crate::error::{MessageError, Result};
use crate::framing::{read_full, tag};
use crate::kdf::hkdf_sha256;
use crate::pipeline::{self, Source, Stage, Work};

/// Bytes of the salt of version 2 packets.
pub(crate) const SALT_BYTES: usize = 32;

/// The minimum number of plaintext bytes in a segment, so that small chunks do not make many turns.
const SEGMENT_BYTES: usize = 256 << 10;

/// The maximum number of bytes in all segments in memory together.
const SEGMENTS_BYTES_MAX: usize = 40 << 20;

/// The keys and parameters to encrypt or decrypt all chunks, derived from the packet header and the
/// session key.
#[derive(Clone)]
pub(crate) struct Chunks {
    cipher: Cipher,
    aead: Aead,
    size: ChunkSize,
    key: Zeroizing<Vec<u8>>,
    /// For version 2, the nonce without the index; for type 20, the value to which the index is
    /// added.
    iv: Vec<u8>,
    /// Type, version, cipher, mode, chunk size: authenticated with every chunk.
    head: [u8; 5],
}

impl Chunks {
    /// For version 2 of type 18: key and nonce are derived from the session key and the salt.
    pub(crate) fn seipd_v2(
        session_key: &[u8],
        cipher: Cipher,
        aead: Aead,
        size: ChunkSize,
        salt: &[u8; SALT_BYTES],
    ) -> Result<Self> {
        let head = [0xc0 | tag::SEIPD, 2, cipher as u8, aead as u8, size.byte()];
        if session_key.len() != cipher.key_bytes() {
            return Err(MessageError::Malformed("the session key has the wrong length"));
        }
        let iv_bytes = aead.nonce_bytes() - 8;
        let mut derived = Zeroizing::new(vec![0; cipher.key_bytes() + iv_bytes]);
        hkdf_sha256(session_key, salt, &head, &mut derived)?;
        let iv = derived.split_off(cipher.key_bytes());
        Ok(Self { cipher, aead, size, key: derived, iv, head })
    }

    /// For type 20: the session key is the key.
    pub(crate) fn librepgp(
        session_key: &[u8],
        cipher: Cipher,
        aead: Aead,
        size: ChunkSize,
        iv: &[u8],
    ) -> Result<Self> {
        let head = [0xc0 | tag::AEAD, 1, cipher as u8, aead as u8, size.byte()];
        if session_key.len() != cipher.key_bytes() {
            return Err(MessageError::Malformed("the session key has the wrong length"));
        }
        let key = Zeroizing::new(session_key.to_vec());
        Ok(Self { cipher, aead, size, key, iv: iv.to_vec(), head })
    }

    /// The length of the encrypted stream in bytes for `plain` bytes of plaintext.
    pub(crate) fn sealed_bytes(&self, plain: u64) -> u64 {
        plain + (plain.div_ceil(self.size.bytes() as u64) + 1) * TAG_BYTES as u64
    }

    /// The length of the plaintext in bytes for an encrypted stream of `sealed` bytes; `None` if no
    /// stream has this length.
    pub(crate) fn plain_bytes(&self, sealed: u64) -> Option<u64> {
        let step = (self.size.bytes() + TAG_BYTES) as u64;
        let chunks = sealed.checked_sub(TAG_BYTES as u64)?;
        let plain = chunks - chunks.div_ceil(step) * TAG_BYTES as u64;
        (self.sealed_bytes(plain) == sealed).then_some(plain)
    }

    /// The numbers of the chunks with the bytes `plain` of the plaintext, and the place of these
    /// chunks in the encrypted stream if they were all of the full length.
    pub(crate) fn covering(&self, plain: &Range<u64>) -> (Range<u64>, Range<u64>) {
        let (chunk, step) = (self.size.bytes() as u64, (self.size.bytes() + TAG_BYTES) as u64);
        let first = plain.start / chunk;
        let chunks = first..plain.end.div_ceil(chunk).max(first);
        let sealed = chunks.start * step..chunks.end * step;
        (chunks, sealed)
    }

    /// Bytes of plaintext in a chunk.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.size.bytes() as u64
    }

    /// Decrypts chunks in memory, the first of which has the number `index`. Returns the bytes
    /// `wanted` of their plaintext.
    pub(crate) fn open_range(
        &self,
        index: u64,
        sealed: &[u8],
        wanted: Range<usize>,
    ) -> Result<Vec<u8>> {
        let (mut worker, size) = (self.worker()?, self.size.bytes());
        // The last chunk may have more than is wanted.
        let mut plain = Vec::with_capacity(wanted.len() + size + TAG_BYTES);
        let mut first = Vec::new();
        for (n, chunk) in sealed.chunks(size + TAG_BYTES).enumerate() {
            if chunk.len() <= TAG_BYTES {
                return Err(MessageError::Truncated("the input ends within an authentication tag"));
            }
            let index = index + n as u64;
            let (nonce, aad) = (self.nonce(index), self.associated(index, None));
            if let Some(skipped @ 1..) = wanted.start.checked_sub(n * size) {
                first.clear();
                worker.key.open_to(&nonce, &aad, chunk, &mut first)?;
                plain.extend_from_slice(first.get(skipped..).unwrap_or_default());
            } else {
                worker.key.open_to(&nonce, &aad, chunk, &mut plain)?;
            }
        }
        if plain.len() < wanted.len() {
            return Err(MessageError::Truncated("the input ends within a packet"));
        }
        plain.truncate(wanted.len());
        Ok(plain)
    }

    /// Checks the final tag of a stream of `plain` bytes.
    pub(crate) fn check_end(&self, plain: u64, tag: &[u8]) -> Result<()> {
        let index = plain.div_ceil(self.size.bytes() as u64);
        let aad = self.associated(index, Some(plain));
        let opened = self.worker()?.key.open(&self.nonce(index), &aad, &mut [], tag);
        opened.map_err(|_| MessageError::Tampered("the end is missing or was modified"))
    }

    fn nonce(&self, index: u64) -> Zeroizing<Vec<u8>> {
        let index = index.to_be_bytes();
        let mut nonce = Zeroizing::new(self.iv.clone());
        if self.head[1] == 2 {
            nonce.extend(index);
        } else {
            let at = nonce.len() - 8;
            nonce[at..].iter_mut().zip(index).for_each(|(byte, index)| *byte ^= index);
        }
        nonce
    }

    /// The associated data of a chunk, or of the final tag of a stream of `total` bytes.
    fn associated(&self, index: u64, total: Option<u64>) -> Vec<u8> {
        let mut data = self.head.to_vec();
        if self.head[1] == 1 {
            data.extend(index.to_be_bytes());
        }
        data.extend(total.into_iter().flat_map(u64::to_be_bytes));
        data
    }

    fn worker(&self) -> Result<Worker<'_>> {
        Ok(Worker { chunks: self, key: AeadKey::new(self.aead, self.cipher, &self.key)? })
    }

    fn chunks_per_segment(&self) -> usize {
        (SEGMENT_BYTES / self.size.bytes()).max(1)
    }

    /// The number of workers for `threads` cores within the memory limit for segments.
    fn workers(&self, threads: usize) -> usize {
        let segment = self.chunks_per_segment() * (self.size.bytes() + TAG_BYTES);
        threads.min(SEGMENTS_BYTES_MAX / segment).max(1)
    }

    /// Whether this key fits a stream. `start` is the first chunk and two tags, or the whole
    /// stream.
    pub(crate) fn fits(&self, start: &[u8]) -> Result<bool> {
        let mut key = AeadKey::new(self.aead, self.cipher, &self.key)?;
        let first = start.len().saturating_sub(TAG_BYTES).min(self.size.bytes() + TAG_BYTES);
        let total = (first == 0).then_some(0);
        let first = if first == 0 { start.len() } else { first };
        let Some(plain) = first.checked_sub(TAG_BYTES) else { return Ok(false) };
        let mut data = start[..plain].to_vec();
        let tag = &start[plain..first];
        Ok(key.open(&self.nonce(0), &self.associated(0, total), &mut data, tag).is_ok())
    }

    /// Encrypts the stream `plain`.
    pub(crate) fn seal(
        &self,
        plain: &mut (impl Read + Send),
        sealed: &mut (impl Write + Send),
        threads: usize,
    ) -> Result<()> {
        let mut source = SealSource { chunks: self, plain, index: 0 };
        let workers = self.workers(threads);
        let mut made = (0..workers).map(|_| self.worker()).collect::<Result<Vec<_>>>()?;
        let mut drain = WriteDrain { out: sealed };
        pipeline::run(workers, &mut source, (&mut (), &mut drain), || {
            Sealing(made.pop().expect("one each"))
        })
    }

    /// Encrypts the `bytes` bytes of `plain` to the start of `sealed`, which has
    /// [`Self::sealed_bytes`] of room, on this thread.
    pub(crate) fn seal_to(
        &self,
        plain: &mut impl BufRead,
        bytes: usize,
        sealed: &mut [u8],
    ) -> Result<()> {
        let (mut worker, size) = (self.worker()?, self.size.bytes());
        let (mut rest, mut left, mut index) = (sealed, bytes, 0);
        while left > 0 {
            let step = left.min(size);
            let (nonce, aad) = (self.nonce(index), self.associated(index, None));
            worker.key.seal_from(&nonce, &aad, (&mut *plain, step), rest)?;
            rest = &mut rest[step + TAG_BYTES..];
            (left, index) = (left - step, index + 1);
        }
        let aad = self.associated(index, Some(bytes as u64));
        worker.key.seal_from(&self.nonce(index), &aad, (plain, 0), rest)
    }

    /// Decrypts the stream `sealed`. Only authenticated data reaches `plain`. An error means that
    /// the stream is not complete.
    pub(crate) fn open(
        &self,
        sealed: &mut (impl Read + Send),
        plain: &mut (impl Write + Send),
        threads: usize,
    ) -> Result<()> {
        let mut source = OpenSource { chunks: self, sealed, index: 0, carried: None };
        let workers = self.workers(threads);
        let mut made = (0..workers).map(|_| self.worker()).collect::<Result<Vec<_>>>()?;
        let mut drain = PlainDrain { chunks: self, out: plain };
        pipeline::run(workers, &mut source, (&mut (), &mut drain), || {
            Opening(made.pop().expect("one each"))
        })
    }
}

/// A run of consecutive chunks. In memory each chunk is followed by its tag, as in the packet.
#[derive(Default)]
struct Segment {
    /// The buffer; the first [`Self::len`] bytes are in use.
    bytes: Vec<u8>,
    len: usize,
    /// The number of the first chunk.
    index: u64,
    /// Bytes of plaintext.
    plain: usize,
    last: bool,
}

impl Segment {
    /// The length in bytes of `plain` bytes with a tag after each chunk.
    fn sealed(&self, chunk: usize) -> usize {
        self.plain + self.plain.div_ceil(chunk) * TAG_BYTES
    }

    /// The length of the plaintext in bytes up to the end of this segment.
    fn total(&self, chunk: usize) -> u64 {
        self.index * chunk as u64 + self.plain as u64
    }
}

/// Reads at most `wanted` bytes into `bytes`, from position `start` on. The buffer grows as data
/// arrives, so that a small message does not pay for a large one. It never shrinks; old contents
/// are overwritten.
fn read_at(
    input: &mut impl Read,
    bytes: &mut Vec<u8>,
    start: usize,
    wanted: usize,
) -> Result<usize> {
    const FIRST_BYTES: usize = 8 << 10;
    let mut filled = 0;
    while filled < wanted {
        let room = bytes.len().saturating_sub(start).max(filled * 4).max(FIRST_BYTES).min(wanted);
        if bytes.len() < start + room {
            bytes.resize(start + room, 0);
        }
        let read = read_full(input, &mut bytes[start + filled..start + room])?;
        filled += read;
        if filled < room {
            break;
        }
    }
    Ok(filled)
}

struct SealSource<'a, R> {
    chunks: &'a Chunks,
    plain: &'a mut R,
    index: u64,
}

impl<R: Read + Send> Source<Segment> for SealSource<'_, R> {
    fn fill(&mut self, segment: &mut Segment) -> Result<bool> {
        let chunk = self.chunks.size.bytes();
        (segment.index, segment.plain, segment.last) = (self.index, 0, false);
        segment.len = 0;
        for _ in 0..self.chunks.chunks_per_segment() {
            let read = read_at(self.plain, &mut segment.bytes, segment.len, chunk)?;
            segment.plain += read;
            segment.len += read;
            if read > 0 {
                segment.len += TAG_BYTES;
                self.index += 1;
            }
            if read < chunk {
                segment.last = true;
                break;
            }
        }
        Ok(!segment.last)
    }
}

struct Worker<'a> {
    chunks: &'a Chunks,
    key: AeadKey,
}

struct Sealing<'a>(Worker<'a>);

impl Work<Segment> for Sealing<'_> {
    fn work(&mut self, segment: &mut Segment) -> Result<()> {
        let Worker { chunks, key } = &mut self.0;
        let step = chunks.size.bytes() + TAG_BYTES;
        // Room for the tag of the last chunk and for the final tag.
        if segment.bytes.len() < segment.len + TAG_BYTES {
            segment.bytes.resize(segment.len + TAG_BYTES, 0);
        }
        let sealed = &mut segment.bytes[..segment.len];
        for (index, chunk) in (segment.index..).zip(sealed.chunks_mut(step)) {
            let (data, tag) = chunk.split_at_mut(chunk.len() - TAG_BYTES);
            let sealed = key.seal(&chunks.nonce(index), &chunks.associated(index, None), data)?;
            tag.copy_from_slice(&sealed);
        }
        if segment.last {
            let index = segment.index + segment.plain.div_ceil(chunks.size.bytes()) as u64;
            let total = segment.total(chunks.size.bytes());
            let aad = chunks.associated(index, Some(total));
            let tag = key.seal(&chunks.nonce(index), &aad, &mut [])?;
            segment.bytes[segment.len..segment.len + TAG_BYTES].copy_from_slice(&tag);
            segment.len += TAG_BYTES;
        }
        Ok(())
    }
}

struct WriteDrain<'a, W> {
    out: &'a mut W,
}

impl<W: Write + Send> Stage<Segment> for WriteDrain<'_, W> {
    fn pass(&mut self, segment: &mut Segment) -> Result<()> {
        self.out.write_all(&segment.bytes[..segment.len]).map_err(MessageError::write)
    }
}

struct OpenSource<'a, R> {
    chunks: &'a Chunks,
    sealed: &'a mut R,
    index: u64,
    /// Bytes read ahead, of the length of a tag, because they may be the final tag. `None` at
    /// first.
    carried: Option<[u8; TAG_BYTES]>,
}

impl<R: Read + Send> Source<Segment> for OpenSource<'_, R> {
    fn fill(&mut self, segment: &mut Segment) -> Result<bool> {
        let chunk = self.chunks.size.bytes();
        let count = self.chunks.chunks_per_segment();
        let whole = count * (chunk + TAG_BYTES) + TAG_BYTES;
        let mut start = 0;
        if let Some(carried) = self.carried.take() {
            start = TAG_BYTES;
            if segment.bytes.len() < start {
                segment.bytes.resize(start, 0);
            }
            segment.bytes[..start].copy_from_slice(&carried);
        }
        segment.index = self.index;
        let wanted = whole - start;
        let read = read_at(self.sealed, &mut segment.bytes, start, wanted)?;
        segment.len = start + read;
        segment.last = read < wanted;
        if segment.last {
            // The rest is chunks, the last of which may be short, and the final tag.
            let Some(chunks) = segment.len.checked_sub(TAG_BYTES) else {
                return Err(MessageError::Truncated("the authentication tag is missing"));
            };
            if (1..=TAG_BYTES).contains(&(chunks % (chunk + TAG_BYTES))) {
                return Err(MessageError::Truncated("the input ends within an authentication tag"));
            }
            segment.plain = chunks - chunks.div_ceil(chunk + TAG_BYTES) * TAG_BYTES;
        } else {
            segment.plain = count * chunk;
            segment.len = whole - TAG_BYTES;
            let mut carried = [0; TAG_BYTES];
            carried.copy_from_slice(&segment.bytes[segment.len..whole]);
            self.carried = Some(carried);
        }
        self.index += count as u64;
        Ok(!segment.last)
    }
}

struct Opening<'a>(Worker<'a>);

impl Work<Segment> for Opening<'_> {
    fn work(&mut self, segment: &mut Segment) -> Result<()> {
        let Worker { chunks, key } = &mut self.0;
        let size = chunks.size.bytes();
        let sealed = segment.sealed(size);
        let (data, last) = segment.bytes[..segment.len].split_at_mut(sealed);
        let mut index = segment.index;
        for chunk in data.chunks_mut(size + TAG_BYTES) {
            let (data, tag) = chunk.split_at_mut(chunk.len() - TAG_BYTES);
            key.open(&chunks.nonce(index), &chunks.associated(index, None), data, tag)?;
            index += 1;
        }
        if segment.last {
            let total = segment.index * size as u64 + segment.plain as u64;
            let aad = chunks.associated(index, Some(total));
            key.open(&chunks.nonce(index), &aad, &mut [], last)
                .map_err(|_| MessageError::Tampered("the end is missing or was modified"))?;
        }
        Ok(())
    }
}

struct PlainDrain<'a, W> {
    chunks: &'a Chunks,
    out: &'a mut W,
}

impl<W: Write + Send> Stage<Segment> for PlainDrain<'_, W> {
    fn pass(&mut self, segment: &mut Segment) -> Result<()> {
        let size = self.chunks.size.bytes();
        for chunk in segment.bytes[..segment.sealed(size)].chunks(size + TAG_BYTES) {
            let plain = &chunk[..chunk.len() - TAG_BYTES];
            self.out.write_all(plain).map_err(MessageError::write)?;
        }
        Ok(())
    }
}
