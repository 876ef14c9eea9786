//! Vectors that are added to values: the weights of a block, summed by bucket, choose among them. Values may have channels after
//! those of the vectors, which nothing is added to.

use super::VectorTable;
use super::vectors::{Order, Vectors, collect_rows, spread_rows};
use crate::attention::block::{Operands, Tile};
use crate::attention::spec::{Shape, Sight};
use crate::attention::terms::{Part, Room, ScoreTerm, TileTerm, of_head};
use crate::machine::matmul::{Matrix, matmul};
use crate::op::Any;
use burn::tensor::ops::PadMode;
use burn::tensor::{IndexingUpdateOp, Tensor};
use burn_flex::FlexTensor;

/// `output` `[batch, heads, queries, value_dim]` with an addition to its first channels, or to all of them.
pub fn add_to_first_channels(output: Tensor<4>, addition: Tensor<4>) -> Tensor<4> {
    let others = output.dims()[3] - addition.dims()[3];
    if others == 0 {
        output + addition
    } else {
        output + addition.pad((0, others, 0, 0), PadMode::Constant(0.0))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Values(pub(super) VectorTable);

impl ScoreTerm for Values {
    fn inputs(&self) -> Vec<Any> {
        vec![self.0.vectors.clone().into()]
    }

    fn check(&self, sight: &Sight, shape: &Shape) {
        self.0.check(self.0.vectors.dims()[2].min(shape.value_dim), sight, shape);
    }

    fn plain_to_output(&self, sight: &Sight, weights: Tensor<4>, output: Tensor<4>) -> Tensor<4> {
        let [batch, heads, queries, keys] = weights.dims();
        let chosen = self.0.chosen(sight, [batch, heads, queries, keys], &weights);
        let none = Tensor::zeros(
            [batch, heads, queries, self.0.vectors.dims()[1]],
            (&weights.device(), weights.dtype()),
        );
        let sums = none.scatter(3, chosen, weights, IndexingUpdateOp::Add);
        add_to_first_channels(output, sums.matmul(self.0.vectors.clone().unsqueeze::<4>()))
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], _: f64) -> Box<dyn TileTerm + 'a> {
        Box::new(Vectors::new(&inputs[0], &self.0, Order::LastFirst))
    }
}

/// The last bucket first.
impl TileTerm for Vectors {
    fn to_output(
        &self,
        tile: Tile<'_>,
        room: &mut Room,
        weights: &[f32],
        (out, stride): (&mut [f32], usize),
    ) {
        let table = collect_rows(tile, self, weights, room);
        let used = table.len() / tile.block.rows;
        let table = Matrix::new(table, tile.block.rows, used, used);
        matmul(out, stride, true, 1.0, table, self.rows(tile.block.head, used));
    }

    fn parts(&self, operands: &Operands) -> Vec<Part> {
        vec![Part::Sums(operands.shape.group() * self.size())]
    }

    fn gradients(&self, operands: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        vec![self.gradient(&parts[0], operands.shape.heads)]
    }

    fn passes_on(&self) -> bool {
        true
    }

    fn through_output(
        &self,
        tile: Tile<'_>,
        room: &mut Room,
        weights: &[f32],
        output: Matrix<'_>,
        gradient: &mut [f32],
        parts: &mut [&mut [f32]],
    ) {
        let table = collect_rows(tile, self, weights, room);
        let used = table.len() / tile.block.rows;
        let table = Matrix::new(table, tile.block.rows, used, used);
        let output = output.columns(0, self.width);
        let own = of_head(parts[0], tile, self.size());
        let own = &mut own[self.first(used) * self.width..];
        matmul(own, self.width, true, 1.0, table.transposed(), output);
        let table = self.table(tile, room);
        matmul(table, used, false, 1.0, output, self.columns(tile.block.head, used));
        spread_rows(tile, &self.map, table, gradient);
    }
}
