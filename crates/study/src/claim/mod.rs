//! What a study expects, and whether the measurements bear it out.
//!
//! A claim is a sentence: `"yarn < ntk at 8L"`, `"alibi, direct < rope, direct at 1024"`,
//! `"yarn = mrrope at 4L"`. Each side names an extension (`direct` unless given) and a label on each axis
//! that has several, separated by commas; `axis=label` tells two alike apart. The length is in tokens or a multiple
//! of the training length, as everywhere.
//!
//! With the loss `a` of the left side and `b` of the right, in nats per token and paired by seed and by
//! document, `a < b` with `tolerance = t` says that `a - b < t`: a little worse is still no worse. A
//! negative tolerance asks for a margin. `a > b` says that `a - b > -t`, and `a = b` that `-t < a - b < t`.
//!
//! `metric` names another measure than the loss. The sentence then is about its values, so that more of
//! `accuracy` or `exact_match` is better: `"yarn > ntk at 8L"`. The tolerance is in the unit of the metric.
//!
//! A claim **holds** if the interval of `a - b` lies wholly where the claim says, **fails** if it lies
//! wholly elsewhere, and is **undecided** otherwise. All claims of a study are judged together: with `m`
//! of them, the one of the r-th smallest p value (from 0) has an interval of level
//! `1 - 0.05 / (m - r)`, and after the first undecided one all are (Holm's step-down), so that the chance
//! of one wrong verdict among all is at most 5%.

mod selector;
mod sentence;

use crate::difference::Difference;
use crate::plan::Plan;
use crate::results::{Extensions, Measured, Results};
use crate::sample::Sample;
use crate::statistics::{Interval, holm};
use longwave_core::config::read;
use longwave_core::{Error, Result};
use longwave_eval::{Metric, Protocol, Split};
use selector::Selector;
use sentence::{Relation, Sentence};
use serde::Deserialize;
use std::collections::HashSet;
use toml::Table;

/// The chance of a wrong verdict that all claims together may take.
pub const ALPHA: f64 = 0.05;

/// One `[[claim]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimConfig {
    /// The sentence.
    pub says: String,
    /// What is compared.
    pub metric: Metric,
    /// By how much the sides may differ the wrong way, in the unit of the metric.
    pub tolerance: f64,
    /// The protocol of its rows; that of the first rows unless given.
    pub protocol: Option<Protocol>,
    /// The split of its rows; that of the first rows unless given.
    pub split: Option<Split>,
    /// Whether the error is over seeds or over documents; seeds where there are several unless given.
    pub over: Option<Over>,
    sentence: Sentence,
}

/// What the error of a difference is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Trainings with other seeds.
    Seeds,
    /// Other documents.
    Documents,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    says: String,
    #[serde(default)]
    metric: Metric,
    #[serde(default)]
    tolerance: f64,
    protocol: Option<Protocol>,
    split: Option<Split>,
    over: Option<Over>,
}

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
    pub difference: Option<Difference>,
    /// The Holm-adjusted interval of the difference.
    pub interval: Option<Interval>,
    /// The level of that interval.
    pub level: f64,
    /// The p value after Holm's correction, against the nearest end of what is claimed.
    pub p: Option<f64>,
    /// How it stands.
    pub verdict: Verdict,
}

impl ClaimConfig {
    /// Reads one `[[claim]]`; `section` is its place in the file.
    ///
    /// # Errors
    /// A key, a value or the sentence is not allowed.
    pub(crate) fn read(table: &Table, section: &str) -> Result<Self> {
        let written: Written = read(table, section)?;
        let key = format!("{section}.says");
        let sentence = Sentence::parse(&written.says, &key)?;
        let same = sentence.relation == Relation::Same;
        let metric = written.metric;
        let wrong = if !written.tolerance.is_finite() {
            Some("it must be a number")
        } else if same && written.tolerance <= 0.0 {
            Some("a claim with `=` needs one above 0")
        } else if metric.is_share() && written.tolerance.abs() >= 1.0 {
            Some("the metric goes from 0 to 1")
        } else {
            None
        };
        if let Some(allowed) = wrong {
            let hint = if metric.is_share() {
                "it is a share: 0.02 means two percentage points".to_owned()
            } else {
                format!("it is in {}", metric.unit())
            };
            return Err(Error::value(&format!("{section}.tolerance"), written.tolerance, allowed).hint(hint));
        }
        Ok(Self {
            says: written.says,
            metric,
            tolerance: written.tolerance,
            protocol: written.protocol,
            split: written.split,
            over: written.over,
            sentence,
        })
    }

    /// Checks that every word of the claim means something in this plan, and that it will be measured.
    ///
    /// # Errors
    /// A word names no extension and no label, an axis is left open, or no row of a side will hold the
    /// metric.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        self.check_among(plan, &Extensions::planned(plan).labels())
    }

    fn check_among(&self, plan: &Plan, extensions: &[String]) -> Result<()> {
        for side in [&self.sentence.left, &self.sentence.right] {
            let selector = Selector::new(side, plan, extensions, &self.says)?;
            self.check_metric(plan, &selector, side)?;
        }
        Ok(())
    }

    /// Whether rows of this protocol and split are meant.
    fn is_about(&self, protocol: Protocol, split: Split) -> bool {
        self.protocol.is_none_or(|it| it == protocol) && self.split.is_none_or(|it| it == split)
    }

    fn check_metric(&self, plan: &Plan, selector: &Selector, side: &[String]) -> Result<()> {
        let (mut seen, mut any) = (HashSet::new(), false);
        for (index, job) in plan.jobs() {
            if !selector.is_of(&plan.runs[index]) || !seen.insert(&job.evaluation) {
                continue;
            }
            let holds = |protocol: Protocol| self.metric.is_of(protocol.material());
            let mut blocks = job.config.evaluate.iter();
            if blocks.any(|block| holds(block.protocol) && self.is_about(block.protocol, block.split)) {
                return Ok(());
            }
            any = true;
        }
        // Where no run of the side is allowed, that is the reason, and told elsewhere.
        if any { Err(self.without_metric(&side.join(", "), true)) } else { Ok(()) }
    }

    fn without_metric(&self, rows: &str, planned: bool) -> Error {
        let (name, of) = (self.metric.name(), if planned { "will hold" } else { "holds" });
        let text = format!("claim \"{}\": no row of `{rows}` that it is about {of} `{name}`", self.says);
        let error = if planned { Error::usage(text) } else { Error::failed(text) };
        error.hint(self.metric.held_by())
    }
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
        .map(|((_, interval), claim)| interval.map_or(f64::NAN, |interval| claim.p(interval)))
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
        })
        .collect();
    let mut decided = true;
    for (rank, index) in holm::ranked(&p).into_iter().enumerate() {
        let level = holm::level_of_rank(ALPHA, rank, claims.len());
        let one = &mut judged[index];
        one.level = level;
        one.interval = one.interval.map(|interval| interval.at(level));
        if let (true, Some(interval)) = (decided, one.interval) {
            one.verdict = claims[index].verdict(interval);
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
) -> Result<(Option<Difference>, Option<Interval>)> {
    let here = |measured: &&Measured| {
        let settings = &measured.row.settings;
        claim.sentence.is_at(&measured.row) && claim.is_about(settings.protocol, settings.split)
    };
    let rows: Vec<&Measured> = results.rows.iter().filter(here).collect();
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
    // Without a word on it, the rows are those of the study's first kind.
    let kind = |measured: &Measured| (measured.row.settings.protocol, measured.row.settings.split);
    let first = candidates.first().map(|(measured, _)| kind(measured));
    let side = |words: &[String]| -> Result<Vec<Sample<'_>>> {
        let selector = Selector::new(words, plan, extensions, &claim.says)?;
        let mine = candidates.iter().filter(|(it, _)| selector.is(it) && first == Some(kind(it)));
        let found: Vec<Sample<'_>> = mine.map(|(_, sample)| *sample).collect();
        let mut without = rows.iter().zip(&samples).filter(|(_, sample)| sample.is_none());
        if found.is_empty() && without.any(|(measured, _)| selector.is(measured)) {
            return Err(claim.without_metric(&words.join(", "), false));
        }
        Ok(found)
    };
    let (left, right) = (side(&claim.sentence.left)?, side(&claim.sentence.right)?);
    let difference = Difference::new(&left, &right, 1.0 - ALPHA);
    let interval = difference.as_ref().and_then(|difference| match claim.over {
        Some(Over::Seeds) => difference.by_seed,
        Some(Over::Documents) => difference.by_document,
        None => difference.interval(),
    });
    Ok((difference, interval))
}

impl ClaimConfig {
    /// Where an interval lies.
    fn verdict(&self, interval: Interval) -> Verdict {
        let Interval { low, high, .. } = interval;
        let t = self.tolerance;
        let (holds, fails) = match self.sentence.relation {
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
    fn p(&self, interval: Interval) -> f64 {
        let t = self.tolerance;
        match self.sentence.relation {
            Relation::Less => interval.p_against(t),
            Relation::More => interval.p_against(-t),
            // Inside, both ends must be excluded; outside, the near one.
            Relation::Same if interval.mean.abs() <= t => interval.p_against(t).max(interval.p_against(-t)),
            Relation::Same => interval.p_against(t.copysign(interval.mean)),
        }
    }
}

#[cfg(test)]
mod tests;
