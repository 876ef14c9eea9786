//! Vectors by count: a query meets the vector of how many keys the gates have let through.
//!
//! With x the scaled q·k of a query and a key (the query scale included), `g = sigmoid(x)` is the gate of a pair, or
//! another multiple of q·k in place of x, and `c_ij = min(g_ij + .. + g_ii, positions - 1)` counts from the query's own key backwards. The logit becomes
//! `x + (1 - f) q_i · vectors[floor c] + f q_i · vectors[ceil c]`, f the fraction of c (Golovneva et al. 2024,
//! arXiv:2405.18719, equations 3 to 6).
//!
//! Nothing of size queries x keys is kept. For a block of queries, a table of its products with the vectors is one small
//! matrix product. Each row is read from the query's own key backwards, and only as far as its count grows: all keys
//! before that have the last vector, so that a long row costs little more than one without counts. The gradient computes
//! gates and counts again; those of the table become two small products.

mod gradient;
pub(super) mod reference;
mod rows;

pub(super) use gradient::{size, tensor, through_counts, through_products};
pub(super) use rows::{Counts, add_counted};

use super::{Attention, RelativeVectors, Shape};
use crate::machine::autodiff::values;
use crate::machine::matmul::Matrix;
use crate::machine::simd::LANES;
use burn::tensor::Tensor;
use burn_flex::FlexTensor;

/// Vectors that counts of gates choose.
#[derive(Clone, Debug)]
pub struct CountedVectors {
    /// `[positions, head_dim]`: the heads share them.
    pub vectors: Tensor<2>,
    /// What multiplies q·k in its gate, beside the query scale; the scale of the attention unless given.
    pub gate_scale: Option<f64>,
}

impl CountedVectors {
    /// What multiplies a scaled score in its gate.
    fn on_scaled(&self, scale: f64) -> f64 {
        self.gate_scale.map_or(1.0, |own| own / scale)
    }

    pub(super) fn check(&self, options: &Attention, shape: &Shape) {
        let [positions, width] = self.vectors.dims();
        assert!(
            positions > 0 && width == shape.head_dim,
            "attention: counted vectors [{positions}, {width}] for heads of {} channels",
            shape.head_dim
        );
        assert!(
            RelativeVectors::is_none(&options.relative) && options.distances == (0..usize::MAX),
            "attention: counted vectors beside vectors by distance, or in a range of distances"
        );
    }
}

/// The tensor of [`CountedVectors`].
#[derive(Clone, Debug)]
pub(super) struct CountedTensor {
    vectors: FlexTensor,
    /// What multiplies a scaled score in its gate.
    gate_scale: f32,
}

impl CountedTensor {
    pub(super) fn new(counted: &CountedVectors, options: &Attention, vectors: FlexTensor) -> Self {
        Self { vectors, gate_scale: counted.on_scaled(options.scale) as f32 }
    }
}

/// The values of [`CountedVectors`], laid out for products with blocks of rows.
pub(super) struct Vectors {
    /// `[positions, width]`.
    rows: Vec<f32>,
    /// `[width, stride]`: the transpose.
    columns: Vec<f32>,
    positions: usize,
    width: usize,
    /// Numbers of a row's table: there is one after the last position.
    stride: usize,
    /// What multiplies a scaled score in its gate.
    gate_scale: f32,
}

impl Vectors {
    pub(super) fn new(tensor: &CountedTensor) -> Self {
        let shape = tensor.vectors.layout().shape();
        let [positions, width] = [shape[0], shape[1]];
        let stride = (positions + 1).next_multiple_of(LANES);
        let rows = values(&tensor.vectors).into_owned();
        // Columns of zeros after the last position: the products are as wide as a row's table.
        let mut columns = vec![0.0; width * stride];
        Matrix::new(&rows, positions, width, width).transpose_into(&mut columns, stride);
        Self { rows, columns, positions, width, stride, gate_scale: tensor.gate_scale }
    }

    fn rows(&self) -> Matrix<'_> {
        Matrix::new(&self.rows, self.positions, self.width, self.width)
    }

    fn columns(&self) -> Matrix<'_> {
        Matrix::new(&self.columns, self.width, self.stride, self.stride)
    }

    /// How far counts go.
    fn last(&self) -> usize {
        self.positions - 1
    }
}
