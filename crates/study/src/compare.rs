//! Paired differences: the same seeds, the same documents, two ways of reading.

use crate::sample::Sample;
use crate::statistics::{Interval, adjusted, bootstrap, mean, mean_interval, ratio_interval};
use longwave_core::{Error, Result};
use longwave_eval::metrics::Documents;
use longwave_eval::{Metric, ResultRow, Settings};
use serde::Serialize;
use serde_json::Value;

/// The measure of one side minus that of the other, in the unit of the metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Mean over the seeds that both have.
    pub mean: f64,
    /// Seeds that both have.
    pub seeds: usize,
    /// Documents that both scored; 0 where rows do not tell of documents, or tell of different ones.
    pub documents: usize,
    /// Student's interval over seeds; `None` for fewer than two.
    pub by_seed: Option<Interval>,
    /// Student's interval over documents, seeds averaged; `None` for fewer than two.
    pub by_document: Option<Interval>,
    /// Bootstrap interval over seeds and documents.
    pub bootstrap: Option<(f64, f64)>,
}

impl Difference {
    /// The difference `a - b`, paired by seed and by document, with intervals at `level`. `None` where no
    /// seed is on both sides, or a measure is no number.
    pub fn new(a: &[Sample<'_>], b: &[Sample<'_>], level: f64) -> Option<Self> {
        let pairs: Vec<(&Sample<'_>, &Sample<'_>)> = a
            .iter()
            .filter_map(|a| Some((a, b.iter().find(|b| b.seed() == a.seed())?)))
            .filter(|(a, b)| a.value().is_finite() && b.value().is_finite())
            .collect();
        let by_seed: Vec<f64> = pairs.iter().map(|(a, b)| a.value() - b.value()).collect();
        let sums = Sums::of(&pairs);
        let (by_document, bootstrap, documents) = match &sums {
            Some(sums) => (
                sums.interval(level),
                bootstrap(&sums.differences, &sums.weights, level, 0),
                sums.documents(),
            ),
            None => (None, None, 0),
        };
        Some(Self {
            mean: mean(&by_seed)?,
            seeds: pairs.len(),
            documents,
            by_seed: mean_interval(&by_seed, level),
            by_document,
            bootstrap,
        })
    }

    /// The interval over what varies: seeds where there are several, or else documents.
    pub fn interval(&self) -> Option<Interval> {
        self.by_seed.or(self.by_document)
    }
}

/// Differences per seed and document.
struct Sums {
    /// `a - b` summed over each document, `[seeds, documents]`.
    differences: Vec<Vec<f64>>,
    /// What the sums are divided by: tokens or sequences of each document.
    weights: Vec<u64>,
}

impl Sums {
    /// `None` where a row does not tell of its documents, or they are not the same throughout.
    fn of(pairs: &[(&Sample<'_>, &Sample<'_>)]) -> Option<Self> {
        let (first, _) = pairs.first()?;
        let weights = first.documents()?.weights;
        let of = |sample: &Sample<'_>| -> Option<Documents> {
            let documents = sample.documents()?;
            (documents.weights == weights && sample.row().same_text(first.row())).then_some(documents)
        };
        let differences = pairs
            .iter()
            .map(|(a, b)| Some(of(a)?.sums.iter().zip(of(b)?.sums).map(|(a, b)| a - b).collect()))
            .collect::<Option<Vec<Vec<f64>>>>()?;
        Some(Self { differences, weights })
    }

    fn documents(&self) -> usize {
        self.weights.iter().filter(|weight| **weight > 0).count()
    }

    fn interval(&self, level: f64) -> Option<Interval> {
        let seeds = self.differences.len() as f64;
        let averaged: Vec<f64> = (0..self.weights.len())
            .map(|document| self.differences.iter().map(|seed| seed[document]).sum::<f64>() / seeds)
            .collect();
        ratio_interval(&averaged, &self.weights, level)
    }
}

/// One measurement that two runs have in common, and the difference of what they say.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Kind of the extension.
    pub extend: String,
    /// The extension's config.
    pub extend_config: Value,
    /// Protocol, split and lengths.
    #[serde(flatten)]
    pub settings: Settings,
    /// What is compared.
    pub metric: Metric,
    /// The measure of the first run.
    pub value: f64,
    /// The measure of the second run.
    pub other_value: f64,
    /// Perplexity of the first run: exp of its loss, of several seeds of their mean loss.
    pub ppl: f64,
    /// Perplexity of the second run.
    pub other_ppl: f64,
    /// The measure of the first minus that of the second.
    pub difference: f64,
    /// Standard error of the difference over what was paired; absent for fewer than two of it.
    pub se: Option<f64>,
    /// Ends of the 95% interval of Student's t.
    pub interval: Option<(f64, f64)>,
    /// Ends of the 95% bootstrap interval.
    pub bootstrap: Option<(f64, f64)>,
    /// Two-sided probability under no difference.
    pub p: Option<f64>,
    /// `p` after Holm's correction for all comparisons of the list.
    pub p_holm: Option<f64>,
    /// Paired documents.
    pub documents: usize,
    /// Paired seeds.
    pub seeds: usize,
}

/// Compares two sets of rows wherever both hold the same measurement: same protocol, split, lengths and
/// extension. Seeds are paired where both sides have the same ones; with one seed on each side they are
/// taken as a pair whatever they are, and documents tell the error.
///
/// # Errors
/// They have no measurement in common, no row has the metric, or all that is alike was read from different
/// text. Bits per byte may be compared over other tokens of one text, all else only over the same tokens.
pub fn compare(a: &[ResultRow], b: &[ResultRow], metric: Metric) -> Result<Vec<Comparison>> {
    let mut comparisons: Vec<Comparison> = Vec::new();
    let same = |x: &ResultRow, y: &ResultRow| {
        x.settings == y.settings && x.extend == y.extend && x.extend_config == y.extend_config
    };
    let (mut common, mut refused) = (false, None);
    for (index, row) in a.iter().enumerate() {
        if a[..index].iter().any(|earlier| same(earlier, row)) {
            continue;
        }
        let wanted: Vec<&ResultRow> = b.iter().filter(|other| same(other, row)).collect();
        common |= !wanted.is_empty();
        if let Some(error) = wanted.iter().find_map(|other| other_text(row, other, metric)) {
            refused.get_or_insert(error);
            continue;
        }
        let left: Vec<&ResultRow> = a.iter().filter(|other| same(other, row)).collect();
        let (left, mut right) = (samples(&left, a, metric), samples(&wanted, b, metric));
        if let ([one], [other]) = (left.as_slice(), right.as_mut_slice()) {
            *other = other.as_seed(one.seed());
        }
        comparisons.extend(comparison(&left, &right, metric));
    }
    if comparisons.is_empty() {
        return Err(match refused {
            Some(error) => error,
            None if common => {
                Error::failed(format!("no row that both runs have holds a `{}`", metric.name()))
                    .hint(metric.held_by())
            }
            None => Error::failed("the two runs have no measurement in common")
                .hint("evaluate both with the same lengths, extensions and protocol: `longwave eval RUN ..`"),
        });
    }
    correct(&mut comparisons);
    Ok(comparisons)
}

fn samples<'a>(wanted: &[&'a ResultRow], rows: &'a [ResultRow], metric: Metric) -> Vec<Sample<'a>> {
    wanted.iter().filter_map(|row| Sample::new(metric, row, rows)).collect()
}

/// Why two rows cannot be held against each other, where they cannot.
fn other_text(a: &ResultRow, b: &ResultRow, metric: Metric) -> Option<Error> {
    let named = |row: &ResultRow| row.corpus.clone().unwrap_or_else(|| "an unnamed text".to_owned());
    if !a.same_text(b) {
        return Some(
            Error::failed(format!("the two runs read different text: `{}` and `{}`", named(a), named(b)))
                .hint("read both on one text: `longwave eval RUN --corpus PATH`"),
        );
    }
    let scored = |row: &ResultRow| {
        let tokens = row.per_document.as_ref().map(|sums| sums.tokens.clone());
        (row.tokens, row.documents, row.bytes, tokens)
    };
    let ((x, y), bits) = ((scored(a), scored(b)), metric.spans_tokenizers());
    let known = x.3.is_some() && y.3.is_some();
    let differ = (x.0, x.1, x.2) != (y.0, y.1, y.2) || (known && x.3 != y.3);
    (differ && !bits).then(|| {
        Error::failed(format!(
            "the two runs scored different tokens of `{}` at length {}: {} tokens of {} bytes, and {} of {}",
            named(a),
            a.settings.length,
            a.tokens,
            a.bytes,
            b.tokens,
            b.bytes
        ))
        .hint("their tokenizers or texts differ; `--metric bits_per_byte` compares across tokenizers")
    })
}

fn comparison(left: &[Sample<'_>], right: &[Sample<'_>], metric: Metric) -> Option<Comparison> {
    let difference = Difference::new(left, right, 0.95)?;
    let interval = difference.interval();
    let mean_of = |numbers: Vec<f64>| mean(&numbers).unwrap_or(f64::NAN);
    let value = |samples: &[Sample<'_>]| mean_of(samples.iter().map(Sample::value).collect());
    let ppl =
        |samples: &[Sample<'_>]| mean_of(samples.iter().map(|sample| sample.row().nll()).collect()).exp();
    let row = left.first()?.row();
    Some(Comparison {
        extend: row.extend.clone(),
        extend_config: row.extend_config.clone(),
        settings: row.settings.clone(),
        metric,
        value: value(left),
        other_value: value(right),
        ppl: ppl(left),
        other_ppl: ppl(right),
        difference: difference.mean,
        se: interval.map(|interval| interval.se),
        interval: interval.map(|interval| (interval.low, interval.high)),
        bootstrap: difference.bootstrap,
        p: interval.map(|interval| interval.p_against(0.0)),
        p_holm: None,
        documents: difference.documents,
        seeds: difference.seeds,
    })
}

/// Fills in Holm's correction.
fn correct(comparisons: &mut [Comparison]) {
    let p: Vec<f64> = comparisons.iter().filter_map(|comparison| comparison.p).collect();
    let mut adjusted = adjusted(&p).into_iter();
    for comparison in comparisons.iter_mut().filter(|comparison| comparison.p.is_some()) {
        comparison.p_holm = adjusted.next();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use longwave_eval::row::FORMAT;
    use longwave_eval::{DocumentSums, Protocol, Split};

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

    fn losses(rows: &[ResultRow]) -> Vec<Sample<'_>> {
        rows.iter().map(|row| Sample::new(Metric::Loss, row, rows).unwrap()).collect()
    }

    #[test]
    fn pairing_takes_out_what_seeds_and_documents_share() {
        let hard = [[2.0, 4.0, 3.0], [3.0, 5.0, 4.0]];
        let a: Vec<ResultRow> = (0..2).map(|s| row("ntk", 256, s, &hard[s as usize])).collect();
        let b: Vec<ResultRow> =
            (0..2).map(|s| row("yarn", 256, s, &hard[s as usize].map(|nll| nll - 0.5))).collect();
        // The order of seeds on the other side does not matter.
        let right: Vec<Sample<'_>> = losses(&b).into_iter().rev().collect();
        let difference = Difference::new(&losses(&a), &right, 0.95).unwrap();
        assert!((difference.mean - 0.5).abs() < 1e-12);
        assert_eq!((difference.seeds, difference.documents), (2, 3));
        assert!(difference.by_seed.unwrap().se < 1e-12 && difference.by_document.unwrap().se < 1e-12);
        let (low, high) = difference.bootstrap.unwrap();
        assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9);
    }

    #[test]
    fn other_seeds_are_no_pair_and_other_documents_no_documents() {
        let a = [row("ntk", 256, 0, &[1.0, 2.0])];
        let b = [row("ntk", 256, 1, &[1.0, 2.0])];
        assert_eq!(Difference::new(&losses(&a), &losses(&b), 0.95), None);
        let c = [row("ntk", 256, 0, &[1.0, 2.0, 3.0])];
        let difference = Difference::new(&losses(&a), &losses(&c), 0.95).unwrap();
        assert_eq!((difference.documents, difference.by_document), (0, None));
        // As many tokens of other text are other documents all the same.
        let mut d = [row("ntk", 256, 0, &[2.0, 2.0])];
        (d[0].corpus, d[0].bytes) = (Some("other".to_owned()), 0);
        assert!(Difference::new(&losses(&a), &losses(&d), 0.95).unwrap().by_document.is_some());
        let mut a = a;
        a[0].corpus = Some("one".to_owned());
        let difference = Difference::new(&losses(&a), &losses(&d), 0.95).unwrap();
        assert_eq!((difference.documents, difference.by_document), (0, None));
    }

    #[test]
    fn compares_what_both_have_and_corrects_for_all() {
        let a = [row("ntk", 256, 0, &[1.0, 2.1, 3.2]), row("ntk", 512, 0, &[1.0, 2.0, 3.0])];
        let b = [row("ntk", 256, 5, &[1.5, 2.5, 3.5]), row("yarn", 512, 5, &[1.0, 2.0, 3.0])];
        let found = compare(&a, &b, Metric::Loss).unwrap();
        assert_eq!(found.len(), 1);
        assert!((found[0].difference + 0.4).abs() < 1e-12);
        assert_eq!((found[0].p, found[0].documents), (found[0].p_holm, 3));
        let error = compare(&a[..1], &b[1..], Metric::Loss).unwrap_err();
        assert!(error.message().contains("no measurement in common"));
    }

    #[test]
    fn a_perplexity_over_seeds_is_that_of_the_mean_loss() {
        let a: Vec<ResultRow> =
            [2.0, 4.0].iter().zip(0..).map(|(nll, s)| row("ntk", 256, s, &[*nll])).collect();
        let found = compare(&a, &a, Metric::Loss).unwrap().remove(0);
        assert_eq!((found.ppl, found.other_ppl, found.value), (3f64.exp(), 3f64.exp(), 3.0));
    }

    #[test]
    fn other_text_and_other_tokens_are_refused() {
        let a = [row("ntk", 256, 0, &[1.0, 2.0]), row("yarn", 256, 0, &[1.0, 2.0])];
        let mut b = a.clone();
        b[0].corpus = Some("b".to_owned());
        let mut named = a.clone();
        named[0].corpus = Some("a".to_owned());
        let error = compare(&named[..1], &b[..1], Metric::Loss).unwrap_err();
        assert_eq!(error.message(), "the two runs read different text: `a` and `b`");
        // What was read alike is compared.
        assert_eq!(compare(&named, &b, Metric::Loss).unwrap()[0].extend, "yarn");
        let mut c = row("ntk", 256, 0, &[1.0, 2.0]);
        (c.tokens, c.bytes) = (30, 90);
        let c = c.with("bpb", 0.5);
        let mut a = a[0].clone();
        a.bytes = 90;
        let (a, c) = ([a.with("bpb", 0.75)], [c]);
        let error = compare(&a, &c, Metric::Loss).unwrap_err();
        assert!(
            error.message().contains("scored different tokens") && error.hint_text().is_some(),
            "{error}"
        );
        assert_eq!(compare(&a, &c, Metric::BitsPerByte).unwrap()[0].difference, 0.25);
        let none = compare(&a, &a, Metric::ExactMatch).unwrap_err();
        assert!(none.message().contains("holds a `exact_match`"), "{none}");
    }
}
