//! Packs: tar archives of chunks with their index, padded.
//!
//! This module has the content of a pack. Its encryption is in [`epoch`](crate::epoch).

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

use crate::chunks::CHUNK_BYTES_MAX;
use crate::compress::{self, STORED_BYTES_MAX};
use crate::error::{BackupError, Result};
use crate::id::{Id, Identifiers, Kind, ObjectHash, RepositoryId};
use crate::text::Lines;

/// Bytes of content after which a writer begins the next pack.
pub(crate) const PACK_BYTES: u64 = 16 << 20;

/// The maximum number of bytes in the content of a pack. Readers refuse more.
pub(crate) const PACK_BYTES_MAX: u64 = 64 << 20;

/// The maximum number of bytes that the encryption adds to the content of a pack.
pub(crate) const SEALED_EXTRA_MAX: u64 = 64 << 10;

/// Bytes of a block of a tar archive.
const BLOCK: usize = 512;

/// Zeros between and after the members.
static ZEROS: [u8; 4096] = [0; 4096];

/// The minimum length of the content of a pack.
const PADDED_MIN: u64 = 4096;

/// The domain of the index in a pack.
const DOMAIN: &str = "talaria backup pack";

/// A chunk in a pack, as a line of an index describes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PackedChunk {
    /// The kind of its content.
    pub kind: Kind,
    /// The identifier.
    pub id: Id,
    /// The start of the chunk in the content of the pack, in bytes.
    pub offset: u64,
    /// The length in the pack in bytes.
    pub stored: u32,
    /// The length of the plaintext in bytes.
    pub plain: u32,
    /// One Zstandard frame; else the plaintext.
    pub compressed: bool,
}

impl PackedChunk {
    /// Appends the line.
    pub(crate) fn write(&self, out: &mut String) {
        use std::fmt::Write as _;
        let Self { kind, id, offset, stored, plain, compressed } = self;
        let form = if *compressed { "zst" } else { "-" };
        let _ = writeln!(out, "{} {id} {offset} {stored} {plain} {form}", kind.name());
    }

    /// The chunk of a line; `None` if the line has another form or an impossible length.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let kind = Kind::of_chunk(fields.next()?)?;
        let id = fields.next()?.parse().ok()?;
        let (offset, stored, plain) =
            (number(fields.next()?)?, number(fields.next()?)?, number(fields.next()?)?);
        let compressed = match fields.next()? {
            "zst" => true,
            "-" => false,
            _ => return None,
        };
        let possible = fields.next().is_none()
            && offset >= BLOCK as u64
            && offset % BLOCK as u64 == 0
            && offset + stored <= PACK_BYTES_MAX
            && plain <= CHUNK_BYTES_MAX as u64
            && if compressed { stored <= STORED_BYTES_MAX as u64 } else { stored == plain };
        let (stored, plain) = (u32::try_from(stored).ok()?, u32::try_from(plain).ok()?);
        possible.then_some(Self { kind, id, offset, stored, plain, compressed })
    }

    /// The range of the chunk in the content of the pack.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + u64::from(self.stored)
    }

    /// The name of the member of the archive.
    fn member(&self) -> String {
        format!("{}{}", self.id, if self.compressed { ".zst" } else { "" })
    }

    /// The plaintext from the bytes in the pack, if its identifier is right.
    pub(crate) fn plaintext(
        &self,
        bytes: Vec<u8>,
        identifiers: &Identifiers,
    ) -> std::result::Result<Vec<u8>, &'static str> {
        let plain = if self.compressed {
            compress::decompressed(&bytes, self.plain as usize)
                .ok_or("a chunk does not decompress to its length")?
        } else {
            bytes
        };
        if plain.len() != self.plain as usize || identifiers.of(self.kind, &plain) != self.id {
            return Err("a chunk is not the one that its name says");
        }
        Ok(plain)
    }
}

/// A decimal number of at most 12 digits without leading zeros.
pub(crate) fn number(field: &str) -> Option<u64> {
    let digits = field.bytes().all(|byte| byte.is_ascii_digit());
    let one_form = field == "0" || !field.starts_with('0');
    (digits && one_form && (1..=12).contains(&field.len())).then(|| field.parse().ok())?
}

/// A pack in the making.
#[derive(Default)]
pub(crate) struct PackWriter {
    chunks: Vec<PackedChunk>,
    /// The stored bytes of each chunk.
    contents: VecDeque<Vec<u8>>,
    /// Bytes of the archive so far.
    bytes: u64,
}

impl PackWriter {
    /// Adds a chunk in its stored form.
    pub(crate) fn push(
        &mut self,
        kind: Kind,
        id: Id,
        plain: u32,
        compressed: bool,
        bytes: Vec<u8>,
    ) {
        let offset = self.bytes + BLOCK as u64;
        let stored = u32::try_from(bytes.len()).expect("a chunk is smaller");
        self.chunks.push(PackedChunk { kind, id, offset, stored, plain, compressed });
        self.bytes = offset + padded_to_block(bytes.len()) as u64;
        self.contents.push_back(bytes);
    }

    /// Bytes of the archive so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The complete content as a stream, and the chunks in it.
    pub(crate) fn finish(self, repository: RepositoryId) -> (PackContent, Vec<PackedChunk>) {
        let mut index = format!("{DOMAIN} 1\nrepository {repository}\n");
        self.chunks.iter().for_each(|chunk| chunk.write(&mut index));
        let mut pieces = VecDeque::with_capacity(2 * self.chunks.len() + 2);
        for (chunk, bytes) in self.chunks.iter().zip(self.contents) {
            pieces.push_back(header(&chunk.member(), u64::from(chunk.stored)).to_vec());
            pieces.push_back(bytes);
        }
        pieces.push_back(header("index", index.len() as u64).to_vec());
        pieces.push_back(index.into_bytes());
        let archive: usize = pieces.iter().map(|piece| padded_to_block(piece.len())).sum();
        let length = padded((archive + 2 * BLOCK) as u64);
        let content =
            PackContent { pieces, piece: Vec::new(), at: 0, zeros: 0, length, left: length };
        (content, self.chunks)
    }
}

/// The content of a pack as a stream. Chunks that were read are freed.
pub(crate) struct PackContent {
    /// Headers and contents of members, each followed by zeros up to the next block.
    pieces: VecDeque<Vec<u8>>,
    /// The piece that is being read.
    piece: Vec<u8>,
    at: usize,
    /// Bytes of zero after it.
    zeros: usize,
    length: u64,
    /// Bytes that were not read yet.
    left: u64,
}

impl PackContent {
    /// The length of the content in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

impl Read for PackContent {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buf)?;
        self.consume(read);
        Ok(read)
    }
}

/// A read returns the rest of a piece, or zeros.
impl BufRead for PackContent {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.piece.len() && self.zeros == 0 && self.left > 0 {
            match self.pieces.pop_front() {
                Some(piece) => {
                    self.zeros = padded_to_block(piece.len()) - piece.len();
                    (self.piece, self.at) = (piece, 0);
                }
                // The padding of the pack.
                None => self.zeros = usize::try_from(self.left).unwrap_or(usize::MAX),
            }
        }
        if self.at < self.piece.len() {
            return Ok(&self.piece[self.at..]);
        }
        Ok(&ZEROS[..self.zeros.min(ZEROS.len())])
    }

    fn consume(&mut self, bytes: usize) {
        self.left -= bytes as u64;
        if self.at < self.piece.len() {
            self.at += bytes;
        } else {
            self.zeros -= bytes;
        }
    }
}

/// Parses the content of a pack with the object name `name`: the chunks, in order. The identifiers
/// are not computed.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) for everything that a writer would not have written.
pub fn parse(name: &str, content: &[u8], repository: RepositoryId) -> Result<Vec<PackedChunk>> {
    let damaged = |why: &str| BackupError::damaged(name, why);
    let mut rest = content;
    let mut members = Vec::new();
    let index = loop {
        let (member, bytes, after) = member(rest).ok_or_else(|| {
            damaged("its archive ends early or has a member that is not in the only allowed form")
        })?;
        let offset = (content.len() - rest.len() + BLOCK) as u64;
        rest = after;
        if member == "index" {
            break bytes;
        }
        members.push((member, offset, bytes));
    };
    let end = content.len() - rest.len() + 2 * BLOCK;
    if rest.iter().any(|byte| *byte != 0) || content.len() as u64 != padded(end as u64) {
        return Err(damaged("something follows its index, or its padding has another length"));
    }
    let repository = repository.to_string();
    let mut lines = Lines::open(name, index, DOMAIN, Some(&repository))?;
    let mut chunks = Vec::with_capacity(members.len());
    for (member, offset, bytes) in members {
        let is_length = |chunk: &PackedChunk| {
            chunk.stored as usize == bytes.len()
                && (!chunk.compressed
                    || compress::content_bytes(bytes) == Some(u64::from(chunk.plain)))
        };
        let chunk = lines
            .any()
            .and_then(PackedChunk::parse)
            .filter(|chunk| chunk.member() == member && chunk.offset == offset && is_length(chunk));
        chunks.push(chunk.ok_or_else(|| damaged("its index does not describe its members"))?);
    }
    lines.end()?;
    Ok(chunks)
}

/// The first member of an archive: name, content, and the archive after it. `None` if the header or
/// the padding is not exactly the one that [`PackWriter`] writes.
fn member(archive: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (head, rest) = archive.split_first_chunk::<BLOCK>()?;
    let name = std::str::from_utf8(head[..100].split(|byte| *byte == 0).next()?).ok()?;
    let size = std::str::from_utf8(&head[124..135]).ok()?;
    let size = size.bytes().all(|digit| (b'0'..=b'7').contains(&digit)).then_some(size)?;
    let size = usize::from_str_radix(size, 8).ok()?;
    if name.is_empty() || *head != header(name, size as u64) {
        return None;
    }
    let (content, rest) = rest.split_at_checked(size)?;
    let (zeros, rest) = rest.split_at_checked(padded_to_block(size) - size)?;
    zeros.iter().all(|byte| *byte == 0).then_some((name, content, rest))
}

/// The header of a member (POSIX.1-1988, ustar): mode 0600, owner and time 0.
fn header(name: &str, bytes: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, field: &[u8]| block[at..at + field.len()].copy_from_slice(field);
    put(0, &name.as_bytes()[..name.len().min(99)]);
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{bytes:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn padded_to_block(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK)
}

/// The length of the content of a pack whose archive has `bytes` bytes: Padmé, so that the length
/// tells little (Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and Communication
/// with PURBs", 2019).
fn padded(bytes: u64) -> u64 {
    let bytes = bytes.max(PADDED_MIN);
    let exponent = bytes.ilog2();
    let kept = exponent.ilog2() + 1;
    bytes.next_multiple_of(1 << (exponent - kept))
}

/// The name of the object of a pack.
pub(crate) fn pack_name(hash: &ObjectHash) -> String {
    let hash = hash.to_string();
    format!("packs/{}/{hash}", &hash[..2])
}

/// The pack with this object name; `None` if it is not the name of a pack.
pub(crate) fn pack_of_name(name: &str) -> Option<ObjectHash> {
    let (folder, hash) = name.strip_prefix("packs/")?.split_once('/')?;
    let hash: ObjectHash =
        (hash.starts_with(folder) && folder.len() == 2).then(|| hash.parse().ok())??;
    Some(hash)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;
    use zeroize::Zeroizing;

    use super::*;
    use crate::compress::Zstd;
    use crate::id::GroupSecret;

    const REPOSITORY: RepositoryId = RepositoryId([2; 16]);

    fn identifiers() -> Identifiers {
        Identifiers::new(&GroupSecret(Zeroizing::new([1; 32])), REPOSITORY)
    }

    /// A pack with these plaintexts, compressed where it pays.
    fn pack(plains: &[Vec<u8>]) -> (Vec<u8>, Vec<PackedChunk>) {
        let (ids, mut zstd, mut pack) = (identifiers(), Zstd::new(), PackWriter::default());
        for (n, plain) in plains.iter().enumerate() {
            let kind = [Kind::Data, Kind::List, Kind::Tree][n % 3];
            let frame = zstd.compress(plain);
            let compressed = frame.is_some();
            let length = u32::try_from(plain.len()).unwrap();
            let bytes = frame.unwrap_or_else(|| plain.clone());
            pack.push(kind, ids.of(kind, plain), length, compressed, bytes);
        }
        let (mut content, chunks) = pack.finish(REPOSITORY);
        let mut bytes = Vec::new();
        let length = content.length();
        content.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, length);
        (bytes, chunks)
    }

    fn chunk(content: &[u8], chunk: &PackedChunk) -> std::result::Result<Vec<u8>, &'static str> {
        let at = |byte| usize::try_from(byte).unwrap();
        let bytes = content[at(chunk.range().start)..at(chunk.range().end)].to_vec();
        chunk.plaintext(bytes, &identifiers())
    }

    fn plains() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let noise = proptest::collection::vec(any::<u8>(), 0..1500);
        let text = (0..20_000_usize).prop_map(|bytes| vec![b'x'; bytes]);
        proptest::collection::vec(prop_oneof![noise, text], 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_pack_is_read_as_it_was_written(plains in plains(), step in 1..3000_usize) {
            let (content, chunks) = pack(&plains);
            prop_assert_eq!(&parse("p", &content, REPOSITORY).unwrap(), &chunks);
            for (plain, stored) in plains.iter().zip(&chunks) {
                prop_assert_eq!(&chunk(&content, stored).unwrap(), plain);
            }
            // The same in pieces.
            let mut again = PackWriter::default();
            for (stored, plain) in chunks.iter().zip(&plains) {
                let at = |byte| usize::try_from(byte).unwrap();
                let bytes = content[at(stored.range().start)..at(stored.range().end)].to_vec();
                again.push(stored.kind, stored.id, u32::try_from(plain.len()).unwrap(), stored.compressed, bytes);
            }
            let (mut stream, _) = again.finish(REPOSITORY);
            let (mut pieces, mut piece) = (Vec::new(), vec![0; step]);
            loop {
                let n = stream.read(&mut piece).unwrap();
                if n == 0 {
                    break;
                }
                pieces.extend_from_slice(&piece[..n]);
            }
            prop_assert_eq!(&pieces, &content);
        }

        #[test]
        fn any_bytes_are_a_pack_or_refused(content in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(parse("p", &content, REPOSITORY).is_err());
        }
    }

    #[test]
    fn one_flipped_bit_is_found_wherever_it_is() {
        let plains = vec![b"some text".to_vec(), vec![b'y'; 700], Vec::new()];
        let (content, chunks) = pack(&plains);
        for at in 0..content.len() {
            let mut changed = content.clone();
            changed[at] ^= 1 << (at % 8);
            let stored = chunks.iter().position(|chunk| chunk.range().contains(&(at as u64)));
            match (parse("p", &changed, REPOSITORY), stored) {
                (Ok(parsed), Some(damaged)) => {
                    assert_eq!(parsed, chunks);
                    for (n, stored) in chunks.iter().enumerate() {
                        let read = chunk(&changed, stored);
                        // A bit of a frame's header has no meaning.
                        let is_good = read.as_ref() == Ok(&plains[n]);
                        assert!(is_good || n == damaged && read.is_err(), "byte {at}");
                    }
                }
                // The length of a frame is in its header.
                (Err(BackupError::Damaged { .. }), Some(_)) => {}
                (Err(BackupError::Damaged { .. } | BackupError::Newer { .. }), None) => {}
                (other, _) => panic!("byte {at}: {other:?}"),
            }
        }
        for length in 0..content.len() {
            assert!(parse("p", &content[..length], REPOSITORY).is_err(), "{length}");
        }
        assert!(parse("p", &[&content[..], &[0; 512]].concat(), REPOSITORY).is_err());
        assert!(parse("p", &content, RepositoryId([3; 16])).is_err());
    }

    #[test]
    fn lengths_tell_little() {
        assert_eq!(padded(1), 4096);
        assert_eq!(padded(4096), 4096);
        // The examples of the formula: 16 MiB + 1 has 24 bits, of which 5 are kept after the first.
        assert_eq!(padded((16 << 20) + 1), (16 << 20) + (1 << 19));
        for bytes in [5_000_u64, 70_000, 1_234_567, 17_000_000, 60_000_000] {
            let length = padded(bytes);
            assert!(length >= bytes && length < bytes + bytes / 8, "{bytes}");
            assert_eq!(padded(length), length);
        }
        let lengths: std::collections::BTreeSet<_> =
            ((8 << 20)..(16 << 20)).step_by(4096).map(padded).collect();
        assert!(lengths.len() <= 33, "{}", lengths.len());
    }

    #[test]
    fn impossible_chunks_are_refused() {
        let id = Id([7; 32]);
        let good = format!("data {id} 512 100 100 -");
        assert!(PackedChunk::parse(&good).is_some());
        for line in [
            format!("snapshot {id} 512 100 100 -"),
            format!("data {id} 512 100 100 - "),
            format!("data {id} 512 100 100"),
            format!("data {id} 513 100 100 -"),
            format!("data {id} 0 100 100 -"),
            format!("data {id} 512 100 101 -"),
            format!("data {id} 512 100 100 gz"),
            format!("data {id} 512 0100 100 -"),
            format!("data {id} 512 +100 100 -"),
            format!("data {id} 512 9000000 9000000 -"),
            format!("data {id} 512 100 9000000 zst"),
            format!("data {id} 67108864 100 100 -"),
            format!("data {id} 999999999999999999999 100 100 -"),
            format!("data {} 512 100 100 -", &id.to_string()[1..]),
            format!("Data {id} 512 100 100 -"),
            String::new(),
        ] {
            assert_eq!(PackedChunk::parse(&line), None, "{line}");
        }
    }

    #[test]
    fn tar_reads_a_pack() {
        let plains = vec![crate::testing::noise(1, 1000), vec![b'z'; 100_000]];
        let (content, chunks) = pack(&plains);
        let tar = |arguments: &[&str]| {
            let mut tar = Command::new("tar")
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = tar.stdin.take().unwrap();
            stdin.write_all(&content).unwrap();
            drop(stdin);
            let output = tar.wait_with_output().unwrap();
            assert!(output.status.success());
            output.stdout
        };
        let names = format!("{}\n{}.zst\nindex\n", chunks[0].id, chunks[1].id);
        assert_eq!(String::from_utf8(tar(&["t"])).unwrap(), names);
        assert_eq!(tar(&["xO", &chunks[0].id.to_string()]), plains[0]);
    }
}
