//! GnuPG's keybox, `pubring.kbx`: a sequence of blobs, each with one certificate.
//!
//! All numbers are big-endian. A blob starts with its length, itself included (4 bytes), its type
//! and its version (1 byte each). What is read of a blob with a certificate is where the keyblock
//! lies in it; the tables of fingerprints and user IDs are there for GnuPG's searches, and the
//! checksum at the end is not kept up by GnuPG and is not looked at. The layout is in
//! `docs/gnupg.md`.

use std::borrow::Borrow;
use std::io::{self, Read, Write};

use sha1::{Digest as _, Sha1};
use talaria_cert::{Cert, Fingerprint, Key, Reason, Tag, first_packet};

use crate::error::{LeftOut, LeftOutReason};

/// The largest blob that is read: 64 MiB, like the largest certificate.
pub const BLOB_BYTES_MAX: usize = 64 << 20;

/// The largest blob that GnuPG reads: 5 MiB.
pub const GNUPG_BLOB_BYTES_MAX: usize = 5 << 20;

/// Bytes that are read at a time, at most and at least.
const READ_BYTES: usize = 1 << 20;
const READ_BYTES_MIN: usize = 64 << 10;

/// Bytes of a header blob.
const HEADER_BYTES: usize = 32;

/// Bytes of a blob with a certificate up to the table of keys, which is all that its reader needs.
pub(crate) const FIXED_BYTES: usize = 20;

/// Bytes of the checksum that ends a blob.
const CHECKSUM_BYTES: usize = 20;

/// Types of blobs.
pub(crate) mod kind {
    pub(super) const EMPTY: u8 = 0;
    pub(super) const HEADER: u8 = 1;
    pub(crate) const OPENPGP: u8 = 2;
    pub(super) const X509: u8 = 3;
}

/// Whether a file that starts with `head` is a keybox.
#[must_use]
pub fn is_keybox(head: &[u8]) -> bool {
    head.get(4) == Some(&kind::HEADER) && head.get(8..12) == Some(b"KBXf")
}

/// Whether the header blob in `head` says that GnuPG keeps OpenPGP certificates in the file.
/// Without the mark it prefers a `pubring.gpg`.
pub(crate) fn is_openpgp_keybox(head: &[u8]) -> bool {
    is_keybox(head) && head.get(7).is_some_and(|flags| flags & 2 != 0)
}

/// An item of a keybox.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Blob {
    /// An OpenPGP certificate: the whole blob, and where the keyblock lies in it.
    Keyblock(Vec<u8>, std::ops::Range<usize>),
    /// A blob of another kind, such as an X.509 certificate, whole.
    Other(Vec<u8>),
    /// Bytes that are no blob, or a blob that cannot be read.
    Rejected(Reason),
}

/// Reads the certificates of a keybox.
///
/// Yields for each its offset (that of the blob) and the raw keyblock, or why the blob cannot be
/// read. Behind damage, reading goes on at the next bytes that look like a blob. Empty blobs,
/// headers and X.509 certificates are passed over. Memory is bounded by [`BLOB_BYTES_MAX`].
#[derive(Debug)]
pub struct Keybox<R> {
    input: R,
    /// Read, but not yet done with.
    buffer: Vec<u8>,
    /// How many bytes of `buffer` are done with.
    start: usize,
    /// Offset in the input of `buffer[start]`.
    offset: u64,
    /// The start of the input was looked at.
    begun: bool,
    eof: bool,
}

impl<R: Read> Keybox<R> {
    /// A reader from the start of a keybox.
    pub fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), start: 0, offset: 0, begun: false, eof: false }
    }

    /// The next certificate that GnuPG finds by its key: `is_meant` is true of one of the first 20
    /// bytes of the fingerprints in the table of the blob. The keyblock is raw, and may have other
    /// keys if the table is damaged. `None` at the end and at damage between blobs, and if GnuPG
    /// would not read the blob that it finds, or would not find its primary key.
    ///
    /// # Errors
    ///
    /// Those of the input.
    pub fn find(&mut self, is_meant: impl Fn(&[u8; 20]) -> bool) -> io::Result<Option<Vec<u8>>> {
        while let Some((_, blob)) = self.next_blob()? {
            let (mut blob, at) = match blob {
                Blob::Keyblock(blob, at) => (blob, at),
                Blob::Other(_) => continue,
                Blob::Rejected(_) => return Ok(None),
            };
            let is_read = blob.len() <= GNUPG_BLOB_BYTES_MAX && !is_ephemeral(&blob);
            if is_read && names(&blob).any(&is_meant) {
                if !has_room(&blob) || !names_primary(&blob, &blob[at.clone()]) {
                    return Ok(None);
                }
                blob.truncate(at.end);
                blob.drain(..at.start);
                return Ok(Some(blob));
            }
        }
        Ok(None)
    }

    /// The next blob with its offset; `None` at the end.
    pub(crate) fn next_blob(&mut self) -> io::Result<Option<(u64, Blob)>> {
        if !self.begun {
            self.begun = true;
            if !is_keybox(self.peek(12)?) {
                let reason = Reason::Container("the keybox does not start with a header".into());
                self.resynchronise()?;
                return Ok(Some((0, Blob::Rejected(reason))));
            }
        }
        loop {
            let offset = self.offset;
            let head = self.peek(FIXED_BYTES)?;
            if head.is_empty() {
                return Ok(None);
            }
            let Some((len, kind)) = frame(head) else {
                let reason = match head.len() {
                    0..6 => "the keybox ends within a blob".to_owned(),
                    _ => format!("expected a blob, found {:02x?}", &head[..6]),
                };
                self.resynchronise()?;
                return Ok(Some((offset, Blob::Rejected(Reason::Container(reason)))));
            };
            let has = self.peek(len)?.len();
            if has < len {
                // The length may lie: what follows it is searched for further blobs.
                self.resynchronise()?;
                let reason = format!("blob of {len} bytes is truncated: {has} are left");
                return Ok(Some((offset, Blob::Rejected(Reason::Container(reason)))));
            }
            let next = self.peek(len + FIXED_BYTES)?;
            let (blob, behind) = next.split_at(len);
            // A length that lies ends in the midst of another blob, or has another one in it. Where
            // the keyblock and the checksum fill the blob to its end, the next blob is damaged.
            let at = if kind == kind::OPENPGP { keyblock(blob) } else { None };
            let filled = at.as_ref().is_some_and(|at| at.end + CHECKSUM_BYTES == len);
            let swallows = |at: &std::ops::Range<usize>| {
                blob.get(at.end + CHECKSUM_BYTES..).is_some_and(plausible)
            };
            let lies = !filled
                && (!behind.is_empty() && frame(behind).is_none()
                    || at.as_ref().is_some_and(swallows));
            if lies || (kind == kind::OPENPGP && at.is_none()) {
                let what = if lies {
                    "does not end where another blob starts"
                } else {
                    "contains no keyblock"
                };
                self.resynchronise()?;
                let reason = Reason::Container(format!("blob of {len} bytes {what}"));
                return Ok(Some((offset, Blob::Rejected(reason))));
            }
            let found = match (kind, at) {
                (kind::EMPTY | kind::HEADER, _) => {
                    self.pass(len);
                    continue;
                }
                (_, Some(at)) => Blob::Keyblock(blob.to_vec(), at),
                (_, None) => Blob::Other(blob.to_vec()),
            };
            self.pass(len);
            return Ok(Some((offset, found)));
        }
    }

    /// The next `n` bytes, fewer at the end of the input.
    fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        while !self.eof && self.buffer.len() - self.start < n {
            // Processed bytes are removed before more are read, in steps that keep this linear.
            if self.start >= READ_BYTES.min(self.buffer.len()) {
                self.buffer.drain(..self.start);
                self.start = 0;
            }
            let before = self.buffer.len();
            let missing = n - (before - self.start);
            let want = missing.clamp(READ_BYTES_MIN, READ_BYTES) as u64;
            self.input.by_ref().take(want).read_to_end(&mut self.buffer)?;
            self.eof = self.buffer.len() == before;
        }
        let rest = &self.buffer[self.start..];
        Ok(&rest[..n.min(rest.len())])
    }

    fn pass(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
        debug_assert!(self.start <= self.buffer.len(), "only what was peeked at is passed over");
    }

    /// Goes on to the next place, at least one byte ahead, that looks like a blob, or to the end.
    ///
    /// Each byte is looked at once: the search never goes back, and a blob that is judged by more
    /// than its first bytes is given out.
    fn resynchronise(&mut self) -> io::Result<()> {
        loop {
            let rest = self.peek(READ_BYTES)?;
            // A full frame is needed to judge, except at the end.
            let last = rest.len().saturating_sub(FIXED_BYTES);
            if let Some(at) = (1..=last).find(|&at| plausible(&rest[at..])) {
                self.pass(at);
                return Ok(());
            }
            if rest.len() < READ_BYTES {
                let all = rest.len();
                self.pass(all);
                return Ok(());
            }
            self.pass(last);
        }
    }
}

impl<R: Read> Iterator for Keybox<R> {
    type Item = io::Result<(u64, Result<Vec<u8>, Reason>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            return match self.next_blob().transpose()? {
                Ok((_, Blob::Other(_))) => continue,
                Ok((offset, Blob::Keyblock(mut blob, at))) => {
                    blob.truncate(at.end);
                    blob.drain(..at.start);
                    Some(Ok((offset, Ok(blob))))
                }
                Ok((offset, Blob::Rejected(reason))) => Some(Ok((offset, Err(reason)))),
                Err(error) => {
                    (self.eof, self.start) = (true, self.buffer.len());
                    Some(Err(error))
                }
            };
        }
    }
}

/// Length and type of the blob that starts here, if one can.
pub(crate) fn frame(head: &[u8]) -> Option<(usize, u8)> {
    let &[a, b, c, d, kind, ref rest @ ..] = head else { return None };
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    let lengths = match kind {
        kind::EMPTY => 5..=BLOB_BYTES_MAX,
        kind::HEADER => HEADER_BYTES..=HEADER_BYTES,
        _ => FIXED_BYTES..=BLOB_BYTES_MAX,
    };
    let version = rest.first().copied().unwrap_or(1);
    let known = kind <= kind::X509 && (1..=2).contains(&version);
    (known && lengths.contains(&len)).then_some((len, kind))
}

/// Whether a blob with a certificate starts here, as far as its first bytes tell.
fn plausible(head: &[u8]) -> bool {
    let Some((len, kind @ (kind::OPENPGP | kind::X509))) = frame(head) else { return false };
    let Some([.., keys_high, keys, 0, key_bytes]) = head.get(..FIXED_BYTES) else { return false };
    let number = |at: usize| head[at..at + 4].iter().fold(0, |all, &b| all << 8 | usize::from(b));
    let (at, bytes) = (number(8), number(12));
    let keys = usize::from(*keys_high) << 8 | usize::from(*keys);
    let tables = FIXED_BYTES + keys * usize::from(*key_bytes);
    at.checked_add(bytes).is_some_and(|end| end <= len)
        && matches!(key_bytes, 28 | 56)
        && (tables <= at || kind == kind::X509)
}

/// The first 20 bytes of the fingerprints in the table of a blob.
pub(crate) fn names(blob: &[u8]) -> impl Iterator<Item = &[u8; 20]> {
    const ENTRY_BYTES_MIN: usize = 28;
    let [count, bytes] = [16, 18].map(|at| short(blob, at).unwrap_or(0));
    let table = blob.get(FIXED_BYTES..).and_then(|rest| rest.get(..count * bytes));
    let table = table.filter(|_| bytes >= ENTRY_BYTES_MIN).unwrap_or_default();
    table.chunks_exact(bytes.max(1)).filter_map(<[u8]>::first_chunk)
}

/// Whether the table of a blob has the primary key of its keyblock.
fn names_primary(blob: &[u8], keyblock: &[u8]) -> bool {
    let primary = first_packet(keyblock).and_then(|packet| Key::parse(packet).ok());
    primary.is_some_and(|primary| {
        let primary = primary.fingerprint();
        names(blob).any(|name| primary.as_bytes().starts_with(name))
    })
}

/// A number of two bytes.
pub(crate) fn short(blob: &[u8], at: usize) -> Option<usize> {
    let bytes = blob.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map(|bytes| usize::from(u16::from_be_bytes(*bytes)))
}

/// Whether the tables of a blob have room in it, with entries that are long enough.
fn has_room(blob: &[u8]) -> bool {
    // The bytes from the owner trust to the reserved ones.
    const FIELDS_BYTES: usize = 20;
    // A table has a number of entries, their length, and then the entries.
    let behind = |at: usize, entry_bytes_min: usize| {
        let (count, bytes) = (short(blob, at)?, short(blob, at + 2)?);
        (bytes >= entry_bytes_min).then_some(at + 4 + count * bytes)
    };
    let end = || {
        let keys = behind(16, 28)?;
        let user_ids = behind(keys + 2 + short(blob, keys)?, 12)?;
        behind(user_ids, 4)
    };
    end().is_some_and(|end| end + FIELDS_BYTES <= blob.len() && blob.len() >= 40)
}

/// Whether GnuPG passes a blob over: gpgsm has not decided to keep it.
pub(crate) fn is_ephemeral(blob: &[u8]) -> bool {
    const EPHEMERAL: u8 = 2;
    blob.get(7).is_some_and(|flags| flags & EPHEMERAL != 0)
}

/// Where the keyblock lies in a blob.
fn keyblock(blob: &[u8]) -> Option<std::ops::Range<usize>> {
    keyblock_place(blob).filter(|at| at.end <= blob.len())
}

/// Where the keyblock lies in a blob that starts with `head`, if it fits into the blob.
pub(crate) fn keyblock_place(head: &[u8]) -> Option<std::ops::Range<usize>> {
    let number = |at: usize| Some(u32::from_be_bytes(*head.get(at..)?.first_chunk()?) as usize);
    let start = number(8)?;
    let end = start.checked_add(number(12)?)?;
    (start >= FIXED_BYTES && start < end).then_some(start..end)
}

/// Writes a keybox that GnuPG reads, and returns what found no room in it.
///
/// `created` (seconds since 1970) is written as the time at which file and entries were made.
/// Entries are written as GnuPG 2.2 writes them; a certificate with a key of 32-byte fingerprint
/// gets an entry of version 2, which GnuPG 2.4 reads.
///
/// # Errors
///
/// When `out` cannot be written.
pub fn write_keybox<C: Borrow<Cert>>(
    out: &mut impl Write,
    certs: impl IntoIterator<Item = C>,
    created: u32,
) -> io::Result<Vec<LeftOut>> {
    let mut left_out = Vec::new();
    out.write_all(&header(created))?;
    for cert in certs {
        match blob(cert.borrow(), created) {
            Ok(blob) => out.write_all(&blob)?,
            Err(left) => left_out.push(left),
        }
    }
    Ok(left_out)
}

/// The blob that starts a keybox.
pub(crate) fn header(created: u32) -> [u8; HEADER_BYTES] {
    const USED_FOR_OPENPGP: u8 = 2;
    let mut blob = [0; HEADER_BYTES];
    blob[..4].copy_from_slice(&32u32.to_be_bytes());
    blob[4] = kind::HEADER;
    blob[5] = 1;
    blob[7] = USED_FOR_OPENPGP;
    blob[8..12].copy_from_slice(b"KBXf");
    blob[16..20].copy_from_slice(&created.to_be_bytes());
    blob[20..24].copy_from_slice(&created.to_be_bytes());
    blob
}

/// The blob of one certificate.
pub(crate) fn blob(cert: &Cert, created: u32) -> Result<Vec<u8>, LeftOut> {
    let left = |reason| LeftOut { fingerprint: cert.fingerprint(), reason };
    if let version @ (3 | 6..) = cert.fingerprint().version() {
        return Err(left(LeftOutReason::Version { version }));
    }
    let too_large = |bytes| left(LeftOutReason::TooLarge { bytes, max: GNUPG_BLOB_BYTES_MAX });
    let keyblock = cert.as_bytes();
    if keyblock.len() > GNUPG_BLOB_BYTES_MAX {
        return Err(too_large(keyblock.len()));
    }
    let mut out = Blank(Vec::with_capacity(keyblock.len() + 512));
    let keys: Vec<_> = cert.keys().collect();
    let wide = keys.iter().any(|key| key.fingerprint().as_bytes().len() > 20);
    out.u32(0); // The length, written at the end.
    out.u8(kind::OPENPGP);
    out.u8(if wide { 2 } else { 1 });
    out.u16(0);
    let place_at = out.0.len();
    out.u32(0); // Where the keyblock starts, likewise.
    out.u32(keyblock.len());
    out.u16(keys.len());
    out.u16(if wide { 56 } else { 28 });
    let mut v3_keys = Vec::new();
    for key in &keys {
        let fingerprint = key.fingerprint();
        let entry = out.0.len();
        let bytes = fingerprint.as_bytes();
        out.0.extend_from_slice(bytes);
        if wide {
            out.0.resize(entry + 32, 0);
            out.u16(if bytes.len() == 32 { 0x80 } else { 0 });
            out.u16(0);
            out.0.extend_from_slice(&key.keygrip().map_or([0; 20], |grip| grip.0));
        } else {
            out.0.resize(entry + 20, 0);
            if matches!(fingerprint, Fingerprint::V3(..)) {
                v3_keys.push((out.0.len(), fingerprint.key_id()));
            }
            out.u32(entry + 12);
            out.u16(0);
            out.u16(0);
        }
    }
    out.u16(0); // No serial number.
    // Where each user ID lies in the keyblock; the headers before it are found again by address.
    let base = keyblock.as_ptr() as usize;
    let user_ids: Vec<_> = cert
        .packets()
        .filter(|packet| packet.tag == Tag::USER_ID)
        .map(|packet| (packet.body.as_ptr() as usize - base, packet.body.len()))
        .collect();
    out.u16(user_ids.len());
    out.u16(12);
    let user_ids_at = out.0.len();
    for (start, len) in &user_ids {
        out.u32(*start); // Corrected below.
        out.u32(*len);
        out.u32(0); // Flags and validity.
    }
    let signatures = cert.signature_count();
    if signatures > usize::from(u16::MAX) || keys.len() > usize::from(u16::MAX) {
        return Err(too_large(keyblock.len()));
    }
    out.u16(signatures);
    out.u16(4);
    out.0.resize(out.0.len() + 4 * signatures, 0);
    out.u32(0); // Ownertrust and validity.
    out.u32(0); // When to check again.
    out.u32(0); // The newest time stamp.
    out.0.extend_from_slice(&created.to_be_bytes());
    out.u32(0); // Nothing reserved.
    for (at, id) in v3_keys {
        let here = out.0.len();
        out.patch(at, here);
        out.0.extend_from_slice(&id.0.to_be_bytes());
    }
    let start = out.0.len();
    out.patch(place_at, start);
    for (number, (at, _)) in user_ids.iter().enumerate() {
        out.patch(user_ids_at + 12 * number, start + at);
    }
    out.0.extend_from_slice(keyblock);
    let len = out.0.len() + CHECKSUM_BYTES;
    out.patch(0, len);
    let checksum = Sha1::digest(&out.0);
    out.0.extend_from_slice(&checksum);
    if len > GNUPG_BLOB_BYTES_MAX { Err(too_large(len)) } else { Ok(out.0) }
}

/// A blob that is being written. Its numbers are bounded by [`GNUPG_BLOB_BYTES_MAX`].
struct Blank(Vec<u8>);

#[expect(
    clippy::cast_possible_truncation,
    reason = "counts are checked before the blob is given out"
)]
impl Blank {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: usize) {
        self.0.extend_from_slice(&(value as u16).to_be_bytes());
    }

    fn u32(&mut self, value: usize) {
        self.0.extend_from_slice(&(value as u32).to_be_bytes());
    }

    fn patch(&mut self, at: usize, value: usize) {
        self.0[at..at + 4].copy_from_slice(&(value as u32).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A blob whose tables have only one key.
    fn plain(keyblock: &[u8]) -> Vec<u8> {
        let mut out = Blank(Vec::new());
        let len = FIXED_BYTES + 28 + keyblock.len() + 20;
        out.u32(len);
        out.0.extend_from_slice(&[kind::OPENPGP, 1, 0, 0]);
        out.u32(FIXED_BYTES + 28);
        out.u32(keyblock.len());
        out.u16(1);
        out.u16(28);
        out.0.resize(FIXED_BYTES + 28, 0xaa);
        out.0.extend_from_slice(keyblock);
        out.0.resize(len, 0xbb);
        out.0
    }

    fn keybox(blobs: &[Vec<u8>]) -> Vec<u8> {
        [&header(7)[..], &blobs.concat()].concat()
    }

    fn read(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, Vec<u64>) {
        let (mut keyblocks, mut rejects) = (Vec::new(), Vec::new());
        for entry in Keybox::new(bytes) {
            match entry.unwrap() {
                (offset, Ok(keyblock)) => keyblocks.push((offset, keyblock)),
                (offset, Err(_)) => rejects.push(offset),
            }
        }
        (keyblocks, rejects)
    }

    #[test]
    fn only_certificates_are_read() {
        let mut deleted = plain(b"gone");
        deleted[4] = kind::EMPTY;
        let mut x509 = plain(b"other");
        x509[4] = kind::X509;
        let bytes = keybox(&[plain(b"one"), deleted.clone(), x509, plain(b"two")]);
        assert!(is_keybox(&bytes));
        let (keyblocks, rejects) = read(&bytes);
        assert_eq!(rejects, []);
        let first = HEADER_BYTES as u64;
        assert_eq!(keyblocks[0], (first, b"one".to_vec()));
        let second = (bytes.len() - plain(b"two").len()) as u64;
        assert_eq!(keyblocks[1..], [(second, b"two".to_vec())]);
    }

    #[test]
    fn damage_costs_one_blob() {
        let blobs = [plain(&[1; 300]), plain(&[2; 300]), plain(&[3; 300])];
        let second = HEADER_BYTES + blobs[0].len();
        let good = keybox(&blobs);
        let third = vec![3; 300];
        // A length of zero, a too small one, one that covers the rest, and a random offset.
        for (at, value) in [(2, 0), (3, 25), (1, 1), (0, 0xff), (8, 1), (4, 9)] {
            let mut bytes = good.clone();
            bytes[second + at] = value;
            let (keyblocks, rejects) = read(&bytes);
            assert_eq!(keyblocks.len(), 2, "byte {at} set to {value}");
            assert_eq!(keyblocks[1].1, third);
            assert!(!rejects.is_empty() && rejects[0] >= second as u64);
        }
        let (keyblocks, rejects) = read(&good[..good.len() - 30]);
        assert_eq!((keyblocks.len(), rejects.len()), (2, 1));
    }

    /// Any flipped bit loses at most the neighbouring blobs.
    #[test]
    fn a_flipped_bit_damages_one_blob_only() {
        let blobs: Vec<_> = (0..12).map(|n| plain(&[n; 60])).collect();
        let good = keybox(&blobs);
        for at in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            let (keyblocks, _) = read(&bytes);
            assert!(
                keyblocks.len() >= blobs.len() - 2,
                "{} are left after bit {} of byte {}",
                keyblocks.len(),
                at % 8,
                at / 8
            );
        }
    }

    proptest! {
        /// Reading any bytes ends, and returned certificates are in the input in the same order.
        #[test]
        fn reading_ends_on_any_bytes(bytes: Vec<u8>, tail: Vec<u8>) {
            for bytes in [&bytes[..], &keybox(&[bytes.clone(), plain(b"x"), tail])] {
                let mut last = None;
                for entry in Keybox::new(bytes) {
                    let (offset, _) = entry.unwrap();
                    prop_assert!(last < Some(offset) || offset == 0);
                    prop_assert!(offset <= bytes.len() as u64);
                    last = Some(offset);
                }
            }
        }

        /// The sizes of the reads do not matter.
        #[test]
        fn short_reads_do_not_matter(sizes in prop::collection::vec(1usize..200, 0..20)) {
            struct Trickle<'a>(&'a [u8]);
            impl Read for Trickle<'_> {
                fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                    let n = out.len().min(7).min(self.0.len());
                    self.0.read(&mut out[..n])
                }
            }
            let blobs: Vec<_> = sizes.iter().map(|&n| plain(&vec![5; n])).collect();
            let bytes = keybox(&blobs);
            let found = Keybox::new(Trickle(&bytes)).map(|entry| entry.unwrap().1.unwrap().len());
            prop_assert_eq!(found.collect::<Vec<_>>(), sizes);
        }
    }
}
