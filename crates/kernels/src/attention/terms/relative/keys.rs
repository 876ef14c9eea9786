//! Vectors that are added to keys: the products of a block's queries with them are one small table.

use super::VectorTable;
use super::vectors::{Order, Vectors, collect_rows, in_order, spread_rows};
use crate::attention::block::{Operands, Tile};
use crate::attention::spec::{Shape, Sight};
use crate::attention::terms::{Part, Room, ScoreTerm, Scores, TileTerm, of_head, summed};
use crate::machine::autodiff::{tensor_of, values};
use crate::machine::matmul::{Matrix, matmul};
use crate::op::Any;
use burn::tensor::Tensor;
use burn_flex::FlexTensor;

/// The vectors, and their bias `[heads, buckets]`.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) table: VectorTable,
    pub(super) bias: Option<Tensor<2>>,
}

impl ScoreTerm for Keys {
    fn inputs(&self) -> Vec<Any> {
        let bias = self.bias.clone().map(Any::from);
        [Any::from(self.table.vectors.clone())].into_iter().chain(bias).collect()
    }

    fn check(&self, sight: &Sight, shape: &Shape) {
        self.table.check(shape.head_dim, sight, shape);
        if let Some(bias) = &self.bias {
            let expected = [shape.heads, self.table.vectors.dims()[1]];
            assert_eq!(bias.dims(), expected, "attention: the bias of vectors by distance");
        }
    }

    /// Adds `scale * (q_i · keys[n] + bias)`.
    fn plain_to_scores(&self, scores: &Scores<'_>, logits: Tensor<4>) -> Tensor<4> {
        let mut products = self.table.products(scores.q);
        if let Some(bias) = &self.bias {
            let [heads, buckets] = bias.dims();
            products = products + bias.clone().reshape([1, heads, 1, buckets]);
        }
        let chosen = self.table.chosen(scores.sight, logits.dims(), &logits);
        logits + products.gather(3, chosen).mul_scalar(scores.scale)
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], _: f64) -> Box<dyn TileTerm + 'a> {
        let vectors = Vectors::new(&inputs[0], &self.table, Order::LastFirst);
        let bias = inputs.get(1).map(|bias| in_order(&values(bias), vectors.buckets, 1, Order::LastFirst));
        Box::new(Values { vectors, bias })
    }
}

struct Values {
    /// The last bucket first, so that entries of a block's table run with the keys of a row.
    vectors: Vectors,
    /// `[heads, buckets]` in the same order.
    bias: Option<Vec<f32>>,
}

impl TileTerm for Values {
    fn to_scores(&self, tile: Tile<'_>, room: &mut Room, scores: &mut [f32]) {
        let (vectors, scale) = (&self.vectors, tile.operands.scale);
        let table = vectors.table(tile, room);
        let used = table.len() / tile.block.rows;
        if let Some(bias) = &self.bias {
            let bias = &bias[tile.block.head * vectors.buckets + vectors.first(used)..][..used];
            for row in table.chunks_mut(used) {
                for (x, bias) in row.iter_mut().zip(bias) {
                    *x = scale * bias;
                }
            }
        }
        let columns = vectors.columns(tile.block.head, used);
        matmul(table, used, self.bias.is_some(), scale, tile.queries(), columns);
        spread_rows(tile, &vectors.map, table, scores);
    }

    fn parts(&self, operands: &Operands) -> Vec<Part> {
        let (group, buckets) = (operands.shape.group(), self.vectors.buckets);
        let bias = self.bias.as_ref().map(|_| Part::Sums(group * buckets));
        [Part::Sums(group * self.vectors.size())].into_iter().chain(bias).collect()
    }

    fn gradients(&self, operands: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        let (heads, buckets) = (operands.shape.heads, self.vectors.buckets);
        let bias = parts.get(1).map(|part| {
            let total = summed(part, heads * buckets);
            tensor_of(in_order(&total, buckets, 1, Order::LastFirst), [heads, buckets])
        });
        [self.vectors.gradient(&parts[0], heads)].into_iter().chain(bias).collect()
    }

    fn passes_on(&self) -> bool {
        true
    }

    fn to_queries(
        &self,
        tile: Tile<'_>,
        room: &mut Room,
        gradient: &[f32],
        queries: &mut [f32],
        parts: &mut [&mut [f32]],
    ) {
        let (vectors, scale) = (&self.vectors, tile.operands.scale);
        let sums = collect_rows(tile, vectors, gradient, room);
        let used = sums.len() / tile.block.rows;
        let (width, first) = (vectors.width, vectors.first(used));
        let table = Matrix::new(sums, tile.block.rows, used, used);
        matmul(queries, width, true, scale, table, vectors.rows(tile.block.head, used));
        let own = of_head(parts[0], tile, vectors.size());
        matmul(&mut own[first * width..], width, true, scale, table.transposed(), tile.queries());
        if let Some(bias) = parts.get_mut(1) {
            let own = &mut of_head(bias, tile, vectors.buckets)[first..];
            for row in sums.chunks(used) {
                for (own, x) in own.iter_mut().zip(row) {
                    *own += scale * x;
                }
            }
        }
    }
}
