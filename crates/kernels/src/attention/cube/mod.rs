//! Causal attention on the GPU.
//!
//! One launch computes scores, bias, mask, softmax and the weighted sum, with the softmax online (Milakov and
//! Gimelshein 2018; Dao et al. 2022): nothing of size queries x keys is written, and sums are in f32. A cube
//! takes some queries of one head, one unit each; the keys and values come in tiles that all of them read from
//! shared memory. No unit asks another one for anything but its part of a tile, so no subgroup operation is
//! needed. The bias is computed where the score is (slopes, pairs) or read there (a table, a block).
//!
//! Few queries over many keys, as cached decoding reads them, would leave most units without a query. There the keys are
//! cut into pieces, whose softmaxes a second launch puts together (`split.rs`).
//!
//! Kept for the backward pass: one number for each query row, the logarithm of the sum of its exponentials.
//! The backward pass computes the scores again, once by queries (the gradient of q, and of what belongs to a
//! query), once by keys (k, v, and what belongs to a key), by different cubes of one launch, and a third time by
//! distances where a table of those has a gradient. Each number of a gradient is summed by one unit in a fixed order, so that no atomic
//! addition is needed and a second run gives the same bits.
//!
//! What must be moved: q, k, v and the output once each, `4 * length * (2 head_dim + 2 value_dim)` bytes a head;
//! each cube reads the keys and values once more, so the tiles are read `length / (2 * QUERIES)` times in all
//! under the causal mask, most of them from the cache. Plain operations write and read the scores about eight
//! times, `4 * length^2` bytes a head each.
//!
//! The slopes' gradient multiplies rounding errors by distances; taking the mean distance out of them brings it from
//! 2e-5 of f64's to 3e-7 at 90 keys. Speed has been measured on a software device only (llvmpipe, where passes over
//! memory cost little beside arithmetic): 0.8 to 1.05 times that of plain operations from 128 to 1,024 tokens.
//!
//! Rows of more than [`WIDEST`] channels go to the reference: a unit holds up to four of them in registers.

// Kernels take their rows and places one by one, and an `if` of the compile time stays one of its own; what the
// macros make of them is theirs.
#![allow(clippy::too_many_arguments, clippy::type_complexity, clippy::collapsible_if, clippy::pedantic)]

mod backward;
mod distances;
mod gradient;
mod launch;
mod launches;
mod packed;
mod rows;
mod split;
mod target;
#[cfg(test)]
mod tests;
mod walk;

pub(super) use gradient::attention;
pub(super) use launch::supports;
pub(super) use packed::{packed_attention, supports_packed};

use super::NOTHING_SEEN;
use crate::gpu::Strides;
use crate::rotary::Layout;
use burn_cubecl::cubecl;
use cubecl::prelude::*;
use rows::{add, write_row, zeros};
use walk::{KeyVisitor, KeyVisitorExpand, Query, Tiles, each_key};

/// The most channels of a key or a value that the kernels take.
const WIDEST: usize = 128;

/// Queries, or keys, that a cube takes: one for each unit.
const QUERIES: usize = 64;

/// Bytes of shared memory that the tiles may take, with a number for each row: what every device has.
const SHARED: usize = 16_384;

/// The most rows of a tile.
const TILE: usize = 32;

/// Where the bias comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    None,
    ByDistance,
    Slopes,
    Pair,
    Block,
}

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plan {
    kind: Kind,
    /// Whether there is a window.
    windowed: bool,
    /// Whether there is a scale for each query.
    scaled: bool,
    /// Whether the bias has a gradient.
    learned: bool,
    /// Whether only some distances are read.
    ranged: bool,
    /// Whether the log sums have a gradient.
    log_sums_given: bool,
    /// Rows of a tile.
    tile: usize,
    /// The vectors of a query or key.
    dim: usize,
    /// The vectors of a value.
    value_dim: usize,
    /// The query heads of a key head.
    group: usize,
    /// How q and k were turned, where their gradients go to packed rows.
    q_turned: Turned,
    k_turned: Turned,
}

/// Which vectors of a row were turned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Turned {
    /// The pairs of vectors that were turned; the vectors behind them were not.
    pairs: usize,
    layout: Layout,
}

impl Turned {
    /// The first vector of a pair.
    fn first(&self, pair: usize) -> usize {
        if self.layout == Layout::Half { pair } else { 2 * pair }
    }

    /// Its second vector.
    fn second(&self, pair: usize) -> usize {
        if self.layout == Layout::Half { self.pairs + pair } else { 2 * pair + 1 }
    }
}

/// The strides of the inputs.
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

/// Whether the query at a position sees a key.
#[cube]
fn visible(position: usize, key: usize, sizes: Sizes, #[comptime] plan: Plan) -> bool {
    let mut visible = key <= position;
    if comptime!(plan.windowed) {
        visible = visible && (position < key + sizes.window || key < sizes.sinks);
    }
    if comptime!(plan.ranged) {
        visible = visible && position >= key + sizes.nearest && position < key + sizes.farthest;
    }
    visible
}

/// The end of the keys at `distance` or more from a position.
#[cube]
fn keys_before(position: usize, distance: usize) -> usize {
    position + 1 - min(distance, position + 1)
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

/// What is added to the score of a visible pair.
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
    if comptime!(plan.kind == Kind::ByDistance) {
        read.first_bias[head * sizes.distances + distance]
    } else if comptime!(plan.kind == Kind::Slopes) {
        -read.first_bias[head] * f32::cast_from(distance)
    } else if comptime!(plan.kind == Kind::Pair) {
        read.first_bias[place] - read.second_bias[(batch * sizes.heads + head) * sizes.keys + key]
    } else if comptime!(plan.kind == Kind::Block) {
        read.first_bias[batch * sizes.bias_batch + (head * sizes.queries + row) * sizes.keys + key]
    } else {
        f32::new(0.0)
    }
}

/// Whether some query from position `lowest` on sees a key of the tile from `first` on, as far as the window
/// says.
#[cube]
fn reached(lowest: usize, first: usize, sizes: Sizes, #[comptime] plan: Plan) -> bool {
    if comptime!(plan.windowed) {
        lowest < first + comptime!(plan.tile - 1) + sizes.window || first < sizes.sinks
    } else {
        true.runtime()
    }
}

/// A softmax of the keys so far.
#[derive(CubeType)]
struct Softmax<N: Size> {
    highest: f32,
    /// The sum of the exponentials, relative to that of the highest score.
    total: f32,
    /// The values' sum under those.
    values: Array<Vector<f32, N>>,
}

#[cube]
impl<N: Size> KeyVisitor<N> for Softmax<N> {
    fn visit(&mut self, _key: usize, score: f32, tiles: &Tiles<N>, index: usize, #[comptime] plan: Plan) {
        if score > self.highest {
            let shrink = (self.highest - score).exp();
            self.total *= shrink;
            #[unroll]
            for d in 0..plan.value_dim {
                self.values[d] *= Vector::new(shrink);
            }
            self.highest = score;
        }
        let share = (score - self.highest).exp();
        self.total += share;
        add::<N>(&mut self.values, &tiles.v, index * plan.value_dim, share, plan.value_dim);
    }
}

/// q, k, v -> the output `[batch, queries, heads, value_dim]`, and the logarithm of each row's sum,
/// `[batch, heads, queries]`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn forward_kernel<N: Size>(
    read: &Read<'_, N>,
    output: &mut [Vector<f32, N>],
    log_sums: &mut [f32],
    #[comptime] plan: Plan,
) {
    let query = Query::of_unit(read.sizes);
    let mut tiles = Tiles::<N>::new(plan);
    let values = zeros::<N>(plan.value_dim);
    let mut softmax = Softmax::<N> { highest: f32::new(NOTHING_SEEN), total: f32::new(0.0), values };
    each_key::<N, Softmax<N>>(query, read, &mut tiles, &mut softmax, plan);
    if query.real {
        let place = query.place(read.sizes);
        // A row that sees no key gives zeros.
        let none = softmax.total == f32::new(0.0);
        log_sums[place] = select(none, f32::new(NOTHING_SEEN), softmax.highest + softmax.total.ln());
        let inverse = select(none, f32::new(0.0), 1.0 / softmax.total);
        let to = query.joined_place(read.sizes) * plan.value_dim;
        write_row::<N>(&softmax.values, output, to, inverse, plan.value_dim);
    }
}
