//! What every block keeps of the tokens before a segment.

use burn::tensor::Tensor;

/// The inputs of every block for the last tokens before a segment, at most `capacity` of them (Dai et al.
/// 2019, arXiv:1901.02860, section 3.2). No gradient flows into them.
#[derive(Clone, Debug)]
pub struct SegmentMemory {
    capacity: usize,
    layers: Vec<Tensor<3>>,
}

impl SegmentMemory {
    /// Nothing is kept yet.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, layers: Vec::new() }
    }

    /// The same capacity, holding one tensor `[batch, tokens, width]` per block.
    #[must_use]
    pub fn holding(&self, layers: Vec<Tensor<3>>) -> Self {
        Self { capacity: self.capacity, layers }
    }

    /// What is kept, one tensor `[batch, tokens, width]` per block; empty at the beginning of a text.
    pub fn layers(&self) -> &[Tensor<3>] {
        &self.layers
    }

    /// Tokens that are kept.
    pub fn tokens(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.dims()[1])
    }

    /// What is kept of a block.
    pub(crate) fn layer(&self, layer: usize) -> Option<&Tensor<3>> {
        self.layers.get(layer)
    }

    /// The memory after a segment, from the inputs `[batch, length, width]` that its blocks were given.
    pub(crate) fn after(&self, inputs: Vec<Tensor<3>>) -> Self {
        let kept = |(layer, input): (usize, Tensor<3>)| {
            let all = match self.layer(layer) {
                Some(before) => Tensor::cat(vec![before.clone(), input.detach()], 1),
                None => input.detach(),
            };
            let tokens = all.dims()[1];
            all.slice_dim(1, tokens.saturating_sub(self.capacity)..tokens)
        };
        Self { capacity: self.capacity, layers: inputs.into_iter().enumerate().map(kept).collect() }
    }
}
