//! Causal attention on the GPU.
//!
//! One launch computes scores, bias, mask, softmax and the weighted sum, with the softmax online (Milakov and
//! Gimelshein 2018; Dao et al. 2022): nothing of size queries x keys is written, and sums are in f32. A cube of 256
//! units takes the queries of a tile, 64 of one head, and compares them with 64 keys at a time. The units stand as 16 x 16, and each
//! has the pairs of 4 queries and 4 keys in registers. Slices of q and k, and rows of v, come through shared memory, and so do the
//! exponentials on their way to the product with v. Tiles that the causal mask, the window or the range of distances hides are
//! skipped; in tiles that they hide in part, each pair is asked for (`tile.rs`). The bias is computed where the score is (slopes,
//! pairs) or read there (a table, a block).
//!
//! A model in f16 or bf16 has both products of a tile computed by the device's matrix units, where these multiply such numbers and add in
//! f32 (`matrices.rs`). Everything else stays as it is.
//!
//! Few queries over many keys, as cached decoding reads them, would leave most units without a query. There the keys are
//! cut into pieces, whose softmaxes a second launch puts together (`split.rs`).
//!
//! Kept for the backward pass: one number for each query row, the logarithm of the sum of its exponentials.
//! The backward pass computes the scores again, once by queries (the gradient of q, and of what belongs to a
//! query: `by_queries.rs`), once by keys (k, v, and what belongs to a key: `by_keys.rs`), by different cubes of one launch. The
//! gradient of a table of distances is the sum of the scores' gradients along diagonals (`diagonals.rs`).
//!
//! **Fixed order.** A number is summed by one unit, or by units that leave their parts to be added in the order of their numbers.
//! No operation is atomic, and no unit exchanges numbers but through shared memory (no subgroups, but for the matrix units'): the shape, the plan and the
//! vectors' width alone decide the order, and a second run gives the same bits.
//!
//! **What a device must have.** 256 units a cube, and 16 KiB of shared memory, as WebGPU promises: there a tile has 32 queries and keys, and
//! a unit the pairs of 2 and 2. With 32 KiB it is 64 (`plan.rs`). With 128 channels, the most that the kernels take, a unit holds
//!
//! | tile | forward | backward by keys, which takes most | shared memory, with a table's gradient |
//! |---|---|---|---|
//! | 64 x 64 | 76 numbers | 128 | 24 KiB, 31 |
//! | 32 x 32 | 34 | 56 | 12 KiB, 15 |
//!
//! in registers, besides places and counters: the sums of 4 rows and 8 channels (32; backward twice), the scores (16; backward twice),
//! numbers on their way to shared memory, or from there to be multiplied (16), and three vectors of what belongs to queries (12;
//! backward by keys one more for a bias by pairs). Rows of more than [`WIDEST`] channels go to the reference.
//!
//! **What must be moved:** q, k, v and the output once each, `4 * length * (2 head_dim + 2 value_dim)` bytes a head. Each tile of
//! queries reads its queries, the keys and the values once more for every tile of keys: `4 * length * (2 head_dim + value_dim)`
//! bytes, `length / (2 * 64)` times under the causal mask, most of them from the cache, for `64 * (head_dim + value_dim)`
//! multiplications a row. Plain operations write and read the scores about eight times, `4 * length^2` bytes a head each. For each
//! channel a unit loads 8 numbers from shared memory and multiplies 16 times.
//!
//! With matrix units the factors of a product take `2 * 64 * (channels + max(channels, 64))` bytes of shared memory more; where there is not
//! enough, tiles are 32 x 32, or the products are computed in f32.
//!
//! The slopes' gradient multiplies rounding errors by distances; taking the mean distance out of them brings it from
//! 2e-5 of f64's to 3e-7 at 90 keys.
//!
//! **Speed** has been measured on a software device only (llvmpipe, where registers lie in memory as everything else), twice in turn
//! with the kernels that gave each unit a query or a key, at 256 tokens and with other programs beside it: the output took 0.7 to 1.0
//! times as long, the gradients 0.9 to 1.7 times, as a tile computes also the pairs that the mask hides within it. It says nothing
//! about a real GPU.

// Kernels take their rows and places one by one, and an `if` of the compile time stays one of its own; what the
// macros make of them is theirs.
#![allow(clippy::too_many_arguments, clippy::type_complexity, clippy::collapsible_if, clippy::pedantic)]
// Kernels know no methods of ranges.
#![allow(clippy::manual_range_contains)]

mod backward;
mod biases;
mod by_keys;
mod by_queries;
mod call;
mod diagonals;
mod forward;
mod launch;
mod matrices;
mod memory;
mod out;
mod plan;
mod products;
mod scores;
mod split;
#[cfg(test)]
mod tests;
mod tile;

pub(super) use launch::{forward, supports};

use crate::machine::gpu::Strides;
use burn_cubecl::cubecl;
use cubecl::prelude::*;
use plan::{BiasKind, Plan};

/// The most channels of a key or a value that the kernels take.
const WIDEST: usize = 128;

/// Units of a cube: so many groups of own rows, each with as many groups of other rows.
const UNITS_A_SIDE: usize = 16;
const UNITS: usize = UNITS_A_SIDE * UNITS_A_SIDE;

#[derive(CubeLaunch, CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct RowStrides {
    q: Strides,
    k: Strides,
    v: Strides,
}

/// Sizes that are known at the launch.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct Sizes {
    heads: usize,
    queries: usize,
    keys: usize,
    offset: usize,
    window: usize,
    sinks: usize,
    /// The first distance that is read, and the end of them, where only some are.
    nearest: usize,
    farthest: usize,
    /// Distances in a table of them.
    distances: usize,
    /// Numbers between the batch rows of a bias block; 0 if they share one.
    bias_batch: usize,
    /// Numbers between the batch rows of the scales of queries; 0 if they share one.
    scale_batch: usize,
    scale: f32,
}

/// What all kernels read: the inputs, their strides and the sizes.
#[derive(CubeLaunch, CubeType)]
struct Read<'a, N: Size> {
    q: &'a [Vector<f32, N>],
    k: &'a [Vector<f32, N>],
    v: &'a [Vector<f32, N>],
    first_bias: &'a [f32],
    second_bias: &'a [f32],
    query_scale: &'a [f32],
    strides: RowStrides,
    sizes: Sizes,
}

/// What the kernels of gradients read besides: the gradient of the output, the output, the log sums, and their gradient or another tensor in its place.
#[derive(CubeLaunch, CubeType)]
struct Upstream<'a, N: Size> {
    gradient: &'a [Vector<f32, N>],
    strides: Strides,
    output: &'a [Vector<f32, N>],
    log_sums: &'a [f32],
    log_sums_gradient: &'a [f32],
}

/// What they write: the gradients of q `[batch, heads, queries, head_dim]`, k and v `[batch, key_heads, keys, ..]`.
#[derive(CubeLaunch, CubeType)]
struct Target<'a, N: Size> {
    q: &'a mut [Vector<f32, N>],
    k: &'a mut [Vector<f32, N>],
    v: &'a mut [Vector<f32, N>],
}

/// Whether queries at positions see keys, pair by pair.
#[cube]
fn visible<P: Size>(
    positions: Vector<u32, P>,
    keys: Vector<u32, P>,
    sizes: Sizes,
    #[comptime] plan: Plan,
) -> Vector<bool, P> {
    let mut visible = keys.less_equal(&positions);
    if comptime!(plan.windowed) {
        let near = positions.less_than(&(keys + all::<P>(sizes.window)));
        visible = visible.vec_and(near.or(keys.less_than(&all::<P>(sizes.sinks))));
    }
    if comptime!(plan.ranged) {
        let far = positions.greater_equal(&(keys + all::<P>(sizes.nearest)));
        visible = visible.vec_and(far).vec_and(positions.less_than(&(keys + all::<P>(sizes.farthest))));
    }
    visible
}

#[cube]
fn all<P: Size>(number: usize) -> Vector<u32, P> {
    Vector::new(u32::cast_from(number))
}

/// What q·k of a query row is multiplied by.
#[cube]
fn scale_of<N: Size>(read: &Read<'_, N>, batch: usize, row: usize, #[comptime] plan: Plan) -> f32 {
    let sizes = read.sizes;
    if comptime!(plan.scaled) {
        sizes.scale * read.query_scale[batch * sizes.scale_batch + row]
    } else {
        sizes.scale
    }
}

/// What is added to the score of a pair; of a visible one, if there are distances that the table has not.
#[cube]
fn bias_of<N: Size>(
    read: &Read<'_, N>,
    batch: usize,
    head: usize,
    row: usize,
    key: usize,
    #[comptime] plan: Plan,
) -> f32 {
    let sizes = read.sizes;
    let distance = sizes.offset + row - key;
    let place = (batch * sizes.heads + head) * sizes.queries + row;
    if comptime!(plan.kind == BiasKind::ByDistance) {
        read.first_bias[head * sizes.distances + min(distance, sizes.distances - 1)]
    } else if comptime!(plan.kind == BiasKind::Slopes) {
        -read.first_bias[head] * f32::cast_from(distance)
    } else if comptime!(plan.kind == BiasKind::Pair) {
        read.first_bias[place] - read.second_bias[(batch * sizes.heads + head) * sizes.keys + key]
    } else if comptime!(plan.kind == BiasKind::Block) {
        read.first_bias[batch * sizes.bias_batch + (head * sizes.queries + row) * sizes.keys + key]
    } else {
        f32::new(0.0)
    }
}
