//! The network of a tile of pairs, four hidden units at a time.
//!
//! A row of a tile has one number of every pair. What four units need of a row is loaded once for all of them, and the
//! gradients of the weights of four units and four rows stay in registers while all pairs go by. Loops over lanes are
//! written out for four, since the compiler would else vectorise over the units.

use super::SLOPE;
use crate::machine::simd::{LANES, add, sum, vectorised};
use std::ops::Range;

/// Pairs of a tile: few enough that its rows stay in the nearest cache.
const PAIRS: usize = 128;
/// Units, and rows of inputs or outputs, that are computed with side by side.
const FOUR: usize = 4;
/// Groups of [`LANES`] pairs that share a load of weights.
const TWO: usize = 2;

/// 16 numbers.
type Lanes = [f32; LANES];
/// One number of every pair of a tile.
pub(crate) type Row = [Lanes; PAIRS / LANES];
/// Numbers of four units and four rows.
type Square = [[Lanes; FOUR]; FOUR];

const NOTHING: Row = [[0.0; LANES]; PAIRS / LANES];

/// The weights of four units each; units, inputs and outputs are filled up with zeros to multiples of four.
pub(crate) struct Weights {
    /// `[units / 4, inputs]`.
    w1: Vec<[f32; FOUR]>,
    /// `[units / 4]`.
    b1: Vec<[f32; FOUR]>,
    /// `[units / 4, outputs]`.
    w2: Vec<[f32; FOUR]>,
    /// `[heads]`.
    b2: Vec<f32>,
    hidden: usize,
    inputs: usize,
    outputs: usize,
}

impl Weights {
    /// From `[2 heads, hidden]`, `[hidden]`, `[hidden, heads]` and `[heads]`.
    pub(crate) fn new([w1, b1, w2, b2]: [&[f32]; 4]) -> Self {
        let (hidden, heads) = (b1.len(), b2.len());
        let of_units = |count: usize, at: &dyn Fn(usize, usize) -> f32| -> Vec<[f32; FOUR]> {
            let numbers = 0..hidden.div_ceil(FOUR) * count;
            let unit = |number: usize, unit: usize| {
                let unit = number / count * FOUR + unit;
                if unit < hidden { at(unit, number % count) } else { 0.0 }
            };
            numbers.map(|number| [0, 1, 2, 3].map(|of_four| unit(number, of_four))).collect()
        };
        let [inputs, outputs] = [2 * heads, heads].map(|count| count.next_multiple_of(FOUR));
        Self {
            w1: of_units(inputs, &|unit, input| w1.get(input * hidden + unit).copied().unwrap_or(0.0)),
            b1: of_units(1, &|unit, _| b1[unit]),
            w2: of_units(outputs, &|unit, head| if head < heads { w2[unit * heads + head] } else { 0.0 }),
            b2: b2.to_vec(),
            hidden,
            inputs,
            outputs,
        }
    }

    pub(crate) fn heads(&self) -> usize {
        self.b2.len()
    }
}

/// Some pairs, and what is computed of them. What has no pair and no head holds 0.
pub(crate) struct Tile {
    /// The scores of all heads, then their biases.
    pub(crate) inputs: Vec<Row>,
    /// The outputs of all heads, or their gradients.
    pub(crate) outputs: Vec<Row>,
    /// The gradients of the inputs.
    pub(crate) of_inputs: Vec<Row>,
    /// Four hidden units.
    units: [Row; FOUR],
    /// Their gradients, before the leaky ramp.
    of_units: [Row; FOUR],
}

impl Tile {
    pub(crate) fn new(weights: &Weights) -> Self {
        Self {
            inputs: vec![NOTHING; weights.inputs],
            outputs: vec![NOTHING; weights.outputs],
            of_inputs: vec![NOTHING; weights.inputs],
            units: [NOTHING; FOUR],
            of_units: [NOTHING; FOUR],
        }
    }

    /// Clears what follows the first `pairs` pairs in the rows that are read.
    pub(crate) fn clear_after(&mut self, pairs: usize) {
        for row in self.inputs.iter_mut().chain(&mut self.outputs) {
            row.as_flattened_mut()[pairs..].fill(0.0);
        }
    }
}

/// Pairs of a tile that follow one another in a row.
pub(crate) struct Stretch {
    pub(crate) row: usize,
    pub(crate) key: usize,
    pub(crate) len: usize,
    /// The first of the tile's pairs.
    at: usize,
}

impl Stretch {
    /// Takes the stretch from what begins with it.
    pub(crate) fn read(&self, from: &[f32], row: &mut Row) {
        row.as_flattened_mut()[self.at..][..self.len].copy_from_slice(&from[..self.len]);
    }

    /// The stretch in a row of the tile.
    pub(crate) fn of<'a>(&self, row: &'a Row) -> &'a [f32] {
        &row.as_flattened()[self.at..][..self.len]
    }
}

/// Cuts rows, of which each sees a range of keys, into tiles: gives the stretches of each, and its pairs.
pub(crate) fn tiles(seen: impl Iterator<Item = Range<usize>>, mut each: impl FnMut(&[Stretch], usize)) {
    let (mut stretches, mut held) = (Vec::new(), 0);
    for (row, Range { start: mut key, end }) in seen.enumerate() {
        while key < end {
            let len = (end - key).min(PAIRS - held);
            stretches.push(Stretch { row, key, len, at: held });
            (key, held) = (key + len, held + len);
            if held == PAIRS {
                each(&stretches, held);
                stretches.clear();
                held = 0;
            }
        }
    }
    if held > 0 {
        each(&stretches, held);
    }
}

/// The gradients of the weights, each in lanes.
pub(crate) struct WeightLanes {
    /// `[units / 4, inputs / 4]`.
    w1: Vec<Square>,
    /// `[units / 4]`.
    b1: Vec<[Lanes; FOUR]>,
    /// `[units / 4, outputs / 4]`.
    w2: Vec<Square>,
    /// `[heads]`.
    b2: Vec<Lanes>,
}

impl WeightLanes {
    pub(crate) fn new(weights: &Weights) -> Self {
        let (blocks, four) = (weights.b1.len(), [[0.0; LANES]; FOUR]);
        Self {
            w1: vec![[four; FOUR]; blocks * weights.inputs / FOUR],
            b1: vec![four; blocks],
            w2: vec![[four; FOUR]; blocks * weights.outputs / FOUR],
            b2: vec![[0.0; LANES]; weights.heads()],
        }
    }

    /// The gradients of w1, b1, w2 and b2, as these lie.
    pub(crate) fn sums(&self, weights: &Weights) -> [Vec<f32>; 4] {
        let (heads, hidden) = (weights.heads(), weights.hidden);
        let of = |squares: &[Square], unit: usize, row: usize, rows: usize| {
            let square = unit / FOUR * rows.div_ceil(FOUR) + row / FOUR;
            sum(&squares[square][row % FOUR][unit % FOUR])
        };
        [
            (0..2 * heads * hidden).map(|n| of(&self.w1, n % hidden, n / hidden, 2 * heads)).collect(),
            (0..hidden).map(|unit| sum(&self.b1[unit / FOUR][unit % FOUR])).collect(),
            (0..hidden * heads).map(|n| of(&self.w2, n / heads, n % heads, heads)).collect(),
            self.b2.iter().map(|lanes| sum(lanes)).collect(),
        ]
    }
}

/// The gradients of the weights of several parts, added in their order.
pub(crate) fn added(weights: &Weights, parts: &[[Vec<f32>; 4]]) -> [Vec<f32>; 4] {
    let mut sums = WeightLanes::new(weights).sums(weights);
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sums, part)| add(sums, part));
    }
    sums
}

vectorised! {
    /// The outputs of the first `pairs` pairs.
    pub(crate) fn forward(weights: &Weights, pairs: usize, tile: &mut Tile) {
        let Tile { inputs, outputs, units, .. } = tile;
        let (heads, groups) = (weights.heads(), groups(pairs));
        for (head, out) in outputs[..heads].iter_mut().enumerate() {
            let scores = inputs[head][..groups].as_flattened();
            let biases = inputs[heads + head][..groups].as_flattened();
            for ((out, score), bias) in out[..groups].as_flattened_mut().iter_mut().zip(scores).zip(biases) {
                *out = score + bias + weights.b2[head];
            }
        }
        let of_units = weights.w1.chunks_exact(weights.inputs).zip(weights.w2.chunks_exact(weights.outputs));
        for (b1, (w1, w2)) in weights.b1.iter().zip(of_units) {
            for group in (0..groups).step_by(TWO) {
                let x = four_units(*b1, &w1[..2 * heads], inputs, group);
                for (at, x) in x.iter().enumerate() {
                    put(units, group + at, x, x);
                }
            }
            add_units(&mut outputs[..heads], w2, units, groups);
        }
    }

    /// From the first `pairs` pairs and the gradients of their outputs: sets those of the inputs, and adds to those of the
    /// weights.
    pub(crate) fn backward(weights: &Weights, pairs: usize, tile: &mut Tile, of_weights: &mut WeightLanes) {
        let Tile { inputs, outputs, of_inputs, units, of_units } = tile;
        let (heads, groups) = (weights.heads(), groups(pairs));
        for (head, out) in outputs[..heads].iter().enumerate() {
            (of_inputs[head], of_inputs[heads + head]) = (*out, *out);
            let mut sum = of_weights.b2[head];
            for out in &out[..groups] {
                sum = plus(sum, 1.0, out);
            }
            of_weights.b2[head] = sum;
        }
        let squares = [weights.inputs / FOUR, weights.outputs / FOUR];
        for (block, b1) in weights.b1.iter().enumerate() {
            let w1 = &weights.w1[block * weights.inputs..][..2 * heads];
            let w2 = &weights.w2[block * weights.outputs..][..heads];
            for group in (0..groups).step_by(TWO) {
                let x = four_units(*b1, w1, inputs, group);
                let d = four_units([0.0; FOUR], w2, outputs, group);
                for (at, (x, d)) in x.iter().zip(&d).enumerate() {
                    put(units, group + at, x, x);
                    put(of_units, group + at, x, d);
                }
            }
            add_units(&mut of_inputs[..2 * heads], w1, of_units, groups);
            of_weights.b1[block] = with_rows(of_weights.b1[block], of_units, groups);
            let of_w1 = of_weights.w1[block * squares[0]..].iter_mut();
            for (square, rows) in of_w1.zip(inputs.as_chunks().0) {
                add_products(square, rows, of_units, groups);
            }
            let of_w2 = of_weights.w2[block * squares[1]..].iter_mut();
            for (square, rows) in of_w2.zip(outputs.as_chunks().0) {
                add_products(square, rows, units, groups);
            }
        }
    }
}

/// The groups that hold so many pairs.
fn groups(pairs: usize) -> usize {
    pairs.div_ceil(TWO * LANES) * TWO
}

/// `sum + weight x`.
#[inline(always)]
fn plus(mut sum: Lanes, weight: f32, x: &Lanes) -> Lanes {
    for lane in 0..LANES {
        sum[lane] += weight * x[lane];
    }
    sum
}

/// `sum + x y`.
#[inline(always)]
fn plus_product(mut sum: Lanes, x: &Lanes, y: &Lanes) -> Lanes {
    for lane in 0..LANES {
        sum[lane] += x[lane] * y[lane];
    }
    sum
}

/// y where x is not negative, and a hundredth of it where it is.
#[inline(always)]
fn leaky(x: &Lanes, y: &Lanes) -> Lanes {
    let mut out = *y;
    for lane in 0..LANES {
        out[lane] = if x[lane] < 0.0 { SLOPE * y[lane] } else { y[lane] };
    }
    out
}

/// Four sums, each with its weight times x.
#[inline(always)]
fn plus_four([a, b, c, d]: [Lanes; FOUR], weights: &[f32; FOUR], x: &Lanes) -> [Lanes; FOUR] {
    [plus(a, weights[0], x), plus(b, weights[1], x), plus(c, weights[2], x), plus(d, weights[3], x)]
}

/// `start + sum of rows times weights` for four units and two groups of pairs.
#[inline(always)]
fn four_units(
    start: [f32; FOUR],
    weights: &[[f32; FOUR]],
    rows: &[Row],
    group: usize,
) -> [[Lanes; FOUR]; TWO] {
    let [a, b, c, d] = start;
    let start = [[a; LANES], [b; LANES], [c; LANES], [d; LANES]];
    let [mut first, mut second] = [start; TWO];
    for (weights, row) in weights.iter().zip(rows) {
        first = plus_four(first, weights, &row[group]);
        second = plus_four(second, weights, &row[group + 1]);
    }
    [first, second]
}

/// Writes y after the leaky ramp at x, for a group of pairs of four units.
#[inline(always)]
fn put(rows: &mut [Row; FOUR], group: usize, x: &[Lanes; FOUR], y: &[Lanes; FOUR]) {
    rows[0][group] = leaky(&x[0], &y[0]);
    rows[1][group] = leaky(&x[1], &y[1]);
    rows[2][group] = leaky(&x[2], &y[2]);
    rows[3][group] = leaky(&x[3], &y[3]);
}

/// Adds four units times their weights to rows.
#[inline(always)]
fn add_units(rows: &mut [Row], weights: &[[f32; FOUR]], units: &[Row; FOUR], groups: usize) {
    let [a, b, c, d] = units;
    let (a, b) = (a[..groups].as_flattened(), b[..groups].as_flattened());
    let (c, d) = (c[..groups].as_flattened(), d[..groups].as_flattened());
    for (row, weights) in rows.iter_mut().zip(weights) {
        let row = row[..groups].as_flattened_mut().iter_mut();
        for ((((row, a), b), c), d) in row.zip(a).zip(b).zip(c).zip(d) {
            *row = *row + weights[0] * a + weights[1] * b + weights[2] * c + weights[3] * d;
        }
    }
}

/// Four sums, each with all pairs of its row.
#[inline(always)]
fn with_rows(
    [mut a, mut b, mut c, mut d]: [Lanes; FOUR],
    rows: &[Row; FOUR],
    groups: usize,
) -> [Lanes; FOUR] {
    let [first, second, third, fourth] = rows;
    let rows = first.iter().zip(second).zip(third.iter().zip(fourth)).take(groups);
    for ((first, second), (third, fourth)) in rows {
        a = plus(a, 1.0, first);
        b = plus(b, 1.0, second);
        c = plus(c, 1.0, third);
        d = plus(d, 1.0, fourth);
    }
    [a, b, c, d]
}

/// Four sums, each with x times its y.
#[inline(always)]
fn plus_products([a, b, c, d]: [Lanes; FOUR], x: &Lanes, y: [&Lanes; FOUR]) -> [Lanes; FOUR] {
    [plus_product(a, x, y[0]), plus_product(b, x, y[1]), plus_product(c, x, y[2]), plus_product(d, x, y[3])]
}

/// Adds the products of four rows and four units, summed over pairs.
#[inline(always)]
fn add_products(square: &mut Square, rows: &[Row; FOUR], units: &[Row; FOUR], groups: usize) {
    let [mut a, mut b, mut c, mut d] = *square;
    for group in 0..groups {
        let units = [&units[0][group], &units[1][group], &units[2][group], &units[3][group]];
        a = plus_products(a, &rows[0][group], units);
        b = plus_products(b, &rows[1][group], units);
        c = plus_products(c, &rows[2][group], units);
        d = plus_products(d, &rows[3][group], units);
    }
    *square = [a, b, c, d];
}
