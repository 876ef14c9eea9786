//! The memories that a training carries from step to step.
//!
//! They are hidden states of earlier weights, so that nothing but themselves can bring them back: a
//! checkpoint that is trained on holds them, as `memory.PART.LAYER`.

use crate::checkpoint::Checkpoint;
use burn::tensor::{Device, Tensor};
use longwave_core::{Error, Result};
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

fn name(part: usize, layer: usize) -> String {
    format!("memory.{part}.{layer}")
}

impl Checkpoint {
    /// The memories of a training in progress, in the place of as many `fresh` ones.
    ///
    /// # Errors
    /// The file has none, though steps are done.
    pub fn memories(&self, fresh: Vec<SegmentMemory>, device: &Device) -> Result<Vec<SegmentMemory>> {
        if self.meta.step == 0 {
            return Ok(fresh);
        }
        let restored = |(part, memory): (usize, SegmentMemory)| {
            let layers: Vec<Tensor<3>> =
                (0..).map_while(|layer| self.tensor(&name(part, layer), device)).collect();
            if layers.is_empty() {
                return Err(Error::failed(format!("the checkpoint has no `{}`", name(part, 0)))
                    .hint("train on from `last` or `stable`; `best` is only read"));
            }
            Ok(memory.holding(layers))
        };
        fresh.into_iter().enumerate().map(restored).collect()
    }
}
