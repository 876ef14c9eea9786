//! What is read of a `config.json`, and what is rejected.

use super::write::share;
use super::*;
use serde_json::json;

fn llama() -> Map<String, Value> {
    let fields = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": 1, "torch_dtype": "float16",
        "hidden_act": "silu", "hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 64,
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "pretraining_tp": 1,
        "rms_norm_eps": 1e-6, "rope_scaling": null, "rope_theta": 5e5, "tie_word_embeddings": true,
        "transformers_version": "4.40.0", "use_cache": true, "vocab_size": 300,
    });
    fields.as_object().unwrap().clone()
}

fn message_of(key: &str, value: Value) -> String {
    let mut fields = llama();
    fields.insert(key.to_owned(), value);
    read(&fields).unwrap_err().to_string()
}

#[test]
fn a_llama_is_read() {
    let described = read(&llama()).unwrap();
    assert_eq!((described.architecture, described.length), (Architecture::Llama, 64));
    assert_eq!(described.model["head_dim"].as_integer(), Some(4));
    assert_eq!(described.model["norm_eps"].as_float(), Some(1e-6));
    assert_eq!(described.position["base"].as_float(), Some(5e5));
    let mut newer = llama();
    newer.remove("rope_theta");
    newer.insert("rope_parameters".into(), json!({ "rope_type": "default", "rope_theta": 2e4 }));
    assert_eq!(read(&newer).unwrap().position["base"].as_float(), Some(2e4));
}

#[test]
fn a_scaling_is_kept_beside_the_model_that_was_trained() {
    let scaled = |scaling: Value| {
        let mut fields = llama();
        fields.insert("rope_scaling".into(), scaling);
        read(&fields).unwrap()
    };
    let yarn = json!({ "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16 });
    let described = scaled(yarn.clone());
    assert_eq!((described.length, described.scaling.map(Value::Object)), (16, Some(yarn)));
    // Nobody says what these were trained on, but for the longest text.
    let dynamic = json!({ "rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 16 });
    assert_eq!(scaled(dynamic).length, 64);
    let linear = scaled(json!({ "type": "linear", "factor": 4.0 }));
    assert_eq!((linear.length, linear.scaling.is_some()), (64, true));
    assert_eq!(linear.position["base"].as_float(), Some(5e5));
    assert_eq!(read(&llama()).unwrap().scaling, None);
}

#[test]
fn what_our_model_does_not_compute_is_named() {
    for (key, value, part) in [
        ("hidden_act", json!("gelu"), "`hidden_act = \"gelu\"`"),
        ("attention_bias", json!(true), "`attention_bias = true`"),
        ("mlp_bias", json!(true), "`mlp_bias = true`"),
        ("partial_rotary_factor", json!(0.5), "`partial_rotary_factor = 0.5`"),
        ("rope_scaling", json!({ "factor": 2.0 }), "unknown key `rope_scaling.factor`"),
        ("rope_scaling", json!([2.0]), "it must be an object"),
        ("sliding_window", json!(128), "`sliding_window = 128` is not known"),
        ("logit_scale", json!(2), "`logit_scale = 2` is not known"),
        ("vocab_size", json!("many"), "`vocab_size = \"many\"`"),
        ("model_type", json!("lama"), "did you mean `llama`?"),
        ("model_type", json!("mamba"), "`model_type = \"mamba\"`"),
    ] {
        let message = message_of(key, value);
        assert!(message.contains(part), "{key}: {message}");
    }
    let mut fields = llama();
    fields.remove("hidden_size");
    assert!(read(&fields).unwrap_err().message().contains("`hidden_size` is missing"));
}

#[test]
fn a_share_counts_the_channels_it_came_from() {
    for dim in 1..200usize {
        for turned in (0..=dim).step_by(2) {
            let share = share(turned as f64 / dim as f64, dim);
            assert_eq!((share * dim as f64).floor() as usize, turned, "{turned} of {dim}");
        }
    }
}
