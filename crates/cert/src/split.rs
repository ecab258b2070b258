//! Splits a stream into certificates without parsing them.
//!
//! Only packet headers are read, so a keyring is split at the speed of memory. Damage is rejected
//! with its offset, and the packets before the damage are kept. Reading continues at the next bytes
//! that look like a primary key, even if a wrong length had covered their start.

use std::io::{self, Read};
use std::ops::Range;

use crate::error::{Reason, Reject};
use crate::packet::{Header, PACKET_BYTES_MAX, first_packet};
use crate::signature::{Signature, kind};
use crate::tag::Tag;

/// The largest certificate that is read: 64 MiB, all packets with their headers.
///
/// 100,000 signatures fit. A larger certificate is rejected with its own error instead of being
/// held in memory.
pub const CERT_BYTES_MAX: usize = 64 << 20;

/// Default number of input bytes that are read at a time: 4 MiB.
pub const BATCH_BYTES: usize = 4 << 20;

/// One item of a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Item {
    /// A certificate, as a range of [`Batch::bytes`].
    Cert(Range<usize>),
    /// Bytes that are not a certificate.
    Rejected(Reject),
}

/// A section of the input that contains whole certificates.
#[derive(Debug)]
pub struct Batch {
    /// Offset of `bytes` in the stream.
    pub offset: u64,
    /// The bytes of the section, as read.
    pub bytes: Vec<u8>,
    /// The items in `bytes`, in order.
    pub items: Vec<Item>,
}

impl Batch {
    /// The raw certificates of the batch, each with its offset in the stream.
    pub fn certs(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.items.iter().filter_map(|item| match item {
            Item::Cert(at) => Some((self.offset + at.start as u64, &self.bytes[at.clone()])),
            Item::Rejected(_) => None,
        })
    }

    /// The rejected items of the batch.
    pub fn rejects(&self) -> impl Iterator<Item = &Reject> {
        self.items.iter().filter_map(|item| match item {
            Item::Cert(_) => None,
            Item::Rejected(reject) => Some(reject),
        })
    }

    /// The body of the revocation of a key that stands in place of a certificate, as `gpg
    /// --gen-revoke` writes it. `None` if the rejected item is anything else.
    #[must_use]
    pub fn revocation(&self, reject: &Reject) -> Option<&[u8]> {
        if reject.reason != (Reason::NoPrimary { tag: Tag::SIGNATURE.0 }) {
            return None;
        }
        let at = usize::try_from(reject.offset.checked_sub(self.offset)?).ok()?;
        let packet = first_packet(self.bytes.get(at..)?)?;
        let signature = Signature::parse(packet.body)?;
        (signature.kind == kind::KEY_REVOCATION).then_some(packet.body)
    }
}

/// Splits a stream into batches of raw certificates. Memory is bounded by the batch size and
/// [`CERT_BYTES_MAX`].
#[derive(Debug)]
pub struct Splitter<R> {
    input: R,
    batch_bytes: usize,
    /// Bytes that are read but not yet returned: the start of a certificate.
    carry: Vec<u8>,
    /// Offset of `carry` in the stream.
    offset: u64,
    state: State,
    eof: bool,
}

/// State of the splitter between two packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// At the start, or inside a good certificate.
    Good,
    /// After a rejected item: packets are skipped up to the next primary key.
    Lost,
    /// After damage: bytes are skipped up to the next possible primary key.
    Searching,
}

impl<R: Read> Splitter<R> {
    /// Reads `input` in steps of about `batch_bytes`.
    pub fn new(input: R, batch_bytes: usize) -> Self {
        Self {
            input,
            batch_bytes: batch_bytes.max(1),
            carry: Vec::new(),
            offset: 0,
            state: State::Good,
            eof: false,
        }
    }

    /// The next batch, `None` at the end of the input.
    ///
    /// # Errors
    ///
    /// When the input cannot be read. Bad content is no error: it is in [`Batch::items`].
    pub fn next_batch(&mut self) -> io::Result<Option<Batch>> {
        loop {
            if self.eof && self.carry.is_empty() {
                return Ok(None);
            }
            self.fill()?;
            let mut bytes = std::mem::take(&mut self.carry);
            let mut items = Vec::new();
            let consumed = self.cut(&bytes, &mut items);
            self.carry = bytes[consumed..].to_vec();
            let offset = self.offset;
            self.offset += consumed as u64;
            if !items.is_empty() {
                bytes.truncate(consumed);
                return Ok(Some(Batch { offset, bytes, items }));
            }
        }
    }

    /// Reads more input after the carried-over bytes.
    fn fill(&mut self) -> io::Result<()> {
        if self.eof {
            return Ok(());
        }
        // For a certificate larger than a batch, the amount read doubles each time, so that each
        // byte is scanned a bounded number of times.
        let want = self.batch_bytes.max(self.carry.len());
        let before = self.carry.len();
        self.carry.reserve(want);
        self.input.by_ref().take(want as u64).read_to_end(&mut self.carry)?;
        self.eof = self.carry.len() == before;
        Ok(())
    }

    /// Splits `bytes` and returns the number of bytes that are finished.
    fn cut(&mut self, bytes: &[u8], items: &mut Vec<Item>) -> usize {
        let base = self.offset;
        let reject =
            |at: usize, reason| Item::Rejected(Reject { offset: base + at as u64, reason });
        let mut start: Option<usize> = None;
        // Start offsets of the last packets of the certificate.
        let mut recent = Recent::default();
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Searching {
                match next_primary(bytes, at, self.eof) {
                    Ok(next) => (at, self.state) = (next, State::Lost),
                    Err(next) if self.eof || next == at => {
                        at = next;
                        break;
                    }
                    Err(next) => at = next,
                }
                continue;
            }
            let header = Header::read(&bytes[at..]);
            let end = match &header {
                Ok(Some(header)) => at + header.len + header.body,
                Ok(None) | Err(_) => at,
            };
            let reason = match header.clone() {
                Ok(None) if !self.eof => break,
                Ok(None) => Reason::Truncated { tag: 0, wants: 0, has: bytes.len() - at },
                Err(reason) => reason,
                Ok(Some(header)) if header.body > PACKET_BYTES_MAX => Reason::PacketTooLarge {
                    tag: header.tag.0,
                    len: header.body,
                    max: PACKET_BYTES_MAX,
                },
                Ok(Some(_)) if end > bytes.len() && !self.eof => break,
                Ok(Some(header)) if end > bytes.len() => Reason::Truncated {
                    tag: header.tag.0,
                    wants: header.body,
                    has: bytes.len().saturating_sub(at + header.len),
                },
                Ok(Some(header)) => {
                    if header.tag.is_primary() {
                        items.extend(start.map(|start| Item::Cert(start..at)));
                        (start, self.state) = (Some(at), State::Good);
                        recent = Recent::default();
                    } else if start.is_none()
                        && self.state == State::Good
                        && !header.tag.is_ignored()
                    {
                        items.push(reject(at, Reason::NoPrimary { tag: header.tag.0 }));
                        self.state = State::Lost;
                    }
                    if let Some(first) = start.filter(|start| end - start > CERT_BYTES_MAX) {
                        items.push(reject(first, Reason::CertTooLarge { max: CERT_BYTES_MAX }));
                        (start, self.state) = (None, State::Lost);
                    }
                    recent.push(at);
                    at = end;
                    continue;
                }
            };
            // A length may be wrong, so the next certificate may start within the last packets. The
            // packets before those stay. A certificate with a component above the limit is rejected
            // as a whole.
            let whole = matches!(reason, Reason::PacketTooLarge { .. })
                && !header.is_ok_and(|header| header.is_some_and(|h| h.tag.is_primary()));
            let from = if start.is_some() { recent.first() } else { at };
            let next = next_primary(bytes, from + 1, self.eof);
            let first = start.take();
            if let Some(first) = first.filter(|_| !whole) {
                let end = next.ok().and_then(|next| recent.last_before(next));
                let end = end.filter(|_| next.is_ok_and(|next| next < at)).unwrap_or(at);
                items.extend((end > first).then_some(Item::Cert(first..end)));
            }
            if self.state == State::Good {
                items.push(reject(first.filter(|_| whole).unwrap_or(at), reason));
            }
            (at, self.state) = match next {
                Ok(next) => (next, State::Lost),
                Err(next) => (next.max(at + 1).min(bytes.len()), State::Searching),
            };
        }
        if self.eof {
            items.extend(start.map(|start| Item::Cert(start..at)));
            return bytes.len();
        }
        if let Some(first) = start.filter(|start| bytes.len() - start > CERT_BYTES_MAX) {
            items.push(reject(first, Reason::CertTooLarge { max: CERT_BYTES_MAX }));
            self.state = State::Lost;
            return at;
        }
        start.unwrap_or(at)
    }
}

/// Start offsets of the last packets of a certificate. There are only a few, so that damage is
/// processed in linear time.
#[derive(Default)]
struct Recent([Option<usize>; 4]);

impl Recent {
    fn push(&mut self, at: usize) {
        self.0.rotate_left(1);
        self.0[3] = Some(at);
    }

    fn first(&self) -> usize {
        self.0.iter().flatten().next().copied().unwrap_or_default()
    }

    fn last_before(&self, at: usize) -> Option<usize> {
        self.0.iter().flatten().rev().copied().find(|&start| start <= at)
    }
}

/// Finds the next possible primary key packet after damage.
///
/// The header, the version, the algorithm and the following header must all be plausible, so that
/// random bytes seldom pass. The error is the offset at which to continue; without `eof` the last
/// bytes are left for another attempt.
fn next_primary(bytes: &[u8], from: usize, eof: bool) -> Result<usize, usize> {
    let plausible = |at: usize| {
        let rest = &bytes[at..];
        let Ok(Some(header)) = Header::read(rest) else { return false };
        let fields = rest.get(header.len..).unwrap_or_default();
        let (Some(version @ 2..=6), Some(&algorithm)) = (
            fields.first().copied(),
            fields.get(if matches!(fields.first(), Some(2 | 3)) { 7 } else { 5 }),
        ) else {
            return false;
        };
        let behind = rest.get(header.len + header.body).copied();
        header.tag == Tag::PUBLIC_KEY
            && (12..8192).contains(&header.body)
            && (version > 3 || algorithm <= 3)
            && matches!(algorithm, 1..=3 | 16..=22 | 25..=36)
            && behind.is_none_or(|b| b & 0x80 != 0)
    };
    // A decision needs six bytes of header and six bytes of fields.
    let last = if eof { bytes.len() } else { bytes.len().saturating_sub(12).max(from) };
    (from..last).find(|&at| plausible(at)).ok_or(last.min(bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet;
    use proptest::prelude::*;

    /// A stream of packets that resembles a keyring only in its framing.
    fn ring(certs: &[Vec<usize>]) -> Vec<u8> {
        let mut out = Vec::new();
        for lens in certs {
            packet::write(&mut out, Tag::PUBLIC_KEY, &[4, 0, 0, 0, 1, 1, 0, 9, 1, 1, 0, 2, 3]);
            for &len in lens {
                packet::write(&mut out, Tag::SIGNATURE, &vec![3; len]);
            }
        }
        out
    }

    fn split(input: &[u8], batch: usize) -> (Vec<Vec<u8>>, Vec<Reject>) {
        let mut splitter = Splitter::new(input, batch);
        let (mut certs, mut rejects) = (Vec::new(), Vec::new());
        while let Some(batch) = splitter.next_batch().unwrap() {
            certs.extend(batch.certs().map(|(at, raw)| {
                let at = usize::try_from(at).unwrap();
                assert_eq!(&input[at..at + raw.len()], raw, "offsets point at the certificate");
                raw.to_vec()
            }));
            rejects.extend(batch.rejects().cloned());
        }
        (certs, rejects)
    }

    proptest! {
        /// The position of the buffer's end does not influence the result.
        #[test]
        fn batch_size_does_not_matter(
            shape in prop::collection::vec(prop::collection::vec(0usize..900, 0..5), 0..8),
            batch in 1usize..3000,
        ) {
            let input = ring(&shape);
            let (certs, rejects) = split(&input, batch);
            prop_assert_eq!(certs.concat(), input);
            prop_assert_eq!(certs.len(), shape.len());
            prop_assert_eq!(rejects, vec![]);
        }

        /// Random bytes are processed without a panic.
        #[test]
        fn splitting_ends_on_any_bytes(bytes: Vec<u8>, batch in 1usize..100) {
            split(&bytes, batch);
        }

        /// Damage in one certificate does not affect certificates after the next key.
        #[test]
        fn damage_stays_local(at in 15usize..300, garbage in prop::collection::vec(0u8..128, 1..40)) {
            let mut input = ring(&[vec![300]]);
            let tail = ring(&[vec![40, 50], vec![60]]);
            input.splice(at..at, garbage);
            input.extend_from_slice(&tail);
            let (certs, _) = split(&input, 64);
            prop_assert!(certs.len() >= 2);
            prop_assert_eq!(certs[certs.len() - 1].len(), ring(&[vec![60]]).len());
        }
    }

    #[test]
    fn an_oversized_packet_is_skipped_without_buffering() {
        let mut input = ring(&[vec![10]]);
        input.extend_from_slice(&[0xcd, 0xff, 0x06, 0x40, 0, 0]);
        let body = 0x0640_0000u64;
        let tail = ring(&[vec![20]]);
        let stream = input.as_slice().chain(io::repeat(b'A').take(body)).chain(tail.as_slice());
        let mut splitter = Splitter::new(stream, 1000);
        let (mut certs, mut rejects, mut held) = (0, Vec::new(), 0);
        while let Some(batch) = splitter.next_batch().unwrap() {
            held = held.max(batch.bytes.capacity());
            certs += batch.certs().count();
            rejects.extend(batch.rejects().cloned());
        }
        assert_eq!(certs, 1, "the certificate behind the large packet is found");
        assert!(matches!(
            rejects[..],
            [Reject { reason: Reason::PacketTooLarge { tag: 13, .. }, .. }]
        ));
        assert!(held < 1 << 20);
    }
}
