//! Ranks everything that a study compares at one length, `best = "8L"`, with all pairs corrected together.
//!
//! Only what compares is ranked: the loss of the same tokens, bits per byte of the same text. What is equal by construction is one
//! reading, as extensions that change nothing at L. The errors of all pairs are over the same, see [`Over`]. Where a study varies
//! the learning rate, each reading is at its own best rate, see [`rates`](crate::rates).

mod check;
mod planned;
mod sentence;

use crate::best::Best;
use crate::comparable::obstacle;
use crate::difference::{Over, PairedDifference};
use crate::results::{Measured, Results};
use crate::sample::Sample;
use crate::statistics::{Interval, holm, mean};
use longwave_eval::{Metric, Protocol, ResolvedEvaluate, ResultRow, ScoredTokens, Split, WINDOW_BASELINE};
use longwave_report::block::multiple;

pub use check::check;
pub use planned::Planned;

/// The probability that any pair is called different by mistake.
pub const ALPHA: f64 = 0.05;

/// What was measured at the length, best first.
#[derive(Clone, Debug)]
pub struct Ranking<'a> {
    /// What is compared: the loss where the protocol is about perplexity, unless the study says otherwise.
    pub metric: Metric,
    /// What the rows of one seed are paired by: `document`, `sequence`, or `block` of the one document.
    pub unit: &'static str,
    pub over: Over,
    /// Seeds that a reading should have, at the most.
    pub seeds: usize,
    /// How many times claims are judged, where they decide how many seeds there are: each time may be the one that is shown.
    pub looks: usize,
    pub ranked: Vec<Ranked<'a>>,
    /// Pairs that there are, all of which the correction counts, also those of what was lost.
    pub pairs: usize,
    /// The names of combinations that were to be measured and have no row.
    pub lost: Vec<String>,
    /// What does not compare with the rest, and why.
    pub left_out: Vec<String>,
    /// The axis of learning rates, where each reading is at its own best rate.
    pub rate_axis: Option<String>,
    /// Whether the study measured nothing else, so that its other tables would say the same again.
    pub is_everything: bool,
}

/// One reading of one combination of labels.
#[derive(Clone, Debug)]
pub struct Ranked<'a> {
    /// The label on each axis, and that of the extension unless it is `direct`.
    pub name: String,
    /// The names of others that read the same by construction.
    pub same: Vec<String>,
    pub value: f64,
    pub seeds: usize,
    /// Its rows, one a seed.
    pub rows: Vec<&'a ResultRow>,
    /// The window baselines of its runs, one a seed; none where that was not measured.
    pub baseline: Vec<&'a ResultRow>,
    /// The learning rates of its seeds, where each is at the best one.
    pub rates: Vec<&'a str>,
    /// Its difference to the best; `None` for the best itself, and where nothing can be paired.
    pub difference: Option<PairedDifference>,
    /// The interval of that difference, at the level of Holm's step.
    pub interval: Option<Interval>,
    /// Two-sided probability of no difference to the best, after Holm's correction for all pairs.
    pub p: Option<f64>,
}

struct Candidate<'a> {
    name: String,
    same: Vec<String>,
    rows: Vec<&'a Measured>,
    samples: Vec<Sample<'a>>,
    value: f64,
}

struct Candidates<'a> {
    metric: Metric,
    list: Vec<Candidate<'a>>,
    left_out: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Leaders {
    /// The length as a multiple of the training length, `8L`.
    pub at: String,
    /// What is compared, as in [`Ranking`].
    pub metric: Metric,
    /// The name of the best and its mean over seeds; the names of all that have the same mean.
    pub best: Option<(String, f64)>,
    pub second: Option<(String, f64)>,
}

/// Ranks what was measured at the length of `best`, where `planned` says what the study measures there; `None` where there is nothing.
pub fn rank<'a>(results: &'a Results, best: Best, planned: &Planned) -> Option<Ranking<'a>> {
    let at = |row: &ResultRow| row.settings.length == best.at.rounded_down(row.settings.train_length);
    let candidates = candidates(results, best.metric, &at)?;
    let first = candidates.list.first()?.rows.first()?;
    let kind = kind(&first.row);
    let of_ranking = |row: &ResultRow| at(row) && self::kind(row) == kind;
    let mut ranking = ranking(results, candidates, planned);
    ranking.is_everything = kind.0.shown().len() == 1
        && ranking.rate_axis.is_none()
        && results.rows.iter().all(|it| !it.row.is_of_kept_step() && of_ranking(&it.row));
    Some(ranking)
}

fn kind(row: &ResultRow) -> (Protocol, Split, ScoredTokens) {
    (row.settings.protocol, row.settings.split, row.settings.tokens())
}

fn kind_of(block: &ResolvedEvaluate) -> (Protocol, Split, ScoredTokens) {
    (block.protocol, block.split, block.tokens())
}

/// The leaders at each length, the shortest first.
pub fn leaders(results: &Results) -> Vec<Leaders> {
    let mut lengths: Vec<(usize, usize)> =
        results.of_last().map(|it| (it.row.settings.length, it.row.settings.train_length)).collect();
    lengths.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
    lengths.dedup_by(|a, b| a.0 * b.1 == b.0 * a.1);
    let leaders = lengths.into_iter().filter_map(|(length, train_length)| {
        let at = |row: &ResultRow| row.settings.length * train_length == length * row.settings.train_length;
        let Candidates { metric, list, left_out } = candidates(results, None, &at)?;
        let mut named: Vec<(String, f64)> = Vec::new();
        for one in list {
            match named.last_mut() {
                Some((names, value)) if *value - one.value == 0.0 => {
                    names.push_str(" and ");
                    names.push_str(&one.name);
                }
                _ => named.push((one.name, one.value)),
            }
        }
        let (mut named, at) = (named.into_iter(), multiple(length, train_length));
        left_out.is_empty().then(|| Leaders { at, metric, best: named.next(), second: named.next() })
    });
    leaders.collect()
}

/// What was measured where `at` holds, best first, of the first protocol and split: by `metric`, or else by what the protocol
/// is about; where readings scored different tokens, and no metric is asked for, by bits per byte.
fn candidates<'a>(
    results: &'a Results,
    metric: Option<Metric>,
    at: &dyn Fn(&ResultRow) -> bool,
) -> Option<Candidates<'a>> {
    let read = || results.of_last().filter(|it| at(&it.row) && it.row.extend != WINDOW_BASELINE);
    // Choices on the validation split are no results, and what does not hold the metric is not meant.
    let holds = |it: &ResultRow| metric.is_none_or(|metric| metric.is_of(it.settings.protocol.material()));
    let kinds = read().map(|it| (!holds(&it.row), kind(&it.row)));
    let (_, first) = kinds.min_by_key(|(lacks, (_, split, _))| (*lacks, *split == Split::Valid))?;
    let rates = results.rates.as_ref();
    let is_meant = |it: &&Measured| {
        kind(&it.row) == first && rates.is_none_or(|rates| rates.is_chosen(&it.labels, it.row.seed))
    };
    let rows: Vec<&Measured> = read().filter(is_meant).collect();
    let of = |metric: Metric| -> Vec<Candidate<'a>> {
        let mut list: Vec<Candidate<'_>> = Vec::new();
        for &measured in &rows {
            let Some(sample) = results.sample(metric, measured) else { continue };
            let labels = rates.map_or_else(|| measured.labels.clone(), |rates| rates.rest(&measured.labels));
            let name = name(&labels, &measured.extend);
            match list.iter_mut().find(|candidate| candidate.name == name) {
                Some(known) if known.samples.iter().any(|other| other.seed == sample.seed) => {}
                Some(known) => {
                    known.samples.push(sample);
                    known.rows.push(measured);
                }
                None => list.push(Candidate {
                    name,
                    same: Vec::new(),
                    rows: vec![measured],
                    samples: vec![sample],
                    value: 0.0,
                }),
            }
        }
        list
    };
    let mut used = metric.unwrap_or_else(|| compared(first.0));
    let mut list = of(used);
    if metric.is_none() && list.iter().any(|one| one.obstacle(&list[0], used).is_some()) {
        let bits = of(Metric::BitsPerByte);
        if bits.len() == list.len()
            && bits.iter().all(|one| one.obstacle(&bits[0], Metric::BitsPerByte).is_none())
        {
            (used, list) = (Metric::BitsPerByte, bits);
        }
    }
    let (list, left_out) = compatible(list, used);
    Some(Candidates { metric: used, list: sorted(list, used), left_out })
}

/// Those that compare with the first, and why the others do not.
fn compatible(mut list: Vec<Candidate<'_>>, metric: Metric) -> (Vec<Candidate<'_>>, Vec<String>) {
    let Some(first) = list.first() else { return (list, Vec::new()) };
    let obstacles: Vec<Option<String>> = list.iter().map(|one| one.obstacle(first, metric)).collect();
    let mut keeps = obstacles.iter().map(Option::is_none);
    list.retain(|_| keeps.next().unwrap_or(true));
    (list, obstacles.into_iter().flatten().collect())
}

/// Best first, what is equal by construction put together.
fn sorted(list: Vec<Candidate<'_>>, metric: Metric) -> Vec<Candidate<'_>> {
    let mut sorted: Vec<Candidate<'_>> = Vec::new();
    for mut candidate in list {
        if let Some(known) = sorted.iter_mut().find(|known| known.reads_as(&candidate)) {
            known.same.push(candidate.name);
            continue;
        }
        let values: Vec<f64> = candidate.samples.iter().map(|sample| sample.value).collect();
        candidate.value = mean(&values).unwrap_or(f64::NAN);
        sorted.push(candidate);
    }
    let worth = |candidate: &Candidate<'_>| {
        let value = if metric.lower_is_better() { candidate.value } else { -candidate.value };
        if value.is_nan() { f64::INFINITY } else { value }
    };
    sorted.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
    sorted
}

impl Candidate<'_> {
    /// Why it does not compare with another.
    fn obstacle(&self, other: &Self, metric: Metric) -> Option<String> {
        let error = obstacle(&other.rows[0].row, &self.rows[0].row, metric)?;
        Some(format!("`{}`: {}", self.name, error.message()))
    }

    /// Whether another one is the same by construction: the same trainings, and every number the same in every seed.
    fn reads_as(&self, other: &Self) -> bool {
        let alike = |a: &Measured, b: &Measured| {
            (&a.row.config_hash, a.row.seed, &a.row.values, &a.row.per_document)
                == (&b.row.config_hash, b.row.seed, &b.row.values, &b.row.per_document)
        };
        self.rows.len() == other.rows.len() && self.rows.iter().zip(&other.rows).all(|(a, b)| alike(a, b))
    }
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

/// Tests all pairs, and shows those with the best. Where claims decide how many seeds there are, each of their looks has its part of
/// the probability here too.
fn ranking<'a>(results: &'a Results, candidates: Candidates<'a>, planned: &Planned) -> Ranking<'a> {
    let Candidates { metric, list, left_out } = candidates;
    let mut pairs: Vec<(usize, usize, Option<PairedDifference>)> = Vec::new();
    for (index, candidate) in list.iter().enumerate() {
        for (place, other) in list[..index].iter().enumerate() {
            pairs.push((
                index,
                place,
                PairedDifference::new(&candidate.samples, &other.samples, 1.0 - ALPHA),
            ));
        }
    }
    let seeds = list.iter().map(|one| results.seeds_of(&one.rows[0].labels)).max().unwrap_or(results.seeds);
    let over = Over::of_table(seeds, planned.are_of_same_tokens);
    let unit = list.first().map_or("", |one| one.rows[0].row.unit());
    let interval =
        |difference: &Option<PairedDifference>| difference.as_ref().and_then(|it| it.interval(over));
    let p_value = |interval: Option<Interval>| interval.map_or(f64::NAN, |interval| interval.p_against(0.0));
    let p: Vec<f64> = pairs.iter().map(|(.., difference)| p_value(interval(difference))).collect();
    let rate_axis = results.rates.as_ref().map(|rates| results.axes[rates.axis].clone());
    let rate_of =
        |measured: &&'a Measured| results.rates.as_ref().map(|rates| measured.labels[rates.axis].as_str());
    let mut ranked: Vec<Ranked<'_>> = list
        .into_iter()
        .map(|one| Ranked {
            baseline: one.rows.iter().filter_map(|row| results.baseline_of(row)).collect(),
            name: one.name,
            same: one.same,
            value: one.value,
            seeds: results.seeds_of(&one.rows[0].labels),
            rows: one.samples.iter().map(|sample| sample.row).collect(),
            rates: one.rows.iter().filter_map(rate_of).collect(),
            difference: None,
            interval: None,
            p: None,
        })
        .collect();
    let looks = results.looks;
    // A reading that was lost is one that was asked for: its pairs count as those of any other.
    let lost = planned.lost(results);
    let readings = ranked.len() + lost.iter().map(|one| one.readings).sum::<usize>();
    let count = readings * (readings - 1) / 2;
    let steps = holm::steps(&p, ALPHA / looks as f64, count);
    for ((index, _, difference), step) in
        pairs.into_iter().zip(steps).filter(|((_, place, _), _)| *place == 0)
    {
        ranked[index].interval = interval(&difference).map(|interval| interval.at(step.level));
        ranked[index].difference = difference;
        ranked[index].p = Some((step.adjusted * looks as f64).min(1.0)).filter(|_| !step.adjusted.is_nan());
    }
    Ranking {
        metric,
        unit,
        over,
        seeds,
        looks,
        ranked,
        pairs: count,
        lost: lost.into_iter().map(|one| one.name).collect(),
        left_out,
        rate_axis,
        is_everything: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    fn best(at: &str) -> Best {
        Best { at: at.parse().unwrap(), metric: None }
    }

    #[test]
    fn all_pairs_are_corrected_together() {
        let results = results();
        let ranking = rank(&results, best("4L"), &Planned::default()).unwrap();
        let names: Vec<&str> = ranking.ranked.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["rope, yarn", "rope, ntk", "alibi, yarn", "alibi, ntk"]);
        assert_eq!((ranking.pairs, ranking.metric), (6, Metric::Loss));
        let second = &ranking.ranked[1];
        // `ntk` is worse by 0.2 and some noise that is the same for both encodings.
        let raw = second.difference.as_ref().unwrap().by_seed.unwrap().p_against(0.0);
        assert!(second.p.unwrap() > raw && second.p.unwrap() <= 6.0 * raw, "{second:?}");
        let sentence = ranking.sentence("4L");
        assert!(
            sentence.starts_with("`rope, yarn` is the best at 4L: it is significantly better than"),
            "{sentence}"
        );
        assert!(sentence.ends_with(" (at 5%, Holm's correction for all 6 pairs, 3 seeds)."), "{sentence}");
        assert!(rank(&results, best("64L"), &Planned::default()).is_none());
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
        let ranking = rank(&results, best("2L"), &Planned::default()).unwrap();
        let sentence = ranking.sentence("2L");
        let first = "has the lowest perplexity at 2L: it is not significantly better than `rope, ";
        assert!(sentence.contains(first) && sentence.ends_with(" (at 5%, 3 seeds)."), "{sentence}");
        // Two readings that are equal share the first place.
        for it in &mut results.rows {
            it.row.values.set("nll", Some(2.0));
        }
        let sentence = rank(&results, best("2L"), &Planned::default()).unwrap().sentence("2L");
        let shared = "`rope, ntk` and `rope, yarn` have the lowest perplexity at 2L alike (at 5%, 3 seeds).";
        assert_eq!(sentence, shared);
    }
}
