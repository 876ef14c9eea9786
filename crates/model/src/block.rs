//! One pre-norm block: attention and feed-forward, each added to the residual stream.

use crate::attention::{Attention, Rotations};
use crate::config::Resolved;
use crate::dropout::Dropout;
use crate::feed_forward::FeedForward;
use crate::field::Field;
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
    /// Attention.
    pub attention: Attention,
    /// Before the feed-forward layer.
    pub feed_forward_norm: Norm,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
}

impl Block {
    /// Fresh weights.
    pub fn new(resolved: &Resolved, field: Field, layer: usize, init: &Init) -> Self {
        Self {
            attention_norm: Norm::new(resolved, field, init),
            attention: Attention::new(resolved, field, &format!("blocks.{layer}.attention"), init),
            feed_forward_norm: Norm::new(resolved, field, init),
            feed_forward: FeedForward::new(resolved, field, &format!("blocks.{layer}.feed_forward"), init),
        }
    }

    /// `[batch, length, width]` -> the same. `before` `[batch, tokens, width]` is what the block was given for
    /// the tokens before, which attention sees too; `rows.positions` then begin with theirs.
    pub fn forward(
        &self,
        x: Tensor<3>,
        before: Option<&Tensor<3>>,
        rows: Rows<'_>,
        reading: &Reading,
        rotations: &mut Rotations,
        dropout: Option<&Dropout>,
    ) -> Tensor<3> {
        let drop = |x: Tensor<3>, half: &str| match dropout {
            Some(dropout) => dropout.apply(x, &format!("blocks.{}.{half}", rows.layer)),
            None => x,
        };
        let attended = match before {
            None => self.attention.forward(self.attention_norm.forward(x.clone()), rows, reading, rotations),
            Some(before) => {
                let seen = self.attention_norm.forward(Tensor::cat(vec![before.clone(), x.clone()], 1));
                self.attention.forward_after(seen, before.dims()[1], rows, reading, rotations)
            }
        };
        let h = x + drop(attended, "attention");
        let fed = self.feed_forward.forward(self.feed_forward_norm.forward(h.clone()));
        h + drop(fed, "feed_forward")
    }
}
