//! Which tensor of ours is which of theirs.
//!
//! One [`Piece`] describes a tensor of theirs in terms of ours, and serves both directions. Most of theirs are
//! `[outputs, inputs]` where ours are `[inputs, outputs]`; packed projections of ours are several tensors of
//! theirs. Their rotations pair channels (i, i + r/2) of a head. Where ours pairs (2i, 2i + 1), the channels of
//! q and k are permuted, which leaves every q.k as it is.

use crate::architecture::Architecture;
use longwave_kernels::Layout;
use longwave_model::resolved::Resolved;
use longwave_position::PositionConfig;
use longwave_position::encodings::rope;

/// One tensor of theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub theirs: String,
    pub source: Source,
}

/// Where the numbers of a tensor of theirs are in ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// All of one tensor of ours, in its order.
    Whole { ours: String },
    /// Row r is column `columns[r]` of a matrix of ours.
    Columns {
        ours: String,
        /// Columns of ours, in the order of their rows.
        columns: Vec<usize>,
    },
    /// Number r is number `places[r]` of a vector of ours.
    Places {
        ours: String,
        /// Numbers of ours, in their order.
        places: Vec<usize>,
    },
    /// A bias that our model does not have: so many zeros.
    Zeros { count: usize },
}

/// Every tensor of an architecture, for a model of these sizes; empty for `longwave`, whose names are ours.
pub fn pieces(architecture: Architecture, resolved: &Resolved, position: &PositionConfig) -> Vec<Piece> {
    let channels = Channels::new(resolved, position);
    match architecture {
        Architecture::Llama
        | Architecture::Mistral
        | Architecture::Qwen2
        | Architecture::Qwen3
        | Architecture::SmolLm3
        | Architecture::Arcee => llama(resolved, &channels),
        Architecture::GptNeoX => gpt_neox(resolved, &channels),
        Architecture::Gpt2 => gpt2(resolved),
        Architecture::Longwave => Vec::new(),
    }
}

/// What the names of an architecture's tensors begin with, but for its head.
pub fn prefix_and_head(architecture: Architecture) -> (&'static str, &'static str) {
    match architecture {
        Architecture::Gpt2 => ("transformer.", "lm_head.weight"),
        Architecture::GptNeoX => ("gpt_neox.", "embed_out.weight"),
        _ => ("model.", "lm_head.weight"),
    }
}

/// Columns of our packed projections in the order of theirs.
struct Channels {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Channels of a head in their order.
    rotated: Vec<usize>,
}

impl Channels {
    fn new(resolved: &Resolved, position: &PositionConfig) -> Self {
        let d = &resolved.dimensions;
        let mut rotated: Vec<usize> = (0..d.head_dim).collect();
        if let Some(config) = position.only().and_then(|config| config.get::<rope::Config>())
            && config.layout == Layout::Interleaved
        {
            let turned = (config.fraction * d.head_dim as f64).round() as usize;
            let half = turned / 2;
            for (channel, place) in rotated.iter_mut().enumerate().take(turned) {
                *place = if channel < half { 2 * channel } else { 2 * (channel - half) + 1 };
            }
        }
        Self { heads: d.heads, kv_heads: d.kv_heads, head_dim: d.head_dim, rotated }
    }

    fn query(&self, head: usize) -> impl Iterator<Item = usize> {
        self.rotated.iter().map(move |channel| head * self.head_dim + channel)
    }

    fn key(&self, head: usize) -> impl Iterator<Item = usize> {
        self.rotated.iter().map(move |channel| (self.heads + head) * self.head_dim + channel)
    }

    fn value(&self, head: usize) -> impl Iterator<Item = usize> {
        let first = (self.heads + self.kv_heads + head) * self.head_dim;
        first..first + self.head_dim
    }
}

fn whole(theirs: impl Into<String>, ours: impl Into<String>) -> Piece {
    Piece { theirs: theirs.into(), source: Source::Whole { ours: ours.into() } }
}

fn columns(theirs: impl Into<String>, ours: impl Into<String>, columns: Vec<usize>) -> Piece {
    Piece { theirs: theirs.into(), source: Source::Columns { ours: ours.into(), columns } }
}

fn transposed(theirs: impl Into<String>, ours: impl Into<String>, count: usize) -> Piece {
    columns(theirs, ours, (0..count).collect())
}

fn zeros(theirs: impl Into<String>, count: usize) -> Piece {
    Piece { theirs: theirs.into(), source: Source::Zeros { count } }
}

fn head(resolved: &Resolved, theirs: &str) -> Option<Piece> {
    (!resolved.config.tied).then(|| transposed(theirs, "head", resolved.dimensions.vocab_size))
}

fn llama(resolved: &Resolved, channels: &Channels) -> Vec<Piece> {
    let (d, inner) = (&resolved.dimensions, resolved.feed_forward_width);
    let gated = resolved.config.feed_forward.is_gated();
    let mut pieces = vec![whole("model.embed_tokens.weight", "embedding")];
    for layer in 0..d.layers {
        let (t, o) = (format!("model.layers.{layer}"), format!("blocks.{layer}"));
        let packed = format!("{o}.attention.qkv");
        pieces.push(whole(format!("{t}.input_layernorm.weight"), format!("{o}.attention_norm.gain")));
        let query = (0..d.heads).flat_map(|head| channels.query(head)).collect();
        let key = (0..d.kv_heads).flat_map(|head| channels.key(head)).collect();
        let value = (0..d.kv_heads).flat_map(|head| channels.value(head)).collect();
        let projections: [(&str, Vec<usize>); 3] = [("q", query), ("k", key), ("v", value)];
        for (name, places) in projections {
            if resolved.config.qkv_bias {
                let (theirs, ours) = (format!("{t}.self_attn.{name}_proj.bias"), format!("{packed}_bias"));
                pieces.push(Piece { theirs, source: Source::Places { ours, places: places.clone() } });
            }
            pieces.push(columns(format!("{t}.self_attn.{name}_proj.weight"), &packed, places));
        }
        if resolved.config.qk_norm == longwave_model::config::QkNorm::Rms {
            for (name, gain) in [("q_norm", "query_gain"), ("k_norm", "key_gain")] {
                let (ours, places) = (format!("{o}.attention.{gain}"), channels.rotated.clone());
                let theirs = format!("{t}.self_attn.{name}.weight");
                pieces.push(Piece { theirs, source: Source::Places { ours, places } });
            }
        }
        pieces.push(transposed(
            format!("{t}.self_attn.o_proj.weight"),
            format!("{o}.attention.output"),
            d.width,
        ));
        pieces.push(whole(
            format!("{t}.post_attention_layernorm.weight"),
            format!("{o}.feed_forward_norm.gain"),
        ));
        let input = format!("{o}.feed_forward.input");
        if gated {
            pieces.push(columns(format!("{t}.mlp.gate_proj.weight"), &input, (0..inner).collect()));
            pieces.push(columns(format!("{t}.mlp.up_proj.weight"), &input, (inner..2 * inner).collect()));
        } else {
            pieces.push(transposed(format!("{t}.mlp.up_proj.weight"), &input, inner));
        }
        let output = format!("{o}.feed_forward.output");
        pieces.push(transposed(format!("{t}.mlp.down_proj.weight"), output, d.width));
    }
    pieces.push(whole("model.norm.weight", "norm.gain"));
    pieces.extend(head(resolved, "lm_head.weight"));
    pieces
}

fn gpt_neox(resolved: &Resolved, channels: &Channels) -> Vec<Piece> {
    let (d, inner) = (&resolved.dimensions, resolved.feed_forward_width);
    let mut pieces = vec![whole("gpt_neox.embed_in.weight", "embedding")];
    for layer in 0..d.layers {
        let (t, o) = (format!("gpt_neox.layers.{layer}"), format!("blocks.{layer}"));
        pieces.extend(layer_norm(&format!("{t}.input_layernorm"), &format!("{o}.attention_norm")));
        // Their packed projection goes head by head: q, k and v of the first, then of the next.
        let packed = (0..d.heads)
            .flat_map(|head| channels.query(head).chain(channels.key(head)).chain(channels.value(head)))
            .collect();
        pieces.push(columns(
            format!("{t}.attention.query_key_value.weight"),
            format!("{o}.attention.qkv"),
            packed,
        ));
        pieces.push(transposed(
            format!("{t}.attention.dense.weight"),
            format!("{o}.attention.output"),
            d.width,
        ));
        pieces
            .extend(layer_norm(&format!("{t}.post_attention_layernorm"), &format!("{o}.feed_forward_norm")));
        let mlp = format!("{t}.mlp");
        pieces.push(transposed(
            format!("{mlp}.dense_h_to_4h.weight"),
            format!("{o}.feed_forward.input"),
            inner,
        ));
        pieces.push(zeros(format!("{mlp}.dense_h_to_4h.bias"), inner));
        pieces.push(transposed(
            format!("{mlp}.dense_4h_to_h.weight"),
            format!("{o}.feed_forward.output"),
            d.width,
        ));
        pieces.push(zeros(format!("{mlp}.dense_4h_to_h.bias"), d.width));
    }
    pieces.extend(layer_norm("gpt_neox.final_layer_norm", "norm"));
    pieces.extend(head(resolved, "embed_out.weight"));
    pieces
}

fn gpt2(resolved: &Resolved) -> Vec<Piece> {
    let (d, inner) = (&resolved.dimensions, resolved.feed_forward_width);
    let mut pieces =
        vec![whole("transformer.wte.weight", "embedding"), whole("transformer.wpe.weight", TABLE)];
    for layer in 0..d.layers {
        let (t, o) = (format!("transformer.h.{layer}"), format!("blocks.{layer}"));
        pieces.extend(layer_norm(&format!("{t}.ln_1"), &format!("{o}.attention_norm")));
        pieces.extend(layer_norm(&format!("{t}.ln_2"), &format!("{o}.feed_forward_norm")));
        // Their `Conv1D` is `[inputs, outputs]` as ours.
        for (theirs, ours, outputs) in [
            ("attn.c_attn", "attention.qkv", 3 * d.width),
            ("attn.c_proj", "attention.output", d.width),
            ("mlp.c_fc", "feed_forward.input", inner),
            ("mlp.c_proj", "feed_forward.output", d.width),
        ] {
            pieces.push(whole(format!("{t}.{theirs}.weight"), format!("{o}.{ours}")));
            pieces.push(zeros(format!("{t}.{theirs}.bias"), outputs));
        }
    }
    pieces.extend(layer_norm("transformer.ln_f", "norm"));
    pieces.extend(head(resolved, "lm_head.weight"));
    pieces
}

const TABLE: &str = "position.encodings.0.Learned.table";

fn layer_norm(theirs: &str, ours: &str) -> [Piece; 2] {
    [
        whole(format!("{theirs}.weight"), format!("{ours}.gain")),
        whole(format!("{theirs}.bias"), format!("{ours}.bias")),
    ]
}
