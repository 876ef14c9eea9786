//! The readers: what each begins with, and what it does with an input.

use crate::samples::BASE;
use crate::stored::{
    imported, metrics, plan, published, reported, tokenizer, tokens, tokens_begin, unsealed,
};
use crate::written::{
    CLAIMS, FORMULAS, claim, config, extension, extensions, formula, planned, studies, toml,
};
use longwave_core::Result;
use longwave_data::Record;
use longwave_experiment::{Config, reading_of};
use longwave_position::Reading;
use longwave_study::{Store, StudyTask};
use longwave_train::{Checkpoint, Run};
use std::fs;
use std::path::{Path, PathBuf};

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
    pub(crate) folder: PathBuf,
    pub(crate) samples: PathBuf,
    pub(crate) readings: Vec<Reading>,
    /// The files of a cache entry as they should be.
    pub(crate) entry: Vec<(PathBuf, Vec<u8>)>,
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

const fn binary(
    name: &'static str,
    about: &'static str,
    begin: fn(&Path) -> Vec<Vec<u8>>,
    read: fn(&mut Workplace, &[u8]) -> Result<()>,
) -> Reader {
    Reader { name, about, is_text: false, begin, read }
}

/// All readers.
pub(crate) const ALL: [Reader; 17] = [
    text("config", "a config, as `validate` reads it", |_| files(ROOT, "configs", ".toml"), config),
    text("study", "a study file, planned as by `--dry-run`", studies, |_, input| planned(toml(input)?)),
    text("claim", "a claim of a study", |_| owned(CLAIMS), claim),
    text(
        "formula",
        "an encoding written as a formula, and a pass of its model",
        |_| owned(FORMULAS),
        formula,
    ),
    text("extension", "what `--extend` takes, applied to five encodings", extensions, extension),
    text("tokenizer", "a `tokenizer.json`", |from| files(from, "", "tokenizer.json"), tokenizer),
    binary(
        "checkpoint",
        "a checkpoint",
        |from| files(from, "", ".safetensors"),
        |place, input| Checkpoint::load(&place.write("last.safetensors", input)).map(|_| ()),
    ),
    text(
        "rows",
        "`results.jsonl`, as `report` reads it",
        |from| unsealed(from, "results.jsonl"),
        |place, input| {
            place.write("rows/results.jsonl", input);
            reported(place, "rows")
        },
    ),
    text(
        "metrics",
        "`metrics.jsonl`, as training and `report` read it",
        |from| unsealed(from, "metrics.jsonl"),
        metrics,
    ),
    text(
        "journal",
        "the journal of a run in a study's store",
        |from| files(from, "store/state", ".jsonl"),
        |place, input| {
            place.write("store/state/key.journal.jsonl", input);
            Store::new(&place.folder.join("store")).journal_lines("key").map(|_| ())
        },
    ),
    text(
        "task",
        "a task of a study",
        |from| files(from, "tasks", ".toml"),
        |place, input| {
            StudyTask::load(&place.write("task.toml", input)).and_then(|task| task.job()).map(|_| ())
        },
    ),
    text("plan", "the `plan.toml` of a study", |from| files(from, "study", "plan.toml"), plan),
    text(
        "run",
        "the `config.toml` of a run",
        |from| files(from, "", "config.toml"),
        |place, input| {
            place.write("run/config.toml", input);
            Run::read(&place.folder.join("run"))?;
            Config::of_run(&place.folder.join("run")).map(|_| ())
        },
    ),
    text(
        "record",
        "the `data.json` of a run",
        |from| files(from, "", "data.json"),
        |place, input| {
            place.write("run/data.json", input);
            Record::read(&place.folder.join("run")).map(|_| ())
        },
    ),
    binary("tokens", "the files of a cache entry, with a fitting index", tokens_begin, tokens),
    text("hub", "a `config.json` to import", published, |place, input| imported(place, "config.json", input)),
    binary(
        "weights",
        "a `model.safetensors` to import",
        |from| files(from, "plain-exported", "model.safetensors"),
        |place, input| imported(place, "model.safetensors", input),
    ),
];

/// The repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

pub(crate) fn find(name: &str) -> Option<&'static Reader> {
    ALL.iter().find(|reader| reader.name == name)
}

/// What a reader begins with: inputs that failed once, and real ones.
pub(crate) fn seeds(reader: &Reader, samples: &Path) -> Vec<Vec<u8>> {
    let mut seeds = files(ROOT, &format!("tests/fuzz/{}", reader.name), "");
    seeds.extend((reader.begin)(samples));
    seeds
}

/// The contents of the files below a folder whose names end so, in the order of their paths.
pub(crate) fn files(root: impl AsRef<Path>, below: &str, end: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    collect(&root.as_ref().join(below), &mut paths);
    paths.sort();
    let of_end = |path: &&PathBuf| path.to_string_lossy().ends_with(end);
    paths.iter().filter(of_end).map(|path| fs::read(path).unwrap()).collect()
}

pub(crate) fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, paths);
        } else {
            paths.push(path);
        }
    }
}

pub(crate) fn owned(texts: &[&str]) -> Vec<Vec<u8>> {
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

    pub(crate) fn write(&self, name: &str, input: &[u8]) -> PathBuf {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, input).unwrap();
        path
    }

    /// Whether this is one of the few inputs with which something slow is done.
    pub(crate) fn is_rare(&mut self) -> bool {
        self.reads += 1;
        self.reads.is_multiple_of(64)
    }
}

const MIXED: &str = "{ kind = 'mixed', layers = ['none', { kind = 'rope', window = 8 }], pattern = [1, 0] }";
