//! The kind of OpenPGP data in an input. This module alone decides it.
//!
//! The start of the input decides, armored or not, with or without text in front of the armor.
//! Compressed data is decompressed for this, because most programs that sign a message compress it,
//! too.

use std::io::{BufRead, BufReader, Chain, Cursor, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::{DeflateDecoder, ZlibDecoder};

use crate::armor::{ArmorInput, ArmorReader, framed};
use crate::cleartext::CLEARTEXT_HEAD;
use crate::error::{MessageError, Result};
use crate::framing::{self, Body, Length, tag};
use crate::kind::MessageKind;

/// The result of looking at the start of an input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Recognised {
    /// The kind of the data.
    pub kind: MessageKind,
    /// The data is text: armor, or a text with a cleartext signature.
    pub armored: bool,
    /// The number of bytes in front of the armor. No reader shows them, and no signature covers
    /// them.
    pub leading: u64,
}

/// The number of bytes that are examined: enough for the longest text in front of armor and a
/// block of bzip2.
const LOOK_BYTES: usize = 2 << 20;
/// The maximum length of text in front of armor, in bytes.
const LEADING_BYTES_MAX: usize = 1 << 20;
/// The number of bytes of an encrypted message that are examined: enough for its wrapped session
/// keys.
const ENCRYPTED_BYTES: usize = 96 << 10;
/// The number of bytes that [`Message::start`] returns.
const START_BYTES: usize = 64 << 10;
/// The number of bytes of compressed data that are examined.
const INNER_BYTES: usize = 64 << 10;
/// The maximum nesting of compressed packets.
const DEPTH_MAX: usize = 3;

impl Recognised {
    /// The kind of the input that begins with `start`; `ended` if `start` is the whole input.
    /// `None` if more bytes are needed.
    #[must_use]
    pub fn of(start: &[u8], ended: bool) -> Option<Self> {
        let Some(first) = start.first() else {
            let empty = Self { kind: MessageKind::Other, armored: false, leading: 0 };
            return ended.then_some(empty);
        };
        if first & 0x80 != 0 {
            let kind = packets(start, ended, 0)?;
            return Some(Self { kind, armored: false, leading: 0 });
        }
        let mut leading = 0;
        let none = Self { kind: MessageKind::Other, armored: false, leading: 0 };
        for line in start.split_inclusive(|&byte| byte == b'\n') {
            if !line.ends_with(b"\n") && !ended {
                return None;
            }
            if leading > LEADING_BYTES_MAX {
                return Some(none);
            }
            let said = framed(line.trim_ascii_end(), "-----BEGIN ");
            if let Some(label) = said.filter(|label| label.starts_with("PGP ")) {
                let kind = if line.trim_ascii_end() == CLEARTEXT_HEAD.as_bytes() {
                    MessageKind::SignedText
                } else {
                    armored(&start[leading..], ended, &label)?
                };
                return Some(Self { kind, armored: true, leading: leading as u64 });
            }
            leading += line.len();
        }
        ended.then_some(none)
    }
}

/// The kind of an armored block, by its content.
fn armored(block: &[u8], ended: bool, label: &str) -> Option<MessageKind> {
    let mut content = Vec::new();
    // The block may be cut off at the end of the examined input; the whole lines before that count.
    let lines = block.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    let block = if ended { block } else { &block[..lines] };
    let complete = ArmorReader::new(block)
        .and_then(|mut armor| armor.read_to_end(&mut content).map_err(MessageError::read));
    match packets(&content, complete.is_ok(), 0) {
        None if !ended => None,
        None | Some(MessageKind::Other) => Some(match label {
            "PGP SIGNATURE" => MessageKind::DetachedSignature,
            "PGP PUBLIC KEY BLOCK" => MessageKind::Certificate,
            "PGP PRIVATE KEY BLOCK" => MessageKind::SecretKey,
            _ => MessageKind::Damaged,
        }),
        kind => kind,
    }
}

/// The kind of a sequence of packets.
fn packets(mut rest: &[u8], ended: bool, depth: usize) -> Option<MessageKind> {
    let mut signature = false;
    // A sequence of signatures only, as far as it has been read.
    let so_far = |signature: bool, known: bool| match (signature, known) {
        (true, true) => Some(MessageKind::DetachedSignature),
        (false, true) => Some(MessageKind::Other),
        (_, false) => None,
    };
    loop {
        let (tag, length) = match framing::read_header(&mut rest) {
            Ok(Some(header)) => header,
            Ok(None) | Err(MessageError::Truncated(_)) => return so_far(signature, ended),
            Err(_) => return Some(MessageKind::Other),
        };
        let mut body = Body::new(&mut rest, length);
        match tag {
            tag::SIGNATURE => signature = true,
            tag::MARKER | tag::PADDING | 40..=63 => {}
            tag::PKESK | tag::SKESK | tag::SED | tag::SEIPD | tag::AEAD if !signature => {
                return Some(MessageKind::Encrypted);
            }
            tag::ONE_PASS => return Some(MessageKind::Signed),
            tag::COMPRESSED | tag::LITERAL if signature => return Some(MessageKind::Signed),
            tag::LITERAL => return Some(MessageKind::Packed),
            tag::COMPRESSED => {
                let endless = length == Length::Indeterminate && !ended;
                return compressed(&mut body, ended, endless, depth);
            }
            5 if !signature => return Some(MessageKind::SecretKey),
            6 if !signature => return Some(MessageKind::Certificate),
            _ => return Some(MessageKind::Other),
        }
        if std::io::copy(&mut body, &mut std::io::sink()).is_err() {
            return so_far(signature, ended);
        }
    }
}

/// The kind of the content of a compressed packet; `endless` if the packet extends beyond the
/// bytes at hand by an unknown length.
fn compressed(
    body: &mut impl Read,
    ended: bool,
    endless: bool,
    depth: usize,
) -> Option<MessageKind> {
    let mut data = Vec::new();
    // A part of the decompressed data is enough.
    let whole = body.read_to_end(&mut data).is_ok() && !endless;
    let Some((algorithm, data)) = data.split_first() else {
        return ended.then_some(MessageKind::Other);
    };
    if depth == DEPTH_MAX {
        return Some(MessageKind::Other);
    }
    let mut inner = Vec::new();
    let limit = INNER_BYTES as u64;
    // Decompress byte by byte. Given a longer piece that is damaged, a decoder returns nothing at
    // all, not even the data before the damage. Then the result would depend on how the message
    // arrived.
    let bytes = BufReader::with_capacity(1, data);
    let read = match algorithm {
        0 => bytes.take(limit).read_to_end(&mut inner),
        1 => DeflateDecoder::new(bytes).take(limit).read_to_end(&mut inner),
        2 => ZlibDecoder::new(bytes).take(limit).read_to_end(&mut inner),
        3 => BzDecoder::new(bytes).take(limit).read_to_end(&mut inner),
        _ => return Some(MessageKind::Other),
    };
    let full = inner.len() == INNER_BYTES;
    let ended = ended || whole;
    match packets(&inner, ended && !full && read.is_ok(), depth + 1) {
        // A compressed message that contains a signature alone: the signed data is missing.
        Some(MessageKind::DetachedSignature) => Some(MessageKind::Other),
        None if full => Some(MessageKind::Signed),
        None if ended => Some(MessageKind::Other),
        kind => kind,
    }
}

/// An input whose kind is known. All of its bytes can still be read.
pub struct Message<R> {
    recognised: Recognised,
    leading_text: u64,
    input: Chain<Cursor<Vec<u8>>, R>,
}

impl<R: BufRead> Message<R> {
    /// Examines the start of `input`, at most 2 MiB, mostly with one read.
    ///
    /// # Errors
    ///
    /// [`MessageError::Read`].
    pub fn new(mut input: R) -> Result<Self> {
        let mut start = Vec::new();
        let mut looked = 0;
        let recognised = loop {
            let some = input.fill_buf().map_err(MessageError::read)?;
            let (read, ended) = (some.len(), some.is_empty());
            start.extend_from_slice(some);
            input.consume(read);
            // Examining twice as much again costs no more than reading it.
            if ended || start.len() >= 2 * looked {
                looked = start.len();
                let full = looked >= LOOK_BYTES;
                if let Some(recognised) = Recognised::of(&start, ended || full) {
                    break recognised;
                }
            }
        };
        while recognised.kind == MessageKind::Encrypted && start.len() < ENCRYPTED_BYTES {
            let some = input.fill_buf().map_err(MessageError::read)?;
            let read = some.len();
            if read == 0 {
                break;
            }
            start.extend_from_slice(some);
            input.consume(read);
        }
        let leading = usize::try_from(recognised.leading).unwrap_or(usize::MAX).min(start.len());
        let text = start[..leading].split(|&byte| byte == b'\n');
        let leading_text = text.map(|line| line.trim_ascii().len() as u64).sum();
        start.drain(..leading);
        Ok(Self { recognised, leading_text, input: Cursor::new(start).chain(input) })
    }

    /// The result of looking at the start of the input.
    pub fn recognised(&self) -> Recognised {
        self.recognised
    }

    /// The kind of the input.
    pub fn kind(&self) -> MessageKind {
        self.recognised.kind
    }

    /// The first 64 KiB or less of the packets; `None` for text without an armored block.
    pub fn start(&self) -> Option<Vec<u8>> {
        let text = self.input.get_ref().0.get_ref();
        let mut start = Vec::new();
        if self.recognised.armored && self.recognised.kind != MessageKind::SignedText {
            // The armor may be cut off at the end of the examined bytes.
            let armor = ArmorReader::new(&text[..]).map(|armor| armor.take(START_BYTES as u64));
            let _ = armor.map(|mut armor| armor.read_to_end(&mut start));
        } else if text.first().is_some_and(|byte| byte & 0x80 == 0) {
            return None;
        } else {
            start.extend_from_slice(&text[..text.len().min(START_BYTES)]);
        }
        Some(start)
    }

    /// The number of bytes of text before the ASCII armor, without white space.
    pub(crate) fn leading_text(&self) -> u64 {
        self.leading_text
    }

    /// The input from the head line of its armor on, or from its start if there is no armor.
    pub fn into_text(self) -> Chain<Cursor<Vec<u8>>, R> {
        self.input
    }

    /// The packets of the input, without armor.
    ///
    /// # Errors
    ///
    /// [`MessageError::Malformed`] for text without a block.
    pub fn into_packets(self) -> Result<ArmorInput<Chain<Cursor<Vec<u8>>, R>>> {
        ArmorInput::new(self.input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::armor::{ArmorWriter, Label};
    use std::io::Write as _;

    /// A packet with one definite length.
    fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        framing::write_packet(&mut out, tag, body).unwrap();
        out
    }

    fn in_armor(data: &[u8], label: Label) -> Vec<u8> {
        let mut armor = ArmorWriter::new(Vec::new(), label).unwrap();
        armor.write_all(data).unwrap();
        armor.finish().unwrap()
    }

    fn zlib(data: &[u8]) -> Vec<u8> {
        let mut out = vec![2];
        flate2::read::ZlibEncoder::new(data, flate2::Compression::fast())
            .read_to_end(&mut out)
            .unwrap();
        packet(tag::COMPRESSED, &out)
    }

    fn kind(data: &[u8]) -> MessageKind {
        Message::new(BufReader::with_capacity(7, data)).unwrap().kind()
    }

    #[test]
    fn the_packets_decide_the_kind_with_and_without_armor() {
        use MessageKind::{
            Certificate, Damaged, DetachedSignature, Encrypted, Other, Packed, SecretKey, Signed,
        };
        let signature = packet(tag::SIGNATURE, &[4; 300]);
        let literal = packet(tag::LITERAL, b"b\0\0\0\0\0text");
        let one_pass = packet(tag::ONE_PASS, &[3; 13]);
        let marker = packet(tag::MARKER, b"PGP");
        let signed = [one_pass.clone(), literal.clone(), signature.clone()].concat();
        let old = [signature.clone(), literal.clone()].concat();
        let rows: Vec<(Vec<u8>, MessageKind)> = vec![
            (packet(tag::PKESK, &[3; 100]), Encrypted),
            ([marker.clone(), packet(tag::SEIPD, &[1; 100])].concat(), Encrypted),
            (packet(tag::SED, &[1; 100]), Encrypted),
            (signed.clone(), Signed),
            (old.clone(), Signed),
            (zlib(&signed), Signed),
            (zlib(&zlib(&old)), Signed),
            ([signature.clone(), marker, signature.clone()].concat(), DetachedSignature),
            (literal.clone(), Packed),
            (zlib(&literal), Packed),
            (packet(6, &[4; 50]), Certificate),
            (packet(5, &[4; 50]), SecretKey),
            (zlib(&signature), Other),
            (zlib(b""), Other),
            ([signature, packet(tag::SEIPD, &[1; 100])].concat(), Other),
            (vec![0xff; 30], Other),
        ];
        for (data, wanted) in rows {
            assert_eq!(kind(&data), wanted, "binary {:x?}", &data[..8]);
            let block = in_armor(&data, Label::Message);
            // Armor claims to have OpenPGP data in it.
            let in_block = if wanted == Other { Damaged } else { wanted };
            assert_eq!(kind(&block), in_block, "armored {:x?}", &data[..8]);
            let mailed = [b"Hello,\n-----BEGIN X-----\n\n".as_slice(), &block].concat();
            assert_eq!(kind(&mailed), in_block, "mailed {:x?}", &data[..8]);
            // With less of the input examined, the result may be undecided, but never different.
            for (whole, wanted) in [(&data, wanted), (&block, in_block), (&mailed, in_block)] {
                for cut in 0..whole.len() {
                    let said = Recognised::of(&whole[..cut], false).map(|said| said.kind);
                    assert!(said.is_none_or(|said| said == wanted), "{cut} of {:x?}", &whole[..8]);
                }
            }
        }
        assert_eq!(kind(b""), Other);
        assert_eq!(kind(b"just text\n"), Other);
        assert_eq!(kind(b"\n-----BEGIN PGP SIGNED MESSAGE-----\n"), MessageKind::SignedText);
        assert_eq!(kind(b" -----BEGIN PGP SIGNED MESSAGE-----\n"), Other);
    }

    #[test]
    fn finding_the_kind_consumes_no_input() {
        let data = packet(tag::LITERAL, &vec![7; 100_000]);
        let mut out = Vec::new();
        Message::new(&data[..]).unwrap().into_packets().unwrap().read_to_end(&mut out).unwrap();
        assert!(out == data);
        let block = [b"Hello\n\n".as_slice(), &in_armor(&data, Label::Message)].concat();
        let message = Message::new(BufReader::with_capacity(100, &block[..])).unwrap();
        assert_eq!(message.recognised().leading, 7);
        out.clear();
        message.into_packets().unwrap().read_to_end(&mut out).unwrap();
        assert!(out == data);
    }

    #[test]
    fn bzip2_has_no_output_before_its_first_block_is_complete() {
        let noise: Vec<u8> =
            (0..800_000u32).flat_map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
        let signed = [packet(tag::ONE_PASS, &[3; 13]), packet(tag::LITERAL, &noise)].concat();
        let mut body = vec![3];
        bzip2::read::BzEncoder::new(&signed[..], bzip2::Compression::best())
            .read_to_end(&mut body)
            .unwrap();
        let message = packet(tag::COMPRESSED, &body);
        assert!(Recognised::of(&message[..10_000], false).is_none());
        assert_eq!(kind(&message), MessageKind::Signed);
    }
}
