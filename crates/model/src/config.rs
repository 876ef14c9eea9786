//! `[model]`: a named size, explicit sizes, or a named size with some of them changed.

pub use crate::activation::FeedForwardKind;
use crate::complex_weights::WeightKind;
use crate::norm::Norm;
pub use crate::norm::NormKind;
use longwave_core::config::is_default;
use longwave_core::memory_check::{available, product, shortage};
use longwave_core::{Error, Result};
use longwave_position::encoding::MAX_SIZE;
use longwave_position::reading::{AttentionKind, LogN, LogNKind};
use longwave_position::{Dimensions, Init};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A size by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedSize {
    /// 2 layers, width 64, 2 heads: for tests and first tries.
    Nano,
    /// 4 layers, width 128, 4 heads: the main job; minutes on two cores.
    #[default]
    Tiny,
    /// 4 layers, width 256, 4 heads.
    Mini,
    /// 6 layers, width 384, 6 heads.
    Small,
    /// 12 layers, width 768, 12 heads: GPT-2's smallest.
    Base,
}

impl NamedSize {
    /// (layers, width, heads).
    pub fn sizes(self) -> (usize, usize, usize) {
        match self {
            Self::Nano => (2, 64, 2),
            Self::Tiny => (4, 128, 4),
            Self::Mini => (4, 256, 4),
            Self::Small => (6, 384, 6),
            Self::Base => (12, 768, 12),
        }
    }
}

/// Normalisation of queries and keys, per head, before the rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QkNorm {
    /// Neither; logits are `q.k / sqrt(head_dim)`.
    #[default]
    None,
    /// `KeyNorm`: `logits = s_h q.k / |k|` with a learned scale per head (kexue.fm/archives/9859).
    Key,
    /// `CosA`: `logits = s_h q.k / (|q| |k|)` with a learned scale per head (kexue.fm/archives/9859).
    Cosine,
    /// Root mean square of both, each with a learned gain over the head's channels, then
    /// `q.k / sqrt(head_dim)` (arXiv:2302.05442, as in current decoders).
    Rms,
}

/// What the outputs of attention are multiplied by before they are projected (Qiu et al. 2025, arXiv:2505.06708):
/// `sigmoid(x W)`, x the layer's normalised input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionGate {
    /// Nothing.
    #[default]
    None,
    /// One number for each head.
    Head,
    /// One for each channel of each head.
    Channel,
}

/// What a canon convolution stands before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CanonPlace {
    /// Attention.
    Attention,
    /// The feed-forward layer.
    FeedForward,
}

/// The usual `model.qk_norm_eps`.
const QK_NORM_EPS: f64 = 1e-6;
/// The usual `model.norm_eps`.
const NORM_EPS: f64 = 1e-5;

/// `[model]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct ModelConfig {
    /// A named size; `layers`, `width` and `heads` change parts of it.
    pub size: NamedSize,
    /// Number of blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<usize>,
    /// Channels of the hidden state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// Query heads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<usize>,
    /// Key and value heads, a divisor of `heads`; as many as `heads` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<usize>,
    /// Channels of a head; `width / heads` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<usize>,
    /// Entries of the token embedding; as many as the tokenizer has unless given. Published models often have more; the
    /// further ones are never read or sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocab_size: Option<usize>,
    /// Inner width of the feed-forward layer; 4 width, or 8/3 width (a multiple of 8) for
    /// `SwiGLU` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_forward_width: Option<usize>,
    /// What turns queries and keys into weights.
    pub attention: AttentionKind,
    /// A learned gate on the outputs of the heads, before they are projected (arXiv:2505.06708).
    #[serde(skip_serializing_if = "is_default")]
    pub attention_gate: AttentionGate,
    /// Adds a learned bias to the logits of `attention_gate`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attention_gate_bias: bool,
    /// Normalises what attention adds to the residual stream, after its projection, as `norm` says (arXiv:2504.02827).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub norm_attention_output: bool,
    /// Before which halves of a block each row, normalised, is added to a causal convolution of it and the three rows before
    /// (Canon layers A and C, arXiv:2512.17351).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub canon: Vec<CanonPlace>,
    /// The normalisation before attention, feed-forward and head.
    pub norm: NormKind,
    /// Added to the mean square or variance that `norm` divides by.
    pub norm_eps: f64,
    /// The feed-forward layer.
    pub feed_forward: FeedForwardKind,
    /// The head shares the token embedding's weights.
    pub tied: bool,
    /// Share of channels dropped in training after the embedding and after each half block.
    pub dropout: f64,
    /// Adds a learned bias to the projections of q, k and v, as Qwen2 has it (arXiv:2407.10671).
    pub qkv_bias: bool,
    /// Normalisation of queries and keys.
    pub qk_norm: QkNorm,
    /// Added to the mean square that `qk_norm = "rms"` divides by.
    pub qk_norm_eps: f64,
    /// Queries are scaled by `ln(keys they see) / ln(train length)` (kexue.fm/archives/8823), or by `s ln(keys they see)`
    /// with s of every head learned (`"learned"`: scalable softmax, arXiv:2501.19399; a table scales what encodings add to the
    /// logits too), or by `1 + beta ln(keys they see + 1)^gamma` with beta and gamma of every query and head from the layer's input
    /// (`"adaptive"`: `ASEntmax`, arXiv:2506.16640) or learned numbers of the head (`"power"`).
    pub log_n: LogNKind,
    /// `log_n = "learned"`: adds a learned number to `s ln(keys they see)`; `log_n = "adaptive"`: the maps of the input have
    /// biases, as in the published commands.
    pub log_n_bias: bool,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            size: NamedSize::default(),
            layers: None,
            width: None,
            heads: None,
            kv_heads: None,
            head_dim: None,
            vocab_size: None,
            feed_forward_width: None,
            attention: AttentionKind::default(),
            attention_gate: AttentionGate::None,
            attention_gate_bias: false,
            norm_attention_output: false,
            canon: Vec::new(),
            norm: NormKind::default(),
            norm_eps: NORM_EPS,
            feed_forward: FeedForwardKind::default(),
            tied: false,
            dropout: 0.0,
            qkv_bias: false,
            qk_norm: QkNorm::default(),
            qk_norm_eps: QK_NORM_EPS,
            log_n: LogNKind::Off,
            log_n_bias: false,
        }
    }
}

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
    fn check_memory(&self) -> Result<()> {
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

impl ModelConfig {
    /// Fills in the sizes and checks them; `tokens` is the number of tokens that the tokenizer has.
    pub fn resolve(&self, tokens: usize, train_length: usize) -> Result<Resolved> {
        let (layers, width, heads) = self.size.sizes();
        let layers = within("model.layers", self.layers.unwrap_or(layers), MAX_LAYERS)?;
        let width = positive("model.width", self.width.unwrap_or(width))?;
        let heads = positive("model.heads", self.heads.unwrap_or(heads))?;
        let kv_heads = positive("model.kv_heads", self.kv_heads.unwrap_or(heads))?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(Error::value(
                "model.kv_heads",
                kv_heads,
                format!("it must divide `model.heads = {heads}`"),
            ));
        }
        let head_dim = match self.head_dim {
            Some(dim) => positive("model.head_dim", dim)?,
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                return Err(Error::value(
                    "model.heads",
                    heads,
                    format!("it must divide `model.width = {width}`"),
                )
                .hint("or give `model.head_dim`"));
            }
        };
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(Error::value("model.dropout", self.dropout, "it must be at least 0 and below 1"));
        }
        for (key, eps) in [("model.norm_eps", self.norm_eps), ("model.qk_norm_eps", self.qk_norm_eps)] {
            if !(eps.is_finite() && eps > 0.0) {
                return Err(Error::value(key, eps, "it must be above 0"));
            }
        }
        self.log_n.check("model.log_n", train_length)?;
        if self.log_n_bias && !matches!(self.log_n, LogNKind::Learned(_) | LogNKind::Adaptive) {
            let why = "it belongs to `model.log_n = \"learned\"` and `model.log_n = \"adaptive\"`";
            return Err(
                Error::value("model.log_n_bias", true, why).hint("leave it out, or learn the scaling")
            );
        }
        self.check_attention(head_dim)?;
        self.check_parts()?;
        let feed_forward_width = match self.feed_forward_width {
            Some(inner) => positive("model.feed_forward_width", inner)?,
            // A gate costs a matrix more.
            None if self.feed_forward.is_gated() => (8 * width).div_ceil(24) * 8,
            None => 4 * width,
        };
        let vocab_size = match self.vocab_size {
            Some(entries) => entries_for("model.vocab_size", entries, tokens)?,
            None => tokens,
        };
        let dimensions = Dimensions { layers, width, heads, kv_heads, head_dim, train_length, vocab_size };
        let resolved = Resolved { dimensions, feed_forward_width, config: self.clone() };
        resolved.check_memory()?;
        Ok(resolved)
    }

    /// Rejects keys of gates and convolutions that contradict each other.
    fn check_parts(&self) -> Result<()> {
        if self.attention_gate_bias && self.attention_gate == AttentionGate::None {
            return Err(Error::value("model.attention_gate_bias", true, "there is no gate for it")
                .hint("leave it out, or add `model.attention_gate = \"head\"` or `\"channel\"`"));
        }
        if self.norm == NormKind::Dyt && (self.norm_eps - NORM_EPS).abs() > 0.0 {
            return Err(Error::value(
                "model.norm_eps",
                self.norm_eps,
                "`model.norm = \"dyt\"` divides by no measure",
            )
            .hint("leave it out, or choose a norm that has one, such as `model.norm = \"rms_norm\"`"));
        }
        if self.qk_norm != QkNorm::Rms && (self.qk_norm_eps - QK_NORM_EPS).abs() > 0.0 {
            return Err(Error::value(
                "model.qk_norm_eps",
                self.qk_norm_eps,
                "it belongs to `model.qk_norm = \"rms\"`",
            )
            .hint("leave it out, or add `model.qk_norm = \"rms\"`"));
        }
        if self.canon.len() > 2 || matches!(self.canon[..], [first, second] if first == second) {
            return Err(Error::usage("`model.canon` names a place twice")
                .hint("name each once: `model.canon = [\"attention\", \"feed_forward\"]`"));
        }
        Ok(())
    }

    /// What scales scores belongs to attention that has some and leaves their scale open.
    fn check_attention(&self, head_dim: usize) -> Result<()> {
        self.attention.check()?;
        let cosines = self.attention.reads_cosines();
        let linear = self.attention == AttentionKind::Linear;
        let stick = matches!(self.attention, AttentionKind::StickBreaking(_));
        let qk_norm = match self.qk_norm {
            QkNorm::None => false,
            QkNorm::Rms => cosines,
            QkNorm::Key | QkNorm::Cosine => cosines || linear,
        };
        let log_n = self.log_n != LogNKind::Off && (cosines || linear || stick);
        for (key, scales) in [("qk_norm", qk_norm), ("log_n", log_n)] {
            if scales {
                let why = if cosines { "has a scale of its own" } else { "has none" };
                return Err(Error::usage(format!(
                    "`model.{key}` scales the scores of a softmax, and `{}` {why}",
                    self.attention
                ))
                .hint(format!("leave it out, or write `{}`", AttentionKind::Softmax)));
            }
        }
        if cosines && head_dim == 1 {
            return Err(Error::usage(format!(
                "`{}` multiplies scores by ln of `model.head_dim`, which is 1",
                self.attention
            ))
            .hint("take fewer heads, or give `model.head_dim`"));
        }
        Ok(())
    }
}

fn positive(key: &str, value: usize) -> Result<usize> {
    within(key, value, MAX_SIZE)
}

/// Entries of an embedding that has one for each token at least.
fn entries_for(key: &str, entries: usize, tokens: usize) -> Result<usize> {
    if entries < tokens {
        return Err(Error::value(key, entries, format!("the tokenizer has {tokens} tokens"))
            .hint("leave it out: the embedding then has one entry for each token"));
    }
    positive(key, entries)
}

fn within(key: &str, value: usize, most: usize) -> Result<usize> {
    if value == 0 {
        return Err(Error::value(key, value, "it must be at least 1"));
    }
    if value <= most {
        return Ok(value);
    }
    Err(Error::value(key, value, format!("it must be at most {most}"))
        .hint("no model comes near it: `model.size` names sizes that fit together"))
}

/// The most layers: to check a config of more would take longer than a moment.
pub const MAX_LAYERS: usize = 1 << 13;

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

#[cfg(test)]
mod tests;
