//! What a hook sees: the sizes of the model, the rows of a forward pass and a block of queries.

use crate::positions::Positions;
use burn::tensor::{Int, Tensor};
use longwave_core::random::Stream;
use std::ops::Range;

/// The largest size of a model or an encoding: whole numbers up to it are exact in f32, and products of two stay far
/// from any overflow.
pub const MAX_SIZE: usize = 1 << 24;

/// The sizes an encoding is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// Number of blocks.
    pub layers: usize,
    /// Channels of the hidden state.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// The length L of the first training stage, in tokens.
    pub train_length: usize,
    /// Size of the vocabulary.
    pub vocab_size: usize,
}

/// What random draws of an encoding in training are made from: the same for all rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingDraw {
    /// The run's seed.
    pub seed: u64,
    /// The optimizer step, counted over all stages.
    pub step: u64,
}

impl TrainingDraw {
    /// The random numbers of the step for one purpose.
    pub fn stream(self, purpose: &str) -> Stream {
        Stream::new(self.seed, purpose, self.step)
    }
}

/// The rows of one forward pass, as a hook sees them.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Index of the block, from 0, among the blocks that read the encoding.
    pub layer: usize,
    /// Token ids `[batch, length]`.
    pub tokens: &'a Tensor<2, Int>,
    /// Absolute positions of the rows.
    pub positions: &'a Positions,
    /// The block's projection of keys, `[width, kv_heads head_dim]`, in hooks on q and k of an encoding with
    /// [`Capabilities::reads_key_matrix`](super::Capabilities::reads_key_matrix).
    pub key_matrix: Option<&'a Tensor<2>>,
    /// The block's normalised input, in hooks on q and k.
    pub input: Option<LayerInput<'a>>,
    /// In training, what an encoding may draw from; `None` where a text is read.
    pub draw: Option<TrainingDraw>,
}

/// The normalised input of a block, for hooks on q and k.
#[derive(Clone, Copy, Debug)]
pub struct LayerInput<'a> {
    /// All rows: `[batch, length, width]`.
    pub all: &'a Tensor<3>,
    /// Which of them is the first of the rows at hand.
    pub first: usize,
}

impl<'a> Rows<'a> {
    /// Rows that are read, not trained on, without a projection of keys and an input.
    pub fn new(layer: usize, tokens: &'a Tensor<2, Int>, positions: &'a Positions) -> Self {
        Self { layer, tokens, positions, key_matrix: None, input: None, draw: None }
    }
}

/// One block of queries against all keys of the rows.
#[derive(Clone, Copy, Debug)]
pub struct QueryBlock<'a> {
    /// All rows: the keys.
    pub rows: Rows<'a>,
    /// Which of the rows are the queries at hand.
    pub queries: &'a Range<usize>,
    /// The block's normalised input `[batch, length, width]`, all rows.
    pub input: &'a Tensor<3>,
}

/// The rotated or mapped queries and keys, for [`Position::scores`](super::Position::scores).
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a> {
    /// Queries at hand `[batch, heads, queries, q_dim]`.
    pub q: &'a Tensor<4>,
    /// Keys `[batch, heads, length, q_dim]`.
    pub k: &'a Tensor<4>,
    /// What multiplied `q.k` to give the scores; log-n scaling is part of q.
    pub scale: f64,
}
