//! The packets of a certificate that Hockeypuck 2.2.1 to 2.4 keep. This follows
//! `docs/formats/views.md` step by step.
//!
//! Our verdicts are used where Hockeypuck's arithmetic is the same as ours. Where it differs, this
//! module verifies signatures itself: signatures that Hockeypuck takes for the owner's and we do
//! not, digests whose first bits are wrong, and signing subkeys that must sign their primary key.

use crate::arithmetic;
use crate::cert::Cert;
use crate::fields::Fields;
use crate::key::{Curve, Key};
use crate::packet::PacketRef;
use crate::signature::{Signature, Subpacket, Subpackets, kind};
use crate::tag::Tag;
use crate::verdict::Verdict;
use crate::verify::PrimaryKeyVerifier;

/// Releases of Hockeypuck with rules of their own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Release {
    /// 2.2.1 to 2.3.3.
    V2_3,
    /// 2.4, which knows the algorithms of RFC 9980.
    V2_4,
}

impl Release {
    /// Maximum bytes of the body of a signature packet. Those of post-quantum algorithms are long.
    fn signature_bytes_max(self) -> usize {
        match self {
            Self::V2_3 => PACKET_BYTES_MAX,
            Self::V2_4 => 65_536,
        }
    }
}

/// Maximum bytes of a packet body. Larger packets are skipped when a certificate is read.
const PACKET_BYTES_MAX: usize = 8192;

/// Maximum bytes of a certificate, counting packet bodies only. Larger certificates are refused.
const CERT_BYTES_MAX: usize = 1 << 20;

/// The kept packets, as one `bool` per packet of the certificate. `None` if the certificate is left
/// out.
pub(super) fn kept(cert: &Cert, verdicts: &[Verdict], release: Release) -> Option<Vec<bool>> {
    let primary = cert.packets().next()?;
    let public = PublicKey::read(primary, release)?;
    // In version 3, Hockeypuck starts the digest with a length that is 2 too small, so no signature
    // verifies. A key with bytes after its fields has another fingerprint in Hockeypuck.
    if public.version < 4 || public.bytes != primary.body.len() {
        return None;
    }
    let key = Key::parse(primary).ok()?;
    let mut selection = Selection {
        release,
        id: cert.fingerprint().key_id().0,
        fingerprint: cert.fingerprint(),
        primary: public,
        key,
        verifier: PrimaryKeyVerifier::new(key),
        keep: vec![false; cert.packets().len()],
        hard_revoked: false,
        bound: false,
    };
    let mut component: Option<Component<'_>> = None;
    let mut verdicts = verdicts.iter().copied();
    for (at, packet) in cert.packets().enumerate() {
        if packet.tag != Tag::SIGNATURE {
            selection.close(component.take());
            component = selection.open(at, packet);
            continue;
        }
        let verdict = verdicts.next().unwrap_or(Verdict::Unchecked);
        if let Some(component) = &mut component {
            selection.signature(component, at, packet.body, verdict);
        }
    }
    selection.close(component);
    let bytes = cert.packets().zip(&selection.keep).filter(|(_, keep)| **keep);
    let bytes: usize = bytes.map(|(packet, _)| packet.body.len()).sum();
    (selection.bound && bytes <= CERT_BYTES_MAX).then_some(selection.keep)
}

/// The packets that Hockeypuck 2.1 keeps: all of SKS, less packets that are too large and RSA keys
/// whose exponent Go does not read, each with the signatures on it. `None` if the primary key is
/// one of these, or of version 6, of which it keeps parts only.
pub(super) fn kept_by_2_1(cert: &Cert) -> Option<Vec<bool>> {
    if cert.fingerprint().version() == 6 {
        return None;
    }
    let mut keep = Vec::with_capacity(cert.packets().len());
    let mut component = true;
    for (at, packet) in cert.packets().enumerate() {
        let fits = packet.body.len() <= PACKET_BYTES_MAX;
        if packet.tag == Tag::SIGNATURE {
            keep.push(component && fits);
            continue;
        }
        let is_key = matches!(packet.tag, Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY);
        component = fits && !(is_key && has_long_exponent(packet));
        if at == 0 && !component {
            return None;
        }
        keep.push(component);
    }
    Some(keep)
}

/// Whether the exponent of an RSA key has more than 24 bits: Go does not read such a key.
fn has_long_exponent(packet: PacketRef<'_>) -> bool {
    let Ok(key) = Key::parse(packet) else { return false };
    if !matches!(key.algorithm, 1..=3) {
        return false;
    }
    let mut fields = Fields(packet.body);
    let header = match key.version {
        2 | 3 => 8,
        4 => 6,
        _ => 10,
    };
    let exponent = fields.take(header).and_then(|_| fields.mpi()).and_then(|_| fields.mpi());
    exponent.is_some_and(|exponent| exponent.len() > EXPONENT_BYTES_MAX)
}

/// Bytes of an exponent of RSA that Go reads.
const EXPONENT_BYTES_MAX: usize = 3;

/// The selection of packets of one certificate.
struct Selection<'a> {
    release: Release,
    id: u64,
    fingerprint: crate::fingerprint::Fingerprint,
    primary: PublicKey,
    key: Key<'a>,
    verifier: PrimaryKeyVerifier<'a>,
    keep: Vec<bool>,
    /// Whether the key is revoked for a reason that invalidates all its signatures, also old ones.
    hard_revoked: bool,
    /// Whether there is a valid self-signature.
    bound: bool,
}

/// A readable component, with the state of its signatures so far.
struct Component<'a> {
    at: usize,
    /// The part of the packet that is hashed.
    packet: PacketRef<'a>,
    /// Whether that part is the whole packet, so that our verdicts apply to it.
    as_stored: bool,
    /// The key, if it is a subkey.
    subkey: Option<PublicKey>,
    /// Whether the owner has signed the component.
    bound: bool,
    /// Third-party signatures. They are checked last, since they take most of the work.
    others: Vec<(usize, Signature<'a>)>,
}

impl<'a> Selection<'a> {
    fn open(&self, at: usize, packet: PacketRef<'a>) -> Option<Component<'a>> {
        if packet.body.len() > PACKET_BYTES_MAX {
            return None;
        }
        let mut subkey = None;
        let mut hashed = packet;
        match packet.tag {
            Tag::PUBLIC_KEY => {}
            Tag::USER_ID if self.hard_revoked || packet.body.contains(&0) => return None,
            Tag::USER_ID => {}
            Tag::PUBLIC_SUBKEY => {
                let key = PublicKey::read(packet, self.release).filter(|key| key.version >= 4)?;
                hashed.body = &packet.body[..key.bytes];
                subkey = Some(key);
            }
            _ => return None,
        }
        let as_stored = hashed.body.len() == packet.body.len();
        Some(Component { at, packet: hashed, as_stored, subkey, bound: false, others: Vec::new() })
    }

    fn signature(
        &mut self,
        component: &mut Component<'a>,
        at: usize,
        body: &'a [u8],
        verdict: Verdict,
    ) {
        if body.len() > self.release.signature_bytes_max() {
            return;
        }
        let Some(read) = Read::from(body, self.release) else { return };
        let own =
            read.issuer == self.id || read.issuer_fingerprint == Some(self.fingerprint.as_bytes());
        if !own {
            component.others.push((at, read.signature));
        } else if self.is_valid(component, &read, verdict) {
            let reason = read.signature.revocation_reason.map(|(code, _)| code);
            self.hard_revoked |=
                read.signature.kind == kind::KEY_REVOCATION && matches!(reason, None | Some(0 | 2));
            self.keep[at] = true;
            component.bound = true;
        }
    }

    /// Ends a component: keeps it together with its third-party signatures, or drops both.
    fn close(&mut self, component: Option<Component<'a>>) {
        let Some(component) = component else { return };
        self.bound |= component.bound;
        let is_primary = component.packet.tag == Tag::PUBLIC_KEY;
        if !component.bound && !is_primary {
            return;
        }
        self.keep[component.at] = true;
        if self.hard_revoked {
            return;
        }
        for (at, signature) in component.others {
            self.keep[at] = self.is_plausible(&component.packet, &signature)
                && self
                    .verifier
                    .digest_of(component.packet, &signature)
                    .is_some_and(|digest| digest.as_bytes()[..2] == signature.digest_prefix);
        }
    }

    /// Whether a third-party signature may be at this place.
    fn is_plausible(&self, component: &PacketRef<'_>, signature: &Signature<'_>) -> bool {
        match component.tag {
            Tag::PUBLIC_KEY => self.may_be_direct(signature),
            Tag::USER_ID => is_on_user_id(signature),
            // On a subkey, a third-party signature can only be a revocation.
            _ => signature.kind == kind::SUBKEY_REVOCATION,
        }
    }

    /// Whether a subkey may have this version.
    fn may_have(&self, subkey: &PublicKey) -> bool {
        let is_later = self.primary.version >= 6 || subkey.version >= 6;
        self.release == Release::V2_3 || !is_later || self.primary.version == subkey.version
    }

    fn may_be_direct(&self, signature: &Signature<'_>) -> bool {
        match signature.kind {
            kind::KEY_REVOCATION => signature.version > 3 || self.primary.version == 4,
            kind::DIRECT_KEY => signature.version > 3,
            _ => false,
        }
    }

    /// Whether a signature is a correct self-signature at a permitted place.
    fn is_valid(&mut self, component: &Component<'a>, read: &Read<'_>, verdict: Verdict) -> bool {
        let signature = &read.signature;
        let in_place = match &component.subkey {
            None if component.packet.tag == Tag::PUBLIC_KEY => self.may_be_direct(signature),
            None => is_on_user_id(signature),
            Some(key) => {
                matches!(signature.kind, kind::SUBKEY_BINDING | kind::SUBKEY_REVOCATION)
                    && (signature.version > 3 || (key.version == 4 && !key.can_sign))
                    && self.may_have(key)
            }
        };
        if !in_place || !self.primary.can_sign || self.primary.algorithm != signature.algorithm {
            return false;
        }
        // Hockeypuck reads the numbers of this packet and, except in version 4, the first bits of
        // the digest.
        let as_good = component.as_stored && signature.version == 4 && signature.has_exact_value();
        let right =
            (verdict == Verdict::Good && as_good) || self.verifies(component, signature, None);
        right && (!read.says_signing || self.is_signed_back(component, read))
    }

    /// Verifies a signature, made by `signer` or by the primary key.
    fn verifies(
        &mut self,
        component: &Component<'a>,
        signature: &Signature<'_>,
        signer: Option<Key<'_>>,
    ) -> bool {
        let Some(digest) = self.verifier.digest_of(component.packet, signature) else {
            return false;
        };
        let digest = digest.as_bytes();
        // In version 4, Hockeypuck does not compare the first bits of the digest.
        (signature.version == 4 || digest[..2] == signature.digest_prefix)
            && arithmetic::is_right(&signer.unwrap_or(self.key), signature, digest)
    }

    /// Whether a signing subkey has signed its primary key.
    fn is_signed_back(&mut self, component: &Component<'a>, read: &Read<'_>) -> bool {
        let Some(subkey) = &component.subkey else { return true };
        let Some(signature) = read.embedded.and_then(Signature::parse) else { return false };
        let Ok(key) = Key::parse(component.packet) else { return false };
        subkey.can_sign
            && subkey.algorithm == signature.algorithm
            && self.verifies(component, &signature, Some(key))
    }
}

fn is_on_user_id(signature: &Signature<'_>) -> bool {
    kind::CERTIFICATION.contains(&signature.kind)
        || signature.kind == kind::CERTIFICATION_REVOCATION
}

/// A key packet that Hockeypuck can read.
struct PublicKey {
    version: u8,
    algorithm: u8,
    can_sign: bool,
    /// Number of bytes that Hockeypuck reads. Bytes after that are kept, but not hashed.
    bytes: usize,
}

impl PublicKey {
    fn read(packet: PacketRef<'_>, release: Release) -> Option<Self> {
        if packet.body.len() > PACKET_BYTES_MAX {
            return None;
        }
        let mut fields = Fields(packet.body);
        let version = fields.byte()?;
        fields.take(4)?;
        if version < 4 {
            fields.take(2)?;
        }
        let algorithm = fields.byte()?;
        match version {
            2 | 3 if matches!(algorithm, 1..=3) => {}
            4 => {}
            5 | 6 => drop(fields.take(4)?),
            _ => return None,
        }
        match algorithm {
            1..=3 => {
                mpi(&mut fields)?;
                if mpi(&mut fields)?.len() > 3 {
                    return None;
                }
            }
            16 => (0..3).try_for_each(|_| mpi(&mut fields).map(drop))?,
            17 => (0..4).try_for_each(|_| mpi(&mut fields).map(drop))?,
            18 | 19 | 22 => on_curve(&mut fields, version, algorithm)?,
            25 | 27 => drop(fields.take(32)?),
            26 => drop(fields.take(56)?),
            28 => drop(fields.take(57)?),
            _ if release == Release::V2_3 => return None,
            // RFC 9980: a key of the curve, and the one of the new algorithm.
            35 if version == 4 || version == 6 => drop(fields.take(32 + 1184)?),
            30 if version == 6 => drop(fields.take(32 + 1952)?),
            31 if version == 6 => drop(fields.take(57 + 2592)?),
            32 | 33 if version == 6 => drop(fields.take(32)?),
            34 if version == 6 => drop(fields.take(64)?),
            36 if version == 6 => drop(fields.take(56 + 1568)?),
            _ => return None,
        }
        let can_sign = match release {
            Release::V2_3 => !matches!(algorithm, 2 | 16 | 18),
            Release::V2_4 => !matches!(algorithm, 2 | 16 | 18 | 25 | 26 | 35 | 36),
        };
        Some(Self { version, algorithm, can_sign, bytes: packet.body.len() - fields.0.len() })
    }
}

/// A multiprecision integer, including leading zeros.
fn mpi<'a>(fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let bits = fields.take(2)?;
    fields.take(usize::from(u16::from_be_bytes([bits[0], bits[1]])).div_ceil(8))
}

/// Reads a curve and a point on it.
fn on_curve(fields: &mut Fields<'_>, version: u8, algorithm: u8) -> Option<()> {
    let len = fields.byte()?;
    let oid = fields.take(usize::from(len))?;
    // Hockeypuck knows one object identifier for each curve.
    let curve = Curve::from_oid(oid).filter(|_| !matches!(oid, [0x2b, 0x65, 0x6e | 0x70]))?;
    let point = mpi(fields)?;
    let fits = match (algorithm, curve) {
        (18, _) => {
            let len = fields.byte().filter(|&len| len != 255)?;
            let [1, hash, cipher, ..] = *fields.take(usize::from(len))? else { return None };
            let fits = match curve {
                Curve::Cv25519 => version != 6 && point.len() == 33,
                Curve::X448 => point.len() == 57,
                Curve::Ed25519 | Curve::Ed448 => false,
                _ => true,
            };
            fits && matches!(hash, 8..=12 | 14) && matches!(cipher, 2 | 3 | 7..=9)
        }
        (19, _) => arithmetic::is_on_curve(curve, point),
        (22, Curve::Ed25519) => version != 6 && point.len() == 33 && point[0] == 0x40,
        (22, Curve::Ed448) => version != 6 && point.len() == 58 && point[0] == 0x40,
        _ => false,
    };
    fits.then_some(())
}

/// A signature packet that Hockeypuck can read.
struct Read<'a> {
    release: Release,
    signature: Signature<'a>,
    /// The last issuer that is named, by key ID or fingerprint. The unhashed area comes after the
    /// hashed one.
    issuer: u64,
    issuer_fingerprint: Option<&'a [u8]>,
    /// Whether the key flags have the signing flag.
    says_signing: bool,
    /// The embedded signature, without header.
    embedded: Option<&'a [u8]>,
}

impl<'a> Read<'a> {
    /// Reads a signature that names its issuer.
    fn from(body: &'a [u8], release: Release) -> Option<Self> {
        let (read, issuer) = Self::embedded(body, release)?;
        Some(Self { issuer: issuer?, ..read })
    }

    /// Reads a signature that need not name an issuer.
    fn embedded(body: &'a [u8], release: Release) -> Option<(Self, Option<u64>)> {
        let signature = Signature::parse(body)?;
        let mut read = Self {
            release,
            signature,
            issuer: 0,
            issuer_fingerprint: None,
            says_signing: false,
            embedded: None,
        };
        if signature.version == 3 {
            let known = matches!(signature.algorithm, 1 | 3 | 17)
                && matches!(signature.hash, 1 | 2 | 8..=12 | 14);
            numbers_fit(&signature, release).filter(|()| known)?;
            return Some((read, signature.issuer.map(|id| id.0)));
        }
        let hash_known = matches!(signature.hash, 8..=12 | 14)
            || (signature.hash == 2 && signature.version == 4);
        if !hash_known {
            return None;
        }
        let salt_bytes = match signature.hash {
            9 => 24,
            10 | 14 => 32,
            _ => 16,
        };
        if signature.version == 6 && signature.salt.len() != salt_bytes {
            return None;
        }
        numbers_fit(&signature, release)?;
        let wide = if signature.version == 6 { 4 } else { 2 };
        let hashed = &signature.hashed[4 + wide..];
        let (len, unhashed) = body[signature.hashed.len()..].split_at_checked(wide)?;
        let len = len.iter().fold(0, |len, &b| len << 8 | usize::from(b));
        let mut issuer = None;
        let mut has_time = false;
        for subpacket in Subpackets(hashed) {
            read.subpacket(&subpacket?, true, &mut issuer, &mut has_time)?;
        }
        for subpacket in Subpackets(unhashed.get(..len)?) {
            read.subpacket(&subpacket?, false, &mut issuer, &mut has_time)?;
        }
        has_time.then_some((read, issuer))
    }

    /// Reads one subpacket. `None` if the subpacket makes the signature unreadable.
    fn subpacket(
        &mut self,
        subpacket: &Subpacket<'a>,
        hashed: bool,
        issuer: &mut Option<u64>,
        has_time: &mut bool,
    ) -> Option<()> {
        let Subpacket { kind, critical, body } = *subpacket;
        if !hashed && !matches!(kind, 16 | 32 | 33) {
            return Some(());
        }
        let fits = match kind {
            2 => {
                *has_time = true;
                body.len() == 4
            }
            3 | 9 => body.len() == 4,
            // A signature that is not exportable is not read.
            4 => *body.first()? != 0,
            5 => body.len() == 2,
            6 => body.last() == Some(&0),
            16 => {
                let id = u64::from_be_bytes(body.try_into().ok()?);
                if self.signature.version == 4 {
                    *issuer = Some(id);
                }
                self.signature.version == 4 || !hashed
            }
            20 => {
                let len = |at: usize| {
                    Some(usize::from(*body.get(at)?) << 8 | usize::from(*body.get(at + 1)?))
                };
                body.len() == len(4)? + len(6)? + 8
            }
            25 => body.len() == 1,
            27 => {
                self.says_signing |= body.first().is_some_and(|flags| flags & 2 != 0);
                true
            }
            29 => !body.is_empty(),
            32 => {
                let (back, _) = Self::embedded(body, self.release)?;
                let once = self.embedded.replace(body).is_none();
                once && back.signature.kind == PRIMARY_KEY_BINDING && back.signature.version > 3
            }
            33 => {
                let (&version, fingerprint) = body.split_first()?;
                let id = if version >= 5 { fingerprint.get(..8) } else { fingerprint.get(12..) };
                *issuer = Some(u64::from_be_bytes(id?.try_into().ok()?));
                self.issuer_fingerprint = Some(fingerprint);
                fingerprint.len() == fingerprint_bytes(version)
            }
            35 => {
                let (&version, fingerprint) = body.split_first()?;
                fingerprint.len() == fingerprint_bytes(version)
            }
            39 => body.len() % 2 == 0,
            11 | 21..=24 | 26 | 28 | 30 => true,
            _ => !critical,
        };
        fits.then_some(())
    }
}

/// The signature type by which a subkey signs its primary key (RFC 9580, section 5.2.1.9).
const PRIMARY_KEY_BINDING: u8 = 0x19;

fn fingerprint_bytes(version: u8) -> usize {
    if version >= 5 { 32 } else { 20 }
}

/// Checks that the algorithm is known and that all its numbers are there. `None` if not.
fn numbers_fit(signature: &Signature<'_>, release: Release) -> Option<()> {
    let mut fields = Fields(signature.numbers);
    match signature.algorithm {
        1 | 3 => drop(mpi(&mut fields)?),
        17 | 19 | 22 => (0..2).try_for_each(|_| mpi(&mut fields).map(drop))?,
        27 => drop(fields.take(64)?),
        28 => drop(fields.take(114)?),
        _ if release == Release::V2_3 => return None,
        // RFC 9980.
        30 => drop(fields.take(64 + 3309)?),
        31 => drop(fields.take(114 + 4627)?),
        32 => drop(fields.take(7856)?),
        33 => drop(fields.take(17_088)?),
        34 => drop(fields.take(29_792)?),
        _ => return None,
    }
    Some(())
}
