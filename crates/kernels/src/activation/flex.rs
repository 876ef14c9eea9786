//! The activations on the CPU: computed in f32, on numbers of f32 or bf16.

use crate::buffers::{GRAIN, written};
use crate::pieces;
use crate::simd::{Number, normal, sigmoid, vectorised};
use std::mem::MaybeUninit;

pub(super) fn gelu<T: Number>(x: &[T]) -> Vec<T> {
    pieces::note("activation", || pieces::up_to(GRAIN, x.len()));
    written(x.len(), GRAIN, |task, out| gelu_chunk(&x[task * GRAIN..], out))
}

pub(super) fn gelu_backward<T: Number>(x: &[T], gradient: &[T]) -> Vec<T> {
    pieces::note("activation", || pieces::up_to(GRAIN, x.len()));
    written(x.len(), GRAIN, |task, out| {
        let from = task * GRAIN;
        gelu_chunk_backward(&x[from..], &gradient[from..], out);
    })
}

/// Numbers of a task in whole rows of `[rows, hidden]`.
fn whole_rows(hidden: usize) -> usize {
    GRAIN.div_ceil(hidden) * hidden
}

/// packed `[rows, 2 hidden]` -> `[rows, hidden]`.
pub(super) fn swiglu<T: Number>(packed: &[T], hidden: usize) -> Vec<T> {
    let chunk = whole_rows(hidden);
    pieces::note("activation", || pieces::up_to(chunk, packed.len() / 2));
    written(packed.len() / 2, chunk, |task, out| swiglu_rows(&packed[2 * task * chunk..], hidden, out))
}

/// The gradient of packed `[rows, 2 hidden]`.
pub(super) fn swiglu_backward<T: Number>(packed: &[T], gradient: &[T], hidden: usize) -> Vec<T> {
    let chunk = whole_rows(hidden);
    pieces::note("activation", || pieces::up_to(2 * chunk, packed.len()));
    written(packed.len(), 2 * chunk, |task, out| {
        swiglu_rows_backward(&packed[2 * task * chunk..], &gradient[task * chunk..], hidden, out);
    })
}

vectorised! {
    fn gelu_chunk<T: Number>(x: &[T], out: &mut [MaybeUninit<T>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            let x = x.widen();
            out.write(T::round(x * normal(x).0));
        }
    }

    /// `gradient * (Φ(x) + x φ(x))`.
    fn gelu_chunk_backward<T: Number>(x: &[T], gradient: &[T], out: &mut [MaybeUninit<T>]) {
        let (x, gradient) = (&x[..out.len()], &gradient[..out.len()]);
        for ((out, x), gradient) in out.iter_mut().zip(x).zip(gradient) {
            let x = x.widen();
            let (below, density) = normal(x);
            out.write(T::round(gradient.widen() * (below + x * density)));
        }
    }

    /// Fills whole rows.
    fn swiglu_rows<T: Number>(packed: &[T], hidden: usize, out: &mut [MaybeUninit<T>]) {
        let packed = &packed[..2 * out.len()];
        for (packed, out) in packed.chunks_exact(2 * hidden).zip(out.chunks_exact_mut(hidden)) {
            let (gate, up) = packed.split_at(hidden);
            for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                let gate = gate.widen();
                out.write(T::round(gate * sigmoid(gate) * up.widen()));
            }
        }
    }

    /// The gate receives `gradient * up * s * (1 + gate * (1 - s))`, s the sigmoid of the gate. Fills whole rows.
    fn swiglu_rows_backward<T: Number>(
        packed: &[T],
        gradient: &[T],
        hidden: usize,
        out: &mut [MaybeUninit<T>],
    ) {
        let (packed, gradient) = (&packed[..out.len()], &gradient[..out.len() / 2]);
        let rows = packed.chunks_exact(2 * hidden).zip(gradient.chunks_exact(hidden));
        for ((packed, gradient), out) in rows.zip(out.chunks_exact_mut(2 * hidden)) {
            let (gate, up) = packed.split_at(hidden);
            let (out_gate, out_up) = out.split_at_mut(hidden);
            let outputs = out_gate.iter_mut().zip(out_up);
            for ((out_gate, out_up), ((gate, up), gradient)) in outputs.zip(gate.iter().zip(up).zip(gradient)) {
                let (gate, up, gradient) = (gate.widen(), up.widen(), gradient.widen());
                let s = sigmoid(gate);
                out_gate.write(T::round(gradient * up * s * (1.0 + gate * (1.0 - s))));
                out_up.write(T::round(gradient * gate * s));
            }
        }
    }
}
