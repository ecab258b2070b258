//! The web of trust as PGP and `GnuPG` have it (`validate_keys` in GnuPG's `trustdb.c`, followed by
//! behaviour).
//!
//! Own keys are introducers at depth 0. What introducers at one depth certify becomes valid: fully by one
//! whose owner is fully trusted, or by three that are marginally trusted, those at lower depths counted. A
//! certificate that has become fully valid is an introducer at the next depth. So the standing of a
//! certificate follows from its certifications and from who its issuers are as introducers, and from nothing
//! else: it can be worked out anew for one certificate, and only if it is another introducer than before does
//! anything else change.

use talaria_cert::{Gnupg, KeyId, Span, Tag};

use crate::{Certification, Level, Scope, Subject, SubjectId};

/// How many certifications make a user ID valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rules {
    /// Fully trusted introducers that make a user ID valid.
    pub completes: u8,
    /// Marginally trusted introducers that make a user ID valid.
    pub marginals: u8,
    /// Depths at which there are introducers.
    pub depth: u8,
    /// Which certifications with SHA-1 count.
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
    /// How far it is from an own key; 0 is one.
    pub depth: u8,
    /// How much its owner is trusted, by the user or by trust signatures.
    pub level: Level,
    /// How many further levels of introducers its trust signatures can make.
    pub reach: u8,
    /// The user IDs that it may introduce.
    pub scope: Option<Scope>,
}

/// An introducer and which certificate it is.
#[derive(Clone, Debug)]
pub struct Issuer {
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
    /// Whether it is an introducer.
    pub introducer: Option<Introducer>,
    /// When all of this holds.
    pub holds: Span,
}

impl Standing {
    /// The validity of the certificate: that of its best user ID.
    #[must_use]
    pub fn level(&self) -> Level {
        self.levels.iter().copied().max().unwrap_or_default()
    }
}

/// The signatures of one introducer on one user ID, the one that speaks for it first.
struct Voice<'s, 'a> {
    issuer: &'s Issuer,
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

/// The standing of `subject` at `now`, in seconds since 1970. `owner` is how much the user trusts its owner;
/// `issuers` gives the introducers with a key ID; `certified` is asked whether one of them made a signature,
/// and only if that matters.
pub fn evaluate<'s, 'a>(
    subject: &'s Subject<'a>,
    owner: Level,
    rules: Rules,
    now: u32,
    issuers: impl Fn(KeyId) -> &'s [Issuer],
    mut certified: impl FnMut(&Issuer, &SubjectId<'a>, &Certification<'a>) -> bool,
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

/// Who certified which user ID of `subject`, and with which signature: all introducers whose certification
/// holds at `now`, the most trusted first. The other arguments are those of [`evaluate`].
pub fn certifiers<'s, 'a>(
    subject: &'s Subject<'a>,
    now: u32,
    issuers: impl Fn(KeyId) -> &'s [Issuer],
    mut certified: impl FnMut(&Issuer, &SubjectId<'a>, &Certification<'a>) -> bool,
) -> Vec<(usize, &'s Issuer, &'s Certification<'a>)> {
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

/// The introducers that have something to say about a user ID.
fn voices<'v, 'a>(
    id: &'v SubjectId<'a>,
    now: u32,
    issuers: &impl Fn(KeyId) -> &'v [Issuer],
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
        // What cannot be taken back stays until it expires; otherwise the newest counts.
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
    /// The certification that counts, if there is one: the first that the issuer made, unless that one is a
    /// revocation or over.
    fn hear(
        &mut self,
        id: &SubjectId<'a>,
        now: u32,
        certified: &mut impl FnMut(&Issuer, &SubjectId<'a>, &Certification<'a>) -> bool,
    ) -> Option<&'s Certification<'a>> {
        let Self { issuer, signatures, heard } = self;
        *heard.get_or_insert_with(|| {
            let first = signatures.iter().find(|signature| certified(issuer, id, signature));
            first.copied().filter(|signature| !signature.revokes && !signature.is_over(now))
        })
    }
}

impl Tally {
    /// Counts voices, the most trusted first, as long as they can change anything.
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
    /// Takes in a trust signature of `issuer`, if it is one, and may be: the last one counts. `owner` is how
    /// much the user trusts the owner.
    fn delegate(&mut self, signature: &Certification<'_>, issuer: &Self, owner: Level) {
        /// The amounts that stand for full and marginal trust (RFC 9580, section 5.2.3.21).
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
