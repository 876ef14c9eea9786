//! Paired differences: the same seeds, the same documents, two ways of reading.

use crate::statistics::{Interval, adjusted, bootstrap, mean, mean_interval, ratio_interval};
use longwave_core::{Error, Result};
use longwave_eval::{ResultRow, Settings};
use serde::Serialize;
use serde_json::Value;

/// The loss of one side minus that of the other, in nats per token.
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
    /// seed is on both sides, or a loss is no number.
    pub fn new(a: &[&ResultRow], b: &[&ResultRow], level: f64) -> Option<Self> {
        let pairs: Vec<(&ResultRow, &ResultRow)> = a
            .iter()
            .filter_map(|a| Some((*a, *b.iter().find(|b| b.seed == a.seed)?)))
            .filter(|(a, b)| a.nll.is_finite() && b.nll.is_finite())
            .collect();
        let by_seed: Vec<f64> = pairs.iter().map(|(a, b)| a.nll - b.nll).collect();
        let sums = Sums::of(&pairs);
        let (by_document, bootstrap, documents) = match &sums {
            Some(sums) => {
                (sums.interval(level), bootstrap(&sums.differences, &sums.tokens, level, 0), sums.documents())
            }
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
    /// `a - b` summed over the tokens of each document, `[seeds, documents]`.
    differences: Vec<Vec<f64>>,
    /// Tokens of each document.
    tokens: Vec<u64>,
}

impl Sums {
    /// `None` where a row does not tell of its documents, or the tokens are not the same throughout.
    fn of(pairs: &[(&ResultRow, &ResultRow)]) -> Option<Self> {
        let first = pairs.first()?.0.per_document.as_ref()?;
        let differences = pairs
            .iter()
            .map(|(a, b)| {
                let (a, b) = (a.per_document.as_ref()?, b.per_document.as_ref()?);
                let same = a.tokens == first.tokens && b.tokens == first.tokens;
                same.then(|| a.nll.iter().zip(&b.nll).map(|(a, b)| a - b).collect())
            })
            .collect::<Option<Vec<Vec<f64>>>>()?;
        Some(Self { differences, tokens: first.tokens.clone() })
    }

    fn documents(&self) -> usize {
        self.tokens.iter().filter(|tokens| **tokens > 0).count()
    }

    fn interval(&self, level: f64) -> Option<Interval> {
        let seeds = self.differences.len() as f64;
        let averaged: Vec<f64> = (0..self.tokens.len())
            .map(|document| self.differences.iter().map(|seed| seed[document]).sum::<f64>() / seeds)
            .collect();
        ratio_interval(&averaged, &self.tokens, level)
    }
}

/// One measurement that two runs have in common, and the difference of their losses.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Kind of the extension.
    pub extend: String,
    /// The extension's config.
    pub extend_config: Value,
    /// Protocol, split and lengths.
    #[serde(flatten)]
    pub settings: Settings,
    /// Perplexity of the first run.
    pub ppl: f64,
    /// Perplexity of the second run.
    pub other_ppl: f64,
    /// Loss of the first minus that of the second, in nats per token.
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
/// They have no measurement in common.
pub fn compare(a: &[ResultRow], b: &[ResultRow]) -> Result<Vec<Comparison>> {
    let mut comparisons: Vec<Comparison> = Vec::new();
    let same = |x: &ResultRow, y: &ResultRow| {
        x.settings == y.settings && x.extend == y.extend && x.extend_config == y.extend_config
    };
    for (index, row) in a.iter().enumerate() {
        if a[..index].iter().any(|earlier| same(earlier, row)) {
            continue;
        }
        let left: Vec<&ResultRow> = a.iter().filter(|other| same(other, row)).collect();
        let mut right: Vec<ResultRow> = b.iter().filter(|other| same(other, row)).cloned().collect();
        if let ([one], [other]) = (left.as_slice(), right.as_mut_slice()) {
            other.seed = one.seed;
        }
        let right: Vec<&ResultRow> = right.iter().collect();
        let Some(difference) = Difference::new(&left, &right, 0.95) else { continue };
        let interval = difference.interval();
        let mean_of = |rows: &[&ResultRow]| {
            let ppl: Vec<f64> = rows.iter().map(|row| row.ppl).collect();
            mean(&ppl).unwrap_or(f64::NAN)
        };
        comparisons.push(Comparison {
            extend: row.extend.clone(),
            extend_config: row.extend_config.clone(),
            settings: row.settings.clone(),
            ppl: mean_of(&left),
            other_ppl: mean_of(&right),
            difference: difference.mean,
            se: interval.map(|interval| interval.se),
            interval: interval.map(|interval| (interval.low, interval.high)),
            bootstrap: difference.bootstrap,
            p: interval.map(|interval| interval.p_against(0.0)),
            p_holm: None,
            documents: difference.documents,
            seeds: difference.seeds,
        });
    }
    if comparisons.is_empty() {
        return Err(Error::failed("the two runs have no measurement in common")
            .hint("evaluate both with the same lengths, extensions and protocol: `longwave eval RUN ..`"));
    }
    correct(&mut comparisons);
    Ok(comparisons)
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
    use longwave_eval::row::{DocumentSums, FORMAT};
    use longwave_eval::{Protocol, Split};

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
        row.per_document = Some(DocumentSums {
            tokens: vec![10; documents.len()],
            nll: documents.iter().map(|nll| nll * 10.0).collect(),
        });
        row
    }

    #[test]
    fn pairing_takes_out_what_seeds_and_documents_share() {
        let hard = [[2.0, 4.0, 3.0], [3.0, 5.0, 4.0]];
        let a: Vec<ResultRow> = (0..2).map(|s| row("ntk", 256, s, &hard[s as usize])).collect();
        let b: Vec<ResultRow> =
            (0..2).map(|s| row("yarn", 256, s, &hard[s as usize].map(|nll| nll - 0.5))).collect();
        let left: Vec<&ResultRow> = a.iter().collect();
        // The order of seeds on the other side does not matter.
        let right: Vec<&ResultRow> = b.iter().rev().collect();
        let difference = Difference::new(&left, &right, 0.95).unwrap();
        assert!((difference.mean - 0.5).abs() < 1e-12);
        assert_eq!((difference.seeds, difference.documents), (2, 3));
        assert!(difference.by_seed.unwrap().se < 1e-12 && difference.by_document.unwrap().se < 1e-12);
        let (low, high) = difference.bootstrap.unwrap();
        assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9);
    }

    #[test]
    fn other_seeds_are_no_pair_and_other_documents_no_documents() {
        let a = row("ntk", 256, 0, &[1.0, 2.0]);
        let b = row("ntk", 256, 1, &[1.0, 2.0]);
        assert_eq!(Difference::new(&[&a], &[&b], 0.95), None);
        let c = row("ntk", 256, 0, &[1.0, 2.0, 3.0]);
        let difference = Difference::new(&[&a], &[&c], 0.95).unwrap();
        assert_eq!((difference.documents, difference.by_document), (0, None));
    }

    #[test]
    fn compares_what_both_have_and_corrects_for_all() {
        let a = [row("ntk", 256, 0, &[1.0, 2.1, 3.2]), row("ntk", 512, 0, &[1.0, 2.0, 3.0])];
        let b = [row("ntk", 256, 5, &[1.5, 2.5, 3.5]), row("yarn", 512, 5, &[1.0, 2.0, 3.0])];
        let found = compare(&a, &b).unwrap();
        assert_eq!(found.len(), 1);
        assert!((found[0].difference + 0.4).abs() < 1e-12);
        assert_eq!((found[0].p, found[0].documents), (found[0].p_holm, 3));
        let error = compare(&a[..1], &b[1..]).unwrap_err();
        assert!(error.message().contains("no measurement in common"));
    }
}
