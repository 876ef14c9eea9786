//! How the work of a call is cut into pieces that threads share, by its shape alone.
//!
//! The gradient's pieces are rows of one key head. Rows far down a causal text see more keys than early ones, so that
//! pieces are cut to weigh the same, the late ones first in the order of work.

use super::block::ROWS;
use std::ops::Range;

/// Pieces that a call is cut into if its shape allows: work for so many threads.
const PIECES: usize = 64;

/// How small pieces may get.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Pairs of a query and a key of a piece of the gradient: below that, adding up what pieces share is no longer
    /// little beside the work.
    pub(super) least_pairs: usize,
}

impl Cut {
    const USUAL: Self = Self { least_pairs: 1 << 18 };

    /// How the calls of this thread are cut.
    pub(super) fn current() -> Self {
        #[cfg(test)]
        return tests::CUT.with(std::cell::Cell::get);
        #[cfg(not(test))]
        Self::USUAL
    }

    /// The query rows of each piece of a key head's gradient, the first rows first, where `at_once` key heads are
    /// worked on at a time. `widths` are the keys that each block of rows sees; `group` is the number of query heads.
    pub(super) fn rows(
        self,
        at_once: usize,
        group: usize,
        widths: &[usize],
        queries: usize,
    ) -> Vec<Range<usize>> {
        let pairs = widths.iter().sum::<usize>() * ROWS * group;
        let pieces = PIECES.div_ceil(at_once.max(1)).min(pairs / self.least_pairs);
        let row = |block: usize| (block * ROWS).min(queries);
        even(widths, pieces).into_iter().map(|blocks| row(blocks.start)..row(blocks.end)).collect()
    }
}

/// Up to `pieces` ranges of about the same weight, which cover all.
fn even(weights: &[usize], pieces: usize) -> Vec<Range<usize>> {
    let total: usize = weights.iter().sum();
    let mut ranges = Vec::new();
    let (mut start, mut sum) = (0, 0);
    for (index, weight) in weights.iter().enumerate() {
        sum += weight;
        // As much as all pieces up to this one should weigh, or all that there is.
        if index + 1 == weights.len()
            || sum * pieces >= total * (ranges.len() + 1) && pieces > ranges.len() + 1
        {
            ranges.push(start..index + 1);
            start = index + 1;
        }
    }
    ranges
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        pub(in crate::attention) static CUT: Cell<Cut> = const { Cell::new(Cut::USUAL) };
    }

    /// Cuts the calls of this thread as small as possible while `work` runs.
    pub(in crate::attention) fn cut_small<T>(work: impl FnOnce() -> T) -> T {
        let usual = CUT.replace(Cut { least_pairs: 1 });
        let result = work();
        CUT.set(usual);
        result
    }

    /// The widths of a causal text's blocks.
    fn causal(queries: usize) -> Vec<usize> {
        (0..queries).step_by(ROWS).map(|first| queries.min(first + ROWS)).collect()
    }

    #[test]
    fn a_long_text_with_few_heads_has_work_for_64_threads() {
        let widths = causal(16_384);
        let pieces = Cut::USUAL.rows(4, 1, &widths, 16_384);
        assert!(4 * pieces.len() >= 64, "{}", pieces.len());
        let weight = |rows: &Range<usize>| widths[rows.start / ROWS..rows.end / ROWS].iter().sum::<usize>();
        let heaviest = pieces.iter().map(weight).max().unwrap();
        let mean = widths.iter().sum::<usize>() / pieces.len();
        assert!(10 * heaviest <= 11 * mean, "{heaviest} against {mean} on average");
    }

    #[test]
    fn training_shapes_are_not_cut() {
        // Key heads times batch, and length.
        for (heads, length) in [(4 * 64, 64), (4 * 32, 128), (4 * 8, 512), (4, 64), (64, 4096)] {
            let pieces = Cut::USUAL.rows(heads, 1, &causal(length), length);
            assert!(pieces.len() == 1 && pieces[0] == (0..length), "{heads} {length}: {pieces:?}");
        }
    }

    #[test]
    fn ranges_cover_all_and_none_is_empty() {
        for (weights, pieces) in [
            (vec![1; 10], 3),
            (vec![0, 0, 9, 0, 0], 4),
            (vec![5], 7),
            (vec![0; 4], 2),
            (vec![9, 1, 1, 1], 4),
            (vec![3, 3], 0),
            (vec![], 5),
        ] {
            let ranges = even(&weights, pieces);
            assert!(ranges.len() <= pieces.max(1), "{ranges:?}");
            assert!(ranges.iter().all(|range| !range.is_empty()), "{ranges:?}");
            let covered: Vec<usize> = ranges.iter().cloned().flatten().collect();
            assert_eq!(covered, (0..weights.len()).collect::<Vec<_>>(), "{weights:?} in {pieces}");
        }
        assert_eq!(even(&[1, 2, 3, 4, 5], 3), [0..3, 3..4, 4..5]);
    }
}
