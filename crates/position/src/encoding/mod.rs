//! The first seam: a positional encoding.
//!
//! An encoding is a configuration ([`Configure`]) that builds a [`Position`]. The model calls the hooks of `Position` in
//! the order (a) to (e) and passes the layer's index and the absolute positions of the rows. An encoding overrides the
//! hooks that it needs; the others do nothing. Some hooks return a description (a rotation, a bias by distance), so that
//! the model can choose a fused kernel. What the model must know before it calls a hook stands in [`Capabilities`].

mod capabilities;
mod config;
mod geometry;
mod rows;

use crate::frequency::{Frequencies, Rotation};
use crate::parameter::ParameterSpec;
use crate::positions::Positions;
use crate::summary::Summary;
use crate::table::Longer;
use burn::tensor::Tensor;
use longwave_core::Result;
use longwave_kernels::{Bias, Reflections, Terms, TermsOf, VectorTable};
use std::sync::Arc;

pub use capabilities::{BiasUse, Capabilities, Domain, HeadUse, HiddenUse, PositionUse, ScoreUse};
pub use config::{Configure, Extrapolation};
pub(crate) use config::{
    check_above, check_at_least, check_at_most, check_base, check_even_width, check_hidden, check_not_below,
    check_positive, check_without, largest,
};
pub use geometry::{Geometry, PositionMap, Selector};
pub use rows::{Dimensions, Heads, LayerInput, MAX_SIZE, QueryBlock, Rows, TrainingDraw};

/// What an encoding does to the scores of queries and keys, as fused attention reads it.
#[derive(Clone, Debug, Default)]
#[expect(clippy::large_enum_variant, reason = "one is made for a call and read at once")]
pub enum ScoreForm {
    /// Nothing, or nothing that is described.
    #[default]
    Plain,
    /// What `map_heads` does, at consecutive positions. [`Plain`](Self::Plain) where it is faster for the queries at
    /// hand.
    Maps(MapsByDistance),
    /// What `scores` and `values` do: the logits are `factor * scale * q·k`, with what the terms add. An encoding with
    /// [`ScoreUse::AddsVectors`] says that it has it wherever [`Position::needs_scores`] is false.
    Vectors {
        /// Vectors by distance or by count; `factor * scale` multiplies those by distance.
        terms: Terms,
        /// Multiplies `q.k` beside the model's scale.
        factor: f64,
    },
    /// What `scores` does, where terms are made of q and k as they meet in the logits. [`Position::needs_scores`] stays true, since other
    /// encodings and extensions may act on the same scores.
    Added(Arc<dyn TermsOf>),
    /// What `scores` does, where it is the product of q with the keys as the rows between reflect them, of all rows of the input.
    /// [`Position::needs_scores`] stays true here too.
    Reflections(Reflections),
}

/// What the hook `map_heads` does, described for a kernel: with n the distance of a query and a key, the
/// product of q and k is `(q_i + query_bias) · (k_j + keys[n]) + key_bias[n]`, with q and k as they were.
#[derive(Clone, Debug)]
pub struct MapsByDistance {
    /// `[heads, head_dim]`.
    pub query_bias: Tensor<2>,
    /// `[heads, distances, head_dim]`.
    pub keys: VectorTable,
    /// `[heads, distances]`.
    pub key_bias: Tensor<2>,
}

/// A positional encoding: the hooks that the model calls.
///
/// An encoding that adds the position itself to every channel of the hidden state, a thousandth a token:
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use longwave_position::encoding::{Capabilities, HiddenUse, Position, Rows};
///
/// struct Ramp; // nothing is learned
///
/// impl Position for Ramp {
///     fn capabilities(&self) -> Capabilities {
///         Capabilities { hidden_use: HiddenUse::Enters, ..Capabilities::default() }
///     }
///
///     fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
///         if rows.layer > 0 {
///             return hidden; // it enters once
///         }
///         let ramp: Vec<f32> = rows.positions.values().iter().map(|m| *m as f32 / 1000.0).collect();
///         let ramp = Tensor::<1>::from_floats(ramp.as_slice(), &hidden.device());
///         // One row of positions, or one for each text of the batch.
///         let shape = [rows.positions.rows(), rows.positions.length(), 1];
///         hidden + ramp.reshape(shape) // [batch, length, width]
///     }
/// }
/// # use longwave_position::Positions;
/// # let device = Device::flex();
/// # let (tokens, positions) = (Tensor::zeros([1, 3], &device), Positions::range(0..3));
/// # let hidden = Ramp.embed(Tensor::zeros([1, 3, 2], &device), Rows::new(0, &tokens, &positions), &mut None);
/// # let sum: f32 = hidden.sum().into_scalar();
/// # assert!((sum - 0.006).abs() < 1e-6);
/// ```
pub trait Position {
    /// Every parameter of the encoding, in the order of its fields: what its axes count, whether weight decay applies,
    /// its bounds and its unit; none by default.
    fn parameters(&self) -> Vec<ParameterSpec> {
        Vec::new()
    }

    /// What the model must know before it calls a hook.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// (a) Before every block: add to, multiply or replace the hidden state `[batch, length, width]`. Encodings that
    /// enter once act at layer 0, the first that reads them. An encoding whose rows read others leaves a state
    /// `[batch, any, width]` in `before` for the rows that come next, in a text that is read piece by piece; none is there at
    /// the start of a text.
    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
        let _ = (rows, before);
        hidden
    }

    /// (b) The rotation of q and k in a layer, as a description.
    fn rotation(&self, layer: usize) -> Option<Rotation> {
        let _ = layer;
        None
    }

    /// (b) Another map of q `[batch, heads, queries, head_dim]` and k `[batch, kv_heads, length, head_dim]`, each with its rows:
    /// `positions` are those of the queries or keys, and `input` says which rows of the block's input they are. Both may become wider
    /// than v.
    fn map_heads(&self, qk: [Tensor<4>; 2], rows: [Rows<'_>; 2]) -> [Tensor<4>; 2] {
        let _ = rows;
        qk
    }

    /// (c) What is added to the logits of the block's queries, as a description where possible.
    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let _ = block;
        Bias::None
    }

    /// Whether the model must compute the scores of one block of queries at a time: at these positions the bias is a
    /// [`Bias::Block`], or `scores` or `values` act and are no [`ScoreForm::Vectors`].
    fn needs_scores(&self, positions: &Positions) -> bool {
        let _ = positions;
        false
    }

    /// (d) Changes the scaled scores `[batch, heads, queries, length]` before any bias is added. Called where
    /// [`needs_scores`](Self::needs_scores) is true, or the model cannot use the [`score_form`](Self::score_form).
    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let _ = (heads, block);
        scores
    }

    /// (d) An addition to the output `[batch, heads, queries, head_dim]`, made from the probabilities
    /// `[batch, heads, queries, length]`. Called where `scores` is.
    fn values(&self, probabilities: &Tensor<4>, block: QueryBlock<'_>) -> Option<Tensor<4>> {
        let _ = (probabilities, block);
        None
    }

    /// (d) A logit of each head, `[heads]`, that the softmax of every query has beside those of its keys. Its share goes
    /// to no value. A temperature divides it; nothing is added to it.
    fn sink(&self, layer: usize) -> Option<Tensor<1>> {
        let _ = layer;
        None
    }

    /// (b, d) What `map_heads`, `scores` and `values` do with the queries at hand, as a description: a model that reads
    /// it calls none of them.
    fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        let _ = block;
        ScoreForm::Plain
    }

    /// Whether the encoding is defined at these positions.
    ///
    /// # Errors
    /// A position without a value, with what would help.
    fn check(&self, positions: &Positions) -> Result<()> {
        let _ = positions;
        Ok(())
    }

    /// Prepares for a text of at most these positions that is read piece by piece: fixes what depends on the length of
    /// the text, and computes once what each piece would compute again.
    fn prepare(&mut self, text: &Positions) {
        let _ = text;
    }

    /// The frequencies that an extension may replace.
    fn frequencies(&self) -> Option<&Frequencies> {
        None
    }

    /// Replaces the frequencies. Called only where [`frequencies`](Self::frequencies) returns some.
    fn set_frequencies(&mut self, frequencies: Frequencies) {
        let _ = frequencies;
    }

    /// Whether it may read every position divided by a scale. Its hooks then get such [`Positions`], and its frequencies are
    /// divided too.
    fn interpolates(&self) -> bool {
        self.capabilities().position_use != PositionUse::Order
    }

    /// Makes a learned table of vectors by position longer; `false` where the encoding has none.
    ///
    /// # Errors
    /// The table cannot become as long.
    fn extend_table(&mut self, longer: &Longer) -> Result<bool> {
        let _ = longer;
        Ok(false)
    }

    /// Tables of the encoding's own numbers (slopes, buckets, digits) for `longwave inspect`, as an extension leaves
    /// them; `positions` are some of the text's.
    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        let _ = positions;
        Vec::new()
    }
}
