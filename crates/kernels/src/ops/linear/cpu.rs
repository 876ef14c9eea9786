//! Linear maps on the CPU.

use crate::machine::autodiff::{bf16_values, compact, rounded_tensor, tensor_of, values};
use crate::machine::bf16::{Bf16Matrix, rounded_product, stream_product};
use crate::machine::matmul::{Matrix, parallel_matmul};
use burn::tensor::{Shape, bf16};
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

    /// What lies contiguously.
    pub(super) fn rows(&self) -> FlexTensor {
        self.rows.clone()
    }

    /// `[in, out]` on the rows in the precision of a product.
    pub(super) fn factor<'a>(&self, rows: &'a FlexTensor) -> Factor<'a> {
        let factor = Factor::new(rows, rows.layout().shape().dims());
        if self.turned { factor.transposed() } else { factor }
    }
}

/// A factor of products in f32, or of those of bf16.
#[derive(Clone, Copy)]
pub(super) enum Factor<'a> {
    Wide(Matrix<'a>),
    Half(Bf16Matrix<'a>),
}

impl<'a> Factor<'a> {
    /// Of numbers of f32 or bf16 in row-major order.
    pub(super) fn new(numbers: &'a FlexTensor, [rows, columns]: [usize; 2]) -> Self {
        match numbers.as_slice::<f32>() {
            Some(numbers) => Self::Wide(Matrix::new(numbers, rows, columns, columns)),
            None => Self::Half(Bf16Matrix::new(bf16_values(numbers), rows, columns)),
        }
    }

    pub(super) fn transposed(self) -> Self {
        match self {
            Self::Wide(matrix) => Self::Wide(matrix.transposed()),
            Self::Half(matrix) => Self::Half(matrix.transposed()),
        }
    }

    /// `self * right`, a tensor of this shape; added to `onto` if it is given. A product of bf16 is rounded to it, and then stays so
    /// (`half`) or is made f32 again.
    pub(super) fn times(
        self,
        right: Self,
        onto: Option<&[f32]>,
        half: bool,
        shape: impl Into<Shape>,
    ) -> FlexTensor {
        match (self, right) {
            (Self::Wide(left), Self::Wide(right)) => tensor_of(parallel_matmul(left, right, onto), shape),
            (Self::Half(left), Self::Half(right)) if half => tensor_of(rounded_product(left, right), shape),
            (Self::Half(left), Self::Half(right)) => tensor_of(stream_product(left, right, onto), shape),
            _ => unreachable!("factors of one precision"),
        }
    }
}
