//! Whether far text is read at all: the loss of the last tokens with the text before them cut, shuffled, or taken from another text; and the
//! change of the loss by how far back a bigram was last seen.
//!
//! Source: Khandelwal et al. 2018 (arXiv:1805.04623, sections 4 to 6), Sun et al. 2021 (arXiv:2109.09115).

use super::finding::Diagnostic;
use burn::tensor::Tensor;
use longwave_core::Result;
use longwave_core::random::Stream;
use longwave_model::{Gpt, Pass, upload};
use longwave_position::Reading;
use longwave_train::parameters::numbers;
use std::collections::HashMap;

/// What becomes of the text before the tokens that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Cut,
    Shuffled,
    Other,
}

impl Change {
    pub(super) const ALL: [Self; 3] = [Self::Cut, Self::Shuffled, Self::Other];

    pub(super) fn diagnostic(self) -> Diagnostic {
        match self {
            Self::Cut => Diagnostic::ContextCut,
            Self::Shuffled => Diagnostic::ContextShuffled,
            Self::Other => Diagnostic::ContextOther,
        }
    }

    /// A text whose last `kept` tokens stay as they are; `other` is another one of its length, and `key` decides the order.
    pub(super) fn of(self, tokens: &[u32], kept: usize, other: &[u32], key: u64) -> Vec<u32> {
        let (before, last) = tokens.split_at(tokens.len() - kept);
        let before = match self {
            Self::Cut => Vec::new(),
            Self::Shuffled => shuffled(before, key),
            Self::Other => other[..before.len()].to_vec(),
        };
        [&before, last].concat()
    }
}

/// The tokens in a random order, the same for the same key.
fn shuffled(tokens: &[u32], key: u64) -> Vec<u32> {
    let mut stream = Stream::new(key, "shuffled context", 0);
    let mut tokens = tokens.to_vec();
    for last in (1..tokens.len()).rev() {
        tokens.swap(last, stream.below(last as u64 + 1) as usize);
    }
    tokens
}

/// The losses of the last `targets`, whose rows end a text at these last positions of a longer one of `length` tokens.
pub(super) fn losses(
    model: &Gpt,
    reading: &Reading,
    tokens: &[u32],
    length: usize,
    targets: &[u32],
) -> Result<Vec<f64>> {
    let (device, count) = (model.embedding.device(), tokens.len());
    let positions = reading.layout().positions(length).columns(length - count..length);
    let pass =
        Pass { tokens: upload(tokens, [1, count], &device), positions: &positions, reading, dropout: None };
    let targets = upload(targets, [1, targets.len()], &device);
    let [_, scored] = targets.dims();
    let losses: Tensor<2> = model.nll(&pass, targets, count - scored..count);
    Ok(numbers("the losses", losses)?.into_iter().map(f64::from).collect())
}

/// How far back the bigram that ends in each token was last seen, as the largest power of two up to the distance; 0 for never.
pub(super) fn last_repetitions(tokens: &[u32]) -> Vec<usize> {
    let mut places: HashMap<(u32, u32), usize> = HashMap::new();
    let mut bins = vec![0; tokens.len().min(1)];
    bins.extend(tokens.windows(2).enumerate().map(|(index, pair)| {
        let place = index + 1;
        let before = places.insert((pair[0], pair[1]), place);
        before.map_or(0, |before| 1 << (place - before).ilog2())
    }));
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_tokens_stay() {
        let (tokens, other): (Vec<u32>, Vec<u32>) = ((0..20).collect(), (100..120).collect());
        assert_eq!(Change::Cut.of(&tokens, 3, &other, 1), [17, 18, 19]);
        let shuffled = Change::Shuffled.of(&tokens, 3, &other, 1);
        assert_eq!((shuffled.len(), &shuffled[17..]), (20, &tokens[17..]));
        let mut sorted = shuffled.clone();
        sorted.sort_unstable();
        assert!(sorted == tokens && shuffled != tokens);
        assert_eq!(shuffled, Change::Shuffled.of(&tokens, 3, &other, 1));
        assert_eq!(Change::Other.of(&tokens, 18, &other, 1)[..3], [100, 101, 2]);
    }

    #[test]
    fn repetitions_are_counted_in_powers_of_two() {
        // The pair (1, 2) ends at places 1, 4 and 9; (2, 3) at 2 and 5.
        let tokens = [1, 2, 3, 1, 2, 3, 4, 5, 1, 2];
        assert_eq!(last_repetitions(&tokens), [0, 0, 0, 0, 2, 2, 0, 0, 0, 4]);
        assert_eq!(last_repetitions(&[7, 7, 7]), [0, 0, 1]);
        assert!(last_repetitions(&[]).is_empty());
    }
}
