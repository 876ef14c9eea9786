//! Models in Hugging Face's layout: what is exported comes back bit for bit, and published architectures have
//! their names, shapes and meaning.
//!
//! `LONGWAVE_EXPORTS=DIR` keeps what the tests export, with our logits beside it; `benches/peers/exported.py`
//! holds `transformers` against them.

mod layouts;
mod others;
mod published;
mod refused;
mod scaled;
mod torch;

use crate::common::Project;
use crate::common::models::{self, distance, noisy};
use burn::tensor::{Device, Tensor};
use longwave_data::Tokenizer;
use longwave_hub::{Architecture, Exported, Import, tensors};
use longwave_model::{Gpt, Pass};
use longwave_position::encodings;
use longwave_position::{Init, Positions, Reading};
use longwave_train::checkpoint::{Meta, StageReading};
use longwave_train::run::CheckpointId;
use longwave_train::{FileScaling, RunConfig, Trained};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LENGTH: usize = 16;

/// A run that was never trained: fresh weights and some noise, so that no norm is the identity.
struct Made {
    folder: TempDir,
    trained: Trained,
    document: toml::Table,
}

impl Made {
    fn new(position: &str, model: &str) -> Self {
        Self::deep(position, model, 2)
    }

    fn deep(position: &str, model: &str, layers: usize) -> Self {
        // A memory is that of the segment before.
        let sampling = if position.contains("memory") { "sampling = \"sequential\"" } else { "" };
        let text = format!(
            "name = \"made\"\nposition = {position}\n[data]\ncorpus = \"corpus\"\n[model]\nlayers = {layers}\nwidth = 16\n\
             heads = 4\n{model}\n[train]\nlength = {LENGTH}\nbatch_tokens = 64\n{sampling}\n[[evaluate]]\nlengths = [16]\n"
        );
        let document: toml::Table = text.parse().unwrap();
        let mut run = document.clone();
        run.remove("evaluate");
        let config = RunConfig::from_table(run).unwrap_or_else(|error| panic!("{text}: {error}"));
        let tokenizer = Tokenizer::bytes();
        let resolved = config.model.resolve(tokenizer.vocab_size(), LENGTH).unwrap();
        let device = Device::flex();
        let fresh = Gpt::new(&resolved, &config.position, &Init::new(0, &device)).unwrap();
        let model = noisy(fresh, 4, 0.2);
        let folder = tempfile::tempdir().unwrap();
        tokenizer.save(&folder.path().join("tokenizer.json")).unwrap();
        let meta = Meta::new(7, "of the run", None, Vec::new());
        Self { folder, trained: Trained { config, resolved, model, meta, tokenizer }, document }
    }

    fn export(&self, name: &str) -> (PathBuf, Exported) {
        self.export_scaled(name, None)
    }

    fn export_scaled(&self, name: &str, scaling: Option<&StageReading>) -> (PathBuf, Exported) {
        let folder = self.folder.path().join(name);
        let run = self.folder.path();
        let exported = longwave_hub::export(&folder, run, &self.trained, &self.document, scaling);
        (folder, exported.unwrap_or_else(|error| panic!("{name}: {error}")))
    }
}

/// Logits of a text of the training length, `[1, LENGTH, 256]`.
fn logits(model: &Gpt) -> Tensor<3> {
    logits_read(model, &model.position, LENGTH)
}

/// Logits of a text of any length, `[1, length, 256]`.
fn logits_read(model: &Gpt, reading: &Reading, length: usize) -> Tensor<3> {
    logits_of(model, reading, &ids(length))
}

/// Logits of a text, `[1, length, vocabulary]`.
fn logits_of(model: &Gpt, reading: &Reading, ids: &[i32]) -> Tensor<3> {
    let positions = Positions::range(0..ids.len());
    let tokens = models::tokens(1, ids.to_vec());
    let pass = Pass { tokens, positions: &positions, reading, dropout: None };
    model.logits(model.hidden(&pass))
}

fn ids(length: usize) -> Vec<i32> {
    (0..length as i32).map(|i| (i * i * 7 + 40) % 256).collect()
}

/// Imports a folder into a run and opens it.
fn imported(folder: &Path, out: &Path) -> (Import, Trained) {
    let import = longwave_hub::import(folder, FileScaling::Trained).unwrap_or_else(|error| panic!("{error}"));
    import.write(out, &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
    (import, Trained::open(out, CheckpointId::Last, &Device::flex()).unwrap())
}

/// Takes our run out of a `config.json`, and gives the file changes: what another program would have written.
fn edit(folder: &Path, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let path = folder.join("config.json");
    let mut json: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(json.as_object_mut().unwrap());
    fs::write(path, json.to_string()).unwrap();
}

const LAYER_NORM: &str = "norm = \"layer_norm\"";
const SWIGLU: &str = "feed_forward = \"swiglu\"\nkv_heads = 2\nhead_dim = 8";
const QWEN3: &str =
    "feed_forward = \"swiglu\"\nkv_heads = 2\nqk_norm = \"rms\"\nqk_norm_eps = 1e-6\nnorm_eps = 1e-6";

/// Models that are published architectures: name of the case, `[position]`, more of `[model]`, which it is.
fn published() -> Vec<(&'static str, &'static str, String, Architecture)> {
    let interleaved = "{ kind = 'rope', layout = 'interleaved', base = 500.0 }";
    let partial = "{ kind = 'rope', layout = 'interleaved', fraction = 0.5 }";
    vec![
        ("llama", "'rope'", SWIGLU.to_owned(), Architecture::Llama),
        ("llama-interleaved", interleaved, format!("{SWIGLU}\ntied = true"), Architecture::Llama),
        ("qwen3", "'rope'", QWEN3.to_owned(), Architecture::Qwen3),
        ("qwen3-interleaved", interleaved, QWEN3.to_owned(), Architecture::Qwen3),
        ("qwen2", "'rope'", format!("{SWIGLU}\nqkv_bias = true"), Architecture::Qwen2),
        ("qwen2-interleaved", interleaved, format!("{SWIGLU}\nqkv_bias = true"), Architecture::Qwen2),
        ("arcee", "'rope'", String::new(), Architecture::Arcee),
        ("arcee-relu2", "'rope'", "feed_forward = \"relu_squared\"".to_owned(), Architecture::Arcee),
        ("arcee-interleaved", interleaved, "kv_heads = 1".to_owned(), Architecture::Arcee),
        ("gpt_neox", "'rope'", LAYER_NORM.to_owned(), Architecture::GptNeoX),
        ("gpt_neox-partial", partial, format!("{LAYER_NORM}\nhead_dim = 4"), Architecture::GptNeoX),
        ("gpt2", "'learned'", format!("{LAYER_NORM}\ntied = true"), Architecture::Gpt2),
        (
            "gpt2-untied",
            "{ kind = 'learned', table_size = 24 }",
            format!("{LAYER_NORM}\nfeed_forward_width = 20"),
            Architecture::Gpt2,
        ),
    ]
}

#[test]
fn every_encoding_comes_back_bit_for_bit() {
    for entry in encodings::kinds() {
        let made = Made::new(&format!("'{}'", entry.kind), "");
        let (folder, _) = made.export("exported");
        let (import, back) = imported(&folder, &made.folder.path().join("run"));
        assert_eq!(back.config, made.trained.config, "{}", entry.kind);
        assert_eq!(import.run.as_ref(), Some(&made.trained.meta), "{}", entry.kind);
        // The model of this test was never saved, which is when layouts and the tokenizer are written down.
        let tokenizer = fs::read(folder.join("tokenizer.json")).unwrap();
        let saved = Meta {
            rotary_layouts: back.meta.rotary_layouts.clone(),
            tokenizer: Some(longwave_core::file::sha256_of(&tokenizer)),
            ..made.trained.meta.clone()
        };
        assert_eq!((&back.meta, back.meta.rotary_layouts.is_empty()), (&saved, false), "{}", entry.kind);
        let ours = tensors::of_model(&made.trained.model).unwrap();
        assert_eq!(tensors::of_model(&back.model).unwrap(), ours, "{}", entry.kind);
        assert!(distance(logits(&back.model), logits(&made.trained.model)) == 0.0, "{}", entry.kind);
    }
}

#[test]
fn published_architectures_come_back_with_and_without_our_run() {
    for (name, position, model, architecture) in published() {
        let made = Made::new(position, &model);
        let (folder, exported) = made.export(name);
        assert_eq!((exported.architecture, exported.obstacle), (architecture, None), "{name}");
        let before = logits(&made.trained.model);
        let (_, back) = imported(&folder, &made.folder.path().join("run"));
        assert_eq!(back.config, made.trained.config, "{name}");
        assert!(distance(logits(&back.model), before.clone()) == 0.0, "{name}");
        // A table of learned positions ends at L.
        let longest = if architecture == Architecture::Gpt2 { LENGTH } else { 4 * LENGTH };
        let lengths =
            [LENGTH / 2, LENGTH, 2 * LENGTH, 4 * LENGTH].into_iter().filter(|length| *length <= longest);
        let read = |length| (length, logits_read(&made.trained.model, &made.trained.model.position, length));
        keep(&folder, name, &lengths.map(read).collect::<Vec<_>>());

        // As another program would have written it: only the published fields, read as half-split pairs.
        edit(&folder, |json| drop(json.remove("longwave")));
        let (import, elsewhere) = imported(&folder, &made.folder.path().join("elsewhere"));
        assert!(import.run.is_none() && elsewhere.config.imported.is_some(), "{name}");
        // The longest text it can read; GPT-2 says that by the size of its table.
        let length = if name == "gpt2-untied" { 24 } else { LENGTH };
        assert_eq!(elsewhere.config.train.length, length, "{name}");
        let off = distance(logits(&elsewhere.model), before);
        assert!(off < 2e-5, "{name}: {off}");
    }
}

/// Files that another program writes: a window, layers without a rotation. They read as the same stack of ours.
#[test]
fn layers_of_several_kinds_are_read_as_their_file_says() {
    let (window, llama) = (LENGTH / 2, Made::new("'rope'", SWIGLU));
    let windowed = format!("{{ kind = 'rope', window = {window} }}");
    let mixed = |entries: &str, pattern: &str| {
        format!("{{ kind = 'mixed', layers = [{entries}], pattern = {pattern} }}")
    };
    let slides = json!({ "sliding_window": window, "use_sliding_window": true, "max_window_layers": 1 });
    for (name, bias, more, position) in [
        ("mistral", false, json!({ "sliding_window": null }), "'rope'".to_owned()),
        ("mistral-window", false, json!({ "sliding_window": window }), mixed(&windowed, "[0]")),
        ("qwen2-window", true, slides, mixed(&format!("'rope', {windowed}"), "[0, 1]")),
        (
            "smollm3",
            false,
            json!({ "no_rope_layers": [1, 0], "pad_token_id": 0 }),
            mixed("'rope', 'none'", "[0, 1]"),
        ),
    ] {
        let model = format!("{SWIGLU}\nqkv_bias = {bias}");
        let made = if bias { Made::new("'rope'", &model) } else { Made::new("'rope'", SWIGLU) };
        let (folder, _) = made.export(name);
        let kind = name.split('-').next().unwrap();
        edit(&folder, |json| {
            json.remove("longwave");
            json.remove("longwave_sha256");
            json.insert("model_type".into(), kind.into());
            let architecture = Architecture::ALL.into_iter().find(|it| it.model_type() == kind).unwrap();
            json.insert("architectures".into(), json!([architecture.class()]));
            json.extend(more.as_object().unwrap().clone());
        });
        let (_, theirs) = imported(&folder, &made.folder.path().join("run"));
        let ours = Made::new(&position, &model);
        let lengths = [LENGTH / 2, LENGTH, 2 * LENGTH, 4 * LENGTH];
        let read = |model: &Gpt, length| logits_read(model, &model.position, length);
        let expected = lengths.map(|length| (length, read(&theirs.model, length)));
        for (length, logits) in &expected {
            let off = distance(logits.clone(), read(&ours.trained.model, *length));
            assert!(off < 2e-5, "{name} at {length}: {off}");
        }
        let plain = distance(expected[3].1.clone(), read(&llama.trained.model, 4 * LENGTH));
        assert_eq!(plain > 1e-3, name != "mistral", "{name}: {plain}");
        keep(&folder, name, &expected);

        // It goes out again under the same name.
        let again = made.folder.path().join("again");
        let run = made.folder.path().join("run");
        let document = toml::Table::try_from(&theirs.config).unwrap();
        let exported = longwave_hub::export(&again, &run, &theirs, &document, None).unwrap();
        assert_eq!((exported.architecture.model_type(), exported.obstacle), (kind, None));
        let weights = |folder: &Path| {
            tensors::from_bytes(&fs::read(folder.join("model.safetensors")).unwrap()).unwrap()
        };
        assert_eq!(weights(&again), weights(&folder), "{name}");
    }
}

/// Copies an export to the folder that `LONGWAVE_EXPORTS` names, with the logits of texts of these lengths.
fn keep(folder: &Path, name: &str, logits: &[(usize, Tensor<3>)]) {
    let Some(kept) = std::env::var_os("LONGWAVE_EXPORTS") else { return };
    let kept = Path::new(&kept).join(name);
    fs::create_dir_all(&kept).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, kept.join(path.file_name().unwrap())).unwrap();
    }
    let text = |(length, logits): &(usize, Tensor<3>)| {
        let numbers = logits.clone().into_data().try_to_vec::<f32>().unwrap();
        json!({ "tokens": ids(*length), "logits": numbers })
    };
    let texts: Value = logits.iter().map(text).collect();
    fs::write(kept.join("expected.json"), texts.to_string()).unwrap();
}

#[test]
fn names_and_shapes_are_the_published_ones() {
    let shapes = |position: &str, model: &str| -> Vec<(String, Vec<usize>)> {
        let made = Made::new(position, model);
        let (folder, _) = made.export("exported");
        let bytes = fs::read(folder.join("model.safetensors")).unwrap();
        let tensors = tensors::from_bytes(&bytes).unwrap();
        tensors.into_iter().map(|(name, stored)| (name, stored.shape)).collect()
    };
    let layer_0 = |shapes: Vec<(String, Vec<usize>)>| -> Vec<(String, Vec<usize>)> {
        shapes.into_iter().filter(|(name, _)| !name.contains(".1.")).collect()
    };
    let expected = |list: &[(&str, &[usize])]| -> Vec<(String, Vec<usize>)> {
        list.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect()
    };
    // As transformers' `LlamaForCausalLM` names them: 4 heads of 8, 2 key heads, width 16, inner width 48.
    assert_eq!(
        layer_0(shapes("'rope'", SWIGLU)),
        expected(&[
            ("lm_head.weight", &[256, 16]),
            ("model.embed_tokens.weight", &[256, 16]),
            ("model.layers.0.input_layernorm.weight", &[16]),
            ("model.layers.0.mlp.down_proj.weight", &[16, 48]),
            ("model.layers.0.mlp.gate_proj.weight", &[48, 16]),
            ("model.layers.0.mlp.up_proj.weight", &[48, 16]),
            ("model.layers.0.post_attention_layernorm.weight", &[16]),
            ("model.layers.0.self_attn.k_proj.weight", &[16, 16]),
            ("model.layers.0.self_attn.o_proj.weight", &[16, 32]),
            ("model.layers.0.self_attn.q_proj.weight", &[32, 16]),
            ("model.layers.0.self_attn.v_proj.weight", &[16, 16]),
            ("model.norm.weight", &[16]),
        ])
    );
    // As `GPT2LMHeadModel` does, whose matrices are [inputs, outputs]; a tied head is not repeated.
    assert_eq!(
        layer_0(shapes("'learned'", &format!("{LAYER_NORM}\ntied = true"))),
        expected(&[
            ("transformer.h.0.attn.c_attn.bias", &[48]),
            ("transformer.h.0.attn.c_attn.weight", &[16, 48]),
            ("transformer.h.0.attn.c_proj.bias", &[16]),
            ("transformer.h.0.attn.c_proj.weight", &[16, 16]),
            ("transformer.h.0.ln_1.bias", &[16]),
            ("transformer.h.0.ln_1.weight", &[16]),
            ("transformer.h.0.ln_2.bias", &[16]),
            ("transformer.h.0.ln_2.weight", &[16]),
            ("transformer.h.0.mlp.c_fc.bias", &[64]),
            ("transformer.h.0.mlp.c_fc.weight", &[16, 64]),
            ("transformer.h.0.mlp.c_proj.bias", &[16]),
            ("transformer.h.0.mlp.c_proj.weight", &[64, 16]),
            ("transformer.ln_f.bias", &[16]),
            ("transformer.ln_f.weight", &[16]),
            ("transformer.wpe.weight", &[16, 16]),
            ("transformer.wte.weight", &[256, 16]),
        ])
    );
}

#[test]
fn a_run_goes_out_and_comes_back_through_the_program() {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    let told = project.ok(&["export", "runs/small-0", "out"]).stderr;
    assert!(told.contains("as `arcee`, which other tools read"), "{told}");
    project.ok(&["import", "out", "--out", "back"]);
    let rows = |run: &str| project.ok(&["eval", run, "--json", "--device", "cpu"]).stdout;
    assert_eq!(rows("back"), rows("runs/small-0"), "the same run, measured again");
    project.refused(2, &["import", "out", "--out", "back"]);
}

#[test]
fn a_model_from_elsewhere_is_evaluated_and_not_trained() {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    project.ok(&["export", "runs/small-0", "out"]);
    edit(&project.path("out"), |json| drop(json.remove("longwave")));
    project.ok(&["import", "out", "--set", "data.corpus=corpus"]);
    let lengths = ["--lengths", "32,64", "--extend", "direct,ntk", "--json", "--device", "cpu"];
    let nll = |run: &str, more: &[&str]| -> Vec<f64> {
        project.ok(&[&["eval", run], &lengths[..], more].concat()).losses()
    };
    let (here, there) = (
        nll("runs/small-0", &["--set", "windows_per_document=2"]),
        nll("runs/out-0", &["--set", "windows_per_document=2"]),
    );
    assert_eq!(here.len(), there.len());
    assert!(here.iter().zip(&there).all(|(a, b)| (a - b).abs() < 1e-6), "{here:?} {there:?}");
    let text = |run: &str| {
        project
            .ok(&["generate", run, "--prompt", "the wave", "--max-tokens", "12", "--temperature", "0"])
            .stdout
    };
    assert_eq!(text("runs/out-0"), text("runs/small-0"));
    project.refuses(
        2,
        &["train", "--config", "runs/out-0/config.toml", "--out", "runs/new"],
        &["remove `imported`"],
    );
    assert!(!project.exists("runs/new"));
}

#[test]
fn a_folder_that_cannot_be_exported_to_or_imported_from() {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    let message = |code: i32, arguments: &[&str]| project.refused(code, arguments);
    insta::assert_snapshot!("export_over_something", message(2, &["export", "runs/small-0", "corpus"]));
    fs::remove_file(project.path("runs/small-0/checkpoints/best.safetensors")).unwrap();
    insta::assert_snapshot!(
        "export_without_a_checkpoint",
        message(1, &["export", "runs/small-0", "x", "--checkpoint", "best"])
    );
    insta::assert_snapshot!("import_of_no_model", message(2, &["import", "corpus"]));
    project.run(&["export", "runs/small-0", "out"]);
    insta::assert_snapshot!("import_over_a_run", message(2, &["import", "out"]));
    let other = ["import", "out", "--out", "back", "--set", "position.base=500.0"];
    insta::assert_snapshot!("import_as_another_model", message(2, &other));
    let json = project.text("out/config.json");
    project.write("out/config.json", &json.replace("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"tanh\""));
    insta::assert_snapshot!(
        "import_of_another_architecture",
        message(2, &["import", "out", "--out", "back"])
    );
    project.write("out/config.json", &json.replace("\"format\": 1", "\"format\": 9"));
    insta::assert_snapshot!("import_of_a_newer_format", message(1, &["import", "out", "--out", "back"]));
}
