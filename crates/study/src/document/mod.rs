//! A study file, `experiments/NAME.toml`, read strictly.

mod changes;
mod evaluate_block;
mod seeds;

use crate::axis::Axis;
use crate::best::Best;
use crate::claim::ClaimConfig;
use crate::correlation::Correlation;
use crate::looks::Looks;
use crate::schema::pointed;
use changes::{check_set, check_undone, check_varied, nested};
use longwave_core::config::{read, take_table, take_tables};
use longwave_core::{Error, Result, file, written};
use seeds::Seeds;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

pub use changes::assign;
pub(crate) use changes::{leaves, merge};
pub use evaluate_block::EvaluateBlock;
pub(crate) use evaluate_block::Names;

/// Where runs are kept unless the file says otherwise.
pub const STORE: &str = "runs/store";

/// The folder of the studies that share a store: `studies` beside it.
pub fn studies(store: &Path) -> PathBuf {
    // `.` has no name, and what it lies in is not in the path.
    let named = if store.file_name().is_some() { Ok(store.to_owned()) } else { std::path::absolute(store) };
    let named = named.unwrap_or_else(|_| store.to_owned());
    named.parent().unwrap_or(Path::new("")).join("studies")
}

/// A study: a base config, what is varied, and what is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Names the study's folder.
    pub name: String,
    /// The config that every run begins with, changed by `[set]`; without `seed`, and without `evaluate` unless that is empty: then nothing
    /// is measured.
    pub base: Table,
    /// What is varied; the runs are all combinations of their points.
    pub axes: Vec<Axis>,
    /// Seeds of every combination; the most where claims decide how many there are.
    pub seeds: Vec<u64>,
    /// After how many seeds claims are judged.
    pub looks: Looks,
    pub evaluations: Vec<EvaluateBlock>,
    pub claims: Vec<ClaimConfig>,
    pub correlations: Vec<Correlation>,
    /// The length at which everything is ranked, and by what.
    pub best: Option<Best>,
    /// Threads of a run on the CPU; the number that is fastest where none is given.
    pub threads: Option<usize>,
    /// Devices that runs are assigned to: on this machine to whichever is free, by launchers in turn.
    pub devices: Vec<String>,
    /// The folder of runs, shared by studies.
    pub store: PathBuf,
    pub source: Source,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub document: Table,
    pub base: Table,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Top {
    name: String,
    base: String,
    #[serde(default = "one_seed")]
    seeds: Seeds,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_seeds: Option<u64>,
    #[serde(default)]
    threads: Threads,
    #[serde(default = "cpu")]
    devices: Vec<String>,
    #[serde(default = "store")]
    store: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "a number of threads, or \"auto\"")]
enum Threads {
    Count(usize),
    Word(String),
}

impl Default for Threads {
    fn default() -> Self {
        Self::Count(1)
    }
}

impl Threads {
    fn resolve(self) -> Result<Option<usize>> {
        match self {
            Self::Count(0) => Err(Error::value("threads", 0, "it must be at least 1")),
            Self::Count(count) => Ok(Some(count)),
            Self::Word(word) if word == "auto" => Ok(None),
            Self::Word(word) => {
                Err(Error::value("threads", format!("\"{word}\""), "it is a number, or `auto`")
                    .hint("`auto` measures what is fastest on this machine"))
            }
        }
    }
}

/// What to write in the place of a key that a study has elsewhere.
fn hint_of_foreign(key: &str) -> Option<&'static str> {
    match key {
        "encoding" | "encodings" | "positions" => Some(
            "vary the encoding on an axis: `[[axis]]` with `key = \"position\"` and `values = [\"rope\", \"alibi\"]` below it",
        ),
        "data" | "model" | "position" | "train" => Some(
            "a key of all runs stands in `[set]`, as `set = { train = { steps = 60 } }`; one that varies has an `[[axis]]`",
        ),
        "lengths" | "extend" | "protocol" => Some("it is a key of `[[evaluate]]`"),
        _ => None,
    }
}

fn one_seed() -> Seeds {
    Seeds::Count(1)
}

fn cpu() -> Vec<String> {
    vec!["cpu".to_owned()]
}

fn store() -> String {
    STORE.to_owned()
}

pub const MOST_RUNS: u64 = 100_000;

/// Sections that hold tables of their own.
const SECTIONS: [&str; 6] = ["set", "axis", "stage", "evaluate", "claim", "correlation"];
const KEYS: [&str; 8] = ["name", "base", "seeds", "max_seeds", "best", "threads", "devices", "store"];

impl Study {
    /// Reads a study file; `find_base` turns the name of its base config into a path.
    pub fn load(path: &Path, find_base: &dyn Fn(&Path) -> Result<PathBuf>) -> Result<Self> {
        let document = read_toml(path)?;
        Self::from_table(document, &|base| read_toml(&find_base(Path::new(base))?))
    }

    /// Reads a study's document; `read_base` gives the document of the base config.
    pub fn from_table(mut document: Table, read_base: &dyn Fn(&str) -> Result<Table>) -> Result<Self> {
        let written = document.clone();
        let changes = nested(&take_table(&mut document, "set")?)?;
        let axes = take_tables(&mut document, "axis")?;
        let stages = document.remove("stage");
        let given = document.contains_key("evaluate");
        let evaluations = take_tables(&mut document, "evaluate")?;
        let claims = take_tables(&mut document, "claim")?;
        let correlations = take_tables(&mut document, "correlation")?;
        if let Some(key) = document.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let known: Vec<&str> = KEYS.into_iter().chain(SECTIONS).collect();
            let error = longwave_core::config::unknown_key(key, key, &known);
            return Err(match hint_of_foreign(key) {
                Some(hint) => error.hint(hint),
                None => pointed(error),
            });
        }
        let best = Best::take(&mut document)?;
        let top: Top = read(&document, "").map_err(pointed)?;
        file::check_folder_name(&top.name)?;
        let threads = top.threads.resolve()?;
        if top.devices.is_empty() {
            return Err(Error::value("devices", "[]", "there must be a device").hint("use [\"cpu\"]"));
        }
        check_set(&changes, [given, stages.is_some()])?;
        let mut base = read_base(&top.base)?;
        let source = Source { document: written, base: base.clone() };
        merge(&mut base, &changes);
        if let Some(stages) = stages {
            base.insert("stage".to_owned(), stages);
        }
        let evaluations = settle_evaluations(given.then_some(evaluations), &mut base)?;
        base.remove("seed");
        let axes = each(&axes, "axis", Axis::read)?;
        check_axes(&axes)?;
        check_varied(&changes, &axes)?;
        check_undone(&axes)?;
        check_checkpoints(&evaluations)?;
        let (seeds, looks) = top.seeds.resolve(top.max_seeds, !claims.is_empty())?;
        check_size(&axes, seeds.len())?;
        if !claims.is_empty() {
            axes.iter().try_for_each(Axis::check_nameable)?;
        }
        Ok(Self {
            name: top.name,
            base,
            seeds,
            looks,
            evaluations: each(&evaluations, "evaluate", |block, section| {
                EvaluateBlock::read(block.clone(), section, &axes)
            })?,
            claims: each(&claims, "claim", ClaimConfig::read)?,
            correlations: each(&correlations, "correlation", Correlation::read)?,
            axes,
            best,
            threads,
            devices: top.devices,
            store: PathBuf::from(top.store),
            source,
        })
    }

    pub fn first_config(&self) -> Table {
        let mut config = self.base.clone();
        for axis in &self.axes {
            merge(&mut config, &axis.points[0].changes);
        }
        config
    }

    /// A study without a file: one config with several seeds.
    pub fn of_seeds(
        name: String,
        base: &Table,
        seeds: Vec<u64>,
        threads: usize,
        device: String,
    ) -> Result<Self> {
        let top = Top {
            name,
            base: "config.toml".to_owned(),
            seeds: Seeds::List(seeds),
            max_seeds: None,
            threads: Threads::Count(threads),
            devices: vec![device],
            store: store(),
        };
        let document = written::toml_table("the study", &top)?;
        Self::from_table(document, &|_| Ok(base.clone()))
    }
}

/// The evaluations of a study: its `own`, or else those of its base, which it takes from there.
fn settle_evaluations(own: Option<Vec<Table>>, base: &mut Table) -> Result<Vec<Table>> {
    let is_given = own.is_some() || base.contains_key("evaluate");
    let evaluations = match own {
        Some(own) => own,
        None => take_tables(base, "evaluate")?,
    };
    base.remove("evaluate");
    if is_given && evaluations.is_empty() {
        // Without the key each run would have the default block.
        base.insert("evaluate".to_owned(), Value::Array(Vec::new()));
    }
    Ok(evaluations)
}

/// Reads the tables of a list, each by its place in the file.
fn each<T>(tables: &[Table], list: &str, read: impl Fn(&Table, &str) -> Result<T>) -> Result<Vec<T>> {
    tables.iter().enumerate().map(|(index, table)| read(table, &format!("{list}[{index}]"))).collect()
}

/// The runs of a study are counted before any is planned.
fn check_size(axes: &[Axis], seeds: usize) -> Result<()> {
    let points = axes.iter().map(|axis| axis.points.len() as u128);
    let runs = points.fold(seeds as u128, u128::saturating_mul);
    if runs > u128::from(MOST_RUNS) { Err(too_many("the product of seeds and axes", runs)) } else { Ok(()) }
}

fn too_many(what: &str, runs: u128) -> Error {
    Error::usage(format!("the study has {runs} runs by {what}, and at most {MOST_RUNS} are allowed"))
        .hint("split the study, or vary keys together in one axis with `keys`")
}

/// The end of training in one block and the best step in another would stand in one table, and in one ranking.
fn check_checkpoints(evaluations: &[Table]) -> Result<()> {
    let reads_best = |block: &Table| block.get("checkpoints").and_then(Value::as_str) == Some("best");
    let other = evaluations.iter().position(|block| !reads_best(block));
    match (evaluations.iter().position(reads_best), other) {
        (Some(best), Some(other)) => Err(Error::value(
            &format!("evaluate[{best}].checkpoints"),
            "\"best\"",
            format!("`evaluate[{other}]` reads the end of training, and a study compares all runs at the one or the other"),
        )
        .hint("write `checkpoints = \"best\"` in all blocks, or a second study: it trains nothing again")),
        _ => Ok(()),
    }
}

fn check_axes(axes: &[Axis]) -> Result<()> {
    for (index, axis) in axes.iter().enumerate() {
        if axes[..index].iter().any(|earlier| earlier.name == axis.name) {
            return Err(Error::value(
                &format!("axis[{index}].name"),
                format!("\"{}\"", axis.name),
                "another axis has this name",
            )
            .hint("give one of them another `name`"));
        }
    }
    Ok(())
}

fn read_toml(path: &Path) -> Result<Table> {
    file::read_text(path)?.parse().map_err(|error: toml::de::Error| {
        Error::usage(format!("`{}` is no TOML: {}", path.display(), error.to_string().trim_end()))
            .hint("see the studies in `experiments/` for the form")
    })
}

#[cfg(test)]
mod tests;
