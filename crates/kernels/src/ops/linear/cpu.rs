//! Linear maps on the CPU.

use crate::machine::autodiff::{compact, rounded_tensor, values};
use crate::machine::bf16::Bf16Matrix;
use crate::machine::matmul::{Matrix, parallel_matmul};
use burn::tensor::bf16;
use burn_flex::FlexTensor;
use std::borrow::Cow;

/// Weights `[in, out]`, as rows or as the transpose of rows.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    /// What lies contiguously: `[in, out]`, or `[out, in]` if turned.
    rows: FlexTensor,
    turned: bool,
}

impl Weights {
    /// Copied only if neither they nor their transpose lie contiguously.
    pub(crate) fn new(weights: &FlexTensor) -> Self {
        let transpose = weights.transpose(0, 1);
        let turned = weights.as_slice::<f32>().is_none() && transpose.as_slice::<f32>().is_some();
        Self { rows: compact(if turned { transpose } else { weights.clone() }), turned }
    }

    pub(crate) fn values(&self) -> Cow<'_, [f32]> {
        values(&self.rows)
    }

    /// `[in, out]` on the values.
    pub(crate) fn matrix<'a>(&self, values: &'a [f32]) -> Matrix<'a> {
        let [rows, columns] = self.rows.layout().shape().dims();
        let matrix = Matrix::new(values, rows, columns, columns);
        if self.turned { matrix.transposed() } else { matrix }
    }

    /// The values in bf16.
    pub(crate) fn halves(&self) -> FlexTensor {
        rounded_tensor(self.rows.clone())
    }

    /// `[in, out]` on the values in bf16.
    pub(crate) fn of_halves<'a>(&self, halves: &'a [bf16]) -> Bf16Matrix<'a> {
        let [rows, columns] = self.rows.layout().shape().dims();
        let matrix = Bf16Matrix::new(halves, rows, columns);
        if self.turned { matrix.transposed() } else { matrix }
    }

    /// Whether they lie as the transpose of rows.
    pub(crate) fn is_turned(&self) -> bool {
        self.turned
    }

    /// Inputs and outputs.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        let [rows, columns] = self.rows.layout().shape().dims();
        if self.turned { [columns, rows] } else { [rows, columns] }
    }

    pub(super) fn outputs(&self) -> usize {
        self.sizes()[1]
    }
}

/// x `[rows, in]` -> `[rows, out]`.
pub(super) fn forward(
    x: &[f32],
    [rows, inputs]: [usize; 2],
    weights: &Weights,
    onto: Option<&[f32]>,
) -> Vec<f32> {
    parallel_matmul(Matrix::new(x, rows, inputs, inputs), weights.matrix(&weights.values()), onto)
}

/// The gradient of x, `[rows, in]`, from that of the output, `[rows, out]`.
pub(super) fn input_gradient(gradient: &[f32], rows: usize, weights: &Weights) -> Vec<f32> {
    let outputs = weights.outputs();
    let gradient = Matrix::new(gradient, rows, outputs, outputs);
    parallel_matmul(gradient, weights.matrix(&weights.values()).transposed(), None)
}

/// The gradient of the weights, in the order in which they lie.
pub(super) fn weight_gradient(
    x: &[f32],
    [rows, inputs]: [usize; 2],
    gradient: &[f32],
    weights: &Weights,
) -> FlexTensor {
    let outputs = weights.outputs();
    let x = Matrix::new(x, rows, inputs, inputs);
    let gradient = Matrix::new(gradient, rows, outputs, outputs);
    if weights.turned {
        let values = parallel_matmul(gradient.transposed(), x, None);
        return crate::machine::autodiff::permuted_tensor_of(values, [outputs, inputs], [1, 0]);
    }
    crate::machine::autodiff::tensor_of(parallel_matmul(x.transposed(), gradient, None), [inputs, outputs])
}
