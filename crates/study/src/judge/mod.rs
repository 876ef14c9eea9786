//! Judges the claims of a study by what was measured.
//!
//! A claim **holds** if the interval of the difference of its sides lies wholly where the claim says, **fails** if it
//! lies wholly elsewhere, and is **undecided** otherwise. All claims of a study are judged together: of `m`
//! claims, the one with the r-th smallest p value (from 0) has an interval of level
//! `1 - 0.05 / (m - r)`, and after the first undecided claim all others are undecided too (Holm's step-down
//! procedure). So the probability of one wrong verdict among all is at most 5%.
//!
//! Where claims decide how many seeds there are, they are judged several times, see [`looks`](crate::looks). With `K` looks
//! 0.05 becomes `0.05 / K`, and `m` counts the claims that no earlier look has decided: if none of these verdicts was
//! wrong, all claims that could still be judged wrongly are among the others, and Holm's step holds for them.

mod check;
mod power;
mod question;
mod selector;

use crate::claim::{ClaimConfig, Relation};
use crate::difference::PairedDifference;
use crate::looks::Looks;
use crate::plan::Plan;
use crate::results::Results;
use crate::statistics::{Interval, holm};
use longwave_core::Result;
use longwave_eval::Metric;
use question::{Question, questions};
use std::collections::BTreeSet;

pub use check::check;
pub use power::{Need, POWER, Seeds, needs};

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The interval lies where the claim says.
    Holds,
    /// The interval lies elsewhere.
    Fails,
    /// The interval lies on both sides, or a claim with a smaller p value is undecided.
    Undecided,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
        }
    }
}

/// A claim with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The sentence.
    pub says: String,
    /// What was compared.
    pub metric: Metric,
    /// Its tolerance, in the unit of the metric.
    pub tolerance: f64,
    /// The difference of its sides; `None` where a side was not measured.
    pub difference: Option<PairedDifference>,
    /// The Holm-adjusted interval of the difference.
    pub interval: Option<Interval>,
    /// The level of that interval.
    pub level: f64,
    /// The p value after Holm's correction, against the nearest end of what is claimed.
    pub p: Option<f64>,
    /// How it stands.
    pub verdict: Verdict,
    /// Whether it was added after the first result of the study.
    pub is_added: bool,
}

/// The claims of a study, and the runs that they wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The claims in their order.
    pub claims: Vec<Judged>,
    /// Places in the plan of the runs that are still to be done: those of the first look, and those of the next look of
    /// each claim that is not decided.
    pub wanted: Vec<usize>,
}

/// Judges all claims of a study together, look after look. What a claim was decided by stays as it was.
///
/// # Errors
/// A word of a claim names nothing.
pub fn judge(claims: &[ClaimConfig], plan: &Plan, results: &Results) -> Result<Judgement> {
    let questions = questions(claims, plan, results)?;
    let looks = &plan.looks;
    let first = (0..plan.runs.len()).filter(|run| plan.is_within(*run, looks.first()));
    let missing: BTreeSet<usize> = results.missing.iter().copied().collect();
    let mut wanted: BTreeSet<usize> = first.filter(|run| missing.contains(run)).collect();
    let mut judged: Vec<Judged> = claims.iter().map(|claim| Judged::open(claim, looks)).collect();
    // Claims without all runs of a look are judged when these are there; a study of one look shows what it has so far.
    let mut waiting = vec![false; claims.len()];
    for &seeds in looks.seeds() {
        let is_open = |index: &usize| judged[*index].verdict == Verdict::Undecided;
        let candidates: Vec<usize> = (0..claims.len()).filter(is_open).collect();
        for &index in candidates.iter().filter(|_| looks.are_several()) {
            let runs: Vec<usize> =
                questions[index].runs(plan, seeds).filter(|run| missing.contains(run)).collect();
            if !waiting[index] && !runs.is_empty() {
                wanted.extend(runs);
                waiting[index] = true;
            }
        }
        let asked: Vec<usize> = candidates.iter().copied().filter(|index| !waiting[*index]).collect();
        look(&asked, candidates.len(), seeds, &questions, results, plan, &mut judged)?;
    }
    for (one, question) in judged.iter_mut().zip(&questions).filter(|(one, _)| one.difference.is_none()) {
        // Before its first look a claim shows what is there, and no verdict.
        (one.difference, one.interval) = question.evidence(results, plan, plan.seeds.len())?;
    }
    Ok(Judgement { claims: judged, wanted: wanted.into_iter().collect() })
}

/// Judges the claims in `asked`, out of `open` that no earlier look has decided, by the first `seeds` seeds.
fn look(
    asked: &[usize],
    open: usize,
    seeds: usize,
    questions: &[Question<'_>],
    results: &Results,
    plan: &Plan,
    judged: &mut [Judged],
) -> Result<()> {
    let looks = &plan.looks;
    let evidence = asked.iter().map(|&index| questions[index].evidence(results, plan, seeds));
    let evidence = evidence.collect::<Result<Vec<_>>>()?;
    let p_value = |(&index, (_, interval)): (&usize, &(_, Option<Interval>))| {
        interval.map_or(f64::NAN, |interval| p_value(questions[index].claim, interval))
    };
    let p: Vec<f64> = asked.iter().zip(&evidence).map(p_value).collect();
    let (mut passing, mut largest) = (true, 0.0_f64);
    for (rank, place) in holm::ranked(&p).into_iter().enumerate() {
        let (index, (difference, interval)) = (asked[place], &evidence[place]);
        let level = holm::level_of_rank(looks.alpha(), rank, open);
        largest = largest.max((open - rank) as f64 * looks.seeds().len() as f64 * p[place]);
        let one = &mut judged[index];
        one.level = level;
        one.difference.clone_from(difference);
        one.interval = interval.map(|interval| interval.at(level));
        one.p = (!p[place].is_nan()).then_some(largest.min(1.0));
        if let (true, Some(interval)) = (passing, one.interval) {
            one.verdict = verdict(questions[index].claim, interval);
        }
        passing &= one.verdict != Verdict::Undecided;
    }
    Ok(())
}

impl Judged {
    /// A claim before its first look.
    fn open(claim: &ClaimConfig, looks: &Looks) -> Self {
        Self {
            says: claim.says.clone(),
            metric: claim.metric,
            tolerance: claim.tolerance,
            difference: None,
            interval: None,
            level: 1.0 - looks.alpha(),
            p: None,
            verdict: Verdict::Undecided,
            is_added: false,
        }
    }
}

/// The verdict that an interval of the difference gives.
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
