//! What a study leaves: tables, files, the page, and the reasons of failed runs.

use super::StudyRunner;
use crate::output::{lines, status};
use longwave_core::{Error, Result};
use longwave_eval::Reference;
use longwave_study::judge::judge;
use longwave_study::results::Results;
use longwave_study::write::StudyReport;
use longwave_study::{Failure, Store, declared, saved};
use std::path::Path;

/// The most reasons of failures that are printed; `study.md` has all.
const MOST_REASONS: usize = 20;
/// The most runs that failed for one reason and are printed one by one.
const MOST_ALIKE: usize = 3;

impl StudyRunner<'_> {
    /// Writes the results and prints the tables; failures come last.
    pub(super) fn conclude(&self) -> Result<()> {
        let results = Results::gather(&self.plan, &self.store)?;
        // From now on the claims stand beside a result.
        declared::record(&self.folder, self.study, &self.plan, &self.store)?;
        let report = StudyReport::new(&self.folder, self.study, &self.plan, &self.store, &results, None)?;
        report.write(&self.folder)?;
        lines(&self.options.format.map_or_else(|| report.answer(), |format| report.tables(format)))?;
        wrote(&report, &self.folder);
        let judgement = judge(&self.study.claims, &self.plan, &results)?;
        let results = results.of_looks(&judgement.asked, &self.plan);
        self.print_failures(&results);
        if !results.failures.is_empty() {
            return Err(Error::failed(format!(
                "{} of {} runs failed",
                results.failures.len(),
                self.plan.runs.len()
            ))
            .hint("`--retry` tries them again"));
        }
        if report.wanted() > 0 {
            let (count, are) = (report.wanted(), if report.wanted() == 1 { "run is" } else { "runs are" });
            status(&format!("{count} {are} still to be done"));
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
}

/// What a study's store holds, to be reported again.
pub(crate) fn report_again(folder: &Path, against: Option<&Reference>) -> Result<StudyReport> {
    let (study, plan) = saved::load(folder)?;
    let store = Store::new(&study.store);
    let results = Results::gather(&plan, &store)?;
    if results.rows.is_empty() {
        return Err(Error::failed(format!(
            "`{}` holds no result of the study in `{}`",
            study.store.display(),
            folder.display()
        ))
        .hint("run the study, or start this command in the folder where it ran"));
    }
    StudyReport::new(folder, &study, &plan, &store, &results, against)
}

/// Writes again what a study wrote: into its folder, or into another.
pub(crate) fn write_again(report: &StudyReport, out: &Path) -> Result<()> {
    report.write(out)?;
    wrote(report, out);
    Ok(())
}

/// Names the files; without any result there is `study.md` alone.
fn wrote(report: &StudyReport, folder: &Path) {
    let files = if report.page().is_some() {
        "study.md, results.csv, results.parquet and report/"
    } else {
        "study.md"
    };
    status(&format!("wrote {files} in {}", folder.display()));
}
