//! What attention does besides the product of q and k.

use super::normaliser::{Normaliser, Softmax};
use super::spec::{Bias, Shape, Sight};
use super::terms::{ScoreTerm, Terms};
use crate::Precision;
use burn::tensor::{Bool, Device, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// What attention does besides the product of q and k.
#[derive(Clone, Debug)]
pub struct Attention {
    /// What turns logits into weights.
    pub normaliser: Arc<dyn Normaliser>,
    /// Multiplies q·k; usually `1 / sqrt(head_dim)`.
    pub scale: f64,
    /// What is added to the scaled q·k.
    pub bias: Bias,
    /// What else is added, computed from q and k: vectors by distance or by count, or a network of all heads.
    pub terms: Terms,
    /// A key is visible only at a distance below this, in tokens (at least 1).
    pub window: Option<usize>,
    /// The number of first keys that stay visible outside the window.
    pub sinks: usize,
    /// `[1 or batch, queries]`: multiplies q·k row by row, before the bias (log-n scaling). A
    /// constant: it receives no gradient.
    pub query_scale: Option<Tensor<2>>,
    /// The position of the first query row among the keys: row r sees the keys `0..=query_offset + r`, of which the
    /// last is its own. So `query_offset` and the number of queries together are at most the number of keys.
    pub query_offset: usize,
    /// The distances, in tokens, at which keys are visible at all, sinks included.
    pub distances: Range<usize>,
    /// What the factors of products may be rounded to: q, k, v, the probabilities, and the gradients that meet them. Sums, the
    /// softmax, biases and everything else are f32. CPUs with dot products of bf16 make use of it, and GPUs whose matrix units
    /// multiply numbers of this precision; elsewhere all is f32.
    pub precision: Precision,
}

impl Attention {
    /// Plain causal attention with the usual scale.
    pub fn causal(head_dim: usize) -> Self {
        Self {
            normaliser: Arc::new(Softmax),
            scale: 1.0 / (head_dim as f64).sqrt(),
            bias: Bias::None,
            terms: Terms::default(),
            window: None,
            sinks: 0,
            query_scale: None,
            query_offset: 0,
            distances: 0..usize::MAX,
            precision: Precision::F32,
        }
    }

    /// The bias as a tensor that broadcasts to `[batch, heads, queries, keys]`; `None` without one.
    ///
    /// For callers that work on the scores of one block of queries themselves.
    pub fn bias_block(&self, queries: usize, keys: usize, device: &Device) -> Option<Tensor<4>> {
        self.bias.term()?.block(&self.sight(), [queries, keys], device)
    }

    /// `[queries, keys]`: true where the query may not see the key.
    pub fn hidden(&self, queries: usize, keys: usize, device: &Device) -> Tensor<2, Bool> {
        self.sight().hidden(queries, keys, device)
    }

    pub(super) fn sight(&self) -> Sight {
        let (offset, distances) = (self.query_offset, self.distances.clone());
        Sight { window: self.window, sinks: self.sinks, offset, distances }
    }

    /// The bias and all else that is added.
    pub(super) fn score_terms(&self) -> Vec<Arc<dyn ScoreTerm>> {
        self.bias.term().into_iter().chain(self.terms.iter().cloned()).collect()
    }

    /// Whether the kernels of the GPU compute all of this, where its tensors are there.
    #[cfg(feature = "gpu")]
    pub(super) fn suits_gpu(&self) -> bool {
        self.terms.is_empty() && self.normaliser.is_softmax()
    }

    pub(super) fn check(&self, shape: &Shape) {
        let Shape { batch, heads, key_heads, queries, keys, .. } = *shape;
        assert!(
            key_heads > 0 && heads.is_multiple_of(key_heads),
            "attention: {heads} query heads for {key_heads} key heads"
        );
        assert!(self.window != Some(0), "attention: a window of 0 hides every key");
        assert!(
            self.query_offset.checked_add(queries).is_some_and(|end| end <= keys),
            "attention: {queries} queries from position {} on, for {keys} keys",
            self.query_offset
        );
        if let Some(scale) = &self.query_scale {
            let [rows, columns] = scale.dims();
            assert!(
                (rows == 1 || rows == batch) && columns == queries,
                "attention: a query scale [{rows}, {columns}] for batch {batch} and {queries} queries"
            );
        }
        for term in self.score_terms() {
            term.check(&self.sight(), shape);
        }
    }
}
