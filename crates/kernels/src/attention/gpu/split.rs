//! Few queries over many keys, as cached decoding reads them: the keys are cut into pieces of [`PIECE`].
//!
//! The kernel for many queries gives each unit a query. Of one query it would use one unit. Here the first launch gives a
//! cube one query and one piece: its units share the keys of the piece for the scores, then the channels of the values for
//! the output. Each piece has a softmax of its own and the logarithm of its sum. The second launch puts the pieces of a
//! query together. With `o_p` the output of a piece, `l_p` the logarithm of its sum and `l = log(sum of exp(l_p))`, the
//! output is the sum of `exp(l_p - l) o_p` (Dao et al. 2022, section 3.1). The sizes of the call alone decide the pieces and
//! the order of all sums, so a second run gives the same bits.
//!
//! What must be moved: keys and values once for each query, `4 * keys * (head_dim + value_dim)` bytes a head, and the
//! outputs of the pieces, a 64th of that with equal sizes: `4 * keys / PIECE * value_dim` out and in.

use super::{Plan, Read, all, bias_of, scale_of, visible};
use crate::attention::spec::NOTHING_SEEN;
use crate::machine::gpu::{start, total};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Keys of a piece.
pub(super) const PIECE: usize = 128;

/// The most queries that are read so: with more, the other kernel has work for enough of its units.
pub(super) const FEW: usize = 8;

/// In the place of a share: the query does not see the key.
const HIDDEN: f32 = -1.0;

/// Units of a cube.
pub(super) const UNITS: usize = 64;

/// The units that share a key when values are added up: a power of two.
fn lanes(plan: &Plan) -> usize {
    plan.value_dim.next_power_of_two().min(UNITS)
}

/// What the sums of a piece are taken over, for the cube's units.
#[derive(CubeType)]
struct Shares<N: Size> {
    /// The scores of the piece, later their shares in its softmax.
    scores: Shared<[f32]>,
    /// One number of each unit.
    numbers: Shared<[f32]>,
    /// One vector of each unit.
    vectors: Shared<[Vector<f32, N>]>,
}

/// Attention of one query to one piece: the output `[batch, heads, queries, pieces, value_dim]`, and the logarithm of the
/// sum `[batch, heads, queries, pieces]`. Cubes along x: the pieces of the first query, then those of the second, and so on.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn piece_kernel<N: Size>(
    read: &Read<'_, N>,
    outputs: &mut [Vector<f32, N>],
    log_sums: &mut [f32],
    pieces: usize,
    #[comptime] plan: Plan,
) {
    let sizes = read.sizes;
    let query = CUBE_POS_X as usize / pieces;
    let piece = CUBE_POS_X as usize % pieces;
    let head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let mut shares = Shares::<N> {
        scores: Shared::<[f32]>::new_slice(PIECE),
        numbers: Shared::<[f32]>::new_slice(UNITS),
        vectors: Shared::<[Vector<f32, N>]>::new_slice(UNITS),
    };
    score_keys::<N>(read, &mut shares, batch, head, query, piece * PIECE, plan);
    let highest = highest_score::<N>(&mut shares);
    let total = exponentials::<N>(&mut shares, highest);
    let none = total == f32::new(0.0);
    let inverse = select(none, f32::new(0.0), 1.0 / total);
    let place = ((batch * sizes.heads + head) * sizes.queries + query) * pieces + piece;
    if UNIT_POS == 0 {
        log_sums[place] = select(none, f32::new(NOTHING_SEEN), highest + total.ln());
    }
    add_values::<N>(read, &mut shares, batch, head, piece * PIECE, outputs, place, inverse, plan);
}

/// The scores of the keys from `first` on; those that the query does not see have [`NOTHING_SEEN`].
#[cube]
fn score_keys<N: Size>(
    read: &Read<'_, N>,
    shares: &mut Shares<N>,
    batch: usize,
    head: usize,
    query: usize,
    first: usize,
    #[comptime] plan: Plan,
) {
    let (strides, sizes) = (read.strides, read.sizes);
    let key_head = head / comptime!(plan.group);
    let scale = scale_of::<N>(read, batch, query, plan);
    let q_from = start(strides.q, batch, head, query);
    #[unroll]
    for round in 0..comptime!(PIECE / UNITS) {
        let index = round * UNITS + UNIT_POS as usize;
        let key = first + index;
        let mut score = f32::new(NOTHING_SEEN);
        let position = all::<Const<1>>(sizes.offset + query);
        if key < sizes.keys
            && visible::<Const<1>>(position, all::<Const<1>>(key), sizes, plan).extract(0usize)
        {
            let k_from = start(strides.k, batch, key_head, key);
            let mut sum = read.q[q_from] * read.k[k_from];
            #[unroll]
            for d in 1..plan.dim {
                sum += read.q[q_from + d] * read.k[k_from + d];
            }
            score = sum.vector_sum() * scale + bias_of::<N>(read, batch, head, query, key, plan);
        }
        shares.scores[index] = score;
    }
}

/// The highest score of the piece, for every unit.
#[cube]
fn highest_score<N: Size>(shares: &mut Shares<N>) -> f32 {
    let unit = UNIT_POS as usize;
    let mut highest = f32::new(NOTHING_SEEN);
    #[unroll]
    for round in 0..comptime!(PIECE / UNITS) {
        highest = max(highest, shares.scores[round * UNITS + unit]);
    }
    shares.numbers[unit] = highest;
    #[unroll]
    for step in 0..comptime!(UNITS.trailing_zeros()) {
        let half = comptime!(UNITS >> (step + 1));
        sync_cube();
        if unit < half {
            let other = shares.numbers[unit + half];
            shares.numbers[unit] = max(shares.numbers[unit], other);
        }
    }
    sync_cube();
    shares.numbers[0]
}

/// Puts exponentials in the place of the scores, relative to that of the highest, or [`HIDDEN`], and gives the sum of the
/// exponentials to every unit.
#[cube]
fn exponentials<N: Size>(shares: &mut Shares<N>, highest: f32) -> f32 {
    let unit = UNIT_POS as usize;
    let mut sum = f32::new(0.0);
    #[unroll]
    for round in 0..comptime!(PIECE / UNITS) {
        let index = round * UNITS + unit;
        let score = shares.scores[index];
        // What is not a number stays so.
        let hidden = score <= NOTHING_SEEN;
        let share = (score - highest).exp();
        shares.scores[index] = select(hidden, HIDDEN, share);
        sum += select(hidden, f32::new(0.0), share);
    }
    total(sum, &mut shares.numbers, UNITS)
}

/// Writes the sum of the values under the shares, times the inverse of the shares' sum. Some units take the channels of one
/// key, others those of the next.
#[cube]
fn add_values<N: Size>(
    read: &Read<'_, N>,
    shares: &mut Shares<N>,
    batch: usize,
    head: usize,
    first: usize,
    outputs: &mut [Vector<f32, N>],
    place: usize,
    inverse: f32,
    #[comptime] plan: Plan,
) {
    let sizes = read.sizes;
    let lanes = comptime!(lanes(&plan));
    let rows = comptime!(UNITS / lanes);
    let unit = UNIT_POS as usize;
    let (lane, row) = (unit % lanes, unit / lanes);
    let v_from = start(read.strides.v, batch, head / comptime!(plan.group), first);
    let count = min(sizes.keys - first, PIECE);
    #[unroll]
    for part in 0..comptime!(plan.value_dim.div_ceil(lanes)) {
        let channel = part * lanes + lane;
        let mut sum = Vector::<f32, N>::new(0.0);
        if channel < plan.value_dim {
            let mut index = row;
            while index < count {
                let share = shares.scores[index];
                // A hidden value may be no number: it is not multiplied by 0.
                if share != HIDDEN {
                    sum += read.v[v_from + index * read.strides.v.row + channel] * Vector::new(share);
                }
                index += rows;
            }
        }
        sync_cube();
        shares.vectors[unit] = sum;
        sync_cube();
        if unit < lanes && channel < plan.value_dim {
            let mut all = shares.vectors[unit];
            for other in 1..rows {
                all += shares.vectors[other * lanes + unit];
            }
            outputs[place * plan.value_dim + channel] = all * Vector::new(inverse);
        }
    }
}

/// The pieces of each query -> the output `[batch, queries, heads, value_dim]`, and the logarithm of each row's sum,
/// `[batch, heads, queries]`. A unit takes a vector of the output.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn merge_pieces_kernel<N: Size>(
    outputs: &[Vector<f32, N>],
    piece_log_sums: &[f32],
    output: &mut [Vector<f32, N>],
    log_sums: &mut [f32],
    count: usize,
    heads: usize,
    queries: usize,
    pieces: usize,
    #[comptime] value_dim: usize,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let channel = ABSOLUTE_POS % value_dim;
    let joined = ABSOLUTE_POS / value_dim;
    let head = joined % heads;
    let query = joined / heads % queries;
    let place = (joined / heads / queries * heads + head) * queries + query;
    let first = place * pieces;
    let mut highest = f32::new(NOTHING_SEEN);
    for piece in 0..pieces {
        highest = max(highest, piece_log_sums[first + piece]);
    }
    let mut total = f32::new(0.0);
    let mut sum = Vector::<f32, N>::new(0.0);
    for piece in 0..pieces {
        let log_sum = piece_log_sums[first + piece];
        // A piece in which nothing is seen has no weight, and what is not a number stays so.
        let weight = select(log_sum <= NOTHING_SEEN, f32::new(0.0), (log_sum - highest).exp());
        total += weight;
        sum += outputs[(first + piece) * value_dim + channel] * Vector::new(weight);
    }
    let none = total == f32::new(0.0);
    output[ABSOLUTE_POS] = sum * Vector::new(select(none, f32::new(0.0), 1.0 / total));
    if channel == 0 {
        log_sums[place] = select(none, f32::new(NOTHING_SEEN), highest + total.ln());
    }
}
