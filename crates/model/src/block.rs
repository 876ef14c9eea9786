//! One pre-norm block: attention and feed-forward, each added to the residual stream.

use crate::attention::{Attention, Rotations};
use crate::complex_weights::WeightKind;
use crate::config::Resolved;
use crate::dropout::Dropout;
use crate::feed_forward::FeedForward;
use crate::norm::Norm;
use burn::module::Module;
use burn::tensor::Tensor;
use longwave_position::encoding::Rows;
use longwave_position::{Init, Reading};

/// `h = x + attention(norm(x))`, `y = h + feed_forward(norm(h))`.
#[derive(Module, Debug)]
pub struct Block {
    /// Before attention.
    pub attention_norm: Norm,
    pub attention: Attention,
    /// Before the feed-forward layer.
    pub feed_forward_norm: Norm,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
}

impl Block {
    /// Fresh weights.
    pub fn new(resolved: &Resolved, weight_kind: WeightKind, layer: usize, init: &Init) -> Self {
        Self {
            attention_norm: Norm::new(resolved, weight_kind, init),
            attention: Attention::new(resolved, weight_kind, &format!("blocks.{layer}.attention"), init),
            feed_forward_norm: Norm::new(resolved, weight_kind, init),
            feed_forward: FeedForward::new(
                resolved,
                weight_kind,
                &format!("blocks.{layer}.feed_forward"),
                init,
            ),
        }
    }

    /// Its linear maps by the paths of their parameters, each with the outputs of the maps that it packs side by side.
    pub fn linear_maps(&self) -> [(&'static str, Vec<usize>); 4] {
        let width = self.attention.output.dims()[1];
        [
            ("attention.qkv", self.attention.packed_outputs()),
            ("attention.output", vec![width]),
            ("feed_forward.input", self.feed_forward.packed_outputs()),
            ("feed_forward.output", vec![width]),
        ]
    }

    /// The stream after attention, `[batch, length, width]` -> the same. `before` `[batch, tokens, width]` is what the block
    /// was given for the tokens before, which attention sees too; `rows.positions` then begin with theirs.
    pub fn attend(
        &self,
        x: Tensor<3>,
        before: Option<&Tensor<3>>,
        rows: Rows<'_>,
        reading: &Reading,
        rotations: &mut Rotations,
        dropout: Option<&Dropout>,
    ) -> Tensor<3> {
        let place = || format!("blocks.{}.attention", rows.layer);
        let Some(before) = before else {
            let [normed, x] = self.attention_norm.forward_residual(x);
            return added(x, dropout, &place, |onto| {
                self.attention.forward(normed, onto, rows, reading, rotations)
            });
        };
        let seen = self.attention_norm.forward(Tensor::cat(vec![before.clone(), x.clone()], 1));
        added(x, dropout, &place, |onto| {
            self.attention.forward_after(seen, before.dims()[1], onto, rows, reading, rotations)
        })
    }

    /// The stream after the feed-forward layer of the block `layer`, `[batch, length, width]` -> the same.
    pub fn feed(&self, h: Tensor<3>, layer: usize, dropout: Option<&Dropout>) -> Tensor<3> {
        let place = || format!("blocks.{layer}.feed_forward");
        let [normed, h] = self.feed_forward_norm.forward_residual(h);
        added(h, dropout, &place, |onto| self.feed_forward.forward(normed, onto))
    }
}

/// A branch added to the residual stream; `place` names it for dropout.
fn added(
    x: Tensor<3>,
    dropout: Option<&Dropout>,
    place: &dyn Fn() -> String,
    branch: impl FnOnce(Option<Tensor<3>>) -> Tensor<3>,
) -> Tensor<3> {
    match dropout {
        // What is dropped must not reach the residual stream, so it is added afterwards.
        Some(dropout) => x + dropout.apply(branch(None), &place()),
        // The last product of the branch adds to the stream in the same pass.
        None => branch(Some(x)),
    }
}
