//! How many pieces the fused operations are cut into on the CPU: so many threads have work.
//!
//! The numbers are those by which the operations themselves cut. Pieces of one call weigh about the same, but for
//! attention and the head, whose weights are given.

use crate::attention::pieces::causal_weights;
use crate::{Precision, activation, adamw, bf16, head, matmul, norm, rotary};

/// Of a product `[rows, inner] x [inner, columns]`, given as its rows, columns and inner size.
pub fn product(precision: Precision, shape: [usize; 3]) -> usize {
    match precision {
        Precision::Bf16 if bf16::arithmetic() == bf16::Arithmetic::Dot => bf16::tiles(shape),
        _ => matmul::tiles(shape),
    }
}

/// Of plain causal attention of texts of some length, for so many query and key heads: what each piece weighs, forward
/// and of the gradient.
///
/// # Panics
/// There is no key head.
pub fn attention(batch: usize, heads: [usize; 2], length: usize) -> [Vec<usize>; 2] {
    causal_weights(batch, heads, length)
}

/// Of a normalisation of rows, in either direction.
pub fn norm(rows: usize) -> usize {
    norm::flex::tasks(rows)
}

/// Of an activation with an output `[rows, hidden]`, in either direction.
pub fn activation(rows: usize, hidden: usize, gated: bool) -> usize {
    activation::flex::tasks(rows, hidden, gated)
}

/// Of the head of rows, width and classes with its loss and all gradients, one phase after the other: what each piece weighs.
pub fn head_loss(precision: Precision, sizes: [usize; 3]) -> Vec<Vec<usize>> {
    head::phases(precision, sizes)
}

/// What a parameter of so many numbers adds to those of an update.
pub fn update(numbers: usize) -> usize {
    adamw::flex::tasks(numbers)
}

/// Of a rotation of the heads of texts of some length, forward.
pub fn rotation(batch: usize, length: usize) -> usize {
    batch * rotary::flex::tasks(length)
}
