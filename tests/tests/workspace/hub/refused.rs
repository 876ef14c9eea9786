//! What has no published counterpart, and files that do not fit: each is said in the words of the file.

use super::{LAYER_NORM, Made, SWIGLU, edit, imported, logits};
use crate::common::models::distance;
use crate::common::{Project, set};
use burn::tensor::Device;
use longwave_hub::{Architecture, tensors};
use longwave_train::FileScaling;
use serde_json::{Value, json};
use std::fs;

#[test]
fn what_no_published_architecture_computes_is_said() {
    let told = |position: &str, model: &str| {
        let (_, exported) = Made::new(position, model).export("exported");
        assert_eq!(exported.architecture, Architecture::Longwave, "{position} {model}");
        exported.obstacle.unwrap()
    };
    assert!(told("'alibi'", "").contains("`position.kind = \"alibi\"`"));
    assert_eq!(told("['rope', 'alibi']", ""), "none has the encodings `rope+alibi`");
    let mixed = "{ kind = 'mixed', layers = ['rope', 'none'], pattern = [0, 1] }";
    assert_eq!(told(mixed, SWIGLU), "none has the encodings `rope/none`");
    for (position, model, part) in [
        ("{ kind = 'rope', p = 0.5 }", SWIGLU, "`p = 0.5`"),
        ("{ kind = 'rope', hope = true }", SWIGLU, "hope"),
        ("{ kind = 'rope', fraction = 0.5 }", SWIGLU, "`fraction = 0.5`"),
        ("'rope'", "log_n = true", "log_n"),
        ("'rope'", "qk_norm = \"key\"", "qk_norm"),
        ("'rope'", "attention_gate = \"head\"", "attention_gate"),
        ("'rope'", "canon = [\"attention\"]", "canon"),
        ("'rope'", "norm_attention_output = true", "norm_attention_output"),
        ("'rope'", "qk_norm = \"rms\"\nfeed_forward = \"swiglu\"", "qk_norm_eps"),
        ("'rope'", "qk_norm = \"rms\"\nqk_norm_eps = 1e-5", "swiglu"),
        ("'rope'", "norm = \"layer_norm\"\nkv_heads = 2", "key heads"),
        ("'rope'", "norm = \"dyt\"\nfeed_forward = \"swiglu\"", "`norm` is `rms_norm`"),
        ("'rope'", "norm = \"layer_norm\"\nfeed_forward = \"relu_squared\"", "`feed_forward` is `gelu`"),
        ("'learned'", "", "layer_norm"),
        ("{ kind = 'learned', past_table = 'segment' }", LAYER_NORM, "past_table"),
    ] {
        assert!(told(position, model).contains(part), "{position} {model}: {}", told(position, model));
    }
}

/// transformers 5 refuses a Llama whose heads do not divide its width, though they have a width of their own.
#[test]
fn heads_that_do_not_divide_the_width_are_those_of_no_llama() {
    let project = Project::new();
    project.train(&set(&["model.heads=3", "model.head_dim=8", "train.steps=1", "evaluate=[]"]));
    let told = project.ok(&["export", "runs/small-0", "out"]).stderr;
    assert!(told.contains("`arcee` is nearest, but its width is a multiple of its heads"), "{told}");
}

#[test]
fn a_file_that_does_not_fit_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        let made = Made::new("'rope'", SWIGLU);
        let (folder, _) = made.export("exported");
        edit(&folder, |json| change(json));
        let out = made.folder.path().join("run");
        let error = longwave_hub::import(&folder, FileScaling::Trained)
            .and_then(|import| import.write(&out, &Device::flex()))
            .map(|_| ())
            .unwrap_err();
        assert!(!out.exists(), "something was written");
        assert!(error.hint_text().is_some(), "{error}");
        error.to_string()
    };
    // Beside our run a field must say what the run says.
    assert!(
        refused(&|json| drop(json.insert("rope_theta".into(), json!(5e5))))
            .contains("`rope_theta = 500000` disagree")
    );
    assert!(
        refused(&|json| drop(json.insert("softcap".into(), json!(5)))).contains("`softcap = 5` is not known")
    );
    // Without it the weights must fit the fields.
    for (key, value, part) in [
        ("hidden_act", json!("relu"), "`hidden_act = \"relu\"`"),
        ("num_hidden_layers", json!(3), "the weights have no `model.layers.2"),
        ("num_hidden_layers", json!(1), "no place for the tensor `model.layers.1"),
        ("intermediate_size", json!(40), "has shape [48, 16], and config.json asks for [40, 16]"),
        ("vocab_size", json!(200), "`vocab_size = 200`, and tokenizer.json has 256 entries"),
        ("vocab_size", json!(300), "has shape [256, 16], and config.json asks for [300, 16]"),
        ("tie_word_embeddings", json!(true), "the head differs from the embedding"),
    ] {
        let message = refused(&|json| {
            json.remove("longwave");
            json.insert(key.to_owned(), value.clone());
        });
        assert!(message.contains(part), "{key}: {message}");
    }
}

#[test]
fn what_the_import_refuses_its_check_refuses_in_the_words_of_the_file() {
    let longrope = json!({ "rope_type": "longrope", "factor": 4.0, "long_factor": [2.0], "short_factor": [1.0],
                           "original_max_position_embeddings": 16 });
    for (key, value, part) in [
        ("rope_parameters", longrope, "long_factor"),
        ("num_key_value_heads", json!(3), "`num_key_value_heads = 3`"),
        ("rope_theta", json!(1.0), "`rope_theta = 1`"),
        ("max_position_embeddings", json!(0), "`max_position_embeddings = 0`"),
    ] {
        let made = Made::new("'rope'", SWIGLU);
        let (folder, _) = made.export("exported");
        edit(&folder, |json| {
            json.remove("longwave");
            json.remove("rope_parameters");
            json.insert(key.to_owned(), value);
        });
        let out = made.folder.path().join("run");
        let checked = longwave_hub::describe(&folder, FileScaling::Trained, &[]).unwrap_err();
        let imported = longwave_hub::import(&folder, FileScaling::Trained)
            .and_then(|import| import.write(&out, &Device::flex()))
            .unwrap_err();
        for error in [checked, imported] {
            assert!(error.message().contains(part) && error.hint_text().is_some(), "{error}");
            assert!(error.message().contains("config.json"), "{error}");
        }
    }
}

#[test]
fn other_weights_are_another_model() {
    for (position, model) in [("'rope'", SWIGLU), ("'alibi'", "")] {
        let made = Made::new(position, model);
        let (folder, _) = made.export("exported");
        let path = folder.join("model.safetensors");
        let mut tensors = tensors::from_bytes(&fs::read(&path).unwrap()).unwrap();
        tensors.values_mut().next().unwrap().numbers[0] += 1.0;
        fs::write(&path, tensors::to_bytes(&tensors).unwrap()).unwrap();
        let (import, back) = imported(&folder, &made.folder.path().join("run"));
        assert!(import.run.is_none() && !import.notes.is_empty());
        assert!(back.config.imported.is_some() && back.meta.config_hash != made.trained.meta.config_hash);
        assert!(distance(logits(&back.model), logits(&made.trained.model)) > 1e-4);
    }
}
