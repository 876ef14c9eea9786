//! Published layouts of scaled positions read as an independent float64 program reads them (`tests/published`).
//!
//! `LONGWAVE_PUBLISHED=DIR` walks another folder of the same form.

use super::{edit, imported, logits_of};
use crate::common::{Project, copy_folder};
use burn::tensor::Device;
use longwave_eval::ResultRow;
use longwave_hub::import;
use longwave_position::{ExtensionConfig, Lengths, Reading};
use longwave_train::run::CheckpointId;
use longwave_train::{FileScaling, Trained};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const DEVICE: fn() -> Device = Device::flex;

/// Folders that no program reads in one way.
const REFUSED: [&str; 2] = ["both-holders", "yarn-attn-factor"];

fn root() -> PathBuf {
    std::env::var_os("LONGWAVE_PUBLISHED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("published"), PathBuf::from)
}

fn folders() -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<(String, PathBuf)> = entries
        .filter(|path| path.join("expected.json").exists())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path))
        .collect();
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

/// What a text of so many tokens must give.
struct Expected {
    tokens: usize,
    inv_freq: Vec<f64>,
    attention_factor: f64,
    nll: Vec<f64>,
    mean: f64,
}

fn expected(folder: &Path) -> Vec<Expected> {
    let json: Value = serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let numbers = |value: &Value| value.as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    let reading = |value: &Value| Expected {
        tokens: value["tokens"].as_u64().unwrap() as usize,
        inv_freq: numbers(&value["inv_freq"]),
        attention_factor: value["attention_factor"].as_f64().unwrap(),
        nll: numbers(&value["nll"]),
        mean: value["mean_nll"].as_f64().unwrap(),
    };
    json["readings"].as_array().unwrap().iter().map(reading).collect()
}

fn text() -> Vec<u8> {
    fs::read(root().join("text/d00.txt")).unwrap()
}

/// The losses of the first tokens of the text, in f64 from the logits.
fn losses(trained: &Trained, reading: &Reading, tokens: usize) -> Vec<f64> {
    let text: Vec<i32> = text()[..=tokens].iter().map(|byte| i32::from(*byte)).collect();
    let logits = logits_of(&trained.model, reading, &text[..tokens]);
    let vocabulary = logits.dims()[2];
    let numbers = logits.into_data().try_to_vec::<f32>().unwrap();
    let rows = numbers.chunks(vocabulary).zip(&text[1..]);
    rows.map(|(row, target)| {
        let largest = row.iter().copied().map(f64::from).fold(f64::MIN, f64::max);
        let sum: f64 = row.iter().map(|logit| (f64::from(*logit) - largest).exp()).sum();
        sum.ln() + largest - f64::from(row[*target as usize])
    })
    .collect()
}

fn extension(text: &str) -> ExtensionConfig {
    ExtensionConfig::from_value(&toml::Value::String(text.to_owned()), "extend").unwrap()
}

/// The model as an extension reads a text of so many tokens.
fn read(trained: &Trained, extend: &ExtensionConfig, tokens: usize) -> Reading {
    let lengths = Lengths { train: trained.config.train.length, length: tokens };
    extend.apply(&trained.model.position, lengths).unwrap()
}

fn check(name: &str, trained: &Trained, extend: &ExtensionConfig, expected: &Expected) {
    let Expected { tokens, inv_freq, attention_factor, nll, .. } = expected;
    let reading = read(trained, extend, *tokens);
    let frequencies = reading.encodings()[0].frequencies().unwrap();
    assert_eq!(frequencies.inv_freq.len(), inv_freq.len(), "{name}");
    for (found, expected) in frequencies.inv_freq.iter().zip(inv_freq) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{name} at {tokens}: {found}, not {expected}");
    }
    assert!((frequencies.attention_factor / attention_factor - 1.0).abs() < 1e-6, "{name} at {tokens}");
    for (place, (found, expected)) in losses(trained, &reading, *tokens).iter().zip(nll).enumerate() {
        assert!(
            (found - expected).abs() < 1e-4,
            "{name} at {tokens}, token {place}: {found}, not {expected}"
        );
    }
}

#[test]
fn every_layout_is_read_as_its_file_says_whatever_l_is() {
    let runs = tempfile::tempdir().unwrap();
    for (name, folder) in folders() {
        let file = extension_of(&folder);
        for (scaling, length) in [
            (FileScaling::Trained, None),
            (FileScaling::Trained, Some(24)),
            (FileScaling::Added, None),
            (FileScaling::Added, Some(24)),
        ] {
            let mut model = match import(&folder, scaling) {
                Ok(model) => model,
                Err(error) if REFUSED.contains(&name.as_str()) => {
                    assert!(
                        error.hint_text().is_some_and(|hint| !hint.contains("remove")),
                        "{name}: {error}"
                    );
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            assert!(!REFUSED.contains(&name.as_str()), "{name} has two meanings");
            model
                .change(
                    &length.map(|length| format!("train.length={length}")).into_iter().collect::<Vec<_>>(),
                )
                .unwrap();
            let notes = model.reading_notes().unwrap().concat();
            let part = notes.contains("this is part of the model (`--scaling trained`)");
            assert_eq!(part, scaling == FileScaling::Trained, "{name}: {notes}");
            let out = runs.path().join(format!("{name}-{scaling}-{length:?}"));
            model.write(&out, &DEVICE()).unwrap_or_else(|error| panic!("{name}: {error}"));
            let trained = Trained::open(&out, CheckpointId::Last, &DEVICE()).unwrap();
            for expected in expected(&folder) {
                // The file names itself, so its scaling is there once.
                check(&name, &trained, &file.clone().unwrap(), &expected);
                if scaling == FileScaling::Trained {
                    check(&name, &trained, &extension("direct"), &expected);
                }
            }
            if scaling == FileScaling::Trained {
                // The plain reading is that at L.
                let at_l = read(&trained, &extension("direct"), trained.config.train.length);
                let plain = trained.model.position.encodings()[0].frequencies();
                assert_eq!(plain, at_l.encodings()[0].frequencies(), "{name}");
            }
            if (scaling, length) == (FileScaling::Trained, None) {
                goes_out_and_comes_back(&name, &folder, &out, &trained);
            }
        }
    }
}

/// An export of the run says what the file says that came in, and is read alike: with our run in it, and without.
fn goes_out_and_comes_back(name: &str, came_in: &Path, run: &Path, trained: &Trained) {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    longwave_hub::export(&out, run, trained, &trained.config.to_table().unwrap(), None).unwrap();
    let of =
        |it: &Trained| [64, 256].map(|tokens| losses(it, &read(it, &extension("direct"), tokens), tokens));
    let again = |folder: &str| of(&imported(&out, &place.path().join(folder)).1);
    assert_eq!(again("back"), of(trained), "{name}");
    edit(&out, |json| {
        for key in ["longwave", "longwave_sha256"] {
            json.remove(key).unwrap();
        }
    });
    let config = |folder: &Path| -> Value {
        serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap()
    };
    assert_eq!(config(&out), config(came_in), "{name}");
    assert_eq!(again("elsewhere"), of(trained), "{name}");
}

/// The folder's `config.json` as an extension; what `import` refuses, `--extend` does.
fn extension_of(folder: &Path) -> Option<ExtensionConfig> {
    let path = toml::Value::String(folder.join("config.json").to_string_lossy().into_owned());
    let read = ExtensionConfig::from_value(&path, "extend");
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(read.is_err(), REFUSED.contains(&name.as_str()), "{name}: {read:?}");
    read.ok()
}

/// Of every third folder; the test above reads them all.
#[test]
fn the_program_reads_a_scaled_model_as_its_file_says() {
    let project = Project::new();
    for split in ["train", "valid", "test"] {
        project.write(&format!("texts/{split}/d00.txt"), &String::from_utf8(text()).unwrap());
    }
    let readable = folders().into_iter().filter(|(name, _)| !REFUSED.contains(&name.as_str()));
    for (name, folder) in readable.step_by(3) {
        copy_folder(&folder, &project.path(&name));
        let (run, extend) = (format!("runs/{name}"), format!("direct,{name}/config.json"));
        let arguments =
            ["import", &name, "--out", &run, "--set", "data.corpus=texts", "--scaling", "trained"];
        let told = project.ok(&arguments).stderr;
        assert!(told.contains("this is part of the model (`--scaling trained`)"), "{told}");
        let expected = expected(&folder);
        for Expected { tokens, mean, .. } in [&expected[0], &expected[expected.len() - 1]] {
            let tokens = tokens.to_string();
            let asked =
                ["eval", &run, "--lengths", &tokens, "--extend", &extend, "--json", "--device", "cpu"];
            let whole = ["--protocol", "non_overlapping", "--set", "windows_per_document=1"];
            let rows: Vec<ResultRow> = project.ok(&[&asked[..], &whole].concat()).rows();
            let found: Vec<_> = rows.iter().filter(|row| row.extend != "window_baseline").collect();
            assert_eq!(found.len(), 2, "{name}: {found:?}");
            for row in found {
                let off = (row.nll() - mean).abs();
                assert!(off < 1e-4, "{name}, {} at {tokens}: {}, not {mean}", row.extend, row.nll());
            }
        }
        project.ok(&["generate", &run, "--prompt", "puzzle", "--max-tokens", "4"]);
    }
}
