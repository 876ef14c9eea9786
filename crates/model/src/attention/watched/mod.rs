//! Attention's probabilities, shown block by block while a model reads: for measurements.
//!
//! The fused kernels write no probabilities down. [`Gpt::watch_attention`] reads as the forward pass does, and computes the
//! attention of every layer a second time, from the same input with the same hooks, one block of queries at a time
//! ([`super::blocks`]): whatever the encoding, the geometry and the mask, memory grows with the length and not with its square.

pub use super::blocks::Probabilities;

use super::blocks::{See, attention_seen};
use super::{Attention, Rotations};
use crate::gpt::{Gpt, Pass, Place};
use crate::segment_memory::SegmentMemory;
use burn::tensor::Tensor;
use longwave_core::{Error, Result};
use longwave_position::Reading;
use longwave_position::encoding::Rows;
use longwave_position::layout::TextLayout;
use longwave_position::reading::AttentionKind;
use longwave_position::sampling::segments::Segments;

/// Looks at the probabilities of some queries; an error ends the pass.
pub type WatchAttention<'a> = dyn FnMut(&Probabilities<'_>) -> Result<()> + 'a;

/// Whether a reading has probabilities.
pub fn check(reading: &Reading) -> Result<()> {
    let attention = reading.attention();
    if attention != AttentionKind::Linear {
        return Ok(());
    }
    Err(Error::usage(format!(
        "`{attention}` has no attention probabilities: a query reads a sum of features of all keys"
    ))
    .hint("models with softmax or stick-breaking attention have some"))
}

impl Gpt {
    /// Reads a text, and shows the attention of every layer: its queries from the place `first` on in order, some at a time.
    pub fn watch_attention(
        &self,
        pass: &Pass<'_>,
        first: usize,
        watch: &mut WatchAttention<'_>,
    ) -> Result<()> {
        check(pass.reading)?;
        let [batch, length] = pass.tokens.dims();
        let layout = pass.reading.layout();
        let (segment, mut memory) = match layout {
            TextLayout::Contiguous | TextLayout::Drawn { .. } | TextLayout::Cells { .. } => (length, None),
            TextLayout::Segments { length } => (length, None),
            TextLayout::Recurrent { length, memory } => (length, Some(SegmentMemory::new(memory))),
        };
        for columns in Segments::uniform(length, segment).ranges() {
            let positions = match layout {
                // Each is a text of its own.
                TextLayout::Segments { .. } => pass.positions.cut(columns.clone(), columns.len(), batch),
                _ => pass.positions.columns(columns.clone()),
            };
            let tokens = pass.tokens.clone().slice_dim(1, columns.clone());
            let piece = Pass { tokens, positions: &positions, reading: pass.reading, dropout: None };
            let shown = [columns.start, first.clamp(columns.start, columns.end)];
            let inputs = self.watch_piece(&piece, shown, memory.as_ref(), watch)?;
            memory = memory.map(|memory| memory.after(inputs));
        }
        Ok(())
    }

    /// The same for rows that are read as one, from the place `start` of the text on, of which those from `first` on are shown; gives
    /// the inputs of all blocks where there is a memory.
    fn watch_piece(
        &self,
        pass: &Pass<'_>,
        [start, first]: [usize; 2],
        memory: Option<&SegmentMemory>,
        watch: &mut WatchAttention<'_>,
    ) -> Result<Vec<Tensor<3>>> {
        let before = memory.map_or(0, SegmentMemory::tokens);
        let seen = if before > 0 { &pass.positions.preceded(before) } else { pass.positions };
        let first_key = start - before;
        let mut rotations = Rotations::default();
        let mut at = |place: Place, x: &Tensor<3>| {
            let (Place::Input(layer), true) = (place, first < start + x.dims()[1]) else { return Ok(()) };
            let block = &self.blocks[layer];
            let all = match memory.and_then(|memory| memory.layer(layer)) {
                Some(before) => Tensor::cat(vec![before.clone(), x.clone()], 1),
                None => x.clone(),
            };
            let input = block.attention_input(all);
            let rows = Rows { positions: seen, ..Rows::new(layer, &pass.tokens, pass.positions) };
            let mut see = |shown: Probabilities<'_>| {
                let queries = first_key + shown.queries.start..first_key + shown.queries.end;
                watch(&Probabilities { queries, first_key, ..shown })
            };
            let before = before + first - start;
            block.attention.seen(&input, before, rows, pass.reading, &mut rotations, &mut see)
        };
        Ok(self.whole(pass, memory, &mut at)?.1)
    }
}

impl Attention {
    /// Shows the probabilities of the rows after the first `before`; see [`forward_after`](Self::forward_after).
    fn seen(
        &self,
        input: &Tensor<3>,
        before: usize,
        rows: Rows<'_>,
        reading: &Reading,
        rotations: &mut Rotations,
        see: &mut See<'_, Error>,
    ) -> Result<()> {
        self.with_projections(input, before, rows, reading, |qkv, block| {
            attention_seen(qkv, self.scale(), block, reading, rotations, see)
        })
    }
}

#[cfg(test)]
mod tests;
