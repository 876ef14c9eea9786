//! Whether a plan measures what a ranking compares.

use super::{compared, kind_of};
use crate::best::Best;
use crate::comparable::Scored;
use crate::plan::Plan;
use longwave_core::{Error, Result};
use longwave_eval::{Evaluation, Metric, Split};
use std::collections::BTreeSet;

/// Checks that two readings at least will be measured at the length, and that what is ranked compares.
pub fn check(plan: &Plan, best: Best) -> Result<()> {
    let read = read(plan, best);
    let wrong = |why: String| Error::value("best", best.in_toml(), why);
    let mut readings = BTreeSet::new();
    for Read { run, evaluation, .. } in &read {
        let extends = 0..evaluation.extensions.len() + evaluation.pending.len();
        let labels = &plan.runs[*run].labels;
        readings.extend(extends.map(|place| (labels, place, format!("{:?}", evaluation.block.extend))));
    }
    if readings.len() < 2 {
        let all = plan.jobs().flat_map(|(_, job)| job.config.evaluations());
        let lengths: BTreeSet<usize> = all.flat_map(|it| it.block.lengths.iter().copied()).collect();
        let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
        let why = match readings.len() {
            0 => "no evaluation reads at this length",
            _ => "only one reading is measured at this length",
        };
        return Err(wrong(why.to_owned()).hint(format!(
            "evaluations read at {} tokens; a ranking needs two readings or more at its length",
            lengths.join(", ")
        )));
    }
    let metric = best.metric.unwrap_or_else(|| compared(read[0].evaluation.block.protocol));
    check_metric(plan, &read, metric, &wrong)
}

/// An evaluation that is ranked, with its run and the length that is meant.
pub(super) struct Read<'a> {
    pub(super) run: usize,
    length: usize,
    pub(super) evaluation: &'a Evaluation,
}

/// What a plan reads at the length of a ranking, of the first kind that holds the metric.
pub(super) fn read(plan: &Plan, best: Best) -> Vec<Read<'_>> {
    let mut read = Vec::new();
    for (run, job) in plan.jobs() {
        let length = best.at.rounded_down(job.config.run.train.length);
        let here = job.config.evaluations().iter().filter(|it| it.block.lengths.contains(&length));
        read.extend(here.map(|evaluation| Read { run, length, evaluation }));
    }
    // Choices on the validation split are no results, and what does not hold the metric is not meant.
    let holds = |it: &Read<'_>| {
        best.metric.is_none_or(|metric| metric.is_of(it.evaluation.block.protocol.material()))
    };
    let kinds = read.iter().map(|it| (!holds(it), kind_of(&it.evaluation.block)));
    let first =
        kinds.min_by_key(|(lacks, (_, split, _))| (*lacks, *split == Split::Valid)).map(|(_, kind)| kind);
    read.retain(|it| Some(kind_of(&it.evaluation.block)) == first);
    read
}

/// Each way in which tokens are scored, once: seeds, encodings and many more are scored alike.
pub(super) fn scored<'a>(plan: &'a Plan, read: &'a [Read<'a>]) -> Vec<Scored<'a>> {
    let mut seen: Vec<Scored<'_>> = Vec::new();
    for Read { run, length, evaluation } in read {
        let Ok(job) = &plan.runs[*run].job else { continue };
        let scored = Scored::new(&plan.contents, job, &evaluation.block, *length);
        if !seen.iter().any(|known| known.is_alike(&scored)) {
            seen.push(scored);
        }
    }
    seen
}

fn check_metric(
    plan: &Plan,
    read: &[Read<'_>],
    metric: Metric,
    wrong: &dyn Fn(String) -> Error,
) -> Result<()> {
    if !metric.is_of(read[0].evaluation.block.protocol.material()) {
        return Err(wrong(format!("no row of it will hold `{}`", metric.name())).hint(metric.held_by()));
    }
    if metric.better().is_none() {
        let why = format!("`{}` describes a model, and no value of it is the best", metric.name());
        return Err(wrong(why).hint("name a metric that judges, as `loss`; a `[[claim]]` may be about any"));
    }
    let scored = scored(plan, read);
    let obstacle = scored.iter().find_map(|one| scored[0].obstacle(one, metric));
    obstacle.map_or(Ok(()), |(why, hint)| Err(wrong(why).hint(hint)))
}
