//! Compression of chunks: Zstandard, where a probe says that it pays.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

use crate::chunks::CHUNK_BYTES_MAX;

/// The level for chunks that are worth it.
const LEVEL: i32 = 3;

/// The maximum number of bytes in the stored form of a chunk: incompressible data grow a little.
pub(crate) const STORED_BYTES_MAX: usize = CHUNK_BYTES_MAX + (64 << 10);

/// Bytes of each sample of a probe, and the number of samples.
const SAMPLE_BYTES: usize = 8 << 10;
const SAMPLES: usize = 3;

/// Compresses chunks, one after the other.
pub(crate) struct Zstd {
    chunk: Compressor<'static>,
    probe: Compressor<'static>,
    sample: Vec<u8>,
    out: Vec<u8>,
}

impl Zstd {
    pub(crate) fn new() -> Self {
        let new = |level| Compressor::new(level).expect("the level is a valid one");
        Self { chunk: new(LEVEL), probe: new(1), sample: Vec::new(), out: Vec::new() }
    }

    /// The compressed form if it saves at least one part in 16.
    pub(crate) fn compress(&mut self, plain: &[u8]) -> Option<Vec<u8>> {
        let worth = |compressed: usize, plain: usize| compressed < plain - plain / 16;
        if plain.len() > 4 * SAMPLES * SAMPLE_BYTES {
            self.sample.clear();
            for at in 0..SAMPLES {
                let start = (plain.len() - SAMPLE_BYTES) / (SAMPLES - 1) * at;
                self.sample.extend_from_slice(&plain[start..start + SAMPLE_BYTES]);
            }
            self.out.clear();
            self.out.reserve(zstd_safe::compress_bound(self.sample.len()));
            let probed = self.probe.compress_to_buffer(&self.sample, &mut self.out).ok()?;
            if !worth(probed, self.sample.len()) {
                return None;
            }
        }
        self.out.clear();
        self.out.reserve(zstd_safe::compress_bound(plain.len()));
        let bytes = self.chunk.compress_to_buffer(plain, &mut self.out).ok()?;
        worth(bytes, plain.len()).then(|| self.out[..bytes].to_vec())
    }
}

/// The number of bytes that a frame says it has.
pub(crate) fn content_bytes(frame: &[u8]) -> Option<u64> {
    zstd_safe::get_frame_content_size(frame).ok().flatten()
}

/// Decompresses one frame that says it has `bytes` bytes, and has exactly these. `None` for
/// everything else: memory is never more than `bytes`.
pub(crate) fn decompressed(frame: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let says = content_bytes(frame)?;
    let one = zstd_safe::find_frame_compressed_size(frame).is_ok_and(|size| size == frame.len());
    if !one || says != bytes as u64 || bytes > CHUNK_BYTES_MAX {
        return None;
    }
    let mut plain = Vec::with_capacity(bytes);
    let written = Decompressor::new().ok()?.decompress_to_buffer(frame, &mut plain).ok()?;
    (written == bytes && plain.len() == bytes).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        getrandom::fill(&mut out).unwrap();
        out
    }

    #[test]
    fn compression_is_used_where_it_pays() {
        let mut zstd = Zstd::new();
        assert!(zstd.compress(&random(1 << 20)).is_none());
        assert!(zstd.compress(&random(100)).is_none());
        assert!(zstd.compress(b"").is_none());
        for bytes in [1_000, 100_000, 1 << 20, CHUNK_BYTES_MAX] {
            let plain = b"line of text ".repeat(bytes / 13 + 1)[..bytes].to_vec();
            let frame = zstd.compress(&plain).unwrap();
            assert!(frame.len() < bytes / 4, "{bytes}");
            assert_eq!(decompressed(&frame, bytes).unwrap(), plain);
        }
    }

    #[test]
    fn a_frame_has_exactly_the_length_that_the_index_says() {
        let plain = vec![7; 100_000];
        let frame = Zstd::new().compress(&plain).unwrap();
        assert!(decompressed(&frame, plain.len() - 1).is_none());
        assert!(decompressed(&frame, plain.len() + 1).is_none());
        assert!(decompressed(&frame[..frame.len() - 1], plain.len()).is_none());
        assert!(decompressed(&[&frame[..], &frame].concat(), plain.len()).is_none());
        assert!(decompressed(&[&frame[..], b"\0"].concat(), plain.len()).is_none());
        assert!(decompressed(b"", 0).is_none());
    }

    #[test]
    fn a_decompression_bomb_is_refused_before_memory_is_taken() {
        // 1 GiB of zeros: the frame says so, or hides it.
        let mut says = Compressor::new(1).unwrap();
        let bomb = says.compress(&vec![0; 64 << 20]).unwrap();
        assert!(decompressed(&bomb, 64 << 20).is_none());
        assert!(decompressed(&bomb, CHUNK_BYTES_MAX).is_none());
        let mut hidden = Compressor::new(1).unwrap();
        hidden.set_parameter(zstd_safe::CParameter::ContentSizeFlag(false)).unwrap();
        let bomb = hidden.compress(&vec![0; 64 << 20]).unwrap();
        assert!(decompressed(&bomb, CHUNK_BYTES_MAX).is_none());
    }
}
