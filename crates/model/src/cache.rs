//! A text read piece by piece: what it leaves behind, so that no row is computed twice.
//!
//! A cache keeps keys *before* they are rotated or mapped, values, and what encodings carry from row to row.
//! Positions are data, so every piece runs the hooks of a whole reading, with the new rows as its queries:
//! every geometry, mask and bias means what it means there, and the logits are the same.

use crate::attention::{Attention, Rotations, attend};
use crate::config::Resolved;
use crate::feed_forward::project;
use crate::gpt::Gpt;
use burn::tensor::kind::Basic;
use burn::tensor::{Int, Tensor};
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::{Positions, Reading};

/// What the rows read so far leave behind, and how they are read.
#[derive(Clone, Debug)]
pub struct Cache {
    reading: Reading,
    length: usize,
    /// Token ids `[batch, rows]`.
    tokens: Option<Tensor<2, Int>>,
    layers: Vec<Kept>,
}

/// What one layer keeps.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// What each encoding carries from the rows so far to the next, `[batch, any, width]`.
    before: Vec<Option<Tensor<3>>>,
    /// The normalised input, `[batch, rows, width]`, where the encoding reads it.
    input: Option<Tensor<3>>,
    /// Unrotated keys and values, each `[batch, kv_heads, rows, head_dim]`.
    keys_values: Option<[Tensor<4>; 2]>,
}

impl Cache {
    /// An empty cache for a text of at most `length` tokens. Whatever the reading makes of a text's length is
    /// fixed at it.
    pub fn new(model: &Gpt, reading: &Reading, length: usize) -> Self {
        let mut reading = reading.clone();
        reading.prepare(length);
        Self { reading, length, tokens: None, layers: vec![Kept::default(); model.blocks.len()] }
    }

    /// Rows read so far.
    pub fn rows(&self) -> usize {
        self.tokens.as_ref().map_or(0, |tokens| tokens.dims()[1])
    }

    /// The most tokens the cache was made for.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Bytes that a cache of `length` tokens takes at most: an estimate.
    pub fn bytes(resolved: &Resolved, length: usize) -> usize {
        let d = &resolved.dimensions;
        d.layers * length * (2 * d.kv_heads * d.head_dim + d.width) * size_of::<f32>()
    }
}

impl Gpt {
    /// Reads the next tokens `[batch, new]` of a text: the hidden state of their rows after the last norm,
    /// `[batch, new, width]`.
    ///
    /// # Panics
    /// The text becomes longer than the cache was made for.
    pub fn read_on(&self, new: Tensor<2, Int>, cache: &mut Cache) -> Tensor<3> {
        let [batch, count] = new.dims();
        let known = cache.rows();
        let total = known + count;
        assert!(total <= cache.length, "{total} tokens in a cache for {}", cache.length);
        let flat = new.clone().reshape([batch * count]);
        let width = self.embedding.dims()[1];
        let mut x = self.embedding.val().select(0, flat).reshape([batch, count, width]);
        let tokens = appended(cache.tokens.take(), new, 1);
        let positions = Positions::range(0..total);
        let mut rotations = Rotations::default();
        for (layer, (block, kept)) in self.blocks.iter().zip(&mut cache.layers).enumerate() {
            let rows = Rows { layer, tokens: &tokens, positions: &positions };
            x = kept.embed(x, rows, &cache.reading);
            let input = block.attention_norm.forward(x.clone());
            x = x + kept.attend(&block.attention, input, rows, &cache.reading, &mut rotations);
            let fed = block.feed_forward.forward(block.feed_forward_norm.forward(x.clone()));
            x = x + fed;
        }
        cache.tokens = Some(tokens);
        self.norm.forward(x)
    }
}

impl Kept {
    /// Hook (a) for the new rows, the last of `rows`.
    fn embed(&mut self, new: Tensor<3>, rows: Rows<'_>, reading: &Reading) -> Tensor<3> {
        let total = rows.positions.length();
        let columns = total - new.dims()[1]..total;
        let tokens = rows.tokens.clone().slice_dim(1, columns.clone());
        let positions = rows.positions.columns(columns);
        let rows = Rows { tokens: &tokens, positions: &positions, ..rows };
        reading.embed_piece(new, rows, &mut self.before)
    }

    /// Attention of the new rows, whose normalised input is `[batch, new, width]`, to all rows so far.
    fn attend(
        &mut self,
        attention: &Attention,
        input: Tensor<3>,
        rows: Rows<'_>,
        reading: &Reading,
        rotations: &mut Rotations,
    ) -> Tensor<3> {
        let [batch, count, _] = input.dims();
        let (q, k, v) = attention.unrotated(project(input.clone(), attention.qkv_matrix()));
        let [k, v] = match self.keys_values.take() {
            Some([keys, values]) => [Tensor::cat(vec![keys, k], 2), Tensor::cat(vec![values, v], 2)],
            None => [k, v],
        };
        self.keys_values = Some([k.clone(), v.clone()]);
        let input = if reading.reads_input(rows.layer) {
            let input = appended(self.input.take(), input, 1);
            self.input = Some(input.clone());
            input
        } else {
            input
        };
        let total = rows.positions.length();
        let queries = total - count..total;
        let block = QueryBlock { rows, queries: &queries, input: &input };
        let out = attend([q, k, v], attention.scale(), block, reading, rotations);
        let [_, heads, _, head_dim] = out.dims();
        project(out.swap_dims(1, 2).reshape([batch, count, heads * head_dim]), attention.output_matrix())
    }
}

/// `new` behind what is there.
fn appended<const D: usize, K: Basic>(
    old: Option<Tensor<D, K>>,
    new: Tensor<D, K>,
    dim: usize,
) -> Tensor<D, K> {
    match old {
        Some(old) => Tensor::cat(vec![old, new], dim),
        None => new,
    }
}
