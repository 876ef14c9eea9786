//! The readers: what each begins with, and what it does with an input.

use crate::samples::{BASE, STUDY};
use burn::tensor::{Device, Tensor};
use longwave_core::file::sha256_of;
use longwave_core::{Error, Result};
use longwave_data::{DataConfig, Dataset, Record, Split, Tokenizer};
use longwave_experiment::{Config, obstacles, reading_of};
use longwave_model::{Pass, upload};
use longwave_position::formula::Formula;
use longwave_position::{ExtensionConfig, Lengths, Positions, Reading};
use longwave_report::Tidy;
use longwave_report::page::Report;
use longwave_study::{Plan, Store, Study, StudyTask, judge, ranking, saved};
use longwave_train::metrics::Metrics;
use longwave_train::{Checkpoint, FileScaling, Run, fresh_model, memory_check};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use toml::Table;

pub(crate) struct Reader {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Whether its inputs are text, so that changes keep words whole.
    pub(crate) is_text: bool,
    /// The inputs that it begins with, out of the folder of samples.
    begin: fn(&Path) -> Vec<Vec<u8>>,
    /// Reads an input as the program does.
    pub(crate) read: fn(&mut Workplace, &[u8]) -> Result<()>,
}

/// What readers need beside the input.
pub(crate) struct Workplace {
    folder: PathBuf,
    samples: PathBuf,
    readings: Vec<Reading>,
    /// The files of a cache entry as they should be.
    entry: Vec<(PathBuf, Vec<u8>)>,
    reads: u64,
}

const fn text(
    name: &'static str,
    about: &'static str,
    begin: fn(&Path) -> Vec<Vec<u8>>,
    read: fn(&mut Workplace, &[u8]) -> Result<()>,
) -> Reader {
    Reader { name, about, is_text: true, begin, read }
}

/// All readers.
pub(crate) const ALL: [Reader; 17] = [
    text(
        "config",
        "a config, as `validate` reads it",
        |_| files(Path::new(ROOT), "configs", ".toml"),
        config,
    ),
    text("study", "a study file, planned as by `--dry-run`", studies, study),
    text("claim", "a claim of a study", claims, claim),
    text("formula", "an encoding written as a formula, and a pass of its model", formulas, formula),
    text("extension", "what `--extend` takes, applied to five encodings", extensions, extension),
    text("tokenizer", "a `tokenizer.json`", |from| files(from, "", "tokenizer.json"), tokenizer),
    Reader {
        is_text: false,
        ..text("checkpoint", "a checkpoint", |from| files(from, "", ".safetensors"), checkpoint)
    },
    text("rows", "`results.jsonl`, as `report` reads it", rows, results),
    text("metrics", "`metrics.jsonl`, as training and `report` read it", metrics_lines, metrics),
    text(
        "journal",
        "the journal of a run in a study's store",
        |from| files(from, "store/state", ".jsonl"),
        journal,
    ),
    text("task", "a task of a study", |from| files(from, "tasks", ".toml"), task),
    text("plan", "the `plan.toml` of a study", |from| files(from, "study", "plan.toml"), plan),
    text("run", "the `config.toml` of a run", |from| files(from, "", "config.toml"), run),
    text("record", "the `data.json` of a run", |from| files(from, "", "data.json"), record),
    Reader {
        is_text: false,
        ..text("tokens", "the files of a cache entry, with a fitting index", tokens_begin, tokens)
    },
    text("hub", "a `config.json` to import", hub_begin, hub),
    Reader { is_text: false, ..text("weights", "a `model.safetensors` to import", weights_begin, weights) },
];

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

pub(crate) fn find(name: &str) -> Option<&'static Reader> {
    ALL.iter().find(|reader| reader.name == name)
}

/// What a reader begins with: inputs that failed once, and real ones.
pub(crate) fn seeds(reader: &Reader, samples: &Path) -> Vec<Vec<u8>> {
    let mut seeds = files(Path::new(ROOT), &format!("tests/fuzz/{}", reader.name), "");
    seeds.extend((reader.begin)(samples));
    seeds
}

/// The contents of the files below a folder whose names end so, in the order of their paths.
fn files(root: &Path, below: &str, end: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    collect(&root.join(below), &mut paths);
    paths.sort();
    let of_end = |path: &&PathBuf| path.to_string_lossy().ends_with(end);
    paths.iter().filter(of_end).map(|path| fs::read(path).unwrap()).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, paths);
        } else {
            paths.push(path);
        }
    }
}

fn owned(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

impl Workplace {
    pub(crate) fn new(samples: &Path, folder: &Path) -> Self {
        let readings = ["'rope'", "'alibi'", "'learned'", "'transformer_xl'", MIXED].map(|position| {
            let text = BASE.replace("position = 'rope'", &format!("position = {position}"));
            reading_of(&Config::parse(&text).unwrap().run).unwrap().0
        });
        let (folder, samples) = (folder.to_owned(), samples.to_owned());
        Self { folder, samples, readings: readings.into(), entry: Vec::new(), reads: 0 }
    }

    fn write(&self, name: &str, input: &[u8]) -> PathBuf {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, input).unwrap();
        path
    }

    /// Whether this is one of the few inputs with which something slow is done.
    fn is_rare(&mut self) -> bool {
        self.reads += 1;
        self.reads.is_multiple_of(64)
    }
}

const MIXED: &str = "{ kind = 'mixed', layers = ['none', { kind = 'rope', window = 8 }], pattern = [1, 0] }";

/// Every file of the program that holds text is read as UTF-8 first.
fn utf8(input: &[u8]) -> Result<&str> {
    std::str::from_utf8(input).map_err(|error| Error::failed(error.to_string()))
}

fn toml(input: &[u8]) -> Result<Table> {
    utf8(input)?.parse().map_err(|error: toml::de::Error| Error::usage(error.to_string()))
}

fn config(_: &mut Workplace, input: &[u8]) -> Result<()> {
    let config = Config::parse(utf8(input)?)?;
    memory_check::check(&config.run, config.run.data.vocab_size().unwrap_or(1), &Device::flex())?;
    obstacles(&config)?;
    let written = config.to_table()?;
    assert_eq!(Config::from_table(written)?.run, config.run, "the resolved config reads back as another one");
    Ok(())
}

fn studies(_: &Path) -> Vec<Vec<u8>> {
    let mut studies = files(Path::new(ROOT), "experiments", ".toml");
    studies.push(STUDY.into());
    studies
}

/// More runs than these are planned by nobody here: the plan of each takes a fraction of a millisecond.
const RUNS: usize = 64;

fn study(_: &mut Workplace, input: &[u8]) -> Result<()> {
    planned(toml(input)?)
}

fn planned(document: Table) -> Result<()> {
    let base: Table = BASE.parse().unwrap();
    let study = Study::from_table(document, &|_| Ok(base.clone()))?;
    let runs = study.axes.iter().map(|axis| axis.points.len()).product::<usize>() * study.seeds.len();
    if runs > RUNS {
        return Ok(());
    }
    let plan = Plan::new(&study, "cpu", &mut |_| Ok("content".to_owned()));
    plan.check()?;
    plan.left_out();
    study.claims.iter().try_for_each(|claim| judge::check(claim, &plan))?;
    study.best.map_or(Ok(()), |best| ranking::check(&plan, best))
}

fn claims(_: &Path) -> Vec<Vec<u8>> {
    owned(&[
        "says = 'rope, a, ntk < rope, a at 2L'\ntolerance = 0.1",
        "says = 'alibi, b > rope, b, window_baseline at 32'\nmetric = 'accuracy'\nprotocol = 'sliding'",
        "says = 'rope, a, direct = alibi, a, direct at 1.5L'\nsplit = 'valid'\nwhy = 'because'",
    ])
}

fn claim(_: &mut Workplace, input: &[u8]) -> Result<()> {
    let mut study: Table = STUDY.parse().unwrap();
    study.insert("claim".to_owned(), toml::Value::Array(vec![toml(input)?.into()]));
    planned(study)
}

fn formulas(_: &Path) -> Vec<Vec<u8>> {
    owned(&[
        "bias = '-softplus(a) * log1p(softplus(b) * n)'\nparameters = { a = 0.0, b = 0.0 }",
        "bias = '-2^(-8*head/heads) * n'",
        "inv_freq = 'base^(-2*band/d)'\nbase = 500.0",
        "bias = 'sin(i - j) / (1 + abs(cos(layer)))' ",
        "bias = '-p * min(n, L) ^ sigmoid(q) + clamp(r, -1, 1) * sqrt(n)'\nparameters = { p = 1, q = { start = 0.5 }, r = { \
         start = 0.0, per = 'head', min = 0.0, decay = true } }",
        "-p * log1p(a * n)",
    ])
}

/// A table of the encoding's keys, or the text of one formula.
fn formula(_: &mut Workplace, input: &[u8]) -> Result<()> {
    let text = utf8(input)?;
    let Ok(mut position) = text.parse::<Table>() else {
        return Formula::read("bias", text, &["n", "p", "a", "L"]).map(|formula| drop(formula.names()));
    };
    position.insert("kind".to_owned(), "formula".into());
    let mut document: Table = BASE.parse().unwrap();
    document.insert("position".to_owned(), position.into());
    let config = Config::from_table(document)?.run;
    let resolved = config.model.resolve(16, config.train.length)?;
    let model = fresh_model(&config, &resolved, &Device::flex())?;
    let positions = Positions::range(0..20);
    model.position.check(&positions)?;
    let tokens = upload(&[3; 20], [1, 20], &Device::flex());
    let pass = Pass { tokens, positions: &positions, reading: &model.position, dropout: None };
    let logits: Tensor<3> = model.logits(model.hidden(&pass));
    assert_eq!(logits.dims(), [1, 20, 16]);
    Ok(())
}

fn extensions(_: &Path) -> Vec<Vec<u8>> {
    let mut texts = owned(&[
        "{ kind = \"sinks\", window = \"1.5L\", sinks = 2 }",
        "{ kind = \"rerope\", window = \"L/2\", layers = [0] }",
        "{ kind = \"yarn\", ramp = \"paper\", temperature = 1.1, scale = 4.0 }",
        "{ kind = \"longrope\", factors = [1.0, 2.0] }",
        "{ kind = \"formula\", inv_freq = \"f / s\" }",
        "{ \"rope_type\": \"llama3\", \"factor\": 4.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \
         \"original_max_position_embeddings\": 16 }",
        "{ \"rope_type\": \"longrope\", \"long_factor\": [1, 2], \"short_factor\": [1, 1], \"factor\": 4 }",
    ]);
    // Every kind, and the tables of its examples.
    texts.extend(longwave_position::extensions::kinds().iter().map(|kind| kind.kind.into()));
    let lengths = Lengths { train: 16, length: 64 };
    for (example, _) in longwave_position::extensions::examples(2, lengths).unwrap() {
        let value = toml::Value::try_from(&example).unwrap();
        texts.push(value.to_string().into_bytes());
    }
    texts
}

fn extension(place: &mut Workplace, input: &[u8]) -> Result<()> {
    let text = utf8(input)?;
    let table = format!("extend = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("extend"));
    let value = table.unwrap_or_else(|| text.trim().into());
    let extension = ExtensionConfig::from_value(&value, "--extend")?;
    let mut result = Ok(());
    for reading in &place.readings {
        for length in [8, 16, 17, 64] {
            let applied = extension.apply(reading, Lengths { train: 16, length });
            let checked = applied.and_then(|reading| reading.check(&reading.layout().positions(length)));
            result = result.and(checked);
        }
    }
    result
}

fn tokenizer(place: &mut Workplace, input: &[u8]) -> Result<()> {
    let tokenizer = Tokenizer::load(&place.write("tokenizer.json", input))?;
    let ids = tokenizer.encode("The wave is long,\n\u{1f30a} 3.14.")?;
    tokenizer.decode(&ids)?;
    tokenizer.digits()?;
    tokenizer.to_json().map(|_| ())
}

fn checkpoint(place: &mut Workplace, input: &[u8]) -> Result<()> {
    Checkpoint::load(&place.write("last.safetensors", input)).map(|_| ())
}

/// Lines of JSON without their checksums: with one, every change would end there.
fn unsealed(text: &[u8]) -> Vec<u8> {
    let lines = std::str::from_utf8(text).unwrap().lines().map(|line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        value.as_object_mut().unwrap().remove("checksum");
        value.to_string() + "\n"
    });
    lines.collect::<String>().into_bytes()
}

fn with_unsealed(files: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let unsealed: Vec<_> = files.iter().map(|file| unsealed(file)).collect();
    let lines =
        unsealed.iter().flat_map(|file| file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec));
    unsealed.iter().cloned().chain(lines).chain(files).collect()
}

fn rows(from: &Path) -> Vec<Vec<u8>> {
    with_unsealed(files(from, "", "results.jsonl"))
}

fn results(place: &mut Workplace, input: &[u8]) -> Result<()> {
    place.write("rows/results.jsonl", input);
    reported(place, "rows")
}

/// All that `report` does; charts take long and are drawn of a few.
fn reported(place: &mut Workplace, name: &str) -> Result<()> {
    let folder = place.folder.join(name);
    let report = Report::read(&folder, None)?;
    report.tables();
    report.histories();
    let rows = longwave_eval::row::read_rows(&folder.join("results.jsonl"))?;
    Tidy::of(&rows)?.csv();
    if place.is_rare() { report.write(&folder).map(|_| ()) } else { Ok(()) }
}

fn metrics_lines(from: &Path) -> Vec<Vec<u8>> {
    with_unsealed(files(from, "", "metrics.jsonl"))
}

fn metrics(place: &mut Workplace, input: &[u8]) -> Result<()> {
    let rows = fs::read(place.samples.join("plain/results.jsonl")).unwrap();
    place.write("logged/results.jsonl", &rows);
    place.write("logged/metrics.jsonl", input);
    let reported = reported(place, "logged");
    let opened = Metrics::open(&place.folder.join("logged"), 3).map(|_| ());
    reported.and(opened)
}

fn journal(place: &mut Workplace, input: &[u8]) -> Result<()> {
    place.write("store/state/key.journal.jsonl", input);
    Store::new(&place.folder.join("store")).journal_lines("key").map(|_| ())
}

fn task(place: &mut Workplace, input: &[u8]) -> Result<()> {
    StudyTask::load(&place.write("task.toml", input)).map(|_| ())
}

fn plan(place: &mut Workplace, input: &[u8]) -> Result<()> {
    // A plan of many runs takes as long as that of a study.
    let study = toml(input)?.remove("study").and_then(|study| study.try_into::<Table>().ok());
    if let Some(study) = study {
        planned(study)?;
    }
    let path = place.write("study/plan.toml", input);
    saved::load(path.parent().unwrap()).map(|_| ())
}

fn run(place: &mut Workplace, input: &[u8]) -> Result<()> {
    let path = place.write("run/config.toml", input);
    let folder = path.parent().unwrap();
    Run::read(folder)?;
    Config::of_run(folder).map(|_| ())
}

fn record(place: &mut Workplace, input: &[u8]) -> Result<()> {
    let path = place.write("run/data.json", input);
    Record::read(path.parent().unwrap()).map(|_| ())
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

fn tokens_begin(from: &Path) -> Vec<Vec<u8>> {
    let of = |(index, name): (usize, &&str)| {
        files(from, "cache", name).into_iter().map(move |file| [vec![index as u8], file].concat())
    };
    TOKEN_FILES.iter().enumerate().flat_map(of).collect()
}

fn tokens(place: &mut Workplace, input: &[u8]) -> Result<()> {
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

fn hub_begin(from: &Path) -> Vec<Vec<u8>> {
    let mut configs = files(from, "", "-exported/config.json");
    let published: Vec<Value> = configs
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
    configs.extend(published.iter().chain([&gpt2, &neox]).map(|value| value.to_string().into_bytes()));
    configs
}

fn hub(place: &mut Workplace, input: &[u8]) -> Result<()> {
    imported(place, "config.json", input)
}

fn weights_begin(from: &Path) -> Vec<Vec<u8>> {
    files(from, "plain-exported", "model.safetensors")
}

fn weights(place: &mut Workplace, input: &[u8]) -> Result<()> {
    imported(place, "model.safetensors", input)
}

/// Imports the small export with one file of another content.
fn imported(place: &Workplace, name: &str, input: &[u8]) -> Result<()> {
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
