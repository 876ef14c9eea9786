//! The first seam: the places where a positional encoding may act.
//!
//! The model calls the hooks of [`Position`] in the order (a) to (e), passes the layer's index and
//! the absolute positions of the rows at hand, and knows no encoding by name. An encoding overrides
//! those it needs; the rest do nothing. Where a hook can *describe* what it wants it returns a
//! description, so that the model can choose the fused kernel.

mod geometry;

use crate::frequency::{Frequencies, Rotation};
use crate::parameter::ParameterSpec;
use crate::positions::Positions;
use crate::summary::Summary;
use crate::table::Longer;
use burn::tensor::{Int, Tensor};
use longwave_core::Result;
use longwave_kernels::Bias;
use std::ops::Range;

pub use geometry::{Geometry, PositionMap, Selector};

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

/// The rows of one forward pass, as a hook sees them.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Index of the block, from 0; an encoding is told its number among the blocks that read it.
    pub layer: usize,
    /// Token ids `[batch, length]`.
    pub tokens: &'a Tensor<2, Int>,
    /// Absolute positions of the rows.
    pub positions: &'a Positions,
    /// The block's projection of keys, `[width, kv_heads head_dim]`, in hooks on q and k where
    /// [`Position::reads_key_matrix`] asks for it.
    pub key_matrix: Option<&'a Tensor<2>>,
}

impl<'a> Rows<'a> {
    /// Rows without a projection of keys.
    pub fn new(layer: usize, tokens: &'a Tensor<2, Int>, positions: &'a Positions) -> Self {
        Self { layer, tokens, positions, key_matrix: None }
    }

    /// The same rows in another layer.
    #[must_use]
    pub fn at(self, layer: usize) -> Self {
        Self { layer, ..self }
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

impl QueryBlock<'_> {
    /// The same block in another layer.
    #[must_use]
    pub fn at(self, layer: usize) -> Self {
        Self { rows: self.rows.at(layer), ..self }
    }
}

/// What the `scores` hook may read: the rotated or mapped queries and keys.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a> {
    /// Queries at hand `[batch, heads, queries, q_dim]`.
    pub q: &'a Tensor<4>,
    /// Keys `[batch, heads, length, q_dim]`.
    pub k: &'a Tensor<4>,
    /// What multiplied `q.k` to give the scores; log-n scaling is part of q.
    pub scale: f64,
}

/// What an encoding does with the channels of q and k; decides which may stand together in a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadUse {
    /// Nothing, or it turns them in place.
    #[default]
    None,
    /// It multiplies them with vectors of the head's own width.
    Reads,
    /// It appends channels to them.
    Widens,
}

/// What of the positions an encoding reads: decides which drawn positions it can learn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PositionUse {
    /// The order of the rows alone.
    Order,
    /// Distances: a shift of all positions changes nothing.
    Distances,
    /// The positions themselves.
    Positions,
}

/// A positional encoding: the hooks the model calls, in this order.
pub trait Position {
    /// Every parameter of the encoding as it stands, in the order of its fields: what its axes count, whether weight
    /// decay applies, and its bounds.
    fn parameters(&self) -> Vec<ParameterSpec>;

    /// (a) Before every block: add to, multiply or replace the hidden state
    /// `[batch, length, width]`. Encodings that enter once act at layer 0, the first that reads them.
    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>) -> Tensor<3> {
        let _ = rows;
        hidden
    }

    /// Whether [`embed`](Self::embed) puts something in place of the hidden state, so that it must come first.
    fn replaces_hidden(&self) -> bool {
        false
    }

    /// Whether the hidden state is complex, `[real | imag]`, and the model's linear maps are to be tied
    /// accordingly; read when the model is built.
    fn ties_complex(&self) -> bool {
        false
    }

    /// (b) How q and k of a layer are rotated; described.
    fn rotation(&self, layer: usize) -> Option<Rotation> {
        let _ = layer;
        None
    }

    /// (b) Another map of q `[batch, heads, queries, d]`; `rows.positions` are those of the queries. It
    /// may end wider than v, as k then does too.
    fn map_query(&self, q: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        let _ = rows;
        q
    }

    /// (b) Another map of k `[batch, kv_heads, length, d]`; `rows.positions` are those of the keys.
    fn map_key(&self, k: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        let _ = rows;
        k
    }

    /// (c) What is added to the logits of the queries at hand; described where it can be.
    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let _ = block;
        Bias::None
    }

    /// What the encoding does with the channels of q and k besides turning them.
    fn head_use(&self) -> HeadUse {
        HeadUse::None
    }

    /// Whether [`bias`](Self::bias) ever adds anything.
    fn adds_bias(&self) -> bool {
        false
    }

    /// Whether the encoding needs one block of queries at a time: its bias is a [`Bias::Block`], or
    /// it overrides `scores` or `values`.
    fn needs_scores(&self, positions: &Positions) -> bool {
        let _ = positions;
        false
    }

    /// How many numbers per score the encoding holds at once where it is read by blocks of queries (the
    /// hidden layer of a network of the distance): blocks are chosen so many times smaller.
    fn scratch_per_score(&self) -> usize {
        1
    }

    /// (d) The scaled scores `[batch, heads, queries, length]`, transformed before any bias is added.
    /// Asked only where [`needs_scores`](Self::needs_scores) says so.
    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let _ = (heads, block);
        scores
    }

    /// (d) An addition to the output `[batch, heads, queries, head_dim]` from the probabilities
    /// `[batch, heads, queries, length]`. Asked only where [`needs_scores`](Self::needs_scores) says so.
    fn values(&self, probabilities: &Tensor<4>, block: QueryBlock<'_>) -> Option<Tensor<4>> {
        let _ = (probabilities, block);
        None
    }

    /// (a) Where a text is read piece by piece: `hidden` and `rows` are those of the piece alone. `before`
    /// is what the rows before it left behind, nothing at the start of a text, and becomes what these leave.
    /// What that is, `[batch, any, width]`, is up to an encoding whose rows read others.
    fn embed_piece(&self, hidden: Tensor<3>, rows: Rows<'_>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
        let _ = before;
        self.embed(hidden, rows)
    }

    /// Whether [`map_query`](Self::map_query) reads the projection of keys, `rows.key_matrix`.
    fn reads_key_matrix(&self) -> bool {
        false
    }

    /// Whether a hook reads `block.input`. Where a text is read piece by piece, it is kept whole then; else
    /// hooks see the input of the new rows alone.
    fn reads_input(&self) -> bool {
        false
    }

    /// Gets ready for a text of at most `length` tokens that is read piece by piece: fixes what would follow
    /// the length of the rows at hand, and computes once what every piece would compute anew.
    fn prepare(&mut self, length: usize) {
        let _ = length;
    }

    /// Whether q.k depends on the difference of the positions that q and k are read at, which is what a
    /// [`Geometry`] bounds: encodings that rotate do, and maps of q and k to waves must say so. Others read
    /// distances in a bias or in scores, of pairs at their own positions, or places of a table (`tupe`), whose
    /// difference means nothing.
    fn is_relative_qk(&self) -> bool {
        self.rotation(0).is_some()
    }

    /// (e) The positions that pairs of rows are read at.
    fn geometry(&self, layer: usize) -> Option<Geometry> {
        let _ = layer;
        None
    }

    /// What of the positions the encoding reads.
    fn position_use(&self) -> PositionUse {
        PositionUse::Positions
    }

    /// Tokens of the segment before whose hidden states every layer also attends to; their positions lie
    /// just before those of the segment.
    fn memory(&self) -> usize {
        0
    }

    /// Whether a pass over these positions is defined.
    ///
    /// # Errors
    /// A position the encoding has no value for, with what would help.
    fn check(&self, positions: &Positions) -> Result<()> {
        let _ = positions;
        Ok(())
    }

    /// The frequencies an extension may replace, if the encoding is made of frequencies.
    fn frequencies(&self) -> Option<&Frequencies> {
        None
    }

    /// The same encoding with other frequencies. Asked only where
    /// [`frequencies`](Self::frequencies) gives some.
    fn set_frequencies(&mut self, frequencies: Frequencies) {
        let _ = frequencies;
    }

    /// Rows of a learned table of vectors by position; texts of L tokens train the first L of them.
    fn table_rows(&self) -> Option<usize> {
        None
    }

    /// Makes a learned table of vectors by position longer; `false` where the encoding has none.
    ///
    /// # Errors
    /// The table cannot be as long.
    fn extend_table(&mut self, longer: &Longer) -> Result<bool> {
        let _ = longer;
        Ok(false)
    }

    /// Reads every position divided by `scale`; `false` where the encoding has no such reading.
    fn interpolate(&mut self, scale: f64) -> bool {
        let Some(frequencies) = self.frequencies() else { return false };
        let frequencies = frequencies.map(|_, f| f / scale);
        self.set_frequencies(frequencies);
        true
    }

    /// Numbers of the encoding's own, for people to look at, as they are read now; `positions` are some of the
    /// text at hand.
    fn summaries(&self, positions: &[f64]) -> Vec<Summary> {
        let _ = positions;
        Vec::new()
    }
}
