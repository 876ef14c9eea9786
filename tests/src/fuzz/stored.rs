//! What the program writes, or other people publish: tokenizers, rows, metrics, plans, token caches and models.

use crate::readers::{Workplace, collect, files};
use crate::samples::BASE;
use crate::written::{planned, toml};
use burn::tensor::Device;
use longwave_core::Result;
use longwave_core::file::sha256_of;
use longwave_data::{DataConfig, Dataset, Split, Tokenizer};
use longwave_experiment::Config;
use longwave_report::Tidy;
use longwave_report::page::Report;
use longwave_study::saved;
use longwave_train::FileScaling;
use longwave_train::metrics::Metrics;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use toml::Table;

pub(crate) fn tokenizer(place: &mut Workplace, input: &[u8]) -> Result<()> {
    let tokenizer = Tokenizer::load(&place.write("tokenizer.json", input))?;
    let ids = tokenizer.encode("The wave is long,\n\u{1f30a} 3.14.")?;
    tokenizer.decode(&ids)?;
    tokenizer.digits()?;
    tokenizer.to_json().map(|_| ())
}

/// Files of lines of JSON, and each line alone, without their checksums: with one, every change would end there. Then the files as
/// they are.
pub(crate) fn unsealed(from: &Path, name: &str) -> Vec<Vec<u8>> {
    let files = files(from, "", name);
    let without = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        value.as_object_mut().unwrap().remove("checksum");
        value.to_string() + "\n"
    };
    let lines: Vec<Vec<String>> =
        files.iter().map(|file| std::str::from_utf8(file).unwrap().lines().map(without).collect()).collect();
    let whole = lines.iter().map(|lines| lines.concat().into_bytes());
    let single = lines.iter().flatten().map(|line| line.clone().into_bytes());
    whole.chain(single).chain(files.iter().cloned()).collect()
}

/// All that `report` does; charts take long and are drawn of a few.
pub(crate) fn reported(place: &mut Workplace, name: &str) -> Result<()> {
    let folder = place.folder.join(name);
    let report = Report::read(&folder, None)?;
    report.tables();
    report.histories();
    let rows = longwave_eval::row::read_rows(&folder.join("results.jsonl"))?;
    Tidy::of(&rows)?.csv();
    if place.is_rare() { report.write(&folder).map(|_| ()) } else { Ok(()) }
}

pub(crate) fn metrics(place: &mut Workplace, input: &[u8]) -> Result<()> {
    let rows = fs::read(place.samples.join("plain/results.jsonl")).unwrap();
    place.write("logged/results.jsonl", &rows);
    place.write("logged/metrics.jsonl", input);
    let reported = reported(place, "logged");
    let opened = Metrics::open(&place.folder.join("logged"), 3).map(|_| ());
    reported.and(opened)
}

pub(crate) fn plan(place: &mut Workplace, input: &[u8]) -> Result<()> {
    // A plan of many runs takes as long as that of a study.
    let study = toml(input)?.remove("study").and_then(|study| study.try_into::<Table>().ok());
    if let Some(study) = study {
        planned(study)?;
    }
    let path = place.write("study/plan.toml", input);
    saved::load(path.parent().unwrap()).map(|_| ())
}

/// The files of a cache entry; the first byte of an input says which it takes the place of.
const TOKEN_FILES: [&str; 7] = [
    "train.tokens",
    "train.documents",
    "train.names",
    "train.lengths",
    "test.documents",
    "index.json",
    "tokenizer.json",
];

pub(crate) fn tokens_begin(from: &Path) -> Vec<Vec<u8>> {
    let of = |(index, name): (usize, &&str)| {
        files(from, "cache", name).into_iter().map(move |file| [vec![index as u8], file].concat())
    };
    TOKEN_FILES.iter().enumerate().flat_map(of).collect()
}

pub(crate) fn tokens(place: &mut Workplace, input: &[u8]) -> Result<()> {
    let config = data_config(place);
    if place.entry.is_empty() {
        Dataset::open(&config, &mut |_| ())?;
        let mut paths = Vec::new();
        collect(&place.folder.join("cache"), &mut paths);
        paths.retain(|path| path.extension().is_some_and(|end| end != "lock"));
        place.entry = paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    }
    let (first, content) = input.split_first().unwrap_or((&0, &[]));
    let name = TOKEN_FILES[usize::from(*first) % TOKEN_FILES.len()];
    let mut index = None;
    for (path, whole) in &place.entry {
        let is_named = path.ends_with(name);
        fs::write(path, if is_named { content } else { whole }).unwrap();
        if path.ends_with("index.json") && !is_named {
            index = Some((path, serde_json::from_slice::<Value>(whole).unwrap()));
        }
    }
    if let Some((path, mut value)) = index {
        for listed in value["files"].as_array_mut().unwrap() {
            if listed["file"] == name {
                *listed = json!({ "file": name, "bytes": content.len(), "sha256": sha256_of(content) });
            }
        }
        fs::write(path, value.to_string()).unwrap();
    }
    let dataset = Dataset::open(&config, &mut |_| ())?;
    for split in Split::ALL {
        let tokens = dataset.tokens(split);
        for document in 0..tokens.documents() {
            let range = tokens.document(document);
            let (read, _) = (tokens.read(range.clone()), tokens.bytes(range));
            let _ = dataset.tokenizer().decode(&read);
            let _ = (tokens.document_name(document), tokens.document_bytes(document));
        }
    }
    Ok(())
}

fn data_config(place: &Workplace) -> DataConfig {
    let corpus = place.samples.join("corpus");
    let text = BASE.replace("'corpus'", &format!("'{}'", corpus.display()));
    Config::parse(&text).unwrap().run.data
}

/// The configs of exports, with our run in them and without, and those of other families.
pub(crate) fn published(from: &Path) -> Vec<Vec<u8>> {
    let mut configs = files(from, "", "-exported/config.json");
    let without: Vec<Value> = configs
        .iter()
        .map(|config| {
            let mut value: Value = serde_json::from_slice(config).unwrap();
            value.as_object_mut().unwrap().remove("longwave");
            value
        })
        .collect();
    let gpt2 = json!({
        "model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "activation_function": "gelu", "vocab_size": 256,
        "n_positions": 16, "layer_norm_epsilon": 1e-5,
    });
    let neox = json!({
        "model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 32,
        "vocab_size": 256, "max_position_embeddings": 16, "rotary_pct": 1.0, "rotary_emb_base": 10000,
        "use_parallel_residual": false, "hidden_act": "gelu", "tie_word_embeddings": false,
    });
    configs.extend(without.iter().chain([&gpt2, &neox]).map(|value| value.to_string().into_bytes()));
    configs
}

/// Imports the small export with one file of another content.
pub(crate) fn imported(place: &Workplace, name: &str, input: &[u8]) -> Result<()> {
    let from = place.samples.join("plain-exported");
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let whole = fs::read(from.join(file)).unwrap();
        place.write(&format!("hub/{file}"), if file == name { input } else { &whole });
    }
    let out = place.folder.join("imported");
    let _ = fs::remove_dir_all(&out);
    longwave_hub::import(&place.folder.join("hub"), FileScaling::Trained)?
        .write(&out, &Device::flex())
        .map(|_| ())
}
