//! The activations on the CPU.

use crate::bf16::{made, widened_part};
use crate::buffers::{GRAIN, computed};
use crate::simd::{normal, sigmoid, vectorised};
use burn::tensor::bf16;

pub(super) fn gelu(x: &[f32]) -> Vec<f32> {
    computed(x.len(), GRAIN, |task, out| gelu_chunk(&x[task * GRAIN..], out))
}

pub(super) fn gelu_backward(x: &[f32], gradient: &[f32]) -> Vec<f32> {
    computed(x.len(), GRAIN, |task, out| {
        let from = task * GRAIN;
        gelu_chunk_backward(&x[from..], &gradient[from..], out);
    })
}

/// In bf16, computed in f32; here and below.
pub(super) fn gelu_bf16(x: &[bf16]) -> Vec<bf16> {
    made(x.len(), GRAIN, |task, out| gelu_chunk(&part(x, task * GRAIN, out.len()), out))
}

pub(super) fn gelu_backward_bf16(x: &[bf16], gradient: &[bf16]) -> Vec<bf16> {
    made(x.len(), GRAIN, |task, out| {
        let (from, count) = (task * GRAIN, out.len());
        gelu_chunk_backward(&part(x, from, count), &part(gradient, from, count), out);
    })
}

/// `count` numbers from `from` on, in f32.
fn part(values: &[bf16], from: usize, count: usize) -> Vec<f32> {
    widened_part(&values[from..from + count])
}

/// Numbers of a task in whole rows of `[rows, hidden]`.
fn whole_rows(hidden: usize) -> usize {
    GRAIN.div_ceil(hidden) * hidden
}

/// The tasks of an output `[rows, hidden]`, forward and backward.
pub(crate) fn tasks(rows: usize, hidden: usize, gated: bool) -> usize {
    (rows * hidden).div_ceil(if gated { whole_rows(hidden) } else { GRAIN })
}

/// packed `[rows, 2 hidden]` -> `[rows, hidden]`.
pub(super) fn swiglu(packed: &[f32], hidden: usize) -> Vec<f32> {
    let chunk = whole_rows(hidden);
    computed(packed.len() / 2, chunk, |task, out| swiglu_rows(&packed[2 * task * chunk..], hidden, out))
}

/// The gradient of packed `[rows, 2 hidden]`.
pub(super) fn swiglu_backward(packed: &[f32], gradient: &[f32], hidden: usize) -> Vec<f32> {
    let chunk = whole_rows(hidden);
    computed(packed.len(), 2 * chunk, |task, out| {
        swiglu_rows_backward(&packed[2 * task * chunk..], &gradient[task * chunk..], hidden, out);
    })
}

pub(super) fn swiglu_bf16(packed: &[bf16], hidden: usize) -> Vec<bf16> {
    let chunk = whole_rows(hidden);
    made(packed.len() / 2, chunk, |task, out| {
        swiglu_rows(&part(packed, 2 * task * chunk, 2 * out.len()), hidden, out);
    })
}

pub(super) fn swiglu_backward_bf16(packed: &[bf16], gradient: &[bf16], hidden: usize) -> Vec<bf16> {
    let chunk = whole_rows(hidden);
    made(packed.len(), 2 * chunk, |task, out| {
        let (from, count) = (task * chunk, out.len() / 2);
        let packed = part(packed, 2 * from, 2 * count);
        swiglu_rows_backward(&packed, &part(gradient, from, count), hidden, out);
    })
}

vectorised! {
    fn gelu_chunk(x: &[f32], out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = x * normal(*x).0;
        }
    }

    /// `gradient * (Φ(x) + x φ(x))`.
    fn gelu_chunk_backward(x: &[f32], gradient: &[f32], out: &mut [f32]) {
        for ((out, x), gradient) in out.iter_mut().zip(x).zip(gradient) {
            let (below, density) = normal(*x);
            *out = gradient * (below + x * density);
        }
    }

    fn swiglu_rows(packed: &[f32], hidden: usize, out: &mut [f32]) {
        for (packed, out) in packed.chunks_exact(2 * hidden).zip(out.chunks_exact_mut(hidden)) {
            let (gate, up) = packed.split_at(hidden);
            for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                *out = gate * sigmoid(*gate) * up;
            }
        }
    }

    /// The gate receives `gradient * up * s * (1 + gate * (1 - s))`, s the sigmoid of the gate.
    fn swiglu_rows_backward(packed: &[f32], gradient: &[f32], hidden: usize, out: &mut [f32]) {
        let rows = packed.chunks_exact(2 * hidden).zip(gradient.chunks_exact(hidden));
        for ((packed, gradient), out) in rows.zip(out.chunks_exact_mut(2 * hidden)) {
            let (gate, up) = packed.split_at(hidden);
            let (out_gate, out_up) = out.split_at_mut(hidden);
            let outputs = out_gate.iter_mut().zip(out_up);
            for ((out_gate, out_up), ((gate, up), gradient)) in outputs.zip(gate.iter().zip(up).zip(gradient)) {
                let s = sigmoid(*gate);
                *out_gate = gradient * up * s * (1.0 + gate * (1.0 - s));
                *out_up = gradient * gate * s;
            }
        }
    }
}
