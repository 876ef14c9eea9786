//! How the numbers of a report are measured again: commands.

use super::folder::Run;
use super::{Opening, Recipe};
use crate::block::Block;
use crate::newest::Older;
use longwave_core::in_order::{distinct, grouped};
use longwave_core::text::quoted;
use longwave_eval::{ResultRow, WINDOW_BASELINE, protocols};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The commands behind one table; none where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct How(Vec<String>);

impl How {
    /// A table of results: that of a study comes from the study, others are read from every run again.
    pub(super) fn of_block(block: &Block, runs: &[Run], opening: &Opening, folder: &Path) -> Self {
        if opening.recipe.is_some() {
            return Self::of_opening(opening);
        }
        let mut seen = BTreeSet::new();
        let commands = runs.iter().filter_map(|run| {
            let rows = block.rows().filter(|row| run.has(row)).collect::<Vec<_>>();
            let is_new = rows.first().is_some_and(|row| seen.insert((&row.run, row.seed, &row.config_hash)));
            is_new.then(|| evaluation(&rows, run, folder))
        });
        Self(commands.collect())
    }

    pub(super) fn of_opening(opening: &Opening) -> Self {
        Self(opening.recipe.as_ref().map(|recipe: &Recipe| recipe.commands.clone()).unwrap_or_default())
    }

    pub(super) fn commands(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join("\n"))
    }
}

const TRAINED: &str = "Save a config below under its name: its command trains that run again and measures what its \
    `[[evaluate]]` blocks ask for.";
const IMPORTED: &str = "A run that was imported is never trained: its command imports it again, where `DIR` stands for the folder \
    of the model. `imported.weights` in its config below is the SHA-256 of the weights, and what else was set at the import stands there too.";
const TABLES: &str = "Below each table stand the commands that measure it again on the runs as they are; tables by training step \
    come from `--checkpoints all`.";
const SAME: &str = "The same version reads the same text on the same device with as many threads to the same numbers. The table of \
    runs says which these were.";

/// What makes the runs of a folder again, in words and as commands.
pub(super) fn makings(runs: &[Run]) -> (Vec<String>, Vec<String>) {
    let (mut commands, mut ways) = (Vec::new(), [(TRAINED, false), (IMPORTED, false)]);
    for run in runs.iter().filter(|run| run.config.is_some()) {
        let name = run.name.rsplit('/').next().unwrap_or_default();
        let out = quoted(&format!("again/{name}"));
        let import = import(run, &out);
        ways[usize::from(import.is_some())].1 = true;
        let train = || format!("longwave train --config {} --out {out}", quoted(&format!("{name}.toml")));
        commands.push(import.unwrap_or_else(train));
    }
    let ways = ways.into_iter().filter_map(|(sentence, is_here)| is_here.then_some(sentence));
    (ways.chain([TABLES, SAME]).map(str::to_owned).collect(), commands)
}

/// The command that imports a run again; `None` of one that was trained here.
fn import(run: &Run, out: &str) -> Option<String> {
    // A report shows runs of any program: one whose config this one cannot read was not imported by it.
    let config = longwave_eval::Run::read(run.folder()).ok()?;
    let scaling = config.imported.as_ref()?.scaling;
    let set = |key: &str, value: Value| format!("--set {}", quoted(&format!("{key}={value}")));
    let mut parts = vec![format!("longwave import DIR --out {out}")];
    parts.extend(scaling.map(|scaling| format!("--scaling {scaling}")));
    parts.push(set("train.length", config.train.length.into()));
    // A run of a task has no corpus.
    let corpus = Some(config.data.corpus).filter(|corpus| !corpus.is_empty());
    parts.extend(corpus.map(|corpus| set("data.corpus", corpus.into())));
    parts.push(set("data.bos", config.data.bos.into()));
    Some(parts.join(" "))
}

/// That rows of a run from before it was trained further stand in no table, a sentence for each table that they would be in.
pub(super) fn missed(run: &Run, folder: &Path) -> Vec<String> {
    let table = |row: &ResultRow| {
        (row.run.clone(), row.seed, row.checkpoint.clone(), row.step, row.settings.of_table())
    };
    let of = |older: &[Older<'_>]| {
        let rows: Vec<&ResultRow> = older.iter().map(|it| it.row).collect();
        let count = if rows.len() == 1 { "1 row".to_owned() } else { format!("{} rows", rows.len()) };
        format!(
            "`{}` was trained further: tables and charts by length show step {}, and leave out what was measured only before, at step {} \
             ({count}). `{}` measures it again.",
            run.name,
            older[0].newer.step,
            rows[0].step,
            evaluation(&rows, run, folder)
        )
    };
    let missed = run.newest().missed();
    grouped(missed.into_iter().map(|it| (table(it.row), it))).iter().map(|(_, older)| of(older)).collect()
}

/// The command that measures rows of one run again. They stand in one table, so they differ in length and reading only.
fn evaluation(rows: &[&ResultRow], run: &Run, folder: &Path) -> String {
    let settings = &rows[0].settings;
    let mut parts = vec!["longwave eval".to_owned(), quoted(&run.place(folder))];
    if rows[0].checkpoint != "last" {
        parts.push(format!("--checkpoint {}", quoted(&rows[0].checkpoint)));
    }
    if let (Some(_), Some(corpus)) = (&settings.corpus_hash, &rows[0].corpus) {
        parts.push(format!("--corpus {}", quoted(corpus)));
    }
    parts.push(format!("--protocol {} --split {}", settings.protocol, settings.split));
    let lengths: BTreeSet<usize> = rows.iter().map(|row| row.settings.length).collect();
    parts.push(format!("--lengths {}", lengths.iter().map(usize::to_string).collect::<Vec<_>>().join(",")));
    let read = rows.iter().filter(|row| row.extend != WINDOW_BASELINE);
    let readings = distinct(read.map(|row| toml(&row.extend_config)));
    parts.extend(readings.iter().map(|reading| format!("--extend {}", quoted(reading))));
    let against = rows.iter().find_map(|row| row.difference.as_ref()).map(|difference| &difference.against);
    if let Some(against) = against.filter(|against| *against != WINDOW_BASELINE) {
        parts.push(format!("--against {}", quoted(&toml(against))));
    }
    parts.extend(keys(rows));
    if let Some(file) = &rows[0].key_tokens_file {
        parts.push(format!("--set tokens=key --set {}", quoted(&format!("key_tokens={file}"))));
    }
    parts.join(" ")
}

/// The keys of the protocol, those aside that follow from the length.
fn keys(rows: &[&ResultRow]) -> Vec<String> {
    let settings = rows[0].settings.without_length();
    let of_key =
        |key: protocols::Key| settings.keys.get(key.name).map(|value| format!("--set {}={value}", key.name));
    let mut parts: Vec<String> = protocols::keys().into_iter().filter_map(of_key).collect();
    parts.extend(tasks(rows));
    if rows.iter().any(|row| row.settings.exact == Some(true)) {
        parts.push("--set exact=true".to_owned());
    }
    parts
}

/// How the task was asked: a value for each key, or a list of them.
fn tasks(rows: &[&ResultRow]) -> Vec<String> {
    let mut keys: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (key, value) in rows.iter().flat_map(|row| row.settings.task.fields()) {
        let values = keys.entry(key).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let of = |(key, values): (&str, Vec<&Value>)| {
        let value = match values.as_slice() {
            [value] => inline_table(value),
            values => inline_table(&values.iter().map(|it| (*it).clone()).collect()),
        };
        format!("--set {}", quoted(&format!("task.{key}={value}")))
    };
    keys.into_iter().map(of).collect()
}

/// A config of an extension as the command line takes it: its kind, or an inline table.
fn toml(config: &Value) -> String {
    match config {
        Value::Object(fields) if fields.len() == 1 => {
            fields.get("kind").and_then(Value::as_str).map_or_else(|| inline_table(config), str::to_owned)
        }
        Value::String(kind) => kind.clone(),
        other => inline_table(other),
    }
}

/// JSON as a value of TOML, which knows no `null`.
fn inline_table(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| format!("{key} = {}", inline_table(value));
            let fields: Vec<String> =
                fields.iter().filter(|(_, value)| !value.is_null()).map(field).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline_table).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::blocks;
    use crate::example;
    use serde_json::json;

    #[test]
    fn a_table_has_its_command() {
        let mut rows = example::rows();
        for row in rows.iter_mut().filter(|row| row.extend == "yarn") {
            row.extend_config = json!({ "kind": "yarn", "ramp": "code", "scale": null, "temperature": 1.5 });
        }
        rows.retain(|row| ["direct", "yarn", WINDOW_BASELINE].contains(&row.extend.as_str()));
        let run = Run::new("it's".into(), rows.clone(), Path::new("runs/it's")).unwrap();
        let how = How::of_block(&blocks(&rows)[0], &[run], &Opening::default(), Path::new("runs"));
        assert_eq!(
            how.commands().unwrap(),
            "longwave eval 'runs/it'\\''s' --protocol fixed_target --split test --lengths 128,256,512,1024 \
             --extend direct --extend '{ kind = \"yarn\", ramp = \"code\", temperature = 1.5 }' --set target=128 \
             --set max_length=1024 --set window_stride=1024"
        );
    }

    #[test]
    fn a_run_that_was_imported_is_imported_again_and_not_trained() {
        let folder = tempfile::tempdir().unwrap();
        let run = |name: &str, imported: &str| {
            let own = folder.path().join(name);
            std::fs::create_dir(&own).unwrap();
            let config = format!(
                "name = \"x\"\n{imported}[data]\ncorpus = \"my texts\"\nbos = \"<s>\"\n[position]\nkind = \"rope\"\n\
                 [train]\nlength = 64\nbatch_tokens = 64\n"
            );
            std::fs::write(own.join("config.toml"), config).unwrap();
            Run::new(format!("runs/{name}"), example::rows(), &own).unwrap()
        };
        let plain = "[imported]\nweights = \"00\"\n";
        let scaled = format!("{plain}scaling = \"added\"\n");
        let (trained, imported) = (run("rope-0", ""), run("tiny-0", &scaled));
        let keys = "--set train.length=64 --set 'data.corpus=\"my texts\"' --set 'data.bos=\"<s>\"'";
        let import = format!("longwave import DIR --out again/tiny-0 --scaling added {keys}");
        let (sentences, commands) = makings(&[trained, imported]);
        assert_eq!(commands, ["longwave train --config rope-0.toml --out again/rope-0".to_owned(), import]);
        assert_eq!(sentences, [TRAINED, IMPORTED, TABLES, SAME]);
        // Nothing is said of trainings where there is none.
        let (sentences, commands) = makings(&[run("other-0", plain)]);
        assert_eq!(commands, [format!("longwave import DIR --out again/other-0 {keys}")]);
        assert_eq!(sentences, [IMPORTED, TABLES, SAME]);
    }

    #[test]
    fn a_study_is_its_own_recipe() {
        let rows = example::rows();
        let commands = vec!["longwave study a.toml".to_owned()];
        let recipe = Some(Recipe { commands, ..Recipe::default() });
        let opening = Opening { recipe, ..Opening::default() };
        let how = How::of_block(&blocks(&rows)[0], &[], &opening, Path::new("runs"));
        assert_eq!(how.commands().as_deref(), Some("longwave study a.toml"));
    }
}
