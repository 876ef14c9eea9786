//! Which tensor of ours is which of theirs.
//!
//! One [`Piece`] describes a tensor of theirs in terms of ours, and serves both directions. Most of theirs are
//! `[outputs, inputs]` where ours are `[inputs, outputs]`; packed projections of ours are several tensors of
//! theirs. Their rotations pair channels (i, i + r/2) of a head. Where ours pairs (2i, 2i + 1), the channels of
//! q and k are permuted, which leaves every q.k as it is.

use crate::architecture::Architecture;
use longwave_kernels::Layout;
use longwave_model::config::QkNorm;
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
    /// Row r is column `columns[r]` of a matrix of ours, or of a vector, which is one row.
    Columns {
        ours: String,
        /// Columns of ours, in the order of their rows.
        columns: Vec<usize>,
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

/// The pieces of a model, collected part by part: the names of a part begin alike, theirs and ours.
struct Pieces {
    all: Vec<Piece>,
    theirs: String,
    ours: String,
}

impl Pieces {
    fn new(theirs: &str) -> Self {
        Self { all: Vec::new(), theirs: theirs.to_owned(), ours: String::new() }
    }

    fn begin(&mut self, theirs: String, ours: String) {
        (self.theirs, self.ours) = (theirs, ours);
    }

    fn add(&mut self, theirs: &str, source: Source) {
        self.all.push(Piece { theirs: format!("{}{theirs}", self.theirs), source });
    }

    fn whole(&mut self, theirs: &str, ours: &str) {
        self.add(theirs, Source::Whole { ours: format!("{}{ours}", self.ours) });
    }

    fn columns(&mut self, theirs: &str, ours: &str, columns: impl IntoIterator<Item = usize>) {
        let (ours, columns) = (format!("{}{ours}", self.ours), columns.into_iter().collect());
        self.add(theirs, Source::Columns { ours, columns });
    }

    fn layer_norm(&mut self, theirs: &str, ours: &str) {
        self.whole(&format!("{theirs}.weight"), &format!("{ours}.gain"));
        self.whole(&format!("{theirs}.bias"), &format!("{ours}.bias"));
    }

    fn with_head(mut self, resolved: &Resolved, theirs: &str) -> Vec<Piece> {
        self.begin(String::new(), String::new());
        if !resolved.config.tied {
            self.columns(theirs, "head", 0..resolved.dimensions.vocab_size);
        }
        self.all
    }
}

fn llama(resolved: &Resolved, channels: &Channels) -> Vec<Piece> {
    let (d, inner) = (&resolved.dimensions, resolved.feed_forward_width);
    let mut pieces = Pieces::new("model.");
    pieces.whole("embed_tokens.weight", "embedding");
    for layer in 0..d.layers {
        pieces.begin(format!("model.layers.{layer}."), format!("blocks.{layer}."));
        pieces.whole("input_layernorm.weight", "attention_norm.gain");
        let query = (0..d.heads).flat_map(|head| channels.query(head)).collect::<Vec<_>>();
        let key = (0..d.kv_heads).flat_map(|head| channels.key(head)).collect();
        let value = (0..d.kv_heads).flat_map(|head| channels.value(head)).collect();
        for (name, columns) in [("q", query), ("k", key), ("v", value)] {
            if resolved.config.qkv_bias {
                pieces.columns(&format!("self_attn.{name}_proj.bias"), "attention.qkv_bias", columns.clone());
            }
            pieces.columns(&format!("self_attn.{name}_proj.weight"), "attention.qkv", columns);
        }
        if resolved.config.qk_norm == QkNorm::Rms {
            pieces.columns("self_attn.q_norm.weight", "attention.query_gain", channels.rotated.clone());
            pieces.columns("self_attn.k_norm.weight", "attention.key_gain", channels.rotated.clone());
        }
        pieces.columns("self_attn.o_proj.weight", "attention.output", 0..d.width);
        pieces.whole("post_attention_layernorm.weight", "feed_forward_norm.gain");
        let mut first = 0;
        if resolved.config.feed_forward.is_gated() {
            pieces.columns("mlp.gate_proj.weight", "feed_forward.input", 0..inner);
            first = inner;
        }
        pieces.columns("mlp.up_proj.weight", "feed_forward.input", first..first + inner);
        pieces.columns("mlp.down_proj.weight", "feed_forward.output", 0..d.width);
    }
    pieces.begin("model.".to_owned(), String::new());
    pieces.whole("norm.weight", "norm.gain");
    pieces.with_head(resolved, "lm_head.weight")
}

fn gpt_neox(resolved: &Resolved, channels: &Channels) -> Vec<Piece> {
    let (d, inner) = (&resolved.dimensions, resolved.feed_forward_width);
    let mut pieces = Pieces::new("gpt_neox.");
    pieces.whole("embed_in.weight", "embedding");
    for layer in 0..d.layers {
        pieces.begin(format!("gpt_neox.layers.{layer}."), format!("blocks.{layer}."));
        pieces.layer_norm("input_layernorm", "attention_norm");
        // Their packed projection goes head by head: q, k and v of the first, then of the next.
        let of_head = |head| channels.query(head).chain(channels.key(head)).chain(channels.value(head));
        let packed = (0..d.heads).flat_map(of_head);
        pieces.columns("attention.query_key_value.weight", "attention.qkv", packed);
        pieces.columns("attention.dense.weight", "attention.output", 0..d.width);
        pieces.layer_norm("post_attention_layernorm", "feed_forward_norm");
        pieces.columns("mlp.dense_h_to_4h.weight", "feed_forward.input", 0..inner);
        pieces.add("mlp.dense_h_to_4h.bias", Source::Zeros { count: inner });
        pieces.columns("mlp.dense_4h_to_h.weight", "feed_forward.output", 0..d.width);
        pieces.add("mlp.dense_4h_to_h.bias", Source::Zeros { count: d.width });
    }
    pieces.begin("gpt_neox.".to_owned(), String::new());
    pieces.layer_norm("final_layer_norm", "norm");
    pieces.with_head(resolved, "embed_out.weight")
}

fn gpt2(resolved: &Resolved) -> Vec<Piece> {
    let (d, inner) = (&resolved.dimensions, resolved.feed_forward_width);
    let mut pieces = Pieces::new("transformer.");
    pieces.whole("wte.weight", "embedding");
    pieces.whole("wpe.weight", "position.encodings.0.Learned.table");
    for layer in 0..d.layers {
        pieces.begin(format!("transformer.h.{layer}."), format!("blocks.{layer}."));
        pieces.layer_norm("ln_1", "attention_norm");
        pieces.layer_norm("ln_2", "feed_forward_norm");
        // Their `Conv1D` is `[inputs, outputs]` as ours.
        for (theirs, ours, count) in [
            ("attn.c_attn", "attention.qkv", 3 * d.width),
            ("attn.c_proj", "attention.output", d.width),
            ("mlp.c_fc", "feed_forward.input", inner),
            ("mlp.c_proj", "feed_forward.output", d.width),
        ] {
            pieces.whole(&format!("{theirs}.weight"), ours);
            pieces.add(&format!("{theirs}.bias"), Source::Zeros { count });
        }
    }
    pieces.begin("transformer.".to_owned(), String::new());
    pieces.layer_norm("ln_f", "norm");
    pieces.with_head(resolved, "lm_head.weight")
}
