//! Other people's models: a folder as four families publish it becomes a run, is read at eight times its training length
//! with every extension that applies, and has a table. docs/src/guides/other-models.md shows the same commands.

use super::published::{FAMILIES, Family, L};
use crate::common::{Outcome, Project};
use longwave_core::memory_check::available;
use longwave_position::{Lengths, extensions};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Of the same loss at L: rounding of f32 over all scored tokens.
const SAME: f64 = 1e-4;

fn ok(project: &Project, arguments: &[&str]) -> Outcome {
    let outcome = project.run(arguments);
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.stderr);
    outcome
}

/// The losses of an evaluation by extension and length.
fn losses(rows: &str) -> BTreeMap<(String, u64), f64> {
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let loss = row["nll"].as_f64().unwrap_or_else(|| panic!("no loss: {line}"));
        ((row["extend"].as_str().unwrap().to_owned(), row["length"].as_u64().unwrap()), loss)
    };
    rows.lines().map(row).collect()
}

/// The names that a line of `eval` leaves out.
fn left_out(stderr: &str) -> BTreeSet<String> {
    let lines = stderr.lines().filter_map(|line| line.strip_prefix("left out  "));
    let names = |line: &str| {
        line.split([':', '(']).next().unwrap().trim_end().split(", ").map(str::to_owned).collect::<Vec<_>>()
    };
    lines.flat_map(names).collect()
}

/// Extensions that promise, with default keys, to read texts of L tokens as trained.
fn keeps_short_texts() -> BTreeSet<String> {
    let examples = extensions::examples(8, Lengths { train: L, length: 8 * L }).unwrap();
    let plain = examples.iter().filter(|(_, it)| it.keys.is_empty() && it.keeps_short_texts);
    plain.map(|(extension, _)| extension.kind().to_owned()).collect()
}

fn walk(family: &Family) {
    let (project, name) = (Project::new(), family.name);
    family.publish(&project);
    let run = format!("runs/{name}-0");

    let checked = ok(&project, &["import", name, "--check"]).stdout;
    assert!(checked.contains(&format!("{name}: 2 layers")) && checked.contains("to import"), "{checked}");
    assert!(!project.exists(&run), "`--check` writes nothing");
    let told = ok(&project, &["import", name, "--set", "data.corpus=corpus"]).stderr;
    assert!(told.contains(&format!("a `{name}` model of training length {L}")), "{told}");

    let short = ["import", name, "--out", "runs/short", "--set", "train.length=20"];
    assert!(ok(&project, &short).stderr.contains("of training length 20"), "{name}");

    let asked = ["--lengths", "L,8L", "--extend", "all", "--device", "cpu"];
    let evaluated = ok(&project, &[&["eval", &run][..], &asked, &["--json"]].concat());
    assert!(evaluated.stderr.contains(" of weights, "), "{}", evaluated.stderr);
    #[cfg(target_os = "linux")]
    assert!(evaluated.stderr.contains(" held at most"), "{}", evaluated.stderr);
    let losses = losses(&evaluated.stdout);
    let read: BTreeSet<String> = losses.keys().map(|(extend, _)| extend.clone()).collect();
    let left_out = left_out(&evaluated.stderr);
    for entry in extensions::kinds() {
        let (read, left_out) = (read.contains(entry.kind), left_out.contains(entry.kind));
        assert!(read != left_out, "{name}: {} is read: {read}, left out: {left_out}", entry.kind);
    }
    assert_eq!(losses.len(), 2 * read.len(), "{name}: a length is missing");
    assert!(losses.values().all(|loss| loss.is_finite()), "{name}: {losses:?}");
    let at = |extend: &str, length: usize| losses[&(extend.to_owned(), length as u64)];
    // Nine words in turn: a model that learned nothing is at ln(273) = 5.6.
    assert!(at("window_baseline", L) < 2.5, "{name} has learned nothing: {losses:?}");
    let kept = keeps_short_texts();
    let promised: Vec<&String> = read.intersection(&kept).collect();
    for extend in &promised {
        let off = (at(extend, L) - at("window_baseline", L)).abs();
        assert!(off < SAME, "{name}: {extend} is {off} off at L");
    }
    let least = if name == "gpt2" { 2 } else { 15 };
    assert!(promised.len() >= least && read.len() >= least + 2, "{name}: {read:?}, {promised:?}");

    let table = ok(&project, &["report", &run, "--format", "text"]).stdout;
    for extend in &read {
        let named = |line: &str| line.split_whitespace().next() == Some(extend.as_str());
        assert!(table.lines().any(named), "{name}: the table has no {extend}: {table}");
    }
    assert!(table.contains("256 (8L)") && project.exists(&format!("{run}/report.html")), "{table}");
    let text = ok(&project, &["generate", &run, "--prompt", "the wave", "--max-tokens", "8"]).stdout;
    assert!(text.starts_with("the wave"), "{text}");
    // So hot that every entry is as likely as the next: those behind the tokenizer's are none of its tokens.
    let hot = ["--prompt", "the", "--max-tokens", "100", "--temperature", "1000", "--extend", "segments"];
    ok(&project, &[&["generate", &run][..], &hot].concat());
}

/// Published fields alone, with the numbers of parameters that their authors give: HuggingFaceTB/SmolLM-135M and
/// meta-llama/Llama-3.2-1B.
#[test]
fn a_config_alone_says_what_its_model_takes() {
    let project = Project::new();
    let smol = json!({
        "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 0,
        "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.0417,
        "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 2048, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
        "pretraining_tp": 1, "rms_norm_eps": 1e-5, "rope_interleaved": false, "rope_scaling": null,
        "rope_theta": 10000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers.js_config": { "kv_cache_dtype": { "q4f16": "float16" } },
        "transformers_version": "4.40.1", "use_cache": true, "vocab_size": 49152,
    });
    let mut large = smol.as_object().unwrap().clone();
    let scaling = json!({
        "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3",
    });
    for (key, value) in [
        ("hidden_size", json!(2048)),
        ("intermediate_size", json!(8192)),
        ("max_position_embeddings", json!(131_072)),
        ("num_attention_heads", json!(32)),
        ("num_hidden_layers", json!(16)),
        ("num_key_value_heads", json!(8)),
        ("rope_scaling", scaling),
        ("rope_theta", json!(5e5)),
        ("vocab_size", json!(128_256)),
    ] {
        large.insert(key.to_owned(), value);
    }
    let check = |name: &str, config: &str, more: &[&str]| {
        project.write(&format!("{name}/config.json"), config);
        ok(&project, &[&["import", name, "--check"], more].concat()).stdout
    };
    insta::assert_snapshot!("check_of_135_million", check("smol", &smol.to_string(), &[]));
    let shorter = check("smol", &smol.to_string(), &["--set", "train.length=1024"]);
    assert!(shorter.contains("training length 1,024") && shorter.contains("8L = 8,192"), "{shorter}");
    // Sizes whose weights do not fit are rejected, here as in every command.
    if available().is_none_or(|free| free > 6 << 30) {
        insta::assert_snapshot!(
            "check_of_a_billion",
            check("large", &Value::Object(large.clone()).to_string(), &[])
        );
    }
    large.insert("hidden_act".to_owned(), json!("gelu_new"));
    project.write("large/config.json", &Value::Object(large).to_string());
    let refused = project.refused(2, &["import", "large", "--check"]);
    assert!(refused.contains("`hidden_act = \"gelu_new\"` is not allowed"), "{refused}");
}

#[test]
fn weights_in_several_files_are_refused_by_name() {
    let project = Project::new();
    FAMILIES[1].publish(&project);
    let [one, first] = ["gpt2/model.safetensors", "gpt2/model-00001-of-00002.safetensors"];
    fs::rename(project.path(one), project.path(first)).unwrap();
    project.write("gpt2/model.safetensors.index.json", "{}");
    let refused = project.refused(2, &["import", "gpt2"]);
    assert!(refused.contains("holds weights in several files") && refused.contains("as one"), "{refused}");
}

#[test]
fn a_llama_is_walked_from_its_folder_to_its_table() {
    walk(&FAMILIES[0]);
}

#[test]
fn a_gpt2_is_walked_from_its_folder_to_its_table() {
    walk(&FAMILIES[1]);
}

#[test]
fn a_gpt_neox_is_walked_from_its_folder_to_its_table() {
    walk(&FAMILIES[2]);
}

#[test]
fn a_qwen3_is_walked_from_its_folder_to_its_table() {
    walk(&FAMILIES[3]);
}
