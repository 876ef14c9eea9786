//! One reproducible random stream per purpose.
//!
//! A stream is a `ChaCha8` generator keyed by (seed, purpose, step). Nothing about it depends on what
//! was drawn before, elsewhere or on another machine, so a resumed run needs no saved state, and
//! adding a draw for one purpose leaves every other as it was.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// The key of a stream: with it, a device can compute what the stream draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey([u8; 32]);

impl StreamKey {
    /// That of `purpose` at `step` under `seed`.
    pub fn new(seed: u64, purpose: &str, step: u64) -> Self {
        let key = Sha256::new()
            .chain_update(b"longwave stream 1\0")
            .chain_update(seed.to_le_bytes())
            .chain_update(step.to_le_bytes())
            .chain_update(purpose.as_bytes())
            .finalize();
        Self(key.into())
    }

    /// The words of the key as `ChaCha` takes them.
    pub fn words(self) -> [u32; 8] {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(self.0.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        words
    }
}

/// A stream of random numbers for one purpose.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl From<StreamKey> for Stream {
    fn from(StreamKey(key): StreamKey) -> Self {
        Self(ChaCha8Rng::from_seed(key))
    }
}

impl Stream {
    /// The stream of `purpose` at `step` under `seed`.
    pub fn new(seed: u64, purpose: &str, step: u64) -> Self {
        StreamKey::new(seed, purpose, step).into()
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number in `0..bound`, each equally likely.
    ///
    /// # Panics
    /// `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member to draw");
        // Numbers past the last whole multiple of `bound` would favour the small remainders.
        let last = u64::MAX - (u64::MAX % bound + 1) % bound;
        loop {
            let bits = self.bits();
            if bits <= last {
                return bits % bound;
            }
        }
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A normal number with mean 0 and standard deviation 1 (Box and Muller's transform).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, purpose, step| Stream::new(seed, purpose, step).bits();
        assert_eq!(draw(1, "batch", 2), draw(1, "batch", 2));
        assert_ne!(draw(1, "batch", 2), draw(1, "batch", 3));
        assert_ne!(draw(1, "batch", 2), draw(1, "init", 2));
        assert_ne!(draw(1, "batch", 2), draw(2, "batch", 2));
    }

    #[test]
    fn the_stream_never_changes() {
        // Checkpoints that are stored resume only as long as this value stands.
        assert_eq!(Stream::new(0, "batch", 0).bits(), FIRST_BITS);
    }
    const FIRST_BITS: u64 = 4_763_565_692_546_425_773;

    #[test]
    fn normal_has_its_moments() {
        let mut stream = Stream::new(0, "test", 0);
        let draws: Vec<f64> = (0..100_000).map(|_| stream.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / 1e5 - mean * mean;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn below_reaches_every_value_evenly() {
        let mut stream = Stream::new(0, "test", 1);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[stream.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }
}
