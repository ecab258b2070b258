//! The trust models' view of a certificate: its user IDs and their issuers.

use talaria_cert::{
    Capabilities, Cert, Context, Gnupg, KeyId, PacketRef, Signature, Span, Summary, Tag, Validity,
    kind,
};

/// From here on (2019-01-19) a certification with SHA-1 proves nothing to `GnuPG` 2.2, since collisions can be
/// chosen. To 2.4 none does.
const SHA1_ENDS: u32 = 1_547_856_000;

/// A certificate at some time.
#[derive(Debug)]
pub struct Subject<'a> {
    /// It is neither revoked nor expired.
    pub usable: bool,
    /// It is valid, and its primary key may certify.
    pub certifies: bool,
    /// Its user IDs and attributes, in canonical order.
    pub user_ids: Vec<SubjectId<'a>>,
    /// When all of this holds.
    pub holds: Span,
}

/// A user ID or attribute.
#[derive(Debug)]
pub struct SubjectId<'a> {
    /// Its packet.
    pub packet: PacketRef<'a>,
    /// It is neither revoked nor expired.
    pub usable: bool,
    /// Signatures by others, in canonical order, not verified yet.
    pub certifications: Vec<Certification<'a>>,
}

/// A certification by another key, or the revocation of one.
#[derive(Clone, Copy, Debug)]
pub struct Certification<'a> {
    /// The key that it names.
    pub issuer: KeyId,
    /// Seconds since 1970.
    pub created: u32,
    /// Seconds since 1970, 0 for never.
    pub expires: u32,
    /// It takes back what the issuer certified before.
    pub revokes: bool,
    /// It cannot be taken back.
    pub irrevocable: bool,
    /// Depth and amount of a trust signature (RFC 9580, section 5.2.3.21).
    pub trust: Option<(u8, u8)>,
    /// The limits of a trust signature.
    pub scope: Option<&'a [u8]>,
    /// The body of its packet.
    pub body: &'a [u8],
}

impl<'a> Subject<'a> {
    /// What `cert` is at `now`, in seconds since 1970; `summary` is that of this time. `gnupg` says which
    /// certifications count.
    #[must_use]
    pub fn of(cert: &'a Cert, summary: &Summary, gnupg: Gnupg, now: u32) -> Self {
        let mut holds = summary.holds;
        // A key that expires is valid in its last second.
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

/// The keys that certified user IDs of `cert`, or revoked certifications, each once: who may have a say in
/// it. Nothing is verified.
#[must_use]
pub fn issuers(cert: &Cert) -> Vec<KeyId> {
    let own = cert.fingerprint().key_id();
    let mut issuers = Vec::new();
    let mut in_user_id = false;
    for packet in cert.packets() {
        match packet.tag {
            Tag::SIGNATURE if in_user_id => {
                // With the rules of either release.
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
    /// Reads a signature; `None` if it is no certification, or one that cannot count: with a critical part
    /// that is not known, with a digest that can be forged, or "without any verification" (type 0x11), as in
    /// `GnuPG`'s `min-cert-level`.
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
