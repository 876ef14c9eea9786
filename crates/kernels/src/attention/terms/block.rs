//! A bias of each query and key.

use super::{KeyTable, OfLogits, Operands, Part, Room, ScoreTerm, TileTerm, add};
use crate::attention::block::Tile;
use crate::attention::spec::{Shape, Sight};
use crate::machine::autodiff::{tensor_of, values};
use crate::op::Any;
use burn::tensor::{Device, Tensor};
use burn_flex::FlexTensor;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// `[1 or batch, heads, queries, keys]`.
#[derive(Clone, Debug)]
pub(super) struct Block(pub(super) Tensor<4>);

impl ScoreTerm for Block {
    fn inputs(&self) -> Vec<Any> {
        vec![self.0.clone().into()]
    }

    fn check(&self, _: &Sight, shape: &Shape) {
        let Shape { batch, heads, queries, keys, .. } = *shape;
        let dims = self.0.dims();
        assert!(
            (dims[0] == 1 || dims[0] == batch) && dims[1..] == [heads, queries, keys],
            "attention: a bias {dims:?} for [{batch}, {heads}, {queries}, {keys}]"
        );
    }

    fn of_rows(&self, rows: Range<usize>, keys: usize) -> Option<Arc<dyn ScoreTerm>> {
        Some(Arc::new(Self(self.0.clone().slice_dim(2, rows).slice_dim(3, 0..keys))))
    }

    fn block(&self, _: &Sight, _: [usize; 2], _: &Device) -> Option<Tensor<4>> {
        Some(self.0.clone())
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], _: f64) -> Box<dyn TileTerm + 'a> {
        Box::new(Values { values: values(&inputs[0]), shared: inputs[0].layout().shape()[0] == 1 })
    }
}

struct Values<'a> {
    values: Cow<'a, [f32]>,
    /// Whether the batch shares it.
    shared: bool,
}

impl TileTerm for Values<'_> {
    fn to_logits(&self, tile: Tile<'_>, _: &KeyTable, logits: &mut [f32]) {
        let Shape { heads, queries, keys, .. } = tile.operands.shape;
        let of_batch = if self.shared { tile.block.batch * heads * queries } else { 0 };
        for run in tile.runs() {
            let from = (tile.first_row() - of_batch + run.row) * keys + run.first;
            let logits = &mut logits[run.columns];
            let count = logits.len();
            add(logits, &self.values[from..from + count]);
        }
    }

    fn parts(&self, operands: &Operands) -> Vec<Part> {
        vec![Part::Rows { width: operands.shape.keys, shared: self.shared }]
    }

    fn gradients(&self, operands: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        let Shape { batch, heads, queries, keys, .. } = operands.shape;
        let batch = if self.shared { 1 } else { batch };
        parts.into_iter().map(|part| tensor_of(part, [batch, heads, queries, keys])).collect()
    }

    fn through_logits(&self, tile: Tile<'_>, _: &mut Room, of: &OfLogits<'_>, parts: &mut [&mut [f32]]) {
        for run in tile.runs() {
            let gradient = &of.gradient[run.columns];
            let from = run.row * tile.operands.shape.keys + run.first;
            add(&mut parts[0][from..from + gradient.len()], gradient);
        }
    }
}
