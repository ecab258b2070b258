//! Reads fields from the start of a slice, one after the other.

/// The bytes that are not read yet. Reading a field that does not fit gives `None`.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    /// A 32-bit big-endian number.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (&bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(bytes))
    }

    /// A multiprecision integer (RFC 9580, section 3.2), without leading zero bytes.
    pub(crate) fn mpi(&mut self) -> Option<&'a [u8]> {
        let bits = self.take(2)?;
        let bits = usize::from(bits[0]) << 8 | usize::from(bits[1]);
        let bytes = self.take(bits.div_ceil(8))?;
        let zeros = bytes.iter().take_while(|&&b| b == 0).count();
        Some(&bytes[zeros..])
    }
}

/// A multiprecision integer as it is written, and what follows it.
pub(crate) fn mpi(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&bits, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(bits)).div_ceil(8))
}

/// The two MPIs of an `EdDSA` signature of algorithm 22, as 64 bytes for Ed25519 or 114 for Ed448.
pub(crate) fn eddsa_legacy<const BYTES: usize>(numbers: &[u8]) -> Option<[u8; BYTES]> {
    let half = BYTES / 2;
    let (r, rest) = mpi(numbers)?;
    let (s, _) = mpi(rest)?;
    let mut out = [0; BYTES];
    out.get_mut(half.checked_sub(r.len())?..half)?.copy_from_slice(r);
    out.get_mut(BYTES.checked_sub(s.len()).filter(|&at| at >= half)?..)?.copy_from_slice(s);
    Some(out)
}
