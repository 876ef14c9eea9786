//! A small network that makes the logits of a pair of those of all heads and of their biases (DAPE).
//!
//! With A the logits of a query and a key so far, B their biases, which a table has by distance, and one number of each for every
//! head, the logits become `A + B + leaky_relu([A; B] w1 + b1) w2 + b2` (Zheng et al. 2024, arXiv:2405.14722, section 3), those of
//! [`pair_network`](crate::pair_network()). A block is then 32 queries of all heads. In the backward pass A, the network and the
//! weights of the keys are computed again.
//!
//! Time goes into the network: `3 heads * hidden` multiply-adds forward and `11 heads * hidden` backward for each pair.

use super::by_distance::{ByDistance, reversed_rows};
use super::{Part, ScoreTerm, Scores, Terms, TermsOf, TileTerm, add, summed};
use crate::attention::block::{Operands, Run, Tile};
use crate::attention::spec::{Shape, Sight};
use crate::machine::autodiff::{tensor_of, values};
use crate::op::Any;
use crate::ops::pair_network::tile::{self, Row, Stretch, WeightLanes, Weights, tiles};
use crate::ops::pair_network::{PairNetwork, plain_pair_network};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use std::sync::Arc;

/// What a network makes logits of: the scores of all heads, and biases by distance.
#[derive(Clone, Debug)]
pub struct PairTerms {
    /// `[heads, distances]`.
    pub bias: Tensor<2>,
    /// The network of scores and biases.
    pub network: PairNetwork,
}

impl From<PairTerms> for Terms {
    fn from(terms: PairTerms) -> Self {
        Self(vec![Arc::new(terms)])
    }
}

impl TermsOf for PairTerms {
    fn terms(&self, _q: &Tensor<4>, _k: &Tensor<4>) -> Terms {
        self.clone().into()
    }

    fn words(&self) -> &'static str {
        "the network of all heads' scores"
    }
}

impl ScoreTerm for PairTerms {
    fn inputs(&self) -> Vec<Any> {
        let PairNetwork { w1, b1, w2, b2 } = self.network.clone();
        vec![self.bias.clone().into(), w1.into(), b1.into(), w2.into(), b2.into()]
    }

    fn check(&self, sight: &Sight, shape: &Shape) {
        ByDistance(self.bias.clone()).check(sight, shape);
        self.network.check(shape.heads);
    }

    fn numbers_per_logit(&self) -> usize {
        let [inputs, hidden] = self.network.w1.dims();
        2 * (inputs + hidden).div_ceil(inputs)
    }

    fn plain_to_logits(&self, scores: &Scores<'_>, logits: Tensor<4>) -> Tensor<4> {
        let ([_, _, queries, keys], bias) = (logits.dims(), ByDistance(self.bias.clone()));
        let bias = bias.block(scores.sight, [queries, keys], &logits.device()).expect("a table has a block");
        plain_pair_network(logits, bias, &self.network, scores.sight.offset)
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], _: f64) -> Box<dyn TileTerm + 'a> {
        let shapes: Vec<Vec<usize>> = inputs.iter().map(|input| input.layout().shape().to_vec()).collect();
        let numbers = [0, 1, 2, 3, 4].map(|index| values(&inputs[index]));
        let [bias, weights @ ..] = numbers.each_ref().map(|numbers| &**numbers);
        Box::new(Values { bias: reversed_rows(bias, shapes[0][1]), weights: Weights::new(weights), shapes })
    }
}

struct Values {
    /// `[heads, distances]`, the farthest first: a row's biases run with its keys.
    bias: Vec<f32>,
    weights: Weights,
    /// Those of the inputs.
    shapes: Vec<Vec<usize>>,
}

impl Values {
    /// Where the biases of a stretch begin among those of a head.
    fn bias_at(&self, runs: &[Run], stretch: &Stretch) -> usize {
        let run = &runs[stretch.row];
        self.shapes[0][1] - 1 - run.farthest + stretch.key - run.columns.start
    }

    /// Fills the tile's inputs with the logits, of `size` numbers a head, and the biases of some pairs.
    fn fill(&self, runs: &[Run], stretches: &[Stretch], (logits, size): (&[f32], usize), inputs: &mut [Row]) {
        let (of_logits, of_biases) = inputs.split_at_mut(self.weights.heads());
        for stretch in stretches {
            let bias = self.bias_at(runs, stretch);
            for (head, (logit, biases)) in
                of_logits.iter_mut().zip(of_biases.iter_mut()).enumerate().take(self.weights.heads())
            {
                stretch.read(&logits[head * size + stretch.key..], logit);
                stretch.read(&self.bias[head * self.shapes[0][1] + bias..], biases);
            }
        }
    }
}

/// Puts rows of the tile where the logits of these stretches lie.
fn put(rows: &[Row], stretches: &[Stretch], (logits, size): (&mut [f32], usize)) {
    for stretch in stretches {
        for (head, row) in rows.iter().enumerate() {
            logits[head * size + stretch.key..][..stretch.len].copy_from_slice(stretch.of(row));
        }
    }
}

impl TileTerm for Values {
    fn mixes_heads(&self) -> bool {
        true
    }

    fn mix(&self, first: Tile<'_>, logits: &mut [f32]) {
        let (heads, mut tile) = (self.weights.heads(), tile::Tile::new(&self.weights));
        let (size, runs) = (logits.len() / heads, first.runs().collect::<Vec<_>>());
        tiles(runs.iter().map(|run| run.columns.clone()), |stretches, pairs| {
            self.fill(&runs, stretches, (logits, size), &mut tile.inputs);
            tile::forward(&self.weights, pairs, &mut tile);
            put(&tile.outputs[..heads], stretches, (logits, size));
        });
    }

    fn parts(&self, _: &Operands) -> Vec<Part> {
        self.shapes.iter().map(|shape| Part::Sums(shape.iter().product())).collect()
    }

    fn gradients(&self, _: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        let total =
            |(part, shape): (Vec<f32>, &Vec<usize>)| (summed(&part, shape.iter().product()), shape.clone());
        let mut totals: Vec<_> = parts.into_iter().zip(&self.shapes).map(total).collect();
        totals[0].0 = reversed_rows(&totals[0].0, self.shapes[0][1]);
        totals.into_iter().map(|(total, shape)| tensor_of(total, shape)).collect()
    }

    fn passes_on(&self) -> bool {
        true
    }

    fn through_mix(&self, first: Tile<'_>, logits: &[f32], gradient: &mut [f32], parts: &mut [&mut [f32]]) {
        let (heads, mut tile) = (self.weights.heads(), tile::Tile::new(&self.weights));
        let (size, runs) = (logits.len() / heads, first.runs().collect::<Vec<_>>());
        let mut of_weights = WeightLanes::new(&self.weights);
        tiles(runs.iter().map(|run| run.columns.clone()), |stretches, pairs| {
            self.fill(&runs, stretches, (logits, size), &mut tile.inputs);
            for stretch in stretches {
                for (head, row) in tile.outputs[..heads].iter_mut().enumerate() {
                    stretch.read(&gradient[head * size + stretch.key..], row);
                }
            }
            tile.clear_after(pairs);
            tile::backward(&self.weights, pairs, &mut tile, &mut of_weights);
            let (of_logits, of_biases) = tile.of_inputs.split_at(heads);
            put(of_logits, stretches, (gradient, size));
            for stretch in stretches {
                let from = self.bias_at(&runs, stretch);
                for (head, row) in of_biases[..heads].iter().enumerate() {
                    add(&mut parts[0][head * self.shapes[0][1] + from..][..stretch.len], stretch.of(row));
                }
            }
        });
        for (part, sums) in parts[1..].iter_mut().zip(of_weights.sums(&self.weights)) {
            add(part, &sums);
        }
    }
}
