//! The trust models' view of a certificate: its user IDs and their issuers.

use talaria_cert::{
    Capabilities, Cert, Context, Gnupg, KeyId, PacketRef, Signature, Span, Summary, Tag, Validity,
    kind,
};

/// From this time on (2019-01-19), `GnuPG` 2.2 ignores certifications with SHA-1, since collisions
/// can be chosen. `GnuPG` 2.4 ignores all of them.
const SHA1_ENDS: u32 = 1_547_856_000;

/// A certificate at a given time.
#[derive(Debug)]
pub struct Subject<'a> {
    /// Whether the certificate is neither revoked nor expired.
    pub usable: bool,
    /// Whether the certificate is valid and its primary key may certify.
    pub certifies: bool,
    /// User IDs and attributes of the certificate, in canonical order.
    pub user_ids: Vec<SubjectId<'a>>,
    /// The span of time for which all of this is true.
    pub holds: Span,
}

/// A user ID or attribute.
#[derive(Debug)]
pub struct SubjectId<'a> {
    /// Packet of the user ID or attribute.
    pub packet: PacketRef<'a>,
    /// Whether the user ID is neither revoked nor expired.
    pub usable: bool,
    /// Third-party signatures, in canonical order, not yet verified.
    pub certifications: Vec<Certification<'a>>,
}

/// A third-party certification, or its revocation.
#[derive(Clone, Copy, Debug)]
pub struct Certification<'a> {
    /// The key ID of the named issuer.
    pub issuer: KeyId,
    /// Creation time in seconds since 1970.
    pub created: u32,
    /// Expiry time in seconds since 1970, 0 for never.
    pub expires: u32,
    /// Whether this revokes earlier certifications by the same issuer.
    pub revokes: bool,
    /// Whether the certification cannot be revoked.
    pub irrevocable: bool,
    /// Depth and amount of a trust signature (RFC 9580, section 5.2.3.21).
    pub trust: Option<(u8, u8)>,
    /// The scope of a trust signature, as a regular expression.
    pub scope: Option<&'a [u8]>,
    /// The body of the signature packet.
    pub body: &'a [u8],
}

impl<'a> Subject<'a> {
    /// The state of `cert` at `now`, in seconds since 1970. `summary` must be the summary at that
    /// time. `gnupg` selects the rules for certifications.
    #[must_use]
    pub fn of(cert: &'a Cert, summary: &Summary, gnupg: Gnupg, now: u32) -> Self {
        let mut holds = summary.holds;
        // A key is still valid in the second of its expiry.
        let end = summary.primary.expires;
        holds.note(if end == 0 { 0 } else { end.saturating_add(1) }, now);
        let usable = !matches!(summary.validity(now), Validity::Revoked | Validity::Expired);
        let certifies = summary.validity(now) == Validity::Valid
            && summary.primary.capabilities.has(Capabilities::CERTIFY);
        let own = cert.fingerprint().key_id();
        let mut states = summary.user_ids.iter();
        let mut user_ids: Vec<SubjectId<'a>> = Vec::with_capacity(summary.user_ids.len());
        let mut in_user_id = false;
        for packet in cert.packets() {
            match packet.tag {
                Tag::USER_ID | Tag::USER_ATTRIBUTE => {
                    let state = states.next();
                    holds.note(state.map_or(0, |state| state.expires), now);
                    let usable = state.is_some_and(|state| {
                        !matches!(state.validity(now), Validity::Revoked | Validity::Expired)
                    });
                    user_ids.push(SubjectId { packet, usable, certifications: Vec::new() });
                    in_user_id = true;
                }
                Tag::SIGNATURE if in_user_id => {
                    let certification = Certification::read(packet.body, gnupg)
                        .filter(|certification| certification.issuer != own);
                    if let (Some(certification), Some(user_id)) =
                        (certification, user_ids.last_mut())
                    {
                        holds.note(certification.expires, now);
                        user_id.certifications.push(certification);
                    }
                }
                Tag::SIGNATURE => {}
                _ => in_user_id = false,
            }
        }
        Self { usable, certifies, user_ids, holds }
    }
}

/// The issuers of certifications on user IDs of `cert`, and of their revocations, without
/// duplicates. No signature is verified.
#[must_use]
pub fn issuers(cert: &Cert) -> Vec<KeyId> {
    let own = cert.fingerprint().key_id();
    let mut issuers = Vec::new();
    let mut in_user_id = false;
    for packet in cert.packets() {
        match packet.tag {
            Tag::SIGNATURE if in_user_id => {
                // The rules of 2.2 include all certifications that either release accepts.
                let read = Certification::read(packet.body, Gnupg::V2_2);
                let issuer = read.map(|one| one.issuer);
                issuers.extend(issuer.filter(|&issuer| issuer != own));
            }
            Tag::SIGNATURE => {}
            tag => in_user_id = matches!(tag, Tag::USER_ID | Tag::USER_ATTRIBUTE),
        }
    }
    issuers.sort_unstable();
    issuers.dedup();
    issuers
}

impl<'a> Certification<'a> {
    /// Reads a signature. `None` if it is not a certification, or one that cannot count: with an
    /// unknown critical subpacket, with a forgeable digest, or "without any verification" (type
    /// 0x11), as with `GnuPG`'s `min-cert-level`.
    fn read(body: &'a [u8], gnupg: Gnupg) -> Option<Self> {
        const UNVERIFIED: u8 = 0x11;
        const MD5: u8 = 1;
        const SHA1: u8 = 2;
        let signature = Signature::parse(body)?;
        let revokes = signature.kind == kind::CERTIFICATION_REVOCATION;
        let certifies =
            kind::CERTIFICATION.contains(&signature.kind) && signature.kind != UNVERIFIED;
        let forgeable = match (signature.hash, gnupg) {
            (MD5, _) | (SHA1, Gnupg::V2_4) => true,
            (SHA1, Gnupg::V2_2) => signature.created > SHA1_ENDS,
            _ => false,
        };
        let understood = signature.understood(&Context::Certificate).is_ok();
        if !(certifies || revokes) || !understood || forgeable {
            return None;
        }
        Some(Self {
            issuer: signature.issuer?,
            created: signature.created,
            expires: signature.expires,
            revokes,
            irrevocable: certifies && !signature.revocable,
            trust: signature.trust.filter(|_| certifies),
            scope: signature.trust_regex.filter(|_| signature.trust.is_some()),
            body,
        })
    }
}
