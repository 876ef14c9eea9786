//! The network of pairs on the CPU: tiles of pairs, whatever rows these lie in.

use super::Shape;
use super::tile::{self, Row, Stretch, Tile, WeightLanes, Weights, tiles};
use crate::machine::autodiff::values;
use crate::machine::buffers::{parts_of_all, zeros};
use crate::machine::simd::add;
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// The numbers of the inputs, row-major.
pub(super) struct Numbers<'a> {
    pub(super) scores: Cow<'a, [f32]>,
    pub(super) bias: Cow<'a, [f32]>,
    pub(super) w1: Cow<'a, [f32]>,
    pub(super) b1: Cow<'a, [f32]>,
    pub(super) w2: Cow<'a, [f32]>,
    pub(super) b2: Cow<'a, [f32]>,
}

impl<'a> Numbers<'a> {
    /// Of scores, biases, and the weights in their order.
    pub(super) fn new(inputs: &'a [FlexTensor; 6]) -> Self {
        let [scores, bias, w1, b1, w2, b2] = inputs.each_ref().map(values);
        Self { scores, bias, w1, b1, w2, b2 }
    }

    fn weights(&self) -> Weights {
        Weights::new([&self.w1, &self.b1, &self.w2, &self.b2])
    }

    /// Fills the tile's inputs with the scores and biases of some pairs.
    fn fill(&self, rows: TaskRows, stretches: &[Stretch], inputs: &mut [Row]) {
        let (scores, biases) = inputs.split_at_mut(rows.shape.heads);
        for stretch in stretches {
            let batch = rows.batch(stretch);
            let bias_batch = if rows.shape.bias_batch == 1 { 0 } else { batch };
            for (head, (score, bias)) in scores.iter_mut().zip(biases.iter_mut()).enumerate() {
                stretch.read(&self.scores[rows.begin(stretch, batch, head)..], score);
                stretch.read(&self.bias[rows.begin(stretch, bias_batch, head)..], bias);
            }
        }
    }
}

pub(super) struct Gradients {
    pub(super) scores: Vec<f32>,
    pub(super) bias: Vec<f32>,
    /// Of w1, b1, w2 and b2.
    pub(super) weights: [Vec<f32>; 4],
}

/// Query rows of a task, which has those of all batch rows: what the batch shares is added in its order.
const ROWS: usize = 2;

/// The query rows of a task, those of one batch row after those of the other.
#[derive(Clone, Copy)]
struct TaskRows {
    shape: Shape,
    first: usize,
    count: usize,
}

impl TaskRows {
    fn new(shape: Shape, task: usize) -> Self {
        let first = task * ROWS;
        Self { shape, first, count: ROWS.min(shape.queries - first) }
    }

    /// The keys that each row sees.
    fn seen(self) -> impl Iterator<Item = Range<usize>> {
        let of_batch = move |_| (0..self.count).map(move |row| 0..self.shape.first + self.first + row + 1);
        (0..self.shape.batch).flat_map(of_batch)
    }

    fn batch(self, stretch: &Stretch) -> usize {
        stretch.row / self.count
    }

    /// Where a stretch begins in `[batch, heads, queries, keys]`.
    fn begin(self, stretch: &Stretch, batch: usize, head: usize) -> usize {
        let Shape { heads, queries, keys, .. } = self.shape;
        let query = self.first + stretch.row % self.count;
        ((batch * heads + head) * queries + query) * keys + stretch.key
    }

    /// A stretch in the rows of one batch row and head, `[rows, keys]`.
    fn part<'a>(self, stretch: &Stretch, rows: &'a mut [f32]) -> &'a mut [f32] {
        &mut rows[stretch.row % self.count * self.shape.keys + stretch.key..][..stretch.len]
    }
}

/// `[rows, keys]` of each batch row and head.
type LogitRows<'a> = Vec<&'a mut [f32]>;

/// The rows of each task.
fn rows_of_tasks(x: &mut [f32], shape: Shape) -> Vec<LogitRows<'_>> {
    let Shape { queries, keys, .. } = shape;
    parts_of_all(x, queries * keys, ROWS * keys)
}

/// `[batch, heads, queries, keys]`.
pub(super) fn forward(numbers: &Numbers<'_>, shape: Shape) -> Vec<f32> {
    let weights = numbers.weights();
    let mut out = zeros(shape.batch * shape.heads * shape.queries * shape.keys);
    let tasks = rows_of_tasks(&mut out, shape);
    tasks.into_par_iter().enumerate().for_each_init(
        || Tile::new(&weights),
        |tile, (task, mut out)| {
            let rows = TaskRows::new(shape, task);
            tiles(rows.seen(), |stretches, pairs| {
                numbers.fill(rows, stretches, &mut tile.inputs);
                tile::forward(&weights, pairs, tile);
                for stretch in stretches {
                    let out = out[rows.batch(stretch) * shape.heads..].iter_mut();
                    for (out, row) in out.zip(&tile.outputs[..shape.heads]) {
                        rows.part(stretch, out).copy_from_slice(stretch.of(row));
                    }
                }
            });
        },
    );
    out
}

/// The gradients of all inputs, from that of the output.
pub(super) fn backward(numbers: &Numbers<'_>, output: &[f32], shape: Shape) -> Gradients {
    let weights = numbers.weights();
    let pairs = shape.heads * shape.queries * shape.keys;
    let (mut scores, mut bias) = (zeros(shape.batch * pairs), zeros(shape.bias_batch * pairs));
    let tasks = rows_of_tasks(&mut scores, shape).into_iter().zip(rows_of_tasks(&mut bias, shape));
    let tasks: Vec<_> = tasks.enumerate().collect();
    let run = |tile: &mut Tile, (task, (mut scores, mut bias)): (usize, (LogitRows<'_>, LogitRows<'_>))| {
        let (rows, mut of_weights) = (TaskRows::new(shape, task), WeightLanes::new(&weights));
        tiles(rows.seen(), |stretches, pairs| {
            numbers.fill(rows, stretches, &mut tile.inputs);
            for stretch in stretches {
                for (head, row) in tile.outputs[..shape.heads].iter_mut().enumerate() {
                    stretch.read(&output[rows.begin(stretch, rows.batch(stretch), head)..], row);
                }
            }
            tile.clear_after(pairs);
            tile::backward(&weights, pairs, tile, &mut of_weights);
            for stretch in stretches {
                put_gradients(rows, stretch, &tile.of_inputs, [&mut scores, &mut bias]);
            }
        });
        of_weights.sums(&weights)
    };
    let parts: Vec<[Vec<f32>; 4]> = tasks.into_par_iter().map_init(|| Tile::new(&weights), run).collect();
    Gradients { scores, bias, weights: tile::added(&weights, &parts) }
}

/// Sets the gradients of the scores of a stretch, and adds to those of its biases.
fn put_gradients(
    rows: TaskRows,
    stretch: &Stretch,
    of_inputs: &[Row],
    [scores, bias]: [&mut [&mut [f32]]; 2],
) {
    let Shape { heads, bias_batch, .. } = rows.shape;
    let batch = rows.batch(stretch);
    let bias_batch = if bias_batch == 1 { 0 } else { batch };
    let (of_scores, of_biases) = of_inputs.split_at(heads);
    for (scores, row) in scores[batch * heads..].iter_mut().zip(of_scores) {
        rows.part(stretch, scores).copy_from_slice(stretch.of(row));
    }
    for (bias, row) in bias[bias_batch * heads..].iter_mut().zip(&of_biases[..heads]) {
        add(rows.part(stretch, bias), stretch.of(row));
    }
}
