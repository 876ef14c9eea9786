//! A long text in segments: independent ones, or each with a memory of those before.

use crate::gpt::{Gpt, Pass, Watch};
use crate::segment_memory::SegmentMemory;
use burn::tensor::Tensor;
use longwave_core::Result;
use longwave_position::sampling::segments::Segments;
use std::ops::Range;

impl Gpt {
    /// The hidden state `[batch, length, width]` of a text in independent segments of `segment` tokens, the
    /// last one shorter where they do not divide it.
    ///
    /// The segments are rows of one batch: nothing an encoding or the attention does reaches across a
    /// border, and memory grows with the length alone.
    pub(crate) fn independent<E>(
        &self,
        pass: &Pass<'_>,
        segment: usize,
        watch: &mut Watch<'_, E>,
    ) -> Result<Tensor<3>, E> {
        let [batch, length] = pass.tokens.dims();
        let whole = length / segment * segment;
        let mut read = |columns: Range<usize>, row: usize| -> Result<Tensor<3>, E> {
            let rows = batch * columns.len() / row;
            let positions = pass.positions.cut(columns.clone(), row, batch);
            let tokens = pass.tokens.clone().slice_dim(1, columns.clone()).reshape([rows, row]);
            let hidden = self.whole(&Pass { tokens, positions: &positions, ..*pass }, None, watch)?.0;
            let width = hidden.dims()[2];
            Ok(hidden.reshape([batch, columns.len(), width]))
        };
        let pieces = [(0..whole, segment), (whole..length, length - whole)];
        let hidden: Vec<_> = pieces
            .into_iter()
            .filter(|(columns, _)| !columns.is_empty())
            .map(|(columns, row)| read(columns, row))
            .collect::<Result<_, E>>()?;
        Ok(Tensor::cat(hidden, 1))
    }

    /// The hidden state `[batch, length, width]` of a text in segments of `segment` tokens, each of which
    /// also sees the `memory` tokens before it.
    pub(crate) fn recurrent<E>(
        &self,
        pass: &Pass<'_>,
        segment: usize,
        memory: usize,
        watch: &mut Watch<'_, E>,
    ) -> Result<Tensor<3>, E> {
        let length = pass.tokens.dims()[1];
        let mut memory = SegmentMemory::new(memory);
        let mut hidden = Vec::new();
        for columns in Segments::uniform(length, segment).ranges() {
            let positions = pass.positions.columns(columns.clone());
            let tokens = pass.tokens.clone().slice_dim(1, columns);
            let pass = Pass { tokens, positions: &positions, ..*pass };
            let (states, inputs) = self.whole(&pass, Some(&memory), watch)?;
            hidden.push(states);
            memory = memory.after(inputs);
        }
        Ok(Tensor::cat(hidden, 1))
    }
}
