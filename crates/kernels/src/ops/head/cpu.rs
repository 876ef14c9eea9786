//! The head and its loss on the CPU: tiles of rows, whose logits stay in the second cache, and blocks of tiles, whose
//! logits become their gradient and then a part of the weights' gradient.

use super::products::Products;
use super::rows::{largest_of_rows, losses_of_rows, slopes};
use crate::machine::autodiff::{permuted_tensor_of, tensor_of};
use crate::machine::buffers::{GRAIN, computed, written, zeros};
use crate::machine::matmul::{Matrix, STRIP};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Bytes of the logits of a tile at most, where it has more than the fewest rows.
const TILE_BYTES: usize = if cfg!(miri) { 1 << 6 } else { 1 << 19 };
/// The fewest and the most rows of a tile: multiples of [`ROWS`].
const TILE_ROWS: (usize, usize) = if cfg!(miri) { (6, 12) } else { (24, 96) };
/// Rows that products sum at once.
const ROWS: usize = 6;
/// Bytes of the logits of a block at most, where it has more than the fewest tiles.
const BLOCK_BYTES: usize = 1 << 24;
/// The fewest and the most tiles of a block: work for so many threads.
const BLOCK_TILES: (usize, usize) = if cfg!(miri) { (2, 2) } else { (16, 32) };
/// Parts in which a gradient of weights is computed if its shape allows.
const PARTS: usize = 16;

/// What is asked of rows.
pub(super) struct Task<'a> {
    pub(super) targets: &'a [usize],
    /// What the loss of each row is multiplied by.
    pub(super) shares: &'a [f32],
    /// Whether the gradients of hidden states and of weights are wanted.
    pub(super) wanted: [bool; 2],
    /// Whether guesses are, where no gradient is.
    pub(super) guesses: bool,
}

/// What comes of it.
pub(super) struct Outcome {
    /// The loss of each row.
    pub(super) losses: Vec<f32>,
    /// The class of each row's largest logit.
    pub(super) guesses: Vec<i32>,
    /// `[rows, width]`.
    pub(super) hidden: Option<Vec<f32>>,
    pub(super) weights: Option<WeightSums>,
}

/// The gradient of weights, `[strip, width, STRIP]`.
pub(super) struct WeightSums(Vec<f32>);

/// How rows are cut.
pub(super) struct Cut {
    /// Rows of a tile.
    pub(super) tile: usize,
    /// Rows of a block, a multiple of that.
    pub(super) block: usize,
}

impl Cut {
    /// By the number of rows and the bytes of the logits of one: not by the number of threads, so that sums keep their order.
    pub(super) fn new(rows: usize, bytes: usize) -> Self {
        let between = |count: usize, (fewest, most): (usize, usize)| count.clamp(fewest, most);
        let fitting = between(TILE_BYTES / bytes.max(1), TILE_ROWS) / ROWS * ROWS;
        // Few rows are shared too.
        let tile = fitting.min(rows.div_ceil(PARTS).next_multiple_of(ROWS)).max(ROWS);
        let tiles = between(BLOCK_BYTES / (tile * bytes).max(1), BLOCK_TILES);
        // Blocks of about one size, so that the last one has work for as many threads.
        let blocks = rows.div_ceil(tile * tiles).max(1);
        Self { tile, block: rows.div_ceil(blocks).next_multiple_of(tile).max(tile) }
    }
}

pub(super) fn compute<P: Products>(products: &P, task: &Task<'_>) -> Outcome {
    if task.wanted == [false; 2] { read(products, task) } else { differentiate(products, task) }
}

/// Losses and guesses, tile by tile.
fn read<P: Products>(products: &P, task: &Task<'_>) -> Outcome {
    let ([rows, _, classes], stride) = (products.sizes(), products.stride());
    let Cut { tile, .. } = Cut::new(rows, stride * size_of::<P::Number>());
    let (mut losses, mut guesses) = (vec![0.0; rows], vec![0; rows]);
    let out =
        losses.par_chunks_mut(tile).zip(guesses.par_chunks_mut(tile)).zip(task.targets.par_chunks(tile));
    out.enumerate().with_max_len(1).for_each_init(
        || vec![P::Number::default(); tile * stride],
        |logits, (index, ((losses, guesses), targets))| {
            let (first, count) = (index * tile, targets.len());
            let logits = &mut logits[..count * stride];
            products.logits(first..first + count, logits);
            losses_of_rows(logits, stride, classes, targets, losses);
            if task.guesses {
                largest_of_rows(logits, stride, classes, guesses);
            }
        },
    );
    Outcome { losses, guesses, hidden: None, weights: None }
}

/// Losses and gradients, block by block.
fn differentiate<P: Products>(products: &P, task: &Task<'_>) -> Outcome {
    let ([rows, width, classes], stride) = (products.sizes(), products.stride());
    let Cut { tile, block } = Cut::new(rows, stride * size_of::<P::Number>());
    let mut losses = vec![0.0; rows];
    let mut hidden = task.wanted[0].then(|| zeros(rows * width));
    let mut weights = task.wanted[1].then(|| zeros(classes.div_ceil(STRIP) * width * STRIP));
    let zero =
        |_: usize, part: &mut [MaybeUninit<P::Number>]| part.fill(MaybeUninit::new(P::Number::default()));
    let mut logits = written(block.min(rows) * stride, GRAIN, zero);
    for first in (0..rows).step_by(block) {
        let count = block.min(rows - first);
        let logits = &mut logits[..count * stride];
        let parts = logits.chunks_mut(tile * stride).zip(losses[first..first + count].chunks_mut(tile));
        let mut hidden =
            hidden.as_mut().map(|hidden| hidden[first * width..][..count * width].chunks_mut(tile * width));
        let tiles: Vec<Tile<'_, P>> = parts
            .enumerate()
            .map(|(index, (logits, losses))| {
                let hidden = hidden.as_mut().and_then(Iterator::next);
                Tile { first: first + index * tile, logits, losses, hidden }
            })
            .collect();
        tiles.into_par_iter().with_max_len(1).for_each_init(
            || vec![0.0; classes],
            |exponentials, tile| tile.compute(products, task, exponentials),
        );
        if let Some(weights) = &mut weights {
            add_weight_gradient(products, first..first + count, logits, weights);
        }
    }
    Outcome { losses, guesses: Vec::new(), hidden, weights: weights.map(WeightSums) }
}

/// Some rows of a block.
struct Tile<'a, P: Products> {
    first: usize,
    logits: &'a mut [P::Number],
    losses: &'a mut [f32],
    hidden: Option<&'a mut [f32]>,
}

impl<P: Products> Tile<'_, P> {
    /// The losses, the logits' gradient in the place of the logits, and that of the hidden states if there is room for it.
    fn compute(self, products: &P, task: &Task<'_>, exponentials: &mut [f32]) {
        let Self { first, logits, losses, hidden } = self;
        let (classes, rows) = (products.sizes()[2], first..first + losses.len());
        products.logits(rows.clone(), logits);
        let (targets, shares) = (&task.targets[rows.clone()], &task.shares[rows]);
        slopes(logits, products.stride(), classes, targets, shares, losses, exponentials);
        products.round(logits);
        if let Some(hidden) = hidden {
            products.hidden_gradient(logits, hidden);
        }
    }
}

/// Channels of a task of the weights' gradient: all of a strip, unless strips are few.
fn channels_of_task(width: usize, classes: usize) -> usize {
    width.div_ceil(PARTS.div_ceil(classes.div_ceil(STRIP))).next_multiple_of(STRIP)
}

/// What the rows of a block add to the gradient of the weights.
fn add_weight_gradient<P: Products>(
    products: &P,
    rows: Range<usize>,
    slopes: &[P::Number],
    sums: &mut [f32],
) {
    let [_, width, classes] = products.sizes();
    let block = products.block(rows.clone());
    let channels = channels_of_task(width, classes);
    let strips = sums.par_chunks_mut(width * STRIP).enumerate().with_max_len(1);
    strips.for_each_init(P::Strip::default, |strip, (index, sums)| {
        let first = index * STRIP;
        products.lay_out(slopes, first, STRIP.min(classes - first), strip);
        let strip = &*strip;
        let parts = sums.par_chunks_mut(channels * STRIP).enumerate().with_max_len(1);
        parts.for_each(|(part, sums)| {
            products.add_weight_gradient(&block, strip, part * channels, sums);
        });
    });
}

impl WeightSums {
    /// A tensor `[width, classes]`, which lies as the transpose of rows if `turned`.
    pub(super) fn into_tensor(self, [width, classes]: [usize; 2], turned: bool) -> FlexTensor {
        let strip = |index: usize| {
            let wide = STRIP.min(classes - index * STRIP);
            Matrix::new(&self.0[index * width * STRIP..][..width * STRIP], width, wide, STRIP)
        };
        if turned {
            let values = computed(classes * width, STRIP * width, |index, out| {
                strip(index).transpose_into(out, width);
            });
            return permuted_tensor_of(values, [classes, width], [1, 0]);
        }
        let values = computed(width * classes, classes, |channel, out| {
            for (index, out) in out.chunks_mut(STRIP).enumerate() {
                let from = (index * width + channel) * STRIP;
                out.copy_from_slice(&self.0[from..from + out.len()]);
            }
        });
        tensor_of(values, [width, classes])
    }
}
