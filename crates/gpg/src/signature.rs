//! Signature packets (RFC 9580, section 5.2), read as GnuPG 2.2 reads them.
//!
//! The digest and the arithmetic are those of [`talaria_cert`]. The fields here decide what is
//! reported, and which signatures gpgv takes for malformed.

use talaria_cert::{Subpacket, Subpackets};

use crate::algorithm;
use crate::text::{mailbox, printable};

/// The longest signature packet that is read, in bytes. GnuPG accepts two areas of 10,000 bytes and
/// two numbers of 16,384 bits.
pub(crate) const SIGNATURE_BYTES_MAX: u64 = 64 << 10;

/// The longest area of subpackets that GnuPG accepts, in bytes.
const AREA_BYTES_MAX: usize = 10_000;

/// The longest number that GnuPG accepts, in bits.
const NUMBER_BITS_MAX: usize = 16_384;

/// The types of subpackets (RFC 9580, section 5.2.3.7) that are read here.
pub(crate) mod subpacket {
    pub(crate) const CREATED: u8 = 2;
    pub(crate) const EXPIRES: u8 = 3;
    pub(crate) const ISSUER: u8 = 16;
    pub(crate) const NOTATION: u8 = 20;
    pub(crate) const KEYSERVER: u8 = 24;
    pub(crate) const POLICY: u8 = 26;
    pub(crate) const SIGNER: u8 = 28;
    pub(crate) const REVOCATION_REASON: u8 = 29;
    pub(crate) const EMBEDDED: u8 = 32;
    pub(crate) const FINGERPRINT: u8 = 33;
    pub(crate) const KEY_BLOCK: u8 = 38;
}

/// A signature packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignaturePacket {
    /// The body of the packet.
    pub(crate) body: Vec<u8>,
    /// 3 or 4.
    pub(crate) version: u8,
    /// The type of the signature.
    pub(crate) class: u8,
    /// The public-key algorithm.
    pub(crate) algorithm: u8,
    /// The digest.
    pub(crate) digest: u8,
    /// Seconds since 1970.
    pub(crate) created: u32,
    /// Seconds since 1970; 0 for never.
    pub(crate) expires: u32,
    /// The key ID of the issuer; 0 if the signature names none.
    pub(crate) key_id: u64,
    /// The fingerprint of the issuer, if the hashed area names it.
    pub(crate) fingerprint: Option<[u8; 20]>,
    /// The mail address, or else the user ID, that the signer claims.
    pub(crate) signer: Option<String>,
    /// A critical subpacket is not understood.
    pub(crate) has_unknown_critical: bool,
    /// The place of the hashed subpackets in the body.
    hashed: std::ops::Range<usize>,
    /// The place of the other subpackets in the body.
    unhashed: std::ops::Range<usize>,
    /// The place of the first 16 bits of the digest in the body; the numbers follow.
    prefix: usize,
}

/// Why a packet is not a signature that GnuPG reads.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Unreadable {
    /// The packet ends too early; there is no text about it.
    Truncated,
    /// The input ends within subpackets, of this kind. GnuPG takes it for its end.
    Ended(&'static str),
    /// It is malformed, for this reason.
    Malformed(String),
}

impl SignaturePacket {
    /// Reads the body of a packet. The packet was cut off if `is_truncated`.
    pub(crate) fn parse(body: Vec<u8>, is_truncated: bool) -> Result<Self, Unreadable> {
        let malformed = |why: &str| Unreadable::Malformed(why.to_owned());
        let short = || {
            if is_truncated { Unreadable::Truncated } else { malformed("packet(2) too short") }
        };
        let mut this = Self { body, ..Self::default() };
        // GnuPG reads bits that are set behind the end of the input.
        let version = this.body.first().copied().unwrap_or(0xff);
        match version {
            2 | 3 => this.parse_v3().ok_or_else(short)?,
            4 => this.parse_v4(short, is_truncated)?,
            other => {
                return Err(Unreadable::Malformed(format!(
                    "packet(2) with unknown version {other}"
                )));
            }
        }
        this.version = version;
        let numbers = this.body.get(this.prefix + 2..).ok_or_else(short)?;
        let wanted = algorithm::numbers(this.algorithm);
        if let Err(why) = split_numbers(numbers, wanted) {
            return Err(if is_truncated {
                Unreadable::Truncated
            } else {
                Unreadable::Malformed(why)
            });
        }
        Ok(this)
    }

    fn parse_v3(&mut self) -> Option<()> {
        let fixed: &[u8; 19] = self.body.first_chunk()?;
        let &[_, _, class, a, b, c, d, ref id @ .., algorithm, digest, _, _] = fixed;
        (self.class, self.algorithm, self.digest) = (class, algorithm, digest);
        self.created = u32::from_be_bytes([a, b, c, d]);
        self.key_id = id.iter().fold(0, |all, &byte| all << 8 | u64::from(byte));
        self.prefix = 17;
        Some(())
    }

    fn parse_v4(
        &mut self,
        short: impl Fn() -> Unreadable,
        is_truncated: bool,
    ) -> Result<(), Unreadable> {
        // Bits that are set behind the end of the input make an area too long for the packet.
        let cut = || Unreadable::Malformed("packet(2) too short".to_owned());
        let &[_, class, algorithm, digest, ..] = &self.body[..] else { return Err(cut()) };
        (self.class, self.algorithm, self.digest) = (class, algorithm, digest);
        let area = |from: usize, name: &'static str| {
            let length = self.body.get(from..from + 2).ok_or_else(cut)?;
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            if length > AREA_BYTES_MAX {
                let why = format!("signature packet: {name} data too long");
                return Err(Unreadable::Malformed(why));
            }
            let area = from + 2..from + 2 + length;
            match self.body.len() < area.end {
                true if is_truncated => Err(Unreadable::Ended(name)),
                true => Err(short()),
                false => Ok(area),
            }
        };
        let hashed = area(4, "hashed")?;
        let unhashed = area(hashed.end, "unhashed")?;
        self.prefix = unhashed.end;
        if self.body.len() < self.prefix + 2 {
            return Err(short());
        }
        let (in_hashed, in_unhashed) = (&self.body[hashed.clone()], &self.body[unhashed.clone()]);
        let number = |body: &[u8]| body.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let created = find(in_hashed, subpacket::CREATED).and_then(number).unwrap_or(0);
        let lasts = find(in_hashed, subpacket::EXPIRES).and_then(number).unwrap_or(0);
        let named = find(in_hashed, subpacket::ISSUER)
            .and_then(|body| body.first_chunk())
            .or_else(|| find(in_unhashed, subpacket::ISSUER)?.first_chunk());
        let fingerprint = match find(in_hashed, subpacket::FINGERPRINT) {
            Some([4, rest @ ..]) => rest.try_into().ok(),
            _ => None,
        };
        let signer = find(in_hashed, subpacket::SIGNER).filter(|body| !body.is_empty());
        let signer = signer.map(printable).map(|text| mailbox(&text).unwrap_or(text));
        let has_unknown = !(is_understood(in_hashed) && is_understood(in_unhashed));
        self.key_id = named.map_or(0, |id| u64::from_be_bytes(*id));
        (self.fingerprint, self.signer, self.has_unknown_critical) =
            (fingerprint, signer, has_unknown);
        self.created = created;
        if lasts != 0 {
            self.expires = created.wrapping_add(lasts);
        }
        (self.hashed, self.unhashed) = (hashed, unhashed);
        Ok(())
    }

    /// The hashed subpackets of a type, up to the first that does not fit.
    pub(crate) fn hashed(&self, kind: u8) -> impl Iterator<Item = Subpacket<'_>> {
        let area = self.body.get(self.hashed.clone()).unwrap_or_default();
        Subpackets(area).map_while(|subpacket| subpacket).filter(move |found| found.kind == kind)
    }

    /// The bodies of the signatures within this one, those of the hashed area first.
    pub(crate) fn embedded(&self) -> impl Iterator<Item = &[u8]> {
        [&self.hashed, &self.unhashed].into_iter().flat_map(|place| {
            let area = self.body.get(place.clone()).unwrap_or_default();
            let subpackets = Subpackets(area).map_while(|subpacket| subpacket);
            subpackets.filter(|found| found.kind == subpacket::EMBEDDED).map(|found| found.body)
        })
    }

    /// GnuPG's texts about subpackets that are too short for their type. It counts each as an error.
    pub(crate) fn flaws(&self) -> Vec<String> {
        let areas = [&self.hashed, &self.unhashed].map(|place| self.body.get(place.clone()));
        let mut flaws = Vec::new();
        for (number, area) in areas.into_iter().enumerate() {
            let mut seen = [false; 128];
            for found in Subpackets(area.unwrap_or_default()).map_while(|subpacket| subpacket) {
                // Of each type GnuPG reads the first, and of the second area only some types.
                let is_read = number == 0 || matches!(found.kind, 4 | 16 | 32);
                let is_first = !std::mem::replace(&mut seen[usize::from(found.kind)], true);
                if is_read && is_first && is_short(found.kind, found.body) {
                    flaws.push(format!("subpacket of type {} too short", found.kind));
                }
            }
        }
        flaws
    }

    /// Whether the signature has expired at a time, in seconds since 1970.
    pub(crate) fn has_expired(&self, now: u32) -> bool {
        self.expires != 0 && self.expires <= now
    }

    /// The numbers of the signature, without leading zeros.
    pub(crate) fn numbers(&self) -> Vec<&[u8]> {
        let rest = self.body.get(self.prefix + 2..).unwrap_or_default();
        split_numbers(rest, algorithm::numbers(self.algorithm)).unwrap_or_default()
    }

    /// The body of the packet with other first 16 bits of the digest. GnuPG does not look at them.
    pub(crate) fn with_prefix(&self, digest: &[u8]) -> Vec<u8> {
        let mut body = self.body.clone();
        let place = body.get_mut(self.prefix..self.prefix + 2);
        if let (Some(place), Some(prefix)) = (place, digest.get(..2)) {
            place.copy_from_slice(prefix);
        }
        body
    }
}

/// Whether a subpacket is too short for its type, or has another wrong length.
fn is_short(kind: u8, body: &[u8]) -> bool {
    let length = body.len();
    match kind {
        2 | 3 | 9 => length < 4,
        4 | 7 | 29 | 32 => length == 0,
        5 => length != 2,
        12 => length < 22,
        16 => length < 8,
        20 => Notation::parse(body, false).is_none(),
        25 => length != 1,
        33 => length < 21,
        38 => body.first() == Some(&0) && length < 50,
        _ => false,
    }
}

/// The first subpacket of a type. Behind one that does not fit, nothing is found.
fn find(area: &[u8], kind: u8) -> Option<&[u8]> {
    let mut subpackets = Subpackets(area).map_while(|subpacket| subpacket);
    subpackets.find(|found| found.kind == kind).map(|found| found.body)
}

/// Whether GnuPG 2.2 understands all critical subpackets of an area.
fn is_understood(area: &[u8]) -> bool {
    Subpackets(area).all(|subpacket| {
        subpacket.is_some_and(|Subpacket { kind, critical, body }| {
            !critical
                || match kind {
                    2..=7 | 9 | 11 | 12 | 16 | 21 | 22 | 24..=27 | 29 | 30 | 32 | 33 => true,
                    subpacket::NOTATION => Notation::parse(body, true).is_some_and(|notation| {
                        talaria_cert::KNOWN_NOTATIONS
                            .iter()
                            .any(|known| known.as_bytes() == notation.name)
                    }),
                    subpacket::KEY_BLOCK => body.first() == Some(&0),
                    _ => false,
                }
        })
    })
}

/// The first `count` numbers, without leading zeros. The error is GnuPG's text about a number that
/// is too long or does not fit.
fn split_numbers(mut rest: &[u8], count: usize) -> Result<Vec<&[u8]>, String> {
    let mut numbers = Vec::with_capacity(count);
    for _ in 0..count {
        let too_long = || format!("mpi larger than indicated length ({} bits)", 8 * rest.len());
        let (bits, behind) = rest.split_first_chunk::<2>().ok_or_else(too_long)?;
        let bits = usize::from(u16::from_be_bytes(*bits));
        if bits > NUMBER_BITS_MAX {
            return Err(format!("mpi too large ({bits} bits)"));
        }
        let split = behind.split_at_checked(bits.div_ceil(8));
        let (number, behind) = split.ok_or_else(too_long)?;
        let zeros = number.iter().take_while(|&&byte| byte == 0).count();
        numbers.push(&number[zeros..]);
        rest = behind;
    }
    Ok(numbers)
}

/// A notation (RFC 9580, section 5.2.3.24).
pub(crate) struct Notation<'a> {
    /// The name.
    pub(crate) name: &'a [u8],
    /// The value.
    pub(crate) value: &'a [u8],
    /// The value is text.
    pub(crate) is_text: bool,
    /// A reader that does not know it must reject the signature.
    pub(crate) critical: bool,
}

impl<'a> Notation<'a> {
    /// Reads the body of a subpacket.
    pub(crate) fn parse(body: &'a [u8], critical: bool) -> Option<Self> {
        let (flags, rest) = body.split_first_chunk::<4>()?;
        let (name, rest) = rest.split_first_chunk::<2>()?;
        let (value, rest) = rest.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*name)))?;
        let is_whole = rest.len() == usize::from(u16::from_be_bytes(*value));
        let is_text = flags[0] & 0x80 != 0;
        is_whole.then_some(Self { name, value: rest, is_text, critical })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_read() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let mut body: Vec<u8> = (0..random.usize(0..60)).map(|_| random.u8(..)).collect();
            if let Some(first) = body.first_mut() {
                *first = random.u8(2..6);
            }
            if let Some(length) = body.get_mut(4) {
                *length = 0;
            }
            let is_truncated = random.bool();
            if let Ok(signature) = SignaturePacket::parse(body, is_truncated) {
                signature.numbers();
                signature.with_prefix(&[1, 2]);
                (0..40).for_each(|kind| assert!(signature.hashed(kind).count() < 60));
            }
        }
    }

    #[test]
    fn an_unknown_critical_subpacket_is_noticed() {
        for (area, wanted) in [
            (&[][..], true),
            (&[2, 100, 0], true),
            (&[2, 0xe4, 0], false),
            (&[2, 0x9c, b'x'], false),
            (&[5, 0x82, 0, 0, 0, 0], true),
            (&[9, 2, 0], false),
        ] {
            assert_eq!(is_understood(area), wanted, "{area:?}");
        }
    }
}
