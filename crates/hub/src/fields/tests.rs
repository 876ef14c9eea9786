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
fn two_places_that_disagree_about_the_base_are_named() {
    for base in [500.0, 0.0, 1.0] {
        let mut fields = llama();
        fields.insert("rope_theta".to_owned(), json!(base));
        fields.insert("rope_parameters".to_owned(), json!({ "rope_type": "default", "rope_theta": 1e4 }));
        let error = read(&fields).unwrap_err();
        let named = format!("`rope_parameters.rope_theta = 10000` and `rope_theta = {base}` disagree");
        assert!(error.message().contains(&named) && error.hint_text().is_some(), "{error}");
    }
    let mut fields = llama();
    fields.insert("rope_theta".to_owned(), json!(10_000));
    fields.insert("rope_parameters".to_owned(), json!({ "rope_type": "default", "rope_theta": 1e4 }));
    assert_eq!(read(&fields).unwrap().position["base"].as_float(), Some(1e4));
}

#[test]
fn a_number_that_is_not_allowed_is_named_by_the_key_of_the_file() {
    for (key, value, start) in [
        ("rope_theta", json!(0), "`rope_theta = 0` is not allowed: it must be a number above 1"),
        (
            "num_key_value_heads",
            json!(3),
            "`num_key_value_heads = 3` is not allowed: it must divide `num_attention_heads = 4`",
        ),
        ("rms_norm_eps", json!(0.0), "`rms_norm_eps = 0` is not allowed: it must be a number above 0"),
        ("max_position_embeddings", json!(0), "`max_position_embeddings = 0` is not allowed"),
    ] {
        let message = message_of(key, value);
        assert!(message.starts_with(start) && message.contains("hint: "), "{message}");
    }
    let mut fields = llama();
    fields.insert("max_position_embeddings".to_owned(), json!(0));
    fields.insert("rope_parameters".to_owned(), json!({ "rope_type": "default", "rope_theta": 5e5 }));
    let message = read(&fields).unwrap_err().to_string();
    assert!(message.starts_with("`max_position_embeddings = 0` is not allowed"), "{message}");
}

#[test]
fn a_llama_is_read() {
    let described = read(&llama()).unwrap();
    assert_eq!((described.architecture, described.longest), (Architecture::Llama, 64));
    assert_eq!(described.model["head_dim"].as_integer(), Some(4));
    assert_eq!(described.model["norm_eps"].as_float(), Some(1e-6));
    assert_eq!(described.position["base"].as_float(), Some(5e5));
    let mut newer = llama();
    newer.remove("rope_theta");
    newer.insert("rope_parameters".into(), json!({ "rope_type": "default", "rope_theta": 2e4 }));
    assert_eq!(read(&newer).unwrap().position["base"].as_float(), Some(2e4));
}

/// Fields that published models have: those of Qwen2.5, and of `SmolLM3` and the larger Llama 2.
#[test]
fn what_published_files_say_besides_is_read() {
    let mut qwen = llama();
    qwen.extend(
        json!({
            "model_type": "qwen2", "attention_dropout": 0.0, "eos_token_id": 2, "initializer_range": 0.02,
            "max_window_layers": 24, "sliding_window": 64, "use_mrope": false, "use_sliding_window": false,
        })
        .as_object()
        .unwrap()
        .clone(),
    );
    assert_eq!(read(&qwen).unwrap().architecture, Architecture::Qwen2);
    let mut split = llama();
    split.insert("pretraining_tp".into(), json!(2));
    assert_eq!(read(&split).unwrap(), read(&llama()).unwrap());
    qwen.insert("use_mrope".into(), json!(true));
    let error = read(&qwen).unwrap_err().to_string();
    assert!(
        error.starts_with("`use_mrope = true` is not allowed: our model computes `false` only"),
        "{error}"
    );
}

/// L where a model was trained with its scaling, and where that was added.
fn lengths(change: impl Fn(&mut Map<String, Value>)) -> (usize, usize) {
    let mut fields = llama();
    change(&mut fields);
    let described = read(&fields).unwrap_or_else(|error| panic!("{fields:?}: {error}"));
    (described.train_length(FileScaling::Trained), described.train_length(FileScaling::Added))
}

#[test]
fn l_is_the_length_after_scaling_or_the_one_before() {
    let scaled =
        |scaling: Value| lengths(|fields| drop(fields.insert("rope_scaling".into(), scaling.clone())));
    let yarn = json!({ "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16 });
    assert_eq!(scaled(yarn.clone()), (64, 16));
    // A float is that number, and the length may stand beside.
    let beside = |length: Value| {
        lengths(|fields| {
            fields.insert("rope_scaling".into(), json!({ "rope_type": "yarn", "factor": null }));
            fields.insert("original_max_position_embeddings".into(), length.clone());
        })
    };
    assert_eq!((beside(json!(16.0)), beside(json!(32))), ((64, 16), (64, 32)));
    // Where the longest text is that before scaling, the factor says the length after it.
    let full = json!({ "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64 });
    assert_eq!(scaled(full), (256, 64));
    // `dynamic` counts from the longest text, and `linear` does not say from where.
    let dynamic = json!({ "rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 16 });
    assert_eq!((scaled(dynamic), scaled(json!({ "type": "linear", "factor": 4.0 }))), ((64, 64), (64, 64)));
    assert_eq!(lengths(|_| {}), (64, 64));
}

#[test]
fn relatives_of_llama_say_what_their_layers_read() {
    let position = |kind: &str, more: Value| {
        let mut fields = llama();
        fields.insert("model_type".into(), kind.into());
        fields.extend(more.as_object().unwrap().clone());
        read(&fields).map(|described| described.position)
    };
    let rope = position("llama", json!({})).unwrap();
    assert_eq!(position("mistral", json!({ "sliding_window": null })).unwrap(), rope);
    let windowed = |length: usize| {
        table(&json!({ "kind": "mixed", "layers": [{ "kind": "rope", "base": 5e5, "window": length }], "pattern": [0, 0] }))
            .unwrap()
    };
    assert_eq!(position("mistral", json!({ "sliding_window": 48 })).unwrap(), windowed(48));
    assert_eq!(position("mistral", json!({})).unwrap(), windowed(4096));
    let unused = json!({ "sliding_window": 48, "use_sliding_window": false, "max_window_layers": 1 });
    assert_eq!(position("qwen2", unused).unwrap(), rope);
    let used = json!({ "sliding_window": 48, "use_sliding_window": true, "max_window_layers": 1 });
    let found = position("qwen2", used).unwrap();
    let pattern: Vec<_> = found["pattern"].as_array().unwrap().iter().map(toml::Value::as_integer).collect();
    assert_eq!((pattern, found["layers"][1]["window"].as_integer()), (vec![Some(0), Some(1)], Some(48)));
    // A file may leave out what its architecture has a default for, which is not that of a Llama.
    let left_out = json!({ "use_sliding_window": true, "max_window_layers": 0 });
    for kind in ["qwen2", "qwen3"] {
        assert_eq!(position(kind, left_out.clone()).unwrap(), windowed(4096));
    }
    let none = json!({ "use_sliding_window": true, "max_window_layers": 0, "sliding_window": null });
    assert_eq!(position("qwen2", none).unwrap(), rope);
    let base = |kind: &str| {
        let every_layer = json!({ "rope_theta": null, "no_rope_layers": [1, 1] });
        let more = if kind == "smollm3" { every_layer } else { json!({ "rope_theta": null }) };
        position(kind, more).unwrap()["base"].as_float()
    };
    assert_eq!((base("llama"), base("smollm3")), (Some(1e4), Some(2e6)));
    let nulls = json!({ "partial_rotary_factor": null, "original_max_position_embeddings": null });
    assert_eq!(position("llama", nulls).unwrap(), rope);
    let listed = json!({ "sliding_window": 48, "layer_types": ["sliding_attention", "full_attention"] });
    assert_eq!(position("mistral", listed.clone()).unwrap()["layers"][0]["window"].as_integer(), Some(48));
    assert!(position("llama", listed).unwrap_err().message().contains("layer_types"));
    let smol = position("smollm3", json!({ "no_rope_layers": [1, 0] })).unwrap();
    assert_eq!(smol["layers"][1]["kind"].as_str(), Some("none"));
    assert!(position("smollm3", json!({ "no_rope_layers": [1] })).is_err());
}

#[test]
fn what_our_model_does_not_compute_is_named() {
    for (key, value, part) in [
        ("hidden_act", json!("gelu"), "`hidden_act = \"gelu\"`"),
        ("attention_bias", json!(true), "`attention_bias = true`"),
        ("mlp_bias", json!(true), "`mlp_bias = true`"),
        ("partial_rotary_factor", json!(0.5), "`partial_rotary_factor = 0.5`"),
        ("rope_scaling", json!({ "factor": 2.0 }), "`rope_scaling` has no `rope_type`"),
        (
            "rope_scaling",
            json!({ "rope_type": "yarn", "factor": 2.0, "attn_factor": 0.5 }),
            "`rope_scaling.attn_factor = 0.5`",
        ),
        ("original_max_position_embeddings", json!(16.5), "whole number of tokens"),
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

/// A GPT-NeoX that says neither base nor share; those of transformers are 10,000 and 0.25.
fn gpt_neox(more: &Value) -> Result<Described> {
    let mut fields = json!({
        "model_type": "gpt_neox", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 64, "vocab_size": 256, "use_parallel_residual": false,
        "attention_bias": false,
    });
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    read(fields.as_object().unwrap())
}

#[test]
fn names_of_another_architecture_are_not_read() {
    let turns = |described: Described| {
        let number = |key: &str| described.position[key].as_float();
        (number("base"), number("fraction"))
    };
    for (more, expected) in [
        (json!({}), (1e4, 0.25)),
        (json!({ "rotary_emb_base": 500, "rotary_pct": 0.5 }), (500.0, 0.5)),
        // As transformers 4.57 saves it.
        (
            json!({ "rotary_emb_base": 500, "rotary_pct": 0.5, "rope_theta": 500, "partial_rotary_factor": 0.5 }),
            (500.0, 0.5),
        ),
        // As transformers 5.24 saves it.
        (
            json!({ "rope_parameters": { "rope_theta": 500, "partial_rotary_factor": 0.5, "rope_type": "default" } }),
            (500.0, 0.5),
        ),
        (json!({ "rope_theta": 1e4, "partial_rotary_factor": 0.25 }), (1e4, 0.25)),
    ] {
        let (base, share) = turns(gpt_neox(&more).unwrap_or_else(|error| panic!("{more}: {error}")));
        assert_eq!((base, share), (Some(expected.0), Some(expected.1)), "{more}");
    }
    for (more, start) in [
        (
            json!({ "rope_theta": 321.0 }),
            "`rope_theta = 321.0` is not allowed: a `gpt_neox` reads `rotary_emb_base` in its place, here 10000",
        ),
        (
            json!({ "partial_rotary_factor": 0.5 }),
            "`partial_rotary_factor = 0.5` is not allowed: a `gpt_neox` reads `rotary_pct` in its place, here 0.25",
        ),
        (
            json!({ "rope_theta": 321, "rotary_emb_base": 500 }),
            "`rope_theta = 321` and `rotary_emb_base = 500` disagree",
        ),
    ] {
        let error = gpt_neox(&more).unwrap_err();
        assert!(error.message().starts_with(start) && error.hint_text().is_some(), "{error}");
    }
    let mut fields = llama();
    fields.extend([("rotary_emb_base".to_owned(), json!(5e5)), ("rotary_pct".to_owned(), json!(1.0))]);
    assert_eq!(read(&fields).unwrap().position["base"].as_float(), Some(5e5));
    fields.remove("rope_theta");
    let error = read(&fields).unwrap_err();
    let start =
        "`rotary_emb_base = 500000.0` is not allowed: a `llama` reads `rope_theta` in its place, here 10000";
    assert!(error.message().starts_with(start), "{error}");
    let message = message_of("rotary_pct", json!(0.5));
    assert!(
        message.starts_with("`rotary_pct = 0.5` is not allowed: a `llama` reads `partial_rotary_factor`"),
        "{message}"
    );
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
