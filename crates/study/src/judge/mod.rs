//! Judges the claims of a study by what was measured.
//!
//! A claim **holds** if the interval of the difference of its sides lies wholly where the claim says, **fails** if it
//! lies wholly elsewhere, and is **undecided** otherwise. All claims of a study are judged together: of `m`
//! claims, the one with the r-th smallest p value (from 0) has an interval of level
//! `1 - 0.05 / (m - r)`, and after the first undecided claim all others are undecided too (Holm's step-down
//! procedure). So the probability of one wrong verdict among all is at most 5%.

mod check;
mod selector;

use crate::claim::{ClaimConfig, Over, Relation};
use crate::difference::PairedDifference;
use crate::extensions::Extensions;
use crate::plan::Plan;
use crate::results::{Measured, Results};
use crate::sample::Sample;
use crate::statistics::{Interval, holm};
use longwave_core::Result;
use longwave_eval::Metric;
use selector::Selector;

pub use check::check;

/// The probability of a wrong verdict that all claims together may have.
pub const ALPHA: f64 = 0.05;

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

/// Judges all claims of a study together.
///
/// # Errors
/// A word of a claim names nothing.
pub fn judge(claims: &[ClaimConfig], plan: &Plan, results: &Results) -> Result<Vec<Judged>> {
    let extensions = Extensions::planned(plan).labels();
    let extensions: Vec<String> =
        extensions.into_iter().chain(results.extensions().into_iter().map(str::to_owned)).collect();
    let evidence =
        claims.iter().map(|claim| evidence(claim, plan, results, &extensions)).collect::<Result<Vec<_>>>()?;
    let p: Vec<f64> = evidence
        .iter()
        .zip(claims)
        .map(|((_, interval), claim)| interval.map_or(f64::NAN, |interval| p_value(claim, interval)))
        .collect();
    let adjusted = holm::adjusted(&p);
    let mut judged: Vec<Judged> = claims
        .iter()
        .zip(evidence)
        .zip(p.iter().zip(adjusted))
        .map(|((claim, (difference, interval)), (p, adjusted))| Judged {
            says: claim.says.clone(),
            metric: claim.metric,
            tolerance: claim.tolerance,
            difference,
            interval,
            level: 1.0 - ALPHA,
            p: (!p.is_nan()).then_some(adjusted),
            verdict: Verdict::Undecided,
            is_added: false,
        })
        .collect();
    let mut decided = true;
    for (rank, index) in holm::ranked(&p).into_iter().enumerate() {
        let level = holm::level_of_rank(ALPHA, rank, claims.len());
        let one = &mut judged[index];
        one.level = level;
        one.interval = one.interval.map(|interval| interval.at(level));
        if let (true, Some(interval)) = (decided, one.interval) {
            one.verdict = verdict(&claims[index], interval);
        }
        decided &= one.verdict != Verdict::Undecided;
    }
    Ok(judged)
}

/// The difference of a claim's sides, and the interval that it is judged by.
fn evidence(
    claim: &ClaimConfig,
    plan: &Plan,
    results: &Results,
    extensions: &[String],
) -> Result<(Option<PairedDifference>, Option<Interval>)> {
    let here = |measured: &&Measured| {
        let settings = &measured.row.settings;
        claim.sentence.is_at(&measured.row) && claim.is_about(settings.protocol, settings.split)
    };
    let rows: Vec<&Measured> = results.of_last().filter(here).collect();
    let samples: Vec<Option<Sample<'_>>> = rows
        .iter()
        .map(|measured| {
            // The window baseline of a row is of the same run.
            let run = rows.iter().filter(|other| other.run == measured.run).map(|other| &other.row);
            Sample::new(claim.metric, &measured.row, run)
        })
        .collect();
    let candidates = rows.iter().zip(&samples).filter_map(|(measured, sample)| Some((*measured, (*sample)?)));
    let candidates: Vec<(&Measured, Sample<'_>)> = candidates.collect();
    let sides = [&claim.sentence.left, &claim.sentence.right];
    let selectors = sides
        .into_iter()
        .map(|words| Selector::new(words, plan, extensions, claim))
        .collect::<Result<Vec<_>>>()?;
    // Without `protocol` and `split`, the rows are of the first kind that both sides have.
    let kind = |measured: &Measured| (measured.row.settings.protocol, measured.row.settings.split);
    let has =
        |selector: &Selector, wanted| candidates.iter().any(|(it, _)| kind(it) == wanted && selector.is(it));
    let mut kinds = candidates.iter().map(|(measured, _)| kind(measured));
    let first = kinds.find(|wanted| selectors.iter().all(|selector| has(selector, *wanted)));
    let side = |index: usize| -> Result<Vec<Sample<'_>>> {
        let selector = &selectors[index];
        let mut all = candidates.iter().filter(|(it, _)| selector.is(it)).peekable();
        let mut without = rows.iter().zip(&samples).filter(|(_, sample)| sample.is_none());
        if all.peek().is_none() && without.any(|(measured, _)| selector.is(measured)) {
            return Err(check::without_metric(claim, &sides[index].join(", "), false));
        }
        Ok(all.filter(|(it, _)| first == Some(kind(it))).map(|(_, sample)| *sample).collect())
    };
    let (left, right) = (side(0)?, side(1)?);
    let difference = PairedDifference::new(&left, &right, 1.0 - ALPHA);
    let interval = difference.as_ref().and_then(|difference| match claim.over {
        Some(Over::Seeds) => difference.by_seed,
        Some(Over::Documents) => difference.by_document,
        None => difference.interval(),
    });
    Ok((difference, interval))
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
