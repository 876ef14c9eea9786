//! The rows of a study's finished runs, in the order of its plan, each with what its run was.

use crate::plan::Plan;
use crate::store::{Failure, Store};
use longwave_core::Result;
use longwave_eval::column::ColumnType;
use longwave_eval::{ResultRow, WINDOW_BASELINE};
use longwave_report::{Column, Tidy};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// What a study measured.
#[derive(Clone, Debug)]
pub struct Results {
    /// Names of the axes.
    pub axes: Vec<String>,
    /// All rows.
    pub rows: Vec<Measured>,
    /// Runs that failed: their place in the plan, and why.
    pub failures: Vec<(usize, Failure)>,
    /// Places of runs that are neither finished nor failed.
    pub missing: Vec<usize>,
}

/// One row and the run it is of.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The run's place in the plan.
    pub run: usize,
    /// The run's label on each axis.
    pub labels: Vec<String>,
    /// The extension's kind, and the keys in which its config differs from others of that kind in the study.
    pub extend: String,
    /// The row.
    pub row: ResultRow,
}

impl Results {
    /// Gathers what the store has of a plan.
    ///
    /// # Errors
    /// A file of the store cannot be read.
    pub fn gather(plan: &Plan, store: &Store) -> Result<Self> {
        let mut results =
            Self { axes: plan.axes.clone(), rows: Vec::new(), failures: Vec::new(), missing: Vec::new() };
        for (run, planned) in plan.runs.iter().enumerate() {
            let job = match &planned.job {
                Ok(job) => job,
                Err(error) => {
                    let hint = error.hint_text().map(str::to_owned);
                    results.failures.push((run, Failure { reason: error.message().to_owned(), hint }));
                    continue;
                }
            };
            if let Some(rows) = store.rows(job)? {
                let labels = &planned.labels;
                results.rows.extend(rows.into_iter().map(|row| Measured {
                    run,
                    labels: labels.clone(),
                    extend: String::new(),
                    row,
                }));
            } else if let Some(failure) = store.failure(job)? {
                results.failures.push((run, failure));
            } else {
                results.missing.push(run);
            }
        }
        results.name_extensions(Extensions::planned(plan));
        Ok(results)
    }

    /// Names each row's extension, apart from those of the plan and of other rows.
    fn name_extensions(&mut self, mut extensions: Extensions) {
        for measured in &self.rows {
            extensions.add(&measured.row.extend, &measured.row.extend_config);
        }
        for measured in &mut self.rows {
            measured.extend = extensions.label(&measured.row.extend, &measured.row.extend_config);
        }
    }

    /// Every way of reading, in order of first appearance with the window baseline last.
    pub fn extensions(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for measured in &self.rows {
            if !names.contains(&measured.extend.as_str()) {
                names.push(&measured.extend);
            }
        }
        names.sort_by_key(|name| *name == WINDOW_BASELINE);
        names
    }

    /// All rows as a table: the axes, the extension's label, and the [columns of a row](longwave_report::csv).
    ///
    /// # Errors
    /// A row has no JSON form.
    pub fn table(&self) -> Result<Tidy> {
        let mut table = Tidy::of(self.rows.iter().map(|measured| &measured.row))?;
        let mut columns: Vec<Column> = Vec::new();
        for (index, axis) in self.axes.iter().enumerate() {
            let name = if table.has(axis) { format!("axis.{axis}") } else { axis.clone() };
            let values = self.rows.iter().map(|row| Value::String(row.labels[index].clone())).collect();
            columns.push(Column::new(&name, ColumnType::Text, values));
        }
        let labels = self.rows.iter().map(|row| Value::String(row.extend.clone())).collect();
        columns.push(Column::new("reading", ColumnType::Text, labels));
        table.columns.splice(0..0, columns);
        Ok(table)
    }
}

/// The configs of each kind of extension that a study reads with.
#[derive(Clone, Debug, Default)]
pub struct Extensions(Vec<(String, Vec<Value>)>);

impl Extensions {
    /// Those that the plan asks for, and the window baseline.
    pub fn planned(plan: &Plan) -> Self {
        let mut extensions = Self::default();
        let mut seen = HashSet::new();
        for (_, job) in plan.jobs() {
            if !seen.insert(&job.evaluation) {
                continue;
            }
            for extension in job.config.evaluations().into_iter().flatten().flat_map(|it| it.extensions) {
                // A value without a JSON form is an error when it is measured.
                let config = serde_json::to_value(&extension).unwrap_or_default();
                extensions.add(extension.kind(), &config);
            }
        }
        extensions.add(WINDOW_BASELINE, &Value::Null);
        extensions
    }

    /// Adds a config of a kind.
    pub(crate) fn add(&mut self, kind: &str, config: &Value) {
        match self.0.iter_mut().find(|(known, _)| known == kind) {
            Some((_, configs)) if configs.contains(config) => {}
            Some((_, configs)) => configs.push(config.clone()),
            None => self.0.push((kind.to_owned(), vec![config.clone()])),
        }
    }

    /// The label of a config: its kind, and the keys in which configs of that kind differ.
    pub(crate) fn label(&self, kind: &str, config: &Value) -> String {
        let configs = self.0.iter().find(|(known, _)| known == kind).map(|(_, configs)| configs);
        let differing = configs.map(|all| differing_keys(all)).unwrap_or_default();
        let parts = differing.into_iter().map(|key| match config.get(&key) {
            Some(Value::String(text)) => format!("{key}={text}"),
            Some(value) => format!("{key}={value}"),
            None => format!("no {key}"),
        });
        std::iter::once(kind.to_owned()).chain(parts).collect::<Vec<_>>().join(" ")
    }

    /// All labels.
    pub fn labels(&self) -> Vec<String> {
        let configs = self.0.iter().flat_map(|(kind, all)| all.iter().map(move |config| (kind, config)));
        configs.map(|(kind, config)| self.label(kind, config)).collect()
    }
}

/// The keys in which some of the configs differ, in their order.
fn differing_keys(configs: &[Value]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for config in configs {
        for key in config.as_object().into_iter().flat_map(Map::keys) {
            if !keys.contains(key) && configs.iter().any(|other| other.get(key) != config.get(key)) {
                keys.push(key.clone());
            }
        }
    }
    keys
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::difference::tests::row;

    /// Results of one axis with two points, three seeds, two extensions and two lengths; the second point
    /// is worse by 0.3, and so is `ntk` by 0.2 at 512.
    pub(crate) fn results() -> Results {
        let mut rows = Vec::new();
        for (point, label) in ["rope", "alibi"].into_iter().enumerate() {
            for seed in 0..3 {
                for (extend, length, more) in
                    [("ntk", 256, 0.0), ("ntk", 512, 0.2), ("yarn", 256, 0.0), ("yarn", 512, 0.0)]
                {
                    let noise = 0.01
                        * (seed as f64 + length as f64 / 256.0 * if extend == "ntk" { 1.0 } else { 0.7 });
                    let nll = 2.0 + 0.3 * point as f64 + more + noise * seed as f64;
                    let row = row(extend, length, seed, &[nll - 0.1, nll + 0.1, nll + 0.05]);
                    rows.push(Measured {
                        run: point * 3 + seed as usize,
                        labels: vec![label.into()],
                        extend: String::new(),
                        row,
                    });
                }
            }
        }
        let mut results =
            Results { axes: vec!["position".into()], rows, failures: Vec::new(), missing: Vec::new() };
        results.name_extensions(Extensions::default());
        results
    }

    #[test]
    fn extensions_are_told_apart_by_what_differs() {
        let mut results = results();
        assert_eq!(results.extensions(), ["ntk", "yarn"]);
        results.rows[2].row.extend_config = serde_json::json!({ "kind": "yarn", "ramp": "paper" });
        results.rows[0].row.extend = WINDOW_BASELINE.into();
        results.name_extensions(Extensions::default());
        assert_eq!(results.extensions(), ["ntk", "yarn ramp=paper", "yarn no ramp", "window_baseline"]);
    }

    #[test]
    fn the_table_has_axes_first_and_plain_fields_only() {
        let table = results().table().unwrap();
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names[..4], ["position", "reading", "run", "seed"]);
        assert!(names.contains(&"nll") && !names.contains(&"per_document"));
        assert_eq!(names.iter().filter(|name| **name == "seed").count(), 1);
        assert!(table.columns.iter().all(|column| column.values.len() == table.height()));
        assert_eq!(table.height(), 24);
    }
}
