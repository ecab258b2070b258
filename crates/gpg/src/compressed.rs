//! The content of compressed packets (RFC 9580, section 5.6).

use std::io::{BufRead, Read};

/// Reads compressed content by the number of its algorithm (RFC 9580, section 9.4); `None` for an
/// unknown one.
pub(crate) fn reader<'a>(algorithm: u8, input: impl BufRead + 'a) -> Option<Box<dyn Read + 'a>> {
    Some(match algorithm {
        0 => Box::new(input),
        1 => Box::new(flate2::bufread::DeflateDecoder::new(input)),
        2 => Box::new(flate2::bufread::ZlibDecoder::new(input)),
        3 => Box::new(bzip2::bufread::BzDecoder::new(input)),
        _ => return None,
    })
}
