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
    let (mut readings, mut lengths) = (BTreeSet::new(), BTreeSet::new());
    let mut read: Vec<(usize, usize, &Evaluation)> = Vec::new();
    for (index, job) in plan.jobs() {
        let length = best.at.rounded_down(job.config.run.train.length);
        for evaluation in job.config.evaluations() {
            lengths.extend(evaluation.block.lengths.iter().copied());
            if evaluation.block.lengths.contains(&length) {
                read.push((index, length, evaluation));
            }
        }
    }
    let wrong = |why: String| Error::value("best", best.in_toml(), why);
    // Choices on the validation split are no results, and what does not hold the metric is not meant.
    let holds = |it: &Evaluation| best.metric.is_none_or(|metric| metric.is_of(it.block.protocol.material()));
    let kinds = read.iter().map(|(.., it)| (!holds(it), kind_of(&it.block)));
    let first =
        kinds.min_by_key(|(lacks, (_, split, _))| (*lacks, *split == Split::Valid)).map(|(_, kind)| kind);
    read.retain(|(.., it)| Some(kind_of(&it.block)) == first);
    for (index, _, evaluation) in &read {
        let extends = 0..evaluation.extensions.len() + evaluation.pending.len();
        let labels = &plan.runs[*index].labels;
        readings.extend(extends.map(|place| (labels, place, format!("{:?}", evaluation.block.extend))));
    }
    if readings.len() < 2 {
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
    let metric = best.metric.unwrap_or_else(|| compared(read[0].2.block.protocol));
    check_metric(plan, &read, metric, &wrong)
}

fn check_metric(
    plan: &Plan,
    read: &[(usize, usize, &Evaluation)],
    metric: Metric,
    wrong: &dyn Fn(String) -> Error,
) -> Result<()> {
    if !metric.is_of(read[0].2.block.protocol.material()) {
        return Err(wrong(format!("no row of it will hold `{}`", metric.name())).hint(metric.held_by()));
    }
    let mut seen: Vec<Scored<'_>> = Vec::new();
    for (index, length, evaluation) in read {
        let Ok(job) = &plan.runs[*index].job else { continue };
        let scored = Scored::new(&plan.contents, job, &evaluation.block, *length);
        // Seeds, encodings and many more are scored alike.
        if seen.iter().any(|known| known.is_alike(&scored)) {
            continue;
        }
        if let Some((why, hint)) = seen.first().and_then(|first| first.obstacle(&scored, metric)) {
            return Err(wrong(why).hint(hint));
        }
        seen.push(scored);
    }
    Ok(())
}
