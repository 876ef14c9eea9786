//! The memories that a training carries from step to step.
//!
//! They are hidden states of earlier weights, so that nothing but themselves can bring them back: a
//! checkpoint that is trained on holds them, as `memory.PART.LAYER`.

use burn::tensor::Tensor;
use longwave_model::{Gpt, Pass, SegmentMemory};

/// A memory without anything in it for each of `parts` parts of a batch; none where the model carries none.
pub fn fresh(model: &Gpt, parts: usize) -> Vec<SegmentMemory> {
    let capacity = model.position.memory();
    if capacity == 0 { Vec::new() } else { vec![SegmentMemory::new(capacity); parts] }
}

/// The hidden state of a pass, `[batch, length, width]`; a memory becomes the one after it.
pub fn hidden(model: &Gpt, pass: &Pass<'_>, memory: Option<&mut SegmentMemory>) -> Tensor<3> {
    let Some(memory) = memory else { return model.hidden(pass) };
    let (hidden, after) = model.hidden_after(pass, memory);
    *memory = after;
    hidden
}

/// The tensors of all memories by their names in a checkpoint.
pub fn tensors(memories: &[SegmentMemory]) -> impl Iterator<Item = (String, Tensor<3>)> {
    memories.iter().enumerate().flat_map(|(part, memory)| {
        let named = move |(layer, tensor): (usize, &Tensor<3>)| (name(part, layer), tensor.clone().inner());
        memory.layers().iter().enumerate().map(named)
    })
}

/// The name of a memory's tensor in a checkpoint.
pub(crate) fn name(part: usize, layer: usize) -> String {
    format!("memory.{part}.{layer}")
}
