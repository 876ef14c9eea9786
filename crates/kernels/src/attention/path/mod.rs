//! Causal attention whose keys are changed by the rows between them and a query (`PaTH`).
//!
//! `logit_ij = scale q_i^T H_i H_{i-1} .. H_{j+1} k_j`, `H_t = 1 - beta_t w_t w_t^T` (Yang et al. 2025, arXiv:2505.16381,
//! equation 2), and, with the gates of `FoX`, `+ gate_i - gate_j`. The output is the softmax of the logits over the keys up to the
//! query, times v.
//!
//! **How:** products of many H are never formed one by one. The rows of a chunk act at once: with W, K and Q their w, k and q,
//! `G = (1 + strictly_lower(beta W W^T))^-1 beta` and `P = lower(Q W^T)`, scores within the chunk are
//! `Q K^T - P X`, `X = G strictly_lower(W K^T)`, and `Q - P Y`, `Y = G W`, is what is left of its queries for the keys before
//! it (`chunks.rs`). A query of a later chunk meets the keys `K - X^T W`, and goes on as `q M`, `M = 1 - W^T Y`.
//!
//! **Fused:** all of it. Some chunks of queries are a region. Keys before a region go through all chunks between, once for the
//! region and not for each query: their products with the queries are then those of any attention (`region.rs`). With 128 rows in a
//! region and heads of 32 channels this is half as much work again. Nothing of size queries x keys is kept.
//!
//! **Kept for the backward pass:** the inputs, and the log of the sum of exponentials of each query row and head. All else is
//! computed again.
//!
//! **Bytes:** those of [`attention`](crate::attention()), and w and beta.

mod backward;
mod chunks;
mod cpu;
mod reference;
mod region;
mod walk;

pub use reference::path_scores;

use crate::op::prelude::*;
use burn::tensor::Tensor;

/// What the rows between a query and a key do: `H_t = 1 - beta_t w_t w_t^T`.
#[derive(Clone, Debug)]
pub struct Reflections {
    /// w: `[batch, key_heads, keys, head_dim]`.
    pub directions: Tensor<4>,
    /// beta: `[batch, key_heads, keys]`.
    pub strengths: Tensor<3>,
}

/// What [`path_attention`] does besides the softmax of q·k.
#[derive(Clone, Debug)]
pub struct PathAttention {
    /// Multiplies q·k.
    pub scale: f64,
    /// What the rows do.
    pub reflections: Reflections,
    /// `query_i - key_j` is added to the scaled scores: `[batch, heads, queries]` and `[batch, heads, keys]`.
    pub gates: Option<[Tensor<3>; 2]>,
    /// The row of the first query among the keys.
    pub first: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    head_dim: usize,
    value_dim: usize,
    first: usize,
}

impl Shape {
    /// The rows up to the last query: later ones change nothing.
    fn end(&self) -> usize {
        self.first + self.queries
    }

    /// Query heads of a key head.
    fn group(&self) -> usize {
        self.heads / self.key_heads
    }
}

/// q `[batch, heads, queries, head_dim]`, k `[batch, key_heads, keys, head_dim]` and v `[batch, key_heads, keys, value_dim]` ->
/// `[batch, heads, queries, value_dim]`; query head h reads key head `h / (heads / key_heads)`.
///
/// # Panics
/// The shapes do not agree, or there are queries past the last key.
pub fn path_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &PathAttention) -> Tensor<4> {
    let shape = checked(&q, &k, &v, options);
    let PathAttention { scale, reflections, gates, .. } = options.clone();
    let Reflections { directions, strengths } = reflections;
    let op = Fused { shape, scale, gates: gates.is_some() };
    let [query, key] = gates.map_or([None, None], |gates| gates.map(Some));
    let inputs =
        [q.into(), k.into(), v.into(), directions.into(), strengths.into(), query.into(), key.into()];
    let [output] = run(op, inputs);
    output.tensor()
}

#[derive(Clone)]
struct Fused {
    shape: Shape,
    scale: f64,
    gates: bool,
}

impl Op<7> for Fused {
    const NAME: &'static str = "path attention";

    fn reference(self, [q, k, v, w, beta, query, key]: [Any; 7]) -> [Any; 1] {
        let options = PathAttention {
            scale: self.scale,
            reflections: Reflections { directions: w.tensor(), strengths: beta.tensor() },
            gates: self.gates.then(|| [query.tensor(), key.tensor()]),
            first: self.shape.first,
        };
        [reference::path_attention(&q.tensor(), &k.tensor(), &v.tensor(), &options).into()]
    }

    fn cpu(self, inputs: [FlexTensor; 7], _: [bool; 7]) -> ([FlexTensor; 1], impl Gradient<Flex, 7>) {
        let call = cpu::Call { inputs, shape: self.shape, scale: self.scale as f32, gates: self.gates };
        let (output, log_sums) = cpu::forward(&call);
        let gradient = move |output, _| {
            let mut gradients = backward::gradients(&call, &log_sums, &only(output)).into_iter();
            std::array::from_fn(|_| gradients.next())
        };
        ([output], gradient)
    }
}

fn checked(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>, options: &PathAttention) -> Shape {
    let ([batch, heads, queries, head_dim], [_, key_heads, keys, _]) = (q.dims(), k.dims());
    let [_, _, _, value_dim] = v.dims();
    let first = options.first;
    let Reflections { directions, strengths } = &options.reflections;
    assert!(
        k.dims() == [batch, key_heads, keys, head_dim] && v.dims() == [batch, key_heads, keys, value_dim],
        "path attention: q {:?}, k {:?} and v {:?}",
        q.dims(),
        k.dims(),
        v.dims()
    );
    assert!(
        key_heads > 0 && heads.is_multiple_of(key_heads),
        "path attention: {heads} query heads for {key_heads} key heads"
    );
    assert!(
        directions.dims() == k.dims() && strengths.dims() == [batch, key_heads, keys],
        "path attention: directions {:?} and strengths {:?} for k {:?}",
        directions.dims(),
        strengths.dims(),
        k.dims()
    );
    assert!(first + queries <= keys, "path attention: {queries} queries from {first} on, for {keys} keys");
    if let Some([query, key]) = &options.gates {
        assert!(
            query.dims() == [batch, heads, queries] && key.dims() == [batch, heads, keys],
            "path attention: gates {:?} and {:?} for {heads} heads, {queries} queries and {keys} keys",
            query.dims(),
            key.dims()
        );
    }
    Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim, first }
}

#[cfg(test)]
mod tests;
