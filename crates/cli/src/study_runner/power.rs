//! What the claims of a study still need, and at what price.

use super::estimate::duration;
use super::speed::{Speeds, side_by_side};
use super::{StudyRunner, unfinished};
use crate::output::{lines, status};
use longwave_core::Result;
use longwave_report::grid::{Entry, Grid, Header};
use longwave_study::cost::Cost;
use longwave_study::execute::missing;
use longwave_study::judge::{Judgement, Need, POWER, Seeds, Verdict, judge, needs, without_interval};
use longwave_study::results::Results;
use std::collections::HashSet;

impl StudyRunner<'_> {
    /// What is finished, and how the claims stand by it.
    fn judged(&self) -> Result<(Results, Judgement)> {
        let mut results = Results::gather(&self.plan, &self.store)?;
        if self.shows_retries() {
            let may_run = |run: &usize| self.plan.runs[*run].job.is_ok();
            results.missing.extend(results.failures.iter().map(|(run, _)| *run).filter(may_run));
        }
        let judgement = judge(&self.study.claims, &self.plan, &results)?;
        Ok((results, judgement))
    }

    /// Whether runs that failed count as to be done, though their failure is not forgotten: `--dry-run` changes nothing.
    fn shows_retries(&self) -> bool {
        self.options.dry_run && self.options.retry
    }

    /// The runs that are neither finished nor failed, each work once: all, or those of the next look of the claims.
    pub(super) fn needed(&self) -> Result<Vec<usize>> {
        let open = if self.shows_retries() {
            unfinished(&self.plan, &self.store)
        } else {
            missing(&self.plan, &self.store)
        };
        if !self.plan.looks.are_several() {
            return Ok(open);
        }
        let wanted = self.judged()?.1.wanted;
        let id = |run: &usize| self.plan.runs[*run].job.as_ref().ok().map(longwave_study::Job::id);
        let wanted: HashSet<_> = wanted.iter().filter_map(id).collect();
        Ok(open.into_iter().filter(|run| id(run).is_some_and(|id| wanted.contains(&id))).collect())
    }

    /// Says how far the claims are, where these decide what is run next.
    pub(super) fn introduce_look(&self, runs: &[usize]) -> Result<()> {
        if !self.plan.looks.are_several() {
            return Ok(());
        }
        let claims = self.judged()?.1.claims;
        let decided = claims.iter().filter(|claim| claim.verdict != Verdict::Undecided).count();
        let (all, runs) = (claims.len(), runs.len());
        status(&format!("look      {decided} of {all} claims decided; {runs} runs before the next look"));
        Ok(())
    }

    /// What each claim needs, by the runs that are finished; none of a study without claims, or before its first run.
    pub(super) fn needs(&self) -> Result<Vec<Need>> {
        let (results, judgement) = self.judged()?;
        if results.rows.is_empty() {
            return Ok(Vec::new());
        }
        let results = results.of_looks(&judgement.asked, &self.plan);
        needs(&self.study.claims, &self.plan, &results, &judgement)
    }

    /// Prints what each claim needs, and how long that takes.
    pub(super) fn show_needs(
        &self,
        needs: &[Need],
        speeds: Option<&Speeds>,
        costs: &[Option<Cost>],
    ) -> Result<()> {
        if needs.is_empty() {
            return Ok(());
        }
        let row = |need: &Need| {
            let more = match need.needed {
                Seeds::About(seeds) => seeds.saturating_sub(need.seeds),
                _ => 0,
            };
            let time = speeds.filter(|_| more > 0).map(|speeds| {
                let seed = self.seconds(speeds, &need.runs, costs);
                duration(side_by_side((0..more).flat_map(|_| seed.iter().copied()), self.jobs()))
            });
            let so_far = need.so_far.map_or("-".to_owned(), |it| format!("{:+.4} ±{:.4}", it.mean, it.se));
            let time = time.unwrap_or_else(|| "-".to_owned());
            [need.says.clone(), so_far, need.seeds.to_string(), need.needed.in_words(), time]
                .map(Entry::new)
                .into()
        };
        let open = needs.iter().filter(|need| need.needed != Seeds::Decided).count();
        let level =
            if open == 1 { "one open claim has".to_owned() } else { format!("{open} open claims have") };
        let mut notes = vec![format!(
            "So many seeds, of both sides, decide a claim with probability {:.0}% if the difference and its spread are those of \
             the seeds so far, at the level that {level}.",
            100.0 * POWER,
        )];
        if needs.iter().any(|need| need.needed == Seeds::Unknown) {
            notes.push("Unknown: fewer than two seeds are finished.".to_owned());
        }
        notes.extend(without_interval(needs));
        let grid = Grid {
            title: "What the claims need".into(),
            setting: String::new(),
            headers: vec![
                Header::words("claim"),
                Header::number("difference so far"),
                Header::number("seeds"),
                Header::number("seeds needed"),
                Header::number("time of the others"),
            ],
            rows: needs.iter().map(row).collect(),
            notes,
        };
        lines(&format!("\n{}", grid.text()))
    }
}
