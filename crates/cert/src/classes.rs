//! Classes of packets by their size, each with a limit of its own.

use crate::signature::Signature;

/// The bytes up to which a packet belongs to each size class but the last.
pub(crate) const CLASS_BYTES: [usize; 3] = [1 << 10, 8 << 10, 64 << 10];

/// Number of size classes.
pub(crate) const CLASSES: usize = CLASS_BYTES.len() + 1;

pub(crate) fn class_of(bytes: usize) -> usize {
    CLASS_BYTES.into_iter().take_while(|&most| bytes > most).count()
}

/// The number of packets of a size class that a limit admits.
pub(crate) fn admitted(limit: usize, class: usize) -> usize {
    (limit >> (3 * class)).max(usize::from(limit > 0))
}

/// The bytes of a signature that are its identity.
pub(crate) fn essential_bytes(signature: &Signature<'_>) -> usize {
    signature.hashed.len() + signature.salt.len() + signature.value().len()
}
