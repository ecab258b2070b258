//! Bounds of an exchange: how much is asked, answered and read.

use crate::field::Zp;
use crate::message::MESSAGE_BYTES_MAX;

/// Nodes with fewer digests are compared by digests instead of values, as in SKS.
pub const FULL_BELOW: usize = 150;

/// Maximum number of requests in one exchange; a walk through the whole tree of 10 million
/// digests needs fewer.
pub const REQUESTS_MAX: u64 = 1 << 20;

/// The longest request, and the longest answer to a request by values, with up to 3,800 digests.
/// Peers compare by digests below 150 of them.
pub(super) const SMALL_BYTES_MAX: usize = 64 << 10;

/// Maximum number of requests that wait for an answer.
pub const OUTSTANDING_MAX: usize = 100;

/// Nodes with shorter prefixes are compared by values even if we have few digests: the peer may
/// have millions, and would have to put all of them into one message. Equal sets cost the same
/// either way.
pub(super) const FULL_BITS_MIN: u32 = 6;

/// Maximum number of digests in one answer, 1.7 MB. A peer that lacks more asks again another day.
pub const REPLY_DIGESTS_MAX: usize = 100_000;

/// Maximum number of digests in all answers of an exchange.
pub const SENT_DIGESTS_MAX: usize = 1_000_000;

/// The most bytes of a set of all that a peer has and we have not below a prefix. Digests are
/// spread evenly, so each bit halves the set. Whoever makes certificates can crowd some of them
/// below one prefix; they have to be as many as a whole answer of ours.
pub(super) fn set_bytes_max(prefix_bits: u32) -> usize {
    let share = MESSAGE_BYTES_MAX >> prefix_bits.saturating_sub(FULL_BITS_MIN).min(24);
    share.max(REPLY_DIGESTS_MAX * Zp::BYTES + 5)
}
