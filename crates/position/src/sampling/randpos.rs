//! Randomised positions: an ordered random subset of a longer range.
//!
//! N tokens read N positions drawn without replacement from 0..M, sorted; the same for queries and keys and
//! for all rows of a batch, and other ones at every step (Ruoss et al. 2023, arXiv:2305.16843, section 3).
//! Distances up to M - 1 are met in training, so that a longer text, read at positions drawn in the same way
//! (the extension `randpos`), holds none that are new.

use crate::positions::Positions;
use longwave_core::random::Stream;
use std::collections::BTreeSet;

/// `count` distinct whole numbers below `max_position`, each subset equally likely (Floyd's sampling:
/// Bentley and Floyd 1987).
///
/// # Panics
/// There are fewer than `count` numbers.
pub fn sample(stream: &mut Stream, count: usize, max_position: usize) -> Vec<usize> {
    assert!(count <= max_position, "{count} positions below {max_position}");
    let mut drawn = BTreeSet::new();
    for last in max_position - count..max_position {
        let one = stream.below(last as u64 + 1) as usize;
        if !drawn.insert(one) {
            drawn.insert(last);
        }
    }
    drawn.into_iter().collect()
}

/// The positions of a sample, `[1, count]`: the same for all rows, in order.
pub fn positions(mut sample: Vec<usize>) -> Positions {
    sample.sort_unstable();
    Positions::drawn(1, sample.into_iter().map(|position| position as f64).collect::<Vec<_>>())
}
