//! Signature packets (RFC 9580, section 5.2), read without any arithmetic.

use crate::fingerprint::{Fingerprint, KeyId};
use crate::hash::{HashValue, Hasher};

/// Signature types (RFC 9580, section 5.2.1) that occur in certificates.
pub mod kind {
    /// The four certifications of a user ID: generic, persona, casual, positive.
    pub const CERTIFICATION: std::ops::RangeInclusive<u8> = 0x10..=0x13;
    /// The owner's choice of signatures of other keys on a user ID (draft-dkg-openpgp-1pa3pc). It
    /// does not bind the user ID.
    pub const ATTESTATION: u8 = 0x16;
    /// Binds a subkey to its primary key.
    pub const SUBKEY_BINDING: u8 = 0x18;
    /// A statement of a primary key about itself.
    pub const DIRECT_KEY: u8 = 0x1f;
    /// Revokes a primary key.
    pub const KEY_REVOCATION: u8 = 0x20;
    /// Revokes a subkey.
    pub const SUBKEY_REVOCATION: u8 = 0x28;
    /// Revokes a certification.
    pub const CERTIFICATION_REVOCATION: u8 = 0x30;
}

/// A signature, read from its packet. Subpackets of the unhashed area are ignored, except for the
/// issuer, which only selects the key to try.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    /// 3, 4, 5 or 6.
    pub version: u8,
    /// Type (RFC 9580, section 5.2.1); see [`kind`].
    pub kind: u8,
    /// Public-key algorithm (RFC 9580, section 9.1).
    pub algorithm: u8,
    /// Hash algorithm (RFC 9580, section 9.5).
    pub hash: u8,
    /// Seconds since 1970.
    pub created: u32,
    /// Expiry time in seconds since 1970, 0 for never.
    pub expires: u32,
    /// Expiry time of the key in seconds after its creation, 0 for never.
    pub key_expires_after: u32,
    /// The key flags (RFC 9580, section 5.2.3.29), `None` if the subpacket is missing.
    pub key_flags: Option<&'a [u8]>,
    /// Whether the user ID is marked as the primary one.
    pub primary_user_id: bool,
    /// Whether the signature may be exported from its keyring.
    pub exportable: bool,
    /// Whether the certification may be revoked (RFC 9580, section 5.2.3.20).
    pub revocable: bool,
    /// Depth and amount of a trust signature (RFC 9580, section 5.2.3.21).
    pub trust: Option<(u8, u8)>,
    /// The regular expression that limits a trust signature (RFC 9580, section 5.2.3.22).
    pub trust_regex: Option<&'a [u8]>,
    /// Code and text of the reason for revocation (RFC 9580, section 5.2.3.31).
    pub revocation_reason: Option<(u8, &'a [u8])>,
    /// The key ID of the issuer, as named or as derived from a named fingerprint, in the hashed
    /// area or else in the unhashed area. A signature may name several issuers: see
    /// [`Self::issuers`].
    pub issuer: Option<KeyId>,
    /// The key ID of the issuer, if the hashed area names it. Nobody else can change that.
    pub(crate) signed_issuer: Option<KeyId>,
    /// The fingerprint of the issuer, if the signature names it.
    pub issuer_fingerprint: Option<Fingerprint>,
    /// The user ID that the signer claims to act as (RFC 9580, section 5.2.3.30).
    pub signer_user_id: Option<&'a [u8]>,
    /// The subpackets of the hashed area.
    pub(crate) hashed_area: &'a [u8],
    /// The subpackets of the unhashed area, which anybody may change.
    pub(crate) unhashed_area: &'a [u8],
    /// The first 16 bits of the digest.
    pub(crate) digest_prefix: [u8; 2],
    /// The part of the packet that the digest covers: from the version to the end of the hashed
    /// area, in version 3 the type and the time.
    pub(crate) hashed: &'a [u8],
    /// The salt at the start of the digest's input, version 6 only.
    pub salt: &'a [u8],
    /// The numbers of the signature algorithm.
    pub(crate) numbers: &'a [u8],
}

impl<'a> Signature<'a> {
    /// Reads the body of a signature packet. `None` if the fields do not fit into the body.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let mut signature = Self {
            version: *body.first()?,
            kind: 0,
            algorithm: 0,
            hash: 0,
            created: 0,
            expires: 0,
            key_expires_after: 0,
            key_flags: None,
            primary_user_id: false,
            exportable: true,
            revocable: true,
            trust: None,
            trust_regex: None,
            revocation_reason: None,
            issuer: None,
            signed_issuer: None,
            issuer_fingerprint: None,
            signer_user_id: None,
            hashed_area: &[],
            unhashed_area: &[],
            digest_prefix: [0; 2],
            hashed: &[],
            salt: &[],
            numbers: &[],
        };
        match signature.version {
            2 | 3 => signature.parse_v3(body)?,
            4..=6 => signature.parse_v4(body)?,
            _ => return None,
        }
        Some(signature)
    }

    /// The digest that was signed. `hasher` must have taken in the signed data already (RFC 9580,
    /// section 5.2.4).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "packet bodies are at most 16 MiB")]
    pub fn digest(&self, mut hasher: Hasher) -> Option<HashValue> {
        hasher.update(self.hashed);
        if self.version > 3 {
            hasher.update(&[self.version, 0xff]);
            if self.version == 5 {
                hasher.update(&[0; 4]);
            }
            hasher.update(&(self.hashed.len() as u32).to_be_bytes());
        }
        hasher.finish()
    }

    fn parse_v3(&mut self, body: &'a [u8]) -> Option<()> {
        let (fixed, numbers) = body.split_at_checked(19)?;
        if fixed[1] != 5 {
            return None;
        }
        self.version = 3;
        self.kind = fixed[2];
        self.hashed = &fixed[2..7];
        self.created = u32::from_be_bytes(fixed[3..7].try_into().ok()?);
        self.issuer = Some(KeyId(u64::from_be_bytes(fixed[7..15].try_into().ok()?)));
        self.algorithm = fixed[15];
        self.hash = fixed[16];
        self.digest_prefix = [fixed[17], fixed[18]];
        self.numbers = numbers;
        Some(())
    }

    fn parse_v4(&mut self, body: &'a [u8]) -> Option<()> {
        let (&[_, kind, algorithm, hash], _) = body.split_first_chunk::<4>()?;
        (self.kind, self.algorithm, self.hash) = (kind, algorithm, hash);
        let wide = if self.version == 6 { 4 } else { 2 };
        let area = |from: usize| -> Option<(&'a [u8], usize)> {
            let len = body.get(from..from + wide)?.iter().fold(0, |a, &b| a << 8 | usize::from(b));
            let start = from + wide;
            Some((body.get(start..start.checked_add(len)?)?, start + len))
        };
        let (hashed_area, hashed_end) = area(4)?;
        let (unhashed_area, unhashed_end) = area(hashed_end)?;
        self.hashed = &body[..hashed_end];
        self.digest_prefix = *body.get(unhashed_end..)?.first_chunk::<2>()?;
        let mut rest = &body[unhashed_end + 2..];
        if self.version == 6 {
            let (&len, behind) = rest.split_first()?;
            (self.salt, rest) = behind.split_at_checked(usize::from(len))?;
        }
        self.numbers = rest;
        (self.hashed_area, self.unhashed_area) = (hashed_area, unhashed_area);
        self.read_hashed(hashed_area)?;
        if self.issuer.is_none() {
            self.issuer = self.issuer_fingerprint.map(|fingerprint| fingerprint.key_id());
        }
        self.signed_issuer = self.issuer;
        self.read_unhashed(unhashed_area);
        if self.issuer.is_none() {
            self.issuer = self.issuer_fingerprint.map(|fingerprint| fingerprint.key_id());
        }
        Some(())
    }

    fn read_hashed(&mut self, area: &'a [u8]) -> Option<()> {
        let mut expires_after = 0;
        for subpacket in Subpackets(area) {
            let Subpacket { kind, body, .. } = subpacket?;
            let number = || Some(u32::from_be_bytes(*body.first_chunk()?));
            match kind {
                2 => self.created = number()?,
                3 => expires_after = number()?,
                4 => self.exportable = *body.first()? != 0,
                5 => self.trust = Some((*body.first()?, *body.get(1)?)),
                7 => self.revocable = body.first() != Some(&0),
                6 => self.trust_regex = Some(body.strip_suffix(&[0]).unwrap_or(body)),
                9 => self.key_expires_after = number()?,
                16 | 33 => self.read_issuer(kind, body),
                25 => self.primary_user_id = *body.first()? != 0,
                27 => self.key_flags = Some(body),
                28 => self.signer_user_id = Some(body),
                29 => self.revocation_reason = body.split_first().map(|(&code, text)| (code, text)),
                // Subpackets that keyrings do not use, or that other code reads. `critical.rs`
                // handles critical subpackets.
                _ => {}
            }
        }
        if expires_after != 0 {
            self.expires = self.created.saturating_add(expires_after);
        }
        Some(())
    }

    fn read_unhashed(&mut self, area: &'a [u8]) {
        for subpacket in Subpackets(area).flatten() {
            if (subpacket.kind == 16 && self.issuer.is_none())
                || (subpacket.kind == 33 && self.issuer_fingerprint.is_none())
            {
                self.read_issuer(subpacket.kind, subpacket.body);
            }
        }
    }

    fn read_issuer(&mut self, kind: u8, body: &[u8]) {
        match hint(kind, body) {
            Some(Hint::KeyId(id)) => self.issuer = Some(id),
            Some(Hint::Fingerprint(fingerprint)) => self.issuer_fingerprint = Some(fingerprint),
            None => {}
        }
    }

    /// The bytes of the subpackets of the hashed area.
    #[must_use]
    pub fn hashed_area(&self) -> &'a [u8] {
        self.hashed_area
    }

    /// Whether the signature revokes a key, a subkey or a certification.
    #[must_use]
    pub fn revokes(&self) -> bool {
        matches!(
            self.kind,
            kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION | kind::CERTIFICATION_REVOCATION
        )
    }

    /// Whether the signature, if it is the owner's and good, says that its component belongs to the
    /// certificate, or did.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.kind != kind::ATTESTATION
    }

    /// All issuers that the signature names, those of the hashed area first, without duplicates and
    /// at most [`ISSUERS_MAX`]. They are hints: only verification shows which key made the
    /// signature.
    #[must_use]
    pub fn issuers(&self) -> Vec<(KeyId, Option<Fingerprint>)> {
        let areas = [self.hashed_area, self.unhashed_area].map(Subpackets);
        let subpackets = areas.into_iter().flat_map(Iterator::flatten);
        let mut issuers: Vec<(KeyId, Option<Fingerprint>)> = Vec::new();
        let named = self.issuer.map(|id| {
            let fits = |fingerprint: &Fingerprint| fingerprint.key_id() == id;
            (id, self.issuer_fingerprint.filter(fits))
        });
        issuers.extend(named);
        for hint in subpackets.filter_map(|subpacket| hint(subpacket.kind, subpacket.body)) {
            let (id, fingerprint) = match hint {
                Hint::KeyId(id) => (id, None),
                Hint::Fingerprint(fingerprint) => (fingerprint.key_id(), Some(fingerprint)),
            };
            let is_known = |(other, its): &(KeyId, Option<Fingerprint>)| {
                *other == id && (fingerprint.is_none() || *its == fingerprint)
            };
            if issuers.len() < ISSUERS_MAX && !issuers.iter().any(is_known) {
                issuers.push((id, fingerprint));
            }
        }
        issuers
    }

    /// The only issuer: the one in the bytes that are signed, or else the only one that the packet
    /// names.
    pub(crate) fn sole_issuer(&self) -> Option<KeyId> {
        self.signed_issuer.or_else(|| {
            let issuers = self.issuers();
            let (first, _) = *issuers.first()?;
            issuers.iter().all(|&(id, _)| id == first).then_some(first)
        })
    }

    /// Whether a key may be the issuer: it is the one in the bytes that are signed, or else one of
    /// those that the packet names.
    pub(crate) fn may_be_by(&self, id: KeyId) -> bool {
        match self.signed_issuer {
            Some(issuer) => issuer == id,
            None => self.issuers().iter().any(|&(issuer, _)| issuer == id),
        }
    }

    /// Whether the hashed area names fingerprints, and not that of the key that is tried. Another
    /// key can have its key ID.
    pub(crate) fn excludes(&self, tried: impl FnOnce() -> Fingerprint) -> bool {
        let mut named = self.signed_fingerprints().peekable();
        named.peek().is_some() && {
            let tried = tried();
            named.all(|fingerprint| fingerprint != tried)
        }
    }

    /// The fingerprints of issuers in the hashed area.
    pub(crate) fn signed_fingerprints(&self) -> impl Iterator<Item = Fingerprint> {
        Subpackets(self.hashed_area).flatten().filter_map(|subpacket| {
            match hint(subpacket.kind, subpacket.body)? {
                Hint::Fingerprint(fingerprint) => Some(fingerprint),
                Hint::KeyId(_) => None,
            }
        })
    }

    /// Whether every program finds the name of an issuer: in version 4 the bytes of a key ID, one
    /// that `is_meant`, since GnuPG 2.2 reads no fingerprint.
    pub(crate) fn says_issuer(&self, is_meant: impl Fn(&[u8]) -> bool) -> bool {
        if self.version != 4 {
            return self.issuer.is_some();
        }
        let areas = [self.hashed_area, self.unhashed_area].into_iter().flat_map(Subpackets);
        areas.flatten().any(|s| s.kind == 16 && s.body.len() == 8 && is_meant(s.body))
    }

    /// The designated revokers that a direct-key signature names (RFC 9580, section 5.2.3.23). Only
    /// entries with a valid class and a fingerprint of a known length are returned.
    pub fn revokers(&self) -> impl Iterator<Item = Revoker> + use<'a> {
        let area = if self.kind == kind::DIRECT_KEY { self.hashed_area } else { &[] };
        let subpackets = Subpackets(area).flatten().filter(|subpacket| subpacket.kind == 12);
        subpackets.filter_map(|subpacket| Revoker::parse(subpacket.body))
    }

    /// Whether the signature names `key` as its issuer. The hashed area takes precedence, and
    /// within an area a key ID.
    #[must_use]
    pub fn names(&self, key: KeyId) -> bool {
        self.issuer == Some(key)
    }
}

/// Maximum number of issuers that are read from one signature. Real signatures have fewer.
pub const ISSUERS_MAX: usize = 16;

/// A subpacket that names the issuer of a signature.
enum Hint {
    KeyId(KeyId),
    Fingerprint(Fingerprint),
}

fn hint(kind: u8, body: &[u8]) -> Option<Hint> {
    let fingerprint = match (kind, body) {
        (16, _) => {
            return body.first_chunk().map(|id| Hint::KeyId(KeyId(u64::from_be_bytes(*id))));
        }
        (33, [4, rest @ ..]) => rest.try_into().ok().map(Fingerprint::V4),
        (33, [5, rest @ ..]) => rest.try_into().ok().map(Fingerprint::V5),
        (33, [6, rest @ ..]) => rest.try_into().ok().map(Fingerprint::V6),
        _ => None,
    };
    fingerprint.map(Hint::Fingerprint)
}

/// The key ID of the issuer that a subpacket names.
pub(crate) fn issuer_of(kind: u8, body: &[u8]) -> Option<KeyId> {
    hint(kind, body).map(|hint| match hint {
        Hint::KeyId(id) => id,
        Hint::Fingerprint(fingerprint) => fingerprint.key_id(),
    })
}

/// A key that may revoke another key (RFC 9580, section 5.2.3.23).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Revoker {
    /// Class byte: 0x80 is always set; 0x40 marks a relationship that is private.
    pub class: u8,
    /// The public-key algorithm of the revoker's key, as claimed. GnuPG displays it and does not
    /// check it.
    pub algorithm: u8,
    /// The fingerprint of the revoker. A fingerprint of 32 bytes does not tell its version: it is
    /// read as version 6, and a lookup must also try version 5.
    pub fingerprint: Fingerprint,
}

impl Revoker {
    fn parse(body: &[u8]) -> Option<Self> {
        let [class @ 0x80..=0xff, algorithm, fingerprint @ ..] = body else { return None };
        let fingerprint = match fingerprint.len() {
            20 => Fingerprint::V4(fingerprint.try_into().ok()?),
            32 => Fingerprint::V6(fingerprint.try_into().ok()?),
            _ => return None,
        };
        Some(Self { class: *class, algorithm: *algorithm, fingerprint })
    }

    /// The possible fingerprints for the bytes of [`Self::fingerprint`].
    #[must_use]
    pub fn fingerprints(&self) -> Vec<Fingerprint> {
        match self.fingerprint {
            Fingerprint::V6(bytes) => vec![Fingerprint::V6(bytes), Fingerprint::V5(bytes)],
            other => vec![other],
        }
    }
}

/// A signature subpacket (RFC 9580, section 5.2.3.7).
pub struct Subpacket<'a> {
    /// The type.
    pub kind: u8,
    /// Whether a reader that does not understand it must reject the signature.
    pub critical: bool,
    /// The content.
    pub body: &'a [u8],
}

/// The subpackets of an area. The last item is `None` if a subpacket does not fit.
pub struct Subpackets<'a>(pub &'a [u8]);

impl<'a> Iterator for Subpackets<'a> {
    type Item = Option<Subpacket<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let area = std::mem::take(&mut self.0);
        let (len, header) = match *area {
            [] => return None,
            [a @ 0..=191, ..] => (usize::from(a), 1),
            [a @ 192..=254, b, ..] => (((usize::from(a) - 192) << 8) + usize::from(b) + 192, 2),
            [255, a, b, c, d, ..] => (u32::from_be_bytes([a, b, c, d]) as usize, 5),
            _ => return Some(None),
        };
        let Some((subpacket, rest)) = area[header..].split_at_checked(len) else {
            return Some(None);
        };
        self.0 = rest;
        Some(subpacket.split_first().map(|(&kind, body)| Subpacket {
            kind: kind & 0x7f,
            critical: kind & 0x80 != 0,
            body,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::samples::hinted;

    #[test]
    fn a_signature_that_names_a_fingerprint_is_by_no_other_key_with_its_key_id() {
        let named = Fingerprint::V4([7; 20]);
        let mut body = vec![4, 0x10, 1, 8, 0, 23, 22, 33];
        body.extend(named.to_stored());
        body.extend([0, 0, 1, 2, 0, 8, 0x80]);
        let signature = Signature::parse(&body).unwrap();
        assert_eq!(signature.signed_issuer, Some(named.key_id()));
        assert!(!signature.excludes(|| named));
        assert!(signature.excludes(|| Fingerprint::V3([1; 16], named.key_id())));
        let unnamed = hinted(0x10, b"text", &[named.key_id().0]);
        assert!(!Signature::parse(&unnamed).unwrap().excludes(|| named));
    }
}
