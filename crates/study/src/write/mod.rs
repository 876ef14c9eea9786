//! Everything that a study tells: `study.md`, `results.csv`, `results.parquet`, and `report/` with the page.

mod answers;
mod correlations;
mod parquet_file;
mod rates;
mod steps;
mod tables;

use crate::declared;
use crate::document::Study;
use crate::judge::{judge, needs};
use crate::plan::Plan;
use crate::ranking::{Planned, leaders, rank};
use crate::results::{Measured, Results};
use crate::saved::PAGES;
use crate::store::Store;
use longwave_core::file::{self, existing_folder};
use longwave_core::{Result, written};
use longwave_eval::{Reference, ResultRow};
use longwave_report::block::blocks;
use longwave_report::grid::{Grid, markdown_text};
use longwave_report::page::{Opening, Recipe, Report, Run, remove_other_charts};
use longwave_report::table::Table;
use longwave_report::{Format, Tidy};
use std::fmt::Write as _;
use std::path::Path;

pub use tables::tables;

/// A study's results with their tables, ready to be printed and written.
#[derive(Debug)]
pub struct StudyReport {
    name: String,
    progress: String,
    wanted: usize,
    results: Vec<Grid>,
    claims: Option<Grid>,
    correlations: Vec<Grid>,
    /// Evaluations that do not apply, a sentence each.
    left_out: Vec<String>,
    failed: Vec<String>,
    best: Option<Grid>,
    best_in_words: Option<String>,
    /// Whether the ranking says all that the tables of results say.
    is_ranking_alone: bool,
    table: Tidy,
    /// Tables, charts and page of `report/`; `None` without any row.
    page: Option<(Vec<ResultRow>, Report)>,
}

impl StudyReport {
    /// Judges the claims of a study and makes its tables. `folder` is that of the study. The page compares losses with
    /// the reading `against`, see [`Report::new`].
    pub fn new(
        folder: &Path,
        study: &Study,
        plan: &Plan,
        store: &Store,
        results: &Results,
        against: Option<&Reference>,
    ) -> Result<Self> {
        let mut judgement = judge(&study.claims, plan, results)?;
        let results = &*results.of_looks(&judgement.asked, plan);
        let needs = needs(&study.claims, plan, results, &judgement)?;
        let judged = &mut judgement.claims;
        for (claim, is_added) in judged.iter_mut().zip(declared::added(folder, study, plan)?) {
            claim.is_added = is_added;
        }
        let ranking =
            study.best.and_then(|best| Some((best, rank(results, best, &Planned::new(plan, best))?)));
        let failed = results.failures.iter();
        let mut report = Self {
            name: study.name.clone(),
            progress: progress(plan, results, judgement.asked.len(), judgement.wanted.len()),
            wanted: judgement.wanted.len(),
            results: [tables(results), steps::tables(results), rates::tables(results)].concat(),
            claims: (!judged.is_empty()).then(|| answers::claims(judged, &needs, &plan.looks)),
            correlations: study
                .correlations
                .iter()
                .filter(|_| !results.rows.is_empty())
                .map(|correlation| correlations::table(&correlation.measure(results)))
                .collect(),
            left_out: plan.left_out(),
            failed: failed.map(|(run, why)| format!("{}: {}", plan.runs[*run].title(), why.reason)).collect(),
            best: ranking.as_ref().map(|(best, ranking)| answers::ranking(*best, ranking)),
            best_in_words: ranking.as_ref().map(|(best, ranking)| ranking.sentence(&best.at.text())),
            is_ranking_alone: ranking.is_some_and(|(_, ranking)| ranking.is_everything),
            table: results.table()?,
            page: None,
        };
        if !results.rows.is_empty() {
            let rows = named_rows(&study.name, results);
            report
                .results
                .extend(blocks(&rows).iter().filter_map(Table::by_position).map(|table| table.grid()));
            let runs = runs(plan, store, results, &rows)?;
            let opening = Opening { recipe: Some(recipe(study)?), ..report.opening(results) };
            report.page = Some((rows, Report::new(&folder.join(PAGES), opening, runs, against)?));
        }
        Ok(report)
    }

    /// What the page shows before the results.
    fn opening(&self, results: &Results) -> Opening {
        let mut sentences = vec![self.progress.clone()];
        sentences.extend(self.best_in_words.clone());
        sentences.extend(self.failed.iter().map(|run| format!("Failed: {run}")));
        let answers = [self.claims.clone(), self.best.clone()].into_iter().flatten();
        let leaders = answers::leaders(&leaders(results));
        Opening {
            title: self.name.clone(),
            sentences,
            tables: answers.chain(leaders).chain(self.correlations.clone()).collect(),
            recipe: None,
        }
    }

    /// The whole of `study.md`.
    pub fn markdown(&self) -> String {
        self.written(&self.results)
    }

    /// What a study prints where no format is asked for: `study.md` without the tables that its ranking says again.
    pub fn answer(&self) -> String {
        self.written(if self.is_ranking_alone { &[] } else { &self.results })
    }

    fn written(&self, results: &[Grid]) -> String {
        let mut text = format!("# {}\n\n{}\n", self.name, self.progress);
        for grid in results.iter().chain(&self.claims).chain(&self.correlations) {
            let _ = write!(text, "\n{}", grid.markdown_at(2));
        }
        let lists = [
            ("Left out", "Evaluations that do not apply to these runs:\n\n", &self.left_out),
            ("Failed", "", &self.failed),
        ];
        for (heading, sentence, list) in lists.into_iter().filter(|(.., list)| !list.is_empty()) {
            let _ = write!(text, "\n## {heading}\n\n{sentence}");
            for one in list {
                let _ = writeln!(text, "- {}", markdown_text(one));
            }
        }
        if let Some(grid) = &self.best {
            let _ = write!(text, "\n{}", grid.markdown_at(2));
        }
        text
    }

    pub fn tables(&self, format: Format) -> String {
        let grids = self.results.iter().chain(&self.claims).chain(&self.correlations).chain(&self.best);
        grids.map(|grid| grid.written(format)).collect::<Vec<_>>().join("\n")
    }

    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// The report in `report/`; `None` without any row.
    pub fn page(&self) -> Option<&Report> {
        self.page.as_ref().map(|(_, report)| report)
    }

    /// Writes all files into a folder, the study's own or another. Without any row there is only `study.md`: what stands there of
    /// other runs is none of it.
    pub fn write(&self, folder: &Path) -> Result<()> {
        if self.page.is_none() {
            let of_rows = ["results.csv", "results.parquet"].map(|name| folder.join(name));
            let of_page = ["results.jsonl", "results.csv", "results.md", "report.html"];
            let of_page = of_page.map(|name| folder.join(PAGES).join(name));
            of_rows.iter().chain(&of_page).try_for_each(|path| file::remove(path))?;
            remove_other_charts(&folder.join(PAGES), &[])?;
        }
        if let Some((rows, report)) = &self.page {
            let pages = folder.join(PAGES);
            existing_folder::make_below(folder, &pages)?;
            longwave_eval::row::replace_rows(&pages.join("results.jsonl"), rows)?;
            // A plan of before may have had more charts.
            remove_other_charts(&pages, &report.write(&pages)?)?;
            csv(&folder.join("results.csv"), &self.table)?;
            parquet(&folder.join("results.parquet"), &self.table)?;
        }
        file::write(&folder.join("study.md"), self.markdown().as_bytes())
    }
}

/// The study itself, which measures all of its numbers again.
fn recipe(study: &Study) -> Result<Recipe> {
    let text = |table: &toml::Table| written::toml("the study", table);
    let file = format!("{}.toml", study.name);
    let source = &study.source;
    let base = source.document.get("base").and_then(toml::Value::as_str).unwrap_or("base.toml");
    let word = if file.contains(' ') { format!("'{file}'") } else { file.clone() };
    Ok(Recipe {
        sentences: vec![
            format!(
                "Save the study below as `{file}`, with its base config `{base}` beside it. The command trains what is \
                 missing in the study's store, measures it, judges the claims and writes this page."
            ),
            "The same version reads the same text on the same device with as many threads to the same numbers. The \
             table of runs says which these were."
                .to_owned(),
        ],
        commands: vec![format!("longwave study {word}")],
        files: vec![(file, text(&source.document)?), (base.to_owned(), text(&source.base)?)],
    })
}

/// How many runs are finished, of those that were asked for so far, failed, and to be done.
fn progress(plan: &Plan, results: &Results, asked: usize, wanted: usize) -> String {
    let (all, failed, missing) = (plan.runs.len(), results.failures.len(), results.missing.len());
    let finished = asked - failed - missing;
    let mut text = if plan.looks.are_several() {
        format!("{finished} runs finished of at most {all}")
    } else {
        format!("{finished} of {all} runs finished")
    };
    if failed > 0 {
        let _ = write!(text, ", {failed} failed");
    }
    if wanted > 0 {
        let _ = write!(text, ", {wanted} to be done");
    }
    text + "."
}

/// All rows, their run named after its labels: the seeds of one combination share a name.
fn named_rows(study: &str, results: &Results) -> Vec<ResultRow> {
    let named = results.rows.iter().map(|measured| {
        let labels = &measured.labels;
        let run = if labels.is_empty() { study.to_owned() } else { labels.join(", ") };
        ResultRow { run, ..measured.row.clone() }
    });
    named.collect()
}

/// The runs that have rows, each with what its folder in the store holds.
fn runs(plan: &Plan, store: &Store, results: &Results, rows: &[ResultRow]) -> Result<Vec<Run>> {
    let mut rows = rows.iter().cloned();
    let of = |of_run: &[Measured]| {
        let job = plan.runs[of_run[0].run].job.as_ref().map_err(Clone::clone)?;
        let rows: Vec<ResultRow> = rows.by_ref().take(of_run.len()).collect();
        Run::new(rows[0].run.clone(), rows, &store.run(&job.key))
    };
    results.rows.chunk_by(|a, b| a.run == b.run).map(of).collect()
}

/// Writes a table as comma-separated values, see [`Tidy::csv`].
pub fn csv(path: &Path, table: &Tidy) -> Result<()> {
    file::write(path, table.csv().as_bytes())
}

/// Writes a table as Apache Parquet, one row group, nothing compressed; the same table gives the same
/// bytes.
pub fn parquet(path: &Path, table: &Tidy) -> Result<()> {
    file::write(path, &parquet_file::bytes(table)?)
}
