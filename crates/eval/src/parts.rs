//! Parts of the one document that a split has, which take the place of documents where errors are over these.
//!
//! A text of one document, such as the whole of a novel, has no errors over documents. So its windows are dealt to blocks that
//! follow each other, each as long as [`WINDOWS`] windows of the longest length that do not overlap, at least: more windows where
//! they overlap. A block's windows depend on each other; two blocks hardly do, since they are much longer than what a token depends on. Their sums are taken as those of documents: the
//! method of block means, also called subseries values.
//!
//! Source: E. Carlstein, "The use of subseries values for estimating the variance of a general statistic from a stationary
//! sequence", Annals of Statistics 14 (1986), 1171-1179. The bootstrap draws the same blocks.

use crate::block::ResolvedEvaluate;
use crate::plan::{Plan, Window};
use crate::source::Source;
use crate::text::Material;
use longwave_core::Result;
use std::iter::once;
use std::ops::Range;

/// The fewest windows of a block, and how often its tokens hold the longest window at least.
pub const WINDOWS: usize = 16;

/// What the sums of a measurement are over: documents, or blocks of the one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The first target of each block but the first; none where there are documents.
    cuts: Vec<usize>,
}

impl Parts {
    /// Those of an evaluation, the same at all its lengths: blocks where one document alone is scored and has windows for
    /// two of them.
    pub(crate) fn of(block: &ResolvedEvaluate, source: &Source<'_>) -> Result<Self> {
        let (Some(&shortest), Some(&longest)) = (block.lengths.iter().min(), block.lengths.iter().max())
        else {
            return Ok(Self::default());
        };
        // An encoding that does not read the longest is scored on the same windows all the same.
        let longest = block.keys.max_length().unwrap_or(longest);
        if !matches!(block.protocol.material(), Material::Documents | Material::Watched) {
            return Ok(Self::default());
        }
        let text = source.documents();
        if !is_of_one_document(&block.windows(shortest, &text)?) {
            return Ok(Self::default());
        }
        Ok(Self::of_windows(&block.windows(longest, &text)?, longest))
    }

    /// The blocks of the windows of the longest length, all of one document.
    fn of_windows(plan: &Plan, longest: usize) -> Self {
        let windows = plan.windows.len();
        let [first, last] = [plan.windows.first(), plan.windows.last()];
        let tokens = last.zip(first).map_or(0, |(last, first)| last.end - first.start);
        let blocks = (windows / WINDOWS).min(tokens / (WINDOWS * longest));
        // As even as whole windows allow.
        let cuts = (1..blocks).map(|block| plan.windows[block * windows / blocks].first);
        Self { cuts: cuts.collect() }
    }

    /// Whether blocks stand for documents.
    pub fn are_blocks(&self) -> bool {
        !self.cuts.is_empty()
    }

    pub fn count(&self, documents: usize) -> usize {
        if self.are_blocks() { self.cuts.len() + 1 } else { documents }
    }

    /// The part of a window's first target.
    pub fn of_window(&self, window: &Window) -> usize {
        if self.are_blocks() {
            self.cuts.partition_point(|cut| *cut <= window.first)
        } else {
            window.document
        }
    }

    /// A window's targets by the part that each is in: a window that goes over the edge of a block has some in either, whatever it is
    /// cut into elsewhere.
    pub fn of_targets(&self, window: &Window) -> Vec<(usize, Range<usize>)> {
        let inside = self.cuts.iter().copied().filter(|cut| (window.first + 1..window.end).contains(cut));
        let edges: Vec<usize> = once(window.first).chain(inside).chain(once(window.end)).collect();
        let parts = self.of_window(window)..;
        parts.zip(edges.windows(2)).map(|(part, edges)| (part, edges[0]..edges[1])).collect()
    }
}

fn is_of_one_document(plan: &Plan) -> bool {
    plan.windows.iter().all(|window| window.document == plan.windows[0].document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::truncate;
    use crate::protocols::fixed_target::fixed_target;

    #[test]
    fn blocks_have_sixteen_windows_at_least_and_are_even() {
        // 37 windows of 8 targets: two blocks, of 18 and 19 windows.
        let plan = |length| fixed_target(&[37 * 32 + 1], length, 8, 32, 32, None);
        let parts = Parts::of_windows(&plan(32), 32);
        let mut sizes = vec![0; parts.count(1)];
        plan(32).windows.iter().for_each(|window| sizes[parts.of_window(window)] += 1);
        assert_eq!(sizes, [18, 19]);
        // The same targets are in the same block at every length, and where the context is cut.
        let dealt = |plan: &Plan| -> Vec<(usize, usize)> {
            let of = |window: &Window| parts.of_targets(window);
            let targets = |(part, targets): (usize, Range<usize>)| targets.map(move |target| (target, part));
            plan.windows.iter().flat_map(of).flat_map(targets).collect()
        };
        assert_eq!(dealt(&plan(8)), dealt(&plan(32)));
        assert_eq!(dealt(&truncate(&plan(32), 8, false)), dealt(&plan(32)));
        // So are those of windows that go over the edge of a block. Every target is scored once here, in windows of 32 and of 24.
        let whole = |length| fixed_target(&[37 * 32 + 1], length, length, length, length, None);
        let parts = Parts::of_windows(&whole(32), 32);
        let dealt = |plan: &Plan| -> Vec<usize> {
            let mut sizes = vec![0; parts.count(1)];
            for (part, targets) in plan.windows.iter().flat_map(|window| parts.of_targets(window)) {
                sizes[part] += targets.len();
            }
            sizes
        };
        assert_eq!(dealt(&whole(32)), [18 * 32, 19 * 32]);
        // 49 windows of 24: the last 8 tokens are left out.
        assert_eq!(dealt(&whole(24)), [18 * 32, 19 * 32 - 8]);
    }

    #[test]
    fn windows_that_overlap_make_no_shorter_blocks() {
        // 1,025 tokens are 32 windows of 32 and the first token of all, however many windows are read in them.
        for stride in [32, 16, 4, 1] {
            let plan = fixed_target(&[1025], 32, stride, 32, stride, None);
            let parts = Parts::of_windows(&plan, 32);
            assert_eq!(parts.count(1), 2, "{stride}: {} windows", plan.windows.len());
            let of_first = plan.windows.iter().filter(|window| parts.of_window(window) == 0).count();
            assert_eq!(of_first, plan.windows.len() / 2);
        }
    }

    #[test]
    fn few_windows_make_no_blocks_and_documents_stay_what_they_are() {
        let few = fixed_target(&[31 * 32 + 1], 32, 8, 32, 32, None);
        assert!(!Parts::of_windows(&few, 32).are_blocks());
        assert!(!is_of_one_document(&fixed_target(&[200, 200], 32, 8, 32, 32, None)));
        assert_eq!((Parts::default().count(3), Parts::default().of_window(&few.windows[5])), (3, 0));
    }
}
