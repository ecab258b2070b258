//! Random octets, from the operating system.

use crate::error::{MessageError, Result};

/// Fills `out`. Generators within libraries are seeded first, which costs AWS-LC 40 ms in each process.
pub(crate) fn fill(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out).map_err(MessageError::secret)
}
