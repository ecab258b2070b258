//! The web of trust of PGP and `GnuPG` (`validate_keys` in GnuPG's `trustdb.c`, with the same
//! behaviour).
//!
//! Own keys are introducers at depth 0. Certifications by introducers of one depth make user IDs
//! valid: by default one certification by a fully trusted introducer is enough, or three by
//! marginally trusted ones, including those of lower depths. A certificate that becomes fully valid
//! is an introducer at the next depth. The standing of a certificate therefore depends only on its
//! certifications and on the role of its issuers as introducers. It can be recomputed for one
//! certificate alone. Only if the certificate's role as an introducer changes, other certificates
//! change too.

use talaria_cert::{Gnupg, KeyId, Span, Tag};

use crate::level::Level;
use crate::scope::Scope;
use crate::subject::{Certification, Subject, SubjectId};

/// The number of certifications that make a user ID valid. Programs set the fields of the default
/// rules.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Rules {
    /// Number of fully trusted introducers that make a user ID valid.
    pub completes: u8,
    /// Number of marginally trusted introducers that make a user ID valid.
    pub marginals: u8,
    /// Number of depths at which there are introducers.
    pub depth: u8,
    /// The GnuPG release whose rules for SHA-1 certifications apply.
    pub gnupg: Gnupg,
}

impl Default for Rules {
    fn default() -> Self {
        Self { completes: 1, marginals: 3, depth: 5, gnupg: Gnupg::default() }
    }
}

/// A certificate whose certifications count.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Introducer {
    /// Distance from an own key; own keys have 0.
    pub depth: u8,
    /// Owner trust of the introducer, set by the user or by trust signatures.
    pub level: Level,
    /// Number of further levels of introducers that its trust signatures can create.
    pub reach: u8,
    /// The user IDs that the introducer may certify; `None` for all.
    pub scope: Option<Scope>,
}

/// An introducer and its certificate.
#[derive(Clone, Debug)]
pub struct IntroducerCert {
    /// The number of the certificate.
    pub cert: i64,
    /// Its role in the web of trust.
    pub introducer: Introducer,
}

/// The result of the web of trust for a certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Standing {
    /// The validity of each user ID and attribute, in canonical order.
    pub levels: Vec<Level>,
    /// The role of the certificate as an introducer, if it is one.
    pub introducer: Option<Introducer>,
    /// The span of time for which the standing is true.
    pub holds: Span,
}

impl Standing {
    /// The validity of the certificate: that of its best user ID.
    #[must_use]
    pub fn level(&self) -> Level {
        self.levels.iter().copied().max().unwrap_or_default()
    }
}

/// The signatures of one introducer on one user ID, in order of precedence.
struct Voice<'s, 'a> {
    issuer: &'s IntroducerCert,
    signatures: Vec<&'s Certification<'a>>,
    heard: Option<Option<&'s Certification<'a>>>,
}

/// The certifications that count for one user ID.
#[derive(Clone, Copy, Default)]
struct Tally {
    full: u8,
    marginal: u8,
    level: Level,
}

/// Computes the standing of `subject` at `now`, in seconds since 1970. `owner` is the owner trust
/// that the user has set; `issuers` returns the introducers with a key ID; `certified` verifies
/// whether an introducer made a signature. It is called only for signatures that can change the
/// result.
pub fn evaluate<'s, 'a>(
    subject: &'s Subject<'a>,
    owner: Level,
    rules: Rules,
    now: u32,
    issuers: impl Fn(KeyId) -> &'s [IntroducerCert],
    mut certified: impl FnMut(&IntroducerCert, &SubjectId<'a>, &Certification<'a>) -> bool,
) -> Standing {
    let mut standing = Standing {
        levels: vec![Level::Unknown; subject.user_ids.len()],
        introducer: None,
        holds: subject.holds,
    };
    if owner == Level::Ultimate {
        standing.levels.fill(Level::Ultimate);
        standing.introducer = subject.certifies.then_some(Introducer {
            depth: 0,
            level: owner,
            reach: 0,
            scope: None,
        });
        return standing;
    }
    if !subject.usable {
        return standing;
    }
    let mut user_ids: Vec<(usize, &'s SubjectId<'a>, Tally, Vec<Voice<'s, 'a>>)> = subject
        .user_ids
        .iter()
        .enumerate()
        .filter(|(_, id)| id.usable)
        .map(|(at, id)| (at, id, Tally::default(), voices(id, now, &issuers)))
        .collect();
    for depth in 0..rules.depth {
        let mut full = false;
        for (_, id, tally, voices) in &mut user_ids {
            let heard = voices.iter_mut().filter(|voice| voice.issuer.introducer.depth == depth);
            tally.count(heard, rules, |voice| voice.hear(id, now, &mut certified));
            full |= tally.level == Level::Full;
        }
        let joins = full && standing.introducer.is_none() && depth + 1 < rules.depth;
        if joins && subject.certifies {
            let mut introducer =
                Introducer { depth: depth + 1, level: owner, reach: 0, scope: None };
            for (_, id, _, voices) in &mut user_ids {
                let heard = voices.iter_mut().filter(|voice| {
                    voice.issuer.introducer.depth == depth
                        && voice.signatures.iter().any(|signature| signature.trust.is_some())
                });
                for voice in heard {
                    if let Some(signature) = voice.hear(id, now, &mut certified) {
                        introducer.delegate(signature, &voice.issuer.introducer, owner);
                    }
                }
            }
            standing.introducer = Some(introducer);
        }
    }
    for (at, _, tally, _) in &user_ids {
        standing.levels[*at] = tally.level;
    }
    standing
}

/// The certifications of `subject` that are valid at `now`: user ID, introducer and signature, the
/// most trusted introducers first. The other arguments are those of [`evaluate`].
pub fn certifiers<'s, 'a>(
    subject: &'s Subject<'a>,
    now: u32,
    issuers: impl Fn(KeyId) -> &'s [IntroducerCert],
    mut certified: impl FnMut(&IntroducerCert, &SubjectId<'a>, &Certification<'a>) -> bool,
) -> Vec<(usize, &'s IntroducerCert, &'s Certification<'a>)> {
    let mut found = Vec::new();
    for (at, id) in subject.user_ids.iter().enumerate() {
        for mut voice in voices(id, now, &issuers) {
            if let Some(signature) = voice.hear(id, now, &mut certified) {
                found.push((at, voice.issuer, signature));
            }
        }
    }
    found
}

/// The introducers with signatures on a user ID.
fn voices<'v, 'a>(
    id: &'v SubjectId<'a>,
    now: u32,
    issuers: &impl Fn(KeyId) -> &'v [IntroducerCert],
) -> Vec<Voice<'v, 'a>> {
    let text = if id.packet.tag == Tag::USER_ID { id.packet.body } else { &[] };
    let mut voices: Vec<Voice<'v, 'a>> = Vec::new();
    for signature in &id.certifications {
        for issuer in issuers(signature.issuer) {
            if issuer.introducer.scope.as_ref().is_some_and(|scope| !scope.has(text)) {
                continue;
            }
            match voices.iter_mut().find(|voice| voice.issuer.cert == issuer.cert) {
                Some(voice) => voice.signatures.push(signature),
                None => voices.push(Voice { issuer, signatures: vec![signature], heard: None }),
            }
        }
    }
    for voice in &mut voices {
        // An irrevocable certification stays until it expires; otherwise the newest signature
        // counts.
        voice.signatures.sort_by_key(|signature| {
            let stays = signature.irrevocable && !signature.is_over(now);
            std::cmp::Reverse((stays, signature.created))
        });
    }
    voices.sort_by_key(|voice| std::cmp::Reverse(voice.issuer.introducer.level));
    voices
}

impl Certification<'_> {
    fn is_over(&self, now: u32) -> bool {
        self.expires != 0 && self.expires <= now
    }
}

impl<'s, 'a> Voice<'s, 'a> {
    /// The certification that counts: the first signature that the issuer really made. `None` if
    /// there is none, or if it is a revocation or has expired.
    fn hear(
        &mut self,
        id: &SubjectId<'a>,
        now: u32,
        certified: &mut impl FnMut(&IntroducerCert, &SubjectId<'a>, &Certification<'a>) -> bool,
    ) -> Option<&'s Certification<'a>> {
        let Self { issuer, signatures, heard } = self;
        *heard.get_or_insert_with(|| {
            let first = signatures.iter().find(|signature| certified(issuer, id, signature));
            first.copied().filter(|signature| !signature.revokes && !signature.is_over(now))
        })
    }
}

impl Tally {
    /// Counts certifications, those of the most trusted introducers first, as long as they can
    /// change the result.
    fn count<'v, 's: 'v, 'a: 's + 'v>(
        &mut self,
        voices: impl Iterator<Item = &'v mut Voice<'s, 'a>>,
        rules: Rules,
        mut hear: impl FnMut(&mut Voice<'s, 'a>) -> Option<&'s Certification<'a>>,
    ) {
        for voice in voices {
            let level = voice.issuer.introducer.level;
            let matters = match level {
                Level::Ultimate | Level::Full | Level::Marginal => self.level != Level::Full,
                _ => self.level == Level::Unknown,
            };
            if !matters || hear(voice).is_none() {
                continue;
            }
            match level {
                Level::Ultimate => self.full = rules.completes,
                Level::Full => self.full = self.full.saturating_add(1),
                Level::Marginal => self.marginal = self.marginal.saturating_add(1),
                _ => {}
            }
            self.level = if self.full >= rules.completes || self.marginal >= rules.marginals {
                Level::Full
            } else if self.full > 0 || self.marginal > 0 {
                Level::Marginal
            } else {
                Level::Undefined
            };
        }
    }
}

impl Introducer {
    /// Applies a trust signature of `issuer`, if `signature` is one and `issuer` may delegate. The
    /// last trust signature counts. `owner` is the owner trust that the user has set.
    fn delegate(&mut self, signature: &Certification<'_>, issuer: &Self, owner: Level) {
        /// The minimum amounts for full and marginal trust (RFC 9580, section 5.2.3.21).
        const FULL: u8 = 120;
        const MARGINAL: u8 = 60;
        let Some((depth, amount)) = signature.trust else { return };
        let depth = if issuer.level == Level::Ultimate { depth } else { depth.min(issuer.reach) };
        if depth == 0 {
            return;
        }
        self.reach = depth - 1;
        if let Some(scope) = signature.scope {
            self.scope = Some(Scope::new(scope));
        }
        self.level = owner.max(match amount {
            FULL.. => Level::Full,
            MARGINAL.. => Level::Marginal,
            _ => Level::Unknown,
        });
    }
}
