//! The products of the head on numbers of bf16, by the processor's dot products.

use super::products::Products;
use crate::machine::bf16::{
    Bf16Matrix, COLUMNS, Panels, add_panel_with_panel, lay_out_strip, rows_with_panel,
};
use crate::machine::matmul::STRIP;
use crate::machine::simd::Number;
use burn::tensor::bf16;
use std::borrow::Cow;
use std::ops::Range;

const _: () = assert!(STRIP == COLUMNS, "a strip of the logits' gradient is a panel");

/// Hidden states and weights, rounded to bf16. Rows of odd sizes end with a 0, so that all consist of pairs.
pub(super) struct Half<'a> {
    hidden: Cow<'a, [bf16]>,
    sizes: [usize; 3],
    forward: Panels,
    backward: Option<Panels>,
}

impl<'a> Half<'a> {
    /// With or without the gradient of hidden states.
    pub(super) fn new(
        hidden: &'a [bf16],
        weights: Bf16Matrix<'_>,
        sizes: [usize; 3],
        gradient: bool,
    ) -> Self {
        let width = sizes[1];
        let hidden = if width.is_multiple_of(2) {
            Cow::Borrowed(hidden)
        } else {
            let paired = |row: &'a [bf16]| row.iter().copied().chain([bf16::ZERO]);
            Cow::Owned(hidden.chunks_exact(width).flat_map(paired).collect())
        };
        let backward = gradient.then(|| Panels::new(weights.transposed()));
        Self { hidden, sizes, forward: Panels::new(weights), backward }
    }

    /// The hidden states of some rows.
    fn rows(&self, rows: Range<usize>) -> Bf16Matrix<'_> {
        let width = self.sizes[1].next_multiple_of(2);
        Bf16Matrix::new(&self.hidden[rows.start * width..rows.end * width], rows.len(), width)
    }
}

/// The product of contiguous rows and a matrix in panels; `store` receives the sums of a part of a row and where it begins
/// in the result, whose rows lie `stride` apart.
fn by_panels(
    left: Bf16Matrix<'_>,
    rows: usize,
    right: &Panels,
    [columns, stride]: [usize; 2],
    mut store: impl FnMut(usize, &mut [f32]),
) {
    let mut sums = vec![0.0; rows * COLUMNS];
    for panel in 0..right.count() {
        let column = panel * COLUMNS;
        rows_with_panel(left, right.panel(panel), &mut sums);
        for (row, sums) in sums.chunks_exact_mut(COLUMNS).enumerate() {
            store(row * stride + column, &mut sums[..COLUMNS.min(columns - column)]);
        }
    }
}

impl Products for Half<'_> {
    type Number = bf16;
    /// Pairs of rows.
    type Block = Panels;
    /// A panel of pairs of rows.
    type Strip = Vec<u32>;

    fn sizes(&self) -> [usize; 3] {
        self.sizes
    }

    fn stride(&self) -> usize {
        self.sizes[2].next_multiple_of(2)
    }

    fn logits(&self, rows: Range<usize>, out: &mut [bf16]) {
        let shape = [self.sizes[2], self.stride()];
        by_panels(self.rows(rows.clone()), rows.len(), &self.forward, shape, |from, sums| {
            bf16::round_scaled(sums, 1.0, &mut out[from..from + sums.len()]);
        });
    }

    fn hidden_gradient(&self, slopes: &[bf16], out: &mut [f32]) {
        let (stride, width) = (self.stride(), self.sizes[1]);
        let rows = slopes.len() / stride;
        let slopes = Bf16Matrix::new(slopes, rows, stride);
        let weights = self.backward.as_ref().expect("the gradient of hidden states is wanted");
        by_panels(slopes, rows, weights, [width; 2], |from, sums| {
            out[from..from + sums.len()].copy_from_slice(sums);
        });
    }

    fn block(&self, rows: Range<usize>) -> Panels {
        Panels::new(self.rows(rows))
    }

    fn lay_out(&self, slopes: &[bf16], first: usize, wide: usize, strip: &mut Vec<u32>) {
        lay_out_strip(slopes, self.stride(), first, wide, strip);
    }

    fn add_weight_gradient(&self, block: &Panels, strip: &Vec<u32>, channel: usize, sums: &mut [f32]) {
        for (part, sums) in sums.chunks_mut(COLUMNS * STRIP).enumerate() {
            add_panel_with_panel(block.panel(channel / COLUMNS + part), strip, sums);
        }
    }
}
