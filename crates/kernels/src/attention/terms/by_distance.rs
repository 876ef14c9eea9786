//! A bias by distance: a table of each head, with an entry for every distance.

use super::{KeyTable, OfLogits, Operands, Part, Room, ScoreTerm, TileTerm, add, of_head, summed};
use crate::attention::block::Tile;
use crate::attention::spec::{Shape, Sight};
use crate::machine::autodiff::{tensor_of, values};
use crate::op::Any;
use burn::tensor::{Device, Int, Tensor};
use burn_flex::FlexTensor;

/// `[heads, distances]`.
#[derive(Clone, Debug)]
pub(super) struct ByDistance(pub(super) Tensor<2>);

impl ScoreTerm for ByDistance {
    fn inputs(&self) -> Vec<Any> {
        vec![self.0.clone().into()]
    }

    fn check(&self, sight: &Sight, shape: &Shape) {
        let [rows, distances] = self.0.dims();
        let all = sight.distances.end.min(sight.offset + shape.queries);
        let needed = match sight.window {
            Some(window) if sight.sinks == 0 => window.min(all),
            _ => all,
        };
        assert!(
            rows == shape.heads && distances >= needed,
            "attention: a bias table [{rows}, {distances}] for {} heads and {needed} distances",
            shape.heads
        );
    }

    fn block(&self, sight: &Sight, [queries, keys]: [usize; 2], device: &Device) -> Option<Tensor<4>> {
        let [heads, distances] = self.0.dims();
        // Distances that are hidden may lie past the table; any entry serves there.
        let index = sight.distances_of(queries, keys, |n| n.clamp(0, distances.cast_signed() - 1) as i64);
        let index = Tensor::<4, Int>::from_data(index, device).reshape([queries * keys]);
        Some(self.0.clone().select(1, index).reshape([1, heads, queries, keys]))
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], _: f64) -> Box<dyn TileTerm + 'a> {
        let distances = inputs[0].layout().shape()[1];
        Box::new(Reversed { table: reversed_rows(&values(&inputs[0]), distances), distances })
    }
}

/// Each head's table turned around, so that it runs with the keys of a row: `[heads, distances]`.
struct Reversed {
    table: Vec<f32>,
    distances: usize,
}

impl TileTerm for Reversed {
    fn to_logits(&self, tile: Tile<'_>, _: &KeyTable, logits: &mut [f32]) {
        for run in tile.runs() {
            // Entry n of the table is number distances - 1 - n here.
            let from = (tile.block.head + 1) * self.distances - 1 - run.farthest;
            let logits = &mut logits[run.columns];
            let count = logits.len();
            add(logits, &self.table[from..from + count]);
        }
    }

    fn parts(&self, operands: &Operands) -> Vec<Part> {
        vec![Part::Sums(operands.shape.group() * self.distances)]
    }

    fn gradients(&self, operands: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        let heads = operands.shape.heads;
        let total = summed(&parts[0], heads * self.distances);
        vec![tensor_of(reversed_rows(&total, self.distances), [heads, self.distances])]
    }

    fn through_logits(&self, tile: Tile<'_>, _: &mut Room, of: &OfLogits<'_>, parts: &mut [&mut [f32]]) {
        let own = of_head(parts[0], tile, self.distances);
        for run in tile.runs() {
            let gradient = &of.gradient[run.columns];
            let from = self.distances - 1 - run.farthest;
            add(&mut own[from..from + gradient.len()], gradient);
        }
    }
}

/// Each row of `width` values turned around.
pub(super) fn reversed_rows(values: &[f32], width: usize) -> Vec<f32> {
    values.chunks(width.max(1)).flat_map(|row| row.iter().rev().copied()).collect()
}
