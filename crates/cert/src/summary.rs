//! The summary of a certificate for listings, computed from its packets and verdicts.
//!
//! The rules are GnuPG's (`merge_selfsigs` in its `getkey.c`, with the same behaviour), so that
//! validity, expiry and revocation agree with `gpg --with-colons`. The newest good self-signature
//! of a component decides about it. A revocation of a key or subkey is permanent; one of a user ID
//! lasts until a newer certification. A direct-key signature takes precedence over the user IDs.
//! Trust is not decided here.
//!
//! A summary is true for a span of time ([`Summary::holds`]). The reader of the summary applies the
//! expiry of keys. But the deciding signature can change when one of the signatures expires or
//! becomes valid, and there the span ends.

use crate::back::{self, has_signed_back};
use crate::cert::Cert;
use crate::critical::Context;
use crate::fingerprint::Fingerprint;
use crate::key::{self, Curve, Key};
use crate::packet::PacketRef;
use crate::revoker::{DesignatedRevocation, RevokerState};
use crate::rules::{Gnupg, Rules, Weak};
use crate::signature::{Revoker, Signature, Subpackets, kind};
use crate::tag::Tag;
use crate::verdict::Verdict;

/// The subpacket with the key flags (RFC 9580, section 5.2.3.29).
const KEY_FLAGS: u8 = 27;

/// The capabilities of a key, as GnuPG prints them in letters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capabilities(pub u8);

impl Capabilities {
    /// Certify other keys and user IDs.
    pub const CERTIFY: u8 = 1;
    /// Sign data.
    pub const SIGN: u8 = 2;
    /// Encrypt, to storage or in transit.
    pub const ENCRYPT: u8 = 4;
    /// Authenticate.
    pub const AUTHENTICATE: u8 = 8;

    /// Whether any capability in `which` is set.
    #[must_use]
    pub fn has(self, which: u8) -> bool {
        self.0 & which != 0
    }

    /// The capabilities that the key flags name (RFC 9580, section 5.2.3.29).
    fn from_flags(flags: &[u8]) -> Self {
        let flags = flags.first().copied().unwrap_or_default();
        let bit = |mask: u8, capability: u8| if flags & mask != 0 { capability } else { 0 };
        Self(
            bit(0x01, Self::CERTIFY)
                | bit(0x02, Self::SIGN)
                | bit(0x0c, Self::ENCRYPT)
                | bit(0x20, Self::AUTHENTICATE),
        )
    }

    /// The capabilities that an algorithm supports. `None` for unknown algorithms.
    pub(crate) fn of_algorithm(algorithm: u8) -> Option<Self> {
        const SIGNING: u8 = Capabilities::CERTIFY | Capabilities::SIGN | Capabilities::AUTHENTICATE;
        Some(Self(match algorithm {
            1 => SIGNING | Self::ENCRYPT,
            2 | 16 | 18 | 25 | 26 => Self::ENCRYPT,
            3 => Self::CERTIFY | Self::SIGN,
            17 | 19 | 22 | 27 | 28 => SIGNING,
            _ => return None,
        }))
    }
}

/// The state of a key or user ID at a given time, the worst state first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Validity {
    /// Not bound by any good self-signature.
    Invalid,
    /// Revoked by its owner or by a designated revoker.
    Revoked,
    /// Past its expiry time.
    Expired,
    /// Bound, not revoked and not expired.
    Valid,
}

/// A primary key or subkey in a summary.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeySummary {
    /// The fingerprint of the key.
    pub fingerprint: Fingerprint,
    /// Public-key algorithm (RFC 9580, section 9.1).
    pub algorithm: u8,
    /// Bits of the modulus or the curve, 0 if unknown.
    pub bits: u16,
    /// The curve, for algorithms that have one.
    pub curve: Option<Curve>,
    /// Creation time in seconds since 1970.
    pub created: u32,
    /// Expiry time in seconds since 1970, 0 for never.
    pub expires: u32,
    /// The capabilities of the key.
    pub capabilities: Capabilities,
    /// Whether the key itself is revoked. A subkey is also void if its primary key is revoked.
    pub revoked: bool,
    /// Whether a good self-signature binds the key.
    pub bound: bool,
    /// The newest self-signature, if all that would bind the key have a broken hash function.
    /// Whether these count is in [`Self::bound`].
    pub weak: Option<Weak>,
    /// Whether it has too few bits to be used. By the rules of GnuPG no key has.
    pub short: bool,
    /// What it may not be used for, although it is among [`Self::capabilities`]. A subkey for
    /// signing that has not signed the primary key may be somebody else's, so it may not sign, and
    /// by the strict rules it serves nothing. A primary key may have flags that do not let it
    /// certify.
    pub withheld: Capabilities,
}

impl KeySummary {
    /// Whether this program knows the algorithm:
    /// [`Key::has_known_algorithm`](crate::Key::has_known_algorithm).
    #[must_use]
    pub fn has_known_algorithm(&self) -> bool {
        key::has_known_algorithm(self.algorithm, self.curve)
    }

    /// Whether all versions of GnuPG in use know a primary key of this kind:
    /// [`Key::is_known_to_gnupg`](crate::Key::is_known_to_gnupg).
    #[must_use]
    pub fn is_known_to_gnupg(&self) -> bool {
        key::is_known_to_gnupg(self.fingerprint.version(), self.algorithm, self.curve)
    }
}

/// A user ID or user attribute in a summary.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UserIdSummary {
    /// The text of a user ID, or the description of an attribute.
    pub content: UserIdContent,
    /// Creation time of the deciding self-signature, in seconds since 1970; 0 if there is no such
    /// signature or it is void.
    pub created: u32,
    /// Expiry time of that signature, 0 for never.
    pub expires: u32,
    /// Whether the user ID is revoked and has no newer certification.
    pub revoked: bool,
    /// Whether this is the primary user ID, shown where there is room for only one.
    pub primary: bool,
    /// The newest certification by the owner, if all have a broken hash function. Whether these
    /// count is in [`Self::created`].
    pub weak: Option<Weak>,
}

/// The content of a user ID packet or user attribute packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UserIdContent {
    /// The bytes of a user ID, UTF-8 by convention.
    Text(Vec<u8>),
    /// A user attribute, described by its number of subpackets, its length and its RIPEMD-160
    /// digest.
    Attribute {
        /// Number of subpackets (RFC 9580, section 5.12).
        count: u32,
        /// Number of bytes of the packet body.
        bytes: u32,
        /// Digest of the packet body, by which GnuPG names the attribute.
        digest: [u8; 20],
    },
}

/// A designated revoker in a summary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RevokerSummary {
    /// The revoker's key and class.
    pub revoker: Revoker,
    /// Whether the revoker's certificate is available, and whether the revoker has revoked the key.
    pub state: RevokerState,
}

/// The span of time for which a summary is true, in seconds since 1970.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    /// The first second of the span.
    pub from: u32,
    /// The first second after the span, `u32::MAX` for no end.
    pub until: u32,
}

/// The summary of a certificate for listings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Summary {
    /// The primary key.
    pub primary: KeySummary,
    /// User IDs and attributes, in canonical order.
    pub user_ids: Vec<UserIdSummary>,
    /// Subkeys in canonical order, which is the order of their creation.
    pub subkeys: Vec<KeySummary>,
    /// Designated revokers of the key.
    pub revokers: Vec<RevokerSummary>,
    /// Number of signature packets.
    pub signatures: u32,
    /// Whether all self-signatures were verified ([`crate::Verification::Full`]).
    pub checked: bool,
    /// Whether a direct-key signature is in force: it speaks for the primary key without a user ID.
    pub direct: bool,
    /// Whether GnuPG's rules ([`Rules::Gnupg`]) come to another summary than the standard rules.
    pub gnupg_differs: bool,
    /// The span of time for which the summary is true.
    pub holds: Span,
}

impl Summary {
    /// Computes the summary of `cert` at `now` (seconds since 1970), by the standard rules.
    /// `verdicts` are those on its signatures, in canonical order.
    #[must_use]
    pub fn evaluate(cert: &Cert, verdicts: &[Verdict], now: u32) -> Self {
        Self::by(Rules::Standard, cert, verdicts, now)
    }

    /// As [`Self::evaluate`], by other rules.
    #[must_use]
    pub fn by(rules: Rules, cert: &Cert, verdicts: &[Verdict], now: u32) -> Self {
        let has_signed = |subkey| has_signed_back(cert, verdicts, rules, subkey, now);
        Self::with(rules, cert, verdicts, now, has_signed)
    }

    /// The summary by the standard rules at another time. This is one of the same certificate, which
    /// may have lost parts since. No signature is verified for a later time: a subkey that was not
    /// known to have signed the primary key still is not.
    #[must_use]
    pub fn at_another_time(&self, cert: &Cert, verdicts: &[Verdict], now: u32) -> Self {
        if now < self.holds.from {
            // The subkeys that had ended were not asked.
            return Self::evaluate(cert, verdicts, now);
        }
        let had_signed = |subkey| {
            let known = self.subkeys.iter().find(|known| known.fingerprint == subkey);
            known.is_some_and(|known| known.bound && !known.withheld.has(Capabilities::SIGN))
                && back::candidates(cert, verdicts, Rules::Standard, subkey, now).next().is_some()
        };
        Self::with(Rules::Standard, cert, verdicts, now, had_signed)
    }

    /// A summary, for which `has_signed` says which subkeys have signed the primary key.
    fn with(
        rules: Rules,
        cert: &Cert,
        verdicts: &[Verdict],
        now: u32,
        has_signed: impl Fn(Fingerprint) -> bool,
    ) -> Self {
        let evaluation = Evaluation::new(rules, cert, verdicts, now);
        let is_special = evaluation.is_special();
        let mut summary = evaluation.finish().0;
        if rules == Rules::Standard && is_special {
            let gnupg = Self::glance(Rules::Gnupg(Gnupg::default()), cert, verdicts, now);
            summary.gnupg_differs = gnupg != summary.clone().into_gnupg();
        }
        summary.ask_subkeys(rules, cert, verdicts, now, has_signed);
        summary
    }

    /// As [`Self::by`], for questions about the certificate as a whole. No signature is verified: the
    /// summary does not say which subkeys have signed the primary key, nor whether GnuPG's rules
    /// come to another one.
    #[must_use]
    pub fn glance(rules: Rules, cert: &Cert, verdicts: &[Verdict], now: u32) -> Self {
        Evaluation::new(rules, cert, verdicts, now).finish().0
    }

    /// Withholds what subkeys may not be used for because they have not signed the primary key. Of
    /// what has ended, nothing is asked, and the summary does not hold for the time before.
    fn ask_subkeys(
        &mut self,
        rules: Rules,
        cert: &Cert,
        verdicts: &[Verdict],
        now: u32,
        has_signed: impl Fn(Fingerprint) -> bool,
    ) {
        let has_ended = |key: &KeySummary| key.expires != 0 && key.expires < now;
        let is_over = self.primary.revoked || has_ended(&self.primary);
        let primary_expires = self.primary.expires;
        for subkey in self.subkeys.iter_mut().filter(|subkey| subkey.bound && !subkey.revoked) {
            let lacking = lacking_back(rules, subkey.capabilities);
            if lacking.0 == 0 {
                continue;
            }
            if is_over || has_ended(subkey) {
                for ended in [primary_expires, subkey.expires].into_iter().filter(|&e| e < now) {
                    self.holds.note(ended.saturating_add(1), now);
                }
                continue;
            }
            back::times(cert, verdicts, subkey.fingerprint)
                .for_each(|time| self.holds.note(time, now));
            if !has_signed(subkey.fingerprint) {
                subkey.withheld.0 |= lacking.0;
            }
        }
    }

    /// The summary by other rules than the standard ones, of which this is one; as an error, this
    /// one if only the certificate can say what `rules` come to.
    ///
    /// # Errors
    ///
    /// The summary itself, unchanged.
    pub fn under(self, rules: Rules) -> Result<Self, Box<Self>> {
        let is_known = match rules {
            Rules::Standard => return Ok(self),
            Rules::Strict => {
                let is_other = |key: &KeySummary| {
                    key.weak.is_some() || key.withheld.0 != 0 || key::is_elgamal(key.algorithm)
                };
                // The signature of a subkey on the primary key may have a broken hash function.
                !self.keys().any(is_other)
                    && !self.subkeys.iter().any(|key| key.capabilities.has(Capabilities::SIGN))
                    && self.user_ids.len() <= 1
                    && self.user_ids.iter().all(|user_id| user_id.weak.is_none())
            }
            // A subkey that has signed the primary key with a broken hash function has done so for
            // GnuPG.
            Rules::Gnupg(_) => {
                !self.gnupg_differs && self.keys().all(|key| !key.withheld.has(Capabilities::SIGN))
            }
        };
        match rules {
            _ if !is_known => Err(Box::new(self)),
            Rules::Gnupg(_) => Ok(self.into_gnupg()),
            _ => Ok(self),
        }
    }

    /// The summary without what GnuPG does not say: weak signatures, short keys, and primary keys
    /// that may not certify.
    fn into_gnupg(mut self) -> Self {
        for key in std::iter::once(&mut self.primary).chain(&mut self.subkeys) {
            key.weak = None;
            key.short = false;
            key.withheld.0 &= !Capabilities::CERTIFY;
        }
        self.user_ids.iter_mut().for_each(|user_id| user_id.weak = None);
        self
    }

    /// The preferences of the owner at `now`, by `rules`.
    pub(crate) fn preferences<'a>(
        rules: Rules,
        cert: &'a Cert,
        verdicts: &[Verdict],
        now: u32,
    ) -> Preferences<'a> {
        Evaluation::new(rules, cert, verdicts, now).finish().1
    }

    /// Applies the revocations of designated revokers: a key that one of them has revoked by `now`
    /// is revoked, as if by its owner. `look_up` returns the body of a primary key packet, and
    /// `made` the revocations in the certificate by that key, as [`Cert::revocations_by`]. Without
    /// this call the summary has all revokers as unknown. If the owner has revoked the key, the
    /// revokers are not consulted.
    pub fn ask_revokers(
        &mut self,
        now: u32,
        mut look_up: impl FnMut(Fingerprint) -> Option<Vec<u8>>,
        mut made: impl FnMut(Fingerprint, &[u8]) -> Vec<DesignatedRevocation>,
    ) {
        let by_owner = self.primary.revoked;
        for at in 0..self.revokers.len() {
            let revoker = self.revokers[at].revoker;
            let named = revoker.fingerprints().into_iter();
            let mut known = named.map(|by| (by, look_up(by)));
            let Some((by, body)) = known.find_map(|(by, body)| Some((by, body?))) else { continue };
            let mut state = RevokerState::Silent;
            let made = if by_owner { Vec::new() } else { made(by, &body) };
            for revocation in made {
                self.holds.note(revocation.created, now);
                if revocation.has_begun(now) {
                    state = RevokerState::Revoked;
                    self.primary.revoked = true;
                }
            }
            self.revokers[at].state = state;
        }
    }

    /// The designated revokers that have revoked the key.
    pub fn revoked_by(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        let revoked = |revoker: &&RevokerSummary| revoker.state == RevokerState::Revoked;
        self.revokers.iter().filter(revoked).map(|revoker| revoker.revoker.fingerprint)
    }

    /// The fingerprint of the certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.primary.fingerprint
    }

    /// The primary key and the subkeys.
    pub fn keys(&self) -> impl Iterator<Item = &KeySummary> {
        std::iter::once(&self.primary).chain(&self.subkeys)
    }

    /// The state of the primary key.
    #[must_use]
    pub fn validity(&self, now: u32) -> Validity {
        self.key_validity(&self.primary, now)
    }

    /// The state of one of the keys. A subkey is never in a better state than the primary key.
    #[must_use]
    pub fn key_validity(&self, key: &KeySummary, now: u32) -> Validity {
        let own = |key: &KeySummary| match key {
            KeySummary { bound: false, .. } => Validity::Invalid,
            KeySummary { revoked: true, .. } => Validity::Revoked,
            KeySummary { expires: 1.., .. } if key.expires < now => Validity::Expired,
            _ => Validity::Valid,
        };
        // The owner's revocation of the primary key counts without any other signature, as after a
        // redaction of all user IDs.
        let primary = if self.primary.revoked { Validity::Revoked } else { own(&self.primary) };
        if key.fingerprint == self.primary.fingerprint { primary } else { own(key).min(primary) }
    }

    /// The primary user ID, shown where there is room for only one.
    #[must_use]
    pub fn primary_user_id(&self) -> Option<&[u8]> {
        let texts = || {
            self.user_ids.iter().filter_map(|user_id| match &user_id.content {
                UserIdContent::Text(text) => Some((user_id.primary, text.as_slice())),
                UserIdContent::Attribute { .. } => None,
            })
        };
        texts().find(|(primary, _)| *primary).or_else(|| texts().next()).map(|(_, text)| text)
    }

    /// The texts of all user IDs.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.user_ids.iter().filter_map(|user_id| match &user_id.content {
            UserIdContent::Text(text) => Some(text.as_slice()),
            UserIdContent::Attribute { .. } => None,
        })
    }

    /// The capabilities that the certificate as a whole has at `now`.
    #[must_use]
    pub fn usable(&self, now: u32) -> Capabilities {
        let mut usable = 0;
        for key in self.keys().filter(|key| self.key_validity(key, now) == Validity::Valid) {
            usable |= key.capabilities.0;
        }
        Capabilities(usable)
    }
}

impl UserIdSummary {
    /// The state of the user ID, without regard to its key.
    #[must_use]
    pub fn validity(&self, now: u32) -> Validity {
        match self {
            Self { revoked: true, .. } => Validity::Revoked,
            Self { expires: 1.., .. } if self.expires <= now => Validity::Expired,
            Self { created: 0, .. } => Validity::Invalid,
            _ => Validity::Valid,
        }
    }
}

/// What the owner of a certificate prefers: the subpackets of the deciding signatures, on the
/// primary user ID and then on the primary key.
#[derive(Clone, Copy, Debug)]
pub struct Preferences<'a>([&'a [u8]; 2]);

impl<'a> Preferences<'a> {
    /// The body of the first subpacket of a type (RFC 9580, section 5.2.3.7).
    #[must_use]
    pub fn get(&self, kind: u8) -> Option<&'a [u8]> {
        let subpackets = self.0.into_iter().flat_map(|area| Subpackets(area).flatten());
        subpackets.into_iter().find(|subpacket| subpacket.kind == kind).map(|found| found.body)
    }
}

/// The evaluation of one certificate.
struct Evaluation<'a> {
    rules: Rules,
    cert: &'a Cert,
    now: u32,
    components: Vec<Component<'a>>,
    span: Span,
    checked: bool,
}

/// A key, user ID or user attribute, and the signatures of the owner on it that count now.
struct Component<'a> {
    packet: PacketRef<'a>,
    signatures: Vec<Signature<'a>>,
    /// The newest signature that does not count for its hash function.
    refused: Option<Weak>,
    /// Whether it has signatures with a broken hash function that are no revocations.
    has_weak: bool,
}

/// Statements about the primary key in the deciding self-signature of a user ID.
struct Claim {
    /// 0 for a user ID that is revoked or expired.
    created: u32,
    weak: Option<Weak>,
    flags: Option<Capabilities>,
    key_expires: u32,
}

impl<'a> Evaluation<'a> {
    fn new(rules: Rules, cert: &'a Cert, verdicts: &[Verdict], now: u32) -> Self {
        let mut this = Self {
            rules,
            cert,
            now,
            components: Vec::with_capacity(4),
            span: Span { from: 0, until: u32::MAX },
            checked: true,
        };
        let created =
            cert.packets().next().and_then(|p| Key::parse(p).ok()).map_or(0, |k| k.created);
        let mut verdicts = verdicts.iter().copied();
        for packet in cert.packets() {
            if packet.tag != Tag::SIGNATURE {
                let signatures = Vec::new();
                let component = Component { packet, signatures, refused: None, has_weak: false };
                this.components.push(component);
                continue;
            }
            let verdict = verdicts.next().unwrap_or(Verdict::Unchecked);
            this.checked &= verdict != Verdict::Unchecked;
            if verdict != Verdict::Good {
                continue;
            }
            let signature = Signature::parse(packet.body).filter(|signature| {
                signature.created >= created && signature.understood(&Context::Certificate).is_ok()
            });
            if let (Some(signature), Some(component)) = (signature, this.components.last_mut()) {
                this.span.note(signature.created, now);
                this.span.note(signature.expires, now);
                if signature.has_begun(now) {
                    component.signatures.push(signature);
                }
            }
        }
        this.components.iter_mut().for_each(|component| component.refuse_weak(rules));
        this
    }

    /// Whether a signature holds only until it expires: the revocation of a certification, except in
    /// GnuPG.
    fn ends(&self, signature: &Signature<'_>) -> bool {
        signature.kind == kind::CERTIFICATION_REVOCATION && !matches!(self.rules, Rules::Gnupg(_))
    }

    fn expired(&self, signature: &Signature<'_>) -> bool {
        signature.expires != 0 && signature.expires <= self.now
    }

    fn finish(self) -> (Summary, Preferences<'a>) {
        let mut primary = None;
        let mut user_ids = Vec::with_capacity(2);
        let mut areas = Vec::with_capacity(2);
        let mut claims = Vec::new();
        let mut subkeys = Vec::with_capacity(2);
        let mut revokers: Vec<Revoker> = Vec::new();
        let mut direct = None;
        let mut refused = None;
        for component in &self.components {
            let Component { packet, signatures, .. } = component;
            match packet.tag {
                Tag::PUBLIC_KEY => {
                    let Ok(key) = Key::parse(*packet) else { continue };
                    for signature in signatures.iter().filter(|s| s.kind == kind::DIRECT_KEY) {
                        revokers.extend(signature.revokers());
                    }
                    direct = self.newest(signatures, |s| s.kind == kind::DIRECT_KEY);
                    refused = component.refused;
                    let revoked = signatures.iter().any(|s| s.kind == kind::KEY_REVOCATION);
                    primary = Some((key, revoked));
                }
                Tag::USER_ID | Tag::USER_ATTRIBUTE => {
                    let created =
                        primary.as_ref().map_or(0, |(key, _): &(Key<'_>, bool)| key.created);
                    let (summary, claim, area) = self.user_id(component, created);
                    areas.push(area);
                    refused = refused.max(component.refused);
                    user_ids.push(summary);
                    claims.push(claim);
                }
                Tag::PUBLIC_SUBKEY => subkeys.extend(self.subkey(component)),
                _ => {}
            }
        }
        let (key, revoked) = primary.expect("a certificate starts with its primary key");
        choose_primary(&mut user_ids);
        if self.rules == Rules::Strict
            && let Some(at) = user_ids.iter().position(|user_id| user_id.primary)
            && claims[at].is_some()
        {
            // One user ID speaks for the key, not the newest signature of all.
            claims = vec![claims.swap_remove(at)];
        }
        let mut claims: Vec<Claim> = claims.into_iter().flatten().collect();
        let primary_area = user_ids.iter().zip(&areas).find(|(user_id, _)| user_id.primary);
        let primary_area = primary_area.map_or(&[][..], |(_, area)| area);
        revokers.sort_unstable();
        revokers.dedup();
        let unknown = |revoker| RevokerSummary { revoker, state: RevokerState::Unknown };
        let revokers = revokers.into_iter().map(unknown).collect();
        let mut summary = self.unbound(&key);
        summary.fingerprint = self.cert.fingerprint();
        summary.revoked = revoked;
        summary.bound = direct.is_some() || !claims.is_empty();
        // What a weak signature says about the key does not count beside a better one.
        let direct_weakness = direct.and_then(|direct| self.rules.weakness(direct));
        let speaks = |claim: &&Claim| claim.created != 0;
        let is_sound = direct.is_some_and(|_| direct_weakness.is_none())
            || claims.iter().filter(speaks).any(|claim| claim.weak.is_none());
        if is_sound {
            direct = direct.filter(|_| direct_weakness.is_none());
            claims.retain(|claim| claim.weak.is_none());
        } else {
            let weak = claims.iter().filter_map(|claim| claim.weak);
            summary.weak = weak.chain(direct_weakness).chain(refused).max();
        }
        let newest = |claims: &[Claim], which: fn(&Claim) -> bool| {
            let mut best: Option<usize> = None;
            for (at, claim) in claims.iter().enumerate().filter(|(_, claim)| which(claim)) {
                if best.is_none_or(|best| claim.created > claims[best].created) {
                    best = Some(at);
                }
            }
            best
        };
        let flags = direct
            .and_then(|s| s.key_flags)
            .map(Capabilities::from_flags)
            .or_else(|| newest(&claims, |c| c.flags.is_some()).and_then(|at| claims[at].flags));
        summary.capabilities = self.capabilities(key.algorithm, flags);
        summary.capabilities.0 |= Capabilities::CERTIFY;
        summary.expires = match direct.map(|s| s.key_expires_after) {
            _ if key.version == 3 => u32::from(key.days_valid)
                .checked_mul(86_400)
                .filter(|&days| days != 0)
                .map_or(0, |days| key.created.saturating_add(days)),
            Some(after @ 1..) => key.created.saturating_add(after),
            _ => newest(&claims, |c| c.key_expires != 0).map_or(0, |at| claims[at].key_expires),
        };
        let preferences = Preferences([primary_area, direct.map_or(&[], |s| s.hashed_area)]);
        let flags = preferences.get(KEY_FLAGS).and_then(|flags| flags.first());
        if flags.is_some_and(|flags| flags & 1 == 0) && !matches!(self.rules, Rules::Gnupg(_)) {
            summary.withheld.0 |= Capabilities::CERTIFY;
        }
        let summary = Summary {
            primary: summary,
            user_ids,
            subkeys,
            revokers,
            signatures: u32::try_from(self.cert.signature_count()).unwrap_or(u32::MAX),
            checked: self.checked,
            direct: direct.is_some(),
            gnupg_differs: false,
            holds: self.span,
        };
        (summary, preferences)
    }

    /// Whether other rules may come to another summary.
    fn is_special(&self) -> bool {
        self.components.iter().any(|component| {
            let mut signatures = component.signatures.iter();
            component.has_weak || signatures.any(|s| self.ends(s) && self.expired(s))
        })
    }

    /// The newest unexpired signature of one kind; among equally new ones the last.
    fn newest<'s>(
        &self,
        signatures: &'s [Signature<'a>],
        which: impl Fn(&Signature<'_>) -> bool,
    ) -> Option<&'s Signature<'a>> {
        signatures.iter().filter(|s| which(s) && !self.expired(s)).max_by_key(|s| s.created)
    }

    fn user_id(
        &self,
        component: &Component<'a>,
        key_created: u32,
    ) -> (UserIdSummary, Option<Claim>, &'a [u8]) {
        let Component { packet, signatures, refused, .. } = component;
        let content = if packet.tag == Tag::USER_ID {
            UserIdContent::Text(packet.body.to_vec())
        } else {
            attribute(packet.body)
        };
        let mut summary = UserIdSummary {
            content,
            created: 0,
            expires: 0,
            revoked: false,
            primary: false,
            weak: None,
        };
        // The newest signature decides. If it has expired, the user ID has expired too.
        let mut claim = Claim { created: 0, weak: None, flags: None, key_expires: 0 };
        let counts = |s: &&Signature<'_>| s.binds() && !(self.ends(s) && self.expired(s));
        let newest = signatures.iter().filter(counts).max_by_key(|s| s.created);
        let Some(newest) = newest else {
            summary.weak = *refused;
            return (summary, None, &[]);
        };
        if newest.kind == kind::CERTIFICATION_REVOCATION {
            summary.revoked = true;
            // The revocation shows that the user ID was once bound, which is enough to bind the key
            // too.
            return (summary, Some(claim), &[]);
        }
        summary.expires = newest.expires;
        summary.weak = self.rules.weakness(newest);
        claim.weak = summary.weak;
        if !self.expired(newest) {
            summary.created = newest.created;
            summary.primary = newest.primary_user_id;
            claim.created = newest.created;
            claim.flags = newest.key_flags.map(Capabilities::from_flags);
            if newest.key_expires_after != 0 {
                claim.key_expires = key_created.saturating_add(newest.key_expires_after);
            }
        }
        (summary, Some(claim), newest.hashed_area)
    }

    /// What a key with these flags can do.
    fn capabilities(&self, algorithm: u8, flags: Option<Capabilities>) -> Capabilities {
        let mut able = capabilities(algorithm, flags);
        if self.rules == Rules::Strict && key::is_elgamal(algorithm) {
            able.0 &= !Capabilities::ENCRYPT;
        }
        able
    }

    /// A key of which no signature says anything.
    fn unbound(&self, key: &Key<'_>) -> KeySummary {
        let is_gnupg = matches!(self.rules, Rules::Gnupg(_));
        KeySummary {
            fingerprint: key.fingerprint(),
            algorithm: key.algorithm,
            bits: key.bits(),
            curve: key.curve(),
            created: key.created,
            expires: 0,
            capabilities: Capabilities::default(),
            revoked: false,
            bound: false,
            weak: None,
            short: !is_gnupg && key::is_short(key.algorithm, key.bits()),
            withheld: Capabilities::default(),
        }
    }

    fn subkey(&self, component: &Component<'_>) -> Option<KeySummary> {
        let Component { packet, signatures, refused, .. } = component;
        let key = Key::parse(*packet).ok()?;
        let mut summary = self.unbound(&key);
        summary.revoked = signatures.iter().any(|s| s.kind == kind::SUBKEY_REVOCATION);
        summary.weak = *refused;
        if let Some(binding) = self.newest(signatures, |s| s.kind == kind::SUBKEY_BINDING) {
            summary.bound = true;
            summary.weak = self.rules.weakness(binding);
            let flags = binding.key_flags.map(Capabilities::from_flags);
            summary.capabilities = self.capabilities(key.algorithm, flags);
            if binding.key_expires_after != 0 {
                summary.expires = key.created.saturating_add(binding.key_expires_after);
            }
        }
        Some(summary)
    }
}

impl Component<'_> {
    /// Removes the signatures that do not count for their hash functions. Revocations stay.
    fn refuse_weak(&mut self, rules: Rules) {
        let is_weak =
            |signature: &Signature<'_>| !signature.revokes() && Weak::of(signature).is_some();
        self.has_weak = self.signatures.iter().any(is_weak);
        if !self.has_weak {
            return;
        }
        // A user ID that was revoked is not brought back by a weak signature.
        let is_better = |signature: &Signature<'_>| match signature.kind {
            kind::CERTIFICATION_REVOCATION => true,
            kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION => false,
            _ => signature.binds() && Weak::of(signature).is_none(),
        };
        let better = self.signatures.iter().any(is_better);
        let mut refused = None;
        self.signatures.retain(|signature| {
            let counts = signature.revokes() || rules.count(signature, better);
            if !counts {
                refused = refused.max(Weak::of(signature));
            }
            counts
        });
        self.refused = refused.filter(|_| !better);
    }
}

impl Span {
    /// Shortens the span to the side of `time` that contains `now`.
    pub fn note(&mut self, time: u32, now: u32) {
        if time != 0 && time <= now {
            self.from = self.from.max(time);
        } else if time != 0 {
            self.until = self.until.min(time);
        }
    }

    /// Whether `now` is within the span.
    #[must_use]
    pub fn contains(self, now: u32) -> bool {
        (self.from..self.until).contains(&now)
    }
}

/// What a subkey with these capabilities may not be used for until it has signed the primary key.
pub(crate) fn lacking_back(rules: Rules, capabilities: Capabilities) -> Capabilities {
    if !capabilities.has(Capabilities::SIGN) {
        return Capabilities::default();
    }
    if rules == Rules::Strict { capabilities } else { Capabilities(Capabilities::SIGN) }
}

fn capabilities(algorithm: u8, flags: Option<Capabilities>) -> Capabilities {
    match (flags, Capabilities::of_algorithm(algorithm)) {
        (Some(flags), Some(able)) => Capabilities(flags.0 & able.0),
        (Some(flags), None) => flags,
        (None, able) => able.unwrap_or_default(),
    }
}

/// Keeps the primary mark on exactly one user ID: the newest that claims it, else the newest of
/// all. Among equals the longest text wins, then the last in byte order.
fn choose_primary(user_ids: &mut [UserIdSummary]) {
    fn key(user_id: &UserIdSummary) -> (bool, u32, usize, &[u8]) {
        let text: &[u8] = match &user_id.content {
            UserIdContent::Text(text) => text,
            UserIdContent::Attribute { .. } => &[],
        };
        (user_id.primary, user_id.created, text.len(), text)
    }
    let chosen = (0..user_ids.len())
        .filter(|&at| matches!(user_ids[at].content, UserIdContent::Text(_)))
        .max_by(|&a, &b| key(&user_ids[a]).cmp(&key(&user_ids[b])));
    for (at, user_id) in user_ids.iter_mut().enumerate() {
        user_id.primary = Some(at) == chosen;
    }
}

fn attribute(body: &[u8]) -> UserIdContent {
    use ripemd::Digest as _;
    let (mut count, mut rest) = (0, body);
    while let Some((&first, behind)) = rest.split_first() {
        let (len, header) = match first {
            0..=191 => (usize::from(first), 0),
            192..=254 => match behind.first() {
                Some(&b) => (((usize::from(first) - 192) << 8) + usize::from(b) + 192, 1),
                None => break,
            },
            255 => match behind.first_chunk::<4>() {
                Some(&len) => (u32::from_be_bytes(len) as usize, 4),
                None => break,
            },
        };
        let Some(next) = behind.get(header..).and_then(|b| b.get(len..)) else { break };
        (count, rest) = (count + 1, next);
    }
    UserIdContent::Attribute {
        count,
        bytes: u32::try_from(body.len()).unwrap_or(u32::MAX),
        digest: ripemd::Ripemd160::digest(body).into(),
    }
}
