//! A study file, `experiments/NAME.toml`, read strictly.

use crate::axis::Axis;
use crate::claim::ClaimConfig;
use crate::schema::pointed;
use longwave_core::config::{read, set, take_table, take_tables};
use longwave_core::{Error, Result, file};
use longwave_position::Tokens;
use longwave_position::encodings::ENCODINGS;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Where runs are kept unless the file says otherwise.
pub const STORE: &str = "runs/store";

/// The folder of the studies that share a store: `studies` beside it.
pub fn studies(store: &Path) -> PathBuf {
    store.parent().unwrap_or(Path::new("")).join("studies")
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
    /// Seeds of every combination.
    pub seeds: Vec<u64>,
    /// Blocks that runs are evaluated by, each for some or all of the runs.
    pub evaluations: Vec<EvaluateBlock>,
    /// What the study expects.
    pub claims: Vec<ClaimConfig>,
    /// The length at which everything is ranked.
    pub best: Option<Tokens>,
    /// Threads of a run on the CPU.
    pub threads: usize,
    /// Devices that runs are assigned to: on this machine to whichever is free, by launchers in turn.
    pub devices: Vec<String>,
    /// The folder of runs, shared by studies.
    pub store: PathBuf,
    /// The documents that it was read from.
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

/// An `[[evaluate]]` block and the runs it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluateBlock {
    /// The block as a config has it.
    pub block: Table,
    /// Axis name to labels: only runs with one of the labels on each named axis; empty means all runs. `encoding` names
    /// kinds of encodings, unless an axis has that name.
    pub only: BTreeMap<String, Vec<String>>,
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
    best: Option<Tokens>,
    #[serde(default = "one")]
    threads: usize,
    #[serde(default = "cpu")]
    devices: Vec<String>,
    #[serde(default = "store")]
    store: String,
}

/// A number of seeds from 0, or the seeds themselves.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "a number of seeds, or a list of them")]
enum Seeds {
    Count(u64),
    List(Vec<u64>),
}

fn one() -> usize {
    1
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

/// What `only` calls the encoding of a run, unless an axis has that name.
const ENCODING: &str = "encoding";
/// The most runs of a study.
pub const MOST_RUNS: u64 = 100_000;

/// Sections that hold tables of their own.
const SECTIONS: [&str; 5] = ["set", "axis", "stage", "evaluate", "claim"];
const KEYS: [&str; 7] = ["name", "base", "seeds", "best", "threads", "devices", "store"];

impl Study {
    /// Reads a study file; `find_base` turns the name of its base config into a path.
    ///
    /// # Errors
    /// The file or its base is missing or no TOML, or a key or value is not allowed.
    pub fn load(path: &Path, find_base: &dyn Fn(&Path) -> Result<PathBuf>) -> Result<Self> {
        let document = read_toml(path)?;
        Self::from_table(document, &|base| read_toml(&find_base(Path::new(base))?))
    }

    /// Reads a study's document; `read_base` gives the document of the base config.
    ///
    /// # Errors
    /// A key or value is not allowed, or the base cannot be read.
    pub fn from_table(mut document: Table, read_base: &dyn Fn(&str) -> Result<Table>) -> Result<Self> {
        let written = document.clone();
        let changes = take_table(&mut document, "set")?;
        let axes = take_tables(&mut document, "axis")?;
        let stages = document.remove("stage");
        let given = document.contains_key("evaluate");
        let evaluations = take_tables(&mut document, "evaluate")?;
        let claims = take_tables(&mut document, "claim")?;
        if let Some(key) = document.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let known: Vec<&str> = KEYS.into_iter().chain(SECTIONS).collect();
            return Err(pointed(longwave_core::config::unknown_key(key, key, &known)));
        }
        let top: Top = read(&document, "").map_err(pointed)?;
        check_name(&top.name)?;
        if top.threads == 0 {
            return Err(Error::value("threads", 0, "it must be at least 1"));
        }
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
        let seeds = seeds(top.seeds)?;
        check_size(&axes, seeds.len())?;
        Ok(Self {
            name: top.name,
            base,
            seeds,
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
            axes,
            best: top.best,
            threads: top.threads,
            devices: top.devices,
            store: PathBuf::from(top.store),
            source,
        })
    }

    /// A study without a file: one config with several seeds.
    ///
    /// # Errors
    /// The config's name cannot name a folder, or its evaluations are no list of tables.
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
            best: None,
            threads,
            devices: vec![device],
            store: store(),
        };
        let document = Table::try_from(top)
            .map_err(|error| Error::failed(format!("the study cannot be written as TOML: {error}")))?;
        Self::from_table(document, &|_| Ok(base.clone()))
    }
}

impl EvaluateBlock {
    fn read(mut block: Table, section: &str, axes: &[Axis]) -> Result<Self> {
        let only = take_table(&mut block, "only").map_err(|error| error.context(section))?;
        let only = only
            .iter()
            .map(|(name, value)| {
                let key = format!("{section}.only.{name}");
                let known: Vec<&str> = match axes.iter().find(|axis| axis.name == *name) {
                    Some(axis) => axis.points.iter().map(|point| point.label.as_str()).collect(),
                    None if name == ENCODING => {
                        ENCODINGS.iter().map(|entry| entry.kind).chain(["mixed"]).collect()
                    }
                    None => {
                        let known: Vec<&str> =
                            axes.iter().map(|axis| axis.name.as_str()).chain([ENCODING]).collect();
                        return Err(longwave_core::config::unknown_key(&key, name, &known));
                    }
                };
                let labels = labels(value).ok_or_else(|| {
                    Error::value(&key, value, "it must be a label of that axis, or a list of them")
                })?;
                match labels.iter().find(|label| !known.contains(&label.as_str())) {
                    Some(label) => Err(longwave_core::config::unknown_kind(&key, label, known)),
                    None => Ok((name.clone(), labels)),
                }
            })
            .collect::<Result<_>>()?;
        Ok(Self { block, only })
    }

    /// Whether it is for a run.
    pub(crate) fn is_for(&self, names: &Names<'_>) -> bool {
        self.only
            .iter()
            .all(|(name, allowed)| allowed.iter().any(|label| Some(label.as_str()) == names.get(name)))
    }
}

/// What `only` may name of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) axes: &'a [Axis],
    /// The label on each axis.
    pub(crate) labels: &'a [String],
    /// The kind of the encoding.
    pub(crate) encoding: &'a str,
}

impl<'a> Names<'a> {
    /// The run's label on an axis, or its encoding.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        match self.axes.iter().position(|axis| axis.name == name) {
            Some(axis) => Some(&self.labels[axis]),
            None => (name == ENCODING).then_some(self.encoding),
        }
    }
}

fn labels(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(label) => Some(vec![label.clone()]),
        Value::Array(list) => list.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn seeds(seeds: Seeds) -> Result<Vec<u64>> {
    let list = match seeds {
        Seeds::Count(count) if count > MOST_RUNS => return Err(too_many("seeds", u128::from(count))),
        Seeds::Count(count) => (0..count).collect(),
        Seeds::List(list) => list,
    };
    if list.is_empty() {
        return Err(Error::value("seeds", "0", "there must be a seed").hint("use `seeds = 3`, or a list"));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = list.iter().find(|seed| !seen.insert(**seed)) {
        return Err(Error::value("seeds", format!("{list:?}"), format!("{twice} is listed twice")));
    }
    Ok(list)
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

/// Changes a study's document by `KEY=VALUE`: a key of the study itself, or one of the config that every run begins
/// with. Gives a warning where the key could mean several blocks.
///
/// # Errors
/// The assignment has no `=`, or its key runs through something that is not a table.
pub fn assign(document: &mut Table, assignment: &str) -> Result<Option<String>> {
    let first = assignment.split(['.', '=']).next().unwrap_or_default().trim();
    if KEYS.contains(&first) || SECTIONS.contains(&first) {
        return set(document, assignment);
    }
    match document.entry("set").or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(changes) => set(changes, assignment),
        other => Err(Error::value("set", &*other, "it must be a table")),
    }
}

/// What a run of a study takes from elsewhere cannot be changed by `[set]`.
fn check_set(changes: &Table, has_evaluations: bool) -> Result<()> {
    let ignored = [
        ("seed", true, "every run has one of `seeds`; write `seeds = [3]`"),
        ("name", true, "runs are named after their content; `name` above `[set]` is the study's"),
        ("evaluate", has_evaluations, "the study has `[[evaluate]]` of its own; change it there"),
    ];
    for (key, is_ignored, hint) in ignored {
        if let (true, Some(value)) = (is_ignored, changes.get(key)) {
            return Err(Error::value(&format!("set.{key}"), value, "it would have no effect").hint(hint));
        }
    }
    Ok(())
}

/// A key that an axis varies everywhere has no other value.
fn check_varied(changes: &Table, axes: &[Axis]) -> Result<()> {
    for (key, value) in leaves(changes, "") {
        let varies = |axis: &&Axis| {
            axis.points
                .iter()
                .all(|point| leaves(&point.changes, "").iter().any(|(varied, _)| *varied == key))
        };
        if let Some(axis) = axes.iter().find(varies) {
            let why = format!("the axis `{}` sets it in every run", axis.name);
            return Err(Error::value(&format!("set.{key}"), value, why).hint("change the values of the axis"));
        }
    }
    Ok(())
}

/// The keys of a table with their values, dotted; a table with a `kind` is one value.
fn leaves<'a>(table: &'a Table, section: &str) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let key = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
        match value {
            Value::Table(inner) if !inner.contains_key("kind") => found.extend(leaves(inner, &key)),
            other => found.push((key, other)),
        }
    }
    found
}

fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.chars().all(plain) && !name.starts_with('.') {
        return Ok(());
    }
    let allowed = "it names a folder: letters, digits, `-`, `_` and `.`";
    Err(Error::value("name", format!("\"{name}\""), allowed))
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

/// Changes a config: dotted and nested keys alike. A table with a `kind`, or one that takes the place of
/// another kind of value, replaces what stands there; other tables change key by key.
pub(crate) fn merge(document: &mut Table, changes: &Table) {
    for (key, value) in changes {
        merge_at(document, key, value);
    }
}

fn merge_at(table: &mut Table, key: &str, value: &Value) {
    if let Some((first, rest)) = key.split_once('.') {
        if !matches!(table.get(first), Some(Value::Table(_))) {
            table.insert(first.to_owned(), Value::Table(Table::new()));
        }
        if let Some(Value::Table(inner)) = table.get_mut(first) {
            merge_at(inner, rest, value);
        }
        return;
    }
    match (table.get_mut(key), value) {
        (Some(Value::Table(old)), Value::Table(new)) if !new.contains_key("kind") => merge(old, new),
        _ => {
            table.insert(key.to_owned(), value.clone());
        }
    }
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
        assert!(message("seeds = [1, 1]").contains("1 is listed twice"));
        assert!(message("seeds = 0").contains("there must be a seed"));
        assert!(message("devices = []").contains("devices"));
        let twice = "[[axis]]\nkey = \"train.steps\"\nvalues = [1]\n";
        assert!(message(&format!("{twice}{twice}")).contains("axis[1].name"));
    }
}
