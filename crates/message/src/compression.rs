//! The compression of the content of a message.

use std::io::{Cursor, Read};

use bzip2::read::BzEncoder;
use flate2::Compression as Level;
use flate2::read::{DeflateEncoder, ZlibEncoder};

use crate::error::{MessageError, Result};
use crate::framing::{self, PartialReader, tag};

/// The compression of the content (RFC 9580, section 9.4).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Compression {
    /// No compression: most content that is worth compressing is compressed already.
    #[default]
    None,
    /// Raw DEFLATE, at a level from 0 to 9.
    Zip(u32),
    /// DEFLATE with a header and a checksum, at a level from 0 to 9.
    Zlib(u32),
    /// Bzip2, at a level from 1 to 9.
    Bzip2(u32),
    /// The recipients' preference, else zlib, at level 6, if a sample from the start of the input
    /// shrinks by a tenth; else no compression.
    Auto,
    /// Like [`Self::Auto`], with [`Self::Zip`] instead of zlib.
    AutoZip,
    /// Like [`Self::Auto`], with [`Self::Bzip2`] instead of zlib.
    AutoBzip2,
}

impl Compression {
    /// The compression of `data`, after a look at its start where that decides. Also returns `data`
    /// with nothing consumed.
    pub(crate) fn choose<'a>(
        self,
        data: Box<dyn Read + Send + 'a>,
    ) -> Result<(Self, Box<dyn Read + Send + 'a>)> {
        let preferred = match self {
            Self::Auto => Self::Zlib(6),
            Self::AutoZip => Self::Zip(6),
            Self::AutoBzip2 => Self::Bzip2(6),
            given => return Ok((given, data)),
        };
        let (compressible, data) = sample(data)?;
        Ok((if compressible { preferred } else { Self::None }, data))
    }

    /// A compressed packet with the content of `plain`, or `plain` itself without compression.
    pub(crate) fn packet<'a>(self, plain: Box<dyn Read + Send + 'a>) -> Box<dyn Read + Send + 'a> {
        let level = |level: u32, least: u32| level.clamp(least, 9);
        let (algorithm, stream): (u8, Box<dyn Read + Send + 'a>) = match self {
            Self::Zip(n) => (1, Box::new(DeflateEncoder::new(plain, Level::new(level(n, 0))))),
            Self::Zlib(n) => (2, Box::new(ZlibEncoder::new(plain, Level::new(level(n, 0))))),
            Self::Bzip2(n) => {
                (3, Box::new(BzEncoder::new(plain, bzip2::Compression::new(level(n, 1)))))
            }
            Self::None | Self::Auto | Self::AutoZip | Self::AutoBzip2 => return plain,
        };
        let body = Cursor::new([algorithm]).chain(stream);
        Box::new(PartialReader::new(body, tag::COMPRESSED))
    }
}

/// Whether the start of `data` is worth compressing. Also returns `data` with nothing consumed.
fn sample<'a>(mut data: Box<dyn Read + Send + 'a>) -> Result<(bool, Box<dyn Read + Send + 'a>)> {
    const SAMPLE_BYTES: usize = 128 << 10;
    let mut start = vec![0; SAMPLE_BYTES];
    let read = framing::read_full(&mut data, &mut start)?;
    start.truncate(read);
    let mut smaller = Vec::new();
    ZlibEncoder::new(&start[..], Level::fast())
        .read_to_end(&mut smaller)
        .map_err(MessageError::read)?;
    let worth = smaller.len() < start.len() / 10 * 9;
    Ok((worth, Box::new(Cursor::new(start).chain(data))))
}
