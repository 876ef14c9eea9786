//! Sums per document, and what is told of them.
//!
//! Sums are kept in f64 and added in the order of the documents, so that a result does not depend on
//! how windows were batched. Perplexity is the exponential of the token-weighted mean.

use crate::row::PositionRow;
use crate::score::Score;
use crate::statistics::{Mean, mean_over_documents};
use std::f64::consts::LN_2;

/// What was scored, per document.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// Sum of the negative log likelihoods of the scored tokens, in nats `[documents]`.
    pub nll: Vec<f64>,
    /// Scored tokens `[documents]`.
    pub tokens: Vec<u64>,
    /// Scored tokens that the model held most likely `[documents]`.
    pub correct: Vec<u64>,
    /// Bytes of text of the scored tokens `[documents]`; 0 throughout where tokens are no text.
    pub bytes: Vec<u64>,
    /// Documents too short for one window.
    pub skipped: usize,
}

impl Tally {
    /// Nothing scored yet of `documents` documents, `skipped` of which never will be.
    pub fn new(documents: usize, skipped: usize) -> Self {
        let none = || vec![0; documents];
        Self { nll: vec![0.0; documents], tokens: none(), correct: none(), bytes: none(), skipped }
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

    /// Adds one target of a document.
    ///
    /// # Panics
    /// `document` is not one of this tally's.
    pub fn add_score(&mut self, document: usize, score: Score) {
        self.nll[document] += score.nll;
        self.tokens[document] += 1;
        self.correct[document] += u64::from(score.correct);
    }

    /// Share of the documents all of whose scored tokens the model held most likely, and its error over
    /// documents; `None` before anything is scored.
    pub fn exact_match(&self) -> Option<Mean> {
        let scored: Vec<u64> = self.tokens.iter().map(|&tokens| u64::from(tokens > 0)).collect();
        let exact = self.tokens.iter().zip(&self.correct);
        let exact: Vec<f64> =
            exact.map(|(tokens, correct)| if *tokens > 0 && tokens == correct { 1.0 } else { 0.0 }).collect();
        mean_over_documents(&exact, &scored)
    }

    /// Means, standard errors, perplexity and bits per byte; `None` before anything is scored.
    pub fn summary(&self) -> Option<Summary> {
        let loss = mean_over_documents(&self.nll, &self.tokens)?;
        let correct: Vec<f64> = self.correct.iter().map(|&correct| correct as f64).collect();
        let accuracy = mean_over_documents(&correct, &self.tokens)?;
        let bytes: u64 = self.bytes.iter().sum();
        Some(Summary {
            tokens: self.tokens.iter().sum(),
            documents: loss.documents,
            skipped_documents: self.skipped,
            nll: loss.mean,
            nll_se: loss.se,
            ppl: loss.mean.exp(),
            accuracy: accuracy.mean,
            accuracy_se: accuracy.se,
            bytes,
            bpb: (bytes > 0).then(|| self.nll.iter().sum::<f64>() / (LN_2 * bytes as f64)),
        })
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
    /// Share of the scored tokens that the model held most likely.
    pub accuracy: f64,
    /// Standard error of `accuracy` over documents; `None` for fewer than two.
    pub accuracy_se: Option<f64>,
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
    fn accuracy_counts_tokens_and_errs_by_documents() {
        let mut tally = Tally::new(2, 0);
        for (document, correct) in [(0, true), (0, true), (0, false), (0, true), (1, false), (1, true)] {
            tally.add_score(document, Score { nll: 1.0, correct });
        }
        let summary = tally.summary().unwrap();
        assert_eq!((summary.accuracy, summary.nll, summary.tokens), (4.0 / 6.0, 1.0, 6));
        // 3 - 4 * 2/3 and 1 - 2 * 2/3: a third each way.
        assert!((summary.accuracy_se.unwrap() - (2.0 * 2.0 / 9.0f64).sqrt() / 6.0).abs() < 1e-15);
    }

    #[test]
    fn an_answer_matches_with_all_its_tokens() {
        let mut tally = Tally::new(4, 0);
        for (document, correct) in [(0, true), (0, true), (1, true), (1, false), (3, true)] {
            tally.add_score(document, Score { nll: 1.0, correct });
        }
        let exact = tally.exact_match().unwrap();
        assert_eq!((exact.mean, exact.documents), (2.0 / 3.0, 3));
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
