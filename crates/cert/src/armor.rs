//! ASCII armor (RFC 9580, section 6): any number of blocks in a text, read as one binary stream.

use std::io::{self, BufRead, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The longest line that is decoded, in bytes. Real armor has 76; longer lines count as damage.
const LINE_BYTES_MAX: usize = 1 << 16;

/// Maximum number of damaged lines that are recorded.
const DAMAGE_MAX: usize = 1000;

/// Start of an armor block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Block {
    /// Offset of the block's first byte in the binary stream.
    pub decoded: u64,
    /// Line of the text in which the block starts, from 1.
    pub line: u64,
}

/// Reads the content of all OpenPGP blocks in a text, one after the other.
///
/// Text around the blocks is skipped. The checksum is not verified (RFC 9580, section 6.1). Memory
/// is bounded by one line. A damaged block ends at the damage, and reading continues with the next
/// block. [`Self::damage`] lists the damage.
#[derive(Debug)]
pub struct Armor<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    state: State,
    decoded: Vec<u8>,
    at: usize,
    total: u64,
    blocks: Vec<Block>,
    damage: Vec<u64>,
    /// Base64 digits of an unfinished group of four.
    pending: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Outside,
    Headers,
    Body,
    /// After the checksum or padding: only the tail line may follow.
    Tail,
    End,
}

impl<R: BufRead> Armor<R> {
    /// Reads the blocks in `input`.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
            state: State::Outside,
            decoded: Vec::new(),
            at: 0,
            total: 0,
            blocks: Vec::new(),
            damage: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// The blocks read so far that have content, and the last one.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The numbers of the damaged lines found so far, at most the first thousand.
    pub fn damage(&self) -> &[u64] {
        &self.damage
    }

    /// Reads one line into `self.line`, `false` at the end of the input.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut limited = self.input.by_ref().take(LINE_BYTES_MAX as u64);
        if limited.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.len() == LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
            self.line.clear();
            self.line.push(0);
            while let [_, ..] = self.input.fill_buf()? {
                let buffer = self.input.fill_buf()?;
                let newline = buffer.iter().position(|&b| b == b'\n');
                let used = newline.map_or(buffer.len(), |at| at + 1);
                self.input.consume(used);
                if newline.is_some() {
                    break;
                }
            }
        }
        Ok(true)
    }

    fn damaged(&mut self) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(self.number);
        }
        self.pending.clear();
        self.state = State::Outside;
    }

    /// Reads lines until some bytes are decoded or the input ends.
    fn fill(&mut self) -> io::Result<()> {
        self.decoded.clear();
        self.at = 0;
        while self.decoded.is_empty() && self.state != State::End {
            if !self.next_line()? {
                if self.state != State::Outside {
                    self.damaged();
                }
                self.state = State::End;
                break;
            }
            let line = trimmed(&self.line);
            let opens = line.starts_with(b"-----BEGIN PGP ") && line.ends_with(b"-----");
            match self.state {
                _ if opens => {
                    if self.state != State::Outside {
                        self.damaged();
                    }
                    // The text of a cleartext signature is not base64. Its signature block follows.
                    self.state = if self.line.starts_with(b"-----BEGIN PGP SIGNED") {
                        State::Outside
                    } else {
                        // A block without content is not listed.
                        self.blocks.pop_if(|last| last.decoded == self.total);
                        self.blocks.push(Block { decoded: self.total, line: self.number });
                        State::Headers
                    };
                }
                State::Outside | State::End => {}
                State::Headers if line.is_empty() => self.state = State::Body,
                State::Headers if line.contains(&b':') => {}
                // The empty line is missing, as in the output of some mail programs.
                State::Headers | State::Body => self.body_line(),
                State::Tail if line.starts_with(b"-----END PGP ") => self.state = State::Outside,
                State::Tail if line.is_empty() || line.starts_with(b"=") => {}
                State::Tail => self.damaged(),
            }
        }
        self.total += self.decoded.len() as u64;
        Ok(())
    }

    fn body_line(&mut self) {
        self.state = State::Body;
        let line = trimmed(&self.line);
        if line.starts_with(b"-----END PGP ") {
            let complete = self.pending.is_empty();
            self.state = State::Outside;
            if !complete {
                self.damaged();
            }
            return;
        }
        if line.starts_with(b"=") && self.pending.is_empty() {
            self.state = State::Tail;
            return;
        }
        self.pending.extend_from_slice(line);
        let whole = self.pending.len() / 4 * 4;
        let padded = self.pending.ends_with(b"=");
        let before = self.decoded.len();
        if let Ok(()) = STANDARD.decode_vec(&self.pending[..whole], &mut self.decoded) {
            self.pending.drain(..whole);
            if padded {
                self.state = State::Tail;
            }
        } else {
            self.decoded.truncate(before);
            self.damaged();
        }
    }
}

impl<R: BufRead> Read for Armor<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.decoded.len() && self.state != State::End {
            self.fill()?;
        }
        let n = out.len().min(self.decoded.len() - self.at);
        out[..n].copy_from_slice(&self.decoded[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Writes certificates as one public key block, 64 digits to a line, with the checksum that older
/// readers need.
#[must_use]
pub fn enarmor(certs: &[u8]) -> String {
    // The first part takes the memory for all.
    let mut out = String::new();
    let mut armor = Enarmor::new();
    armor.write(certs, &mut out);
    armor.finish(&mut out);
    out
}

/// Bytes in a line of armor.
const LINE_BYTES: usize = 48;

/// Writes a public key block as [`enarmor`] does, part by part.
#[derive(Clone, Debug, Default)]
pub struct Enarmor {
    /// Bytes of an unfinished line.
    line: Vec<u8>,
    /// The checksum so far; `None` before the first line.
    checksum: Option<u32>,
}

impl Enarmor {
    /// A block of which nothing is written.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn begin(&mut self, out: &mut String) -> u32 {
        *self.checksum.get_or_insert_with(|| {
            out.push_str("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n");
            CHECKSUM_START
        })
    }

    /// Writes the whole lines of the bytes so far.
    pub fn write(&mut self, bytes: &[u8], out: &mut String) {
        // Four digits for three bytes, and the ends of the lines.
        out.reserve(bytes.len() / 3 * 4 + bytes.len() / 48 + 256);
        self.checksum = Some(crc24(self.begin(out), bytes));
        let missing = if self.line.is_empty() { 0 } else { LINE_BYTES - self.line.len() };
        let (first, rest) = bytes.split_at(missing.min(bytes.len()));
        self.line.extend_from_slice(first);
        if self.line.len() == LINE_BYTES {
            write_line(&std::mem::take(&mut self.line), out);
        }
        let lines = rest.chunks_exact(LINE_BYTES);
        let left = lines.remainder();
        lines.for_each(|bytes| write_line(bytes, out));
        self.line.extend_from_slice(left);
    }

    /// Writes the rest and the checksum.
    pub fn finish(&mut self, out: &mut String) {
        let checksum = self.begin(out) & 0x00ff_ffff;
        if !self.line.is_empty() {
            write_line(&std::mem::take(&mut self.line), out);
        }
        out.push('=');
        STANDARD.encode_string(&checksum.to_be_bytes()[1..], out);
        out.push_str("\n-----END PGP PUBLIC KEY BLOCK-----\n");
        self.checksum = None;
    }
}

/// Writes a line of at most [`LINE_BYTES`].
fn write_line(bytes: &[u8], out: &mut String) {
    let mut line = [0; LINE_BYTES / 3 * 4];
    let length = STANDARD.encode_slice(bytes, &mut line).expect("a line has room for its digits");
    out.push_str(std::str::from_utf8(&line[..length]).expect("digits are ASCII"));
    out.push('\n');
}

/// The checksum of no bytes.
const CHECKSUM_START: u32 = 0x00b7_04ce;

/// The checksum of armor (RFC 9580, section 6.1.1) with further bytes, eight at a time. What is
/// above 24 bits is to be cut off at the end.
fn crc24(before: u32, bytes: &[u8]) -> u32 {
    /// For each byte, what it adds to the checksum when so many bytes are behind it.
    const TABLES: [[u32; 256]; 8] = {
        let mut tables = [[0; 256]; 8];
        let mut at = 0u32;
        while at < 256 {
            let mut crc = at << 16;
            let mut behind = 0;
            while behind < 8 {
                let mut bit = 0;
                while bit < 8 {
                    crc <<= 1;
                    if crc & 0x100_0000 != 0 {
                        crc ^= 0x0186_4cfb;
                    }
                    bit += 1;
                }
                tables[behind][at as usize] = crc;
                behind += 1;
            }
            at += 1;
        }
        tables
    };
    let step = |crc: u32, &byte: &u8| {
        (crc << 8) ^ TABLES[0][(crc >> 16 ^ u32::from(byte)) as usize & 0xff]
    };
    let (eights, rest) = bytes.as_chunks::<8>();
    let crc = eights.iter().fold(before, |crc, eight| {
        // The checksum so far is mixed into the first three bytes.
        let [_, first, second, third] = crc.to_be_bytes();
        let mixed = [first, second, third, 0, 0, 0, 0, 0];
        let added = (0..8).map(|at| TABLES[7 - at][usize::from(eight[at] ^ mixed[at])]);
        added.fold(0, |crc, added| crc ^ added)
    });
    rest.iter().fold(crc, step)
}

/// A line without the white space around it. Some programs write more kinds of white space than
/// Rust's ASCII functions know.
fn trimmed(line: &[u8]) -> &[u8] {
    let is_white = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = line.iter().position(|byte| !is_white(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_white(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(text: &[u8]) -> (Vec<u8>, Vec<u64>) {
        let mut armor = Armor::new(text);
        let mut out = Vec::new();
        armor.read_to_end(&mut out).unwrap();
        (out, armor.damage().to_vec())
    }

    proptest! {
        /// Blocks are read back in order, whatever text surrounds them.
        #[test]
        fn blocks_read_back(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..4),
            noise in "[a-z \n]{0,40}",
        ) {
            let text: String =
                parts.iter().map(|part| format!("{noise}\n{}", enarmor(part))).collect();
            let (read, damage) = decode(text.as_bytes());
            prop_assert_eq!(read, parts.concat());
            prop_assert_eq!(damage, Vec::<u64>::new());
        }

        /// Written in any parts, it is the same block.
        #[test]
        fn a_block_does_not_depend_on_the_parts(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..150), 0..6),
        ) {
            let (mut armor, mut text) = (Enarmor::new(), String::new());
            parts.iter().for_each(|part| armor.write(part, &mut text));
            armor.finish(&mut text);
            prop_assert_eq!(text, enarmor(&parts.concat()));
        }

        /// Reading any text ends without a panic.
        #[test]
        fn the_checksum_is_that_of_the_rfc(bytes: Vec<u8>, before in 0..1_u32 << 24) {
            // As RFC 9580, section 6.1.1 computes it.
            let mut crc = before;
            for &byte in &bytes {
                crc ^= u32::from(byte) << 16;
                for _ in 0..8 {
                    crc <<= 1;
                    if crc & 0x100_0000 != 0 {
                        crc ^= 0x0186_4cfb;
                    }
                }
            }
            prop_assert_eq!(crc24(before, &bytes) & 0xff_ffff, crc & 0xff_ffff);
        }

        #[test]
        fn armor_of_any_text_can_be_read(text: Vec<u8>) {
            decode(&[b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n", &text[..]].concat());
        }
    }

    #[test]
    fn damage_has_a_line_number_and_the_next_block_is_read() {
        let good = enarmor(b"second");
        let text = format!("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n*bad*\n{good}");
        assert_eq!(decode(text.as_bytes()), (b"\0\0\0second".to_vec(), vec![4]));
    }

    #[test]
    fn an_endless_line_uses_bounded_memory() {
        let text =
            b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n".chain(io::repeat(b'A').take(1 << 24));
        let mut armor = Armor::new(io::BufReader::new(text));
        let read = io::copy(&mut armor, &mut io::sink()).unwrap();
        assert_eq!(read, 0);
        assert!(armor.line.capacity() <= 2 * LINE_BYTES_MAX);
        assert_eq!(armor.damage(), [3]);
    }
}
