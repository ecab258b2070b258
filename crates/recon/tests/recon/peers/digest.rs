//! Random digests.

use talaria_recon::Digest;

/// Any number as a digest, evenly spread.
pub(crate) fn digest(number: u64) -> Digest {
    let mix = |number: u64| {
        let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let (high, low) = (mix(number.wrapping_mul(2)), mix(number.wrapping_mul(2) + 1));
    Digest((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}
