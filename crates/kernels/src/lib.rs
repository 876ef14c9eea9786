//! Fused operations with their gradients, each with a reference in plain tensor operations.
//!
//! | operation | what it fuses |
//! |---|---|
//! | [`attention`](attention()) | causal attention with a position bias, vectors by distance or by count, a window, sinks, a query scale, a range of distances |
//! | [`attention_by_distance`] | the same with two rotations, chosen by distance |
//! | [`partial_attention`], [`merge`] | attention to parts of the keys, and the plain operations that put parts together |
//! | [`split_rotate`], [`rotate`] | the split of packed q, k, v into heads, with the rotation of q and k |
//! | [`cross_entropy`](cross_entropy()) | log-softmax and the pick of the target, on the GPU |
//! | [`head_loss`], [`head_losses`], [`head_scores`] | the output head with the loss of its logits, of which few exist at a time |
//! | [`pair_network`](pair_network()) | a small network of all heads' scores and biases of a query and a key |
//! | [`path_attention`](path_attention()) | causal attention whose keys are reflected by the rows between them and a query |
//! | [`linear_attention`](linear_attention()) | causal attention by features in place of a softmax, with the rotation of the numerator |
//! | [`fading_scores`] | scores of queries and keys whose channels fade from row to row, by gates |
//! | [`normalise`] | the weights of scores by a [`Normaliser`]: the softmax, [`entmax`], [`Lssar`], [`StickBreaking`] |
//! | [`polar`](polar()) | channels as vectors in the plane: lengths by softplus, given angles |
//! | [`rms_norm`], [`layer_norm`], [`unit_norm`] | normalisation of rows and its gain, also of the rows of heads |
//! | [`gelu`], [`swiglu`] | the feed-forward activations |
//! | [`dropout`](dropout()) | the draw of a mask and its product with x, on the GPU |
//! | [`linear`](linear()) | a product with weights, and the addition to a residual stream |
//! | [`adamw_all`] | one optimizer update of all parameters in one pass over memory |
//!
//! [`sum()`], [`mean()`] and [`sum_of_squares`] add all numbers of a tensor, on the CPU in an order that no
//! number of threads changes, and [`sums_of_squares`] those of many; [`clip_factor`] makes a norm of them;
//! [`accumulate`] is burn's addition by all threads.
//!
//! Each operation is one file or folder of `ops` or `attention`, which begins with what is fused, what is kept for the
//! backward pass, how many bytes move at least, and which attempts were not faster. It implements `op::Op`: the reference
//! in plain tensor operations (differentiable, on every device), the form on the CPU in few passes over memory, and that
//! on the GPU (feature `gpu`) where there is one, each with its gradient. `op::run` chooses among them. `machine` is what
//! they stand on. In a folder, `cpu.rs` computes on the CPU, `gpu/` has the kernels of the GPU.
//!
//! The fused form runs if all tensors are f32 on the CPU (linear maps and activations also in bf16), or on the GPU if there is a kernel (with or without autodiff,
//! but without gradient checkpointing). Otherwise the reference runs; after [`use_reference`] it always does.
//! [`Precision`] computes linear maps in half precision; [`bf16_arithmetic`] says by what the CPU multiplies bf16. On the CPU the fused form gives the same bits for any number of
//! threads: work is cut by shape alone, and sums over rows are taken in a fixed order.

#![allow(
    unsafe_code,
    reason = "buffers are written once and in pieces; `tests/sanitize.sh` runs them under Miri and sanitizers"
)]
#![allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
// A test fails by a panic.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests may panic"))]

use std::sync::atomic::{AtomicBool, Ordering};

mod attention;
mod machine;
mod op;
mod operations;
mod ops;
#[cfg(test)]
mod testing;
mod vjp;

pub use attention::linear::linear_attention;
pub use attention::path::{PathAttention, Reflections, path_attention, path_scores};
pub use attention::terms::*;
pub use attention::{
    Attention, Bias, Lssar, Normaliser, PartialAttention, Softmax, StickBreaking, attention,
    attention_by_distance, entmax, merge, normalise, partial_attention, partial_attention_by_distance,
    repeat_heads,
};
pub use machine::bf16::arithmetic_name as bf16_arithmetic;
pub use machine::device::{self, DeviceChoice};
pub use operations::{OPERATIONS, Operation};
pub use ops::adamw::{AdamW, AdamWState, adamw_all};
pub use ops::cross_entropy::cross_entropy;
pub use ops::dropout::dropout;
pub use ops::fading::fading_scores;
pub use ops::gelu::gelu;
pub use ops::head::{head_loss, head_losses, head_scores, logits_at_once};
pub use ops::linear::linear;
pub use ops::norm::{layer_norm, layer_norm_residual, rms_norm, rms_norm_residual, unit_norm};
pub use ops::pair_network::{PairNetwork, pair_network};
pub use ops::polar::polar;
pub use ops::precision::Precision;
pub use ops::reduce::{accumulate, clip_factor, mean, sum, sum_of_squares, sums_of_squares};
pub use ops::rotary::{Heads, Layout, RotationTable, rotate, split_rotate};
pub use ops::swiglu::swiglu;
pub use vjp::with_gradients;

static REFERENCE: AtomicBool = AtomicBool::new(false);

/// Sends every operation to its reference (`true`) or lets the fused forms run (`false`, the default).
///
/// Meant to be set once, at start-up (`--kernels reference`).
pub fn use_reference(reference: bool) {
    REFERENCE.store(reference, Ordering::Relaxed);
}

/// Whether every operation goes to its reference.
pub fn reference_in_use() -> bool {
    #[cfg(test)]
    if testing::in_reference() {
        return true;
    }
    REFERENCE.load(Ordering::Relaxed)
}
