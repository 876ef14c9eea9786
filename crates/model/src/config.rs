//! `[model]`: a named size, explicit sizes, or a named size with some of them changed. `check` fills in
//! what it leaves open, and checks its values.

mod check;

pub use crate::activation::FeedForwardKind;
pub use crate::norm::NormKind;
use longwave_core::config::is_default;
use longwave_position::reading::{AttentionKind, LogNKind};
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
    /// Queries are scaled by `ln n / ln(train length)`, n the tokens of the text up to and with the query's own, also those that a window
    /// hides (kexue.fm/archives/8823), or by `s ln(keys they see)` with s of every head learned (`"learned"`: scalable softmax,
    /// arXiv:2501.19399; a table scales what encodings add to the logits too), or by `1 + beta ln(n + 1)^gamma` with beta and gamma of every query and head from the layer's input
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

/// The most layers: to check a config of more would take longer than a moment.
pub const MAX_LAYERS: usize = 1 << 13;

#[cfg(test)]
mod tests;
