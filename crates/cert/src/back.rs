//! Back signatures: whether a subkey for signing has signed the primary key.
//!
//! Anybody can bind somebody else's public key to his own certificate. So a subkey for signing
//! signs the primary key in turn, and its binding has that signature (RFC 9580, section 5.2.1.9).

use crate::cert::Cert;
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::packet::PacketRef;
use crate::rules::Rules;
use crate::served::{Hints, few_embedded};
use crate::signature::{Signature, kind};
use crate::tag::Tag;
use crate::verdict::Verdict;
use crate::verify::good;

/// Whether a subkey has signed the primary key, in a signature that counts at a time, in seconds
/// since 1970, and that one of its good bindings has.
pub(crate) fn has_signed_back(
    cert: &Cert,
    verdicts: &[Verdict],
    rules: Rules,
    subkey: Fingerprint,
    time: u32,
) -> bool {
    let Some(mut hints) = Hints::of_subkey(cert) else { return false };
    let mut candidates = candidates(cert, verdicts, rules, subkey, time);
    candidates.any(|(component, body)| hints.verifies_back(component, body).is_some())
}

/// The signatures in the good bindings of a subkey that would count at a time, in seconds since
/// 1970, if the subkey made them. Each has the packet of the subkey.
pub(crate) fn candidates<'a>(
    cert: &'a Cert,
    verdicts: &[Verdict],
    rules: Rules,
    subkey: Fingerprint,
    time: u32,
) -> impl Iterator<Item = (PacketRef<'a>, &'a [u8])> {
    let counts = move |body: &&[u8]| {
        Signature::parse(body).is_some_and(|signature| {
            rules.count(&signature, false)
                && signature.created <= time
                && (signature.expires == 0 || signature.expires > time)
        })
    };
    bindings(cert, verdicts, subkey).flat_map(move |(component, binding)| {
        let bodies: Vec<&[u8]> = back_signatures(&binding).filter(counts).collect();
        bodies.into_iter().map(move |body| (component, body))
    })
}

/// The times at which a back signature of a subkey begins or ceases to count, in seconds since
/// 1970. None of the signatures is verified.
pub(crate) fn times(
    cert: &Cert,
    verdicts: &[Verdict],
    subkey: Fingerprint,
) -> impl Iterator<Item = u32> {
    let back = bindings(cert, verdicts, subkey)
        .flat_map(|(_, binding)| back_signatures(&binding).collect::<Vec<_>>());
    back.filter_map(Signature::parse).flat_map(|back| [back.created, back.expires])
}

/// The signatures in a binding that may be those of the subkey on the primary key.
pub(crate) fn back_signatures<'a>(binding: &Signature<'a>) -> impl Iterator<Item = &'a [u8]> {
    let areas = [binding.hashed_area, binding.unhashed_area];
    areas.into_iter().flat_map(|area| few_embedded(area).map(|(_, body)| body))
}

/// Whether a component is the subkey with this fingerprint.
pub(crate) fn is_subkey(component: PacketRef<'_>, wanted: Fingerprint) -> bool {
    component.tag == Tag::PUBLIC_SUBKEY
        && Key::parse(component).is_ok_and(|key| key.fingerprint() == wanted)
}

/// The good bindings of a subkey, each with the packet of the subkey.
fn bindings<'a>(
    cert: &'a Cert,
    verdicts: &[Verdict],
    subkey: Fingerprint,
) -> impl Iterator<Item = (PacketRef<'a>, Signature<'a>)> {
    good(cert, verdicts).filter(move |(component, signature)| {
        signature.kind == kind::SUBKEY_BINDING && is_subkey(*component, subkey)
    })
}
