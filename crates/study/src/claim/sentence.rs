//! The sentence of a claim, taken apart.

use longwave_core::{Error, Result};
use longwave_eval::ResultRow;
use longwave_position::Tokens;

/// A claim taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sentence {
    /// Words of the left side.
    pub(super) left: Vec<String>,
    /// How they are held to stand.
    pub(super) relation: Relation,
    /// Words of the right side.
    pub(super) right: Vec<String>,
    /// Where the sides are compared.
    length: Tokens,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    More,
    Same,
}

impl Sentence {
    /// Takes a sentence apart; `key` is its place in the file.
    pub(super) fn parse(text: &str, key: &str) -> Result<Self> {
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

    /// Whether a row was read at the length.
    pub(super) fn is_at(&self, row: &ResultRow) -> bool {
        row.settings.length == self.length.rounded_down(row.settings.train_length)
    }
}
