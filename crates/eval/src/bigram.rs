//! Where the bigram that ends in a token was last seen in its document.
//!
//! A model that uses far context gains where a pair of tokens occurred before, but not lately: a cheap
//! stand-in for the key tokens of `LongPPL` (Fang et al. 2024, arXiv:2410.23771).

use crate::metrics::{Score, Tally};
use crate::number;
use crate::plan::Plan;
use crate::text::{Material, Text};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How far back the bigram `(x[t-1], x[t])` that ends in a token occurred in the same document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastSeen {
    /// At most L tokens back.
    Within,
    /// More than L tokens back.
    Beyond,
    /// Never before.
    Never,
}

impl LastSeen {
    /// All, in the order of [`LastSeen::index`].
    pub const ALL: [Self; 3] = [Self::Within, Self::Beyond, Self::Never];

    pub fn index(self) -> usize {
        self as usize
    }
}

/// The mean loss of the tokens whose bigram was last seen so far back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BigramRow {
    /// How far back: `within` L tokens, `beyond` L tokens, or `never`.
    pub last_seen: LastSeen,
    /// Scored tokens.
    pub tokens: u64,
    /// Mean negative log likelihood, in nats per token.
    #[serde(with = "number")]
    pub nll: f64,
    /// Standard error of `nll` over documents; absent for fewer than two documents.
    #[serde(default)]
    pub nll_se: Option<f64>,
    /// Share of the tokens that the model held most likely.
    pub accuracy: f64,
}

/// For each token of a document, where its bigram was last seen, with L = `train_length`; the first
/// token ends no bigram and counts as never.
///
/// It is a property of the text: the distance is counted in the document, whatever a reading sees of it.
pub fn last_seen(tokens: &[u32], train_length: usize) -> Vec<LastSeen> {
    let mut places: HashMap<(u32, u32), usize> = HashMap::new();
    let mut seen = vec![LastSeen::Never; tokens.len().min(1)];
    seen.extend(tokens.windows(2).enumerate().map(|(index, pair)| {
        let place = index + 1;
        match places.insert((pair[0], pair[1]), place) {
            None => LastSeen::Never,
            Some(before) if place - before <= train_length => LastSeen::Within,
            Some(_) => LastSeen::Beyond,
        }
    }));
    seen
}

/// [`last_seen`] of every document, as far as the plans score it; `None` where the text is not as it was written.
pub fn last_seen_in(text: &Text, plans: &[&Plan], train_length: usize) -> Option<Vec<Vec<LastSeen>>> {
    if text.material() != Material::Documents {
        return None;
    }
    let mut ends = vec![0; text.lengths().len()];
    for window in plans.iter().flat_map(|plan| &plan.windows) {
        ends[window.document] = window.end.max(ends[window.document]);
    }
    let seen = |(document, &end): (usize, &usize)| last_seen(&text.read(document, 0..end), train_length);
    Some(ends.iter().enumerate().map(seen).collect())
}

/// The losses of a plan apart by where each target's bigram was last seen; `seen` has one list per
/// document, as long as its last target needs.
pub fn split(plan: &Plan, scores: &[Vec<Score>], seen: &[Vec<LastSeen>]) -> Vec<BigramRow> {
    let mut tallies = LastSeen::ALL.map(|_| Tally::new(seen.len(), 0));
    for (window, scores) in plan.windows.iter().zip(scores) {
        for (token, score) in (window.first..window.end).zip(scores) {
            tallies[seen[window.document][token].index()].add(window.document, &[*score], 0);
        }
    }
    let rows = LastSeen::ALL.into_iter().zip(tallies);
    rows.filter_map(|(last_seen, tally)| {
        let values = tally.values(Material::Documents)?;
        Some(BigramRow {
            last_seen,
            tokens: tally.tokens(),
            nll: values.get("nll")?,
            nll_se: values.get("nll_se"),
            accuracy: values.get("accuracy")?,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Window;
    use longwave_data::TokenFile;

    #[test]
    fn distance_is_from_the_last_time() {
        use LastSeen::{Beyond, Never, Within};
        let tokens = [1, 2, 1, 2, 3, 4, 1, 2, 9, 3, 4];
        // (1, 2) ends at 1, 3 and 7: 2 and 4 back; (3, 4) ends at 5 and 10: 5 back.
        let expected = [Never, Never, Never, Within, Never, Never, Never, Within, Never, Never, Beyond];
        assert_eq!(last_seen(&tokens, 4), expected);
        assert_eq!(last_seen(&tokens, 3)[7], Beyond);
        assert_eq!(last_seen(&[], 4), []);
    }

    #[test]
    fn the_parts_add_up_to_the_whole() {
        let seen = vec![last_seen(&[1, 2, 1, 2, 3, 1, 2], 2)];
        let plan =
            Plan { windows: vec![Window { document: 0, start: 0, first: 1, end: 7 }], skipped_documents: 0 };
        let scores: Vec<Score> =
            (1..7).map(|token| Score { nll: f64::from(token), correct: token % 2 == 1 }).collect();
        let rows = split(&plan, &[scores], &seen);
        let found: Vec<_> =
            rows.iter().map(|row| (row.last_seen, row.tokens, row.nll, row.accuracy)).collect();
        // Bigrams end at 1 (never), 2 (never), 3 (2 back), 4 (never), 5 (never), 6 (3 back).
        let expected = [
            (LastSeen::Within, 1, 3.0, 1.0),
            (LastSeen::Beyond, 1, 6.0, 0.0),
            (LastSeen::Never, 4, 3.0, 0.5),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn bigrams_are_looked_up_as_far_as_anything_is_scored() {
        let plan =
            Plan { windows: vec![Window { document: 0, start: 0, first: 2, end: 4 }], skipped_documents: 1 };
        let tokens = TokenFile::from_documents(&[("a", &[0, 1, 2, 3, 4, 5]), ("b", &[100, 101, 102])]);
        let text = Text::documents(tokens);
        let seen = last_seen_in(&text, &[&plan], 4).unwrap();
        assert_eq!((seen[0].len(), seen[1].len()), (4, 0));
    }
}
