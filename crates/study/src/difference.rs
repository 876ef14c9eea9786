//! Paired differences: the same seeds, the same documents, two readings.

use crate::sample::Sample;
use crate::statistics::{Interval, bootstrap, mean, mean_interval, ratio_interval};
use longwave_eval::metrics::Documents;
use serde::{Deserialize, Serialize};

/// What the error of a difference is over: the same for all differences of a table, so that a pair with fewer seeds has a
/// wider interval and never one of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Trainings with other seeds.
    Seeds,
    /// Other documents, for these trainings.
    Documents,
    Both,
}

impl Over {
    /// Seeds where a table has several; with one there are only documents. Where two sides scored different bytes, which
    /// bytes these are is chance too, whatever the seeds.
    pub fn of_table(seeds: usize, same_tokens: bool) -> Self {
        match seeds {
            0 | 1 => Self::Documents,
            _ if same_tokens => Self::Seeds,
            _ => Self::Both,
        }
    }

    /// In words, where `unit` is one of what stands for documents.
    pub fn in_words(self, unit: &str) -> String {
        match self {
            Self::Seeds => "seeds".to_owned(),
            Self::Documents => format!("{unit}s"),
            Self::Both => format!("seeds and {unit}s"),
        }
    }
}

/// The measure of one side minus that of the other, in the unit of the metric.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedDifference {
    pub mean: f64,
    pub seeds: usize,
    /// Documents, or what stands for them, that both scored; 0 where rows do not list them, or list different ones.
    pub documents: usize,
    /// What these are: `document`, `sequence` or `block`.
    pub unit: &'static str,
    /// Student's interval over seeds; `None` for fewer than two.
    pub by_seed: Option<Interval>,
    /// Student's interval over documents, seeds averaged; `None` for fewer than two.
    pub by_document: Option<Interval>,
    /// Whether both sides of every pair scored the same tokens.
    pub same_tokens: bool,
    level: f64,
    sums: Option<DifferenceSums>,
}

impl PairedDifference {
    /// The difference `a - b`, paired by seed and by document, with intervals at `level`. A seed makes one pair, whatever
    /// was measured of it. `None` where no seed is on both sides, or a measure is no number.
    pub fn new(a: &[Sample<'_>], b: &[Sample<'_>], level: f64) -> Option<Self> {
        let firsts = a.iter().enumerate().filter(|(at, one)| a[..*at].iter().all(|it| it.seed != one.seed));
        let pairs: Vec<(&Sample<'_>, &Sample<'_>)> = firsts
            .filter_map(|(_, a)| Some((a, b.iter().find(|b| b.seed == a.seed)?)))
            .filter(|(a, b)| a.value.is_finite() && b.value.is_finite())
            .collect();
        let by_seed: Vec<f64> = pairs.iter().map(|(a, b)| a.value - b.value).collect();
        let sums = DifferenceSums::of(&pairs);
        let steps = pairs.iter().flat_map(|(a, b)| [a.step(), b.step()]).flatten();
        let least = rounding(steps.fold(0.0, f64::max)) / (pairs.len() as f64).sqrt();
        let by_seed_interval =
            mean_interval(&by_seed, level).map(|it| Interval::new(it.mean, it.se.max(least), it.df, level));
        Some(Self {
            mean: mean(&by_seed)?,
            seeds: pairs.len(),
            documents: sums.as_ref().map_or(0, DifferenceSums::documents),
            unit: pairs.first()?.0.row.unit(),
            by_seed: by_seed_interval,
            by_document: sums.as_ref().and_then(|sums| sums.interval(level)),
            same_tokens: pairs.iter().all(|(a, b)| a.row.same_tokens(b.row)),
            level,
            sums,
        })
    }

    /// The interval over what a table's errors are over.
    pub fn interval(&self, over: Over) -> Option<Interval> {
        match over {
            Over::Seeds => self.by_seed,
            Over::Documents => self.by_document,
            Over::Both => {
                let (by_seed, by_document) = (self.by_seed?, self.by_document?);
                Some(by_seed.with_error_of(by_document, self.level))
            }
        }
    }

    /// The bootstrap interval over seeds and documents.
    pub fn bootstrap(&self) -> Option<(f64, f64)> {
        let sums = self.sums.as_ref()?;
        bootstrap(&sums.differences, &sums.weights, self.level, 0)
    }
}

/// The standard deviation of the difference of two numbers that are each rounded to multiples of `step`: the variance of each is
/// `step^2 / 12` (Sheppard 1898). Shares of few sequences differ alike in all seeds by chance; no spread is less than this.
fn rounding(step: f64) -> f64 {
    step / 6f64.sqrt()
}

/// Differences per seed and document.
#[derive(Clone, Debug, PartialEq)]
struct DifferenceSums {
    /// `a - b` summed over each document, `[seeds, documents]`.
    differences: Vec<Vec<f64>>,
    /// What the sums are divided by: tokens, bytes or sequences of each document.
    weights: Vec<u64>,
    /// Whether they are shares of right answers to the questions of a task.
    is_of_answers: bool,
}

impl DifferenceSums {
    /// `None` where a row does not list its documents, or they are not the same throughout.
    fn of(pairs: &[(&Sample<'_>, &Sample<'_>)]) -> Option<Self> {
        let (first, _) = pairs.first()?;
        let of = |sample: &Sample<'_>| sample.documents().filter(|_| sample.row.same_text(first.row));
        let is_of_answers = first.metric.is_share() && first.row.unit() == "sequence";
        let both = pairs.iter().map(|(a, b)| Some((of(a)?, of(b)?))).collect::<Option<Vec<_>>>()?;
        let (left, right) = &both[0];
        if both.iter().any(|(a, b)| a.weights != left.weights || b.weights != right.weights) {
            return None;
        }
        if left.weights == right.weights {
            let difference =
                |(a, b): &(Documents, Documents)| a.sums.iter().zip(&b.sums).map(|(a, b)| a - b).collect();
            let differences = both.iter().map(difference).collect();
            return Some(Self { differences, weights: left.weights.clone(), is_of_answers });
        }
        first.metric.spans_tokenizers().then(|| Self::of_other_weights(&both))
    }

    /// The difference of two quotients of sums whose weights differ, as one quotient: with `A` and `W` the totals of one
    /// side, `R = A / W`, `V` those of the other, and `D` the difference of the quotients, document `d` has
    ///
    /// ```text
    /// (W + V) ((a_d - R w_d) / W - (b_d - Q v_d) / V) + D (w_d + v_d)
    /// ```
    ///
    /// of the weight `w_d + v_d`: the total is that of the difference, and the residuals are those of the delta method. Where the
    /// weights are equal it is twice `a_d - b_d`, of twice the weight.
    fn of_other_weights(both: &[(Documents, Documents)]) -> Self {
        let count = both.iter().map(|(a, b)| a.sums.len().min(b.sums.len())).min().unwrap_or(0);
        let total = |weights: &[u64]| weights.iter().sum::<u64>() as f64;
        let mut weights = Vec::new();
        let differences = both.iter().map(|(a, b)| {
            let (a, b) = (merged(a, count), merged(b, count));
            let (w, v) = (total(&a.weights), total(&b.weights));
            let (r, q) = (a.sums.iter().sum::<f64>() / w, b.sums.iter().sum::<f64>() / v);
            weights = a.weights.iter().zip(&b.weights).map(|(w, v)| w + v).collect();
            let of = |d: usize| {
                let residual =
                    (a.sums[d] - r * a.weights[d] as f64) / w - (b.sums[d] - q * b.weights[d] as f64) / v;
                (w + v) * residual + (r - q) * weights[d] as f64
            };
            (0..count).map(of).collect()
        });
        let differences = differences.collect();
        Self { differences, weights, is_of_answers: false }
    }

    fn documents(&self) -> usize {
        self.weights.iter().filter(|weight| **weight > 0).count()
    }

    /// Shares of answers have two questions more, of which each side alone answers one. Without them no question at all that only one side
    /// answers would be an error of 0, and a verdict from two questions: D. G. Bonett and R. M. Price, "Adjusted Wald confidence interval
    /// for a difference of binomial proportions based on paired data", Journal of Educational and Behavioral Statistics 37 (2012), 479-488.
    fn interval(&self, level: f64) -> Option<Interval> {
        let seeds = self.differences.len() as f64;
        let mut averaged: Vec<f64> = (0..self.weights.len())
            .map(|document| self.differences.iter().map(|seed| seed[document]).sum::<f64>() / seeds)
            .collect();
        let mut weights = self.weights.clone();
        if self.is_of_answers {
            let asked = self.documents() as u64;
            let weight = (weights.iter().sum::<u64>() / asked.max(1)).max(1);
            averaged.extend([weight as f64, -(weight as f64)]);
            weights.extend([weight; 2]);
        }
        ratio_interval(&averaged, &weights, level).filter(|_| self.documents() > 1)
    }
}

/// The blocks of one document as `count` of them, neighbours put together: two tokenizers have different numbers of blocks.
fn merged(documents: &Documents, count: usize) -> Documents {
    let all = documents.sums.len();
    let mut merged = Documents { sums: vec![0.0; count], weights: vec![0; count] };
    for (place, (sum, weight)) in documents.sums.iter().zip(&documents.weights).enumerate() {
        merged.sums[place * count / all] += sum;
        merged.weights[place * count / all] += weight;
    }
    merged
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use longwave_eval::row::FORMAT;
    use longwave_eval::{DocumentSums, Metric, Protocol, ResultRow, Split};

    /// A row of one seed with these losses per document of 10 tokens each.
    pub(crate) fn row(extend: &str, length: usize, seed: u64, documents: &[f64]) -> ResultRow {
        let nll = documents.iter().sum::<f64>() / documents.len() as f64;
        let value = serde_json::json!({
            "format": FORMAT, "run": "r", "config_hash": "c", "seed": seed, "encoding": "rope",
            "extend": extend, "extend_config": { "kind": extend }, "checkpoint": "last", "step": 6,
            "protocol": Protocol::FixedTarget, "split": Split::Test, "train_length": 128, "length": length,
            "tokens": 10 * documents.len(), "documents": documents.len(), "skipped_documents": 0,
            "bytes": 0, "nll": nll, "ppl": nll.exp(), "device": "CPU", "threads": 1, "version": "0",
        });
        let mut row: ResultRow = serde_json::from_value(value).unwrap();
        let sums = documents.iter().map(|nll| nll * 10.0).collect();
        row.per_document = Some(DocumentSums::new(vec![10; documents.len()]).with_numbers("nll", sums));
        row
    }

    /// Gives a key of the protocol another value.
    pub(crate) fn set_key(row: &mut ResultRow, name: &str, value: usize) {
        let key = longwave_eval::protocols::keys().into_iter().find(|key| key.name == name).unwrap();
        row.settings.keys.set(key, value);
    }

    fn samples(metric: Metric, rows: &[ResultRow]) -> Vec<Sample<'_>> {
        rows.iter().map(|row| Sample::new(metric, row, rows).unwrap()).collect()
    }

    fn losses(rows: &[ResultRow]) -> Vec<Sample<'_>> {
        samples(Metric::Loss, rows)
    }

    fn difference(metric: Metric, a: &[ResultRow], b: &[ResultRow]) -> PairedDifference {
        PairedDifference::new(&samples(metric, a), &samples(metric, b), 0.95).unwrap()
    }

    #[test]
    fn pairing_takes_out_what_seeds_and_documents_share() {
        let hard = [[2.0, 4.0, 3.0], [3.0, 5.0, 4.0]];
        let a: Vec<ResultRow> = (0..2).map(|s| row("ntk", 256, s, &hard[s as usize])).collect();
        let b: Vec<ResultRow> =
            (0..2).map(|s| row("yarn", 256, s, &hard[s as usize].map(|nll| nll - 0.5))).collect();
        // The order of seeds on the other side does not matter.
        let right: Vec<Sample<'_>> = losses(&b).into_iter().rev().collect();
        let difference = PairedDifference::new(&losses(&a), &right, 0.95).unwrap();
        assert!((difference.mean - 0.5).abs() < 1e-12);
        assert_eq!((difference.seeds, difference.documents), (2, 3));
        assert!(difference.by_seed.unwrap().se < 1e-12 && difference.by_document.unwrap().se < 1e-12);
        let (low, high) = difference.bootstrap().unwrap();
        assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9);
    }

    #[test]
    fn other_seeds_are_no_pair_and_other_documents_no_documents() {
        let a = [row("ntk", 256, 0, &[1.0, 2.0])];
        let b = [row("ntk", 256, 1, &[1.0, 2.0])];
        assert_eq!(PairedDifference::new(&losses(&a), &losses(&b), 0.95), None);
        let c = [row("ntk", 256, 0, &[1.0, 2.0, 3.0])];
        let difference = PairedDifference::new(&losses(&a), &losses(&c), 0.95).unwrap();
        assert_eq!((difference.documents, difference.by_document), (0, None));
        // As many tokens of other text are other documents all the same.
        let mut d = [row("ntk", 256, 0, &[2.0, 2.0])];
        (d[0].corpus, d[0].bytes) = (Some("other".to_owned()), 0);
        assert!(PairedDifference::new(&losses(&a), &losses(&d), 0.95).unwrap().by_document.is_some());
        let mut a = a;
        a[0].corpus = Some("one".to_owned());
        let difference = PairedDifference::new(&losses(&a), &losses(&d), 0.95).unwrap();
        assert_eq!((difference.documents, difference.by_document), (0, None));
    }

    /// A row in other tokens of the same text: bits and bytes per document.
    fn in_bytes(seed: u64, bits: &[f64], bytes: &[u64]) -> ResultRow {
        let nll: Vec<f64> = bits.iter().map(|bits| bits * std::f64::consts::LN_2).collect();
        let mut it = row("ntk", 256, seed, &nll);
        it.bytes = bytes.iter().sum();
        let sums = DocumentSums::new(vec![10; bits.len()]).with_numbers("nll", nll);
        it.per_document = Some(sums.with_counts("bytes", bytes.to_vec()));
        it.with("bpb", bits.iter().sum::<f64>() / bytes.iter().sum::<u64>() as f64)
    }

    fn of_bits(a: &[ResultRow], b: &[ResultRow]) -> PairedDifference {
        difference(Metric::BitsPerByte, a, b)
    }

    #[test]
    fn quotients_over_other_bytes_have_the_error_of_the_delta_method() {
        let (a, b) = ([30.0, 10.0, 26.0], [12.0, 9.0, 15.0]);
        let (w, v) = ([10, 6, 12], [8, 4, 6]);
        let found = of_bits(&[in_bytes(0, &a, &w)], &[in_bytes(0, &b, &v)]);
        let (r, q) = (66.0 / 28.0, 36.0 / 18.0);
        let residual = |d: usize| (a[d] - r * w[d] as f64) / 28.0 - (b[d] - q * v[d] as f64) / 18.0;
        let se = (1.5 * (0..3).map(|d| residual(d).powi(2)).sum::<f64>()).sqrt();
        let interval = found.by_document.unwrap();
        assert!(
            (interval.mean - (r - q)).abs() < 1e-12 && (interval.se - se).abs() < 1e-12,
            "{interval:?} {se}"
        );
        assert_eq!((found.documents, found.same_tokens, interval.df), (3, false, 2.0));
        // Over the same bytes it is the difference by document.
        let same = of_bits(&[in_bytes(0, &a, &w)], &[in_bytes(0, &b, &w)]);
        let plain = ratio_interval(&[0, 1, 2].map(|d| a[d] - b[d]), &w, 0.95).unwrap();
        assert!((same.by_document.unwrap().se - plain.se).abs() < 1e-12);
    }

    #[test]
    fn two_tokenizers_have_as_many_blocks_as_the_fewer() {
        let block = |mut row: ResultRow| {
            row.per_document.as_mut().unwrap().blocks = true;
            row.documents = 1;
            row
        };
        let four = block(in_bytes(0, &[2.0, 4.0, 3.0, 7.0], &[2, 2, 2, 2]));
        let two = block(in_bytes(0, &[6.0, 10.0], &[4, 4]));
        let found = of_bits(std::slice::from_ref(&four), &[two]);
        // Sums of neighbours are those of the two.
        assert!(found.mean.abs() < 1e-12 && found.by_document.unwrap().se < 1e-12, "{found:?}");
        assert_eq!((found.documents, found.unit), (2, "block"));
    }

    #[test]
    fn shares_that_differ_alike_in_all_seeds_are_not_certain() {
        // 3 of 8 and 2 of 8 in both seeds: each is known to a sixteenth either way.
        let share = |seed: u64, right: f64| {
            let mut it = row("ntk", 256, seed, &[1.0]);
            it.documents = 8;
            it.per_document = None;
            it.with("exact_match", right / 8.0)
        };
        let [a, b] = [3.0, 2.0].map(|right| [share(0, right), share(1, right)]);
        let interval = difference(Metric::ExactMatch, &a, &b).by_seed.unwrap();
        assert!((interval.mean, interval.df) == (0.125, 1.0));
        assert!(
            (interval.se - 0.125 / 6f64.sqrt() / 2f64.sqrt()).abs() < 1e-15 && interval.p_against(0.0) > 0.1
        );
    }

    /// The answers of one side to questions of one token each.
    fn answers(right: &[bool]) -> ResultRow {
        let mut it = row("direct", 256, 0, &vec![1.0; right.len()]);
        it.settings.protocol = Protocol::Task;
        it.documents = right.len();
        let correct: Vec<f64> = right.iter().map(|right| f64::from(u8::from(*right))).collect();
        let share = correct.iter().sum::<f64>() / right.len() as f64;
        it.per_document = Some(DocumentSums::new(vec![1; right.len()]).with_numbers("correct", correct));
        it.with("exact_match", share)
    }

    fn of_answers(a: &[bool], b: &[bool]) -> Interval {
        difference(Metric::ExactMatch, &[answers(a)], &[answers(b)]).by_document.unwrap()
    }

    #[test]
    fn two_answers_do_not_tell_models_apart() {
        // With two questions more the differences are 1, 1, 1 and -1: their mean is 1/2 and their deviation 1.
        let interval = of_answers(&[true; 2], &[false; 2]);
        assert!((interval.mean - 0.5).abs() < 1e-12 && (interval.se - 0.5).abs() < 1e-12, "{interval:?}");
        assert!(interval.p_against(0.0) > 0.3 && interval.low < 0.0);
        // The exact sign test has 2 / 2^n: 0.03 for six, and 0.06 for five.
        assert!(of_answers(&[true; 7], &[false; 7]).p_against(0.0) < 0.05);
    }

    #[test]
    fn answers_that_are_all_alike_bound_the_difference() {
        // Neither side answers any of 16 questions: Wilson's interval of each is 0 to 0.194.
        let interval = of_answers(&[false; 16], &[false; 16]);
        assert!(interval.mean.abs() < 1e-12 && (0.15..0.2).contains(&interval.high), "{interval:?}");
        assert!((interval.se - (2.0 / 17.0 / 18.0_f64).sqrt()).abs() < 1e-12);
    }
}
