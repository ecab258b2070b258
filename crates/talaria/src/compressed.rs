//! Compressed inputs: detection of the format by the first bytes, and decompression as a stream.
//!
//! Content is decompressed while it is read, so memory use depends only on the window size of the
//! file, which has a limit (see [`window`]). The formats cannot be mistaken for OpenPGP data: their
//! first bytes are those of text, or longer than any packet header.

mod window;

use std::io::{self, BufRead, BufReader, Read};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

pub use window::WindowTooLarge;
pub(crate) use window::XzGuard;
use window::ZstdHeader;

/// The number of first bytes that identify the format.
pub(crate) const MAGIC_BYTES: usize = 10;
/// The number of bytes decoded at a time: 64 KiB.
const STEP_BYTES: usize = 64 << 10;
/// The largest window in bytes for which a zstd decoder is used again: 8 MiB. More is given back
/// after the frame.
const REUSED_BYTES_MAX: u64 = 8 << 20;

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

    /// The content of `input`, which begins with the first byte of the file. Concatenated
    /// compressed files are read as one, as the programs of these formats do.
    pub(crate) fn content<'r>(self, input: impl Read + 'r) -> Box<dyn Read + 'r> {
        match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(input)),
            Self::Zstd => Box::new(Frames::new(BufReader::new(input))),
            Self::Xz => Box::new(XzReader::new(XzGuard::new(BufReader::new(input)), true)),
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
            let header = ZstdHeader::read(&mut self.input)?;
            if header.window > REUSED_BYTES_MAX {
                // A decoder that has read a frame refuses windows of more than 100 MiB.
                self.decoder = FrameDecoder::new();
            }
            match self.decoder.reset((&header.bytes[..]).chain(&mut self.input)) {
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
        run(program, &[], bytes)
    }

    /// The output of a compression program with these options for `bytes`.
    fn run(program: &str, options: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
        let file = tempfile::NamedTempFile::new().ok()?;
        std::fs::write(file.path(), bytes).ok()?;
        let mut command = Command::new(program);
        let done =
            command.args(["-c", "-q"]).args(options).stdin(std::fs::File::open(file.path()).ok()?);
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
    fn options_of_xz_and_zstd_are_read() {
        let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
        for line in [
            "xz -9e",
            "xz --check=none",
            "xz --check=crc32 --block-size=65536",
            "xz --check=sha256 --lzma2=dict=4KiB",
            "xz --delta=dist=4 --lzma2=preset=1",
            "xz --x86 --delta=dist=2 --lzma2=preset=0",
            "zstd --ultra -22",
            "zstd -3 --no-check --long=27",
            "zstd --single-thread -1 --no-content-size",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let Some(mut file) = run(words[0], &words[1..], &content) else { continue };
            if words[0] == "xz" {
                // Padding between and behind streams.
                file.extend([0; 8]);
                file.extend_from_within(..);
            }
            let format = Compression::of(&file[..MAGIC_BYTES]).unwrap();
            let mut read = Vec::new();
            format.content(&file[..]).read_to_end(&mut read).unwrap();
            assert!(read.starts_with(&content), "{line}");
            assert_eq!(read.len(), content.len() * if words[0] == "xz" { 2 } else { 1 });
        }
    }

    /// The reason why reading fails, if that is its window.
    fn window(format: Compression, file: &[u8]) -> Option<WindowTooLarge> {
        let error = format.content(file).read_to_end(&mut Vec::new()).err()?;
        error.get_ref()?.downcast_ref().copied()
    }

    /// `hello`, as `xz -0` writes it.
    const XZ: &str = "fd377a585a000004e6d6b446020021010c0000008f98419c01000468656c6c6f00000000b137b9dbe5da1e9b\
                      00011d05b82d80af1fb6f37d010000000004595a";

    /// A file of `XZ` that asks for a dictionary by this code.
    fn xz_with_dictionary(code: u8) -> Vec<u8> {
        let byte = |at: usize| u8::from_str_radix(&XZ[at..at + 2], 16).unwrap();
        let mut file: Vec<u8> = (0..XZ.len()).step_by(2).map(byte).collect();
        file[16] = code;
        let mut crc = flate2::Crc::new();
        crc.update(&file[12..20]);
        file[20..24].copy_from_slice(&crc.sum().to_le_bytes());
        file
    }

    #[test]
    fn dictionaries_and_windows_have_a_limit() {
        let small = xz_with_dictionary(12);
        let mut read = Vec::new();
        Compression::Xz.content(&small[..]).read_to_end(&mut read).unwrap();
        assert_eq!(read, b"hello");
        // 128 MiB, the limit, then 192 MiB and 4 GiB.
        assert_eq!(window(Compression::Xz, &xz_with_dictionary(30)), None);
        for (code, bytes) in [(31, 192 << 20), (40, u64::from(u32::MAX))] {
            let large = xz_with_dictionary(code);
            let wanted = Some(WindowTooLarge { program: "xz", bytes });
            assert_eq!(window(Compression::Xz, &large), wanted);
            // Also in a later stream, with padding before it.
            let later = [&small[..], &[0; 4], &large].concat();
            assert_eq!(window(Compression::Xz, &later), wanted);
        }
        // A frame with one raw block, and a window of 1 KiB << exponent.
        let zstd = |exponent: u8| {
            let mut file = vec![0x28, 0xB5, 0x2F, 0xFD, 0, exponent << 3, 41, 0, 0];
            file.extend(b"hello");
            file
        };
        for exponent in [0, 17] {
            let mut read = Vec::new();
            let both = [zstd(0), zstd(exponent)].concat();
            Compression::Zstd.content(&both[..]).read_to_end(&mut read).unwrap();
            assert_eq!(read, b"hellohello");
        }
        for exponent in [18, 31] {
            let wanted = Some(WindowTooLarge { program: "zstd", bytes: 1024 << exponent });
            assert_eq!(window(Compression::Zstd, &zstd(exponent)), wanted);
            let later = [b"\x50\x2A\x4D\x18\x02\0\0\0ab", &zstd(0)[..], &zstd(exponent)].concat();
            assert_eq!(window(Compression::Zstd, &later), wanted);
        }
        // The whole content is the window: 2 GiB by its stated size.
        let single =
            [&[0x28, 0xB5, 0x2F, 0xFD, 0xA0][..], &(2_u32 << 30).to_le_bytes(), &[41, 0, 0]]
                .concat();
        let wanted = Some(WindowTooLarge { program: "zstd", bytes: 2 << 30 });
        assert_eq!(window(Compression::Zstd, &single), wanted);
    }

    #[test]
    fn damaged_files_are_errors() {
        for format in [Compression::Xz, Compression::Zstd, Compression::Gzip, Compression::Bzip2] {
            let program = format!("{format:?}").to_lowercase();
            let Some(file) = compressed(&program, b"a certificate, a certificate") else {
                continue;
            };
            for at in 0..file.len() {
                let mut changed = file.clone();
                changed[at] ^= 1;
                let mut read = Vec::new();
                // No panic; and xz has a checksum of everything.
                let result = format.content(&changed[..]).read_to_end(&mut read);
                assert!(format != Compression::Xz || result.is_err(), "{at}");
            }
        }
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
