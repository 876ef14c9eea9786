//! Judges the claims of a study by what was measured.
//!
//! A claim **holds** if the interval of the difference of its sides lies wholly where the claim says, **fails** if it
//! lies wholly elsewhere, and is **undecided** otherwise. All claims of a study are judged together: of `m`
//! claims, the one with the r-th smallest p value (from 0) has an interval of level
//! `1 - 0.05 / (m - r)`. At the first undecided claim the procedure stops: all that are left have the level of that one, and
//! are undecided too (Holm's step-down procedure). So the interval that is shown is the one that decides, and the probability of
//! one wrong verdict among all is at most 5%.
//!
//! All intervals are over the same: seeds where the study has several, or else documents. A pair that lost seeds has fewer, and
//! one with fewer than two has no interval and no verdict.
//!
//! Where claims decide how many seeds there are, they are judged several times, see [`looks`](crate::looks). With `K` looks
//! 0.05 becomes `0.05 / K`, and `m` counts the claims that no earlier look has decided: if none of these verdicts was
//! wrong, all claims that could still be judged wrongly are among the others, and Holm's step holds for them.

mod check;
mod manner;
mod power;
mod question;
mod selector;

use crate::claim::{ClaimConfig, Relation};
use crate::difference::{Over, PairedDifference};
use crate::looks::Looks;
use crate::plan::Plan;
use crate::results::Results;
use crate::statistics::{Interval, holm};
use longwave_core::Result;
use longwave_eval::Metric;
use question::{Question, questions};
use std::collections::BTreeSet;

pub use check::check;
pub use power::{Need, POWER, Seeds, needs, without_interval};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The interval lies where the claim says.
    Holds,
    /// The interval lies elsewhere.
    Fails,
    /// The interval lies on both sides, or there is none.
    Undecided,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub says: String,
    pub metric: Metric,
    /// Its tolerance, in the unit of the metric.
    pub tolerance: f64,
    /// The difference of its sides; `None` where a side was not measured.
    pub difference: Option<PairedDifference>,
    pub over: Over,
    /// Seeds that both sides should have.
    pub seeds: usize,
    pub interval: Option<Interval>,
    pub level: f64,
    /// The p value after Holm's correction, against the nearest end of what is claimed.
    pub p: Option<f64>,
    pub verdict: Verdict,
    /// Why nothing was compared, where a side was measured and does not hold the metric.
    pub lacks: Option<String>,
    pub is_added: bool,
}

/// The claims of a study, and the runs that they wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub claims: Vec<Judged>,
    /// Places in the plan of the runs that are still to be done: those of the first look, and those of the next look of
    /// each claim that is not decided.
    pub wanted: Vec<usize>,
    /// Places of the runs that the looks so far are about. A store may hold more seeds, of other studies: what is shown must not
    /// hang on them.
    pub asked: BTreeSet<usize>,
}

/// Judges all claims of a study together, look after look. What a claim was decided by stays as it was.
pub fn judge(claims: &[ClaimConfig], plan: &Plan, results: &Results) -> Result<Judgement> {
    let questions = questions(claims, plan, results)?;
    let over = over(claims, plan)?;
    let looks = &plan.looks;
    let mut asked: BTreeSet<usize> =
        (0..plan.runs.len()).filter(|run| plan.is_within(*run, looks.first())).collect();
    let missing: BTreeSet<usize> = results.missing.iter().copied().collect();
    let mut wanted: BTreeSet<usize> = asked.intersection(&missing).copied().collect();
    let mut judged: Vec<Judged> =
        claims.iter().zip(&over).map(|(claim, over)| Judged::open(claim, *over, looks)).collect();
    // Claims without all runs of a look are judged when these are there; a study of one look shows what it has so far.
    let mut waiting = vec![false; claims.len()];
    for &seeds in looks.seeds() {
        let is_open = |index: &usize| judged[*index].verdict == Verdict::Undecided;
        let candidates: Vec<usize> = (0..claims.len()).filter(is_open).collect();
        for &index in candidates.iter().filter(|_| looks.are_several()) {
            if waiting[index] {
                continue;
            }
            let runs: BTreeSet<usize> = questions[index].runs(seeds).collect();
            waiting[index] = !runs.is_disjoint(&missing);
            wanted.extend(runs.intersection(&missing));
            asked.extend(runs);
        }
        let ready: Vec<usize> = candidates.iter().copied().filter(|index| !waiting[*index]).collect();
        look(&ready, candidates.len(), seeds, &questions, looks, &mut judged);
    }
    for (one, question) in judged.iter_mut().zip(&questions).filter(|(one, _)| one.difference.is_none()) {
        // Before its first look a claim shows what is there, and no verdict.
        one.difference = question.difference(looks.first());
        let interval = one.difference.as_ref().and_then(|difference| difference.interval(one.over));
        one.interval = interval.map(|interval| interval.at(one.level));
        one.seeds = one.difference.as_ref().map_or(0, |difference| difference.seeds);
        one.lacks = question.lacks();
    }
    Ok(Judgement { claims: judged, wanted: wanted.into_iter().collect(), asked })
}

/// Judges the claims in `asked`, out of `open` that no earlier look has decided, by the first `seeds` seeds.
fn look(
    asked: &[usize],
    open: usize,
    seeds: usize,
    questions: &[Question<'_>],
    looks: &Looks,
    judged: &mut [Judged],
) {
    let differences: Vec<Option<PairedDifference>> =
        asked.iter().map(|&index| questions[index].difference(seeds)).collect();
    let interval = |(&index, difference): (&usize, &Option<PairedDifference>)| {
        difference.as_ref().and_then(|difference| difference.interval(judged[index].over))
    };
    let intervals: Vec<Option<Interval>> = asked.iter().zip(&differences).map(interval).collect();
    let p_value = |(&index, interval): (&usize, &Option<Interval>)| {
        interval.map_or(f64::NAN, |interval| p_value(questions[index].claim, interval))
    };
    let p: Vec<f64> = asked.iter().zip(&intervals).map(p_value).collect();
    let steps = holm::steps(&p, looks.alpha(), open);
    for (((&index, difference), interval), step) in asked.iter().zip(differences).zip(intervals).zip(steps) {
        let one = &mut judged[index];
        (one.level, one.seeds, one.difference) = (step.level, seeds, difference);
        one.interval = interval.map(|interval| interval.at(step.level));
        let adjusted = step.adjusted * looks.seeds().len() as f64;
        one.p = (!adjusted.is_nan()).then_some(adjusted.min(1.0));
        if let Some(interval) = one.interval {
            one.verdict = verdict(questions[index].claim, interval);
        }
    }
}

/// What the error of each claim is over: the same for all that do not say, whatever was lost.
fn over(claims: &[ClaimConfig], plan: &Plan) -> Result<Vec<Over>> {
    let mut alike = true;
    for claim in claims {
        alike = alike && check::is_of_same_tokens(claim, plan)?;
    }
    let common = Over::of_table(plan.seeds.len(), alike);
    Ok(claims.iter().map(|claim| claim.over.unwrap_or(common)).collect())
}

impl Judged {
    /// Its sentence, with its metric where that is not the loss, which its words say nothing of.
    pub fn in_words(&self) -> String {
        match self.metric {
            Metric::Loss => self.says.clone(),
            other => format!("{} ({})", self.says, other.name()),
        }
    }

    fn open(claim: &ClaimConfig, over: Over, looks: &Looks) -> Self {
        Self {
            says: claim.says.clone(),
            metric: claim.metric,
            tolerance: claim.tolerance,
            difference: None,
            over,
            seeds: 0,
            interval: None,
            level: 1.0 - looks.alpha(),
            p: None,
            verdict: Verdict::Undecided,
            lacks: None,
            is_added: false,
        }
    }
}

fn verdict(claim: &ClaimConfig, interval: Interval) -> Verdict {
    let Interval { low, high, .. } = interval;
    let t = claim.tolerance;
    let (holds, fails) = match claim.sentence.relation {
        Relation::Less => (high < t, low > t),
        Relation::More => (low > -t, high < -t),
        Relation::Same => (-t < low && high < t, high < -t || t < low),
    };
    match (holds, fails) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::Fails,
        _ => Verdict::Undecided,
    }
}

/// The two-sided probability of a difference as far from what decides the claim: an interval of level
/// `1 - alpha` decides it where this is below `alpha`.
fn p_value(claim: &ClaimConfig, interval: Interval) -> f64 {
    let t = claim.tolerance;
    match claim.sentence.relation {
        Relation::Less => interval.p_against(t),
        Relation::More => interval.p_against(-t),
        // Inside, both ends must be excluded; outside, the near one.
        Relation::Same if interval.mean.abs() <= t => interval.p_against(t).max(interval.p_against(-t)),
        Relation::Same => interval.p_against(t.copysign(interval.mean)),
    }
}

#[cfg(test)]
mod tests;
