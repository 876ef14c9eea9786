//! The sentence of a claim, taken apart.

use longwave_core::{Error, Result};
use longwave_eval::ResultRow;

/// A claim taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sentence {
    /// Words of the left side.
    pub(super) left: Vec<String>,
    /// How they are held to stand.
    pub(super) relation: Relation,
    /// Words of the right side.
    pub(super) right: Vec<String>,
    /// Where.
    pub(super) length: Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    More,
    Same,
}

/// Where the sides are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Length {
    /// So many tokens.
    Tokens(usize),
    /// So many times the training length.
    Times(f64),
}

impl Sentence {
    /// Takes a sentence apart; `key` is its place in the file.
    pub(super) fn parse(text: &str, key: &str) -> Result<Self> {
        let wrong = |allowed: &str| {
            Error::value(key, format!("\"{text}\""), allowed)
                .hint("write a claim as \"yarn < ntk at 8L\" or \"alibi, direct < rope, ntk at 1024\"")
        };
        let (sides, length) = text.rsplit_once(" at ").ok_or_else(|| wrong("it has no ` at LENGTH`"))?;
        let length = Length::parse(length.trim()).ok_or_else(|| wrong("a length is `8L`, `L` or `1024`"))?;
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
}

impl Length {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('L') {
            Some("") => Some(Self::Times(1.0)),
            Some(times) => times.parse().ok().filter(|times: &f64| *times > 0.0).map(Self::Times),
            None => text.parse().ok().map(Self::Tokens),
        }
    }

    /// Whether a row was read there.
    pub(super) fn is(self, row: &ResultRow) -> bool {
        match self {
            Self::Tokens(tokens) => row.settings.length == tokens,
            Self::Times(times) => {
                let wanted = times * row.settings.train_length as f64;
                (row.settings.length as f64 - wanted).abs() < 1e-6
            }
        }
    }
}
