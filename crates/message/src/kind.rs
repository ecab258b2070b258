//! What kind of OpenPGP data an input is: the one place that says so.
//!
//! It is said by the start of the input, armored or not, with text in front of the armor or not. Compressed
//! data are looked into, since what signs a message mostly compresses it, too.

use std::fmt;
use std::io::{BufRead, BufReader, Chain, Cursor, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::{DeflateDecoder, ZlibDecoder};

use crate::armor::{ArmorReader, Input, framed};
use crate::cleartext::CLEARTEXT_HEAD;
use crate::error::{MessageError, Result};
use crate::framing::{self, Body, Length, tag};

/// What an input is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MessageKind {
    /// An encrypted message.
    Encrypted,
    /// A message that is signed and not encrypted.
    Signed,
    /// A text with a cleartext signature.
    SignedText,
    /// Signatures alone.
    DetachedSignature,
    /// A message that is neither encrypted nor signed.
    Packed,
    /// A certificate, or several.
    Certificate,
    /// A secret key, or several.
    SecretKey,
    /// Something else, or nothing.
    Other,
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encrypted => "an encrypted message",
            Self::Signed => "a signed message",
            Self::SignedText => "a text with a cleartext signature",
            Self::DetachedSignature => "a detached signature",
            Self::Packed => "a message that is neither encrypted nor signed",
            Self::Certificate => "a certificate",
            Self::SecretKey => "a secret key",
            Self::Other => "no OpenPGP message",
        })
    }
}

/// What the start of an input says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Recognised {
    /// What it is.
    pub kind: MessageKind,
    /// It is text: in armor, or with a cleartext signature.
    pub armored: bool,
    /// Octets in front of the armor, of which any reader shows nothing and no signature says anything.
    pub leading: u64,
}

/// Octets of an input that are looked at: those that may stand in front of armor, and a block of bzip2.
const LOOK_BYTES: usize = 2 << 20;
/// Octets of text in front of armor.
const LEADING_BYTES_MAX: usize = 1 << 20;
/// Octets of an encrypted message that are looked at: those that say whom it is for.
const ENCRYPTED_BYTES: usize = 96 << 10;
/// Octets that [`Message::start`] gives.
const START_BYTES: usize = 64 << 10;
/// Octets of compressed data that are looked at.
const INNER_BYTES: usize = 64 << 10;
/// Compressed packets within compressed packets.
const DEPTH_MAX: usize = 3;

impl Recognised {
    /// What `start` is the start of; all of it if it has `ended`. `None` if more octets are needed to tell.
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
        for line in start.split_inclusive(|&octet| octet == b'\n') {
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

/// What is in a block of armor, by its content.
fn armored(block: &[u8], ended: bool, label: &str) -> Option<MessageKind> {
    let mut content = Vec::new();
    // It may be cut off where the input was; the whole lines before that count.
    let lines = block.iter().rposition(|&octet| octet == b'\n').map_or(0, |last| last + 1);
    let block = if ended { block } else { &block[..lines] };
    let complete = ArmorReader::new(block)
        .and_then(|mut armor| armor.read_to_end(&mut content).map_err(MessageError::read));
    match packets(&content, complete.is_ok(), 0) {
        None if !ended => None,
        None | Some(MessageKind::Other) => Some(match label {
            "PGP SIGNATURE" => MessageKind::DetachedSignature,
            "PGP PUBLIC KEY BLOCK" => MessageKind::Certificate,
            "PGP PRIVATE KEY BLOCK" => MessageKind::SecretKey,
            _ => MessageKind::Other,
        }),
        kind => kind,
    }
}

/// What a row of packets is.
fn packets(mut rest: &[u8], ended: bool, depth: usize) -> Option<MessageKind> {
    let mut signature = false;
    // Nothing but signatures, as far as it goes.
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

/// What is in a compressed packet; `endless` if it goes on behind what is at hand, and nobody says how far.
fn compressed(
    body: &mut impl Read,
    ended: bool,
    endless: bool,
    depth: usize,
) -> Option<MessageKind> {
    let mut data = Vec::new();
    // Less than all of it is enough.
    let whole = body.read_to_end(&mut data).is_ok() && !endless;
    let Some((algorithm, data)) = data.split_first() else {
        return ended.then_some(MessageKind::Other);
    };
    if depth == DEPTH_MAX {
        return Some(MessageKind::Other);
    }
    let mut inner = Vec::new();
    let limit = INNER_BYTES as u64;
    // Octet by octet: of a longer piece that is damaged a decoder gives nothing, not even what is in front of the
    // damage, and the answer would depend on how the message arrived.
    let octets = BufReader::with_capacity(1, data);
    let read = match algorithm {
        0 => octets.take(limit).read_to_end(&mut inner),
        1 => DeflateDecoder::new(octets).take(limit).read_to_end(&mut inner),
        2 => ZlibDecoder::new(octets).take(limit).read_to_end(&mut inner),
        3 => BzDecoder::new(octets).take(limit).read_to_end(&mut inner),
        _ => return Some(MessageKind::Other),
    };
    let full = inner.len() == INNER_BYTES;
    let ended = ended || whole;
    match packets(&inner, ended && !full && read.is_ok(), depth + 1) {
        // A signature alone, in a message: its data are missing.
        Some(MessageKind::DetachedSignature) => Some(MessageKind::Other),
        None if full => Some(MessageKind::Signed),
        None if ended => Some(MessageKind::Other),
        kind => kind,
    }
}

/// An input of which is known what it is. Nothing of it is lost.
pub struct Message<R> {
    recognised: Recognised,
    leading_text: u64,
    input: Chain<Cursor<Vec<u8>>, R>,
}

impl<R: BufRead> Message<R> {
    /// Looks at the start of `input`, at most 2 MiB, mostly one read.
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
            // Looking again at twice as much costs no more than reading it.
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
        let text = start[..leading].split(|&octet| octet == b'\n');
        let leading_text = text.map(|line| line.trim_ascii().len() as u64).sum();
        start.drain(..leading);
        Ok(Self { recognised, leading_text, input: Cursor::new(start).chain(input) })
    }

    /// What it is.
    pub fn recognised(&self) -> Recognised {
        self.recognised
    }

    /// What it is.
    pub fn kind(&self) -> MessageKind {
        self.recognised.kind
    }

    /// How its packets start, 64 KiB or less; `None` for text without a block.
    pub fn start(&self) -> Option<Vec<u8>> {
        let text = self.input.get_ref().0.get_ref();
        let mut start = Vec::new();
        if self.recognised.armored && self.recognised.kind != MessageKind::SignedText {
            // It may be cut off where the look at it ended.
            let armor = ArmorReader::new(&text[..]).map(|armor| armor.take(START_BYTES as u64));
            let _ = armor.map(|mut armor| armor.read_to_end(&mut start));
        } else if text.first().is_some_and(|octet| octet & 0x80 == 0) {
            return None;
        } else {
            start.extend_from_slice(&text[..text.len().min(START_BYTES)]);
        }
        Some(start)
    }

    /// Octets of text in front of the armor, white space not counted.
    pub(crate) fn leading_text(&self) -> u64 {
        self.leading_text
    }

    /// The input from the head line of its armor on, or from its start without armor.
    pub fn into_text(self) -> Chain<Cursor<Vec<u8>>, R> {
        self.input
    }

    /// Its packets, taken out of the armor.
    ///
    /// # Errors
    ///
    /// [`MessageError::Malformed`] for text without a block.
    pub fn into_packets(self) -> Result<Input<Chain<Cursor<Vec<u8>>, R>>> {
        Input::new(self.input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::armor::{ArmorWriter, Label};
    use std::io::Write as _;

    /// A packet in one definite length.
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
    fn kinds_by_their_packets_armored_or_not() {
        use MessageKind::{
            Certificate, DetachedSignature, Encrypted, Other, Packed, SecretKey, Signed,
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
            assert_eq!(kind(&block), wanted, "armored {:x?}", &data[..8]);
            let mailed = [b"Hello,\n-----BEGIN X-----\n\n".as_slice(), &block].concat();
            assert_eq!(kind(&mailed), wanted, "mailed {:x?}", &data[..8]);
            // However little of it is looked at, nothing else is said.
            for whole in [&data, &block, &mailed] {
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
    fn nothing_of_the_input_is_lost() {
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
