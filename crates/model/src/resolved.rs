//! A model's sizes with nothing left open.

use crate::complex_weights::WeightKind;
use crate::config::{AttentionGate, ModelConfig};
use crate::norm::Norm;
use longwave_core::memory_check::{available, product, shortage};
use longwave_core::{Error, Result};
use longwave_position::reading::LogN;
use longwave_position::{Dimensions, Init};

/// A model's sizes with nothing left open.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The sizes that encodings see.
    pub dimensions: Dimensions,
    /// Inner width of the feed-forward layer.
    pub feed_forward_width: usize,
    /// What the sizes leave open.
    pub config: ModelConfig,
}

impl Resolved {
    /// A fresh normalisation of the residual stream.
    pub(crate) fn norm(&self, weight_kind: WeightKind, init: &Init) -> Norm {
        Norm::new(self.config.norm, self.config.norm_eps, self.dimensions.width, weight_kind, init)
    }

    /// The query scale of layers that do not say otherwise.
    pub fn log_n(&self) -> LogN {
        self.config.log_n.of(self.dimensions.train_length, self.config.log_n_bias)
    }

    /// Columns of the matrix of `attention_gate`; 0 without one.
    pub fn gate_columns(&self) -> usize {
        match self.config.attention_gate {
            AttentionGate::None => 0,
            AttentionGate::Head => self.dimensions.heads,
            AttentionGate::Channel => self.dimensions.heads * self.dimensions.head_dim,
        }
    }

    /// The largest of the sizes, with its key.
    pub fn largest(&self) -> (&'static str, usize) {
        let d = &self.dimensions;
        let sizes = [
            ("model.layers", d.layers),
            ("model.heads", d.heads),
            ("model.kv_heads", d.kv_heads),
            ("model.head_dim", d.head_dim),
            ("model.feed_forward_width", self.feed_forward_width),
            (self.vocab_key(), d.vocab_size),
        ];
        // An inner width that follows from the width is no mistake of its own.
        let sizes = sizes.into_iter().filter(|(key, _)| {
            *key != "model.feed_forward_width" || self.config.feed_forward_width.is_some()
        });
        sizes.fold(("model.width", d.width), |most, size| if size.1 > most.1 { size } else { most })
    }

    /// The key that says how many entries the embedding has.
    fn vocab_key(&self) -> &'static str {
        if self.config.vocab_size.is_some() { "model.vocab_size" } else { "data.tokenizer.vocab_size" }
    }

    /// The weights alone must fit.
    pub(crate) fn check_memory(&self) -> Result<()> {
        let Some(shortage) = shortage(weight_bytes(self), available()) else { return Ok(()) };
        let (key, size) = self.largest();
        Err(Error::value(key, size, format!("the model's weights alone take {shortage}"))
            .hint("take a smaller one: `model.size` names sizes that fit together"))
    }

    /// Whether linear maps can be over a field.
    pub fn check_weight_kind(&self, field: WeightKind) -> Result<()> {
        let norm = self.config.norm;
        if field == WeightKind::Complex
            && let Err(why) = norm.complex()
        {
            return Err(Error::value("model.norm", format!("\"{}\"", norm.name()), why)
                .hint("use `rms_norm`, or leave `position.complex` out"));
        }
        field.check_width("model.feed_forward_width", self.feed_forward_width)
    }
}

/// Bytes that the tensors of a block take besides their numbers, at least.
const BLOCK: usize = 8 << 10;

/// Bytes of the weights of a model with these sizes, at least, without those of its encoding: a complex model holds
/// half of every matrix.
fn weight_bytes(resolved: &Resolved) -> u64 {
    let d = &resolved.dimensions;
    let gate = if resolved.config.feed_forward.is_gated() { 3 } else { 2 };
    let heads = 2 * d.heads + 2 * d.kv_heads;
    let block = product(&[d.width, heads, d.head_dim]).saturating_add(product(&[
        gate,
        d.width,
        resolved.feed_forward_width,
    ]));
    let tables = product(&[d.vocab_size, d.width, if resolved.config.tied { 1 } else { 2 }]);
    let block = block.saturating_add(product(&[d.width, resolved.gate_columns()]));
    let numbers = block.saturating_mul(d.layers as u64).saturating_add(tables);
    numbers.saturating_mul(size_of::<f32>() as u64 / 2).saturating_add(product(&[d.layers, BLOCK]))
}
