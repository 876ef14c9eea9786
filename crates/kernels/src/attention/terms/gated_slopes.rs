//! A bias that falls with the distance, by a slope of each query, of each key, or by the sum of both.
//!
//! With n = i - j the distance of a query and a key, `-n (query_i + key_j)` is added to the logit (GRAPE-A, Zhang et al. 2025,
//! arXiv:2512.07805). The slopes are made of q and k in plain operations: `slope_h softplus(vector_h · x)`.

use super::slopes::{FIRST, add_slope, subtract_slope};
use super::{KeyTable, OfLogits, Operands, Part, Room, ScoreTerm, Terms, TermsOf, TileTerm, by_row, of_head};
use crate::attention::block::Tile;
use crate::attention::reference::repeat_heads;
use crate::attention::spec::{Shape, Sight};
use crate::machine::autodiff::values;
use crate::machine::simd::{LANES, vectorised};
use crate::op::Any;
use burn::tensor::activation::softplus;
use burn::tensor::{Device, Tensor};
use burn_flex::FlexTensor;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// How queries, keys or both decide the slopes by which logits fall with the distance.
#[derive(Clone, Debug)]
pub struct SlopeGates {
    /// `[heads]`: what multiplies the gates.
    pub slopes: Tensor<1>,
    /// `[heads, head_dim]`: a query's gate is `softplus(vector · q)`.
    pub of_queries: Option<Tensor<2>>,
    /// `[heads, head_dim]`: a key's gate is `softplus(vector · k)`, with the vector of the query head that reads it.
    pub of_keys: Option<Tensor<2>>,
}

impl SlopeGates {
    /// The slope of each query and key, which broadcasts to `[batch, heads, queries, keys]`; `None` where neither decides.
    pub fn of_pairs(&self, q: &Tensor<4>, k: &Tensor<4>) -> Option<Tensor<4>> {
        self.slopes(q, k).of_pairs()
    }

    fn slopes(&self, q: &Tensor<4>, k: &Tensor<4>) -> GatedSlopes {
        let heads = q.dims()[1];
        let slopes = |x: &Tensor<4>, vectors: &Tensor<2>| {
            let vectors = vectors.clone().unsqueeze_dim::<3>(2).unsqueeze::<4>(); // [1, heads, head_dim, 1]
            let gates = softplus(repeat_heads(x.clone(), heads / x.dims()[1]).matmul(vectors), 1.0);
            let gates = gates.squeeze_dim::<3>(3); // [batch, heads, rows]
            gates * self.slopes.clone().reshape([1, heads, 1])
        };
        let query = self.of_queries.as_ref().map(|vectors| slopes(q, vectors));
        let key = self.of_keys.as_ref().map(|vectors| slopes(k, vectors));
        GatedSlopes { query, key }
    }
}

impl TermsOf for SlopeGates {
    fn terms(&self, q: &Tensor<4>, k: &Tensor<4>) -> Terms {
        self.slopes(q, k).into()
    }

    fn words(&self) -> &'static str {
        "slopes that queries and keys decide"
    }
}

/// `[batch, heads, queries]` and `[batch, heads, keys]`.
#[derive(Clone, Debug)]
pub(in crate::attention) struct GatedSlopes {
    pub(in crate::attention) query: Option<Tensor<3>>,
    pub(in crate::attention) key: Option<Tensor<3>>,
}

impl From<GatedSlopes> for Terms {
    fn from(slopes: GatedSlopes) -> Self {
        Self(vec![Arc::new(slopes)])
    }
}

impl GatedSlopes {
    fn each(&self, map: impl Fn(Tensor<3>) -> Tensor<3>) -> Self {
        Self { query: self.query.clone().map(&map), key: self.key.clone().map(&map) }
    }

    /// The slope of each query and key, `[batch, heads, queries or 1, keys or 1]`.
    fn of_pairs(&self) -> Option<Tensor<4>> {
        let query = self.query.clone().map(|slopes| slopes.unsqueeze_dim::<4>(3));
        let key = self.key.clone().map(|slopes| slopes.unsqueeze_dim::<4>(2));
        [query, key].into_iter().flatten().reduce(|a, b| a + b)
    }
}

impl ScoreTerm for GatedSlopes {
    fn inputs(&self) -> Vec<Any> {
        [&self.query, &self.key].into_iter().flatten().map(|x| x.clone().into()).collect()
    }

    fn check(&self, _: &Sight, shape: &Shape) {
        let Shape { batch, heads, queries, keys, .. } = *shape;
        for (slopes, rows) in [(&self.query, queries), (&self.key, keys)] {
            let fits = slopes.as_ref().is_none_or(|slopes| slopes.dims() == [batch, heads, rows]);
            assert!(
                fits,
                "attention: slopes {:?} for [{batch}, {heads}, {rows}]",
                slopes.as_ref().map(Tensor::dims)
            );
        }
    }

    fn at_temperature(&self, temperature: f64, _: f64) -> Option<Arc<dyn ScoreTerm>> {
        Some(Arc::new(self.each(|slopes| slopes.div_scalar(temperature))))
    }

    fn of_rows(&self, rows: Range<usize>, keys: usize) -> Option<Arc<dyn ScoreTerm>> {
        let query = self.query.clone().map(|slopes| slopes.slice_dim(2, rows));
        let key = self.key.clone().map(|slopes| slopes.slice_dim(2, 0..keys));
        Some(Arc::new(Self { query, key }))
    }

    fn block(&self, sight: &Sight, [queries, keys]: [usize; 2], device: &Device) -> Option<Tensor<4>> {
        let slopes = self.of_pairs()?;
        let distances = sight.distances_of(queries, keys, |n| -n.max(0) as f32);
        Some(Tensor::<4>::from_data(distances, (device, slopes.dtype())) * slopes)
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], _: f64) -> Box<dyn TileTerm + 'a> {
        let mut inputs = inputs.iter().map(values);
        let query = self.query.as_ref().and_then(|_| inputs.next());
        let key = self.key.as_ref().and_then(|_| inputs.next());
        Box::new(Values { query, key })
    }
}

struct Values<'a> {
    query: Option<Cow<'a, [f32]>>,
    key: Option<Cow<'a, [f32]>>,
}

impl TileTerm for Values<'_> {
    fn to_logits(&self, tile: Tile<'_>, _: &KeyTable, logits: &mut [f32]) {
        let Shape { heads, keys, .. } = tile.operands.shape;
        let (query, key) = (tile.first_row(), (tile.block.batch * heads + tile.block.head) * keys);
        for run in tile.runs() {
            let logits = &mut logits[run.columns];
            let slope = self.query.as_ref().map_or(0.0, |slopes| slopes[query + run.row]);
            match &self.key {
                None => subtract_slope(logits, slope, run.farthest),
                Some(slopes) => {
                    let from = key + run.first;
                    let slopes = &slopes[from..from + logits.len()];
                    subtract_slopes(logits, slope, slopes, run.farthest);
                }
            }
        }
    }

    fn parts(&self, operands: &Operands) -> Vec<Part> {
        let query = self.query.as_ref().map(|_| Part::Rows { width: 1, shared: false });
        let key = self.key.as_ref().map(|_| Part::Sums(operands.shape.group() * operands.shape.keys));
        [query, key].into_iter().flatten().collect()
    }

    fn gradients(&self, operands: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        let Shape { queries, keys, .. } = operands.shape;
        let lengths = [self.query.as_ref().map(|_| queries), self.key.as_ref().map(|_| keys)];
        by_row(operands, parts, lengths.into_iter().flatten())
    }

    fn through_logits(&self, tile: Tile<'_>, _: &mut Room, of: &OfLogits<'_>, parts: &mut [&mut [f32]]) {
        let (of_queries, of_keys) = parts.split_at_mut(usize::from(self.query.is_some()));
        if let [of_queries] = of_queries {
            for row in 0..tile.block.rows {
                add_slope(&mut of_queries[row], tile, row, of);
            }
        }
        if let [of_keys] = of_keys {
            let of_keys = of_head(of_keys, tile, tile.operands.shape.keys);
            for run in tile.runs() {
                let gradient = &of.gradient[run.columns];
                let of_keys = &mut of_keys[run.first..run.first + gradient.len()];
                subtract_by_distance(of_keys, gradient, run.farthest);
            }
        }
    }
}

vectorised! {
    /// Subtracts the distance times the slope of the query and of each key, for distances that fall by one from `farthest`.
    fn subtract_slopes(logits: &mut [f32], query: f32, keys: &[f32], farthest: usize) {
        let mut distance = farthest as f32;
        for (logits, keys) in logits.chunks_mut(LANES).zip(keys.chunks(LANES)) {
            for ((x, key), lane) in logits.iter_mut().zip(keys).zip(&FIRST) {
                *x -= (query + key) * (distance - lane);
            }
            distance -= LANES as f32;
        }
    }

    /// Subtracts the distance times the gradient of each logit.
    fn subtract_by_distance(to: &mut [f32], gradient: &[f32], farthest: usize) {
        let mut distance = farthest as f32;
        for (to, gradient) in to.chunks_mut(LANES).zip(gradient.chunks(LANES)) {
            for ((to, x), lane) in to.iter_mut().zip(gradient).zip(&FIRST) {
                *to -= x * (distance - lane);
            }
            distance -= LANES as f32;
        }
    }
}
