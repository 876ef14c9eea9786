//! A bias that falls with the distance, by a slope of each head.

use super::{KeyTable, OfLogits, Operands, Part, Room, ScoreTerm, TileTerm, of_head, summed};
use crate::attention::block::Tile;
use crate::attention::spec::{Shape, Sight};
use crate::machine::autodiff::{tensor_of, values};
use crate::machine::simd::{LANES, sum, vectorised};
use crate::op::Any;
use burn::tensor::{Device, Tensor};
use burn_flex::FlexTensor;
use std::borrow::Cow;

/// `[heads]`.
#[derive(Clone, Debug)]
pub(super) struct Slopes(pub(super) Tensor<1>);

impl ScoreTerm for Slopes {
    fn inputs(&self) -> Vec<Any> {
        vec![self.0.clone().into()]
    }

    fn check(&self, _: &Sight, shape: &Shape) {
        assert_eq!(self.0.dims(), [shape.heads], "attention: one slope per query head");
    }

    fn block(&self, sight: &Sight, [queries, keys]: [usize; 2], device: &Device) -> Option<Tensor<4>> {
        let distances = sight.distances_of(queries, keys, |n| n.max(0) as f32);
        let heads = self.0.dims()[0];
        Some(
            Tensor::<4>::from_data(distances, (device, self.0.dtype()))
                * self.0.clone().neg().reshape([1, heads, 1, 1]),
        )
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], _: f64) -> Box<dyn TileTerm + 'a> {
        Box::new(Values(values(&inputs[0])))
    }
}

struct Values<'a>(Cow<'a, [f32]>);

impl TileTerm for Values<'_> {
    fn to_logits(&self, tile: Tile<'_>, _: &KeyTable, logits: &mut [f32]) {
        for run in tile.runs() {
            subtract_slope(&mut logits[run.columns], self.0[tile.block.head], run.farthest);
        }
    }

    fn parts(&self, operands: &Operands) -> Vec<Part> {
        vec![Part::Sums(operands.shape.group())]
    }

    fn gradients(&self, operands: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        let heads = operands.shape.heads;
        vec![tensor_of(summed(&parts[0], heads), [heads])]
    }

    fn through_logits(&self, tile: Tile<'_>, _: &mut Room, of: &OfLogits<'_>, parts: &mut [&mut [f32]]) {
        let own = &mut of_head(parts[0], tile, 1)[0];
        for row in 0..tile.block.rows {
            add_slope(own, tile, row, of);
        }
    }
}

/// Adds the gradient of the slope of a row's logits.
pub(super) fn add_slope(own: &mut f32, tile: Tile<'_>, row: usize, of: &OfLogits<'_>) {
    // The gradients of a row's logits sum to that of its log sum, but for rounding errors, which distances enlarge.
    let mut excess = of.of_log_sums.map(|gradient| -gradient[row]);
    let mut mean_distance = 0.0;
    for run in tile.runs_of(row) {
        let gradient = &of.gradient[run.columns.clone()];
        *own -= by_distance(gradient, run.farthest);
        if let Some(excess) = &mut excess {
            *excess += sum(gradient);
            mean_distance += by_distance(&of.weights[run.columns], run.farthest);
        }
    }
    if let Some(excess) = excess {
        *own += mean_distance * excess;
    }
}

/// The numbers of the lanes: 0 to 15.
pub(super) const FIRST: [f32; LANES] = {
    let mut first = [0.0; LANES];
    let mut lane = 0;
    while lane < LANES {
        first[lane] = lane as f32;
        lane += 1;
    }
    first
};

vectorised! {
    /// Subtracts `slope * distance`, for distances that fall by one from `farthest`.
    pub(super) fn subtract_slope(logits: &mut [f32], slope: f32, farthest: usize) {
        // Whole numbers below 2^24 are exact in f32, however they are reached.
        let mut distance = farthest as f32;
        for logits in logits.chunks_mut(LANES) {
            for (x, lane) in logits.iter_mut().zip(&FIRST) {
                *x -= slope * (distance - lane);
            }
            distance -= LANES as f32;
        }
    }

    /// The sum of `distance * x`, for distances that fall by one from `farthest`.
    fn by_distance(x: &[f32], farthest: usize) -> f32 {
        let (chunks, rest) = x.as_chunks::<LANES>();
        let mut lanes = [0.0_f32; LANES];
        for (first, chunk) in (0_usize..).step_by(LANES).zip(chunks) {
            let distance = (farthest - first) as f32;
            for (lane, (x, n)) in lanes.iter_mut().zip(chunk.iter().zip(0_u16..)) {
                *lane += x * (distance - f32::from(n));
            }
        }
        let done = chunks.len() * LANES;
        let tail = rest.iter().enumerate().fold(0.0, |sum, (n, x)| sum + x * (farthest - done - n) as f32);
        sum(&lanes) + tail
    }
}
