//! The policy that decides when a key or a signature on a certificate is too weak to count.

use std::sync::LazyLock;

use sequoia_openpgp as openpgp;

use openpgp::packet::signature::subpacket::SubpacketTag;
use openpgp::policy::StandardPolicy;
use talaria_cert::{KNOWN_NOTATIONS, is_known_subpacket};

/// The policy for certificates: Sequoia's standard policy, but with the known critical subpackets
/// of certificate listings ([`talaria_cert::is_known_subpacket`]).
#[must_use]
pub fn policy() -> &'static StandardPolicy<'static> {
    static POLICY: LazyLock<StandardPolicy<'static>> = LazyLock::new(|| {
        let mut policy = StandardPolicy::new();
        policy.good_critical_notations(&KNOWN_NOTATIONS);
        for kind in 0..=127 {
            // Allow all notations here; known notations are declared by name.
            if is_known_subpacket(kind) || SubpacketTag::from(kind) == SubpacketTag::NotationData {
                policy.accept_critical_subpacket(SubpacketTag::from(kind));
            } else {
                policy.reject_critical_subpacket(SubpacketTag::from(kind));
            }
        }
        policy
    });
    &POLICY
}
