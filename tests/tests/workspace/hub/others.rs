//! Other people's models: a folder as four families publish it becomes a run, is read at eight times its training length
//! with every extension that applies, and has a table. docs/src/guides/other-models.md shows the same commands.

use super::published::{L, published};
use crate::common::Project;
use crate::report::words_of;
use burn::tensor::Device;
use longwave_core::memory_check::available;
use longwave_data::Split;
use longwave_experiment::{FoundRun, Silent};
use longwave_hub::tensors::{self, Tensors};
use longwave_position::{Lengths, extensions};
use longwave_train::Trained;
use longwave_train::run::CheckpointId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Of the same loss at L: rounding of f32 over all scored tokens.
const SAME: f64 = 1e-4;

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

fn walk(name: &str) {
    let project = published(name);
    let run = format!("runs/{name}-0");

    let checked = project.ok(&["import", name, "--check", "--scaling", "added"]).stdout;
    assert!(checked.contains(&format!("{name}: 2 layers")) && checked.contains("to import"), "{checked}");
    assert!(!project.exists(&run), "`--check` writes nothing");
    // Trained without the scaling that Llama's file has.
    let added = ["--scaling", "added", "--set", "data.corpus=corpus"];
    let told = project.ok(&[&["import", name][..], &added].concat()).stderr;
    assert_eq!(told.contains("which was added for reading (`--scaling added`)"), name == "llama", "{told}");
    assert!(told.contains(&format!("a `{name}` model of training length {L}")), "{told}");
    let on = "`eval` reads it on `corpus`, or on another text with `--corpus PATH`";
    assert!(told.contains(on), "{told}");

    let short = ["import", name, "--scaling", "added", "--out", "runs/short", "--set", "train.length=20"];
    assert!(project.ok(&short).stderr.contains("of training length 20"), "{name}");

    let asked = ["--lengths", "L,8L", "--extend", "all", "--device", "cpu"];
    let evaluated = project.ok(&[&["eval", &run][..], &asked, &["--json"]].concat());
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

    let table = project.ok(&["report", &run, "--format", "text"]).stdout;
    for extend in &read {
        let named = |line: &str| line.split_whitespace().next() == Some(extend.as_str());
        assert!(table.lines().any(named), "{name}: the table has no {extend}: {table}");
    }
    assert!(table.contains("256 (8L)") && project.exists(&format!("{run}/report.html")), "{table}");
    let text = project.ok(&["generate", &run, "--prompt", "the wave", "--max-tokens", "8"]).stdout;
    assert!(text.starts_with("the wave"), "{text}");
    // So hot that every entry is as likely as the next: those behind the tokenizer's are none of its tokens.
    let hot = ["--prompt", "the", "--max-tokens", "100", "--temperature", "1000", "--extend", "segments"];
    project.ok(&[&["generate", &run][..], &hot].concat());
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
        project.ok(&[&["import", name, "--check"], more].concat()).stdout
    };
    insta::assert_snapshot!("check_of_135_million", check("smol", &smol.to_string(), &[]));
    let shorter = check("smol", &smol.to_string(), &["--set", "train.length=1024"]);
    assert!(shorter.contains("training length 1,024") && shorter.contains("8L = 8,192"), "{shorter}");
    // `null` is as many as there are heads, where a key that is left out is a constant.
    let mut mistral = smol.as_object().unwrap().clone();
    mistral.insert("model_type".to_owned(), json!("mistral"));
    mistral.insert("num_key_value_heads".to_owned(), Value::Null);
    check("mistral", &Value::Object(mistral.clone()).to_string(), &[]);
    mistral.remove("num_key_value_heads");
    project.write("mistral/config.json", &Value::Object(mistral).to_string());
    project.refuses(2, &["import", "mistral", "--check"], &["`num_key_value_heads` is missing"]);
    // Sizes whose weights do not fit are rejected, here as in every command.
    if available().is_none_or(|free| free > 6 << 30) {
        insta::assert_snapshot!(
            "check_of_a_billion",
            check("large", &Value::Object(large.clone()).to_string(), &[])
        );
    }
    large.insert("hidden_act".to_owned(), json!("gelu_new"));
    project.write("large/config.json", &Value::Object(large).to_string());
    project.refuses(2, &["import", "large", "--check"], &["`hidden_act = \"gelu_new\"` is not allowed"]);
}

#[test]
fn the_page_of_an_imported_run_says_how_it_is_imported_again() {
    let project = published("llama");
    let keys = ["--set", "data.corpus=corpus", "--set", "train.length=20"];
    project.ok(&[&["import", "llama", "--scaling", "added"][..], &keys].concat());
    project.ok(&["eval", "runs/llama-0", "--lengths", "L", "--device", "cpu"]);
    let page = project.text("runs/llama-0/report.html");
    assert!(!page.contains("longwave train"), "imported weights are never trained");
    let command = page.split("<pre>longwave ").find(|rest| rest.starts_with("import DIR ")).unwrap();
    let words = words_of(&command.split('<').next().unwrap().replace("DIR", "llama"));
    project.ok(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let config = |run: &str| project.text(&format!("{run}/config.toml"));
    assert_eq!(config("again/llama-0"), config("runs/llama-0").replace("runs/llama-0", "again/llama-0"));
}

#[test]
fn weights_in_several_files_are_one_model() {
    let project = published("gpt2");
    project.ok(&["import", "gpt2", "--out", "runs/one", "--set", "data.corpus=corpus"]);
    let bytes = project.read("gpt2/model.safetensors");
    fs::remove_file(project.path("gpt2/model.safetensors")).unwrap();
    let all = tensors::from_bytes(&bytes).unwrap();
    let index = |shards: usize| {
        let name = |shard: usize| format!("model-{:05}-of-{shards:05}.safetensors", shard + 1);
        let mut files = vec![Tensors::new(); shards];
        let mut map = serde_json::Map::new();
        for (place, (tensor, stored)) in all.iter().enumerate() {
            files[place % shards].insert(tensor.clone(), stored.clone());
            map.insert(tensor.clone(), name(place % shards).into());
        }
        for (shard, file) in files.iter().enumerate() {
            fs::write(project.path(&format!("gpt2/{}", name(shard))), tensors::to_bytes(file).unwrap())
                .unwrap();
        }
        let index = json!({ "metadata": { "total_size": 1 }, "weight_map": map });
        project.write("gpt2/model.safetensors.index.json", &index.to_string());
    };
    let rows =
        |run: &str| project.ok(&["eval", run, "--lengths", "32", "--json", "--device", "cpu"]).losses();
    for (shards, run) in [(1, "runs/first"), (3, "runs/third")] {
        index(shards);
        project.ok(&["import", "gpt2", "--out", run, "--set", "data.corpus=corpus"]);
        assert_eq!(rows(run), rows("runs/one"), "{shards} files");
    }
    fs::remove_file(project.path("gpt2/model-00002-of-00003.safetensors")).unwrap();
    let missing = project.refused(1, &["import", "gpt2", "--out", "runs/x"]);
    insta::assert_snapshot!("import_without_one_of_the_weight_files", missing);
    project.write("gpt2/model.safetensors.index.json", "{}");
    insta::assert_snapshot!(
        "import_of_an_index_of_nothing",
        project.refused(1, &["import", "gpt2", "--out", "runs/x"])
    );
}

/// What people have in a folder that is no model yet, each with what to do about it.
#[test]
fn folders_that_hold_no_readable_model_are_named() {
    let project = published("llama");
    let weights = project.read("llama/model.safetensors");
    let config = project.text("llama/config.json");
    let import = |status: i32| project.refused(status, &["import", "llama", "--out", "runs/x"]);
    let with_weights = |change: &dyn Fn(Tensors) -> Tensors| {
        let tensors = change(tensors::from_bytes(&weights).unwrap());
        fs::write(project.path("llama/model.safetensors"), tensors::to_bytes(&tensors).unwrap()).unwrap();
    };
    let renamed =
        |tensors: Tensors| tensors.into_iter().map(|(name, it)| (format!("_orig_mod.{name}"), it)).collect();
    with_weights(&renamed);
    insta::assert_snapshot!("import_of_a_compiled_model", import(2));
    with_weights(&|mut tensors| {
        tensors.get_mut("model.norm.weight").unwrap().numbers[3] = f32::NAN;
        tensors
    });
    insta::assert_snapshot!("import_of_weights_that_are_no_numbers", import(1));
    project.write(
        "llama/model.safetensors",
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
    );
    insta::assert_snapshot!("import_of_a_git_lfs_pointer", import(2));
    fs::remove_file(project.path("llama/model.safetensors")).unwrap();
    project.write("llama/pytorch_model.bin", "PK");
    insta::assert_snapshot!("import_of_a_pickle", import(2));
    fs::write(project.path("llama/model.safetensors"), &weights).unwrap();
    let with_config = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        let mut json: Value = serde_json::from_str(&config).unwrap();
        change(json.as_object_mut().unwrap());
        project.write("llama/config.json", &json.to_string());
    };
    with_config(&|json| drop(json.insert("tie_word_embeddings".into(), json!(false))));
    insta::assert_snapshot!("import_without_a_head", import(1));
    with_config(&|json| {
        json.insert("softcap".into(), json!(30.0));
        json.insert("residual_multiplier".into(), json!(0.22));
        json.insert("auto_map".into(), json!({ "AutoConfig": "x.Y" }));
    });
    insta::assert_snapshot!("import_of_fields_that_are_not_known", import(2));
    let inner: Value = serde_json::from_str(&config).unwrap();
    project.write("llama/config.json", &json!({ "model_type": "gemma3", "text_config": inner }).to_string());
    insta::assert_snapshot!("import_of_a_model_of_several_inputs", import(2));
}

#[test]
fn a_llama_is_walked_from_its_folder_to_its_table() {
    walk("llama");
}

#[test]
fn a_gpt2_is_walked_from_its_folder_to_its_table() {
    walk("gpt2");
}

#[test]
fn a_gpt_neox_is_walked_from_its_folder_to_its_table() {
    walk("gpt_neox");
}

#[test]
fn a_qwen3_is_walked_from_its_folder_to_its_table() {
    walk("qwen3");
}

/// The mean loss over the first tokens of documents, in windows that each begin with this token.
fn mean_loss(project: &Project, run: &str, bos: Option<u32>, windows: usize) -> f64 {
    let trained = Trained::open(&project.path(run), CheckpointId::Last, &Device::flex()).unwrap();
    let (mut sum, mut count) = (0.0, 0);
    for document in ["corpus/test/0.txt", "corpus/test/1.txt", "corpus/test/2.txt"] {
        let text = project.text(document);
        let text = trained.tokenizer.encode(&text).unwrap();
        let tokens: Vec<i32> = bos.into_iter().chain(text).map(|id| id as i32).collect();
        for start in (0..windows).map(|window| window * L) {
            let mut read = tokens[start..start + L].to_vec();
            read[0] = bos.map_or(read[0], |bos| bos as i32);
            let logits = super::logits_of(&trained.model, &trained.model.position, &read);
            let vocabulary = logits.dims()[2];
            let numbers = logits.into_data().try_to_vec::<f32>().unwrap();
            for (row, target) in numbers.chunks(vocabulary).zip(&tokens[start + 1..]) {
                let sum_of: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
                sum += sum_of.ln() - f64::from(row[*target as usize]);
                count += 1;
            }
        }
    }
    sum / f64::from(count)
}

#[test]
fn texts_begin_with_the_token_that_the_tokenizer_asks_for() {
    let project = published("llama");
    let path = project.path("llama/tokenizer.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let bos = "<|begin_of_text|>";
    let id = json["added_tokens"][0]["id"].as_u64().unwrap() as u32;
    assert_eq!(json["added_tokens"][0]["content"], bos);
    json["post_processor"] = json!({
        "type": "TemplateProcessing", "pair": [],
        "single": [{ "SpecialToken": { "id": bos, "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
        "special_tokens": { bos: { "id": bos, "ids": [id], "tokens": [bos] } },
    });
    fs::write(&path, json.to_string()).unwrap();
    let off = json!({ "add_bos_token": false, "bos_token": bos });
    fs::write(project.path("llama/tokenizer_config.json"), off.to_string()).unwrap();
    let import = |run: &str, more: &[&str]| {
        let arguments =
            ["import", "llama", "--scaling", "added", "--out", run, "--set", "data.corpus=corpus"];
        project.ok(&[&arguments[..], more].concat()).stderr
    };
    let told = import("runs/begun", &[]);
    assert!(told.contains(&format!("every text begins with `{bos}`")), "{told}");
    // The template decides, and what the other file says is named.
    assert!(told.contains("says `add_bos_token = false`"), "{told}");
    let told = import("runs/bare", &["--set", "data.bos="]);
    assert!(!told.contains("every text begins") && !told.contains("add_bos_token"), "{told}");
    // So does every window that is looked at for where the model attends.
    let found = FoundRun::find(&project.path("runs/begun"), CheckpointId::Last, None, &mut Silent).unwrap();
    let sample = found.sample(Split::Test, 16, 5, &mut Silent).unwrap();
    assert_eq!(sample.windows.len(), 5);
    assert!(sample.windows.iter().all(|window| window[0] == id && window.len() == 16), "{sample:?}");
    for (run, token, windows) in
        [("runs/begun", Some(id), 1), ("runs/begun", Some(id), 2), ("runs/bare", None, 1)]
    {
        let windows_key = format!("windows_per_document={windows}");
        let asked =
            ["--lengths", "32", "--extend", "direct", "--protocol", "non_overlapping", "--set", &windows_key];
        let rows = project.ok(&[&["eval", run][..], &asked, &["--json", "--device", "cpu"]].concat());
        let row = &rows.rows::<Value>()[0];
        let (found, expected) = (row["nll"].as_f64().unwrap(), mean_loss(&project, run, token, windows));
        assert!((found - expected).abs() < 1e-5, "{run}, {windows}: {found}, not {expected}");
        assert_eq!(row["bos"].as_str(), token.map(|_| bos), "{row}");
    }
    let table = project.ok(&["report", "runs/begun", "--format", "text"]).stdout;
    assert!(table.contains(&format!("; every text begins with `{bos}`")), "{table}");
    project.ok(&["generate", "runs/begun", "--max-tokens", "2"]);
    // Its file puts the token there for other programs, and would for a run that was read without it.
    assert!(!project.ok(&["export", "runs/begun", "out"]).stderr.contains("before a text"));
    let told = project.ok(&["export", "runs/bare", "bare"]).stderr;
    assert!(told.contains(&format!("puts `{bos}` before a text")), "{told}");
    let class = project.json("out/tokenizer_config.json");
    assert_eq!((&class["bos_token"], &class["add_bos_token"]), (&json!(bos), &json!(true)));
}
