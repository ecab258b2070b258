//! Random choices that follow from a seed.

/// The largest number of a log-normal distribution, which has no end.
const LOG_NORMAL_MAX: u32 = 4000;

/// Choices that follow from a few bytes.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte)))
    }

    /// The next number of a Weyl sequence, mixed (`SplitMix64` by Steele, Lea and Flood).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.below_u64(u64::from(end))).unwrap_or(0)
    }

    pub(crate) fn below_u64(&mut self, end: u64) -> u64 {
        let wide = (u128::from(self.next()) * u128::from(end)) >> 64;
        u64::try_from(wide).unwrap_or(0)
    }

    pub(crate) fn per_mille(&mut self, share: u32) -> bool {
        self.below(1000) < share
    }

    /// A number of a log-normal distribution, rounded to the nearest whole one, at most
    /// [`LOG_NORMAL_MAX`].
    ///
    /// Additions, multiplications and divisions only, which give the same bits on every machine.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they fit")]
    pub(crate) fn log_normal(&mut self, median: f64, sigma: f64) -> u32 {
        // The sum of twelve uniform numbers has variance 1.
        let sum: u64 = (0..12).map(|_| self.next() >> 40).sum();
        let normal = f64::from(sum as u32) / f64::from(1 << 24) - 6.0;
        let x = normal * sigma / 64.0;
        let mut power = 1.0 + x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0)));
        for _ in 0..6 {
            power *= power;
        }
        (median * power + 0.5).min(f64::from(LOG_NORMAL_MAX)) as u32
    }
}
