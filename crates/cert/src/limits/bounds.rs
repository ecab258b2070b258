//! The limits themselves, as an operator sets them.

use crate::classes::{CLASS_BYTES, admitted};

/// Limits on one certificate. The default has no limits.
///
/// A number of signatures or components is that of packets of up to 1 KiB. Of those up to 8 KiB
/// there may be an eighth as many more, of those up to 64 KiB a sixty-fourth, of longer ones a
/// five-hundredth, and at least one of each.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Maximum bytes of one packet. The primary key always stays, whatever its length.
    pub packet_bytes: usize,
    /// Maximum bytes of one user ID.
    pub user_id_bytes: usize,
    /// Whether user attributes (photos) are kept.
    pub attributes: bool,
    /// Maximum number of user IDs, attributes, subkeys and unknown components together that the
    /// owner has not bound.
    pub components: usize,
    /// Maximum number of signatures that are looked at. If a certificate has more, signatures that
    /// do not name the primary key are left out unseen, and if it still has more, all that was
    /// offered.
    pub signatures: usize,
    /// Maximum number of packets of one signature.
    pub variants: usize,
    /// Maximum bytes that a packet has beside the identity of its signature, if the owner did not
    /// make it: hints, which nobody has signed.
    pub hint_bytes: usize,
    /// Maximum number of signatures that the primary key made.
    pub own_signatures: usize,
    /// Maximum number of signatures in the name of the primary key that turn out not to be made by
    /// it, or cannot be checked. The same limit holds for the signatures on components that the
    /// owner has not bound.
    pub bad_signatures: usize,
    /// Maximum number of signatures that one known key made on one component. As many revocations
    /// may come on top.
    pub signatures_per_signer: usize,
    /// Maximum number of signatures of other keys on the whole certificate.
    pub foreign_signatures: usize,
    /// The number of signatures of other keys above which those of known keys are verified.
    pub foreign_unranked: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packet_bytes: usize::MAX,
            user_id_bytes: usize::MAX,
            attributes: true,
            components: usize::MAX,
            signatures: usize::MAX,
            variants: usize::MAX,
            hint_bytes: usize::MAX,
            own_signatures: usize::MAX,
            bad_signatures: usize::MAX,
            signatures_per_signer: usize::MAX,
            foreign_signatures: usize::MAX,
            foreign_unranked: usize::MAX,
        }
    }
}

impl Limits {
    /// The bytes of as many signatures as a limit on their number admits, at most.
    ///
    /// ```
    /// # use talaria_cert::Limits;
    /// // 64 signatures of up to 1 KiB, 8 of up to 8 KiB, one of up to 64 KiB, and one of the longest kind.
    /// assert_eq!(Limits::largest(64, 128 << 10), 3 * (64 << 10) + (128 << 10));
    /// ```
    #[must_use]
    pub fn largest(limit: usize, packet_bytes: usize) -> usize {
        CLASS_BYTES
            .into_iter()
            .chain([packet_bytes])
            .enumerate()
            .map(|(class, bytes)| admitted(limit, class).saturating_mul(bytes))
            .fold(0, usize::saturating_add)
    }
}
