//! Ranks everything that a study compares at one length, `best = "8L"`, with all pairs corrected together.

use crate::difference::PairedDifference;
use crate::plan::Plan;
use crate::results::{Measured, Results};
use crate::sample::Sample;
use crate::statistics::{Interval, adjusted, holm, level_of_rank, mean};
use longwave_core::{Error, Result};
use longwave_eval::{Metric, Protocol, ResultRow, Split, WINDOW_BASELINE};
use longwave_position::Tokens;
use longwave_report::block::multiple;
use std::collections::BTreeSet;

/// The probability that any pair is called different by mistake.
pub const ALPHA: f64 = 0.05;

/// What was measured at the length, best first.
#[derive(Clone, Debug)]
pub struct Ranking<'a> {
    /// What is compared: the loss where the protocol is about perplexity.
    pub metric: Metric,
    /// What the rows of one seed are paired by: `document` or `sequence`.
    pub unit: &'static str,
    /// The ranked readings.
    pub ranked: Vec<Ranked<'a>>,
    /// Pairs that were tested, all of which the correction counts.
    pub pairs: usize,
    /// Whether the study measured nothing else, so that its other tables would say the same again.
    pub is_everything: bool,
}

/// One reading of one combination of labels.
#[derive(Clone, Debug)]
pub struct Ranked<'a> {
    /// The label on each axis, and that of the extension unless it is `direct`.
    pub name: String,
    /// The mean of the metric over seeds.
    pub value: f64,
    /// Its rows, one a seed.
    pub rows: Vec<&'a ResultRow>,
    /// The window baselines of its runs, one a seed; none where that was not measured.
    pub baseline: Vec<&'a ResultRow>,
    /// Its difference to the best; `None` for the best itself, and where nothing can be paired.
    pub difference: Option<PairedDifference>,
    /// The interval of that difference, at the level of Holm's step.
    pub interval: Option<Interval>,
    /// Two-sided probability of no difference to the best, after Holm's correction for all pairs.
    pub p: Option<f64>,
}

/// The rows of one reading.
struct Candidate<'a> {
    name: String,
    labels: &'a [String],
    samples: Vec<Sample<'a>>,
    value: f64,
}

/// The best and the second at one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaders {
    /// The length as a multiple of the training length, `8L`.
    pub at: String,
    /// What is compared, as in [`Ranking`].
    pub metric: Metric,
    /// The name of the best and its mean over seeds.
    pub best: Option<(String, f64)>,
    /// The same of the second.
    pub second: Option<(String, f64)>,
}

/// Ranks what was measured at `length`; `None` where there is nothing.
pub fn rank(results: &Results, length: Tokens) -> Option<Ranking<'_>> {
    let at = |row: &ResultRow| row.settings.length == length.rounded_down(row.settings.train_length);
    let (metric, candidates) = candidates(results, &at)?;
    let kind = kind(candidates.first()?.samples.first()?.row());
    let of_ranking = |row: &ResultRow| at(row) && self::kind(row) == kind;
    let baselines = |labels: &[String]| -> Vec<&ResultRow> {
        let is_one =
            |it: &&Measured| it.row.extend == WINDOW_BASELINE && it.labels == labels && of_ranking(&it.row);
        results.of_last().filter(is_one).map(|it| &it.row).collect()
    };
    let baselines = candidates.iter().map(|one| baselines(one.labels)).collect::<Vec<_>>();
    let mut ranking = ranking(metric, candidates);
    for (one, baseline) in ranking.ranked.iter_mut().zip(baselines) {
        one.baseline = baseline;
    }
    ranking.unit = kind.0.material().unit();
    ranking.is_everything = kind.0.shown().len() == 1
        && results.rows.iter().all(|it| !it.row.is_of_kept_step() && of_ranking(&it.row));
    Some(ranking)
}

/// Which rows can be ranked together.
fn kind(row: &ResultRow) -> (Protocol, Split) {
    (row.settings.protocol, row.settings.split)
}

/// The leaders at each length, the shortest first.
pub fn leaders(results: &Results) -> Vec<Leaders> {
    let mut lengths: Vec<(usize, usize)> =
        results.of_last().map(|it| (it.row.settings.length, it.row.settings.train_length)).collect();
    lengths.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
    lengths.dedup_by(|a, b| a.0 * b.1 == b.0 * a.1);
    let leaders = lengths.into_iter().filter_map(|(length, train_length)| {
        let at = |row: &ResultRow| row.settings.length * train_length == length * row.settings.train_length;
        let (metric, candidates) = candidates(results, &at)?;
        let mut named = candidates.into_iter().map(|one| (one.name, one.value));
        let at = multiple(length, train_length);
        Some(Leaders { at, metric, best: named.next(), second: named.next() })
    });
    leaders.collect()
}

/// What was measured where `at` holds, best first, of the first protocol and split.
fn candidates<'a>(
    results: &'a Results,
    at: &dyn Fn(&ResultRow) -> bool,
) -> Option<(Metric, Vec<Candidate<'a>>)> {
    let here = || results.of_last().filter(|it| at(&it.row) && it.row.extend != WINDOW_BASELINE);
    // Choices on the validation split are no results.
    let first = here().map(|it| kind(&it.row)).min_by_key(|(_, split)| *split == Split::Valid)?;
    let metric = compared(first.0);
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for measured in here().filter(|it| kind(&it.row) == first) {
        let Some(sample) = Sample::new(metric, &measured.row, []) else { continue };
        let name = name(&measured.labels, &measured.extend);
        match candidates.iter_mut().find(|candidate| candidate.name == name) {
            Some(known) if known.samples.iter().any(|other| other.seed() == sample.seed()) => {}
            Some(known) => known.samples.push(sample),
            None => {
                let labels = &measured.labels;
                candidates.push(Candidate { name, labels, samples: vec![sample], value: 0.0 });
            }
        }
    }
    for candidate in &mut candidates {
        let values: Vec<f64> = candidate.samples.iter().map(Sample::value).collect();
        candidate.value = mean(&values).unwrap_or(f64::NAN);
    }
    let worth = |candidate: &Candidate<'_>| {
        let value = if metric.lower_is_better() { candidate.value } else { -candidate.value };
        if value.is_nan() { f64::INFINITY } else { value }
    };
    candidates.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
    Some((metric, candidates))
}

/// What readings of a protocol are compared by: the loss where it is about perplexity.
fn compared(protocol: Protocol) -> Metric {
    let shown = protocol.shown()[0];
    if shown.is_exponential() { Metric::Loss } else { shown }
}

fn name(labels: &[String], extend: &str) -> String {
    let extend = Some(extend).filter(|extend| *extend != "direct" || labels.is_empty());
    labels.iter().map(String::as_str).chain(extend).collect::<Vec<_>>().join(", ")
}

/// Tests all pairs, and shows those with the best.
fn ranking(metric: Metric, candidates: Vec<Candidate<'_>>) -> Ranking<'_> {
    let mut with_best = Vec::new();
    let mut p = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        for (place, other) in candidates[..index].iter().enumerate() {
            let difference = PairedDifference::new(&candidate.samples, &other.samples, 1.0 - ALPHA);
            let interval = difference.as_ref().and_then(PairedDifference::interval);
            if place == 0 {
                with_best.push((index, p.len(), difference, interval));
            }
            p.push(interval.map_or(f64::NAN, |interval| interval.p_against(0.0)));
        }
    }
    let pairs = p.len();
    let (adjusted, order) = (adjusted(&p), holm::ranked(&p));
    let mut ranked: Vec<Ranked<'_>> = candidates
        .into_iter()
        .map(|one| Ranked {
            name: one.name,
            value: one.value,
            rows: one.samples.iter().map(Sample::row).collect(),
            baseline: Vec::new(),
            difference: None,
            interval: None,
            p: None,
        })
        .collect();
    for (index, pair, difference, interval) in with_best {
        let rank = order.iter().position(|other| *other == pair).unwrap_or(0);
        let level = level_of_rank(ALPHA, rank, pairs);
        ranked[index].difference = difference;
        ranked[index].interval = interval.map(|interval| interval.at(level));
        ranked[index].p = (!p[pair].is_nan()).then_some(adjusted[pair]);
    }
    Ranking { metric, unit: "", ranked, pairs, is_everything: false }
}

/// Checks that two readings at least will be measured at the length.
///
/// # Errors
/// There are fewer.
pub fn check(plan: &Plan, length: Tokens) -> Result<()> {
    let (mut readings, mut lengths) = (BTreeSet::new(), BTreeSet::new());
    let mut kinds = Vec::new();
    for (index, job) in plan.jobs() {
        let train_length = job.config.run.train.length;
        for evaluation in job.config.evaluations()? {
            let block = &evaluation.block;
            lengths.extend(block.lengths.iter().copied());
            if block.lengths.contains(&length.rounded_down(train_length)) {
                let kind = (block.protocol, block.split);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
                let extends = (0..evaluation.extensions.len() + evaluation.pending.len()).map(|place| {
                    (kinds.iter().position(|it| *it == kind), plan.runs[index].labels.clone(), place)
                });
                readings.extend(extends.map(|reading| (reading, format!("{:?}", block.extend))));
            }
        }
    }
    if readings.len() > 1 {
        return Ok(());
    }
    let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
    let why = match readings.len() {
        0 => "no evaluation reads at this length",
        _ => "only one reading is measured at this length",
    };
    Err(Error::value("best", length.in_toml(), why).hint(format!(
        "evaluations read at {} tokens; a ranking needs two readings or more at its length",
        lengths.join(", ")
    )))
}

impl Ranking<'_> {
    /// The answer in one sentence; `at` is the length as written.
    pub fn sentence(&self, at: &str) -> String {
        let Some(best) = self.ranked.first() else { return String::new() };
        if self.ranked.len() == 1 {
            return format!("Only `{}` was measured at {at}.", best.name);
        }
        // What is equal to the last bit shares the first place.
        let (first, others): (Vec<_>, Vec<_>) =
            self.ranked.iter().partition(|one| one.value.total_cmp(&best.value).is_eq());
        let is_worse = |one: &&&Ranked<'_>| one.p.is_some_and(|p| p < ALPHA);
        let worse: Vec<_> = others.iter().filter(is_worse).copied().collect();
        let open: Vec<_> = others.iter().filter(|one| !is_worse(one) && one.p.is_some()).copied().collect();
        let untested: Vec<_> = others.iter().filter(|one| one.p.is_none()).copied().collect();
        let is_best = first.len() == 1 && worse.len() == others.len();
        let mut parts = Vec::new();
        if !worse.is_empty() {
            parts.push(format!("significantly better than {}", named(&worse)));
        }
        if !open.is_empty() {
            parts.push(format!("not significantly better than {}", named(&open)));
        }
        if !untested.is_empty() {
            parts.push(format!("measured too few times for a test against {}", named(&untested)));
        }
        let extreme = if self.metric.lower_is_better() { "lowest" } else { "highest" };
        let value = format!("the {extreme} {} at {at}", self.shown().in_words());
        let lead = match first.len() {
            _ if is_best => format!("`{}` is the best at {at}", best.name),
            1 => format!("`{}` has {value}", best.name),
            _ => format!("{} have {value} alike", named(&first)),
        };
        let subject = if first.len() == 1 { "it".to_owned() } else { format!("`{}`", best.name) };
        let verdict =
            if parts.is_empty() { String::new() } else { format!(": {subject} is {}", parts.join("; ")) };
        format!("{lead}{verdict} ({}).", self.test())
    }

    /// What is shown of the metric: the perplexity of a loss.
    pub fn shown(&self) -> Metric {
        if self.metric == Metric::Loss { Metric::Perplexity } else { self.metric }
    }

    /// How differences were tested.
    fn test(&self) -> String {
        let correction = match self.pairs {
            1 => String::new(),
            pairs => format!("Holm's correction for all {pairs} pairs, "),
        };
        let seeds = match self.seeds() {
            1 => format!("1 seed, paired by {}", self.unit),
            seeds => format!("{seeds} seeds"),
        };
        format!("at 5%, {correction}{seeds}")
    }

    /// The fewest seeds of a reading.
    pub fn seeds(&self) -> usize {
        self.ranked.iter().map(|one| one.rows.len()).min().unwrap_or(0)
    }
}

/// Names in a sentence.
fn named(list: &[&Ranked<'_>]) -> String {
    let names: Vec<String> = list.iter().map(|one| format!("`{}`", one.name)).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn all_pairs_are_corrected_together() {
        let results = results();
        let ranking = rank(&results, "4L".parse().unwrap()).unwrap();
        let names: Vec<&str> = ranking.ranked.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["rope, yarn", "rope, ntk", "alibi, yarn", "alibi, ntk"]);
        assert_eq!((ranking.pairs, ranking.metric), (6, Metric::Loss));
        let second = &ranking.ranked[1];
        // `ntk` is worse by 0.2 and some noise that is the same for both encodings.
        let raw = second.difference.as_ref().unwrap().interval().unwrap().p_against(0.0);
        assert!(second.p.unwrap() > raw && second.p.unwrap() <= 6.0 * raw, "{second:?}");
        let sentence = ranking.sentence("4L");
        assert!(
            sentence.starts_with("`rope, yarn` is the best at 4L: it is significantly better than"),
            "{sentence}"
        );
        assert!(sentence.ends_with(" (at 5%, Holm's correction for all 6 pairs, 3 seeds)."), "{sentence}");
        assert!(rank(&results, "64L".parse().unwrap()).is_none());
    }

    #[test]
    fn each_length_has_its_best_and_its_second() {
        let leaders = leaders(&results());
        let told: Vec<(&str, &str, &str)> = leaders
            .iter()
            .map(|one| {
                (
                    one.at.as_str(),
                    one.best.as_ref().unwrap().0.as_str(),
                    one.second.as_ref().unwrap().0.as_str(),
                )
            })
            .collect();
        assert_eq!(told, [("2L", "rope, yarn", "rope, ntk"), ("4L", "rope, yarn", "rope, ntk")]);
    }

    #[test]
    fn a_difference_within_the_noise_is_called_so() {
        let mut results = results();
        results.rows.retain(|it| it.labels[0] == "rope");
        for it in &mut results.rows {
            let sign = if it.row.seed == 1 { -1.0 } else { 1.0 };
            let nll = if it.extend == "ntk" { 2.0 + 0.01 * sign } else { 2.0 };
            it.row.values.set("nll", Some(nll));
        }
        let ranking = rank(&results, "2L".parse().unwrap()).unwrap();
        let sentence = ranking.sentence("2L");
        let first = "has the lowest perplexity at 2L: it is not significantly better than `rope, ";
        assert!(sentence.contains(first) && sentence.ends_with(" (at 5%, 3 seeds)."), "{sentence}");
        // Two readings that are equal share the first place.
        for it in &mut results.rows {
            it.row.values.set("nll", Some(2.0));
        }
        let sentence = rank(&results, "2L".parse().unwrap()).unwrap().sentence("2L");
        let shared = "`rope, ntk` and `rope, yarn` have the lowest perplexity at 2L alike (at 5%, 3 seeds).";
        assert_eq!(sentence, shared);
    }
}
