//! ASCII armor and the cleartext signature framework (RFC 9580, sections 6 and 7), as GnuPG 2.2
//! reads them.
//!
//! The content of all blocks is one stream of packets. Where a signed text begins, the stream ends
//! for the time being: [`Armor::signed_text`] says so, [`Armor::text_line`] gives the text, and
//! then the stream goes on with the signatures.

use std::io::{self, BufRead, Read};

use crate::session::Session;
use crate::text::printable;

/// The length of a line, in bytes, of which GnuPG reads only a part.
const LINE_BYTES_MAX: usize = 20_000;

/// The number of bytes decoded at once.
const PIECE_BYTES: usize = 64 << 10;

/// The head lines of armored blocks.
const HEADS: [&[u8]; 7] = [
    b"BEGIN PGP MESSAGE",
    b"BEGIN PGP PUBLIC KEY BLOCK",
    b"BEGIN PGP SIGNATURE",
    b"BEGIN PGP SIGNED MESSAGE",
    b"BEGIN PGP ARMORED FILE",
    b"BEGIN PGP PRIVATE KEY BLOCK",
    b"BEGIN PGP SECRET KEY BLOCK",
];
const SIGNATURE_HEAD: usize = 2;
const SIGNED_TEXT_HEAD: usize = 3;

/// The start value of the checksum (RFC 9580, section 6.1.1).
const CRC_START: u32 = 0x00b7_04ce;

/// The checksums of single bytes.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let mut crc = byte << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

/// Whether an input that starts with `start`, two bytes unless it is shorter, may be armored: it
/// does not start with a packet.
pub(crate) fn may_be_armored(start: &[u8]) -> bool {
    let (first, second) = match *start {
        [] | [_] => return false,
        [first, second, ..] => (first, second),
    };
    if first & 0x80 == 0 {
        return true;
    }
    let is_new = first & 0x40 != 0;
    let tag = if is_new { first & 0x3f } else { first >> 2 & 0xf };
    match tag {
        8 | 9 | 11 | 16 | 18 | 61 | 63 => false,
        1..=7 | 10 | 12..=14 | 17 | 19 => {
            if is_new {
                (224..255).contains(&second)
            } else {
                first & 3 == 3
            }
        }
        _ => true,
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// The head line of a block is due.
    Outside,
    /// Inside a block.
    Inside,
    /// Inside a signed text.
    Text,
    /// There is no armor: the input is passed on.
    Bypass,
    /// At the end of the input.
    End,
}

/// A reader of armored text.
pub(crate) struct Armor<'s, R> {
    session: &'s Session,
    input: R,
    line: Vec<u8>,
    /// The number of bytes of the line that are done with.
    at: usize,
    state: State,
    decoded: Vec<u8>,
    given: usize,
    /// The digests of a signed text whose beginning was not told yet.
    begun: Option<Vec<u8>>,
    crc: u32,
    /// The number of digits of an unfinished group of four, and their bits.
    digits: u8,
    bits: u32,
    had_block: bool,
    had_long_line: bool,
    has_failed: bool,
    is_bad: bool,
    is_text_cut: bool,
    had_quoted: bool,
}

impl<'s, R: BufRead> Armor<'s, R> {
    /// A reader of the blocks in `input`.
    pub(crate) fn new(session: &'s Session, input: R) -> Self {
        Self {
            session,
            input,
            line: Vec::new(),
            at: 0,
            state: State::Outside,
            decoded: Vec::new(),
            given: 0,
            begun: None,
            crc: CRC_START,
            digits: 0,
            bits: 0,
            had_block: false,
            had_long_line: false,
            has_failed: false,
            is_bad: false,
            is_text_cut: false,
            had_quoted: false,
        }
    }

    /// Whether the input has ended without any block.
    pub(crate) fn is_without_block(&self) -> bool {
        self.state == State::End && !self.had_block
    }

    /// Whether a checksum was wrong. Then nothing more counts.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether the header of the signatures on a text is malformed. GnuPG stops there.
    pub(crate) fn is_bad(&self) -> bool {
        self.is_bad
    }

    /// Whether the input has ended within a signed text.
    pub(crate) fn is_text_cut(&self) -> bool {
        self.is_text_cut
    }

    /// Ends before the end of the input.
    pub(crate) fn close(&mut self) {
        self.end();
    }

    /// The digests of a signed text that begins here.
    pub(crate) fn signed_text(&mut self) -> Option<Vec<u8>> {
        if self.given < self.decoded.len() { None } else { self.begun.take() }
    }

    /// Reads the next line of the signed text: without escape and without white space at its end,
    /// but with its line end. `false` at the end of the text. The second value is whether the line
    /// is too long to be read.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    pub(crate) fn text_line(&mut self, out: &mut Vec<u8>) -> io::Result<(bool, bool)> {
        out.clear();
        let is_long = self.next_line()?;
        if self.line.is_empty() {
            self.end();
            self.is_text_cut = true;
            return Ok((false, false));
        }
        let mut line = &self.line[..];
        if let Some(rest) = line.strip_prefix(b"- ") {
            line = rest;
        } else if line.starts_with(b"-----") {
            if head(line) != Some(SIGNATURE_HEAD) {
                self.session.log.info(format!("unexpected armor: {}", printable(line)));
            }
            self.is_bad = !self.headers(false)?;
            return Ok((false, false));
        } else if line.starts_with(b"-") {
            self.session.log.info(format!("invalid dash escaped line: {}", printable(line)));
        }
        let is_crlf = line.ends_with(b"\r\n");
        out.extend_from_slice(trimmed(line));
        out.extend_from_slice(if is_crlf { b"\r\n" } else { b"\n" });
        Ok((true, is_long))
    }

    /// Reads the next line with its line end; it is empty at the end of the input. Of a line that
    /// is too long only the start is kept, and the result is `true`.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.at = 0;
        let limit = LINE_BYTES_MAX as u64 - 1;
        self.input.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
        if self.line.len() as u64 != limit || self.line.last() == Some(&b'\n') {
            return Ok(false);
        }
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let newline = buffer.iter().position(|&byte| byte == b'\n');
            let used = newline.map_or(buffer.len(), |at| at + 1);
            self.input.consume(used);
            if newline.is_some() {
                break;
            }
        }
        if let Some(last) = self.line.last_mut() {
            *last = b'\n';
        }
        self.had_long_line = true;
        Ok(true)
    }

    /// Like [`Self::next_line`], past lines that are too long.
    fn next_short_line(&mut self) -> io::Result<()> {
        while self.next_line()? {}
        Ok(())
    }

    /// Reaches the end of the input.
    fn end(&mut self) {
        if self.state == State::End {
            return;
        }
        let is_bypass = self.state == State::Bypass;
        self.state = State::End;
        if !self.had_block && !is_bypass {
            self.session.log.error("no valid OpenPGP data found.");
            self.session.status.line("NODATA 1");
        } else {
            self.had_block = true;
        }
        if self.had_long_line {
            let limit = LINE_BYTES_MAX;
            self.session.log.info(format!("invalid armor: line longer than {limit} characters"));
        }
        if self.had_quoted {
            self.session
                .log
                .error("quoted printable character in armor - probably a buggy MTA has been used");
        }
    }

    /// Looks for the next block.
    fn begin(&mut self) -> io::Result<()> {
        if self.next_line()? {
            self.state = State::Bypass;
            return Ok(());
        }
        if self.line.is_empty() {
            self.end();
            return Ok(());
        }
        let is_blank = self.line == b"\n" || self.line.starts_with(b"\r\n");
        if !is_blank && self.line.len() >= 2 && !may_be_armored(&self.line) {
            self.state = State::Bypass;
            return Ok(());
        }
        while !self.line.is_empty() {
            if let Some(head) = head(&self.line) {
                self.headers(head == SIGNED_TEXT_HEAD)?;
                return Ok(());
            }
            self.next_short_line()?;
        }
        self.end();
        Ok(())
    }

    /// Reads the header lines of a block, and the empty line after them. `false` if a line is no
    /// header line.
    fn headers(&mut self, is_text: bool) -> io::Result<bool> {
        let mut digests = Vec::new();
        let mut is_good = true;
        loop {
            self.next_short_line()?;
            if self.line.is_empty() {
                break;
            }
            let line = &self.line[..];
            let said = trimmed(line);
            if said.is_empty() {
                self.at = self.line.len();
                break;
            }
            let log = &self.session.log;
            let colon = line.iter().position(|&byte| byte == b':');
            let behind = colon.and_then(|at| line.get(at + 1));
            if !matches!(behind, Some(b' ' | b'\n' | b'\r')) {
                log.error(format!("invalid armor header: {}", printable(line)));
                // Without an empty line, the content begins here; but not that of a signed text.
                self.at = if is_text { self.line.len() } else { 0 };
                is_good = false;
                break;
            }
            self.session.chat(|| format!("armor header: {}", printable(said)));
            if is_text {
                let Some(named) = hash_header(said) else {
                    log.error("invalid clearsig header");
                    self.at = self.line.len();
                    break;
                };
                digests.extend(named);
            } else if !is_known_header(said) {
                log.info(format!("unknown armor header: {}", printable(said)));
            }
        }
        (self.crc, self.digits, self.bits) = (CRC_START, 0, 0);
        self.state = if is_text { State::Text } else { State::Inside };
        if is_text {
            // Without a name it is SHA-1.
            self.begun = Some(if digests.is_empty() { vec![2] } else { digests });
        }
        Ok(is_good)
    }

    /// The next character of the block; `None` at the end of the input.
    fn next_byte(&mut self) -> io::Result<Option<u8>> {
        while self.at >= self.line.len() {
            self.next_line()?;
            if self.line.is_empty() {
                return Ok(None);
            }
        }
        self.at += 1;
        Ok(Some(self.line[self.at - 1]))
    }

    /// Decodes a piece of the block.
    fn decode(&mut self) -> io::Result<()> {
        while self.decoded.len() < PIECE_BYTES {
            let Some(byte) = self.next_byte()? else {
                // In the next call, the end is reached.
                if self.decoded.is_empty() {
                    self.end();
                }
                break;
            };
            let byte = if byte == b'=' { self.unquoted().unwrap_or(byte) } else { byte };
            match byte {
                b'\n' | b' ' | b'\r' | b'\t' => {}
                b'=' => {
                    // The first digit of a group has six bits of a byte, which GnuPG passes on.
                    if self.digits == 1 {
                        self.decoded.push((self.bits << 2).to_be_bytes()[3]);
                    }
                    self.update_crc();
                    return self.checksum();
                }
                _ => {
                    if let Some(bits) = digit(byte) {
                        self.push(bits);
                    } else {
                        let text = format!("invalid radix64 character {byte:02X} skipped");
                        self.session.log.error(text);
                    }
                }
            }
        }
        self.update_crc();
        Ok(())
    }

    /// The character that is written in quoted-printable behind a `=`, if GnuPG takes it for one.
    fn unquoted(&mut self) -> Option<u8> {
        let [high, low, end, ..] = self.line.get(self.at..)? else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(*high)? << 4 | digit(*low)?;
        if !matches!(end, b'=' | b'\n' | b'\r' | b'\t' | b' ') {
            return None;
        }
        self.at += 2;
        self.had_quoted = true;
        u8::try_from(value).ok()
    }

    fn push(&mut self, bits: u8) {
        self.bits = (self.bits << 6 | u32::from(bits)) & 0xff_ffff;
        self.digits = (self.digits + 1) % 4;
        match self.digits {
            2 => self.decoded.push((self.bits >> 4).to_be_bytes()[3]),
            3 => self.decoded.push((self.bits >> 2).to_be_bytes()[3]),
            0 => self.decoded.push(self.bits.to_be_bytes()[3]),
            _ => {}
        }
    }

    /// Adds what was decoded to the checksum.
    fn update_crc(&mut self) {
        for &byte in &self.decoded {
            let [_, high, _, _] = self.crc.to_be_bytes();
            self.crc = (self.crc << 8 ^ CRC_TABLE[usize::from(high ^ byte)]) & 0xff_ffff;
        }
    }

    /// Reads the rest of the padding, and the checksum, which may be missing.
    fn checksum(&mut self) -> io::Result<()> {
        self.had_block = true;
        self.state = State::Outside;
        let log = &self.session.log;
        let first = loop {
            match self.next_byte()? {
                Some(b'\n' | b' ' | b'\r' | b'\t' | b'=') => {}
                Some(byte) => break byte,
                None => {
                    log.error("premature eof (no CRC)");
                    return Ok(());
                }
            }
        };
        let (mut crc, mut count, mut byte) = (0, 0, first);
        while let Some(bits) = digit(byte) {
            crc = crc << 6 | u32::from(bits);
            count += 1;
            if count == 4 {
                break;
            }
            let Some(next) = self.next_byte()? else {
                log.info("premature eof (in CRC)");
                self.fail();
                return Ok(());
            };
            byte = next;
        }
        match count {
            // There need not be one.
            0 => {}
            4 if crc == self.crc => {}
            4 => {
                log.info(format!("CRC error; {:06X} - {crc:06X}", self.crc));
                self.fail();
            }
            _ => {
                log.info("malformed CRC");
                self.fail();
            }
        }
        Ok(())
    }

    fn fail(&mut self) {
        self.has_failed = true;
        self.session.log.count_error();
    }
}

impl<R: BufRead> Read for Armor<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.decoded.len() {
            self.decoded.clear();
            self.given = 0;
            if self.begun.is_some() {
                return Ok(0);
            }
            match self.state {
                State::Outside => self.begin()?,
                State::Inside => self.decode()?,
                State::Bypass if self.at < self.line.len() => {
                    self.decoded.extend_from_slice(&self.line[self.at..]);
                    self.at = self.line.len();
                }
                State::Bypass => {
                    let read = self.input.read(out)?;
                    if read == 0 {
                        self.end();
                    }
                    return Ok(read);
                }
                // The text was not read, so nothing after it is.
                State::Text | State::End => return Ok(0),
            }
        }
        let read = (&self.decoded[self.given..]).read(out)?;
        self.given += read;
        Ok(read)
    }
}

/// A line without the white space at its end.
fn trimmed(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    &line[..end.map_or(0, |last| last + 1)]
}

/// The number of the head line in [`HEADS`].
fn head(line: &[u8]) -> Option<usize> {
    let label = trimmed(line).strip_prefix(b"-----")?.strip_suffix(b"-----")?;
    HEADS.iter().position(|head| *head == label)
}

/// The digests that a header of a signed text names, by number; `None` for another header. As in
/// GnuPG, the start of a name is enough.
fn hash_header(line: &[u8]) -> Option<Vec<u8>> {
    const NAMES: [(&[u8], u8); 6] = [
        (b"RIPEMD160", 3),
        (b"SHA1", 2),
        (b"SHA224", 11),
        (b"SHA256", 8),
        (b"SHA384", 9),
        (b"SHA512", 10),
    ];
    if !(6..=60).contains(&line.len()) {
        return None;
    }
    let names = line.strip_prefix(b"Hash:")?.trim_ascii();
    let names = names.strip_suffix(b",").unwrap_or(names);
    let number = |name: &[u8]| {
        let name = name.trim_ascii();
        let found = NAMES.iter().find(|(known, _)| known.starts_with(name));
        found.filter(|_| !name.is_empty()).map(|(_, number)| *number)
    };
    names.split(|&byte| byte == b',').map(number).collect()
}

/// Whether GnuPG knows a header of an armored block.
fn is_known_header(line: &[u8]) -> bool {
    [&b"Version"[..], b"Comment", b"MessageID", b"Hash", b"Charset"]
        .iter()
        .any(|name| line.strip_prefix(*name).is_some_and(|rest| rest.starts_with(b":")))
}

/// The six bits of a digit of base 64.
fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;

    fn decoded(text: &[u8]) -> (Vec<u8>, bool) {
        let session = Session::new(Log::new("test"), 0);
        let mut armor = Armor::new(&session, text);
        let mut out = Vec::new();
        armor.read_to_end(&mut out).unwrap();
        (out, session.log.has_errors())
    }

    #[test]
    fn blocks_are_one_stream() {
        let block = |body: &str| {
            format!(
                "text\n-----BEGIN PGP SIGNATURE-----\nVersion: 1\n\n{body}\n\
                 -----END PGP SIGNATURE-----\n"
            )
        };
        assert_eq!(decoded(block("YWJj\n=uhty").as_bytes()), (b"abc".to_vec(), true));
        assert_eq!(decoded(block("YWI=\n").as_bytes()), (b"ab".to_vec(), false));
        let two = block("YWI=\n") + &block("Yw==\n");
        assert_eq!(decoded(two.as_bytes()), (b"abc".to_vec(), false));
        assert_eq!(decoded(b"no armor\n").0, b"");
    }

    #[test]
    fn any_text_is_read() {
        let mut random = fastrand::Rng::with_seed(3);
        let lines: [&[u8]; 12] = [
            b"-----BEGIN PGP SIGNATURE-----\n",
            b"-----BEGIN PGP SIGNED MESSAGE-----\n",
            b"-----END PGP SIGNATURE-----\n",
            b"\n",
            b"Hash: SHA256\n",
            b"YWJj\n",
            b"YQ\n",
            b"=\n",
            b"=ab",
            b"- -\r\n",
            b"\xff\xfe\x00\n",
            b"-----",
        ];
        let session = Session::new(Log::new("test"), 0);
        session.log.to_file(std::fs::File::create("/dev/null").unwrap());
        for _ in 0..5000 {
            let count = random.usize(0..12);
            let text: Vec<u8> =
                (0..count).flat_map(|_| lines[random.usize(..lines.len())].to_vec()).collect();
            let mut armor = Armor::new(&session, &text[..]);
            let (mut out, mut line) = (Vec::new(), Vec::new());
            loop {
                armor.read_to_end(&mut out).unwrap();
                if armor.signed_text().is_none() {
                    break;
                }
                while armor.text_line(&mut line).unwrap().0 {}
            }
            assert!(out.len() <= text.len());
        }
    }
}
