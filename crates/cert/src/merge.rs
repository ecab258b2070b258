//! The pure part of a write: what becomes of offered certificates, and what is stored and indexed
//! of them.
//!
//! An engine reads what it has ([`Before`]), calls [`decide`], and writes the [`Record`]s. Nothing
//! here reads or writes a store, so that every engine keeps the same certificates.

use std::collections::HashSet;

pub use crate::refusal::IngestRefusal;

use crate::cert::Cert;
use crate::copies::{joined, packet_digests};
use crate::hash::sha256;
use crate::limits::bounds::Limits;
use crate::limits::issuers::Issuers;
use crate::redaction::Redacted;
use crate::signature::Signature;
use crate::summary::Summary;
use crate::tag::Tag;
use crate::terms::Terms;
use crate::timestamp::Timestamp;
use crate::verdict::{Verdict, Verification};
use crate::verify::{VERIFIER, carried_over, complete, renew, verdicts};
use crate::view::View;
use crate::work::{TooCostly, Work};
use rayon::prelude::*;

pub use crate::copies::join_within;

/// A certificate with the verdicts on its signatures.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The certificate.
    pub cert: Cert,
    /// One verdict per signature packet, in canonical order.
    pub verdicts: Vec<Verdict>,
}

/// The result for one offered certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IngestOutcome {
    /// The certificate was not in the store before.
    New,
    /// The certificate was in the store, and new parts were added.
    Updated,
    /// The store already had the whole certificate.
    Unchanged,
    /// The certificate was refused.
    Refused(IngestRefusal),
}

/// The result for one offered certificate, with the parts that were not kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ingested {
    /// The outcome for the certificate.
    pub outcome: IngestOutcome,
    /// The offered parts that are not in the store, because of limits or redactions.
    pub left_out: LeftOut,
}

/// Numbers of offered packets that were not kept.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LeftOut {
    /// User IDs, attributes, subkeys and unknown packets.
    pub components: usize,
    /// Signatures.
    pub signatures: usize,
}

impl LeftOut {
    /// Whether everything was kept.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The packets of `offered` that `kept` does not have. A signature that it has in another
    /// packet is there.
    pub(crate) fn of(offered: &Cert, kept: &Cert) -> Self {
        let here: HashSet<[u8; 32]> = packet_digests(kept).collect();
        let mut left_out = Self::default();
        let mut signatures: Option<HashSet<[u8; 32]>> = None;
        for (digest, name) in packet_digests(offered).zip(signature_names(offered)) {
            if here.contains(&digest) {
                continue;
            }
            let Some(name) = name else {
                left_out.components += 1;
                continue;
            };
            let here = signatures.get_or_insert_with(|| signature_names(kept).flatten().collect());
            left_out.signatures += usize::from(!here.contains(&name));
        }
        left_out
    }
}

/// The names of the signatures of a certificate by what they are and what they sign, and `None` for
/// each other packet.
fn signature_names(cert: &Cert) -> impl Iterator<Item = Option<[u8; 32]>> + '_ {
    let mut component = [0; 32];
    cert.packets().zip(packet_digests(cert)).map(move |(packet, digest)| {
        if packet.tag != Tag::SIGNATURE {
            component = digest;
            return None;
        }
        let signature = Signature::parse(packet.body);
        Some(signature.map_or(digest, |signature| sha256(&[&component, &signature.id()])))
    })
}

/// A certificate with all data that are stored about it.
#[derive(Clone, Debug)]
pub struct Record {
    /// The certificate.
    pub cert: Cert,
    /// One verdict per signature packet, in canonical order.
    pub verdicts: Vec<Verdict>,
    /// The summary at the time of the write, without revocations by other certificates.
    pub summary: Summary,
    /// The search terms.
    pub terms: Terms,
    /// The digests for gossip, for the views that include the certificate.
    pub digests: Vec<(View, [u8; 16])>,
    /// The first 16 bytes of the SHA-256 of the certificate, for its checksum.
    pub bytes_digest: [u8; 16],
}

impl Record {
    /// Computes everything from a certificate and its verdicts at `now`, with digests for `views`.
    #[must_use]
    pub fn new(cert: Cert, verdicts: Vec<Verdict>, now: Timestamp, views: &[View]) -> Self {
        let summary = Summary::evaluate(&cert, &verdicts, now.seconds());
        let terms = Terms::of(&cert, &verdicts, &summary);
        let digests = digests(&cert, &verdicts, views);
        let bytes_digest = bytes_digest(cert.as_bytes());
        Self { cert, verdicts, summary, terms, digests, bytes_digest }
    }
}

/// The digests of a certificate, for the views that include it.
#[must_use]
pub fn digests(cert: &Cert, verdicts: &[Verdict], views: &[View]) -> Vec<(View, [u8; 16])> {
    views.iter().filter_map(|&view| Some((view, view.digest(cert, verdicts)?))).collect()
}

/// The first bytes of the SHA-256 of a certificate.
#[must_use]
pub fn bytes_digest(bytes: &[u8]) -> [u8; 16] {
    *sha256(&[bytes]).first_chunk().expect("a SHA-256 has 32 bytes")
}

/// The way to combine an offered certificate with the copy in the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Joining {
    /// Both are kept.
    Union,
    /// The offered one replaces the other.
    Replace,
}

/// What is in the store of an offered certificate.
#[derive(Clone, Debug)]
pub enum Before {
    /// Nothing.
    Absent,
    /// Nothing, and the certificate is blocked.
    Blocked,
    /// A copy that is damaged.
    Damaged,
    /// Exactly [`Offer::cert`], judged by this verifier.
    Same,
    /// Another copy, or an older verdict.
    Present {
        /// The copy.
        stored: Stored,
        /// The version of the verifier that made its verdicts.
        verifier: u8,
    },
}

/// A certificate that is offered to a store.
#[derive(Clone, Debug)]
pub struct Offer {
    cert: Cert,
    joining: Joining,
    redacted: Redacted,
    /// The certificate as it was offered, if it has redacted parts.
    whole: Option<Cert>,
}

impl Offer {
    /// An offered certificate, and the redactions for it.
    #[must_use]
    pub fn new(cert: Cert, joining: Joining, redacted: Redacted) -> Self {
        if redacted.is_none() {
            return Self { cert, joining, redacted, whole: None };
        }
        Self { cert: redacted.apply(&cert), joining, redacted, whole: Some(cert) }
    }

    /// The certificate without its redacted parts.
    #[must_use]
    pub fn cert(&self) -> &Cert {
        &self.cert
    }
}

/// The rules for a write.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'r> {
    /// The limits on each certificate.
    pub limits: &'r Limits,
    /// Whether self-signatures are verified now. With limits they always are.
    pub verification: Verification,
    /// The time of the write.
    pub now: Timestamp,
    /// The views for which digests are stored.
    pub views: &'r [View],
}

/// What becomes of an offered certificate.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The outcome, once it is written.
    pub outcome: IngestOutcome,
    /// The offered parts that are not kept.
    pub left_out: LeftOut,
    /// What is to be written; `None` for nothing.
    pub record: Option<Record>,
    /// The copy that the record replaces, with which its indexes are compared.
    pub before: Option<Stored>,
}

/// Decides what is kept of offered certificates, no two of them with the same fingerprint, and
/// computes what is indexed. One result for each, in their order. Uses all threads of the current
/// thread pool of rayon.
///
/// `issuers` are the certificates of the store, in which the issuers of signatures by other keys
/// are looked for. Their time is taken from `work`, for each certificate as for what others have
/// made.
///
/// # Errors
///
/// Nothing is left of `work`.
pub fn decide(
    offers: Vec<(Offer, Before)>,
    rules: &Rules<'_>,
    issuers: &mut dyn Issuers,
    work: &mut Work,
) -> Result<Vec<Decided>, TooCostly> {
    let is_limited = *rules.limits != Limits::default();
    // Limits depend on the verdicts.
    let verification = if is_limited { Verification::Full } else { rules.verification };
    let mut joined: Vec<Joined> =
        offers.into_par_iter().map(|offer| Joined::new(offer, rules.limits, is_limited)).collect();
    let fresh: Vec<&Cert> =
        joined.iter().filter(|joined| joined.is_new()).map(|joined| &joined.cert).collect();
    let mut fresh = verdicts(&fresh, verification).into_iter();
    for joined in joined.iter_mut().filter(|joined| joined.is_new()) {
        joined.verdicts = fresh.next().unwrap_or_default();
    }
    joined.par_iter_mut().for_each(|joined| {
        if let Merged::Update { before, verifier } = &joined.merged {
            let carried = carried_over(&joined.cert, &before.cert, &before.verdicts);
            joined.verdicts = renew(&joined.cert, carried, *verifier, verification);
        }
    });
    if is_limited {
        for joined in joined.iter_mut().filter(|joined| !matches!(joined.merged, Merged::Done(_))) {
            let mut others = work.for_others();
            joined.keep_within_limits(rules, &mut others, issuers);
            work.take_for_others(others.needed())?;
        }
    }
    Ok(joined.into_par_iter().map(|joined| joined.finish(rules)).collect())
}

/// A certificate on its way through [`decide`].
struct Joined {
    /// The certificate that is kept.
    cert: Cert,
    verdicts: Vec<Verdict>,
    merged: Merged,
    /// The certificate as it was offered, if parts of it may be left out.
    offered: Option<Cert>,
}

/// A certificate after it was joined with the copy in the store.
enum Merged {
    Insert,
    /// `verifier` is the version of the verifier that made the stored verdicts.
    Update {
        before: Stored,
        verifier: u8,
    },
    Done(IngestOutcome),
}

impl Joined {
    fn new((offer, before): (Offer, Before), limits: &Limits, is_limited: bool) -> Self {
        let Offer { mut cert, joining, redacted, whole } = offer;
        let offered = whole.or_else(|| is_limited.then(|| cert.clone()));
        let merged = merge(&mut cert, before, joining, &redacted, limits);
        Self { cert, verdicts: Vec::new(), merged, offered }
    }

    fn is_new(&self) -> bool {
        matches!(self.merged, Merged::Insert)
    }

    /// Drops packets that the limits do not admit.
    fn keep_within_limits(
        &mut self,
        rules: &Rules<'_>,
        work: &mut Work,
        issuers: &mut dyn Issuers,
    ) {
        let Self { cert, verdicts, .. } = self;
        if verdicts.contains(&Verdict::Unchecked) {
            *verdicts = complete(cert, std::mem::take(verdicts), Verification::Full);
        }
        let kept = cert.within(verdicts, rules.limits, rules.now.seconds(), work, issuers);
        if let Some((kept, left)) = kept {
            (*cert, *verdicts) = (kept, left);
        }
    }

    fn finish(self, rules: &Rules<'_>) -> Decided {
        let Self { cert, verdicts, merged, offered } = self;
        let left_out = match (&merged, &offered) {
            (Merged::Done(IngestOutcome::Refused(_)), _) | (_, None) => LeftOut::default(),
            (_, Some(offered)) => LeftOut::of(offered, &cert),
        };
        let nothing = |outcome| Decided { outcome, left_out, record: None, before: None };
        let (outcome, before) = match merged {
            Merged::Done(outcome) => return nothing(outcome),
            Merged::Insert => (IngestOutcome::New, None),
            Merged::Update { before, verifier } => {
                let is_same = before.cert == cert;
                if is_same && before.verdicts == verdicts && verifier >= VERIFIER {
                    return nothing(IngestOutcome::Unchanged);
                }
                let outcome =
                    if is_same { IngestOutcome::Unchanged } else { IngestOutcome::Updated };
                (outcome, Some(before))
            }
        };
        let record = Record::new(cert, verdicts, rules.now, rules.views);
        Decided { outcome, left_out, record: Some(record), before }
    }
}

/// Joins an offered certificate with the copy in the store.
fn merge(
    cert: &mut Cert,
    before: Before,
    joining: Joining,
    redacted: &Redacted,
    limits: &Limits,
) -> Merged {
    let refused = |refusal| Merged::Done(IngestOutcome::Refused(refusal));
    let (before, verifier) = match before {
        Before::Absent => {
            if cert.signature_count() > limits.signatures {
                *cert = cert.without_others();
            }
            let is_readable = cert.signature_count() <= limits.signatures;
            return if is_readable {
                Merged::Insert
            } else {
                refused(IngestRefusal::TooManySignatures)
            };
        }
        Before::Blocked => return refused(IngestRefusal::Blocked),
        // A damaged copy is never merged.
        Before::Damaged => return refused(IngestRefusal::DamagedCopy),
        Before::Same => return Merged::Done(IngestOutcome::Unchanged),
        Before::Present { stored, verifier } => (stored, verifier),
    };
    // Redacted user IDs are removed from the stored copy, too.
    let ours = (!redacted.is_none()).then(|| redacted.apply(&before.cert));
    let ours = ours.as_ref().unwrap_or(&before.cert);
    let offered = if ours.signature_count() + cert.signature_count() > limits.signatures {
        cert.without_others()
    } else {
        cert.clone()
    };
    let joined = match joining {
        Joining::Replace if ours.packets().next() != offered.packets().next() => {
            Err(IngestRefusal::OtherPrimaryKey)
        }
        Joining::Replace => Ok(offered),
        Joining::Union => {
            joined(ours, &offered).map(|joined| joined.unwrap_or_else(|| ours.clone()))
        }
    };
    match joined {
        // Verdicts of an older verifier are recomputed, even if nothing else is new.
        Ok(joined) if joined == before.cert && verifier >= VERIFIER => {
            // Offered parts that the store left out are counted.
            *cert = joined;
            Merged::Done(IngestOutcome::Unchanged)
        }
        // A stored certificate above the limit may still shrink.
        Ok(joined)
            if joined.signature_count() > limits.signatures.max(before.cert.signature_count()) =>
        {
            refused(IngestRefusal::TooManySignatures)
        }
        Ok(joined) => {
            *cert = joined;
            Merged::Update { before, verifier }
        }
        Err(refusal) => refused(refusal),
    }
}
