//! Which published architecture a model is, if it is one exactly.

use longwave_model::config::{AttentionGate, FeedForwardKind, NormKind, QkNorm};
use longwave_model::resolved::Resolved;
use longwave_position::PositionConfig;
use longwave_position::encodings::{learned, rope};
use longwave_position::reading::{AttentionKind, LogNKind};
use longwave_train::RunConfig;

/// An architecture as `config.json` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// `RMSNorm`, `SwiGLU`, `RoPE` (Touvron et al. 2023, arXiv:2302.13971).
    Llama,
    /// Llama, its layers perhaps with a window (Jiang et al. 2023, arXiv:2310.06825). Only imported.
    Mistral,
    /// Llama with a bias in the projections of q, k and v (arXiv:2407.10671).
    Qwen2,
    /// Llama with queries and keys normalised per head (arXiv:2505.09388).
    Qwen3,
    /// Llama, some of whose layers have no rotation (`SmolLM3`; Yang et al. 2025, arXiv:2501.18795). Only imported.
    SmolLm3,
    /// Llama with a feed-forward layer without a gate, here with GELU.
    Arcee,
    /// `LayerNorm`, GELU, `RoPE` on a share of the channels (Black et al. 2022, arXiv:2204.06745), its halves of a
    /// block one after the other.
    GptNeoX,
    /// `LayerNorm`, GELU, learned absolute positions (Radford et al. 2019).
    Gpt2,
    /// None of them: ours, under our own names.
    Longwave,
}

impl Architecture {
    /// All that have a `model_type`.
    pub const ALL: [Self; 9] = [
        Self::Llama,
        Self::Mistral,
        Self::Qwen2,
        Self::Qwen3,
        Self::SmolLm3,
        Self::Arcee,
        Self::GptNeoX,
        Self::Gpt2,
        Self::Longwave,
    ];

    /// Its `model_type`, and the class that transformers has for it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Llama => ("llama", "LlamaForCausalLM"),
            Self::Mistral => ("mistral", "MistralForCausalLM"),
            Self::Qwen2 => ("qwen2", "Qwen2ForCausalLM"),
            Self::Qwen3 => ("qwen3", "Qwen3ForCausalLM"),
            Self::SmolLm3 => ("smollm3", "SmolLM3ForCausalLM"),
            Self::Arcee => ("arcee", "ArceeForCausalLM"),
            Self::GptNeoX => ("gpt_neox", "GPTNeoXForCausalLM"),
            Self::Gpt2 => ("gpt2", "GPT2LMHeadModel"),
            Self::Longwave => ("longwave", "LongwaveForCausalLM"),
        }
    }

    pub fn model_type(self) -> &'static str {
        self.names().0
    }

    pub fn class(self) -> &'static str {
        self.names().1
    }

    /// The architecture of a run: the one that it was imported as, or else [`of`](Self::of).
    pub fn of_run(config: &RunConfig, resolved: &Resolved) -> (Self, Option<String>) {
        let kept = config.imported.as_ref().and_then(|imported| imported.config().ok().flatten());
        let kind = kept.as_ref().and_then(|fields| fields.get("model_type")?.as_str());
        match Self::ALL.into_iter().find(|architecture| Some(architecture.model_type()) == kind) {
            Some(architecture) => (architecture, None),
            None => Self::of(resolved, &config.position),
        }
    }

    /// The architecture that computes exactly what the model computes; where there is none, `Longwave` and
    /// what stands in the way of the nearest.
    pub fn of(resolved: &Resolved, position: &PositionConfig) -> (Self, Option<String>) {
        let only = position.only();
        let (nearest, obstacles) = if let Some(config) = only.and_then(|only| only.get::<rope::Config>()) {
            rotary(resolved, config)
        } else if let Some(config) = only.and_then(|only| only.get::<learned::Config>()) {
            (Self::Gpt2, gpt2(resolved, config))
        } else {
            // The name of several is no value of the key.
            let what = if only.is_some() {
                format!("`position.kind = \"{}\"`", position.name())
            } else {
                format!("the encodings `{}`", position.name())
            };
            return (Self::Longwave, Some(format!("none has {what}")));
        };
        let model = &resolved.config;
        let others = [
            obstacle(
                model.attention != AttentionKind::Softmax,
                format!("its attention is a softmax, not `{}`", model.attention),
            ),
            obstacle(model.attention_gate != AttentionGate::None, "it has no `attention_gate`"),
            obstacle(model.norm_attention_output, "it has no `norm_attention_output`"),
            obstacle(!model.canon.is_empty(), "it has no `canon`"),
        ];
        match obstacles.into_iter().chain(others).flatten().next() {
            None => (nearest, None),
            Some(obstacle) => {
                (Self::Longwave, Some(format!("`{}` is nearest, but {obstacle}", nearest.model_type())))
            }
        }
    }
}

/// What stands in the way; `None` where nothing does.
type Obstacles = Vec<Option<String>>;

fn obstacle(stands: bool, reason: impl Into<String>) -> Option<String> {
    stands.then(|| reason.into())
}

fn rotary(resolved: &Resolved, config: &rope::Config) -> (Architecture, Obstacles) {
    let model = &resolved.config;
    let mut obstacles = vec![
        obstacle(config.p < 1.0, format!("it rotates every band, not `p = {}` of them", config.p)),
        obstacle(
            config.slowest_turns.is_some() || config.spacing != rope::Spacing::Geometric,
            "its frequencies follow from a base, not from `slowest_turns` or `spacing`",
        ),
        obstacle(config.learned.is_some(), "its frequencies are not learned (`learned`)"),
        obstacle(config.hope, "it rotates every band, and `hope = true` leaves slow ones out"),
        obstacle(model.log_n != LogNKind::Off, "it has no `log_n`"),
        obstacle(config.resonance, "its wavelengths are not rounded (`resonance = true`)"),
    ];
    if model.norm == NormKind::LayerNorm {
        obstacles.extend(no_groups(resolved));
        obstacles.extend([
            obstacle(model.feed_forward != FeedForwardKind::Gelu, "its `feed_forward` is `gelu`"),
            obstacle(model.qk_norm != QkNorm::None, "it has no `qk_norm`"),
            no_bias(resolved),
        ]);
        return (Architecture::GptNeoX, obstacles);
    }
    obstacles.push(obstacle(model.norm != NormKind::RmsNorm, "its `norm` is `rms_norm`"));
    obstacles.push(obstacle(
        config.fraction < 1.0,
        format!("it rotates every channel, not `fraction = {}` of them", config.fraction),
    ));
    let swiglu = model.feed_forward == FeedForwardKind::Swiglu;
    let d = &resolved.dimensions;
    // transformers 5 refuses others of these two, though `head_dim` says how wide a head is.
    let uneven = obstacle(!d.width.is_multiple_of(d.heads), "its width is a multiple of its heads");
    match model.qk_norm {
        QkNorm::None if swiglu && model.qkv_bias => (Architecture::Qwen2, obstacles),
        QkNorm::None if swiglu => {
            obstacles.push(uneven);
            (Architecture::Llama, obstacles)
        }
        QkNorm::None => {
            obstacles.push(uneven);
            obstacles.push(no_bias(resolved));
            let known = [FeedForwardKind::Gelu, FeedForwardKind::ReluSquared].contains(&model.feed_forward);
            obstacles.push(obstacle(!known, "its `feed_forward` is `relu_squared` or `gelu`"));
            (Architecture::Arcee, obstacles)
        }
        QkNorm::Rms => {
            obstacles.push(no_bias(resolved));
            let same = model.qk_norm_eps.to_bits() == model.norm_eps.to_bits();
            obstacles.push(obstacle(!swiglu, "its `feed_forward` is `swiglu`"));
            obstacles.push(obstacle(!same, "its `qk_norm_eps` is its `norm_eps`"));
            (Architecture::Qwen3, obstacles)
        }
        QkNorm::Key | QkNorm::Cosine => {
            obstacles.push(obstacle(true, "its `qk_norm` is `none` (or `rms`, as `qwen3`)"));
            (Architecture::Llama, obstacles)
        }
    }
}

fn gpt2(resolved: &Resolved, config: &learned::Config) -> Obstacles {
    let model = &resolved.config;
    let mut obstacles = no_groups(resolved);
    obstacles.extend([
        obstacle(model.norm != NormKind::LayerNorm, "its `norm` is `layer_norm`"),
        obstacle(model.feed_forward != FeedForwardKind::Gelu, "its `feed_forward` is `gelu`"),
        obstacle(model.qk_norm != QkNorm::None, "it has no `qk_norm`"),
        obstacle(model.log_n != LogNKind::Off, "it has no `log_n`"),
        no_bias(resolved),
        obstacle(
            config.past_table != learned::PastTable::Error,
            "it reads nothing past its table (`past_table = \"error\"`)",
        ),
    ]);
    obstacles
}

fn no_bias(resolved: &Resolved) -> Option<String> {
    obstacle(resolved.config.qkv_bias, "it has no `qkv_bias` (or `swiglu` without `qk_norm`, as `qwen2`)")
}

/// As many key heads as query heads, which fill the width.
fn no_groups(resolved: &Resolved) -> Obstacles {
    let d = &resolved.dimensions;
    vec![
        obstacle(d.kv_heads != d.heads, "it has as many key heads as query heads"),
        obstacle(d.heads * d.head_dim != d.width, "its heads fill the width"),
    ]
}
