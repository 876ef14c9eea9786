//! `config.json` of a model of ours.

use crate::architecture::Architecture;
use longwave_model::config::FeedForwardKind;
use longwave_model::resolved::Resolved;
use longwave_position::PositionConfig;
use longwave_position::encodings::{learned, rope};
use serde_json::{Map, Value, json};

pub(super) fn write(
    architecture: Architecture,
    resolved: &Resolved,
    position: &PositionConfig,
) -> Map<String, Value> {
    let (d, model) = (&resolved.dimensions, &resolved.config);
    let mut fields = json!({
        "architectures": [architecture.class()],
        "model_type": architecture.model_type(),
        "torch_dtype": "float32",
        "vocab_size": d.vocab_size,
        "tie_word_embeddings": model.tied,
        "bos_token_id": null,
        "eos_token_id": null,
    });
    let only = position.only();
    let rope = only.and_then(|only| only.get::<rope::Config>());
    let learned = only.and_then(|only| only.get::<learned::Config>());
    let more = match (architecture, rope, learned) {
        (Architecture::Gpt2, _, Some(config)) => json!({
            "n_positions": config.table_size.unwrap_or(d.train_length),
            "n_embd": d.width,
            "n_layer": d.layers,
            "n_head": d.heads,
            "n_inner": resolved.feed_forward_width,
            "activation_function": "gelu",
            "layer_norm_epsilon": model.norm_eps,
        }),
        (Architecture::GptNeoX, Some(config), _) => {
            let share = share(config.fraction, d.head_dim);
            json!({
                "hidden_size": d.width,
                "intermediate_size": resolved.feed_forward_width,
                "num_hidden_layers": d.layers,
                "num_attention_heads": d.heads,
                "hidden_act": "gelu",
                "layer_norm_eps": model.norm_eps,
                "use_parallel_residual": false,
                "attention_bias": false,
                "max_position_embeddings": d.train_length,
                "rotary_emb_base": config.base,
                "rotary_pct": share,
                "rope_parameters": {
                    "rope_type": "default", "rope_theta": config.base, "partial_rotary_factor": share,
                },
            })
        }
        (
            Architecture::Llama | Architecture::Qwen2 | Architecture::Qwen3 | Architecture::Arcee,
            Some(config),
            _,
        ) => {
            let mut fields = json!({
                "hidden_size": d.width,
                "intermediate_size": resolved.feed_forward_width,
                "num_hidden_layers": d.layers,
                "num_attention_heads": d.heads,
                "num_key_value_heads": d.kv_heads,
                "head_dim": d.head_dim,
                "hidden_act": match model.feed_forward {
                    FeedForwardKind::Gelu => "gelu",
                    FeedForwardKind::ReluSquared => "relu2",
                    FeedForwardKind::Swiglu => "silu",
                },
                "rms_norm_eps": model.norm_eps,
                "max_position_embeddings": d.train_length,
                "rope_theta": config.base,
                "rope_parameters": { "rope_type": "default", "rope_theta": config.base },
            });
            let flags: &[&str] = match architecture {
                Architecture::Qwen2 => &["use_sliding_window"],
                _ => &["attention_bias", "mlp_bias"],
            };
            for flag in flags {
                fields[*flag] = false.into();
            }
            fields
        }
        _ => json!({
            "hidden_size": d.width,
            "num_hidden_layers": d.layers,
            "num_attention_heads": d.heads,
            "max_position_embeddings": d.train_length,
        }),
    };
    if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
        fields.extend(more);
    }
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// A share of the channels that gives their number again when it is multiplied and cut.
pub(super) fn share(fraction: f64, head_dim: usize) -> f64 {
    let dim = head_dim as f64;
    let turned = (fraction * dim).round();
    let share = turned / dim;
    if (share * dim).floor() < turned { share.next_up() } else { share }
}
