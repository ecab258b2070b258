//! Signatures of entries: templates from which the whole OpenPGP packet is made again.
//!
//! Everything in the packet of an Ed25519 signature except time, salt and 64 bytes follows from the
//! key and the log. So only these are stored. Other signatures are stored whole.

use talaria_cert::{HashValue, Hasher, Job, LOG_NOTATION, Signature, Tag, first_packet};

use crate::bytes::{Fields, Malformed, write_part};
use crate::certificate::MemberKey;
use crate::name::{EntryId, KeyName};

/// Longest signature packet that is stored whole, in bytes.
pub const PACKET_BYTES_MAX: usize = 4096;

/// The signature of an entry or a statement, as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredSignature(Form);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Form {
    /// Templates 1 and 2: version 4 with algorithm 22 or 27.
    V4 { algorithm: u8, created: u32, signed: [u8; 64] },
    /// Template 3: version 6 with algorithm 27.
    V6 { created: u32, salt: [u8; 16], signed: [u8; 64] },
    /// Template 0: a whole packet.
    Whole(Vec<u8>),
}

/// The reason why a signature proves nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadSignature {
    /// A packet is not the signature of an entry of this log: it has another type, or other
    /// subpackets than the format says.
    #[error("it is not a signature on an entry of this log")]
    NotOfLog,
    /// The template, or the algorithm in the packet, is not that of the key.
    #[error("it does not fit the key")]
    OtherKind,
    /// The key did not make it over these bytes.
    #[error("the key did not sign these bytes")]
    Forged,
}

/// The state of a check: done, or waiting for the arithmetic of Ed25519.
pub(crate) enum Check {
    Good,
    Deferred(Box<Job>),
}

impl StoredSignature {
    /// The shortest form of a signature packet by the key `signer` for the log `log`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the packet is no signature, or a too long one.
    pub fn of_packet(packet: &[u8], signer: KeyName, log: EntryId) -> Result<Self, Malformed> {
        const WRONG: Malformed = Malformed::Field("signature packet");
        let found = first_packet(packet).filter(|found| found.tag == Tag::SIGNATURE);
        let signature = found.and_then(|found| Signature::parse(found.body)).ok_or(WRONG)?;
        if packet.len() > PACKET_BYTES_MAX {
            return Err(Malformed::Limit {
                what: "signature packet",
                found: packet.len() as u64,
                limit: PACKET_BYTES_MAX as u64,
            });
        }
        let whole = Self(Form::Whole(packet.to_vec()));
        let Some(signed) = last_64(&signature, packet) else { return Ok(whole) };
        let created = signature.created;
        let form = match (signature.version, signature.algorithm) {
            (4, algorithm @ (22 | 27)) => Form::V4 { algorithm, created, signed },
            (6, 27) => match signature.salt.try_into() {
                Ok(salt) => Form::V6 { created, salt, signed },
                Err(_) => return Ok(whole),
            },
            _ => return Ok(whole),
        };
        // The digest prefix is that of the packet: the bytes that are signed are not known here.
        let body = &found.ok_or(WRONG)?.body;
        let short = Self(form);
        let again = short.body(signer, log, digest_prefix(&signature, body).unwrap_or_default());
        Ok(if again.as_deref() == Some(body) { short } else { whole })
    }

    /// The whole signature packet over `bytes`.
    #[must_use]
    pub fn to_packet(&self, bytes: &[u8], signer: KeyName, log: EntryId) -> Vec<u8> {
        if let Form::Whole(packet) = &self.0 {
            return packet.clone();
        }
        let prefix = self.digest(bytes, signer, log).map(|digest| {
            let digest = digest.as_bytes();
            [digest[0], digest[1]]
        });
        let body = self.body(signer, log, prefix.unwrap_or_default()).unwrap_or_default();
        let mut packet = vec![0xc0 | Tag::SIGNATURE.0];
        if let Ok(short @ 0..192) = u8::try_from(body.len()) {
            packet.push(short);
        } else {
            let length = u16::try_from(body.len() - 192).unwrap_or(u16::MAX);
            let [high, low] = length.to_be_bytes();
            packet.extend([high + 192, low]);
        }
        packet.extend(body);
        packet
    }

    /// The creation time that the signature claims, in seconds since 1970.
    #[must_use]
    pub fn created(&self) -> u32 {
        match &self.0 {
            Form::V4 { created, .. } | Form::V6 { created, .. } => *created,
            Form::Whole(packet) => first_packet(packet)
                .and_then(|packet| Signature::parse(packet.body))
                .map_or(0, |signature| signature.created),
        }
    }

    /// The version of the signature packet.
    #[must_use]
    pub fn version(&self) -> u8 {
        match &self.0 {
            Form::V4 { .. } => 4,
            Form::V6 { .. } => 6,
            Form::Whole(packet) => first_packet(packet)
                .and_then(|packet| packet.body.first().copied())
                .unwrap_or_default(),
        }
    }

    /// Checks that `key` made the signature over `bytes` for `log`. The arithmetic of Ed25519 is
    /// left to the caller, who may do many at once.
    pub(crate) fn check(
        &self,
        bytes: &[u8],
        key: &MemberKey,
        log: EntryId,
    ) -> Result<Check, BadSignature> {
        let signed = match &self.0 {
            Form::V4 { algorithm, signed, .. } if *algorithm == key.algorithm => signed,
            Form::V6 { signed, .. } if key.algorithm == 27 && key.name.version() == 6 => signed,
            Form::V4 { .. } | Form::V6 { .. } => return Err(BadSignature::OtherKind),
            Form::Whole(packet) => return check_whole(packet, bytes, key, log),
        };
        if matches!(self.0, Form::V4 { .. }) && key.name.version() != 4 {
            return Err(BadSignature::OtherKind);
        }
        let ed25519 = key.ed25519.as_ref().ok_or(BadSignature::OtherKind)?;
        let digest = self.digest(bytes, key.name, log).ok_or(BadSignature::OtherKind)?;
        Ok(Check::Deferred(Box::new(ed25519.job(*signed, digest))))
    }

    /// The digest that a template signs.
    fn digest(&self, bytes: &[u8], signer: KeyName, log: EntryId) -> Option<HashValue> {
        let mut hasher = Hasher::new(SHA256)?;
        if let Form::V6 { salt, .. } = &self.0 {
            hasher.update(salt);
        }
        hasher.update(bytes);
        let hashed = self.hashed(signer, log)?;
        hasher.update(&hashed);
        hasher.update(&[hashed[0], 0xff]);
        hasher.update(&u32::try_from(hashed.len()).ok()?.to_be_bytes());
        hasher.finish()
    }

    /// The hashed part of the packet: from the version to the end of the hashed area.
    fn hashed(&self, signer: KeyName, log: EntryId) -> Option<Vec<u8>> {
        let (version, algorithm, created) = match &self.0 {
            Form::V4 { algorithm, created, .. } => (4, *algorithm, *created),
            Form::V6 { created, .. } => (6, 27, *created),
            Form::Whole(_) => return None,
        };
        let area = hashed_area(created, signer, log);
        let mut out = vec![version, BINARY, algorithm, SHA256];
        write_part(&mut out, if version == 6 { 4 } else { 2 }, &area);
        Some(out)
    }

    /// The body of the packet.
    fn body(&self, signer: KeyName, log: EntryId, prefix: [u8; 2]) -> Option<Vec<u8>> {
        let mut body = self.hashed(signer, log)?;
        match &self.0 {
            Form::V4 { algorithm, signed, .. } => {
                let id = signer.fingerprint().key_id().0.to_be_bytes();
                body.extend([0, 10, 9, 16]);
                body.extend(id);
                body.extend(prefix);
                if *algorithm == 27 {
                    body.extend(signed);
                } else {
                    signed.chunks(32).for_each(|number| write_mpi(&mut body, number));
                }
            }
            Form::V6 { salt, signed, .. } => {
                body.extend([0; 4]);
                body.extend(prefix);
                write_part(&mut body, 1, salt);
                body.extend(signed);
            }
            Form::Whole(_) => return None,
        }
        Some(body)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Form::V4 { algorithm, created, signed } => {
                out.push(if *algorithm == 22 { 1 } else { 2 });
                out.extend(created.to_be_bytes());
                out.extend(signed);
            }
            Form::V6 { created, salt, signed } => {
                out.push(3);
                out.extend(created.to_be_bytes());
                out.extend(salt);
                out.extend(signed);
            }
            Form::Whole(packet) => {
                out.push(0);
                write_part(out, 2, packet);
            }
        }
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let template = fields.u8()?;
        Ok(Self(match template {
            0 => {
                let packet = fields.part(2, PACKET_BYTES_MAX, "signature packet")?;
                let is_one = first_packet(packet).is_some_and(|found| {
                    found.tag == Tag::SIGNATURE && packet.ends_with(found.body)
                });
                if !is_one {
                    return Err(Malformed::Field("signature packet"));
                }
                Form::Whole(packet.to_vec())
            }
            1 | 2 => {
                let algorithm = if template == 1 { 22 } else { 27 };
                Form::V4 { algorithm, created: fields.u32()?, signed: fields.array()? }
            }
            3 => {
                Form::V6 { created: fields.u32()?, salt: fields.array()?, signed: fields.array()? }
            }
            _ => return Err(Malformed::Field("template")),
        }))
    }
}

const SHA256: u8 = 8;
/// Type of a signature on binary data (RFC 9580, section 5.2.1.1).
const BINARY: u8 = 0;

/// The hashed area of the signature of an entry: time, issuer and the notation that names the log.
fn hashed_area(created: u32, signer: KeyName, log: EntryId) -> Vec<u8> {
    let fingerprint = signer.fingerprint();
    let name = LOG_NOTATION.as_bytes();
    let mut area = vec![5, 0x82];
    area.extend(created.to_be_bytes());
    let mut issuer = vec![33, signer.version()];
    issuer.extend_from_slice(fingerprint.as_bytes());
    write_part(&mut area, 1, &issuer);
    let mut notation = vec![20, 0, 0, 0, 0];
    notation.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
    notation.extend([0, 32]);
    notation.extend_from_slice(name);
    notation.extend(log.0);
    write_part(&mut area, 1, &notation);
    area
}

/// Checks a signature that is stored whole.
fn check_whole(
    packet: &[u8],
    bytes: &[u8],
    key: &MemberKey,
    log: EntryId,
) -> Result<Check, BadSignature> {
    let body = first_packet(packet).filter(|packet| packet.tag == Tag::SIGNATURE);
    let signature = body.and_then(|packet| Signature::parse(packet.body));
    let signature = signature.ok_or(BadSignature::NotOfLog)?;
    let area = hashed_area(signature.created, key.name, log);
    if signature.kind != BINARY
        || !matches!(signature.hash, 8..=10)
        || signature.version != key.name.version()
        || signature.hashed_area() != area
    {
        return Err(BadSignature::NotOfLog);
    }
    let mut hasher = Hasher::new(signature.hash).ok_or(BadSignature::OtherKind)?;
    hasher.update(signature.salt);
    hasher.update(bytes);
    let digest = signature.digest(hasher).ok_or(BadSignature::OtherKind)?;
    if key.made(&signature, &digest) { Ok(Check::Good) } else { Err(BadSignature::Forged) }
}

/// R and S of an Ed25519 signature, in 32 bytes each.
fn last_64(signature: &Signature<'_>, packet: &[u8]) -> Option<[u8; 64]> {
    if signature.algorithm == 27 {
        return packet.last_chunk::<64>().copied();
    }
    let numbers = numbers_of(packet)?;
    let mut signed = [0; 64];
    let mut fields = Fields(numbers);
    for half in signed.chunks_mut(32) {
        let bits = usize::from(fields.u16().ok()?);
        let number = fields.take(bits.div_ceil(8)).ok()?;
        let start = half.len().checked_sub(number.len())?;
        half[start..].copy_from_slice(number);
    }
    fields.end().ok()?;
    Some(signed)
}

/// The numbers at the end of a version 4 signature packet.
fn numbers_of(packet: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields(first_packet(packet)?.body);
    fields.take(4).ok()?;
    fields.part(2, PACKET_BYTES_MAX, "hashed area").ok()?;
    fields.part(2, PACKET_BYTES_MAX, "unhashed area").ok()?;
    fields.take(2).ok()?;
    Some(fields.0)
}

/// The two bytes of the digest in a packet.
fn digest_prefix(signature: &Signature<'_>, body: &[u8]) -> Option<[u8; 2]> {
    let wide = if signature.version == 6 { 4 } else { 2 };
    let mut fields = Fields(body);
    fields.take(4).ok()?;
    fields.part(wide, PACKET_BYTES_MAX, "hashed area").ok()?;
    fields.part(wide, PACKET_BYTES_MAX, "unhashed area").ok()?;
    fields.array().ok()
}

fn write_mpi(out: &mut Vec<u8>, number: &[u8]) {
    let start = number.iter().position(|&byte| byte != 0).unwrap_or(number.len());
    let number = &number[start..];
    let bits = number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize);
    out.extend(u16::try_from(bits).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(number);
}
