//! The parts of a certificate that a keyserver serves: only components that the owner has signed,
//! with a limited number of third-party signatures, and only packets that other programs can read.
//!
//! GnuPG refuses a whole certificate for one packet that it cannot read, so a stranger's packet
//! could keep a revocation away. It also believes the unhashed area of a signature, which anybody
//! can change. So each signature is served once, as the best of its packets: with issuers, and at
//! most one back signature, which verifies.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::str::FromStr;

use crate::attestation::Attested;
use crate::cert::Cert;
use crate::classes::{CLASSES, admitted, class_of, essential_bytes};
use crate::critical::is_known_subpacket;
use crate::fields::Fields;
use crate::fingerprint::{Fingerprint, KeyId};
use crate::identity::{NUMBER_BITS_MAX, Variant, Variants, named};
use crate::key::Key;
use crate::packet::{self, PacketRef};
use crate::signature::{Signature, Subpacket, Subpackets, issuer_of, kind};
use crate::tag::Tag;
use crate::unhashed::{EMBEDDED_SIGNATURE, ISSUER, ISSUER_FINGERPRINT, write};
use crate::verdict::Verdict;
use crate::verify::{KeySetup, MD5, PrimaryKeyVerifier, fits};

/// The signatures of other keys that are served.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ThirdParty {
    /// Those that were verified ([`Verdict::is_certified`]) or that the owner has attested, and
    /// revocations by revokers whom the owner named. The issuers of the latter two may be unknown.
    #[default]
    Verified,
    /// All that other programs can read.
    All,
    /// Only revocations by revokers whom the owner named. No setting chooses this.
    Revocations,
}

impl ThirdParty {
    /// The name of the choice: "verified", "all" or "revocations".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::All => "all",
            Self::Revocations => "revocations",
        }
    }
}

impl FromStr for ThirdParty {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, &'static str> {
        let found = [Self::Verified, Self::All].into_iter().find(|choice| choice.name() == name);
        found.ok_or("the third-party signatures to serve are \"verified\", or \"all\"")
    }
}

/// The revocations in the name of each named revoker that are kept, and served, before all other
/// signatures of other keys.
pub const DESIGNATED_MAX: usize = 4;

/// The parts to serve beyond those that the owner has signed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Serving {
    /// Which third-party signatures are served.
    pub third_party: ThirdParty,
    /// Maximum number of third-party signatures on the whole certificate, for packets of up to 1
    /// KiB, and an eighth of it for each longer size class ([`crate::Limits::largest`]):
    /// revocations by revokers whom the owner named, at most [`DESIGNATED_MAX`] that were verified
    /// and as many others in the name of each, then signatures that the owner has attested, then
    /// those of keys that the owner has certified, then others that were verified, then the rest,
    /// each by their SHA-256.
    pub foreign_signatures: usize,
    /// Whether user attributes (photos) are served.
    pub attributes: bool,
}

/// Maximum bytes of a user ID that GnuPG reads. A longer one is not served.
pub const USER_ID_BYTES_MAX: usize = 2048;

/// Maximum bytes of an area of subpackets and of a key that GnuPG reads.
const AREA_BYTES_MAX: usize = 10_000;
const KEY_BYTES_MAX: usize = 256 << 10;

/// Maximum number of back signatures that are tried in one area of subpackets. Real ones have one,
/// seldom two.
pub(crate) const BACK_SIGNATURES_MAX: usize = 4;

/// CPU time for the back signatures of one certificate, by the model of [`Cert::cost`], in
/// nanoseconds. A certificate that needs more is served without the rest of those that are not
/// signed.
const BACK_SIGNATURES_NS: u64 = 50_000_000;

/// Maximum number of issuers in a signature that is written anew.
const ISSUERS_MAX: usize = 4;

/// The worth of a third-party signature, the best first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Class {
    /// A revocation by a revoker whom the owner named.
    Revocation,
    /// The same in the name of a revoker, who may be unknown.
    RevocationInTheName,
    /// Attested by the owner.
    Attested,
    /// Made by a key in the store that the owner has certified.
    Mutual,
    /// Made by another key in the store.
    Verified,
    Unverified,
}

impl Class {
    /// Whether it is for revocations in the name of a revoker.
    fn is_designated(self) -> bool {
        matches!(self, Self::Revocation | Self::RevocationInTheName)
    }

    fn is_verified(self) -> bool {
        matches!(self, Self::Mutual | Self::Verified)
    }
}

/// How a packet is served.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Form {
    LeftOut,
    Original,
    /// With another body.
    Rewritten(Vec<u8>),
}

/// A good signature of the owner.
struct Own<'a> {
    /// The number of newer ones on the same component.
    newer: usize,
    component: PacketRef<'a>,
    variants: Variants<'a>,
    signature: Signature<'a>,
}

/// A third-party signature that may be served.
struct Foreign<'a> {
    /// The place of the component, and the component.
    at: usize,
    component: PacketRef<'a>,
    class: Class,
    variants: Variants<'a>,
    signature: Signature<'a>,
}

impl Foreign<'_> {
    /// Whether it is a verified revocation of certifications.
    fn is_sure_revocation(&self) -> bool {
        self.class.is_verified() && self.signature.kind == kind::CERTIFICATION_REVOCATION
    }

    /// Counts the signature in its size class, and returns whether a limit admits it. Without
    /// classes, a few long signatures would make the certificate longer than GnuPG reads.
    fn counts_within(&self, counts: &mut [usize; CLASSES], limit: usize) -> bool {
        let class = class_of(essential_bytes(&self.signature));
        counts[class] += 1;
        counts[class] <= admitted(limit, class)
    }
}

/// Whether a limit admits all signatures.
fn all_fit(foreign: &[Foreign<'_>], limit: usize) -> bool {
    let mut counts = [0; CLASSES];
    foreign.iter().all(|one| one.counts_within(&mut counts, limit))
}

impl Cert {
    /// The certificate as a keyserver serves it. It has the good, exportable self-signatures, the
    /// components that have such a signature, and the third-party signatures on them that `serving`
    /// chooses.
    ///
    /// `None` if nothing changes. `verdicts` are those on all signatures, in canonical order.
    #[must_use]
    pub fn served(&self, verdicts: &[Verdict], serving: Serving) -> Option<Self> {
        let mut hints = Hints::of_bounded_cost(self)?;
        let mut servable = self.servable(verdicts, serving, &hints);
        let mut parts: Vec<Form> = self.packets().map(|_| Form::LeftOut).collect();
        for &at in &servable.components {
            parts[at] = Form::Original;
        }
        // Nobody else can make a newer one, so the newest of each component come first if the time
        // is not enough for all.
        servable.owners.sort_by_key(|own| own.newer);
        for Own { component, variants, signature, .. } in &servable.owners {
            let (at, part) = hints.own(*component, variants, signature);
            parts[at] = part;
        }
        servable.choose_foreign(serving);
        for one in &servable.foreign {
            if let Some((at, part)) = hints.of_other(one) {
                parts[at] = part;
            }
        }
        self.with_parts(&parts)
    }

    /// The components that the owner has signed, and the signatures on them that may be served.
    fn servable(&self, verdicts: &[Verdict], serving: Serving, hints: &Hints<'_>) -> Servable<'_> {
        let others = verdicts.iter().filter(|verdict| verdict.is_by_others()).count();
        let mut servable = Servable {
            components: Vec::new(),
            owners: Vec::new(),
            foreign: Vec::with_capacity(others),
            revokers: BTreeMap::new(),
        };
        let mut verdicts = verdicts.iter().copied();
        let mut packets = self.packets().enumerate().peekable();
        let (mut bodies, mut judged) = (Vec::new(), Vec::new());
        while let Some((at, component)) = packets.next() {
            bodies.clear();
            judged.clear();
            while let Some((on, packet)) = packets.next_if(|(_, p)| p.tag == Tag::SIGNATURE) {
                bodies.push((on, packet.body));
                judged.push(verdicts.next().unwrap_or(Verdict::Unchecked));
            }
            if at > 0 && !hints.is_readable(component, serving) {
                continue;
            }
            // The primary key stays even without a signature on it.
            let mut is_bound = at == 0;
            let before = (servable.owners.len(), servable.foreign.len());
            let verdict = |variant: &Variant<'_>| judged[variant.at - at - 1];
            for variants in Variants::of(bodies.iter().copied()) {
                is_bound |= servable.add((at, component), variants, &verdict, hints);
            }
            servable.end(at, is_bound, before);
        }
        servable
    }

    /// The certificate with its packets as they are served. `None` if nothing changes.
    fn with_parts(&self, parts: &[Form]) -> Option<Self> {
        if parts.iter().all(|part| *part == Form::Original) {
            return None;
        }
        if !parts.iter().any(|part| matches!(part, Form::Rewritten(_))) {
            return Some(self.retain(|at, _| parts[at] == Form::Original));
        }
        let mut raw = Vec::with_capacity(self.as_bytes().len());
        for (original, part) in self.packets().zip(parts) {
            match part {
                Form::LeftOut => {}
                Form::Original => packet::write(&mut raw, original.tag, original.body),
                Form::Rewritten(body) => packet::write(&mut raw, original.tag, body),
            }
        }
        // The packets written above can be read. Those on a component may have another order now.
        Self::parse_in_place(&raw).ok()
    }

    /// Whether other programs can read the primary key. If not, no part of the certificate can be
    /// served.
    #[must_use]
    pub fn has_readable_key(&self) -> bool {
        let primary = self.packets().next();
        primary
            .is_some_and(|packet| packet.body.len() <= KEY_BYTES_MAX && has_short_numbers(packet))
    }
}

/// The parts of a certificate that may be served.
struct Servable<'a> {
    /// The places of the components that the owner has signed.
    components: Vec<usize>,
    owners: Vec<Own<'a>>,
    foreign: Vec<Foreign<'a>>,
    /// The revokers whom the owner named, by key ID.
    revokers: BTreeMap<KeyId, BTreeSet<Fingerprint>>,
}

impl<'a> Servable<'a> {
    /// Adds a signature on a component if it may be served. Whether it binds the component to the
    /// certificate.
    fn add(
        &mut self,
        (at, component): (usize, PacketRef<'a>),
        mut variants: Variants<'a>,
        verdict: &dyn Fn(&Variant<'_>) -> Verdict,
        hints: &Hints<'_>,
    ) -> bool {
        let Some(signature) = variants.signature() else { return false };
        if !signature.exportable || !hints.can_be_read(&signature) {
            return false;
        }
        if variants.0.iter().any(|variant| verdict(variant) == Verdict::Good) {
            if at == 0 {
                for named in signature.revokers().flat_map(|r| r.fingerprints()) {
                    self.revokers.entry(named.key_id()).or_default().insert(named);
                }
            }
            self.owners.push(Own { newer: 0, component, variants, signature });
            return signature.binds();
        }
        if !is_for_others(component.tag, &signature) {
            return false;
        }
        let is_certified = |v: &Variant<'_>| verdict(v).is_certified();
        let is_mutual = |v: &Variant<'_>| verdict(v) == Verdict::Mutual;
        let class = match verdict(&variants.0[0]) {
            _ if variants.0.iter().any(is_mutual) => Class::Mutual,
            _ if variants.0.iter().any(is_certified) => Class::Verified,
            Verdict::Foreign | Verdict::Other => Class::Unverified,
            _ => return false,
        };
        if class.is_verified() {
            // The others name another key.
            variants.0.retain(is_certified);
        }
        let names_owner = signature.signed_fingerprints().any(|name| name == hints.fingerprint);
        if !names_owner && hints.can_be_read_of_others(&signature) {
            self.foreign.push(Foreign { at, component, class, variants, signature });
        }
        false
    }

    /// Ends a component, of which the signatures were added after so many of the owner and of
    /// others.
    fn end(&mut self, at: usize, is_bound: bool, (owners, foreign): (usize, usize)) {
        if !is_bound {
            // The owner's attestation does not make a user ID the owner's.
            self.owners.truncate(owners);
            self.foreign.truncate(foreign);
            return;
        }
        self.components.push(at);
        let own = &mut self.owners[owners..];
        own.sort_by_key(|own| Reverse(own.signature.created));
        own.iter_mut().enumerate().for_each(|(newer, own)| own.newer = newer);
        let attested = Attested::by(own.iter().map(|own| own.signature));
        for one in self.foreign.iter_mut().skip(foreign) {
            if !attested.is_empty() && attested.names_one(&one.variants) {
                one.class = Class::Attested;
                // Clients compare the digests of what they get.
                one.variants.0.retain(|variant| attested.names(variant));
            }
        }
    }

    /// Chooses the third-party signatures to serve.
    fn choose_foreign(&mut self, serving: Serving) {
        let Self { owners, foreign, revokers, .. } = self;
        put_designated_first(foreign, revokers);
        foreign.retain(|one| {
            let is_designated = one.class.is_designated();
            match serving.third_party {
                _ if one.signature.kind == kind::KEY_REVOCATION => is_designated,
                ThirdParty::Verified => one.class < Class::Unverified,
                ThirdParty::All => true,
                ThirdParty::Revocations => is_designated,
            }
        });
        // GnuPG takes two signatures with the same numbers for one, whatever they sign, and drops
        // either of them. Of others with the same numbers, the best is served. Which of the
        // revocations by an unknown revoker are genuine is not known.
        if !all_fit(foreign, serving.foreign_signatures) || has_twins(owners, foreign) {
            foreign.sort_by_cached_key(|one| (one.class, one.signature.id()));
            let mut values: HashSet<_> = owners.iter().map(|own| own.signature.value()).collect();
            foreign.retain(|one| {
                values.insert(one.signature.value()) || one.class == Class::RevocationInTheName
            });
            keep_within(foreign, serving.foreign_signatures);
        }
        // Behind the limit, which may have left a certification out.
        drop_revocations_of_nothing(foreign);
    }
}

/// Whether no number of a key is longer than GnuPG reads.
fn has_short_numbers(packet: PacketRef<'_>) -> bool {
    let Ok(key) = Key::parse(packet) else { return false };
    let mut fields = Fields(packet.body);
    let header = match key.version {
        3 => 8,
        4 => 6,
        _ => 10,
    };
    if fields.take(header).is_none() {
        return false;
    }
    let numbers = match key.algorithm {
        1..=3 => 2,
        16 | 20 => 3,
        17 => 4,
        _ => 0,
    };
    (0..numbers).all(|_| fields.mpi().is_some_and(|number| number.len() * 8 <= NUMBER_BITS_MAX))
}

/// The hints of signatures, such as digest bytes and back signatures, computed or verified with
/// the primary key.
pub(crate) struct Hints<'a> {
    verifier: PrimaryKeyVerifier<'a>,
    fingerprint: Fingerprint,
    id: KeyId,
    version: u8,
    algorithm: u8,
    /// Nanoseconds that are left for back signatures, and the part of them that is for subkeys
    /// without any.
    left_ns: u64,
    spare_ns: u64,
}

impl<'a> Hints<'a> {
    /// `None` if the primary key cannot be read.
    pub(crate) fn new(cert: &'a Cert) -> Option<Self> {
        Self::within(cert, u64::MAX)
    }

    /// As [`Self::new`]. Back signatures above the cost that one certificate may have count as not
    /// made by the subkey.
    pub(crate) fn of_bounded_cost(cert: &'a Cert) -> Option<Self> {
        Self::within(cert, BACK_SIGNATURES_NS)
    }

    /// As [`Self::of_bounded_cost`], for one of the subkeys: each has the same part of the cost. At
    /// least one signature is tried.
    pub(crate) fn of_subkey(cert: &'a Cert) -> Option<Self> {
        let subkeys = cert.packets().filter(|packet| packet.tag == Tag::PUBLIC_SUBKEY).count();
        Self::within(cert, (BACK_SIGNATURES_NS / subkeys.max(1) as u64).max(1))
    }

    fn within(cert: &'a Cert, left_ns: u64) -> Option<Self> {
        let primary = Key::parse(cert.packets().next()?).ok()?;
        let fingerprint = cert.fingerprint();
        Some(Self {
            left_ns,
            spare_ns: left_ns / 2,
            version: primary.version,
            algorithm: primary.algorithm,
            verifier: PrimaryKeyVerifier::new(primary),
            fingerprint,
            id: fingerprint.key_id(),
        })
    }

    /// The first 16 bits of the digest that a signature on `component` signs.
    pub(crate) fn digest_bytes(
        &mut self,
        component: PacketRef<'a>,
        signature: &Signature<'_>,
    ) -> Option<[u8; 2]> {
        let digest = self.verifier.digest_of(component, signature)?;
        digest.as_bytes().first_chunk().copied()
    }

    /// The newest back signature in the unhashed area of a packet that the subkey really made: its
    /// creation time and body.
    pub(crate) fn back_signature<'v>(
        &mut self,
        component: PacketRef<'a>,
        variant: &Variant<'v>,
    ) -> Option<(u32, &'v [u8])> {
        let area = variant.signature?.unhashed_area;
        embedded(area)
            .take(BACK_SIGNATURES_MAX)
            .filter_map(|body| Some((self.verifies_back(component, body)?, body)))
            .max()
    }

    /// The newest back signature in the unhashed areas of all packets that the subkey really made,
    /// as far as there is time. The first one that is found may take all that is left, further ones
    /// only the first half of it: strangers can add false ones.
    fn newest_back_signature<'v>(
        &mut self,
        component: PacketRef<'a>,
        variants: &Variants<'v>,
    ) -> Option<(u32, &'v [u8])> {
        let areas = variants.0.iter().filter_map(|v| v.signature).map(|s| s.unhashed_area);
        let mut tried: Vec<(usize, &[u8])> = areas.flat_map(few_embedded).collect();
        tried.sort_unstable();
        let mut newest = None;
        for (_, body) in tried {
            if newest.is_some() && self.left_ns < self.spare_ns {
                break;
            }
            let made = self.verifies_back(component, body);
            newest = newest.max(made.map(|created| (created, body)));
        }
        newest
    }

    /// The creation time of an embedded signature that the subkey `component` made over the primary
    /// key.
    pub(crate) fn verifies_back(&mut self, component: PacketRef<'a>, body: &[u8]) -> Option<u32> {
        const PRIMARY_KEY_BINDING: u8 = 0x19;
        let signature = Signature::parse(body)?;
        if component.tag != Tag::PUBLIC_SUBKEY
            || signature.kind != PRIMARY_KEY_BINDING
            || signature.hash == MD5
            || !self.can_be_read(&signature)
        {
            return None;
        }
        let subkey = Key::parse(component).ok()?;
        if !fits(&subkey, &signature) || self.left_ns == 0 {
            return None;
        }
        self.left_ns = self.left_ns.saturating_sub(subkey.verification_ns());
        let digest = self.verifier.digest_of(component, &signature)?;
        let value = signature.value();
        let exact = Signature { numbers: &value, ..signature };
        KeySetup::default().made(&subkey, &exact, &digest).then_some(signature.created)
    }

    /// Whether a component other than the primary key can be read by other programs.
    fn is_readable(&self, component: PacketRef<'_>, serving: Serving) -> bool {
        match component.tag {
            Tag::USER_ID => component.body.len() <= USER_ID_BYTES_MAX,
            Tag::USER_ATTRIBUTE => serving.attributes,
            Tag::PUBLIC_SUBKEY => {
                component.body.len() <= KEY_BYTES_MAX
                    && Key::parse(component).is_ok_and(|key| key.version == self.version)
                    && has_short_numbers(component)
            }
            _ => false,
        }
    }

    /// Whether a signature on the certificate can be read by other programs.
    fn can_be_read(&self, signature: &Signature<'_>) -> bool {
        let fits = match signature.version {
            3 => self.version <= 4,
            4 => self.version <= 5,
            version => version == self.version,
        };
        let salt = match (signature.version, signature.hash) {
            (6, 9) => 24,
            (6, 10 | 14) => 32,
            (6, _) => 16,
            _ => 0,
        };
        fits && signature.hashed_area.len() <= AREA_BYTES_MAX
            && signature.salt.len() == salt
            && signature.has_readable_numbers()
    }

    /// The same of a signature of another key, whose algorithm the certificate need not have, and
    /// whose hashed area the owner has not written.
    fn can_be_read_of_others(&self, signature: &Signature<'_>) -> bool {
        // Ed25519 and Ed448 of RFC 9580, which RNP refuses with the whole certificate.
        const NEW: [u8; 2] = [27, 28];
        let is_known = !NEW.contains(&signature.algorithm)
            || self.version == 6
            || NEW.contains(&self.algorithm);
        is_known && (signature.version == 3 || has_readable_subpackets(signature.hashed_area))
    }

    /// The packet of a signature of the owner that is served: its place, and how it is served.
    fn own(
        &mut self,
        component: PacketRef<'a>,
        variants: &Variants<'a>,
        signature: &Signature<'a>,
    ) -> (usize, Form) {
        let first = variants.0[0];
        if let [one] = variants.0[..]
            && let Some(area) = self.own_area(component, signature)
            && area.back <= 1
            && (area.back == 0 || self.may_be_signed_back(component, signature))
            && signature.has_exact_value()
        {
            return (one.at, Form::Original);
        }
        // The back signatures in the hashed area are served in any case.
        let hashed = embedded(signature.hashed_area).take(BACK_SIGNATURES_MAX);
        let signed = hashed.filter_map(|body| self.verifies_back(component, body)).max();
        let back = self.newest_back_signature(component, variants);
        let back = back.filter(|&(created, _)| signed.is_none_or(|signed| created > signed));
        let bytes = self.digest_bytes(component, signature).unwrap_or(signature.digest_prefix);
        for variant in &variants.0 {
            let Some(fields) = variant.signature else { continue };
            let Some(area) = self.own_area(component, &fields) else { continue };
            let has_back = match back {
                None => area.back == 0,
                Some((_, body)) => {
                    area.back == 1 && embedded(fields.unhashed_area).any(|other| other == body)
                }
            };
            if has_back && fields.digest_prefix == bytes && fields.has_exact_value() {
                return (variant.at, Form::Original);
            }
        }
        let mut area = Vec::new();
        if self.version <= 4 {
            write(&mut area, ISSUER, &self.id.0.to_be_bytes());
        } else {
            write(&mut area, ISSUER_FINGERPRINT, &self.fingerprint.to_stored());
        }
        if let Some(back) = back.and_then(|(_, body)| self.exact_back(component, body)) {
            let before = area.len();
            write(&mut area, EMBEDDED_SIGNATURE, &back);
            if area.len() > AREA_BYTES_MAX {
                area.truncate(before);
            }
        }
        (first.at, Form::Rewritten(exact(signature, self.id, &area, bytes)))
    }

    /// Whether the unhashed area has the only back signature, which looks as if the subkey has made
    /// it. GnuPG takes the newest of several, whether it is genuine or not, and fails at one that
    /// the subkey cannot have made.
    fn may_be_signed_back(&mut self, component: PacketRef<'a>, signature: &Signature<'_>) -> bool {
        let mut back = embedded(signature.unhashed_area).filter_map(Signature::parse);
        let Some(back) = back.next() else { return false };
        embedded(signature.hashed_area).next().is_none()
            && Key::parse(component).is_ok_and(|subkey| subkey.algorithm == back.algorithm)
            && self.can_be_read(&back)
            && self.digest_bytes(component, &back) == Some(back.digest_prefix)
    }

    /// A back signature with nothing in it that is not signed.
    fn exact_back(&mut self, component: PacketRef<'a>, body: &[u8]) -> Option<Vec<u8>> {
        let signature = Signature::parse(body)?;
        let bytes = self.digest_bytes(component, &signature)?;
        let issuer = Key::parse(component).ok()?.fingerprint().key_id();
        Some(exact(&signature, issuer, &[], bytes))
    }

    /// The content of the unhashed area of a signature of the owner. `None` if there is anything
    /// but the owner as the issuer, and back signatures on a subkey.
    fn own_area(&self, component: PacketRef<'_>, signature: &Signature<'_>) -> Option<Area> {
        if signature.version == 3 {
            return signature.names(self.id).then_some(Area { back: 0 });
        }
        if signature.unhashed_area.len() > AREA_BYTES_MAX {
            return None;
        }
        let fingerprint = self.fingerprint.to_stored();
        let is_own = |id: &[u8]| id == self.id.0.to_be_bytes();
        let mut back = 0;
        for subpacket in Subpackets(signature.unhashed_area) {
            match subpacket? {
                Subpacket { kind: ISSUER, body, .. } if is_own(body) => {}
                Subpacket { kind: ISSUER_FINGERPRINT, body, .. } if body == fingerprint => {}
                Subpacket { kind: EMBEDDED_SIGNATURE, .. }
                    if component.tag == Tag::PUBLIC_SUBKEY =>
                {
                    back += 1;
                }
                _ => return None,
            }
        }
        signature.says_issuer(is_own).then_some(Area { back })
    }

    /// The packet of a third-party signature that is served, as [`Self::own`]: the one with the
    /// right bytes of the digest and the fewest issuers.
    fn of_other(&mut self, one: &Foreign<'a>) -> Option<(usize, Form)> {
        let Foreign { component, variants, signature, .. } = one;
        let mut bytes = signature.digest_prefix;
        let mut sorted: Vec<&Variant<'a>> = variants.0.iter().collect();
        if sorted.len() > 1 {
            bytes = self.digest_bytes(*component, signature).unwrap_or(bytes);
            let fields =
                |v: &Variant<'a>| v.signature.map(|s| (s.digest_prefix, s.issuers().len()));
            sorted.sort_by_key(|variant| {
                fields(variant).map(|(prefix, issuers)| (prefix != bytes, issuers))
            });
        }
        for variant in sorted {
            let Some(fields) = variant.signature.filter(|s| !s.names(self.id)) else { continue };
            let mut area = Subpackets(fields.unhashed_area);
            let is_plain = fields.unhashed_area.len() <= AREA_BYTES_MAX
                && area.all(|subpacket| {
                    subpacket.is_some_and(|Subpacket { kind, body, .. }| {
                        let is_whole = match (kind, body) {
                            (ISSUER, id) => id.len() == 8,
                            (ISSUER_FINGERPRINT, [4, rest @ ..]) => rest.len() == 20,
                            (ISSUER_FINGERPRINT, [5 | 6, rest @ ..]) => rest.len() == 32,
                            _ => false,
                        };
                        is_whole
                            && signature
                                .signed_issuer
                                .is_none_or(|signed| issuer_of(kind, body) == Some(signed))
                    })
                });
            if is_plain && fields.says_issuer(|_| true) && fields.has_exact_value() {
                return Some((variant.at, Form::Original));
            }
        }
        let mut issuers: BTreeSet<KeyId> = BTreeSet::new();
        if let Some(issuer) = signature.signed_issuer {
            issuers.insert(issuer);
        } else {
            let fields = variants.0.iter().filter_map(|variant| variant.signature);
            issuers.extend(fields.flat_map(|s| s.issuers()).map(|(issuer, _)| issuer));
        }
        // The owner did not make it.
        issuers.remove(&self.id);
        let first = *issuers.first()?;
        let mut area = Vec::new();
        if signature.version <= 5 {
            for issuer in issuers.iter().take(ISSUERS_MAX) {
                write(&mut area, ISSUER, &issuer.0.to_be_bytes());
            }
        } else if signature.signed_issuer.is_none() {
            write(&mut area, ISSUER_FINGERPRINT, &signature.issuer_fingerprint?.to_stored());
        }
        Some((variants.0[0].at, Form::Rewritten(exact(signature, first, &area, bytes))))
    }
}

/// Whether two signatures may have the same numbers, of which one is a third-party signature.
fn has_twins(owners: &[Own<'_>], foreign: &[Foreign<'_>]) -> bool {
    if foreign.is_empty() {
        return false;
    }
    let ours = owners.iter().map(|own| &own.signature);
    let theirs = foreign.iter().map(|one| &one.signature);
    let mut values: Vec<_> = ours.chain(theirs).map(Signature::value).collect();
    values.sort_unstable();
    values.windows(2).any(|two| two[0] == two[1])
}

/// A signature by its SHA-256, and its number among those of other keys.
type Place = ([u8; 32], usize);

/// Gives the class of the first to revocations in the name of each revoker whom the owner named: to
/// some that were verified, and to as many others, each by their SHA-256. What the hashed area
/// names counts for more than hints, which anybody can add.
fn put_designated_first(
    foreign: &mut [Foreign<'_>],
    revokers: &BTreeMap<KeyId, BTreeSet<Fingerprint>>,
) {
    let mut by: BTreeMap<(KeyId, bool), Vec<Place>> = BTreeMap::new();
    for (number, one) in foreign.iter().enumerate() {
        if one.at > 0 || one.signature.kind != kind::KEY_REVOCATION {
            continue;
        }
        let is_verified = one.class.is_verified();
        for issuer in named(&one.variants) {
            let Some(keys) = revokers.get(&issuer) else { continue };
            if keys.iter().any(|key| !one.signature.excludes(|| *key)) {
                by.entry((issuer, is_verified)).or_default().push((one.signature.id(), number));
            }
        }
    }
    for ((_, is_verified), mut revocations) in by {
        let class = if is_verified { Class::Revocation } else { Class::RevocationInTheName };
        revocations.sort_unstable();
        for (_, number) in revocations.into_iter().take(DESIGNATED_MAX) {
            foreign[number].class = foreign[number].class.min(class);
        }
    }
}

/// Keeps the first signatures that a limit admits. A verified revocation of a certification takes
/// its place together with a certification that it may revoke, so that none is served as if it were
/// not revoked, and no place goes to a revocation of nothing.
fn keep_within(foreign: &mut Vec<Foreign<'_>>, limit: usize) {
    let mut revocations: HashMap<(usize, KeyId), Vec<usize>> = HashMap::new();
    for (number, one) in foreign.iter().enumerate().filter(|(_, one)| one.is_sure_revocation()) {
        for issuer in named(&one.variants) {
            revocations.entry((one.at, issuer)).or_default().push(number);
        }
    }
    let mut counts = [0; CLASSES];
    let mut admitted = vec![false; foreign.len()];
    for (number, one) in foreign.iter().enumerate().filter(|(_, one)| !one.is_sure_revocation()) {
        let issuers = named(&one.variants).into_iter();
        let mut of_it = issuers
            .filter_map(|issuer| revocations.get(&(one.at, issuer)))
            .flatten()
            .copied()
            .filter(|&revocation| !admitted[revocation]);
        let (mut after, mut together) = (counts, BTreeSet::from([number]));
        // It ends at the first that does not fit: one key may have made thousands.
        let fits = one.counts_within(&mut after, limit)
            && of_it.all(|of| !together.insert(of) || foreign[of].counts_within(&mut after, limit));
        if fits {
            counts = after;
            together.into_iter().for_each(|of| admitted[of] = true);
        }
    }
    let mut admitted = admitted.into_iter();
    foreign.retain(|_| admitted.next() == Some(true));
}

/// Drops revocations of certifications by others that are not here: clients take them for
/// revocations by the owner that they cannot check.
fn drop_revocations_of_nothing(foreign: &mut Vec<Foreign<'_>>) {
    let is_revocation = |one: &Foreign<'_>| one.signature.kind == kind::CERTIFICATION_REVOCATION;
    if !foreign.iter().any(is_revocation) {
        return;
    }
    let others = foreign.iter().filter(|one| !is_revocation(one));
    let certified: HashSet<(usize, KeyId)> =
        others.flat_map(|one| named(&one.variants).into_iter().map(|id| (one.at, id))).collect();
    foreign.retain(|one| {
        !is_revocation(one)
            || named(&one.variants).into_iter().any(|id| certified.contains(&(one.at, id)))
    });
}

/// Whether the hashed area of a third-party signature has a time, nothing that GnuPG or RNP find
/// too short, and nothing critical that they do not know: RNP refuses the whole certificate.
/// Anybody may have written the area.
fn has_readable_subpackets(area: &[u8]) -> bool {
    const NOTATION: u8 = 20;
    let mut has_time = false;
    let fits = Subpackets(area).all(|subpacket| {
        let Some(Subpacket { kind, body, critical }) = subpacket else { return false };
        has_time |= kind == 2;
        if critical && kind != NOTATION && !is_known_subpacket(kind) {
            return false;
        }
        match kind {
            2 | 3 | 9 => body.len() == 4,
            4 | 7 | 25 => body.len() == 1,
            5 => body.len() == 2,
            6 => body.last() == Some(&0),
            12 => body.len() == 22,
            ISSUER => body.len() == 8,
            NOTATION => {
                body.split_first_chunk::<8>().is_some_and(|([_, _, _, _, a, b, c, d], rest)| {
                    let name = usize::from(u16::from_be_bytes([*a, *b]));
                    let value = usize::from(u16::from_be_bytes([*c, *d]));
                    rest.len() == name + value
                })
            }
            23 | 27 | 29 | 30 => !body.is_empty(),
            // The algorithms and digest of a signature that is signed. The shortest digest has 16
            // bytes.
            31 => body.len() >= 18,
            // Back signatures do not belong into signatures of others.
            EMBEDDED_SIGNATURE => false,
            ISSUER_FINGERPRINT => {
                matches!((body.first(), body.len()), (Some(4), 21) | (Some(5 | 6), 33))
            }
            _ => true,
        }
    });
    fits && has_time
}

/// The content of an unhashed area.
struct Area {
    /// Number of embedded signatures.
    back: usize,
}

/// The embedded signatures of an area that are tried, at most [`BACK_SIGNATURES_MAX`], each with
/// the number of all. Those of areas with the fewest are tried first: a genuine area has one.
pub(crate) fn few_embedded(area: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let count = embedded(area).count();
    embedded(area).take(BACK_SIGNATURES_MAX).map(move |body| (count, body))
}

/// The embedded signatures in an area.
pub(crate) fn embedded(area: &[u8]) -> impl Iterator<Item = &[u8]> {
    let embedded = Subpackets(area).flatten().filter(|s| s.kind == EMBEDDED_SIGNATURE);
    embedded.map(|subpacket| subpacket.body)
}

/// The body of a signature packet with this unhashed area, with the first bytes of the digest, and
/// with the value in its canonical form.
fn exact(signature: &Signature<'_>, issuer: KeyId, area: &[u8], bytes: [u8; 2]) -> Vec<u8> {
    let value = signature.value();
    if signature.version == 3 {
        let algorithms = [signature.algorithm, signature.hash];
        let issuer = issuer.0.to_be_bytes();
        return [&[3, 5], signature.hashed, &issuer, &algorithms, &bytes, &value].concat();
    }
    let length = u32::try_from(area.len()).unwrap_or(0).to_be_bytes();
    if signature.version == 6 {
        let salt = u8::try_from(signature.salt.len()).unwrap_or(0);
        let parts = [signature.hashed, &length, area, &bytes, &[salt], signature.salt, &value];
        return parts.concat();
    }
    [signature.hashed, &length[2..], area, &bytes, &value].concat()
}

/// Whether a signature of another key may stand on a component: certifications of user IDs and
/// keys, and their revocations. Only a revoker whom the owner named revokes a key ([`Class`]), and
/// only the owner names revokers.
fn is_for_others(component: Tag, signature: &Signature<'_>) -> bool {
    match component {
        Tag::PUBLIC_KEY => match signature.kind {
            kind::KEY_REVOCATION => true,
            kind::DIRECT_KEY => signature.revokers().next().is_none(),
            _ => false,
        },
        Tag::USER_ID | Tag::USER_ATTRIBUTE => {
            kind::CERTIFICATION.contains(&signature.kind)
                || signature.kind == kind::CERTIFICATION_REVOCATION
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attestation::tests::attestation;
    use crate::limits::samples::{
        OWN, any_cert, any_verdicts, bodies, cert, hinted, naming, signature,
    };
    use proptest::prelude::*;

    const ALL: Serving =
        Serving { third_party: ThirdParty::All, foreign_signatures: usize::MAX, attributes: true };

    /// A version 4 signature that is not exportable.
    fn local(kind: u8, signer: u64) -> Vec<u8> {
        let mut body = signature(kind, 1, signer, b"");
        body.splice(22..22, [2, 4, 0]);
        body[5] += 3;
        body
    }

    fn with(verdict_of: impl Fn(&[u8]) -> Verdict, whole: &Cert, serving: Serving) -> Option<Cert> {
        let verdicts: Vec<_> = bodies(whole).map(verdict_of).collect();
        whole.served(&verdicts, serving)
    }

    #[test]
    fn only_components_with_a_good_signature_are_served() {
        let good = signature(0x13, 1, OWN, b"good");
        let other = signature(0x10, 9, 7, b"");
        let verdicts = [
            Verdict::Unchecked,
            Verdict::Bad,
            Verdict::Unsupported,
            Verdict::Weak,
            Verdict::Malformed,
            Verdict::Misplaced,
        ];
        for verdict in verdicts {
            let bad = signature(0x13, 2, OWN, b"");
            let whole = cert(&[
                (Tag::PUBLIC_KEY, b"", vec![bad.clone()]),
                (Tag::USER_ID, b"mine", vec![good.clone(), bad.clone(), other.clone()]),
                (Tag::USER_ID, b"not mine", vec![bad.clone(), other.clone()]),
                (Tag::USER_ID, b"nobody's", vec![]),
                (Tag(40), b"unknown", vec![other.clone()]),
            ]);
            let judge = |body: &[u8]| match body {
                body if body == good => Verdict::Good,
                body if body == bad => verdict,
                _ => Verdict::Foreign,
            };
            let expected = cert(&[(Tag::USER_ID, b"mine", vec![good.clone(), other.clone()])]);
            assert_eq!(with(judge, &whole, ALL), Some(expected.clone()));
            assert_eq!(with(judge, &expected, ALL), None);
        }
    }

    #[test]
    fn attributes_are_served_if_the_operator_enables_them() {
        let good = signature(0x13, 1, OWN, b"");
        let whole = cert(&[(Tag::USER_ATTRIBUTE, b"photo", vec![good])]);
        assert_eq!(whole.served(&[Verdict::Good], ALL), None);
        let none = Serving { attributes: false, ..ALL };
        assert_eq!(whole.served(&[Verdict::Good], none), Some(cert(&[])));
    }

    #[test]
    fn a_verified_revocation_by_a_revoker_is_served_before_forged_ones() {
        let naming = naming([3; 20]);
        let revoker = u64::from_be_bytes([3; 8]);
        let real = hinted(0x20, b"real", &[revoker]);
        let forged = (1..=200u8).map(|n| hinted(0x20, &[n], &[u64::from(n), revoker]));
        let certified = signature(0x13, 1, 9, b"friend");
        let all = forged.chain([naming.clone(), real.clone()]).collect();
        let good = signature(0x13, 1, OWN, b"good");
        let whole = cert(&[
            (Tag::PUBLIC_KEY, b"", all),
            (Tag::USER_ID, b"mine", vec![good.clone(), certified.clone()]),
        ]);
        let judge = |body: &[u8]| match body {
            body if body == naming || body == good => Verdict::Good,
            body if body == real || body == certified => Verdict::Certified,
            _ => Verdict::Foreign,
        };
        for (foreign_signatures, count) in [(1, 1), (4, 4), (5, 5), (6, 6), (100, 6)] {
            let served = with(judge, &whole, Serving { foreign_signatures, ..ALL }).unwrap();
            let has = |body: &Vec<u8>| bodies(&served).any(|there| there == body);
            assert!(has(&real));
            assert_eq!(has(&certified), foreign_signatures > 1 + DESIGNATED_MAX);
            assert_eq!(bodies(&served).count(), 2 + count);
        }
        // Of those that nobody verified, the first four are served, since their issuer may be
        // unknown here.
        let verified = Serving { third_party: ThirdParty::Verified, ..ALL };
        assert_eq!(bodies(&with(judge, &whole, verified).unwrap()).count(), 2 + 1 + 4 + 1);
    }

    #[test]
    fn a_verified_signature_is_served_in_a_packet_that_names_its_issuer() {
        let good = signature(0x13, 1, OWN, b"good");
        let right = hinted(0x10, b"text", &[9]);
        let copies = [hinted(0x10, b"text", &[1]), hinted(0x10, b"text", &[1, 9])];
        let all = [&copies[..], &[good.clone(), right.clone()]].concat();
        let whole = cert(&[(Tag::USER_ID, b"mine", all)]);
        let judge = |body: &[u8]| match body {
            body if body == good => Verdict::Good,
            body if body == copies[0] => Verdict::Foreign,
            _ => Verdict::Certified,
        };
        let expected = cert(&[(Tag::USER_ID, b"mine", vec![good.clone(), right])]);
        assert_eq!(with(judge, &whole, ALL), Some(expected));
    }

    #[test]
    fn a_hint_that_names_the_owner_hides_no_verified_signature() {
        let good = signature(0x13, 1, OWN, b"good");
        let real = hinted(0x10, b"text", &[9]);
        // Another writing of it stands before the real one.
        let owner = cert(&[]).fingerprint();
        let mut poisoned = hinted(0x10, b"text", &[]);
        let hint = [&[22, 33][..], &owner.to_stored()].concat();
        poisoned.splice(12..14, [&23_u16.to_be_bytes()[..], &hint].concat());
        let all = vec![good.clone(), poisoned.clone(), real.clone()];
        let whole = cert(&[(Tag::USER_ID, b"mine", all)]);
        let judge = |body: &[u8]| match body {
            body if body == good => Verdict::Good,
            body if body == poisoned => Verdict::Foreign,
            _ => Verdict::Certified,
        };
        let expected = cert(&[(Tag::USER_ID, b"mine", vec![good.clone(), real.clone()])]);
        assert_eq!(with(judge, &whole, ALL), Some(expected));
    }

    #[test]
    fn others_certify_user_ids_and_revoke_no_key_unless_the_owner_named_them() {
        let good = signature(0x13, 1, OWN, b"good");
        let on = |kinds: &[u8]| -> Vec<Vec<u8>> {
            kinds.iter().map(|&kind| signature(kind, 1, 9, &[kind])).collect()
        };
        let mut direct_naming = naming([9; 20]);
        direct_naming[14..22].copy_from_slice(&9_u64.to_be_bytes());
        let kinds = [0x10, 0x11, 0x12, 0x13, 0x18, 0x1f, 0x20, 0x28, 0x30];
        let on_key = [on(&kinds), vec![direct_naming]].concat();
        let on_user_id = [on(&kinds), vec![good.clone()]].concat();
        let whole = cert(&[(Tag::PUBLIC_KEY, b"", on_key), (Tag::USER_ID, b"mine", on_user_id)]);
        let judge = |body: &[u8]| if body == good { Verdict::Good } else { Verdict::Certified };
        let expected = cert(&[
            (Tag::PUBLIC_KEY, b"", on(&[0x1f])),
            (
                Tag::USER_ID,
                b"mine",
                [on(&[0x10, 0x11, 0x12, 0x13, 0x30]), vec![good.clone()]].concat(),
            ),
        ]);
        assert_eq!(with(judge, &whole, ALL), Some(expected));
    }

    #[test]
    fn verified_third_party_signatures_are_served_first() {
        let good = signature(0x13, 1, OWN, b"good");
        let of = |time: u32, signer: u64| signature(0x10, time, signer, &signer.to_be_bytes());
        let forged: Vec<_> = (0..50).map(|n| of(u32::MAX - n, u64::from(n) + 100)).collect();
        let real = of(1, 7);
        let all = [vec![good.clone(), real.clone()], forged].concat();
        let whole = cert(&[(Tag::USER_ID, b"mine", all)]);
        let judge = |body: &[u8]| match body {
            body if body == good => Verdict::Good,
            body if body == real => Verdict::Certified,
            _ => Verdict::Foreign,
        };
        let one = Serving { foreign_signatures: 1, ..ALL };
        let expected = cert(&[(Tag::USER_ID, b"mine", vec![good.clone(), real.clone()])]);
        assert_eq!(with(judge, &whole, one), Some(expected));
    }

    #[test]
    fn what_the_owner_attests_is_served_whoever_made_it() {
        let good = signature(0x13, 1, OWN, b"good");
        let [one, two] = [7, 8].map(|signer| signature(0x10, 1, u64::from(signer), &[signer]));
        let attested = attestation(5, std::slice::from_ref(&one), b"attested");
        let user_id = |signatures: Vec<Vec<u8>>| cert(&[(Tag::USER_ID, b"mine", signatures)]);
        let all = vec![good.clone(), attested.clone(), one.clone(), two];
        let judge = |body: &[u8]| match body {
            body if body == good || body == attested => Verdict::Good,
            _ => Verdict::Foreign,
        };
        let verified = Serving { third_party: ThirdParty::Verified, ..ALL };
        let expected = user_id(vec![good.clone(), attested.clone(), one.clone()]);
        assert_eq!(with(judge, &user_id(all), verified), Some(expected));
        // Somebody changes what is not signed. Clients compare the digest of what they get.
        let mut changed = one.clone();
        // The first bytes of the digest.
        changed[24] ^= 1;
        let all = vec![good.clone(), attested.clone(), changed, one.clone()];
        let expected = user_id(vec![good.clone(), attested.clone(), one]);
        assert_eq!(with(judge, &user_id(all), verified), Some(expected));
        // An attestation does not make a user ID the owner's.
        let alone = user_id(vec![attested.clone()]);
        assert_eq!(with(judge, &alone, verified), Some(cert(&[])));
    }

    #[test]
    fn local_signatures_are_never_served() {
        let good = signature(0x13, 1, OWN, b"");
        let whole = cert(&[
            (Tag::USER_ID, b"a", vec![good.clone(), local(0x13, OWN), local(0x10, 7)]),
            (Tag::USER_ID, b"for this ring only", vec![local(0x13, OWN)]),
        ]);
        let theirs = local(0x10, 7);
        let judge = |body: &[u8]| if body == theirs { Verdict::Foreign } else { Verdict::Good };
        let expected = cert(&[(Tag::USER_ID, b"a", vec![good.clone()])]);
        assert_eq!(with(judge, &whole, ALL), Some(expected));
    }

    #[test]
    fn an_unhashed_area_has_nothing_but_true_issuers() {
        let id = cert(&[]).fingerprint().key_id().0.to_be_bytes();
        let good = signature(0x13, 1, OWN, b"good");
        let with_area = |area: &[u8]| {
            let mut body = good.clone();
            body[23] = u8::try_from(area.len()).unwrap();
            body.splice(24..24, area.iter().copied());
            body
        };
        let own = with_area(&[&[9, 16][..], &id].concat());
        let notation = with_area(&[3, 20, 1, 1]);
        let other = with_area(&[9, 16, 1, 1, 1, 1, 1, 1, 1, 1]);
        for (sent, served) in [(&good, &good), (&own, &own), (&notation, &own), (&other, &own)] {
            let whole = cert(&[(Tag::USER_ID, b"a", vec![sent.clone()])]);
            let shown = whole.served(&[Verdict::Good], ALL).unwrap_or(whole);
            let all: Vec<&[u8]> = bodies(&shown).collect();
            let [body] = all[..] else { panic!("{} signatures", all.len()) };
            let (got, expected) =
                (Signature::parse(body).unwrap(), Signature::parse(served).unwrap());
            assert_eq!(got.unhashed_area, expected.unhashed_area);
            assert_eq!(got.id(), expected.id());
        }
        // Of several packets, one is served.
        let all = vec![good.clone(), own, notation, other];
        let whole = cert(&[(Tag::USER_ID, b"a", all)]);
        let shown = whole.served(&[Verdict::Good; 4], ALL).unwrap();
        assert_eq!(bodies(&shown).count(), 1);
    }

    #[test]
    fn packets_that_other_programs_cannot_read_are_not_served() {
        let good = signature(0x13, 1, OWN, b"good");
        let mut no_numbers = signature(0x10, 2, 7, b"");
        no_numbers.truncate(26);
        let mut cut = signature(0x10, 3, 7, b"cut off");
        cut.pop();
        let mut long = signature(0x10, 4, 7, b"");
        long.truncate(26);
        long.extend(16_400u16.to_be_bytes());
        long.extend([0xff; 2050]);
        let mut version_6 = vec![6, 0x10, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        version_6.extend([0, 8, 255]);
        let version_3 = [&[3, 5, 0x10, 0, 0, 0, 1][..], &[1; 8], &[99, 8, 0, 0]].concat();
        let mut area = signature(0x10, 5, 7, b"");
        area.splice(22..22, [&[255, 0, 0, 0x27, 0x11, 100][..], &[0; 10_000]].concat());
        area.splice(4..6, 10_022u16.to_be_bytes());
        let forged = [no_numbers, cut, long, version_6, version_3, area];
        let all = [&forged[..], std::slice::from_ref(&good)].concat();
        let whole =
            cert(&[(Tag::USER_ID, b"a", all), (Tag::USER_ID, &[b'x'; 2049], vec![good.clone()])]);
        let judge = |body: &[u8]| match body {
            body if body == good => Verdict::Good,
            _ => Verdict::Foreign,
        };
        let expected = cert(&[(Tag::USER_ID, b"a", vec![good.clone()])]);
        assert_eq!(with(judge, &whole, ALL), Some(expected));
    }

    /// GnuPG gives up the whole answer at a subkey of version 3 or 6 in a certificate of version 4.
    #[test]
    fn subkeys_of_another_version_than_the_certificate_are_not_served() {
        let subkey = |version: u8| {
            let mut body = vec![version, 0, 0, 0, 1];
            body.extend([0; 2].iter().filter(|_| version == 3));
            body.push(1);
            body.extend([0, 0, 0, 9].iter().filter(|_| version > 4));
            body.extend([0, 32, 0x80, 0, 0, 1, 0, 2, 3]);
            body
        };
        let bound = |version: u8| {
            (Tag::PUBLIC_SUBKEY, subkey(version), vec![signature(0x18, version.into(), OWN, b"")])
        };
        let bound: Vec<_> = [3, 4, 5, 6].map(bound).into();
        let all: Vec<_> =
            bound.iter().map(|(tag, body, on)| (*tag, body.as_slice(), on.clone())).collect();
        let good = |_: &[u8]| Verdict::Good;
        assert_eq!(with(good, &cert(&all), ALL), Some(cert(&all[1..2])));
    }

    proptest! {
        #[test]
        fn selecting_the_served_part_twice_changes_nothing(
            whole in any_cert(), foreign_signatures in 0usize..8, attributes: bool, all: bool,
        ) {
            let third_party = if all { ThirdParty::All } else { ThirdParty::Verified };
            let serving = Serving { third_party, foreign_signatures, attributes };
            let verdicts = any_verdicts(&whole);
            let Some(cut) = whole.served(&verdicts, serving) else { return Ok(()) };
            prop_assert_ne!(&cut, &whole);
            let left = any_verdicts(&cut);
            prop_assert_eq!(cut.served(&left, serving), None);
            prop_assert!(left.iter().all(|v| matches!(v, Verdict::Good | Verdict::Foreign)));
            let foreign = left.iter().filter(|&&verdict| verdict == Verdict::Foreign).count();
            let most: usize =
                (0..CLASSES).map(|class| admitted(foreign_signatures, class)).sum();
            prop_assert!(foreign <= most);
        }
    }
}
