//! How the work of a call is cut into pieces that threads share, by its shape alone.
//!
//! The gradient's pieces are rows of one key head. Rows far down a causal text see more keys than early ones, so that
//! pieces are cut to weigh the same, the late ones first in the order of work. Forward, pieces are rows of all heads;
//! they share nothing, so that many small ones do, the heavy ones first. Where there are few rows and many keys, as in
//! cached decoding, a piece is a range of keys of one head.

use crate::attention::spec::Shape;
use crate::machine::simd::LANES;
use std::ops::Range;

/// Query rows per block: enough to keep the matrix products busy, few enough that little of a causal
/// block is wasted and that its logits stay in the cache.
pub(in crate::attention) const ROWS: usize = 32;

/// Pieces that a call is cut into if its shape allows: work for so many threads.
pub(in crate::attention) const PIECES: usize = 64;

/// How small pieces may get: the fewest of each.
#[derive(Clone, Copy, Debug)]
pub(in crate::attention) struct Cut {
    /// Pairs of a query and a key of a piece of the gradient: below that, adding up what pieces share is no longer
    /// little beside the work.
    pub(in crate::attention) pairs: usize,
    /// Keys of a range that few rows read: a few ranges of so many take longer than it takes to wake other threads.
    pub(in crate::attention) keys: usize,
    /// Query rows of a range of linear attention: below that, adding up first what each range will add up again is no longer little beside
    /// the work.
    pub(in crate::attention) linear_rows: usize,
}

/// The most query rows per task, a multiple of [`ROWS`]: they share the transpose of their keys.
pub(in crate::attention) const TASK_ROWS: usize = 128;

/// With more queries than this, all tasks share one transpose of all keys.
pub(in crate::attention) const SHARED: usize = 4 * TASK_ROWS;

/// Query rows per task.
pub(in crate::attention) fn task_rows(batch: usize, queries: usize) -> usize {
    if queries <= SHARED {
        return TASK_ROWS;
    }
    (batch * queries / PIECES / ROWS * ROWS).clamp(ROWS, TASK_ROWS)
}

impl Cut {
    const USUAL: Self = Self { pairs: 1 << 18, keys: 1024, linear_rows: 16 * 64 };

    /// Ranges of the keys that rows see, where it pays to give each head and range to a thread.
    pub(in crate::attention) fn keys(self, shape: &Shape, seen: Range<usize>) -> Option<Vec<Range<usize>>> {
        let blocks = shape.batch * shape.queries.div_ceil(ROWS);
        if blocks >= PIECES || seen.len() < 4 * self.keys {
            return None;
        }
        let parts = PIECES.div_ceil((blocks * shape.heads).max(1)).min(seen.len() / self.keys);
        let wide = seen.len().div_ceil(parts).next_multiple_of(LANES);
        Some(seen.clone().step_by(wide).map(|start| start..seen.end.min(start + wide)).collect())
    }

    /// How the calls of this thread are cut.
    pub(in crate::attention) fn current() -> Self {
        #[cfg(test)]
        return tests::CUT.with(std::cell::Cell::get);
        #[cfg(not(test))]
        Self::USUAL
    }

    /// The query rows of each piece of a key head's gradient, the first rows first, where `at_once` key heads are
    /// worked on at a time. `widths` are the keys that each block of rows sees; `group` is the number of query heads.
    pub(in crate::attention) fn rows(
        self,
        at_once: usize,
        group: usize,
        widths: &[usize],
        queries: usize,
    ) -> Vec<Range<usize>> {
        let pairs = widths.iter().sum::<usize>() * ROWS * group;
        let pieces = PIECES.div_ceil(at_once.max(1)).min(pairs / self.pairs);
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
pub(in crate::attention) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        pub(in crate::attention) static CUT: Cell<Cut> = const { Cell::new(Cut::USUAL) };
    }

    /// Cuts the calls of this thread as small as possible while `work` runs.
    pub(in crate::attention) fn cut_small<T>(work: impl FnOnce() -> T) -> T {
        cut(Cut { pairs: 1, keys: LANES, linear_rows: 64 }, work)
    }

    /// Cuts the calls of this thread but forward.
    pub(in crate::attention) fn cut_gradient_small<T>(work: impl FnOnce() -> T) -> T {
        cut(Cut { pairs: 1, ..Cut::USUAL }, work)
    }

    fn cut<T>(cut: Cut, work: impl FnOnce() -> T) -> T {
        let usual = CUT.replace(cut);
        let result = work();
        CUT.set(usual);
        result
    }

    /// The keys that each block of rows of a causal text sees.
    fn causal_widths(queries: usize) -> Vec<usize> {
        (0..queries).step_by(ROWS).map(|first| queries.min(first + ROWS)).collect()
    }

    #[test]
    fn a_long_text_with_few_heads_has_work_for_64_threads() {
        let widths = causal_widths(16_384);
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
            let pieces = Cut::USUAL.rows(heads, 1, &causal_widths(length), length);
            assert!(pieces.len() == 1 && pieces[0] == (0..length), "{heads} {length}: {pieces:?}");
        }
    }

    #[test]
    fn one_query_of_many_keys_is_cut_by_keys() {
        let shape = |batch, heads, queries| Shape {
            batch,
            heads,
            key_heads: heads,
            queries,
            keys: 16_384,
            head_dim: 64,
            value_dim: 64,
        };
        let pieces = |shape: Shape, keys: usize| {
            Cut::USUAL.keys(&shape, 0..keys).map(|ranges| ranges.len() * shape.heads * shape.batch)
        };
        assert_eq!(pieces(shape(1, 4, 1), 16_384), Some(64));
        assert_eq!(pieces(shape(1, 4, 1), 4096), Some(16));
        assert_eq!(pieces(shape(8, 8, 1), 16_384), Some(64), "heads are enough");
        assert_eq!(pieces(shape(1, 4, 1), 4095), None, "too few keys");
        assert_eq!(pieces(shape(64, 4, 1), 16_384), None, "texts are enough");
        assert_eq!(pieces(shape(1, 4, 16_384), 16_384), None, "rows are enough");
        let ranges = Cut { keys: 16, ..Cut::USUAL }.keys(&shape(1, 4, 1), 7..120).unwrap();
        assert_eq!(ranges, [7..39, 39..71, 71..103, 103..120]);
    }

    #[test]
    fn forward_tasks_are_enough_for_64_threads() {
        for (batch, queries) in [(1_usize, 2048_usize), (1, 16_384), (2, 1024), (64, 64)] {
            assert!(batch * queries.div_ceil(task_rows(batch, queries)) >= 64, "{batch} x {queries}");
        }
        assert_eq!((task_rows(8, 512), task_rows(1, 16_384)), (TASK_ROWS, TASK_ROWS));
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
