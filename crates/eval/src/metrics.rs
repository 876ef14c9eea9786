//! Sums per document, and what is told of them.
//!
//! Sums are kept in f64 and added in the order of the documents, so that a result does not depend on
//! how windows were batched. Perplexity is the exponential of the token-weighted mean.

use crate::row::PositionRow;
use std::f64::consts::LN_2;

/// What was scored, per document.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// Sum of the negative log likelihoods of the scored tokens, in nats `[documents]`.
    pub nll: Vec<f64>,
    /// Scored tokens `[documents]`.
    pub tokens: Vec<u64>,
    /// Bytes of text of the scored tokens `[documents]`; 0 throughout where tokens are no text.
    pub bytes: Vec<u64>,
    /// Documents too short for one window.
    pub skipped: usize,
}

impl Tally {
    /// Nothing scored yet of `documents` documents, `skipped` of which never will be.
    pub fn new(documents: usize, skipped: usize) -> Self {
        Self { nll: vec![0.0; documents], tokens: vec![0; documents], bytes: vec![0; documents], skipped }
    }

    /// Adds targets of one document: their negative log likelihoods in nats, and their bytes together.
    ///
    /// # Panics
    /// `document` is not one of this tally's.
    pub fn add(&mut self, document: usize, nll: &[f64], bytes: u64) {
        self.nll[document] += nll.iter().sum::<f64>();
        self.tokens[document] += nll.len() as u64;
        self.bytes[document] += bytes;
    }

    /// Mean, standard error, perplexity and bits per byte; `None` before anything is scored.
    pub fn summary(&self) -> Option<Summary> {
        let tokens: u64 = self.tokens.iter().sum();
        if tokens == 0 {
            return None;
        }
        let sum: f64 = self.nll.iter().sum();
        let nll = sum / tokens as f64;
        let bytes: u64 = self.bytes.iter().sum();
        Some(Summary {
            tokens,
            documents: self.tokens.iter().filter(|&&tokens| tokens > 0).count(),
            skipped_documents: self.skipped,
            nll,
            nll_se: self.standard_error(nll),
            ppl: nll.exp(),
            bytes,
            bpb: (bytes > 0).then(|| sum / (LN_2 * bytes as f64)),
        })
    }

    /// The cluster-robust error of a ratio: with `S_d` the sum and `n_d` the tokens of document `d`,
    /// `sqrt(K / (K - 1) * sum_d (S_d - nll * n_d)^2) / sum_d n_d` over the `K` scored documents.
    fn standard_error(&self, nll: f64) -> Option<f64> {
        let (mut squares, mut tokens, mut documents) = (0.0, 0.0, 0.0);
        for (&sum, &count) in self.nll.iter().zip(&self.tokens) {
            if count > 0 {
                squares += (sum - nll * count as f64).powi(2);
                tokens += count as f64;
                documents += 1.0;
            }
        }
        (documents > 1.0).then(|| (documents / (documents - 1.0) * squares).sqrt() / tokens)
    }
}

/// What one measurement says.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Scored tokens.
    pub tokens: u64,
    /// Documents with a scored token.
    pub documents: usize,
    /// Documents too short for one window.
    pub skipped_documents: usize,
    /// Token-weighted mean of the negative log likelihood, in nats per token.
    pub nll: f64,
    /// Standard error of `nll` over documents; `None` for fewer than two.
    pub nll_se: Option<f64>,
    /// `exp(nll)`; infinite where that overflows.
    pub ppl: f64,
    /// Bytes of text of the scored tokens.
    pub bytes: u64,
    /// Bits per byte, the measure that two tokenizers can be compared by; `None` where tokens are no
    /// text.
    pub bpb: Option<f64>,
}

/// Sums by place in the window, grouped into buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionTally {
    bucket: usize,
    nll: Vec<f64>,
    tokens: Vec<u64>,
}

impl PositionTally {
    /// Nothing scored yet of windows of `length` places, `bucket` places to a bucket. The last bucket
    /// may be shorter.
    ///
    /// # Panics
    /// `bucket` is 0.
    pub fn new(length: usize, bucket: usize) -> Self {
        let buckets = length.div_ceil(bucket);
        Self { bucket, nll: vec![0.0; buckets], tokens: vec![0; buckets] }
    }

    /// Adds the targets at the places `first, first + 1, ...` of one window, in nats.
    ///
    /// # Panics
    /// A place lies past the length of the window.
    pub fn add(&mut self, first: usize, nll: &[f64]) {
        for (place, nll) in (first..).zip(nll) {
            self.nll[place / self.bucket] += nll;
            self.tokens[place / self.bucket] += 1;
        }
    }

    /// The mean of every bucket that was scored, by position.
    pub fn rows(&self) -> Vec<PositionRow> {
        let buckets = self.nll.iter().zip(&self.tokens).enumerate();
        buckets
            .filter(|(_, (_, tokens))| **tokens > 0)
            .map(|(index, (sum, &tokens))| PositionRow {
                position: index * self.bucket,
                tokens,
                nll: sum / tokens as f64,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_documents_have_the_error_of_their_means() {
        let mut tally = Tally::new(4, 1);
        tally.add(0, &[1.0, 3.0], 4);
        tally.add(1, &[3.0, 3.0], 4);
        tally.add(3, &[3.0, 5.0], 8);
        let summary = tally.summary().unwrap();
        // Document means 2, 3, 4: sd 1, over the root of 3 documents.
        assert!((summary.nll_se.unwrap() - 1.0 / 3f64.sqrt()).abs() < 1e-15);
        assert_eq!((summary.nll, summary.tokens, summary.documents), (3.0, 6, 3));
        assert_eq!((summary.ppl, summary.bytes, summary.skipped_documents), (3f64.exp(), 16, 1));
        assert!((summary.bpb.unwrap() - 18.0 / (LN_2 * 16.0)).abs() < 1e-15);
    }

    #[test]
    fn one_document_has_no_error_and_none_has_no_summary() {
        let mut tally = Tally::new(2, 0);
        assert_eq!(tally.summary(), None);
        tally.add(1, &[2.0], 0);
        let summary = tally.summary().unwrap();
        assert_eq!((summary.nll_se, summary.bpb), (None, None));
    }

    #[test]
    fn a_mean_weighs_tokens_not_windows() {
        let mut tally = Tally::new(1, 0);
        tally.add(0, &[1.0; 9], 9);
        tally.add(0, &[11.0], 1);
        assert_eq!(tally.summary().unwrap().nll, 2.0);
    }

    #[test]
    fn the_last_bucket_may_be_shorter() {
        let mut tally = PositionTally::new(5, 2);
        tally.add(0, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        tally.add(3, &[6.0, 7.0]);
        let rows: Vec<_> = tally.rows().iter().map(|row| (row.position, row.tokens, row.nll)).collect();
        assert_eq!(rows, [(0, 2, 1.5), (2, 3, 13.0 / 3.0), (4, 2, 6.0)]);
    }
}
