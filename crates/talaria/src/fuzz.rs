//! The parts that read compressed files of strangers, for fuzzing. Not for use.

use std::io::{self, Read};

use lzma_rust2::XzReader;

use crate::compressed::{Compression, MAGIC_BYTES, WindowTooLarge, XzGuard};

/// The number of decompressed bytes that are looked at: 1 MiB.
const LOOKED_AT_BYTES: u64 = 1 << 20;

/// Reads any bytes as an import does. The guard of xz must refuse no file that the decompressor
/// reads, unless the window is too large, and must not depend on the sizes of its reads.
///
/// # Panics
///
/// If one of these properties does not hold.
pub fn decompress(bytes: &[u8]) {
    if let Some(format) = Compression::of(&bytes[..bytes.len().min(MAGIC_BYTES)]) {
        let _ = looked_at(format.content(bytes));
    }
    let mended = with_checksums(bytes);
    let whole = guarded(&mended, usize::MAX);
    assert_eq!(whole.is_ok(), guarded(&mended, 1).is_ok(), "the sizes of reads matter");
    if whole.err().is_some_and(|error| is_window(&error)) {
        return;
    }
    // The dictionaries up to here are small, so the decompressor needs no guard.
    let bare = looked_at(XzReader::new(&mended[..], true));
    let read = looked_at(XzReader::new(XzGuard::new(&mended[..]), true));
    assert_eq!(read.ok(), bare.ok(), "the guard changes what is read");
}

/// The start of a content.
fn looked_at(content: impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    content.take(LOOKED_AT_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

/// Passes the whole file through the guard, in reads of at most `most` bytes.
fn guarded(bytes: &[u8], most: usize) -> io::Result<()> {
    let mut guard = XzGuard::new(bytes);
    let mut buffer = vec![0; bytes.len().clamp(1, most)];
    while guard.read(&mut buffer)? > 0 {}
    Ok(())
}

fn is_window(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<WindowTooLarge>()).is_some()
}

/// An xz file with the right checksums in the headers of its stream and of its first block, without
/// which the decompressor would read no further.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let mut mend = |from: usize, to: usize| {
        if file.len() >= to + 4 && from <= to {
            let mut crc = flate2::Crc::new();
            crc.update(&file[from..to]);
            file[to..to + 4].copy_from_slice(&crc.sum().to_le_bytes());
        }
    };
    mend(6, 8);
    if let Some(&size) = bytes.get(12).filter(|size| **size > 0) {
        mend(12, 12 + usize::from(size) * 4);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_header_is_read_again() {
        // `hello`, as `xz -0` writes it, then with another dictionary and without the right
        // checksums.
        let hello = "fd377a585a000004e6d6b446020021010c0000008f98419c01000468656c6c6f00000000b137b9dbe5da1e9b\
                     00011d05b82d80af1fb6f37d010000000004595a";
        let mut file: Vec<u8> = (0..hello.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hello[at..at + 2], 16).unwrap())
            .collect();
        decompress(&file);
        file[16] = 13;
        file[20] ^= 1;
        decompress(&file);
        assert!(looked_at(XzReader::new(&file[..], true)).is_err());
        assert_eq!(looked_at(XzReader::new(&with_checksums(&file)[..], true)).unwrap(), b"hello");
    }
}
