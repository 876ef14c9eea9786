//! The loss by place in the window.

use super::sums::Score;
use crate::number;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};

/// The mean loss of some places of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PositionRow {
    /// First place of the bucket, from 0; its target has `position + 1` tokens of context.
    pub position: usize,
    /// Scored tokens.
    pub tokens: u64,
    /// Mean negative log likelihood, in nats per token.
    #[serde(with = "number")]
    pub nll: f64,
}

/// Sums by place in the window, grouped into buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionTally {
    bucket: usize,
    nll: Vec<f64>,
    tokens: Vec<u64>,
}

impl PositionTally {
    /// Sums the losses of a plan by place in windows of `length` tokens that lie side by side. A plan whose
    /// contexts were truncated has the same places: they are those of the windows it was made from.
    pub fn of(plan: &Plan, scores: &[Vec<Score>], length: usize, bucket: usize) -> Self {
        let mut tally = Self::new(length, bucket);
        for (window, scores) in plan.windows.iter().zip(scores) {
            let nll: Vec<f64> = scores.iter().map(|score| score.nll).collect();
            tally.add((window.first - 1) % length, &nll);
        }
        tally
    }

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
    fn the_last_bucket_may_be_shorter() {
        let mut tally = PositionTally::new(5, 2);
        tally.add(0, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        tally.add(3, &[6.0, 7.0]);
        let rows: Vec<_> = tally.rows().iter().map(|row| (row.position, row.tokens, row.nll)).collect();
        assert_eq!(rows, [(0, 2, 1.5), (2, 3, 13.0 / 3.0), (4, 2, 6.0)]);
    }
}
