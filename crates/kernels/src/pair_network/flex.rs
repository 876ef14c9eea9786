//! The network of pairs on the CPU: 16 keys of one query at a time.

use super::{SLOPE, Shape};
use crate::buffers::zeros;
use crate::simd::{LANES, sum, vectorised};
use rayon::prelude::*;
use std::borrow::Cow;

/// The numbers of the inputs, row-major.
pub(super) struct Numbers<'a> {
    pub(super) scores: Cow<'a, [f32]>,
    pub(super) bias: Cow<'a, [f32]>,
    pub(super) w1: Cow<'a, [f32]>,
    pub(super) b1: Cow<'a, [f32]>,
    pub(super) w2: Cow<'a, [f32]>,
    pub(super) b2: Cow<'a, [f32]>,
}

/// The gradients of the inputs.
pub(super) struct Gradients {
    pub(super) scores: Vec<f32>,
    pub(super) bias: Vec<f32>,
    /// Of w1, b1, w2 and b2.
    pub(super) weights: [Vec<f32>; 4],
}

/// Query rows of a task, which has those of all batch rows: what the batch shares is added in its order.
const ROWS: usize = 2;

/// 16 numbers.
type Lanes = [f32; LANES];

/// The buffers of one tile.
struct Tile {
    /// `[2 heads]`: scores and biases of 16 keys.
    pairs: Vec<Lanes>,
    /// `[heads]`.
    out: Vec<Lanes>,
    /// `[2 heads]`: the gradient of the pairs.
    gradient: Vec<Lanes>,
}

impl Tile {
    fn new(heads: usize) -> Self {
        let lanes = |count: usize| vec![[0.0; LANES]; count];
        Self { pairs: lanes(2 * heads), out: lanes(heads), gradient: lanes(2 * heads) }
    }
}

/// The gradients of the weights of one task, each in lanes.
struct WeightLanes([Vec<Lanes>; 4]);

impl WeightLanes {
    fn new(shape: Shape) -> Self {
        let Shape { heads, hidden, .. } = shape;
        Self([2 * heads * hidden, hidden, hidden * heads, heads].map(|count| vec![[0.0; LANES]; count]))
    }

    fn sums(&self) -> [Vec<f32>; 4] {
        self.0.each_ref().map(|lanes| lanes.iter().map(|lanes| sum(lanes)).collect())
    }
}

/// The rows of each task, of each batch row and head in their order: `[rows, keys]`.
fn rows_of_tasks(x: &mut [f32], shape: Shape) -> Vec<Vec<&mut [f32]>> {
    let Shape { queries, keys, .. } = shape;
    let mut tasks: Vec<Vec<_>> = (0..queries.div_ceil(ROWS)).map(|_| Vec::new()).collect();
    for head in x.chunks_mut(queries * keys) {
        for (task, rows) in tasks.iter_mut().zip(head.chunks_mut(ROWS * keys)) {
            task.push(rows);
        }
    }
    tasks
}

/// Where a batch row, head, query and key lie.
fn at(shape: Shape, batch: usize, head: usize, query: usize, key: usize) -> usize {
    ((batch * shape.heads + head) * shape.queries + query) * shape.keys + key
}

/// `[batch, heads, queries, keys]`.
pub(super) fn forward(numbers: &Numbers<'_>, shape: Shape) -> Vec<f32> {
    let mut out = zeros(shape.batch * shape.heads * shape.queries * shape.keys);
    let tasks = rows_of_tasks(&mut out, shape);
    tasks.into_par_iter().enumerate().for_each_init(
        || Tile::new(shape.heads),
        |tile, (task, mut out)| {
            for batch in 0..shape.batch {
                for query in task * ROWS..shape.queries.min((task + 1) * ROWS) {
                    let row = query - task * ROWS;
                    forward_row(numbers, shape, batch, query, row, tile, &mut out);
                }
            }
        },
    );
    out
}

/// The gradients of all inputs, from that of the output.
pub(super) fn backward(numbers: &Numbers<'_>, output: &[f32], shape: Shape) -> Gradients {
    let pairs = shape.heads * shape.queries * shape.keys;
    let (mut scores, mut bias) = (zeros(shape.batch * pairs), zeros(shape.bias_batch * pairs));
    let tasks = rows_of_tasks(&mut scores, shape).into_iter().zip(rows_of_tasks(&mut bias, shape));
    let tasks: Vec<_> = tasks.enumerate().collect();
    let parts: Vec<[Vec<f32>; 4]> = tasks
        .into_par_iter()
        .map(|(task, (mut scores, mut bias))| {
            let (mut tile, mut weights) = (Tile::new(shape.heads), WeightLanes::new(shape));
            for batch in 0..shape.batch {
                for query in task * ROWS..shape.queries.min((task + 1) * ROWS) {
                    let row = query - task * ROWS;
                    let rows = [&mut scores, &mut bias];
                    backward_row(numbers, output, shape, batch, query, row, &mut tile, &mut weights, rows);
                }
            }
            weights.sums()
        })
        .collect();
    let mut weights = WeightLanes::new(shape).sums();
    for part in &parts {
        for (total, part) in weights.iter_mut().flatten().zip(part.iter().flatten()) {
            *total += part;
        }
    }
    Gradients { scores, bias, weights }
}

/// Fills the tile with the scores and biases of the keys from `key` on; lanes without a key hold 0.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn fill(
    numbers: &Numbers<'_>,
    shape: Shape,
    batch: usize,
    query: usize,
    keys: [usize; 2],
    pairs: &mut [Lanes],
) {
    let [key, len] = keys;
    let (scores, biases) = pairs.split_at_mut(shape.heads);
    let bias_batch = if shape.bias_batch == 1 { 0 } else { batch };
    for (head, (score, bias)) in scores.iter_mut().zip(biases).enumerate() {
        (*score, *bias) = ([0.0; LANES], [0.0; LANES]);
        score[..len].copy_from_slice(&numbers.scores[at(shape, batch, head, query, key)..][..len]);
        bias[..len].copy_from_slice(&numbers.bias[at(shape, bias_batch, head, query, key)..][..len]);
    }
}

/// One number before the hidden unit, of 16 keys.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn unit(numbers: &Numbers<'_>, hidden: usize, unit: usize, pairs: &[Lanes]) -> Lanes {
    let mut x = [numbers.b1[unit]; LANES];
    for (pair, weights) in pairs.iter().zip(numbers.w1.chunks_exact(hidden)) {
        let weight = weights[unit];
        for lane in 0..LANES {
            x[lane] += weight * pair[lane];
        }
    }
    x
}

vectorised! {
    fn forward_row(
        numbers: &Numbers<'_>,
        shape: Shape,
        batch: usize,
        query: usize,
        row: usize,
        tile: &mut Tile,
        out: &mut [&mut [f32]],
    ) {
        let Shape { heads, hidden, keys, first, .. } = shape;
        let end = first + query + 1;
        for key in (0..end).step_by(LANES) {
            let len = LANES.min(end - key);
            fill(numbers, shape, batch, query, [key, len], &mut tile.pairs);
            for (head, out) in tile.out.iter_mut().enumerate() {
                for (lane, out) in out.iter_mut().enumerate() {
                    *out = tile.pairs[head][lane] + tile.pairs[heads + head][lane] + numbers.b2[head];
                }
            }
            for (number, weights) in numbers.w2.chunks_exact(heads).enumerate() {
                let mut x = unit(numbers, hidden, number, &tile.pairs);
                for x in &mut x {
                    *x = if *x < 0.0 { SLOPE * *x } else { *x };
                }
                for (out, weight) in tile.out.iter_mut().zip(weights) {
                    for lane in 0..LANES {
                        out[lane] += weight * x[lane];
                    }
                }
            }
            for (head, tile) in tile.out.iter().enumerate() {
                out[batch * heads + head][row * keys + key..][..len].copy_from_slice(&tile[..len]);
            }
        }
    }

    fn backward_row(
        numbers: &Numbers<'_>,
        output: &[f32],
        shape: Shape,
        batch: usize,
        query: usize,
        row: usize,
        tile: &mut Tile,
        weights: &mut WeightLanes,
        rows: [&mut Vec<&mut [f32]>; 2],
    ) {
        let Shape { heads, hidden, keys, first, bias_batch, .. } = shape;
        let [of_w1, of_b1, of_w2, of_b2] = &mut weights.0;
        let [scores, bias] = rows;
        let Tile { pairs, out, gradient } = tile;
        let end = first + query + 1;
        for key in (0..end).step_by(LANES) {
            let len = LANES.min(end - key);
            fill(numbers, shape, batch, query, [key, len], pairs);
            for (head, out) in out.iter_mut().enumerate() {
                // Lanes without a key have the gradient 0.
                *out = [0.0; LANES];
                out[..len].copy_from_slice(&output[at(shape, batch, head, query, key)..][..len]);
                (gradient[head], gradient[heads + head]) = (*out, *out);
                for lane in 0..LANES {
                    of_b2[head][lane] += out[lane];
                }
            }
            for number in 0..hidden {
                let x = unit(numbers, hidden, number, pairs);
                let mut y = x;
                for y in &mut y {
                    *y = if *y < 0.0 { SLOPE * *y } else { *y };
                }
                let mut d = [0.0; LANES];
                for (head, out) in out.iter().enumerate() {
                    let weight = numbers.w2[number * heads + head];
                    let of_weight = &mut of_w2[number * heads + head];
                    for lane in 0..LANES {
                        of_weight[lane] += y[lane] * out[lane];
                        d[lane] += weight * out[lane];
                    }
                }
                for lane in 0..LANES {
                    d[lane] = if x[lane] < 0.0 { SLOPE * d[lane] } else { d[lane] };
                    of_b1[number][lane] += d[lane];
                }
                for (input, (pair, gradient)) in pairs.iter().zip(gradient.iter_mut()).enumerate() {
                    let weight = numbers.w1[input * hidden + number];
                    let of_weight = &mut of_w1[input * hidden + number];
                    for lane in 0..LANES {
                        of_weight[lane] += pair[lane] * d[lane];
                        gradient[lane] += weight * d[lane];
                    }
                }
            }
            let bias_row = if bias_batch == 1 { 0 } else { batch };
            for head in 0..heads {
                let to = row * keys + key;
                scores[batch * heads + head][to..to + len].copy_from_slice(&gradient[head][..len]);
                let bias = &mut bias[bias_row * heads + head][to..to + len];
                for (bias, x) in bias.iter_mut().zip(&gradient[heads + head]) {
                    *bias += x;
                }
            }
        }
    }
}
