//! The activations on the CPU.

use crate::lanes::{normal, sigmoid, vectorised};
use rayon::prelude::*;

/// Elements per task.
const GRAIN: usize = 1 << 14;

pub(super) fn gelu(x: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    out.par_chunks_mut(GRAIN).zip(x.par_chunks(GRAIN)).for_each(|(out, x)| gelu_chunk(x, out));
    out
}

pub(super) fn gelu_backward(x: &[f32], gradient: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    out.par_chunks_mut(GRAIN)
        .zip(x.par_chunks(GRAIN).zip(gradient.par_chunks(GRAIN)))
        .for_each(|(out, (x, gradient))| gelu_chunk_backward(x, gradient, out));
    out
}

/// packed `[rows, 2 hidden]` -> `[rows, hidden]`.
pub(super) fn swiglu(packed: &[f32], hidden: usize) -> Vec<f32> {
    let mut out = vec![0.0; packed.len() / 2];
    let rows = GRAIN.div_ceil(hidden);
    out.par_chunks_mut(rows * hidden)
        .zip(packed.par_chunks(2 * rows * hidden))
        .for_each(|(out, packed)| swiglu_rows(packed, hidden, out));
    out
}

/// The gradient of packed `[rows, 2 hidden]`.
pub(super) fn swiglu_backward(packed: &[f32], gradient: &[f32], hidden: usize) -> Vec<f32> {
    let mut out = vec![0.0; packed.len()];
    let rows = GRAIN.div_ceil(hidden);
    out.par_chunks_mut(2 * rows * hidden)
        .zip(packed.par_chunks(2 * rows * hidden).zip(gradient.par_chunks(rows * hidden)))
        .for_each(|(out, (packed, gradient))| swiglu_rows_backward(packed, gradient, hidden, out));
    out
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
