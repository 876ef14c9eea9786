//! What a study leaves: tables, files, the page, and the reasons of failed runs.

use super::StudyRunner;
use crate::output::{data, status};
use longwave_core::{Error, Result, file};
use longwave_eval::ResultRow;
use longwave_report::page;
use longwave_study::results::Results;
use longwave_study::{Failure, judge, write};

/// The most reasons of failures that are printed; `study.md` has all.
const MOST_REASONS: usize = 20;
/// The most runs that failed for one reason and are printed one by one.
const MOST_ALIKE: usize = 3;

impl StudyRunner<'_> {
    /// Writes the results and prints the tables; failures come last.
    pub(super) fn conclude(&self) -> Result<()> {
        let results = Results::gather(&self.plan, &self.store)?;
        if !results.rows.is_empty() {
            let table = results.table()?;
            write::csv(&self.folder.join("results.csv"), &table)?;
            write::parquet(&self.folder.join("results.parquet"), &table)?;
            self.write_report(&results)?;
        }
        let claims = judge::judge(&self.study.claims, &self.plan, &results)?;
        let text = write::markdown(&self.study.name, &self.plan, &results, &claims);
        file::write(&self.folder.join("study.md"), text.as_bytes())?;
        data(&text)?;
        status(&format!(
            "wrote study.md, results.csv, results.parquet and report/ in {}",
            self.folder.display()
        ));
        self.print_failures(&results);
        if !results.failures.is_empty() {
            return Err(Error::failed(format!(
                "{} of {} runs failed",
                results.failures.len(),
                self.plan.runs.len()
            ))
            .hint("`--retry` tries them again"));
        }
        if !results.missing.is_empty() {
            status(&format!("{} runs are still to be done", results.missing.len()));
        }
        Ok(())
    }

    /// Says why runs failed; many of one reason in one line.
    fn print_failures(&self, results: &Results) {
        let mut groups: Vec<(&Failure, Vec<usize>)> = Vec::new();
        for (run, failure) in &results.failures {
            match groups.iter_mut().find(|(known, _)| *known == failure) {
                Some((_, runs)) => runs.push(*run),
                None => groups.push((failure, vec![*run])),
            }
        }
        let title = |run: usize| self.plan.runs[run].title();
        for (failure, runs) in groups.iter().take(MOST_REASONS) {
            let (alone, more) = if runs.len() > MOST_ALIKE { (1, runs.len() - 1) } else { (runs.len(), 0) };
            for &run in &runs[..alone] {
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                status(&format!("failed    {}{more}: {}", title(run), failure.reason));
            }
            if let Some(hint) = &failure.hint {
                status(&format!("          hint: {hint}"));
            }
        }
        let unprinted: usize = groups.iter().skip(MOST_REASONS).map(|(_, runs)| runs.len()).sum();
        if unprinted > 0 {
            status(&format!(
                "failed    {unprinted} more runs, all listed in {}",
                self.folder.join("study.md").display()
            ));
        }
    }

    /// Tables, plots and page of all rows, one name for each combination of labels.
    fn write_report(&self, results: &Results) -> Result<()> {
        let folder = self.folder.join("report");
        let mut text = String::new();
        for measured in &results.rows {
            let name =
                if measured.labels.is_empty() { self.study.name.clone() } else { measured.labels.join(", ") };
            let row = ResultRow { run: name, ..measured.row.clone() };
            let line = serde_json::to_string(&row)
                .map_err(|error| Error::failed(format!("a result row cannot be written: {error}")))?;
            text.extend([line.as_str(), "\n"]);
        }
        file::write(&folder.join("results.jsonl"), text.as_bytes())?;
        page::write(&folder, None).map(|_| ())
    }
}
