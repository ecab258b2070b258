//! What a certificate may be used for: the only place that decides it.
//!
//! [`Judge`] has a certificate, the verdicts on its signatures, and the revocations by its
//! designated revokers. It answers for any time, since a signature on a document counts if its key
//! was good when it was made. `docs/trust.md` has the rules beside those of GnuPG and `sq`.

use std::fmt;

use crate::back::{back_signatures, has_signed_back, is_subkey};
use crate::cert::Cert;
use crate::date::day;
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::revoker::{DesignatedRevocation, RevokerState};
use crate::rules::{Rules, Weak};
use crate::signature::{Revoker, Signature, kind};
use crate::summary::{Capabilities, KeySummary, Preferences, Summary, Validity, lacking_back};
use crate::verdict::Verdict;
use crate::verified::Verified;
use crate::verify::good;

/// A use of a key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Purpose {
    /// To certify keys and user IDs. Only the primary key can.
    Certify,
    /// To sign documents, or to verify signatures on them.
    Sign,
    /// To encrypt messages and files.
    Encrypt,
    /// To prove who one is, as in SSH.
    Authenticate,
}

impl Purpose {
    /// All purposes.
    pub const ALL: [Self; 4] = [Self::Certify, Self::Sign, Self::Encrypt, Self::Authenticate];

    /// The capability that serves it.
    #[must_use]
    pub fn capability(self) -> Capabilities {
        Capabilities(match self {
            Self::Certify => Capabilities::CERTIFY,
            Self::Sign => Capabilities::SIGN,
            Self::Encrypt => Capabilities::ENCRYPT,
            Self::Authenticate => Capabilities::AUTHENTICATE,
        })
    }
}

/// The keys of a certificate that may be used for a purpose.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Use {
    /// The keys, in the order of the certificate; at least one.
    pub keys: Vec<Fingerprint>,
    /// The weakest self-signature that one of them or the primary key needs, if it is weak.
    pub weak: Option<Weak>,
}

/// Why a certificate or a key may not be used for a purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Why {
    /// The purpose.
    pub purpose: Purpose,
    /// The subkey that would serve the purpose without the fault; `None` for a fault of the
    /// certificate as a whole.
    pub key: Option<Fingerprint>,
    /// The fault.
    pub fault: Fault,
}

/// What is wrong with a certificate or a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// No good self-signature binds it.
    Unbound,
    /// Only self-signatures with a broken hash function bind it, which do not count.
    Weak(Weak),
    /// It is revoked, by its owner or a designated revoker.
    Revoked,
    /// It expired at this time, in seconds since 1970.
    Expired(u32),
    /// Its creation time is in the future, in seconds since 1970.
    Future(u32),
    /// Its number of bits is too small.
    Short(u16),
    /// The subkey has not signed the primary key, so it may be somebody else's.
    NotSignedBack,
    /// All its user IDs are revoked or expired, and nothing else is said about the primary key.
    NoUserId,
    /// The certificate has no key for the purpose.
    NoKey,
}

/// A certificate, and all that decides what it may be used for.
#[derive(Clone, Debug)]
pub struct Judge {
    known: Verified,
    rules: Rules,
    /// The revocations of the primary key by designated revokers.
    by_others: Vec<DesignatedRevocation>,
}

impl Judge {
    /// A judge of a certificate.
    ///
    /// Designated revokers are looked up at `now`, in seconds since 1970: `look_up` returns the
    /// body of the primary key packet with a fingerprint. Whether a revoker is itself revoked or
    /// expired does not matter.
    #[must_use]
    pub fn new(
        known: Verified,
        rules: Rules,
        now: u32,
        mut look_up: impl FnMut(Fingerprint) -> Option<Vec<u8>>,
    ) -> Self {
        let cert = known.cert();
        let revokers = cert.revokers(known.verdicts(), now);
        let mut by_others = Vec::new();
        for by in revokers.iter().flat_map(Revoker::fingerprints) {
            if let Some(body) = look_up(by) {
                by_others.extend(cert.revocations_by(by, &body));
            }
        }
        by_others.retain(|revocation| revocation.has_begun(now));
        Self { known, rules, by_others }
    }

    /// The certificate.
    #[must_use]
    pub fn cert(&self) -> &Cert {
        self.known.cert()
    }

    /// One verdict per signature packet of the certificate, in canonical order.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        self.known.verdicts()
    }

    /// The state of all parts at a time, in seconds since 1970.
    #[must_use]
    pub fn at(&self, time: u32) -> Summary {
        let mut summary =
            Summary::glance(self.rules, self.known.cert(), self.known.verdicts(), time);
        for revocation in self.by_others.iter().filter(|revocation| revocation.has_begun(time)) {
            summary.primary.revoked = true;
            for revoker in &mut summary.revokers {
                if revoker.revoker.fingerprints().contains(&revocation.by) {
                    revoker.state = RevokerState::Revoked;
                }
            }
        }
        summary
    }

    /// The keys that may be used for `purpose` at a time, in seconds since 1970. What only a weak
    /// self-signature binds may be encrypted to, but the owner makes no signatures with it, and
    /// nobody certifies it.
    ///
    /// # Errors
    ///
    /// [`Why`] none may: the fault of the certificate, or else that of the key that is nearest to
    /// being good.
    pub fn usable(&self, purpose: Purpose, time: u32) -> Result<Use, Why> {
        self.usable_in(&self.at(time), purpose, time)
    }

    /// Like [`Self::usable`], with the summary of the same time.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::usable`].
    pub fn usable_in(&self, summary: &Summary, purpose: Purpose, time: u32) -> Result<Use, Why> {
        let mut keys = summary.keys_for(purpose, time)?;
        let mut why = None;
        keys.retain(|key| {
            let lacks = self.lacks_back(summary, key, purpose, time);
            if lacks {
                let fault = Fault::NotSignedBack;
                why.get_or_insert(Why { purpose, key: Some(key.fingerprint), fault });
            }
            !lacks
        });
        if keys.is_empty() {
            return Err(why.expect("there was a key"));
        }
        let weak = keys.iter().filter_map(|key| key.weak).max().max(summary.primary.weak);
        if let (Some(weak), Purpose::Certify | Purpose::Sign) = (weak, purpose) {
            return Err(Why { purpose, key: None, fault: Fault::Weak(weak) });
        }
        Ok(Use { keys: keys.iter().map(|key| key.fingerprint).collect(), weak })
    }

    /// Whether what was made with a key for `purpose` at a time, in seconds since 1970, counts.
    /// `summary` is that of the same time.
    ///
    /// # Errors
    ///
    /// [`Why`] it may not.
    pub fn key_usable(
        &self,
        summary: &Summary,
        key: Fingerprint,
        purpose: Purpose,
        time: u32,
    ) -> Result<(), Why> {
        let why = |key, fault| Why { purpose, key, fault };
        if let Some(fault) = summary.fault(time) {
            return Err(why(None, fault));
        }
        let found = summary.keys().find(|found| found.fingerprint == key);
        let Some(found) = found else { return Err(why(Some(key), Fault::Unbound)) };
        let fault = if serves(found, purpose, summary) {
            let lacks = || self.lacks_back(summary, found, purpose, time);
            fault_for(found, purpose, summary, time)
                .or_else(|| lacks().then_some(Fault::NotSignedBack))
        } else {
            summary.fault_of(found, time).or(Some(Fault::NoKey))
        };
        fault.map_or(Ok(()), |fault| Err(why(Some(key), fault)))
    }

    /// Whether a key is a subkey for signing that has not signed the primary key, and so may not
    /// serve `purpose`.
    fn lacks_back(&self, summary: &Summary, key: &KeySummary, purpose: Purpose, time: u32) -> bool {
        lacking_back(self.rules, key.capabilities).has(purpose.capability().0)
            && key.fingerprint != summary.fingerprint()
            && !has_signed_back(
                self.known.cert(),
                self.known.verdicts(),
                self.rules,
                key.fingerprint,
                time,
            )
    }

    /// The time from which on the certificate and one of its keys are bound by the self-signatures
    /// that are present, in seconds since 1970. Older ones may have been left out of this copy.
    #[must_use]
    pub fn bound_from(&self, key: Fingerprint) -> Option<u32> {
        let is_primary = key == self.known.cert().fingerprint();
        let earliest = |first: &mut Option<u32>, made| {
            *first = Some(first.map_or(made, |first: u32| first.min(made)));
        };
        let (mut primary, mut subkey) = (None, None);
        for (component, signature) in good(self.known.cert(), self.known.verdicts()) {
            if !self.rules.count(&signature, false) {
                continue;
            }
            match signature.kind {
                kind::DIRECT_KEY => earliest(&mut primary, signature.created),
                found if kind::CERTIFICATION.contains(&found) => {
                    earliest(&mut primary, signature.created);
                }
                kind::SUBKEY_BINDING if is_subkey(component, key) => {
                    earliest(&mut subkey, signature.created);
                }
                _ => {}
            }
        }
        if is_primary { primary } else { primary.zip(subkey).map(|(one, other)| one.max(other)) }
    }

    /// The preferences of the owner at a time, in seconds since 1970.
    #[must_use]
    pub fn preferences(&self, time: u32) -> Preferences<'_> {
        Summary::preferences(self.rules, self.known.cert(), self.known.verdicts(), time)
    }

    /// The times at which the answers may change, in seconds since 1970, ascending.
    #[must_use]
    pub fn times(&self) -> Vec<u32> {
        let keys = || self.known.cert().packets().filter_map(|packet| Key::parse(packet).ok());
        let created: Vec<u32> = keys().map(|key| key.created).collect();
        let mut times = created.clone();
        times.extend(self.by_others.iter().map(|revocation| revocation.created));
        for (_, signature) in good(self.known.cert(), self.known.verdicts()) {
            times.push(signature.created);
            for back in back_signatures(&signature).filter_map(Signature::parse) {
                times.extend([back.created, back.expires]);
            }
            let mut ends = |end: u32| times.extend([end, end.saturating_add(1)]);
            if signature.expires != 0 {
                ends(signature.expires);
            }
            if signature.key_expires_after != 0 {
                let after = signature.key_expires_after;
                created.iter().for_each(|created| ends(created.saturating_add(after)));
            }
        }
        times.sort_unstable();
        times.dedup();
        times
    }
}

impl Summary {
    /// The keys that the owner means for `purpose` and that are good at a time, in seconds since
    /// 1970; at least one.
    ///
    /// # Errors
    ///
    /// [`Why`] there is none: the fault of the certificate, or else that of the key that is nearest
    /// to being good.
    pub fn keys_for(&self, purpose: Purpose, time: u32) -> Result<Vec<&KeySummary>, Why> {
        let why = |key, fault| Why { purpose, key, fault };
        if let Some(fault) = self.fault(time) {
            return Err(why(None, fault));
        }
        let mut good = Vec::new();
        let mut nearest: Option<(u8, Why)> = None;
        for key in self.keys().filter(|key| serves(key, purpose, self)) {
            match fault_for(key, purpose, self, time) {
                None => good.push(key),
                Some(fault) => {
                    let rank = fault.rank();
                    if nearest.is_none_or(|(best, _)| rank >= best) {
                        let named = Some(key.fingerprint).filter(|_| fault != Fault::NoKey);
                        nearest = Some((rank, why(named, fault)));
                    }
                }
            }
        }
        match nearest {
            _ if !good.is_empty() => Ok(good),
            Some((_, nearest)) => Err(nearest),
            None => Err(why(None, Fault::NoKey)),
        }
    }

    /// What the certificate can be used for at a time, in seconds since 1970.
    #[must_use]
    pub fn able(&self, time: u32) -> Capabilities {
        let able = Purpose::ALL.into_iter().filter(|purpose| self.keys_for(*purpose, time).is_ok());
        Capabilities(able.fold(0, |all, purpose| all | purpose.capability().0))
    }

    /// The time until which the certificate can sign and encrypt what it can at `time`, both in
    /// seconds since 1970; 0 if that does not end.
    #[must_use]
    pub fn able_until(&self, time: u32) -> u32 {
        let end = |expires: u32| if expires == 0 { u32::MAX } else { expires };
        let last = |purpose| {
            let keys = self.keys_for(purpose, time).ok()?;
            keys.iter().map(|key| end(key.expires)).max()
        };
        let ends = [Purpose::Sign, Purpose::Encrypt].into_iter().filter_map(last);
        let first = ends.min().unwrap_or(u32::MAX).min(end(self.primary.expires));
        if first == u32::MAX { 0 } else { first }
    }

    /// The fault of the certificate as a whole at a time, in seconds since 1970.
    #[must_use]
    pub fn fault(&self, time: u32) -> Option<Fault> {
        let is_silent = || {
            let mut user_ids = self.user_ids.iter();
            !self.direct && !user_ids.any(|user_id| user_id.validity(time) == Validity::Valid)
        };
        self.fault_of(&self.primary, time).or_else(|| is_silent().then_some(Fault::NoUserId))
    }

    /// The state of the certificate as a whole at a time, in seconds since 1970: valid if nothing
    /// is wrong with it. GnuPG's state is [`Self::validity`].
    #[must_use]
    pub fn state(&self, time: u32) -> Validity {
        self.fault(time).map_or(Validity::Valid, Fault::state)
    }

    /// The state of one of the keys, as [`Self::state`].
    #[must_use]
    pub fn key_state(&self, key: &KeySummary, time: u32) -> Validity {
        let fault = self.fault(time).or_else(|| self.fault_of(key, time));
        fault.map_or(Validity::Valid, Fault::state)
    }

    /// The fault of one of the keys. A fault of the primary key is one of all keys, too.
    #[must_use]
    pub fn fault_of(&self, key: &KeySummary, time: u32) -> Option<Fault> {
        match self.key_validity(key, time) {
            Validity::Invalid => Some(key.weak.map_or(Fault::Unbound, Fault::Weak)),
            Validity::Revoked => Some(Fault::Revoked),
            Validity::Expired => {
                // A subkey expires with its primary key, if not earlier.
                let is_own = key.expires != 0 && key.expires < time;
                Some(Fault::Expired(if is_own { key.expires } else { self.primary.expires }))
            }
            Validity::Valid if key.created > time => Some(Fault::Future(key.created)),
            Validity::Valid if key.short => Some(Fault::Short(key.bits)),
            Validity::Valid => None,
        }
    }
}

/// The fault of a key that the owner means for `purpose`.
fn fault_for(key: &KeySummary, purpose: Purpose, summary: &Summary, time: u32) -> Option<Fault> {
    summary.fault_of(key, time).or_else(|| match purpose {
        _ if !key.withheld.has(purpose.capability().0) => None,
        Purpose::Certify => Some(Fault::NoKey),
        _ => Some(Fault::NotSignedBack),
    })
}

/// Whether the owner means a key for a purpose.
fn serves(key: &KeySummary, purpose: Purpose, summary: &Summary) -> bool {
    let wanted = purpose.capability().0;
    if purpose == Purpose::Certify {
        return key.fingerprint == summary.fingerprint();
    }
    // A subkey that is not bound has no key flags that count: its algorithm says what it is for.
    if key.bound {
        key.capabilities.has(wanted)
    } else {
        Capabilities::of_algorithm(key.algorithm).is_some_and(|able| able.has(wanted))
    }
}

impl Fault {
    /// The name of the fault in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::Weak(_) => "weak_hash",
            Self::Revoked => "revoked",
            Self::Expired(_) => "expired",
            Self::Future(_) => "future",
            Self::Short(_) => "short_key",
            Self::NotSignedBack => "not_signed_back",
            Self::NoUserId => "no_user_id",
            Self::NoKey => "no_key",
        }
    }

    /// The time that belongs to the fault, in seconds since 1970: that of the expiry, the creation
    /// or the weak signature.
    #[must_use]
    pub fn time(self) -> Option<u32> {
        match self {
            Self::Weak(weak) => Some(weak.made),
            Self::Expired(time) | Self::Future(time) => Some(time),
            _ => None,
        }
    }

    /// The state of what has the fault.
    fn state(self) -> Validity {
        match self {
            Self::Revoked => Validity::Revoked,
            Self::Expired(_) => Validity::Expired,
            _ => Validity::Invalid,
        }
    }

    /// The fault in a word or two of at most 10 characters.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::Weak(weak) if weak.hash == 2 => "SHA-1 only",
            Self::Weak(_) => "weak hash",
            Self::Revoked => "revoked",
            Self::Expired(_) => "expired",
            Self::Future(_) => "future",
            Self::Short(_) => "too short",
            Self::NotSignedBack => "not signed",
            Self::NoUserId => "no user ID",
            Self::NoKey => "no key",
        }
    }

    /// How near a key with the fault is to being good.
    fn rank(self) -> u8 {
        match self {
            Self::NoKey | Self::NoUserId | Self::Unbound => 0,
            Self::NotSignedBack => 1,
            Self::Short(_) => 2,
            Self::Weak(_) => 3,
            Self::Future(_) => 4,
            Self::Revoked => 5,
            Self::Expired(_) => 6,
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certify => "certify",
            Self::Sign => "sign",
            Self::Encrypt => "encrypt",
            Self::Authenticate => "authenticate",
        })
    }
}

impl Why {
    /// The subject of the sentence.
    fn subject(&self) -> &'static str {
        match (self.key, self.purpose) {
            (None, _) => "",
            (Some(_), Purpose::Certify) => "its primary key ",
            (Some(_), Purpose::Sign) => "its signing key ",
            (Some(_), Purpose::Encrypt) => "its encryption key ",
            (Some(_), Purpose::Authenticate) => "its authentication key ",
        }
    }
}

/// The fault in a few words, for a list.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbound => f.write_str("no good self-signature"),
            Self::Weak(weak) => write!(f, "bound by {} only", weak.hash_name()),
            Self::Revoked => f.write_str("revoked"),
            Self::Expired(end) => write!(f, "expired on {}", day(*end)),
            Self::Future(made) => write!(f, "dated in the future, {}", day(*made)),
            Self::Short(bits) => write!(f, "only {bits} bits"),
            Self::NotSignedBack => f.write_str("has not signed the primary key"),
            Self::NoUserId => f.write_str("all user IDs are revoked or expired"),
            Self::NoKey => f.write_str("no key for it"),
        }
    }
}

/// The reason as the rest of a sentence about the certificate: "expired on 2025-01-01", "its
/// encryption key is revoked".
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (subject, purpose) = (self.subject(), self.purpose);
        match self.fault {
            Fault::Unbound => write!(f, "{subject}has no good self-signature"),
            Fault::Weak(weak) => {
                let it = if self.key.is_some() { subject.trim_end() } else { "it" };
                let (hash, made) = (weak.hash_name(), day(weak.made));
                write!(
                    f,
                    "only signatures with {hash} bind {it}, the newest of {made}, and these no \
                     longer count"
                )
            }
            Fault::Revoked => write!(f, "{subject}is revoked"),
            Fault::Expired(end) => write!(f, "{subject}expired on {}", day(end)),
            Fault::Future(made) => write!(f, "{subject}is dated in the future, {}", day(made)),
            Fault::Short(bits) => write!(f, "{subject}has only {bits} bits"),
            Fault::NotSignedBack => {
                write!(f, "{subject}has not signed the primary key, so it may be somebody else's")
            }
            Fault::NoUserId => f.write_str("has no user ID that is neither revoked nor expired"),
            Fault::NoKey if purpose == Purpose::Encrypt => f.write_str("has no key to encrypt to"),
            Fault::NoKey => write!(f, "has no key that may {purpose}"),
        }
    }
}
