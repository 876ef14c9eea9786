//! Tiny checkpoints as their families publish them: every field of `config.json`, names and forms of the tensors, special
//! tokens in `tokenizer.json`. The weights are trained here, on words.

use super::{edit, tensors};
use crate::common::{Project, set};
use longwave_hub::tensors::{Stored, Tensors};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The training length of every family.
pub const L: usize = 32;

/// Entries of the vocabulary that is trained; special tokens and padding follow.
const TRAINED: usize = 272;

/// A family of published models.
#[derive(Debug)]
struct Family {
    /// The name of its run and its folder; its `model_type`.
    name: &'static str,
    /// What it is trained with here, besides the config of the other tests.
    settings: &'static [&'static str],
    form: Form,
    special: &'static [&'static str],
    /// Entries of its embedding.
    vocab_size: usize,
    /// The fields of its `config.json` that the sizes of the trained model do not decide.
    fields: fn() -> Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    F32,
    F16,
    Bf16,
}

/// As `meta-llama/Llama-3.2-1B`, `openai-community/gpt2`, `togethercomputer/RedPajama-INCITE-Base-3B-v1` and
/// `Qwen/Qwen3-0.6B`, but for what the sizes change. GPT-2's own activation
/// and its biases are not computed here, so a file that has them is rejected.
const FAMILIES: [Family; 4] = [
    Family {
        name: "llama",
        settings: &[
            "model.feed_forward=swiglu",
            "model.kv_heads=1",
            "model.tied=true",
            "position.base=500000.0",
        ],
        form: Form::Bf16,
        special: &["<|begin_of_text|>", "<|end_of_text|>"],
        vocab_size: TRAINED + 2,
        fields: llama,
    },
    Family {
        name: "gpt2",
        settings: &["model.norm=layer_norm", "model.tied=true", "position={ kind = 'learned' }"],
        form: Form::F32,
        special: &["<|endoftext|>"],
        vocab_size: TRAINED + 1,
        fields: gpt2,
    },
    Family {
        name: "gpt_neox",
        settings: &["model.norm=layer_norm", "position.fraction=0.25"],
        form: Form::F16,
        special: &["<|endoftext|>", "<|padding|>"],
        vocab_size: 288,
        fields: gpt_neox,
    },
    Family {
        name: "qwen3",
        settings: &[
            "model.feed_forward=swiglu",
            "model.kv_heads=1",
            "model.qk_norm=rms",
            "model.norm_eps=1e-6",
            "model.tied=true",
            "position.base=1000000.0",
        ],
        form: Form::Bf16,
        special: &["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        vocab_size: 288,
        fields: qwen3,
    },
];

fn llama() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": TRAINED, "eos_token_id": [TRAINED + 1], "hidden_act": "silu", "initializer_range": 0.02,
        "max_position_embeddings": 8 * L, "mlp_bias": false, "model_type": "llama", "pretraining_tp": 1,
        "rope_scaling": {
            "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
            "original_max_position_embeddings": L, "rope_type": "llama3",
        },
        "rope_theta": 500_000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers_version": "4.45.0.dev0", "use_cache": true,
    })
}

fn gpt2() -> Value {
    json!({
        "activation_function": "gelu", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": TRAINED, "embd_pdrop": 0.1, "eos_token_id": TRAINED, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-5, "model_type": "gpt2", "n_ctx": L, "n_embd": 32, "n_head": 2, "n_layer": 2,
        "n_positions": L, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
        "task_specific_params": { "text-generation": { "do_sample": true, "max_length": 50 } },
    })
}

fn gpt_neox() -> Value {
    json!({
        "architectures": ["GPTNeoXForCausalLM"], "attention_bias": false, "bos_token_id": TRAINED,
        "eos_token_id": TRAINED, "hidden_act": "gelu", "initializer_range": 0.02, "layer_norm_eps": 1e-5,
        "max_position_embeddings": L, "model_type": "gpt_neox", "rotary_emb_base": 10000, "rotary_pct": 0.25,
        "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.28.1",
        "use_cache": true, "use_parallel_residual": false,
    })
}

fn qwen3() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": TRAINED, "eos_token_id": TRAINED + 2, "hidden_act": "silu", "initializer_range": 0.02,
        "max_position_embeddings": L, "max_window_layers": 2, "model_type": "qwen3", "rms_norm_eps": 1e-6,
        "rope_scaling": null, "rope_theta": 1_000_000, "sliding_window": null, "tie_word_embeddings": true,
        "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
        "use_sliding_window": false,
    })
}

/// What another program would write of the sizes: our export has them under the published names.
const SIZES: [&str; 8] = [
    "head_dim",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "vocab_size",
];

/// A folder of its own with the model of a family in the folder of its name.
pub fn published(name: &str) -> Project {
    static PUBLISHED: [OnceLock<Project>; FAMILIES.len()] = [const { OnceLock::new() }; FAMILIES.len()];
    let place = FAMILIES.iter().position(|family| family.name == name).unwrap();
    Project::copy_of(&PUBLISHED[place], |project| FAMILIES[place].publish(project))
}

impl Family {
    /// Trains a small model and lays it in the folder of the family's name, with no trace of us.
    fn publish(&self, project: &Project) {
        let run = format!("runs/trained-{}", self.name);
        let tokenizer = format!("data.tokenizer={{ kind = 'bpe', vocab_size = {TRAINED} }}");
        let shared = ["train.steps=100", "train.learning_rate=1e-2", "evaluate=[]", &tokenizer];
        project.train(&[&set(&[&shared, self.settings].concat())[..], &["--out", &run]].concat());
        let exported = project.ok(&["export", &run, self.name]);
        assert!(exported.stderr.contains(&format!("as `{}`", self.name)), "{}", exported.stderr);
        let folder = project.path(self.name);
        edit(&folder, |json| *json = self.config(json));
        self.rewrite_weights(&folder.join("model.safetensors"));
        self.rewrite_tokenizer(&folder.join("tokenizer.json"));
    }

    fn config(&self, exported: &Map<String, Value>) -> Map<String, Value> {
        let mut fields = (self.fields)().as_object().unwrap().clone();
        for key in SIZES.iter().filter(|key| exported.contains_key(**key) && self.name != "gpt2") {
            fields.insert((*key).to_owned(), exported[*key].clone());
        }
        fields.insert("vocab_size".to_owned(), self.vocab_size.into());
        fields
    }

    /// A row of zeros for each special token and each entry of padding, in the family's form of numbers.
    fn rewrite_weights(&self, path: &Path) {
        let mut tensors = tensors::from_bytes(&fs::read(path).unwrap()).unwrap();
        let tables =
            ["embed_tokens.weight", "wte.weight", "embed_in.weight", "embed_out.weight", "lm_head.weight"];
        for (_, table) in tensors.iter_mut().filter(|(name, _)| tables.iter().any(|end| name.ends_with(end)))
        {
            assert_eq!(table.shape[0], TRAINED);
            table.numbers.resize(self.vocab_size * table.shape[1], 0.0);
            table.shape[0] = self.vocab_size;
        }
        // Buffers that these two families carry; GPT-2's file has no prefix.
        let mask = Stored { shape: vec![1, 1, L, L], numbers: vec![1.0; L * L] };
        if self.name == "gpt2" {
            tensors.insert("transformer.h.0.attn.bias".to_owned(), mask);
            let bare = |name: String| name.trim_start_matches("transformer.").to_owned();
            tensors = tensors.into_iter().map(|(name, stored)| (bare(name), stored)).collect();
        } else if self.name == "gpt_neox" {
            tensors.insert("gpt_neox.layers.0.attention.bias".to_owned(), mask);
            let frequencies = Stored { shape: vec![2], numbers: vec![1.0, 0.01] };
            tensors.insert("gpt_neox.layers.0.attention.rotary_emb.inv_freq".to_owned(), frequencies);
        }
        fs::write(path, safetensors(&tensors, self.form)).unwrap();
    }

    /// Special tokens behind the vocabulary, and the parts around it that the family has.
    fn rewrite_tokenizer(&self, path: &Path) {
        let mut json: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let added = self.special.iter().enumerate().map(|(index, content)| {
            json!({
                "id": TRAINED + index, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            })
        });
        json["added_tokens"] = added.collect();
        let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false });
        if ["llama", "qwen3"].contains(&self.name) {
            let pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
            let split = json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false });
            json["pre_tokenizer"] = json!({ "type": "Sequence", "pretokenizers": [split, bytes] });
            json["post_processor"] = bytes;
        }
        if self.name == "qwen3" {
            json["normalizer"] = json!({ "type": "NFC" });
        }
        fs::write(path, json.to_string()).unwrap();
    }
}

/// The bytes of a file of tensors: the length of its header, the header, the numbers.
fn safetensors(tensors: &Tensors, form: Form) -> Vec<u8> {
    let (mut header, mut numbers) = (Map::new(), Vec::new());
    let dtype = match form {
        Form::F32 => "F32",
        Form::F16 => "F16",
        Form::Bf16 => "BF16",
    };
    for (name, stored) in tensors {
        let start = numbers.len();
        for &number in &stored.numbers {
            match form {
                Form::F32 => numbers.extend(number.to_le_bytes()),
                Form::F16 => numbers.extend(burn::tensor::f16::from_f32(number).to_le_bytes()),
                Form::Bf16 => numbers.extend(burn::tensor::bf16::from_f32(number).to_le_bytes()),
            }
        }
        let entry = json!({ "dtype": dtype, "shape": stored.shape, "data_offsets": [start, numbers.len()] });
        header.insert(name.clone(), entry);
    }
    let mut header = Value::Object(header).to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &numbers].concat()
}
