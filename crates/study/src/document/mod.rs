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
use changes::{check_set, check_undone, check_varied};
use longwave_core::config::{read, take_table, take_tables};
use longwave_core::{Error, Result, file};
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
    /// The config that every run begins with, changed by `[set]`; without `evaluate` and `seed`.
    pub base: Table,
    /// What is varied; the runs are all combinations of their points.
    pub axes: Vec<Axis>,
    /// Seeds of every combination; the most where claims decide how many there are.
    pub seeds: Vec<u64>,
    /// After how many seeds claims are judged.
    pub looks: Looks,
    pub evaluations: Vec<EvaluateBlock>,
    /// What the study expects.
    pub claims: Vec<ClaimConfig>,
    /// What may predict what.
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

/// The documents of a study, as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The study file.
    pub document: Table,
    /// The base config that it names.
    pub base: Table,
}

/// The keys at the top of the file.
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

/// The most runs of a study.
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
        let changes = take_table(&mut document, "set")?;
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
        check_name(&top.name)?;
        let threads = top.threads.resolve()?;
        if top.devices.is_empty() {
            return Err(Error::value("devices", "[]", "there must be a device").hint("use [\"cpu\"]"));
        }
        check_set(&changes, given)?;
        let mut base = read_base(&top.base)?;
        let source = Source { document: written, base: base.clone() };
        merge(&mut base, &changes);
        if let Some(stages) = stages {
            base.insert("stage".to_owned(), stages);
        }
        let evaluations = if given { evaluations } else { take_tables(&mut base, "evaluate")? };
        base.remove("evaluate");
        base.remove("seed");
        let axes = axes
            .iter()
            .enumerate()
            .map(|(index, table)| Axis::read(table, &format!("axis[{index}]")))
            .collect::<Result<Vec<_>>>()?;
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
            evaluations: evaluations
                .into_iter()
                .enumerate()
                .map(|(index, table)| EvaluateBlock::read(table, &format!("evaluate[{index}]"), &axes))
                .collect::<Result<_>>()?,
            claims: claims
                .iter()
                .enumerate()
                .map(|(index, table)| ClaimConfig::read(table, &format!("claim[{index}]")))
                .collect::<Result<_>>()?,
            correlations: correlations
                .iter()
                .enumerate()
                .map(|(index, table)| Correlation::read(table, &format!("correlation[{index}]")))
                .collect::<Result<_>>()?,
            axes,
            best,
            threads,
            devices: top.devices,
            store: PathBuf::from(top.store),
            source,
        })
    }

    /// The config of the first combination.
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
        let document = Table::try_from(top)
            .map_err(|error| Error::failed(format!("the study cannot be written as TOML: {error}")))?;
        Self::from_table(document, &|_| Ok(base.clone()))
    }
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

fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.chars().all(plain) && !name.starts_with('.') {
        return Ok(());
    }
    let allowed = "it names a folder: letters, digits, `-`, `_` and `.`";
    Err(Error::value("name", format!("\"{name}\""), allowed)
        .hint("leave out what is none of these, as in `name = \"rope-long\"`"))
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
mod tests {
    use super::*;

    const BASE: &str = "name = \"b\"\nseed = 4\n[data]\ncorpus = \"c\"\n[position]\nkind = \"rope\"\n\
                        base = 100.0\n[train]\nsteps = 6\n[[evaluate]]\nlengths = [128]";

    fn study(text: &str) -> Result<Study> {
        let text = format!("name = \"s\"\nbase = \"b.toml\"\n{text}");
        Study::from_table(text.parse().unwrap(), &|_| Ok(BASE.parse().unwrap()))
    }

    fn message(text: &str) -> String {
        study(text).unwrap_err().to_string()
    }

    #[test]
    fn set_changes_key_by_key_and_a_kind_replaces() {
        let found = study("[set]\ntrain.length = 64\nposition = { kind = \"alibi\" }").unwrap();
        assert_eq!(found.base["train"].to_string(), "{ steps = 6, length = 64 }");
        assert_eq!(found.base["position"].to_string(), "{ kind = \"alibi\" }");
        assert_eq!(found.evaluations.len(), 1);
        assert!(!found.base.contains_key("seed") && !found.base.contains_key("evaluate"));
        assert_eq!(found.seeds, [0]);
    }

    #[test]
    fn nothing_that_is_set_is_undone_in_silence() {
        let axis =
            "[[axis]]\nkey = \"position\"\nvalues = [\"rope\", { kind = \"alibi\", slopes = \"linear\" }]\n";
        let within = message(&format!("[set]\nposition.base = 500\n{axis}"));
        assert!(
            within.starts_with("`set.position.base = 500` is not allowed: the axis `position` sets it"),
            "{within}"
        );
        // A point without an encoding of its own has that of `[set]`.
        let points = "[[axis]]\nname = \"what\"\npoints = [{ label = \"a\", position = \"rope\" }, { label = \"b\", train.clip = 2.0 }]\n";
        assert!(study(&format!("[set]\nposition.base = 500\n{points}")).is_ok());
        let base = "[[axis]]\nkey = \"position.base\"\nvalues = [100, 500]\n";
        let undone = message(&format!("{base}{axis}"));
        assert!(
            undone.starts_with(
                "the axis `position` sets `position.base` anew, which the axis `position.base` has set"
            ),
            "{undone}"
        );
        assert!(study(&format!("{axis}{base}")).is_ok(), "a single key changes what stands there");
        let steps = "[[axis]]\nname = \"again\"\nkey = \"train.steps\"\nvalues = [5, 6]\n";
        let twice = message(&format!("[[axis]]\nkey = \"train.steps\"\nvalues = [1, 2]\n{steps}"));
        assert!(twice.starts_with("the axis `again` sets `train.steps` anew"), "{twice}");
    }

    #[test]
    fn evaluations_name_runs_by_axis_and_label() {
        let axis =
            "[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n[[evaluate]]\nlengths = [128]\n";
        let found = study(&format!("{axis}only = {{ position = \"rope\" }}")).unwrap();
        assert_eq!(found.evaluations[0].only["position"], ["rope"]);
        assert!(!found.evaluations[0].block.contains_key("only"));
        let wrong = message(&format!("{axis}only = {{ position = \"ropee\" }}"));
        assert!(
            wrong.contains("evaluate[0].only.position") && wrong.ends_with("did you mean `rope`?"),
            "{wrong}"
        );
        assert!(
            message(&format!("{axis}only = {{ positon = \"rope\" }}")).contains("did you mean `position`?")
        );
    }

    #[test]
    fn refusals_name_the_key() {
        assert!(message("seedss = 3").contains("did you mean `seeds`?"));
        assert!(message("threads = 0").starts_with("`threads = 0`"));
        assert!(message("threads = \"all\"").contains("it is a number, or `auto`"));
        assert!(message("seeds = [1, 1]").contains("1 is listed twice"));
        assert!(message("seeds = 0").contains("there must be a seed"));
        assert!(message("seeds = \"all\"").contains("`seeds = \"until decided\"`"));
        assert!(message("seeds = \"until decided\"").contains("nothing to decide"));
        assert!(message("seeds = 3\nmax_seeds = 5").contains("the number of seeds is fixed"));
        let claim = "[[claim]]\nsays = \"yarn < ntk at 8L\"";
        assert!(
            message(&format!("seeds = \"until decided\"\nmax_seeds = 1\n{claim}")).contains("at least 2")
        );
        let until = study(&format!("seeds = \"until decided\"\nmax_seeds = 8\n{claim}")).unwrap();
        assert_eq!((until.seeds.len(), until.looks.seeds()), (8, &[3, 5, 8][..]));
        assert!(message("devices = []").contains("devices"));
        let best = "[[evaluate]]\nlengths = [128]\ncheckpoints = \"best\"\n";
        assert!(study(&format!("{best}{best}")).is_ok());
        let mixed = message(&format!("[[evaluate]]\nlengths = [128]\n{best}"));
        assert!(mixed.starts_with("`evaluate[1].checkpoints = \"best\"` is not allowed"), "{mixed}");
        let twice = "[[axis]]\nkey = \"train.steps\"\nvalues = [1]\n";
        assert!(message(&format!("{twice}{twice}")).contains("axis[1].name"));
    }
}
