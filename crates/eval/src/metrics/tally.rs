//! Sums per document of what was scored.
//!
//! Sums are f64 and added in the order of the documents, so that a result does not depend on how windows were batched.

use super::Metric;
use super::bits_per_byte::BYTES;
use super::sums::{DocumentSums, Facts, Score, TokenSum, Values};
use crate::text::Material;

/// The scores of a measurement, summed over each document.
#[derive(Clone, Debug)]
pub struct Tally {
    tokens: Vec<u64>,
    bytes: Vec<u64>,
    sums: Vec<(TokenSum, Vec<f64>)>,
    /// Sums that are not made of scores, by name.
    others: Vec<(&'static str, Vec<f64>)>,
    skipped: usize,
    /// Whether the sums are over blocks of one document.
    blocks: bool,
}

impl Tally {
    /// Nothing scored yet of `documents` documents, `skipped` of which never will be.
    pub fn new(documents: usize, skipped: usize) -> Self {
        let sums = Metric::all().iter().filter_map(|metric| metric.token_sum());
        Self {
            tokens: vec![0; documents],
            bytes: vec![0; documents],
            sums: sums.map(|sum| (sum, vec![0.0; documents])).collect(),
            others: Vec::new(),
            skipped,
            blocks: false,
        }
    }

    /// The same over blocks of one document, see [`Parts`](crate::Parts).
    #[must_use]
    pub fn of_blocks(self, blocks: bool) -> Self {
        Self { blocks, ..self }
    }

    /// The same with sums that are not made of scores, `[documents]` each.
    #[must_use]
    pub fn with(self, others: Vec<(&'static str, Vec<f64>)>) -> Self {
        Self { others, ..self }
    }

    /// Adds targets of one document, and their bytes together.
    ///
    /// # Panics
    /// `document` is not one of this tally's.
    pub fn add(&mut self, document: usize, scores: &[Score], bytes: u64) {
        for (sum, sums) in &mut self.sums {
            sums[document] += scores.iter().map(sum.of).sum::<f64>();
        }
        self.tokens[document] += scores.len() as u64;
        self.bytes[document] += bytes;
    }

    /// Scored tokens of each document, `[documents]`.
    pub fn of_documents(&self) -> &[u64] {
        &self.tokens
    }

    /// Scored tokens.
    pub fn tokens(&self) -> u64 {
        self.tokens.iter().sum()
    }

    /// Bytes of text of the scored tokens; 0 where they are no text.
    pub fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    pub fn documents(&self) -> usize {
        let scored = self.tokens.iter().filter(|&&tokens| tokens > 0).count();
        if self.blocks { scored.min(1) } else { scored }
    }

    /// Documents too short for one window.
    pub fn skipped_documents(&self) -> usize {
        self.skipped
    }

    pub fn sums(&self) -> DocumentSums {
        let mut none = DocumentSums::new(self.tokens.clone());
        none.blocks = self.blocks;
        if self.bytes() > 0 {
            none = none.with_counts(BYTES, self.bytes.clone());
        }
        let others =
            self.others.iter().fold(none, |sums, (name, numbers)| sums.with_numbers(name, numbers.clone()));
        self.sums.iter().fold(others, |sums, (sum, numbers)| {
            if sum.counts {
                sums.with_counts(sum.name, numbers.iter().map(|&count| count as u64).collect())
            } else {
                sums.with_numbers(sum.name, numbers.clone())
            }
        })
    }

    /// The values of all metrics of such a text; `None` before anything is scored.
    pub fn values(&self, material: Material) -> Option<Values> {
        if self.tokens() == 0 {
            return None;
        }
        let (sums, mut values) = (self.sums(), Values::default());
        for metric in Metric::all().iter().filter(|metric| metric.is_of(material)) {
            let facts = Facts {
                tokens: self.tokens(),
                bytes: self.bytes(),
                values: &values,
                per_document: Some(&sums),
                difference: None,
                baseline: None,
            };
            let (Some(column), Some((value, error))) = (metric.column(), metric.measure(&facts)) else {
                continue;
            };
            values.set(column.name, Some(value));
            if let Some(name) = column.error.filter(|_| column.error_in_rows) {
                values.set(name, error);
            }
        }
        Some(values)
    }
}
