//! A seeded permutation of `0..count` that is computed, not stored.

use longwave_core::random::Stream;

const ROUNDS: usize = 6;

/// A permutation of `0..count` in constant memory.
///
/// A balanced Feistel network (Luby and Rackoff 1988) permutes `0..4^bits`, the smallest such range
/// that holds `count`; a value that falls outside `0..count` is sent through again until it falls
/// inside (cycle walking, Black and Rogaway 2002), fewer than four times on average.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u64,
    /// Bits of one half.
    bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..count` that `stream` picks; `count` is at least 1.
    pub(crate) fn new(count: u64, stream: &mut Stream) -> Self {
        let needed = u64::BITS - (count - 1).leading_zeros();
        let bits = needed.div_ceil(2).max(1);
        Self { count, bits, keys: std::array::from_fn(|_| stream.bits()) }
    }

    /// Where `index` (below `count`) goes.
    pub(crate) fn apply(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            value = self.rounds(value);
            if value < self.count {
                return value;
            }
        }
    }

    fn rounds(&self, value: u64) -> u64 {
        let mask = (1u64 << self.bits) - 1;
        let (mut left, mut right) = (value >> self.bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.bits) | right
    }
}

/// The finalizer of `SplitMix64` (Steele, Lea and Flood 2014).
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permutation(count: u64, seed: u64) -> Vec<u64> {
        let permutation = Permutation::new(count, &mut Stream::new(seed, "test", 0));
        (0..count).map(|index| permutation.apply(index)).collect()
    }

    #[test]
    fn every_value_comes_once() {
        for count in [1, 2, 3, 4, 5, 16, 17, 1000, 4096, 4097] {
            let mut values = permutation(count, 1);
            values.sort_unstable();
            assert_eq!(values, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn it_mixes_and_depends_on_the_seed() {
        let (one, two) = (permutation(1000, 1), permutation(1000, 2));
        assert_ne!(one, two);
        let fixed = one.iter().enumerate().filter(|&(index, &value)| index as u64 == value).count();
        assert!(fixed < 10, "{fixed} values stay where they are; about 1 is expected");
        // Neighbours should land far apart: a third of the range on average.
        let distance: u64 = one.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum();
        assert!((280..390).contains(&(distance / 999)), "{}", distance / 999);
    }

    #[test]
    fn the_largest_range_is_reached() {
        let permutation = Permutation::new(u64::MAX, &mut Stream::new(0, "test", 0));
        assert!(permutation.apply(0) < u64::MAX);
        assert_ne!(permutation.apply(0), permutation.apply(1));
    }
}
