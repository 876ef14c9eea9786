//! What is exported for `PyTorch`: which encodings and extensions are written, that the folder comes back, and what `model.py` says.
//!
//! `LONGWAVE_EXPORTS=DIR` keeps the folders with our logits and gradients beside them, and `tests/pytorch.py` holds `model.py` against these
//! (`sh tests/torch.sh`). `LONGWAVE_TRAINED=DIR` is a folder that it has trained further, with its logits.

use super::{LENGTH, Made, imported, logits_of};
use crate::common::Project;
use crate::common::models::extension;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::{Error, Result};
use longwave_hub::tensors::{self, Stored, Tensors};
use longwave_hub::torch::{self, Extended};
use longwave_model::{Gpt, Pass};
use longwave_position::extensions::{self, examples};
use longwave_position::{ExtensionConfig, Init, Lengths, Positions, Reading, encodings};
use longwave_train::parameters;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const LONGEST: usize = 4 * LENGTH;
const LENGTHS: [usize; 4] = [LENGTH / 2, LENGTH, 2 * LENGTH, LONGEST];

fn exported(made: &Made, extend: ExtensionConfig, longest: usize) -> Result<PathBuf> {
    let folder = made.folder.path().join(format!("torch-{}-{longest}", extend.kind()));
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    let extended = Extended { extend, longest };
    torch::export(&folder, made.folder.path(), &made.trained, &made.document, &extended).map(|()| folder)
}

/// The `config.json` of an export.
fn described(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap()
}

/// A text of a batch.
fn text(length: usize, row: usize) -> Vec<i32> {
    (0..length as i32).map(|i| (i * i * 7 + 40 + 31 * row as i32) % 256).collect()
}

/// Logits of a text, where every encoding has a value at its positions.
fn logits(model: &Gpt, reading: &Reading, length: usize) -> Option<Tensor<3>> {
    let positions = reading.layout().positions(length);
    reading.check(&positions).ok()?;
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(text(length, 0), [1, length]), &Device::flex());
    Some(model.logits(model.hidden(&Pass { tokens, positions: &positions, reading, dropout: None })))
}

fn stored<const D: usize>(tensor: Tensor<D>) -> Stored {
    Stored { shape: tensor.dims().to_vec(), numbers: tensor.into_data().try_to_vec().unwrap() }
}

/// Gradients of the loss of two texts, by the names of parameters.
fn gradients(made: &Made) -> Tensors {
    let (trained, device) = (&made.trained, Device::flex().autodiff());
    let fresh = Gpt::new(&trained.resolved, &trained.config.position, &Init::new(0, &device)).unwrap();
    let values = parameters::values(&trained.model);
    let model = parameters::replace(fresh, |index, _| Tensor::from_data(values[index].to_data(), &device));
    let part = |skip: usize| {
        let tokens: Vec<i32> =
            (0..2).flat_map(|row| text(LENGTH + 1, row).into_iter().skip(skip).take(LENGTH)).collect();
        Tensor::<2, Int>::from_data(TensorData::new(tokens, [2, LENGTH]), &device)
    };
    let positions = Positions::range(0..LENGTH);
    let pass = Pass { tokens: part(0), positions: &positions, reading: &model.position, dropout: None };
    let mut found = model.loss_of(model.hidden(&pass), part(1), None).backward();
    let named = parameters::list(&model).into_iter().zip(parameters::gradients(&model, &mut found));
    named
        .map(|(parameter, gradient)| {
            (format!("gradient.{}", parameter.name), Stored { shape: parameter.shape, ..stored(gradient) })
        })
        .collect()
}

#[test]
fn a_model_that_has_dropped_its_encoding_in_some_layers_is_written() {
    for (position, layers) in [("'rope'", "[0]"), ("'xpos'", "[1]"), ("['rope', 'alibi']", "[1]")] {
        let mut made = Made::new(position, "");
        let drop = extension(&format!("{{ kind = 'drop', layers = {layers} }}"));
        let lengths = Lengths { train: LENGTH, length: LENGTH };
        made.trained.model.position = drop.apply(&made.trained.model.position, lengths).unwrap();
        let folder = exported(&made, extension("'direct'"), LONGEST)
            .unwrap_or_else(|error| panic!("{position}: {error}"));
        let config = described(&folder);
        assert!(config["torch"].to_string().contains("\"none\""), "{config}");
    }
}

#[test]
fn layers_that_a_stage_has_changed_keep_the_formula_and_the_depth_of_their_config() {
    let mixed = "{ kind = 'mixed', layers = [{ kind = 'formula', bias = '-n/4' }, { kind = 'formula', bias = '-sqrt(n)' }], \
                 pattern = [0, 1, 1] }";
    let deep = "{ kind = 'formula', bias = '-sqrt(n)*(layer+1)/layers' }";
    // Of each layer: its number among those that read the formula, and what `config.json` says of it.
    let slope = (0, "null", json!(null), 1.0);
    let root = |layer: usize, interpolation: f64| (layer, "\"-sqrt(n)\"", json!(2), interpolation);
    let scaled = |layer, interpolation| (layer, "\"-sqrt(n)*(layer+1)/layers\"", json!(3), interpolation);
    for (name, position, expected) in [
        ("stage-of-mixed", mixed, [slope, root(0, 1.0), root(1, 2.0)]),
        ("stage-of-layers", deep, [scaled(0, 1.0), scaled(1, 1.0), scaled(2, 2.0)]),
    ] {
        let mut made = Made::deep(position, "", 3);
        let stage = extension("{ kind = 'linear', layers = [2] }");
        let lengths = Lengths { train: LENGTH, length: 2 * LENGTH };
        made.trained.model.position = stage.apply(&made.trained.model.position, lengths).unwrap();
        let direct = extension("'direct'");
        let folder = exported(&made, direct.clone(), LONGEST).unwrap();
        keep(&made, &folder, name, &direct, false);
        let reading = &described(&folder)["torch"]["readings"][0];
        let layers = reading["layers"].as_array().unwrap();
        let said = layers.iter().map(|layer| {
            let (entry, number) = (&layer["encodings"][0][0], &layer["encodings"][0][1]);
            let entry = &reading["encodings"][usize::try_from(entry.as_u64().unwrap()).unwrap()];
            let number = usize::try_from(number.as_u64().unwrap()).unwrap();
            (
                number,
                entry["bias"].to_string(),
                entry["layers"].clone(),
                entry["interpolation"].as_f64().unwrap(),
            )
        });
        let expected = expected.map(|(number, bias, layers, scale)| (number, bias.to_owned(), layers, scale));
        assert_eq!(said.collect::<Vec<_>>(), expected, "{name}");
    }
}

/// Keeps an export for `PyTorch`, where that is asked for.
fn keep(made: &Made, folder: &Path, name: &str, extend: &ExtensionConfig, with_gradients: bool) {
    let Some(kept) = std::env::var_os("LONGWAVE_EXPORTS") else { return };
    let kept = Path::new(&kept).join("torch").join(name);
    fs::create_dir_all(&kept).unwrap();
    for file in ["model.py", "model.safetensors", "config.json", "tokenizer.json"] {
        fs::copy(folder.join(file), kept.join(file)).unwrap();
    }
    let model = &made.trained.model;
    let mut expected = if with_gradients { gradients(made) } else { Tensors::new() };
    for length in LENGTHS {
        let reading = extend.apply(&model.position, Lengths { train: LENGTH, length }).unwrap();
        let logits = logits(model, &reading, length);
        // A recursion of random weights overflows at far positions.
        if let Some(logits) =
            logits.filter(|logits| logits.clone().abs().max().into_scalar::<f32>().is_finite())
        {
            expected.insert(format!("logits.{length}"), stored(logits));
        }
    }
    if expected.is_empty() {
        return;
    }
    fs::write(kept.join("expected.safetensors"), tensors::to_bytes(&expected).unwrap()).unwrap();
}

/// `kind = 'x'` and lines of keys as an inline table.
fn inline(table: &str) -> String {
    format!("{{ {} }}", table.lines().collect::<Vec<_>>().join(", "))
}

/// The message of an export that is refused; it has a hint.
fn refused(error: &Error) -> String {
    assert!(error.hint_text().is_some(), "{error}");
    error.message().to_owned()
}

#[test]
fn every_encoding_is_written_and_comes_back() {
    let mut cases: Vec<(String, String)> =
        encodings::every().iter().map(|table| (inline(table), String::new())).collect();
    let plain = |position: &str, model: &str| (position.to_owned(), model.to_owned());
    cases.extend([
        plain("['rope', 'alibi', 'sink_logit']", "qk_norm = 'rms'\nfeed_forward = 'swiglu'\nkv_heads = 2"),
        plain("['shaw', 't5']", "norm = 'layer_norm'\ntied = true\nqkv_bias = true"),
        plain("['path', 'fox', 'alibi']", "kv_heads = 2\nnorm = 'dyt'"),
        plain("'selective_rope'", "kv_heads = 2\nqk_norm = 'key'"),
        plain("'transformer_xl'", "kv_heads = 2\nqk_norm = 'cosine'\nfeed_forward = 'relu_squared'"),
        plain("{ kind = 'transformer_xl', shared_key = true }", "kv_heads = 2"),
        plain("{ kind = 'rope', learned = 'head' }", "kv_heads = 2\nhead_dim = 6"),
        plain("'fope'", "kv_heads = 1"),
        plain("['rope', 'learned']", "log_n = 'learned'\nlog_n_bias = true"),
        plain("'pope'", "log_n = true\nkv_heads = 2"),
        plain("{ kind = 'alibi', heads = 'H/2', slopes = 'linear', learned_slopes = true }", ""),
        plain("['wall', 'bam']", "kv_heads = 2"),
        // Powers of whole numbers below 0, and what Python would read otherwise.
        plain(
            "{ kind = 'formula', bias = \"-a*(2^(-head)*n + pow(head, -1)*log1p(n)\\n + pow(10, -2)*sqrt(n + 007) + head^(-1))\\n *2^(1-head)\", \
             parameters = { a = 0.3 } }",
            "",
        ),
        // Roots that are 0 at distance 0, and those of a head and a layer.
        plain(
            "{ kind = 'formula', bias = \"-(sqrt(abs(a)*n) + (abs(a)*n)^0.5 + (abs(a)*n)^(head/heads))*2^-2 - sqrt(abs(a)*layer*(head - 1))*n*2^-4\", \
             parameters = { a = 0.3 } }",
            "",
        ),
        plain("'rope'", "attention_gate = 'head'\nattention_gate_bias = true\ncanon = ['feed_forward']"),
        plain("'fox'", "attention_gate = 'channel'\nnorm_attention_output = true\ncanon = ['attention', 'feed_forward']"),
        plain(
            "{ kind = 'complex_order', complex = true }",
            "attention_gate = 'channel'\nnorm_attention_output = true\ncanon = ['attention']",
        ),
        plain("'rope'", "attention = 'linear'\nkv_heads = 2"),
        plain("'rope'", "attention = 'stick_breaking'"),
        plain("'none'", "attention = { kind = 'stick_breaking', attend_current = true, remainder = 'bias' }"),
        plain("'cope'", "attention = { kind = 'stick_breaking', remainder = 'drop' }"),
        plain("{ kind = 'complex_order', complex = true }", "qk_norm = 'rms'\nfeed_forward = 'swiglu'\nkv_heads = 2"),
        plain(
            "{ kind = 'mixed', layers = [{ kind = 'rope', window = 5, sinks = 2 }, { kind = 'kerple', log_n = true }], pattern = [0, 1] }",
            "",
        ),
        plain("{ kind = 'mixed', layers = [{ kind = 'none', window = 6, log_n = 'learned' }, 'xpos'], pattern = [0, 1] }", ""),
    ]);
    for (index, (position, model)) in cases.into_iter().enumerate() {
        let made = Made::new(&position, &model);
        let direct = extension("'direct'");
        let folder =
            exported(&made, direct.clone(), LONGEST).unwrap_or_else(|error| panic!("{position}: {error}"));
        keep(
            &made,
            &folder,
            &format!("{index}-{}", made.trained.config.position.name().replace('/', "_")),
            &direct,
            true,
        );
        let (import, back) = imported(&folder, &made.folder.path().join("run"));
        assert_eq!(import.run.as_ref(), Some(&made.trained.meta), "{position}");
        assert!(import.notes.is_empty(), "{position}: {:?}", import.notes);
        assert_eq!(
            tensors::of_model(&back.model).unwrap(),
            tensors::of_model(&made.trained.model).unwrap(),
            "{position}"
        );
        let source = fs::read_to_string(folder.join("model.py")).unwrap();
        assert!(source.lines().count() < 350, "{position}: {} lines", source.lines().count());
        let longest = source.lines().map(|line| line.chars().count()).max();
        assert!(longest < Some(120) && !source.contains("# +") && !source.contains("HALF"), "{position}");
    }
}

#[test]
fn every_extension_is_written_for_every_encoding_that_takes_it() {
    let lengths = Lengths { train: LENGTH, length: LONGEST };
    let mut refusals = Vec::new();
    for entry in encodings::kinds() {
        let made = Made::new(&format!("'{}'", entry.kind), "");
        let base = &made.trained.model.position;
        let bands = base.encodings()[0].frequencies().map_or(1, |frequencies| frequencies.inv_freq.len());
        let mut asked: Vec<ExtensionConfig> = extensions::kinds()
            .iter()
            .filter_map(|entry| ExtensionConfig::from_value(&entry.kind.into(), "extend").ok())
            .collect();
        if ["rope", "learned", "radix", "xpos", "deberta"].contains(&entry.kind) {
            asked.extend(examples(bands, lengths).unwrap().into_iter().map(|(extension, _)| extension));
            let layers = [
                "{ kind = 'linear', layers = [1] }",
                "{ kind = 'direct', temperature = [[0.5, 1.0, 1.5, 2.0], [1.0, 1.0, 1.0, 0.7]] }",
            ];
            asked.extend(layers.map(extension));
        }
        for (index, extend) in asked.into_iter().enumerate() {
            if LENGTHS.iter().any(|&length| extend.apply(base, Lengths { length, ..lengths }).is_err()) {
                continue;
            }
            match exported(&made, extend.clone(), LONGEST) {
                Ok(folder) => {
                    keep(
                        &made,
                        &folder,
                        &format!("{}-{index}-{}", entry.kind, extend.kind()),
                        &extend,
                        false,
                    );
                }
                Err(error) => refusals.push(refused(&error)),
            }
        }
    }
    refusals.retain(|refusal| !refusal.contains("the entropy of a query"));
    assert!(refusals.is_empty(), "{refusals:#?}");
}

#[test]
fn what_python_cannot_say_is_refused() {
    let message = |position: &str| {
        let made = Made::new(position, "");
        refused(&exported(&made, extension("'direct'"), LONGEST).unwrap_err())
    };
    assert!(message("{ kind = 'learned', past_table = 'random' }").contains("own random numbers"));
    assert!(
        message("{ kind = 'deberta', absolute_layers = 1, absolute = { past_table = 'random' } }")
            .contains("random")
    );
    for (model, what) in [
        ("attention = 'entmax'", "`model.attention = \"entmax\"`"),
        ("log_n = 'adaptive'", "log-n is adaptive"),
        ("log_n = { kind = 'learned', scale_bias = true }", "learned log-n scales biases too"),
    ] {
        let made = Made::new("'alibi'", model);
        let error = exported(&made, extension("'direct'"), LONGEST).unwrap_err();
        assert!(refused(&error).contains(what), "{error}");
    }
    // A window that only reaches so far.
    let made = Made::new("'rope'", "");
    let error = exported(&made, extension("{ kind = 'self_extend', group = 2 }"), 16 * LENGTH).unwrap_err();
    assert!(refused(&error).contains("`--length`"), "{error}");
}

#[test]
fn a_folder_that_was_trained_further_is_read() {
    let Some(folder) = std::env::var_os("LONGWAVE_TRAINED") else { return };
    let out = tempfile::tempdir().unwrap();
    let (import, back) = imported(Path::new(&folder), &out.path().join("run"));
    assert!(import.run.is_none() && import.notes.iter().any(|note| note.contains("model of their own")));
    let expected =
        tensors::from_bytes(&fs::read(Path::new(&folder).join("expected.safetensors")).unwrap()).unwrap();
    let ours = logits_of(&back.model, &back.model.position, &text(LENGTH, 0))
        .into_data()
        .try_to_vec::<f32>()
        .unwrap();
    let off = ours.iter().zip(&expected["logits"].numbers).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off < 1e-4, "{off}");
}

#[test]
fn the_program_writes_it() {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    let outcome = project.ok(&["export", "runs/small-0", "torch", "out", "--extend", "yarn"]);
    insta::assert_snapshot!("export_torch", outcome.stderr);
    insta::assert_snapshot!("model_py_of_rope", project.text("out/model.py"));
    let again = project.ok(&["import", "out", "--out", "back"]);
    insta::assert_snapshot!("import_torch", again.stderr);
    let keys = "{ kind = 'linear', scale = 2.0 }";
    project.ok(&["export", "runs/small-0", "torch", "scaled", "--extend", keys, "--length", "64"]);
    let said = project.run(&["import", "scaled", "--out", "again"]).stderr;
    let first = said.lines().next().unwrap_or_default();
    assert!(first.contains("up to 64 tokens with `linear`") && first.contains("scale = 2.0"), "{said}");
    let extend = first.split("--extend '").nth(1).unwrap().split('\'').next().unwrap();
    let read = project.run(&["eval", "again", "--device", "cpu", "--extend", extend]);
    assert!(read.code == Some(0) && read.stdout.contains("linear"), "{extend}: {}", read.stderr);
    let refused = project
        .refused(2, &["export", "runs/small-0", "torch", "far", "--extend", "self_extend", "--length", "3"]);
    insta::assert_snapshot!("export_torch_to_a_short_length", refused);
}
