//! The limit on the memory that a compressed file may ask for.
//!
//! Decompression keeps the last part of its output: the dictionary of xz (up to 4 GiB) or the
//! window of zstd (up to 3.75 TiB). The file says how much, so a small file could fill the memory
//! of its reader. This module reads these sizes before the decompressor allocates. (gzip keeps
//! 32 KiB, bzip2 at most 3.6 MB: their formats have no more.)

use std::fmt::{self, Display};
use std::io::{self, Read};

/// The largest window in bytes: 128 MiB. `xz -9` uses 64 MiB, and `zstd --ultra -22` and `zstd
/// --long` use 128 MiB.
pub(crate) const WINDOW_BYTES_MAX: u64 = 128 << 20;

/// A compressed file needs more memory than talaria allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowTooLarge {
    /// The program that decompresses the format: `xz` or `zstd`.
    pub program: &'static str,
    /// The size of the window in bytes.
    pub bytes: u64,
}

impl Display for WindowTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, bytes } = self;
        let (mib, limit) = (bytes.div_ceil(1 << 20), WINDOW_BYTES_MAX >> 20);
        write!(
            f,
            "its {program} compression needs {mib} MiB of memory, more than the limit of {limit} MiB"
        )
    }
}

impl std::error::Error for WindowTooLarge {}

/// Refuses a window that is too large.
fn check(program: &'static str, bytes: u64) -> io::Result<()> {
    if bytes > WINDOW_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, WindowTooLarge { program, bytes }));
    }
    Ok(())
}

/// The header of a zstd frame (RFC 8878, section 3.1.1.1), and the size of its window.
pub(super) struct ZstdHeader {
    /// The bytes of the header: only the magic number, if the frame is skippable.
    pub(super) bytes: Vec<u8>,
    /// In bytes; 0 if the frame is skippable.
    pub(super) window: u64,
}

impl ZstdHeader {
    /// Reads the header of the next frame.
    ///
    /// # Errors
    ///
    /// [`WindowTooLarge`], and errors of the input.
    pub(super) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut bytes = vec![0; 4];
        input.read_exact(&mut bytes)?;
        if bytes != [0x28, 0xB5, 0x2F, 0xFD] {
            return Ok(Self { bytes, window: 0 });
        }
        let mut more = |count: usize| -> io::Result<Vec<u8>> {
            let mut read = vec![0; count];
            input.read_exact(&mut read)?;
            bytes.extend_from_slice(&read);
            Ok(read)
        };
        let descriptor = more(1)?[0];
        let is_single_segment = descriptor & 0x20 != 0;
        let stated = if is_single_segment { None } else { more(1)?.first().copied() };
        more([0, 1, 2, 4][usize::from(descriptor & 3)])?;
        let width = [usize::from(is_single_segment), 2, 4, 8][usize::from(descriptor >> 6)];
        let size = more(width)?.iter().rev().fold(0, |size, byte| size << 8 | u64::from(*byte));
        let window = match stated {
            Some(stated) => {
                let base = 1_u64 << (10 + (stated >> 3));
                base + base / 8 * u64::from(stated & 7)
            }
            // The whole content is the window. A size of two bytes counts from 256.
            None => size + if width == 2 { 256 } else { 0 },
        };
        check("zstd", window)?;
        Ok(Self { bytes, window })
    }
}

/// An xz file (format version 1.2) on its way to the decompressor. Its structure is followed, and a
/// block with a dictionary that is too large is an error before the decompressor sees its header.
pub(crate) struct XzGuard<R> {
    input: R,
    state: State,
    /// The bytes of the current field that have passed.
    field: Vec<u8>,
    /// The length of the current field.
    wanted: usize,
    /// Bytes to pass unseen before the next field.
    skip: u64,
}

/// The field of an xz file that comes next.
enum State {
    /// The header of a stream; with `behind`, its first byte has passed.
    StreamHeader {
        behind: bool,
    },
    /// The size of a block header, or the mark of an index.
    BlockStart {
        check_bytes: u64,
    },
    BlockHeader {
        check_bytes: u64,
    },
    /// The control byte of an LZMA2 chunk, and the bytes of the block before it.
    Control {
        check_bytes: u64,
        passed: u64,
    },
    /// The sizes of an LZMA2 chunk.
    Chunk {
        check_bytes: u64,
        passed: u64,
        control: u8,
    },
    /// The bytes of numbers in an index: the count of records, then two numbers for each.
    Index {
        numbers: Option<u64>,
        passed: u64,
        bytes: u8,
        value: u64,
    },
    /// Behind a stream: padding, or another stream.
    Behind,
}

/// The first bytes of an xz stream.
const XZ_MAGIC: [u8; 6] = [0xFD, b'7', b'z', b'X', b'Z', 0];
/// The identifier of the LZMA2 filter.
const LZMA2: u64 = 0x21;

impl<R: Read> XzGuard<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            input,
            state: State::StreamHeader { behind: false },
            field: Vec::new(),
            wanted: 12,
            skip: 0,
        }
    }

    /// Follows the bytes that pass.
    fn follow(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let passed = self.skip.min(bytes.len() as u64);
                self.skip -= passed;
                bytes = &bytes[usize::try_from(passed).unwrap_or(bytes.len())..];
                continue;
            }
            let part = (self.wanted - self.field.len()).min(bytes.len());
            self.field.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if self.field.len() == self.wanted {
                let field = std::mem::take(&mut self.field);
                let state = std::mem::replace(&mut self.state, State::Behind);
                (self.state, self.wanted, self.skip) = state.next(&field).ok_or_else(damaged)??;
            }
        }
        Ok(())
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the xz file is damaged")
}

/// The next state, the length of its field, and the bytes to skip before it.
type Next = (State, usize, u64);

impl State {
    /// The state behind this field; `None` if the file is damaged.
    fn next(self, field: &[u8]) -> Option<io::Result<Next>> {
        let first = *field.first()?;
        Some(Ok(match self {
            Self::StreamHeader { behind } => {
                // The type of the check is in the second byte of the flags.
                let check = field.strip_prefix(&XZ_MAGIC[usize::from(behind)..])?.get(1)?;
                let check_bytes = match check {
                    0 => 0,
                    1..=15 => 4 << ((check - 1) / 3),
                    _ => return None,
                };
                (Self::BlockStart { check_bytes }, 1, 0)
            }
            Self::BlockStart { .. } if first == 0 => {
                (Self::Index { numbers: None, passed: 1, bytes: 0, value: 0 }, 1, 0)
            }
            Self::BlockStart { check_bytes } => {
                (Self::BlockHeader { check_bytes }, usize::from(first) * 4 + 3, 0)
            }
            Self::BlockHeader { check_bytes } => {
                if let Err(error) = check("xz", dictionary(field)?) {
                    return Some(Err(error));
                }
                (Self::Control { check_bytes, passed: 0 }, 1, 0)
            }
            Self::Control { check_bytes, passed } => {
                let passed = passed + 1;
                let sizes = match first {
                    // The block ends with padding to four bytes, and the check.
                    0 => {
                        let padding = passed.wrapping_neg() % 4;
                        return Some(Ok((
                            Self::BlockStart { check_bytes },
                            1,
                            padding + check_bytes,
                        )));
                    }
                    1 | 2 => 2,
                    0x80.. => 4,
                    _ => return None,
                };
                (Self::Chunk { check_bytes, passed, control: first }, sizes, 0)
            }
            Self::Chunk { check_bytes, passed, control } => {
                let size =
                    field.last_chunk::<2>().map(|size| u64::from(u16::from_be_bytes(*size)))?;
                let data = size + 1 + u64::from(control >= 0xC0);
                let passed = passed + field.len() as u64 + data;
                (Self::Control { check_bytes, passed }, 1, data)
            }
            Self::Index { numbers, passed, bytes, value } => {
                let value = value | u64::from(first & 0x7F).checked_shl(u32::from(bytes) * 7)?;
                let passed = passed + 1;
                if first & 0x80 != 0 {
                    return (bytes < 8).then_some(Ok((
                        Self::Index { numbers, passed, bytes: bytes + 1, value },
                        1,
                        0,
                    )));
                }
                let left = match numbers {
                    None => value.checked_mul(2)?,
                    Some(numbers) => numbers - 1,
                };
                if left > 0 {
                    (Self::Index { numbers: Some(left), passed, bytes: 0, value: 0 }, 1, 0)
                } else {
                    // Padding to four bytes, a checksum, and the footer of the stream.
                    (Self::Behind, 1, passed.wrapping_neg() % 4 + 4 + 12)
                }
            }
            Self::Behind if first == 0 => (Self::Behind, 1, 0),
            Self::Behind if first == XZ_MAGIC[0] => (Self::StreamHeader { behind: true }, 11, 0),
            Self::Behind => return None,
        }))
    }
}

/// The size of the dictionary in bytes that a block header asks for; `None` if the header is
/// malformed. The first byte, which has its size, is not part of `header`.
fn dictionary(header: &[u8]) -> Option<u64> {
    let (&flags, mut rest) = header.split_first()?;
    // The sizes of the block are optional.
    for flag in [0x40, 0x80] {
        if flags & flag != 0 {
            number(&mut rest)?;
        }
    }
    let filters = (flags & 3) + 1;
    for filter in 1..=filters {
        let id = number(&mut rest)?;
        let length = usize::try_from(number(&mut rest)?).ok()?;
        let (properties, behind) = rest.split_at_checked(length)?;
        rest = behind;
        match (id == LZMA2, filter == filters) {
            (false, false) => {}
            (true, true) => {
                return match properties {
                    [40] => Some(u64::from(u32::MAX)),
                    [bits @ 0..40] => Some(u64::from(2 | bits & 1) << (bits / 2 + 11)),
                    _ => None,
                };
            }
            // LZMA2 is always the last filter.
            _ => return None,
        }
    }
    None
}

/// Reads a number of seven bits per byte, least significant first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..9 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << (at * 7);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

impl<R: Read> Read for XzGuard<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out)?;
        self.follow(&out[..read])?;
        Ok(read)
    }
}
