//! A text read piece by piece: what it leaves behind, so that no row is computed twice.
//!
//! A cache keeps keys *before* they are rotated or mapped, values, and what encodings carry from row to row.
//! Positions are data, so every piece runs the hooks of a whole reading, with the new rows as its queries:
//! every geometry, mask and bias means what it means there, and the logits are the same. At the border of a
//! segment all is dropped that the next one does not see; what Transformer-XL carries over are the inputs of
//! blocks, and their keys and values are those that a cache has already.

use crate::attention::{Attention, Rotations};
use crate::canon::Canon;
use crate::gpt::Gpt;
use crate::resolved::Resolved;
use burn::tensor::kind::Basic;
use burn::tensor::{Int, Tensor};
use longwave_core::memory_check::product;
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::layout::TextLayout;
use longwave_position::{Positions, Reading};

/// What the rows read so far leave behind, and how they are read.
#[derive(Clone, Debug)]
pub struct Cache {
    asked: Reading,
    /// Made ready for the length of the text, or of the segment.
    reading: Reading,
    /// Those of the whole text, `[1, length]`.
    positions: Positions,
    /// Where the segment begins that is being read; 0 where a text is read as one.
    segment_start: usize,
    /// Rows at the beginning of the text that nothing to come sees.
    dropped: usize,
    /// Token ids `[batch, rows]` of the rows after those.
    tokens: Option<Tensor<2, Int>>,
    layers: Vec<Kept>,
}

/// What one layer keeps.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// What each encoding carries from the rows so far to the next, `[batch, any, width]`.
    before: Vec<Option<Tensor<3>>>,
    /// What canon convolutions carry, `[batch, rows, width]`.
    before_attention: Option<Tensor<3>>,
    before_feed_forward: Option<Tensor<3>>,
    /// The normalised input, `[batch, rows, width]`, where the encoding reads it.
    input: Option<Tensor<3>>,
    /// Unrotated keys and values, each `[batch, kv_heads, rows, head_dim]`.
    keys_values: Option<[Tensor<4>; 2]>,
}

impl Cache {
    /// An empty cache for a text of at most `length` tokens. Whatever the reading makes of a text's length is
    /// fixed at it.
    pub fn new(model: &Gpt, reading: &Reading, length: usize) -> Self {
        let mut cache = Self {
            asked: reading.clone(),
            reading: reading.clone(),
            positions: reading.layout().positions(length),
            segment_start: 0,
            dropped: 0,
            tokens: None,
            layers: vec![Kept::default(); model.blocks.len()],
        };
        cache.prepare();
        cache
    }

    /// Rows read so far.
    pub fn rows(&self) -> usize {
        self.dropped + self.tokens.as_ref().map_or(0, |tokens| tokens.dims()[1])
    }

    /// The most tokens the cache was made for.
    pub fn length(&self) -> usize {
        self.positions.length()
    }

    /// How the text is laid out.
    pub(crate) fn layout(&self) -> TextLayout {
        self.asked.layout()
    }

    /// Tokens of a segment, and how many rows before it it sees.
    fn segment(&self) -> (usize, usize) {
        match self.asked.layout() {
            TextLayout::Contiguous | TextLayout::Drawn { .. } | TextLayout::Cells { .. } => {
                (self.length(), 0)
            }
            TextLayout::Segments { length } => (length, 0),
            TextLayout::Recurrent { length, memory } => (length, memory),
        }
    }

    /// Rows that fit into the segment.
    fn room(&self) -> usize {
        self.segment_start + self.segment().0 - self.rows()
    }

    /// Begins a segment: what it does not see is dropped.
    fn next_segment(&mut self) {
        let rows = self.rows();
        let keep = self.segment().1.min(rows - self.dropped);
        self.tokens = self.tokens.take().and_then(|tokens| last(tokens, 1, keep));
        self.layers.iter_mut().for_each(|kept| kept.keep_last(keep));
        self.segment_start = rows;
        self.dropped = rows - keep;
        self.prepare();
    }

    /// Gets the reading ready for a text: an independent segment is one of its own.
    fn prepare(&mut self) {
        let left = self.length() - self.segment_start;
        let length = match self.asked.layout() {
            TextLayout::Segments { length } => length.min(left),
            _ => self.length(),
        };
        self.reading = self.asked.clone();
        self.reading.prepare(length);
    }

    /// Bytes that a cache of `length` tokens takes at most: an estimate.
    pub fn bytes(resolved: &Resolved, length: usize) -> u64 {
        let d = &resolved.dimensions;
        product(&[d.layers, length, 2 * d.kv_heads * d.head_dim + d.width, size_of::<f32>()])
    }
}

impl Gpt {
    /// Reads the next tokens `[batch, new]` of a text: the hidden state of their rows after the last norm,
    /// `[batch, new, width]`.
    ///
    /// # Panics
    /// There is no token, or the text becomes longer than the cache was made for.
    pub fn read_on(&self, new: Tensor<2, Int>, cache: &mut Cache) -> Tensor<3> {
        let count = new.dims()[1];
        let total = cache.rows() + count;
        assert!(count > 0 && total <= cache.length(), "{total} tokens in a cache for {}", cache.length());
        let mut hidden = Vec::new();
        let mut done = 0;
        while done < count {
            if cache.room() == 0 {
                cache.next_segment();
            }
            let end = count.min(done + cache.room());
            hidden.push(self.read_within(new.clone().slice_dim(1, done..end), cache));
            done = end;
        }
        Tensor::cat(hidden, 1)
    }

    /// The same for tokens that lie in one segment.
    fn read_within(&self, new: Tensor<2, Int>, cache: &mut Cache) -> Tensor<3> {
        let [batch, count] = new.dims();
        let total = cache.rows() + count;
        let flat = new.clone().reshape([batch * count]);
        let width = self.embedding.dims()[1];
        let mut x = self.embedding.val().select(0, flat).reshape([batch, count, width]);
        let tokens = appended(cache.tokens.take(), new, 1);
        let positions = cache.positions.columns(cache.dropped..total);
        let mut rotations = Rotations::default();
        for (layer, (block, kept)) in self.blocks.iter().zip(&mut cache.layers).enumerate() {
            let rows = Rows::new(layer, &tokens, &positions);
            x = kept.embed(x, rows, &cache.reading);
            let input = block.attention_norm.forward(x.clone());
            let input = canon_piece(block.attention_canon.as_ref(), input, &mut kept.before_attention);
            x = kept.attend(&block.attention, input, x, rows, &cache.reading, &mut rotations);
            let input = block.feed_forward_norm.forward(x.clone());
            let input = canon_piece(block.feed_forward_canon.as_ref(), input, &mut kept.before_feed_forward);
            x = block.feed_forward.forward(input, Some(x));
        }
        cache.tokens = Some(tokens);
        self.norm.forward(x)
    }
}

impl Kept {
    /// Forgets all but the last `keep` rows; what `embed` and convolutions carry ends with a segment.
    fn keep_last(&mut self, keep: usize) {
        self.before.clear();
        (self.before_attention, self.before_feed_forward) = (None, None);
        self.input = self.input.take().and_then(|input| last(input, 1, keep));
        self.keys_values = self.keys_values.take().and_then(|[keys, values]| {
            let (keys, values) = (last(keys, 2, keep)?, last(values, 2, keep)?);
            Some([keys, values])
        });
    }

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
        onto: Tensor<3>,
        rows: Rows<'_>,
        reading: &Reading,
        rotations: &mut Rotations,
    ) -> Tensor<3> {
        let count = input.dims()[1];
        let matrix = attention.qkv_matrix();
        let key_matrix = attention.key_matrix(&matrix, reading, rows.layer);
        let rows = Rows { key_matrix: key_matrix.as_ref(), ..rows };
        let (q, k, v) = attention.unrotated(attention.packed(input.clone(), matrix));
        let [k, v] = match self.keys_values.take() {
            Some([keys, values]) => [Tensor::cat(vec![keys, k], 2), Tensor::cat(vec![values, v], 2)],
            None => [k, v],
        };
        self.keys_values = Some([k.clone(), v.clone()]);
        let new = input.clone();
        let input = if reading.layer_capabilities(rows.layer).reads_input {
            let input = appended(self.input.take(), input, 1);
            self.input = Some(input.clone());
            input
        } else {
            input
        };
        let total = rows.positions.length();
        let queries = total - count..total;
        let block = QueryBlock { rows, queries: &queries, input: &input };
        attention.joined(attention.attend([q, k, v], block, reading, rotations), new, Some(onto))
    }
}

/// A piece of a text with its canon convolution, if there is one.
fn canon_piece(canon: Option<&Canon>, piece: Tensor<3>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
    match canon {
        Some(canon) => canon.forward_piece(piece, before),
        None => piece,
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

/// The last `keep` rows; `None` where that is none.
fn last<const D: usize, K: Basic>(tensor: Tensor<D, K>, dim: usize, keep: usize) -> Option<Tensor<D, K>> {
    let rows = tensor.dims()[dim];
    (keep > 0).then(|| tensor.slice_dim(dim, rows - keep..rows))
}
