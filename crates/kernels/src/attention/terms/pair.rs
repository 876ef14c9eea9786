//! A bias that is the difference of a number of the query and one of the key.

use super::{KeyTable, OfLogits, Operands, Part, Room, ScoreTerm, TileTerm, by_row, of_head};
use crate::attention::block::Tile;
use crate::attention::spec::{Shape, Sight};
use crate::machine::autodiff::values;
use crate::machine::simd::{sum, vectorised};
use crate::op::Any;
use burn::tensor::{Device, Tensor};
use burn_flex::FlexTensor;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// `[batch, heads, queries]` and `[batch, heads, keys]`.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) query: Tensor<3>,
    pub(super) key: Tensor<3>,
}

impl ScoreTerm for Pair {
    fn inputs(&self) -> Vec<Any> {
        [&self.query, &self.key].map(|x| x.clone().into()).into()
    }

    fn check(&self, _: &Sight, shape: &Shape) {
        let Shape { batch, heads, queries, keys, .. } = *shape;
        assert_eq!(self.query.dims(), [batch, heads, queries], "attention: the query part of the bias");
        assert_eq!(self.key.dims(), [batch, heads, keys], "attention: the key part of the bias");
    }

    fn of_rows(&self, rows: Range<usize>, keys: usize) -> Option<Arc<dyn ScoreTerm>> {
        let query = self.query.clone().slice_dim(2, rows);
        Some(Arc::new(Self { query, key: self.key.clone().slice_dim(2, 0..keys) }))
    }

    fn block(&self, _: &Sight, _: [usize; 2], _: &Device) -> Option<Tensor<4>> {
        Some(self.query.clone().unsqueeze_dim::<4>(3) - self.key.clone().unsqueeze_dim::<4>(2))
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], _: f64) -> Box<dyn TileTerm + 'a> {
        Box::new(Values { query: values(&inputs[0]), key: values(&inputs[1]) })
    }
}

struct Values<'a> {
    query: Cow<'a, [f32]>,
    key: Cow<'a, [f32]>,
}

impl TileTerm for Values<'_> {
    fn to_logits(&self, tile: Tile<'_>, _: &KeyTable, logits: &mut [f32]) {
        let Shape { heads, keys, .. } = tile.operands.shape;
        let (query, key) = (tile.first_row(), (tile.block.batch * heads + tile.block.head) * keys);
        for run in tile.runs() {
            let logits = &mut logits[run.columns];
            let from = key + run.first;
            let count = logits.len();
            add_difference(logits, self.query[query + run.row], &self.key[from..from + count]);
        }
    }

    fn parts(&self, operands: &Operands) -> Vec<Part> {
        let Shape { keys, .. } = operands.shape;
        vec![Part::Rows { width: 1, shared: false }, Part::Sums(operands.shape.group() * keys)]
    }

    fn gradients(&self, operands: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        by_row(operands, parts, [operands.shape.queries, operands.shape.keys])
    }

    fn through_logits(&self, tile: Tile<'_>, _: &mut Room, of: &OfLogits<'_>, parts: &mut [&mut [f32]]) {
        let [of_query, of_key] = parts else { return };
        let of_key = of_head(of_key, tile, tile.operands.shape.keys);
        for run in tile.runs() {
            let gradient = &of.gradient[run.columns];
            of_query[run.row] += sum(gradient);
            subtract(&mut of_key[run.first..run.first + gradient.len()], gradient);
        }
    }
}

vectorised! {
    /// Adds the number of a query less that of each key.
    fn add_difference(logits: &mut [f32], query: f32, key: &[f32]) {
        for (x, key) in logits.iter_mut().zip(key) {
            *x += query - key;
        }
    }

    /// `to -= from`, element by element.
    fn subtract(to: &mut [f32], from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to -= from;
        }
    }
}
