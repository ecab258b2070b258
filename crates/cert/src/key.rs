//! Public key packets (RFC 9580, section 5.5.2): names, sizes and times of keys. No arithmetic is
//! done here.

use crate::domain;
use crate::error::Reason;
use crate::fields::Fields;
use crate::fingerprint::{Fingerprint, KeyId, Keygrip};
use crate::hash::{md5, sha1, sha256};
use crate::packet::PacketRef;
use crate::tag::Tag;

/// The longest public part of a key up to version 4, in bytes, because signatures hash its length
/// as two bytes.
///
/// Nobody can make a signature over a longer key, so nobody can bind it to a certificate.
pub const KEY_BYTES_MAX: usize = 0xffff;

/// A primary key or subkey, read from its packet.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The public part of the packet body.
    pub(crate) body: &'a [u8],
    /// 3, 4, 5 or 6.
    pub version: u8,
    /// Seconds since 1970.
    pub created: u32,
    /// Days until the key expires, version 3 only, 0 for never.
    pub days_valid: u16,
    /// Public-key algorithm (RFC 9580, section 9.1).
    pub algorithm: u8,
    pub(crate) material: Material<'a>,
}

/// Whether an algorithm is Elgamal.
pub(crate) fn is_elgamal(algorithm: u8) -> bool {
    matches!(algorithm, 16 | 20)
}

/// The fewest bits of a key whose strength depends on their number.
const BITS_MIN: u16 = 2048;

/// Whether a key with a strength that depends on its number of bits has too few.
pub(crate) fn is_short(algorithm: u8, bits: u16) -> bool {
    matches!(algorithm, 1..=3 | 16 | 17 | 20) && bits < BITS_MIN
}

/// Whether this program knows an algorithm, and its curve if it has one.
pub(crate) fn has_known_algorithm(algorithm: u8, curve: Option<Curve>) -> bool {
    match algorithm {
        1..=3 | 16 | 17 | 20 | 25..=28 => true,
        18 | 19 | 22 => curve.is_some(),
        _ => false,
    }
}

/// Whether all versions of GnuPG in use know a primary key of this kind.
///
/// Behind any other, GnuPG reads nothing: 2.2 knows no version after 4, and 2.4 not version 6.
/// Version 2.4 also ends an import at a primary key whose algorithm or curve it cannot store, such
/// as Ed25519 of RFC 9580 in version 4. (Subkeys may have any.)
pub(crate) fn is_known_to_gnupg(version: u8, algorithm: u8, curve: Option<Curve>) -> bool {
    version <= 4 && !matches!(algorithm, 25..=28) && has_known_algorithm(algorithm, curve)
}

/// The public numbers of a key. MPIs are big-endian, without their length prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Material<'a> {
    Rsa {
        n: &'a [u8],
        e: &'a [u8],
    },
    Dsa {
        p: &'a [u8],
        q: &'a [u8],
        g: &'a [u8],
        y: &'a [u8],
    },
    Elgamal {
        p: &'a [u8],
        g: &'a [u8],
        y: &'a [u8],
    },
    Ec {
        curve: Option<Curve>,
        point: &'a [u8],
    },
    /// A fixed-length octet string (X25519, Ed25519, ...).
    Native(&'a [u8]),
    /// An unknown algorithm: the key is kept and listed, but not used.
    Opaque,
}

impl<'a> Key<'a> {
    /// Reads a public or secret key packet. Only the public part of a secret key is read.
    ///
    /// # Errors
    ///
    /// [`Reason::KeyVersion`], [`Reason::MalformedKey`], [`Reason::OversizedKey`] or
    /// [`Reason::SecretKey`].
    pub fn parse(packet: PacketRef<'a>) -> Result<Self, Reason> {
        let key = Self::parse_any_size(packet)?;
        // `Cert::parse` refuses an oversized primary key with its certificate. A store of an
        // earlier release may have such a key, and must stay readable.
        if matches!(packet.tag, Tag::PUBLIC_SUBKEY | Tag::SECRET_SUBKEY) {
            key.check_size()?;
        }
        Ok(key)
    }

    /// Refuses a key that no signature can cover, and that can make no signature that counts.
    pub(crate) fn check_size(&self) -> Result<(), Reason> {
        if self.version < 5 && self.body.len() > KEY_BYTES_MAX {
            return Err(Reason::OversizedKey { bytes: self.body.len() });
        }
        Ok(())
    }

    fn parse_any_size(packet: PacketRef<'a>) -> Result<Self, Reason> {
        let body = packet.body;
        let secret = matches!(packet.tag, Tag::SECRET_KEY | Tag::SECRET_SUBKEY);
        let &[version, a, b, c, d, ref rest @ ..] = body else {
            return Err(Reason::MalformedKey);
        };
        if !(2..=6).contains(&version) {
            return Err(Reason::KeyVersion { version });
        }
        let created = u32::from_be_bytes([a, b, c, d]);
        let mut fields = Fields(rest);
        let malformed = || Reason::MalformedKey;
        let mut days_valid = 0;
        if version < 4 {
            let days = fields.take(2).ok_or_else(malformed)?;
            days_valid = u16::from_be_bytes([days[0], days[1]]);
        }
        let algorithm = fields.byte().ok_or_else(malformed)?;
        let version = version.max(3);
        let material = if version >= 5 {
            let len = fields.take(4).ok_or_else(malformed)?;
            let len = u32::from_be_bytes([len[0], len[1], len[2], len[3]]) as usize;
            let material = fields.take(len).ok_or_else(malformed)?;
            Material::parse(algorithm, &mut Fields(material)).ok_or_else(malformed)?
        } else {
            Material::parse(algorithm, &mut fields).ok_or_else(malformed)?
        };
        if version == 3 && !matches!(material, Material::Rsa { .. }) {
            return Err(Reason::MalformedKey);
        }
        let body = match (material, secret) {
            (_, false) => body,
            (Material::Opaque, true) if version < 5 => {
                return Err(Reason::SecretKey { algorithm });
            }
            (_, true) => &body[..body.len() - fields.0.len()],
        };
        Ok(Self { body, version, created, days_valid, algorithm, material })
    }

    /// Whether this program knows the algorithm, and the curve if it has one. It cannot check
    /// signatures of other keys.
    #[must_use]
    pub fn has_known_algorithm(&self) -> bool {
        has_known_algorithm(self.algorithm, self.curve())
    }

    /// Whether all versions of GnuPG in use know a primary key of this kind. Behind any other, they
    /// read nothing.
    #[must_use]
    pub fn is_known_to_gnupg(&self) -> bool {
        is_known_to_gnupg(self.version, self.algorithm, self.curve())
    }

    /// The fingerprint (RFC 9580, section 5.5.4).
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let (prefix, len) = self.hash_prefix();
        match (self.version, self.material) {
            (3, Material::Rsa { n, e }) => {
                let id =
                    n[n.len().saturating_sub(8)..].iter().fold(0, |a, &b| a << 8 | u64::from(b));
                Fingerprint::V3(md5([n, e]), KeyId(id))
            }
            (5, _) => Fingerprint::V5(sha256(&[&prefix[..len], self.body])),
            (6, _) => Fingerprint::V6(sha256(&[&prefix[..len], self.body])),
            _ => Fingerprint::V4(sha1(&[&prefix[..len], self.body])),
        }
    }

    /// The bytes that go before the body wherever a key is hashed: a constant and the length.
    #[expect(clippy::cast_possible_truncation, reason = "a packet body is at most 16 MiB")]
    pub(crate) fn hash_prefix(&self) -> ([u8; 5], usize) {
        let len = (self.body.len() as u32).to_be_bytes();
        match self.version {
            5 => ([0x9a, len[0], len[1], len[2], len[3]], 5),
            6 => ([0x9b, len[0], len[1], len[2], len[3]], 5),
            _ => ([0x99, len[2], len[3], 0, 0], 3),
        }
    }

    /// The usual key size: bits of the modulus or of the curve, 0 if unknown.
    #[must_use]
    pub fn bits(&self) -> u16 {
        match self.material {
            Material::Rsa { n: number, .. }
            | Material::Dsa { p: number, .. }
            | Material::Elgamal { p: number, .. } => {
                let top = number.first().map_or(0, |b| b.leading_zeros() as usize);
                u16::try_from(number.len() * 8 - top).unwrap_or(u16::MAX)
            }
            Material::Ec { .. } | Material::Native(_) => self.curve().map_or(0, Curve::bits),
            Material::Opaque => 0,
        }
    }

    /// The curve, for algorithms that have one.
    #[must_use]
    pub fn curve(&self) -> Option<Curve> {
        match (self.material, self.algorithm) {
            (Material::Ec { curve, .. }, _) => curve,
            (Material::Native(_), 25) => Some(Curve::Cv25519),
            (Material::Native(_), 26) => Some(Curve::X448),
            (Material::Native(_), 27) => Some(Curve::Ed25519),
            (Material::Native(_), 28) => Some(Curve::Ed448),
            _ => None,
        }
    }

    /// The keygrip. `None` for algorithms or curves that libgcrypt does not have.
    #[must_use]
    pub fn keygrip(&self) -> Option<Keygrip> {
        // Libgcrypt hashes a number in its standard form: with a sign byte if the high bit is set.
        let sign = |n: &[u8]| -> &'static [u8] {
            if n.first().is_some_and(|b| b & 0x80 != 0) { &[0] } else { &[] }
        };
        let named = |numbers: &[(char, &[u8])]| {
            let mut all = Vec::with_capacity(1024);
            for (name, number) in numbers {
                let sign = sign(number);
                all.extend_from_slice(
                    format!("(1:{name}{}:", sign.len() + number.len()).as_bytes(),
                );
                all.extend_from_slice(sign);
                all.extend_from_slice(number);
                all.push(b')');
            }
            sha1(&[&all])
        };
        Some(Keygrip(match self.material {
            Material::Rsa { n, .. } => sha1(&[sign(n), n]),
            Material::Dsa { p, q, g, y } => named(&[('p', p), ('q', q), ('g', g), ('y', y)]),
            Material::Elgamal { p, g, y } => named(&[('p', p), ('g', g), ('y', y)]),
            Material::Ec { curve: Some(curve), point } => curve.keygrip(point)?,
            Material::Native(point) => self.curve()?.keygrip(point)?,
            Material::Ec { curve: None, .. } | Material::Opaque => return None,
        }))
    }
}

impl<'a> Material<'a> {
    fn parse(algorithm: u8, fields: &mut Fields<'a>) -> Option<Self> {
        Some(match algorithm {
            1..=3 => Self::Rsa { n: fields.mpi()?, e: fields.mpi()? },
            16 | 20 => Self::Elgamal { p: fields.mpi()?, g: fields.mpi()?, y: fields.mpi()? },
            17 => {
                Self::Dsa { p: fields.mpi()?, q: fields.mpi()?, g: fields.mpi()?, y: fields.mpi()? }
            }
            18 | 19 | 22 => {
                let len = fields.byte()?;
                let curve = Curve::from_oid(fields.take(usize::from(len))?);
                let point = fields.mpi()?;
                if algorithm == 18 {
                    let kdf = fields.byte()?;
                    fields.take(usize::from(kdf))?;
                }
                Self::Ec { curve, point }
            }
            25 | 27 => Self::Native(fields.take(32)?),
            26 => Self::Native(fields.take(56)?),
            28 => Self::Native(fields.take(57)?),
            _ => Self::Opaque,
        })
    }
}

/// An elliptic curve (RFC 9580, section 9.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Curve {
    NistP256 = 1,
    NistP384 = 2,
    NistP521 = 3,
    BrainpoolP256 = 4,
    BrainpoolP384 = 5,
    BrainpoolP512 = 6,
    Secp256k1 = 7,
    Ed25519 = 8,
    Cv25519 = 9,
    Ed448 = 10,
    X448 = 11,
}

impl Curve {
    const ALL: [Self; 11] = [
        Self::NistP256,
        Self::NistP384,
        Self::NistP521,
        Self::BrainpoolP256,
        Self::BrainpoolP384,
        Self::BrainpoolP512,
        Self::Secp256k1,
        Self::Ed25519,
        Self::Cv25519,
        Self::Ed448,
        Self::X448,
    ];

    /// The curve with a number, as given by casting [`Self`] to `u8`.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }

    pub(crate) fn from_oid(oid: &[u8]) -> Option<Self> {
        Some(match oid {
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07] => Self::NistP256,
            [0x2b, 0x81, 0x04, 0x00, 0x22] => Self::NistP384,
            [0x2b, 0x81, 0x04, 0x00, 0x23] => Self::NistP521,
            [0x2b, 0x81, 0x04, 0x00, 0x0a] => Self::Secp256k1,
            [0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x07] => Self::BrainpoolP256,
            [0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x0b] => Self::BrainpoolP384,
            [0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x0d] => Self::BrainpoolP512,
            [0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01] | [0x2b, 0x65, 0x70] => {
                Self::Ed25519
            }
            [0x2b, 0x06, 0x01, 0x04, 0x01, 0x97, 0x55, 0x01, 0x05, 0x01] | [0x2b, 0x65, 0x6e] => {
                Self::Cv25519
            }
            [0x2b, 0x65, 0x71] => Self::Ed448,
            [0x2b, 0x65, 0x6f] => Self::X448,
            _ => return None,
        })
    }

    /// GnuPG's name of the curve.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NistP256 => "nistp256",
            Self::NistP384 => "nistp384",
            Self::NistP521 => "nistp521",
            Self::BrainpoolP256 => "brainpoolP256r1",
            Self::BrainpoolP384 => "brainpoolP384r1",
            Self::BrainpoolP512 => "brainpoolP512r1",
            Self::Secp256k1 => "secp256k1",
            Self::Ed25519 => "ed25519",
            Self::Cv25519 => "cv25519",
            Self::Ed448 => "ed448",
            Self::X448 => "cv448",
        }
    }

    /// The size of the curve in bits, as GnuPG gives it.
    #[must_use]
    pub fn bits(self) -> u16 {
        match self {
            Self::NistP256 | Self::BrainpoolP256 | Self::Secp256k1 => 256,
            Self::NistP384 | Self::BrainpoolP384 => 384,
            Self::NistP521 => 521,
            Self::BrainpoolP512 => 512,
            Self::Ed25519 | Self::Cv25519 => 255,
            Self::Ed448 => 441,
            Self::X448 => 448,
        }
    }

    /// The keygrip of a point: the curve's parameters in libgcrypt's notation, then the point.
    ///
    /// The two halves of the domain parameters are taken from the standards that define the curves
    /// (FIPS 186-4, RFC 5639, SEC 2, RFC 7748, RFC 8032).
    fn keygrip(self, point: &[u8]) -> Option<[u8; 20]> {
        let parameters = self.parameters()?;
        // Points of the 25519 curves have a prefix byte in version 4 keys.
        let point = match self {
            Self::Ed25519 | Self::Cv25519 if point.len() == 33 && point[0] == 0x40 => &point[1..],
            _ => point,
        };
        let mut all = Vec::with_capacity(640);
        for (name, hex) in ["p", "a", "b", "g", "n"].iter().zip(parameters) {
            all.extend_from_slice(format!("(1:{name}{}:", hex.len() / 2).as_bytes());
            all.extend(hex.as_bytes().chunks_exact(2).map(|pair| {
                let digit = |c: u8| if c.is_ascii_digit() { c - b'0' } else { c - b'a' + 10 };
                digit(pair[0]) << 4 | digit(pair[1])
            }));
            all.push(b')');
        }
        all.extend_from_slice(format!("(1:q{}:", point.len()).as_bytes());
        all.extend_from_slice(point);
        all.push(b')');
        Some(sha1(&[&all]))
    }
}

impl Curve {
    /// The domain parameters. `None` where libgcrypt has no such curve or the keygrip was never
    /// compared with libgcrypt's.
    fn parameters(self) -> Option<domain::Parameters> {
        Some(match self {
            Self::NistP256 => domain::NIST_P256,
            Self::NistP384 => domain::NIST_P384,
            Self::NistP521 => domain::NIST_P521,
            Self::BrainpoolP256 => domain::BRAINPOOL_P256,
            Self::BrainpoolP384 => domain::BRAINPOOL_P384,
            Self::BrainpoolP512 => domain::BRAINPOOL_P512,
            Self::Secp256k1 => domain::SECP256K1,
            Self::Ed25519 => domain::ED25519,
            Self::Cv25519 => domain::CV25519,
            Self::Ed448 | Self::X448 => return None,
        })
    }
}
