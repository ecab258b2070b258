//! Random bytes from the operating system.

use crate::error::{MessageError, Result};

/// Fills `out` with random bytes. The generator of AWS-LC would first need seeding, at 40 ms per
/// process.
pub(crate) fn fill(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out).map_err(MessageError::secret)
}
