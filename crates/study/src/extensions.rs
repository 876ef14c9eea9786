//! The names of the extensions that a study reads with, as its tables and claims have them.

use crate::plan::Plan;
use longwave_core::canonical;
use longwave_core::in_order::distinct;
use longwave_eval::label::differing_keys;
use longwave_eval::search::keys_of;
use longwave_eval::{Evaluation, ResultRow, TaskKeys, WINDOW_BASELINE};
use longwave_position::ExtensionConfig;
use serde_json::Value;
use std::collections::HashSet;

/// An extension as a study compares it.
///
/// One whose values the validation split chooses is one extension, `yarn chosen`, whatever each seed chose: its config
/// has the lists in the place of the values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Extension {
    name: String,
    config: Value,
}

impl Extension {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    pub(crate) fn config(&self) -> &Value {
        &self.config
    }

    pub(crate) fn of_config(kind: &str, config: &Value) -> Self {
        Self { name: kind.to_owned(), config: config.clone() }
    }

    /// The same, of a task that is asked with other values.
    pub(crate) fn asked(mut self, task: &TaskKeys) -> Self {
        if !task.is_empty() {
            let mut fields = self.config.as_object().cloned().unwrap_or_default();
            fields.extend(task.fields().clone());
            self.config = Value::Object(fields);
        }
        self
    }

    pub(crate) fn of_row(row: &ResultRow) -> Self {
        let extension = match row.choice() {
            Some(among) => Self::chosen(&row.extend, &row.extend_config, among),
            None => Self::of_config(&row.extend, &row.extend_config),
        };
        extension.asked(&row.settings.task)
    }

    /// Those of an evaluation, for each way to ask a task, with the window baseline.
    pub(crate) fn of_evaluation(evaluation: &Evaluation) -> Vec<Self> {
        // A value without a JSON form is an error when it is measured.
        let json = |extension: &ExtensionConfig| serde_json::to_value(extension).unwrap_or_default();
        let fixed = evaluation.extensions.iter();
        let fixed = fixed.map(|one| Self::of_config(one.kind(), &json(one)));
        let chosen = evaluation.pending.values().map(|sweep| {
            let config = sweep.candidates().first().map(json).unwrap_or_default();
            Self::chosen(sweep.kind(), &config, &sweep.among(&evaluation.block))
        });
        let baseline = Self::of_config(WINDOW_BASELINE, &Value::Null);
        let all: Vec<Self> = fixed.chain(chosen).chain([baseline]).collect();
        let tasks = evaluation.block.tasks.iter();
        tasks.flat_map(|task| all.iter().map(move |one| one.clone().asked(task))).collect()
    }

    fn chosen(kind: &str, config: &Value, among: &Value) -> Self {
        let object = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
        let mut fields = object(Some(config));
        match keys_of(among) {
            // What a search finds is not in the config, but how it searches.
            Some(search) => {
                fields = object(among.get("with"));
                fields.extend(search);
            }
            None => fields.extend(object(Some(among))),
        }
        Self { name: format!("{kind} {CHOSEN}"), config: Value::Object(fields) }
    }
}

/// Follows the kind of an extension whose values the validation split chooses.
const CHOSEN: &str = "chosen";

/// The configs of each name that a study reads with.
#[derive(Clone, Debug, Default)]
pub struct Extensions(Vec<(String, Vec<Value>)>);

impl Extensions {
    /// Those that the plan asks for, and the window baseline.
    pub fn planned(plan: &Plan) -> Self {
        let mut extensions = Self::default();
        let mut seen = HashSet::new();
        for (_, job) in plan.jobs() {
            if seen.insert(&job.evaluation) {
                let evaluations = job.config.evaluations().iter();
                evaluations.flat_map(Extension::of_evaluation).for_each(|it| extensions.add(it));
            }
        }
        if !extensions.0.iter().any(|(name, _)| name == WINDOW_BASELINE) {
            extensions.add(Extension::of_config(WINDOW_BASELINE, &Value::Null));
        }
        extensions.0.sort_by_key(|(name, _)| name == WINDOW_BASELINE);
        extensions
    }

    pub(crate) fn add(&mut self, extension: Extension) {
        match self.0.iter_mut().find(|(known, _)| *known == extension.name) {
            Some((_, configs)) if configs.contains(&extension.config) => {}
            Some((_, configs)) => configs.push(extension.config),
            None => self.0.push((extension.name, vec![extension.config])),
        }
    }

    /// The label of an extension: its name, and the keys in which configs of that name differ.
    pub(crate) fn label(&self, extension: &Extension) -> String {
        self.label_of(&extension.name, &extension.config)
    }

    fn label_of(&self, name: &str, config: &Value) -> String {
        let configs = self.0.iter().find(|(known, _)| known == name).map(|(_, configs)| configs);
        let differing = configs.map(|all| differing_keys(all)).unwrap_or_default();
        let parts = differing.into_iter().map(|key| match config.get(&key) {
            Some(Value::String(text)) => format!("{key}={text}"),
            Some(value) => format!("{key}={value}"),
            None => format!("no {key}"),
        });
        std::iter::once(name.to_owned()).chain(parts).collect::<Vec<_>>().join(" ")
    }

    pub fn labels(&self) -> Vec<String> {
        self.configs().map(|(name, config)| self.label_of(name, config)).collect()
    }

    fn configs(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().flat_map(|(name, all)| all.iter().map(move |config| (name, config)))
    }

    /// What the extensions are that a word of a claim may mean, as text: their keys that are not at their defaults, which a later
    /// program may have more of.
    pub(crate) fn meant_by(&self, word: &str) -> Vec<String> {
        let labels = self.labels();
        let meant = meant(word, &labels);
        let configs = labels.iter().zip(self.configs()).filter(|(label, _)| meant.contains(label));
        configs.map(|(_, (_, config))| canonical::text(without_defaults(config))).collect()
    }
}

fn without_defaults(config: &Value) -> Value {
    let Value::Object(fields) = config else { return config.clone() };
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    // A kind with a key that must be given has no default config.
    let default = ExtensionConfig::from_value(&kind.into(), "extend").ok();
    let default = default.and_then(|it| serde_json::to_value(&it).ok()).unwrap_or_default();
    let is_default = |key: &str, value: &Value| key != "kind" && default.get(key) == Some(value);
    let given = fields.iter().filter(|(key, value)| !is_default(key, value));
    given.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The labels among `labels` that a word of a claim may mean: itself; or else those of extensions of this kind whose values
/// are chosen, or that say nothing more than which keys they leave out, as `ntk no log_n`.
pub(crate) fn meant<'a>(word: &str, labels: &'a [String]) -> Vec<&'a String> {
    if let Some(itself) = labels.iter().find(|label| *label == word) {
        return vec![itself];
    }
    let chosen = format!("{word} {CHOSEN}");
    distinct(labels.iter().filter(|label| **label == chosen || without_missing_keys(label) == word))
}

fn without_missing_keys(label: &str) -> String {
    let mut kept = Vec::new();
    let mut words = label.split(' ');
    while let Some(word) = words.next() {
        if word == "no" {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::tests::row;
    use longwave_data::Split;
    use serde_json::{Map, json};

    #[test]
    fn a_word_means_the_label_that_only_leaves_keys_out() {
        let labels =
            ["ntk no log_n", "ntk log_n=true", "rerope window=L/2 no log_n no allow_untrained", "linear"];
        let labels = labels.map(str::to_owned);
        assert_eq!(meant("ntk", &labels), [&labels[0]]);
        assert_eq!(meant("ntk log_n=true", &labels), [&labels[1]]);
        assert_eq!(meant("rerope window=L/2", &labels), [&labels[2]]);
        assert_eq!(meant("linear", &labels), [&labels[3]]);
        assert!(meant("rerope", &labels).is_empty());
        let several = ["ntk no log_n", "ntk chosen", "ntk log_n=true"].map(str::to_owned);
        assert_eq!(meant("ntk", &several), [&several[0], &several[1]]);
        // Labels of the plan and those of its results may both be listed.
        assert_eq!(meant("ntk", &[several[1].clone(), several[1].clone()]), [&several[1]]);
    }

    #[test]
    fn ways_to_ask_a_task_are_told_apart() {
        let asked = |extend: &str, depth: f64| {
            let mut row = row(extend, 256, 0, &[1.0]);
            let fields = Map::from_iter([("depth".to_owned(), json!(depth))]);
            row.settings.task = TaskKeys::of(fields);
            if extend == WINDOW_BASELINE {
                row.extend_config = Value::Null;
            }
            Extension::of_row(&row)
        };
        let mut extensions = Extensions::default();
        for extend in ["ntk", WINDOW_BASELINE] {
            for depth in [0.25, 0.5] {
                extensions.add(asked(extend, depth));
            }
        }
        let labels =
            ["ntk depth=0.25", "ntk depth=0.5", "window_baseline depth=0.25", "window_baseline depth=0.5"];
        assert_eq!(extensions.labels(), labels);
        assert_eq!(extensions.label(&asked(WINDOW_BASELINE, 0.5)), labels[3]);
    }

    #[test]
    fn what_seeds_chose_differently_is_one_extension() {
        let chosen = |beta: u32, split: Split| {
            let mut row = row("yarn", 256, 0, &[1.0]);
            row.extend_config = json!({ "kind": "yarn", "beta": beta });
            row.chosen_among = Some(json!({ "beta": [16, 32] }));
            row.settings.split = split;
            Extension::of_row(&row)
        };
        let mut extensions = Extensions::default();
        let rows = [(16, Split::Test), (32, Split::Test), (16, Split::Valid), (32, Split::Valid)];
        let rows = rows.map(|(beta, split)| chosen(beta, split));
        rows.iter().cloned().for_each(|row| extensions.add(row));
        assert_eq!(extensions.labels(), ["yarn chosen", "yarn beta=16", "yarn beta=32"]);
        assert_eq!(extensions.label(&rows[1]), "yarn chosen");
        assert_eq!(meant("yarn", &extensions.labels()), ["yarn chosen"]);
        assert!(meant("ntk", &extensions.labels()).is_empty());
    }

    #[test]
    fn two_ways_to_search_are_two_extensions() {
        let found = |method: &str, length: usize, factor: f64| {
            let mut row = row("longrope", 256, 0, &[1.0]);
            row.extend_config = json!({ "kind": "longrope", "long_factor": [factor] });
            let search = json!({ "method": method, "budget": 8, "length": length });
            row.chosen_among = Some(json!({ "search": search, "with": { "kind": "longrope" } }));
            Extension::of_row(&row)
        };
        let mut extensions = Extensions::default();
        for (method, length, factor) in
            [("longrope", 256, 1.5), ("longrope", 512, 2.0), ("longrope2", 256, 2.0)]
        {
            extensions.add(found(method, length, factor));
        }
        let labels = ["longrope chosen method=longrope", "longrope chosen method=longrope2"];
        assert_eq!(extensions.labels(), labels);
    }
}
