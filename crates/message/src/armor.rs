//! ASCII armor (RFC 9580, section 6) around messages and signatures.

use std::borrow::Cow;
use std::io::{self, BufRead, Read, Write};

use base64::Engine as _;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use base64::engine::general_purpose::STANDARD;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use base64::engine::{Simd, general_purpose::PAD};

use crate::error::{MessageError, Result};
use crate::framing::{self, tag};

/// Base64 by the vector instructions of the CPU.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static STANDARD: std::sync::LazyLock<Simd> = std::sync::LazyLock::new(|| Simd::standard(PAD));

/// The type in the head line of an armored block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Label {
    /// `PGP MESSAGE`
    Message,
    /// `PGP SIGNATURE`
    Signature,
    /// `PGP PUBLIC KEY BLOCK`
    PublicKey,
    /// `PGP PRIVATE KEY BLOCK`
    PrivateKey,
}

impl Label {
    fn text(self) -> &'static str {
        match self {
            Self::Message => "PGP MESSAGE",
            Self::Signature => "PGP SIGNATURE",
            Self::PublicKey => "PGP PUBLIC KEY BLOCK",
            Self::PrivateKey => "PGP PRIVATE KEY BLOCK",
        }
    }
}

/// Bytes of data in one line of armor; the encoded line is a third longer.
const LINE_BYTES: usize = 48;

/// The number of lines that are encoded at once.
const PIECE_LINES: usize = 1024;

/// Bytes that tell the first packet's type, length and version.
const HEAD_BYTES: usize = 7;

/// A writer of one armored block. [`Self::finish`] writes the tail line.
///
/// Armor has a checksum, because GnuPG up to 2.2 misses the end of every third block without one.
/// Data that only readers of RFC 9580 can read has no checksum, because section 6.1 forbids it
/// there.
pub struct ArmorWriter<W> {
    output: W,
    label: Label,
    /// The first bytes of the data.
    head: Vec<u8>,
    /// The checksum so far; `None` for armor without a checksum.
    checksum: Option<Crc24>,
    /// Data of the unfinished line.
    rest: Vec<u8>,
    digits: String,
    text: Vec<u8>,
}

impl<W: Write> ArmorWriter<W> {
    /// Writes the head line.
    ///
    /// # Errors
    ///
    /// [`MessageError::Write`].
    pub fn new(mut output: W, label: Label) -> Result<Self> {
        write!(output, "-----BEGIN {}-----\n\n", label.text()).map_err(MessageError::write)?;
        let (head, checksum) = (Vec::with_capacity(HEAD_BYTES), Some(Crc24::default()));
        let (rest, digits, text) = (Vec::new(), String::new(), Vec::new());
        Ok(Self { output, label, head, checksum, rest, digits, text })
    }

    /// Writes the tail line and returns the output.
    ///
    /// # Errors
    ///
    /// [`MessageError::Write`].
    pub fn finish(mut self) -> Result<W> {
        self.lines(&[]).map_err(MessageError::write)?;
        if !self.rest.is_empty() {
            writeln!(self.output, "{}", STANDARD.encode(&self.rest))
                .map_err(MessageError::write)?;
        }
        if let Some(checksum) = self.checksum.filter(|_| !is_of_rfc_9580(&self.head)) {
            let checksum = STANDARD.encode(checksum.bytes());
            writeln!(self.output, "={checksum}").map_err(MessageError::write)?;
        }
        writeln!(self.output, "-----END {}-----", self.label.text())
            .map_err(MessageError::write)?;
        self.output.flush().map_err(MessageError::write)?;
        Ok(self.output)
    }

    fn sum(&mut self, data: &[u8]) {
        if self.head.len() < HEAD_BYTES {
            self.head.extend(data.iter().take(HEAD_BYTES - self.head.len()));
            if self.head.len() == HEAD_BYTES && is_of_rfc_9580(&self.head) {
                self.checksum = None;
            }
        }
        if let Some(checksum) = &mut self.checksum {
            checksum.update(data);
        }
    }

    /// Writes whole lines.
    fn lines(&mut self, data: &[u8]) -> io::Result<()> {
        for data in data.chunks(PIECE_LINES * LINE_BYTES) {
            self.digits.clear();
            STANDARD.encode_string(data, &mut self.digits);
            self.text.clear();
            for line in self.digits.as_bytes().chunks(LINE_BYTES / 3 * 4) {
                self.text.extend_from_slice(line);
                self.text.push(b'\n');
            }
            self.output.write_all(&self.text)?;
        }
        Ok(())
    }
}

impl<W: Write> Write for ArmorWriter<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.sum(data);
        let mut left = data;
        if !self.rest.is_empty() {
            let wanted = (LINE_BYTES - self.rest.len()).min(left.len());
            self.rest.extend_from_slice(&left[..wanted]);
            left = &left[wanted..];
            if self.rest.len() == LINE_BYTES {
                let line = std::mem::take(&mut self.rest);
                self.lines(&line)?;
            }
        }
        let whole = left.len() / LINE_BYTES * LINE_BYTES;
        if whole > 0 {
            self.lines(&left[..whole])?;
        }
        self.rest.extend_from_slice(&left[whole..]);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Whether data that starts with `head` has a version that RFC 4880 does not define.
fn is_of_rfc_9580(head: &[u8]) -> bool {
    let mut rest = head;
    match (framing::read_header(&mut rest), rest.first()) {
        (Ok(Some((tag::SEIPD, _))), Some(&version)) => version == 2,
        (Ok(Some((tag::PADDING, _))), _) => true,
        (Ok(Some(_)), Some(&version)) => version == 6,
        _ => false,
    }
}

/// The CRC-24 checksum of armor (RFC 9580, section 6.1.1), in the upper three bytes.
#[derive(Clone, Copy)]
struct Crc24(u32);

/// Tables to process eight bytes at a time: `CRC_TABLES[n]` gives the effect of a byte that `n`
/// others follow.
static CRC_TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0u32;
    while byte < 256 {
        let mut crc = byte << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc >> 31 == 1 { 0x0086_4cfb << 8 } else { 0 };
            bit += 1;
        }
        tables[0][byte as usize] = crc;
        byte += 1;
    }
    let mut following = 1;
    while following < 8 {
        let mut at = 0;
        while at < 256 {
            let crc = tables[following - 1][at];
            tables[following][at] = (crc << 8) ^ tables[0][(crc >> 24) as usize];
            at += 1;
        }
        following += 1;
    }
    tables
};

impl Default for Crc24 {
    fn default() -> Self {
        Self(0x00b7_04ce << 8)
    }
}

impl Crc24 {
    fn update(&mut self, data: &[u8]) {
        let (eights, rest) = data.as_chunks::<8>();
        for &[a, b, c, d, e, f, g, h] in eights {
            let [a, b, c, d] = (self.0 ^ u32::from_be_bytes([a, b, c, d])).to_be_bytes();
            let bytes = [h, g, f, e, d, c, b, a];
            self.0 = (0..8).fold(0, |crc, at| crc ^ CRC_TABLES[at][usize::from(bytes[at])]);
        }
        for byte in rest {
            let at = self.0.to_be_bytes()[0] ^ byte;
            self.0 = (self.0 << 8) ^ CRC_TABLES[0][usize::from(at)];
        }
    }

    fn bytes(self) -> [u8; 3] {
        let [a, b, c, _] = self.0.to_be_bytes();
        [a, b, c]
    }
}

/// The number of digits that are decoded at once.
const LINES_BYTES: usize = 64 << 10;
/// The longest accepted line of armor, in bytes; real lines have 76.
const LINE_MAX: usize = 4096;
/// The longest accepted text in front of a block, in bytes.
const PREAMBLE_MAX: u64 = 1 << 20;

/// A strict reader of one armored block. Data that does not match the head line is an error.
pub struct ArmorReader<R> {
    input: R,
    label: String,
    line: Vec<u8>,
    /// Base64 digits of an unfinished group.
    digits: Vec<u8>,
    decoded: Vec<u8>,
    at: usize,
    /// All lines so far were whole groups of digits and nothing else.
    plain: bool,
    ended: bool,
}

impl<R: BufRead> ArmorReader<R> {
    /// Reads up to the head line and its headers. Text in front of the block is skipped.
    ///
    /// # Errors
    ///
    /// [`MessageError::Malformed`] if there is no block.
    pub fn new(input: R) -> Result<Self> {
        let mut reader = Self {
            input,
            label: String::new(),
            line: Vec::new(),
            digits: Vec::new(),
            decoded: Vec::new(),
            at: 0,
            plain: true,
            ended: false,
        };
        let mut passed = 0;
        loop {
            if !reader.next_line()? {
                return Err(MessageError::Malformed("no armored block found"));
            }
            passed += reader.line.len() as u64;
            if let Some(label) = framed(&reader.line, "-----BEGIN ") {
                reader.label = label;
                break;
            }
            if passed > PREAMBLE_MAX {
                let what = "bytes of text before the ASCII armor";
                return Err(MessageError::TooLarge { what, limit: PREAMBLE_MAX });
            }
        }
        loop {
            if !reader.next_line()? {
                return Err(MessageError::Truncated(
                    "the input ends within the headers of its ASCII armor",
                ));
            }
            if reader.line.is_empty() {
                break;
            }
            if !reader.line.contains(&b':') {
                // No headers and no empty line: this line is data already.
                reader.take_line()?;
                break;
            }
        }
        Ok(reader)
    }

    /// The label in the head line: `PGP MESSAGE`, `PGP SIGNATURE`, ….
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the input, positioned after the part already read; at the end of the data, after the
    /// tail line.
    pub(crate) fn into_inner(self) -> R {
        self.input
    }

    /// Reads a line without its line end; `false` at the end of the input.
    fn next_line(&mut self) -> Result<bool> {
        self.line.clear();
        let mut limited = (&mut self.input).take(LINE_MAX as u64);
        let read = limited.read_until(b'\n', &mut self.line).map_err(MessageError::read)?;
        while self.line.last().is_some_and(|byte| is_white(*byte)) {
            self.line.pop();
        }
        Ok(read > 0)
    }

    /// Decodes all whole lines in the buffer of the input that are groups of digits and nothing
    /// else; `false` if the next line is something else, or not whole.
    fn take_lines(&mut self) -> Result<bool> {
        if !self.plain || !self.digits.is_empty() {
            return Ok(false);
        }
        let buffer = self.input.fill_buf().map_err(MessageError::read)?;
        let mut used = 0;
        for end in memchr::memchr_iter(b'\n', buffer) {
            let line = &buffer[used..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let is_special = |at: Option<&u8>| matches!(at, None | Some(b'=' | b'-'));
            let is_whole = line.len() % 4 == 0 && line.len() <= LINE_MAX;
            if is_special(line.first()) || is_special(line.last()) || !is_whole {
                break;
            }
            self.digits.extend_from_slice(line);
            used = end + 1;
            if self.digits.len() >= LINES_BYTES {
                break;
            }
        }
        self.decoded.clear();
        self.at = 0;
        self.plain = STANDARD.decode_vec(&self.digits, &mut self.decoded).is_ok();
        self.digits.clear();
        if !self.plain {
            // With white space between its digits, a line is good, too.
            self.decoded.clear();
            return Ok(false);
        }
        self.input.consume(used);
        Ok(used > 0)
    }

    fn take_line(&mut self) -> Result<()> {
        const DAMAGED: MessageError = MessageError::Malformed("its ASCII armor is damaged");
        if let Some(label) = framed(&self.line, "-----END ") {
            if label != self.label || !self.digits.is_empty() {
                return Err(DAMAGED);
            }
            self.ended = true;
            return Ok(());
        }
        // The checksum is not verified (RFC 9580, section 6.1).
        if self.line.first() == Some(&b'=') && self.digits.is_empty() {
            return Ok(());
        }
        self.digits.extend(self.line.iter().filter(|byte| !is_white(**byte)));
        let whole = self.digits.len() / 4 * 4;
        self.decoded.clear();
        self.at = 0;
        STANDARD.decode_vec(&self.digits[..whole], &mut self.decoded).map_err(|_| DAMAGED)?;
        self.digits.drain(..whole);
        Ok(())
    }
}

/// Whether a byte is white space. RFC 9580, section 6.2, names blanks, tabs and returns; other
/// programs have met vertical white space, too.
fn is_white(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The label in a head or tail line.
pub(crate) fn framed(line: &[u8], start: &str) -> Option<String> {
    let label = line.strip_prefix(start.as_bytes())?.strip_suffix(b"-----")?;
    Some(String::from_utf8_lossy(label).into_owned())
}

impl<R: BufRead> Read for ArmorReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.at == self.decoded.len() && !self.ended {
            if self.take_lines()? {
                continue;
            }
            if !self.next_line()? {
                return Err(MessageError::Truncated("the input ends within its ASCII armor").into());
            }
            self.take_line()?;
        }
        let read = (&self.decoded[self.at..]).read(buf)?;
        self.at += read;
        Ok(read)
    }
}

/// An input that may or may not be armored.
pub enum ArmorInput<R: BufRead> {
    /// Binary data, without armor.
    Binary(R),
    /// Armored data.
    Armored(Box<ArmorReader<R>>),
}

impl<R: BufRead> ArmorInput<R> {
    /// Tells armor from binary data by the first byte: a packet has its highest bit set, text has
    /// not.
    ///
    /// # Errors
    ///
    /// [`MessageError::Malformed`] for text without a block.
    pub fn new(mut input: R) -> Result<Self> {
        let first = input.fill_buf().map_err(MessageError::read)?.first().copied();
        Ok(match first {
            Some(byte) if byte & 0x80 == 0 => Self::Armored(Box::new(ArmorReader::new(input)?)),
            _ => Self::Binary(input),
        })
    }

    /// The label of the armor; `None` without armor.
    pub fn label(&self) -> Option<&str> {
        match self {
            Self::Binary(_) => None,
            Self::Armored(armor) => Some(armor.label()),
        }
    }
}

impl<R: BufRead> Read for ArmorInput<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Binary(input) => input.read(buf),
            Self::Armored(input) => input.read(buf),
        }
    }
}

/// The packets in `bytes`: binary data unchanged, or the data of all armored blocks in sequence.
///
/// # Errors
///
/// [`MessageError::Malformed`] for text without a block; the error of a damaged block.
pub fn unarmored(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        return Ok(Cow::Borrowed(bytes));
    }
    let (mut rest, mut packets, mut blocks) = (bytes, Vec::new(), 0);
    loop {
        let mut armor = match ArmorReader::new(&mut rest) {
            Ok(armor) => armor,
            // Text after the last block ends the data.
            Err(MessageError::Malformed(_)) if blocks > 0 => return Ok(Cow::Owned(packets)),
            Err(error) => return Err(error),
        };
        blocks += 1;
        armor.read_to_end(&mut packets).map_err(MessageError::read)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armored(data: &[u8]) -> String {
        let mut armor = ArmorWriter::new(Vec::new(), Label::Signature).unwrap();
        data.iter().for_each(|&byte| armor.write_all(&[byte]).unwrap());
        String::from_utf8(armor.finish().unwrap()).unwrap()
    }

    #[test]
    fn checksums_equal_those_of_the_standard() {
        // The check value of CRC-24/OPENPGP in the catalogue of parametrised CRC algorithms.
        let mut whole = Crc24::default();
        whole.update(b"123456789");
        assert_eq!(whole.bytes(), [0x21, 0xcf, 0x02]);
        let mut pieces = Crc24::default();
        b"123456789".chunks(2).for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.bytes(), whole.bytes());
    }

    #[test]
    fn only_rfc_4880_messages_have_a_checksum() {
        let has_checksum = |data: &[u8]| armored(data).lines().any(|line| line.starts_with('='));
        assert!(has_checksum(&[0xc2, 10, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert!(!has_checksum(&[0xc2, 10, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert!(!has_checksum(&[0xc2, 1, 6]));
        assert!(has_checksum(&[0xd2, 1, 1]));
        assert!(!has_checksum(&[0xd2, 1, 2]));
    }
}
