//! The policy with which Sequoia finds the self-signatures that a new one replaces.
//!
//! What a certificate may be used for, [`talaria_cert::Judge`] says. This policy accepts all that
//! may count by any rules, so that an old self-signature can be the template of a new one.

use std::sync::LazyLock;

use sequoia_openpgp as openpgp;

use openpgp::packet::signature::subpacket::SubpacketTag;
use openpgp::policy::StandardPolicy;
use openpgp::types::HashAlgorithm;
use talaria_cert::{KNOWN_NOTATIONS, is_known_subpacket};

/// Sequoia's standard policy with SHA-1, and with the known critical subpackets of certificate
/// listings ([`talaria_cert::is_known_subpacket`]).
pub(crate) fn templates() -> &'static StandardPolicy<'static> {
    static POLICY: LazyLock<StandardPolicy<'static>> = LazyLock::new(|| {
        let mut policy = StandardPolicy::new();
        policy.accept_hash(HashAlgorithm::SHA1);
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
