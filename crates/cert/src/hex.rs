//! Hexadecimal digits.

use std::fmt;

use data_encoding::{Encoding, HEXLOWER, HEXLOWER_PERMISSIVE, HEXUPPER};

/// Bytes that are written as upper-case digits.
///
/// ```
/// assert_eq!(talaria_cert::hex::Upper(&[0, 0xab]).to_string(), "00AB");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Upper<'a>(pub &'a [u8]);

/// Bytes that are written as lower-case digits.
#[derive(Clone, Copy, Debug)]
pub struct Lower<'a>(pub &'a [u8]);

impl fmt::Display for Upper<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&HEXUPPER, self.0, f)
    }
}

impl fmt::Display for Lower<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&HEXLOWER, self.0, f)
    }
}

/// Writes a fingerprint in one piece, because listings spend most of their time here.
fn write(encoding: &Encoding, bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const PIECE: usize = 32;
    let mut text = [0; 2 * PIECE];
    bytes.chunks(PIECE).try_for_each(|piece| {
        f.write_str(encoding.encode_mut_str(piece, &mut text[..2 * piece.len()]))
    })
}

/// The bytes of pairs of digits in any case. `None` if the text is anything else.
#[must_use]
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

/// The bytes of exactly `2 * N` digits in any case. `None` if the text is anything else.
///
/// ```
/// assert_eq!(talaria_cert::hex::array("00aB"), Some([0, 0xab]));
/// assert_eq!(talaria_cert::hex::array::<2>("00"), None);
/// ```
#[must_use]
pub fn array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), &mut bytes).ok()?;
    Some(bytes)
}
