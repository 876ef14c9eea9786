//! The sentence of a claim, taken apart.

use longwave_core::{Error, Result};
use longwave_eval::ResultRow;
use longwave_position::Tokens;

/// A claim taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sentence {
    /// Words of the left side.
    pub(crate) left: Vec<String>,
    /// How the sides are compared.
    pub(crate) relation: Relation,
    /// Words of the right side.
    pub(crate) right: Vec<String>,
    /// Where the sides are compared.
    length: Tokens,
}

/// How the left side is compared with the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// `<`
    Less,
    /// `>`
    More,
    /// `=`
    Same,
}

impl Sentence {
    /// Takes a sentence apart; `key` is its place in the file.
    pub(crate) fn parse(text: &str, key: &str) -> Result<Self> {
        let wrong = |allowed: &str| {
            Error::value(key, format!("\"{text}\""), allowed)
                .hint("write a claim as \"yarn < ntk at 8L\" or \"alibi, direct < rope, ntk at 1024\"")
        };
        let (sides, length) = text.rsplit_once(" at ").ok_or_else(|| wrong("it has no ` at LENGTH`"))?;
        let length = length.trim().parse().map_err(|_| wrong("a length is `8L`, `1.5L`, `L` or `1024`"))?;
        let signs = [(" < ", Relation::Less), (" > ", Relation::More), (" = ", Relation::Same)];
        let split = signs.into_iter().find_map(|(sign, relation)| Some((sides.split_once(sign)?, relation)));
        let ((left, right), relation) = split.ok_or_else(|| wrong("it has no ` < `, ` > ` or ` = `"))?;
        let words = |side: &str| side.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
        let (left, right) = (words(left), words(right));
        if left.iter().chain(&right).any(String::is_empty) {
            return Err(wrong("each side names something"));
        }
        Ok(Self { left, relation, right, length })
    }

    /// The length in tokens, where L is `train_length`.
    pub(crate) fn length(&self, train_length: usize) -> usize {
        self.length.rounded_down(train_length)
    }

    /// Whether a row was read at the length.
    pub(crate) fn is_at(&self, row: &ResultRow) -> bool {
        row.settings.length == self.length(row.settings.train_length)
    }
}
