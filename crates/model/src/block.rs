//! One pre-norm block: attention and feed-forward, each added to the residual stream.

use crate::attention::{Attention, Rotations};
use crate::canon::Canon;
use crate::complex_weights::{PackedMap, WeightKind};
use crate::config::CanonPlace;
use crate::dropout::Dropout;
use crate::feed_forward::FeedForward;
use crate::norm::Norm;
use crate::resolved::Resolved;
use burn::module::Module;
use burn::tensor::Tensor;
use longwave_position::encoding::Rows;
use longwave_position::{Init, Reading};

/// `h = x + attention(norm(x))`, `y = h + feed_forward(norm(h))`; `model.canon` convolves what is normalised.
#[derive(Module, Debug)]
pub struct Block {
    /// Before attention.
    pub attention_norm: Norm,
    /// After that norm.
    pub attention_canon: Option<Canon>,
    pub attention: Attention,
    /// Before the feed-forward layer.
    pub feed_forward_norm: Norm,
    /// After that norm.
    pub feed_forward_canon: Option<Canon>,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
}

/// What a pass brings to a block, beside the stream.
pub(crate) struct BlockPass<'a> {
    /// The tokens that are read; the positions begin with those of `before`.
    pub(crate) rows: Rows<'a>,
    /// What the block was given for the tokens before, which attention sees too: `[batch, tokens, width]`.
    pub(crate) before: Option<&'a Tensor<3>>,
    pub(crate) reading: &'a Reading,
    pub(crate) rotations: &'a mut Rotations,
    /// In training.
    pub(crate) dropout: Option<&'a Dropout>,
}

impl Block {
    /// Fresh weights.
    pub fn new(resolved: &Resolved, weight_kind: WeightKind, layer: usize, init: &Init) -> Self {
        let [attention, feed_forward] =
            ["attention", "feed_forward"].map(|half| format!("blocks.{layer}.{half}"));
        let canon = |place, name: &str| Canon::new(place, resolved, weight_kind, name, init);
        Self {
            attention_norm: resolved.norm(weight_kind, init),
            attention_canon: canon(CanonPlace::Attention, &attention),
            attention: Attention::new(resolved, weight_kind, &attention, init),
            feed_forward_norm: resolved.norm(weight_kind, init),
            feed_forward_canon: canon(CanonPlace::FeedForward, &feed_forward),
            feed_forward: FeedForward::new(resolved, weight_kind, &feed_forward, init),
        }
    }

    /// The parameters of its linear maps by their paths, each with the maps that it holds side by side.
    pub fn linear_maps(&self) -> Vec<(&'static str, Vec<PackedMap>)> {
        let one = |outputs, weight_kind| vec![PackedMap { outputs, groups: 1, weight_kind }];
        let width = self.attention.output.dims()[1];
        let weight_kind = self.attention.weight_kind;
        let mut maps = vec![
            ("attention.qkv", self.attention.packed_maps()),
            ("attention.output", one(width, weight_kind)),
            ("feed_forward.input", self.feed_forward.packed_maps()),
            ("feed_forward.output", one(width, weight_kind)),
        ];
        let gate = self.attention.gate.as_ref();
        maps.extend(gate.map(|gate| ("attention.gate", one(gate.dims()[1], WeightKind::Real))));
        maps
    }

    /// What attention reads of the stream, `[batch, length, width]` -> the same.
    pub(crate) fn attention_input(&self, x: Tensor<3>) -> Tensor<3> {
        convolved(self.attention_canon.as_ref(), self.attention_norm.forward(x))
    }

    /// The stream after attention, `[batch, length, width]` -> the same.
    pub(crate) fn attend(&self, x: Tensor<3>, pass: &mut BlockPass<'_>) -> Tensor<3> {
        let BlockPass { rows, before, reading, .. } = *pass;
        let rotations = &mut *pass.rotations;
        let place = || format!("blocks.{}.attention", rows.layer);
        let Some(before) = before else {
            let [normed, x] = self.attention_norm.forward_residual(x);
            let normed = convolved(self.attention_canon.as_ref(), normed);
            return added(x, pass.dropout, &place, |onto| {
                self.attention.forward(normed, onto, rows, reading, rotations)
            });
        };
        let seen = self.attention_input(Tensor::cat(vec![before.clone(), x.clone()], 1));
        added(x, pass.dropout, &place, |onto| {
            self.attention.forward_after(seen, before.dims()[1], onto, rows, reading, rotations)
        })
    }

    /// The stream after the feed-forward layer, `[batch, length, width]` -> the same.
    pub(crate) fn feed(&self, h: Tensor<3>, pass: &BlockPass<'_>) -> Tensor<3> {
        let place = || format!("blocks.{}.feed_forward", pass.rows.layer);
        let [normed, h] = self.feed_forward_norm.forward_residual(h);
        let normed = convolved(self.feed_forward_canon.as_ref(), normed);
        added(h, pass.dropout, &place, |onto| self.feed_forward.forward(normed, onto))
    }
}

fn convolved(canon: Option<&Canon>, x: Tensor<3>) -> Tensor<3> {
    match canon {
        Some(canon) => canon.forward(x),
        None => x,
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
