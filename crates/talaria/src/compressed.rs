//! Compressed inputs: detection of the format by the first bytes, and decompression as a stream.
//!
//! Content is decompressed while it is read, so memory use depends only on the window size of the format. The
//! formats cannot be mistaken for OpenPGP data: their first bytes are those of text, or longer than any
//! packet header.

use std::io::{self, BufRead, BufReader, Read};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

/// The number of first bytes that identify the format.
pub(crate) const MAGIC_BYTES: usize = 10;
/// The number of bytes decoded at a time: 64 KiB.
const STEP_BYTES: usize = 64 << 10;

/// A format of compressed files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// The .xz file format, version 1.
    Xz,
    /// bzip2, as the program bzip2 writes it.
    Bzip2,
}

impl Compression {
    /// The format of a file that starts with `head`.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1F, 0x8B, 8, ..] => Some(Self::Gzip),
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Some(Self::Zstd),
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            // The compression level, then the start of a block or the end.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => {
                Some(Self::Bzip2)
            }
            _ => None,
        }
    }

    /// The content of `input`, which begins with the first byte of the file. Concatenated compressed files
    /// are read as one, as the programs of these formats do.
    pub(crate) fn content<'r>(self, input: impl Read + 'r) -> Box<dyn Read + 'r> {
        match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(input)),
            Self::Zstd => Box::new(Frames::new(BufReader::new(input))),
            Self::Xz => Box::new(XzReader::new(BufReader::new(input), true)),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(input)),
        }
    }
}

/// The content of concatenated zstd frames.
struct Frames<R> {
    input: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(input: R) -> Self {
        Self { input, decoder: FrameDecoder::new(), in_frame: false }
    }

    /// Begins the next frame; `false` if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => {
                    self.in_frame = true;
                    return Ok(true);
                }
                // Skippable frames contain data for other programs.
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.input.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBytes;
        while !out.is_empty() {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            }
            if !self.in_frame || self.decoder.is_finished() {
                self.in_frame = false;
                if !self.begin()? {
                    break;
                }
                continue;
            }
            let decoded = self.decoder.decode_blocks(&mut self.input, UptoBytes(STEP_BYTES));
            decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// The output of a compression program for `bytes`.
    fn compressed(program: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let file = tempfile::NamedTempFile::new().ok()?;
        std::fs::write(file.path(), bytes).ok()?;
        let mut command = Command::new(program);
        let done = command.args(["-c", "-q"]).stdin(std::fs::File::open(file.path()).ok()?);
        let output = done.stderr(Stdio::null()).output().ok()?;
        output.status.success().then_some(output.stdout)
    }

    #[test]
    fn compressed_files_are_read_also_concatenated_ones() {
        let one: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
        let expected = [&one[..], b"end"].concat();
        let mut tried = 0;
        for (program, format) in [
            ("gzip", Compression::Gzip),
            ("zstd", Compression::Zstd),
            ("xz", Compression::Xz),
            ("bzip2", Compression::Bzip2),
        ] {
            let (Some(first), Some(second)) =
                (compressed(program, &one), compressed(program, b"end"))
            else {
                continue;
            };
            tried += 1;
            let both = [first, second].concat();
            assert_eq!(Compression::of(&both[..MAGIC_BYTES]), Some(format), "{program}");
            let mut content = Vec::new();
            format.content(&both[..]).read_to_end(&mut content).unwrap();
            assert!(content == expected, "{program}");
            // A truncated file is an error.
            let cut = &both[..both.len() - 4];
            assert!(format.content(cut).read_to_end(&mut Vec::new()).is_err(), "{program}");
        }
        assert!(tried > 0, "there is no program to compress with");
    }

    #[test]
    fn openpgp_data_are_not_compressed() {
        for head in [
            &b"\x99\x01\x0d\x04abcdef"[..],
            b"\xc6\x33\x04abcdefg",
            b"-----BEGIN",
            b"BZh is a name",
            b"",
        ] {
            assert_eq!(Compression::of(head), None);
        }
    }
}
