//! The rows of a study's finished runs, in the order of its plan, each with what its run was.

use crate::extensions::{Extension, Extensions};
use crate::plan::Plan;
use crate::rates::Rates;
use crate::sample::{Sample, baseline_of};
use crate::store::{Failure, Store};
use longwave_core::Result;
use longwave_core::in_order::distinct;
use longwave_eval::column::ColumnType;
use longwave_eval::{Metric, ResultRow, WINDOW_BASELINE};
use longwave_report::{Column, Tidy};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Results {
    pub axes: Vec<String>,
    /// Seeds that each combination should have; the most where claims decide how many.
    pub seeds: usize,
    /// How many times claims are judged.
    pub looks: usize,
    /// Where claims decide how many seeds there are, those of each combination so far, by its labels.
    asked: Option<BTreeMap<Vec<String>, usize>>,
    /// The learning rates that were varied, where something else was too.
    pub rates: Option<Rates>,
    pub rows: Vec<Measured>,
    /// Runs that failed: their place in the plan, and why.
    pub failures: Vec<(usize, Failure)>,
    /// Places of runs that are neither finished nor failed.
    pub missing: Vec<usize>,
}

/// The column of the extension's label.
const READING: &str = "reading";

/// One row and the run it is of.
#[derive(Clone, Debug)]
pub struct Measured {
    pub run: usize,
    pub labels: Vec<String>,
    /// The label of the extension, see [`Extensions`].
    pub extend: String,
    pub row: ResultRow,
}

impl Results {
    pub fn gather(plan: &Plan, store: &Store) -> Result<Self> {
        let mut results = Self {
            axes: plan.axes.clone(),
            seeds: plan.seeds.len(),
            looks: plan.looks.seeds().len(),
            asked: None,
            rates: Rates::gather(plan, store)?,
            rows: Vec::new(),
            failures: Vec::new(),
            missing: Vec::new(),
        };
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

    /// What the looks of the claims are about so far. A store may hold more seeds than these.
    pub fn of_looks(&self, asked: &BTreeSet<usize>, plan: &Plan) -> Cow<'_, Self> {
        if !plan.looks.are_several() {
            return Cow::Borrowed(self);
        }
        let mut results = self.clone();
        results.rows.retain(|it| asked.contains(&it.run));
        results.failures.retain(|(run, _)| asked.contains(run));
        results.missing.retain(|run| asked.contains(run));
        results.rates = results.rates.map(|rates| rates.of_asked(asked));
        let mut seeds = BTreeMap::new();
        for run in asked {
            *seeds.entry(plan.runs[*run].labels.clone()).or_default() += 1;
        }
        results.asked = Some(seeds);
        Cow::Owned(results)
    }

    /// The value of a metric in a row; the window baseline that it may need is of the same run.
    pub(crate) fn sample<'a>(&'a self, metric: Metric, measured: &'a Measured) -> Option<Sample<'a>> {
        Sample::new(metric, &measured.row, self.of_run(measured.run))
    }

    fn of_run(&self, run: usize) -> impl Iterator<Item = &ResultRow> {
        self.rows.iter().filter(move |measured| measured.run == run).map(|measured| &measured.row)
    }

    /// The window baseline of a row, of the same run.
    pub(crate) fn baseline_of<'a>(&'a self, measured: &Measured) -> Option<&'a ResultRow> {
        baseline_of(&measured.row, self.of_run(measured.run))
    }

    pub fn seeds_of(&self, labels: &[String]) -> usize {
        self.asked.as_ref().map_or(self.seeds, |asked| asked.get(labels).copied().unwrap_or(0))
    }

    /// Names each row's extension, apart from those of the plan and of other rows.
    fn name_extensions(&mut self, mut extensions: Extensions) {
        for measured in &self.rows {
            extensions.add(Extension::of_row(&measured.row));
        }
        for measured in &mut self.rows {
            measured.extend = extensions.label(&Extension::of_row(&measured.row));
        }
    }

    /// The rows of finished trainings. Those of steps that were kept on the way stand in tables by training step, and a claim
    /// may name one, but they are in no table by length and no ranking.
    pub fn of_last(&self) -> impl Iterator<Item = &Measured> {
        self.rows.iter().filter(|measured| !measured.row.is_of_kept_step())
    }

    /// Every way of reading, in order of first appearance with the window baseline last.
    pub fn extensions(&self) -> Vec<&str> {
        let mut names = distinct(self.rows.iter().map(|measured| measured.extend.as_str()));
        names.sort_by_key(|name| *name == WINDOW_BASELINE);
        names
    }

    /// All rows as a table: the axes, the extension's label, and the [columns of a row](longwave_report::csv).
    pub fn table(&self) -> Result<Tidy> {
        let mut table = Tidy::of(self.rows.iter().map(|measured| &measured.row))?;
        let mut columns: Vec<Column> = Vec::new();
        for (index, axis) in self.axes.iter().enumerate() {
            let is_taken = table.has(axis) || axis == READING;
            let name = if is_taken { format!("axis.{axis}") } else { axis.clone() };
            let values = self.rows.iter().map(|row| Value::String(row.labels[index].clone())).collect();
            columns.push(Column::new(&name, ColumnType::Text, values));
        }
        let labels = self.rows.iter().map(|row| Value::String(row.extend.clone())).collect();
        columns.push(Column::new(READING, ColumnType::Text, labels));
        table.columns.splice(0..0, columns);
        Ok(table)
    }
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
        let mut results = Results {
            axes: vec!["position".into()],
            seeds: 3,
            looks: 1,
            asked: None,
            rates: None,
            rows,
            failures: Vec::new(),
            missing: Vec::new(),
        };
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

    #[test]
    fn an_axis_that_is_named_as_a_column_is_told_apart() {
        let table = Results { axes: vec![READING.to_owned()], ..results() }.table().unwrap();
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names[..2], ["axis.reading", "reading"]);
    }
}
