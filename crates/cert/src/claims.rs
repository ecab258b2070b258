//! Certifications on a certificate in the name of another key: whom the owner of that key has
//! certified. Anybody can add false ones, so they have an order, and few are tried.

use std::collections::HashSet;

use crate::cert::Cert;
use crate::fingerprint::KeyId;
use crate::key::Key;
use crate::signature::{Signature, kind};
use crate::tag::Tag;
use crate::verdict::Verdict;
use crate::verify::{CertificationVerifier, KeySetup, signatures};

/// Maximum number of certifications in the name of one key that are tried, and of those on one user
/// ID.
const CLAIMS_MAX: usize = 16;
const CLAIMS_OF_USER_ID_MAX: usize = 4;

/// Maximum bytes of a certification, and of a user ID, that is tried.
const CLAIM_BYTES_MAX: usize = 1024;

/// Certifications of user IDs on a certificate, in the name of another key.
#[derive(Clone, Debug)]
pub struct Claims {
    /// The certificate with no other signatures.
    cert: Cert,
    count: usize,
    has_verified: bool,
}

impl Cert {
    /// The certifications in the name of the key of `owner`, which need not be genuine, on user IDs
    /// with a good self-signature: at most 16, four on each user ID, of up to 1 KiB each. Those
    /// that were verified come first, and then those that name no other key. `None` if there are
    /// none. `verdicts` are those on all signatures, in canonical order.
    #[must_use]
    pub fn claims_of(&self, owner: &Self, verdicts: &[Verdict]) -> Option<Claims> {
        let id = owner.fingerprint().key_id();
        let mut verdicts = verdicts.iter();
        let mut claims: Vec<(Claimed, usize, usize)> = Vec::new();
        let mut packets = self.packets().enumerate().peekable();
        while let Some((on, component)) = packets.next() {
            let is_tried = component.tag == Tag::USER_ID && component.body.len() <= CLAIM_BYTES_MAX;
            let mut of_user_id: Vec<(Claimed, usize, usize)> = Vec::new();
            let mut is_bound = false;
            while let Some((at, packet)) = packets.next_if(|(_, p)| p.tag == Tag::SIGNATURE) {
                let verdict = verdicts.next().copied().unwrap_or(Verdict::Unchecked);
                is_bound |= matches!(verdict, Verdict::Good | Verdict::Unchecked);
                if is_tried && packet.body.len() <= CLAIM_BYTES_MAX {
                    of_user_id.extend(claim(packet.body, verdict, id).map(|claim| (claim, at, on)));
                }
            }
            if is_bound {
                of_user_id.sort_unstable();
                claims.extend(of_user_id.into_iter().take(CLAIMS_OF_USER_ID_MAX));
            }
        }
        claims.sort_unstable();
        claims.truncate(CLAIMS_MAX);
        let (first, ..) = *claims.first()?;
        let chosen: HashSet<usize> = claims.iter().flat_map(|&(_, at, on)| [at, on]).collect();
        let cert = self.retain(|at, _| chosen.contains(&at));
        Some(Claims { cert, count: claims.len(), has_verified: first == Claimed::Verified })
    }
}

/// What is known of a certification in the name of a key, the best first.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Claimed {
    /// It was verified, by a key with the key ID.
    Verified,
    /// It names no other key.
    Plain,
    /// It names others, too.
    Mixed,
}

/// What is known of a signature if it is a certification in the name of a key.
fn claim(body: &[u8], verdict: Verdict, id: KeyId) -> Option<Claimed> {
    let signature = Signature::parse(body)?;
    let is_other = verdict.is_by_others() || verdict == Verdict::Unchecked;
    if !is_other || !kind::CERTIFICATION.contains(&signature.kind) || !signature.may_be_by(id) {
        return None;
    }
    Some(match signature.sole_issuer() {
        Some(_) if verdict == Verdict::Certified => Claimed::Verified,
        Some(_) => Claimed::Plain,
        None => Claimed::Mixed,
    })
}

impl Claims {
    /// The number of the certifications.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether any of them was verified before.
    pub(crate) fn has_verified(&self) -> bool {
        self.has_verified
    }

    /// Whether `key`, in whose name they are, has made one of them. `setup` belongs to the key.
    pub(crate) fn is_one_by(&self, key: &Key<'_>, setup: &KeySetup) -> bool {
        let Some(mut certified) = CertificationVerifier::new(&self.cert) else { return false };
        signatures(&self.cert)
            .filter_map(|(component, body)| Some((component, Signature::parse(body)?)))
            .any(|(component, signature)| certified.made(key, setup, component, &signature))
    }
}
