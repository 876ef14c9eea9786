//! What a head gives to keys, summed over queries.

use super::finding::Diagnostic;
use super::gather::{Gathered, Key};
use super::query::Spread;

/// What is summed of a head over queries.
#[derive(Debug, Default)]
pub(super) struct HeadSums {
    queries: f64,
    first_token: f64,
    /// Whether the queries see the first token of the text.
    sees_first: bool,
    beyond: f64,
    effective_keys: f64,
    /// Of the queries with more than one key.
    ratio: (f64, f64),
    /// Weighted by attention, and what attention there is.
    unseen: Option<(f64, f64)>,
    /// Of the keys that a query sees, each alike; summed over the queries.
    unseen_keys: f64,
}

/// A query and the keys up to its own, which are as many everywhere below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'a> {
    pub(super) given: &'a [f32],
    /// Minus infinity for those that it does not see.
    pub(super) logits: &'a [f32],
    /// So many of the first lie L tokens back or further.
    pub(super) beyond: usize,
    /// Whether the first is that of the text.
    pub(super) is_from_start: bool,
    /// The share of bands at unseen angles; none where nothing turns.
    pub(super) unseen: Option<&'a [f32]>,
}

pub(super) fn is_seen(logit: f32) -> bool {
    logit > f32::NEG_INFINITY
}

impl HeadSums {
    /// Adds a query. One that sees no key gives nothing, and has no part in any mean.
    pub(super) fn add(&mut self, query: &Query<'_>) {
        let Query { given, logits, beyond, is_from_start, unseen } = *query;
        let visible = logits.iter().filter(|&&logit| is_seen(logit)).count();
        if visible == 0 {
            return;
        }
        let spread = Spread::of(given.iter().map(|&p| f64::from(p)), visible);
        self.queries += 1.0;
        self.effective_keys += spread.effective_keys;
        if let Some(ratio) = spread.ratio {
            self.ratio.0 += ratio;
            self.ratio.1 += 1.0;
        }
        self.sees_first |= is_from_start;
        if is_from_start {
            self.first_token += f64::from(given[0]);
        }
        let sum = |given: &[f32]| given.iter().map(|&p| f64::from(p)).sum::<f64>();
        self.beyond += sum(&given[..beyond]);
        if let Some(unseen) = unseen {
            let weighted: f64 =
                given.iter().zip(unseen).map(|(&p, &share)| f64::from(p) * f64::from(share)).sum();
            let (so_far, total) = self.unseen.unwrap_or_default();
            self.unseen = Some((so_far + weighted, total + sum(given)));
            let of_seen = unseen.iter().zip(logits).filter(|(_, logit)| is_seen(**logit));
            // A query counts once, as above, however many keys it sees: so even attention is the same number on both lines.
            self.unseen_keys += of_seen.map(|(&share, _)| f64::from(share)).sum::<f64>() / visible as f64;
        }
    }

    pub(super) fn put(self, layer: usize, head: usize, document: usize, gathered: &mut Gathered) {
        let mut add = |diagnostic, (sum, weight)| {
            gathered.add(document, Key::head(diagnostic, layer, head), sum, weight);
        };
        if self.sees_first {
            add(Diagnostic::FirstToken, (self.first_token, self.queries));
        }
        add(Diagnostic::BeyondLength, (self.beyond, self.queries));
        add(Diagnostic::EffectiveKeys, (self.effective_keys, self.queries));
        add(Diagnostic::Entropy, self.ratio);
        if let Some(unseen) = self.unseen {
            add(Diagnostic::UnseenAngles, unseen);
            add(Diagnostic::UnseenPairs, (self.unseen_keys, self.queries));
        }
    }
}
