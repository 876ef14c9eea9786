//! The sentence of a claim, taken apart.

use longwave_core::{Error, Result};
use longwave_eval::ResultRow;
use longwave_position::Tokens;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sentence {
    pub(crate) left: Words,
    pub(crate) relation: Relation,
    pub(crate) right: Words,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Words {
    /// An extension, labels and a step, in any order.
    pub(crate) words: Vec<String>,
    /// Where it is read: the left side where the right one is, unless it names a length of its own.
    length: Tokens,
}

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
        let length: Tokens =
            length.trim().parse().map_err(|_| wrong("a length is `8L`, `1.5L`, `L` or `1024`"))?;
        let signs = [(" < ", Relation::Less), (" > ", Relation::More), (" = ", Relation::Same)];
        let split = signs.into_iter().find_map(|(sign, relation)| Some((sides.split_once(sign)?, relation)));
        let ((left, right), relation) = split.ok_or_else(|| wrong("it has no ` < `, ` > ` or ` = `"))?;
        // `at` may also be a word of a label.
        let own = left.rsplit_once(" at ").and_then(|(left, own)| Some((left, own.trim().parse().ok()?)));
        let (left, left_length) = own.unwrap_or((left, length));
        let (left, right) = (Words::new(left, left_length), Words::new(right, length));
        if left.words.iter().chain(&right.words).any(String::is_empty) {
            return Err(wrong("each side names something"));
        }
        Ok(Self { left, relation, right })
    }
}

impl Words {
    fn new(side: &str, length: Tokens) -> Self {
        Self { words: side.split(',').map(|word| word.trim().to_owned()).collect(), length }
    }

    /// The length in tokens, where L is `train_length`.
    pub(crate) fn length(&self, train_length: usize) -> usize {
        self.length.rounded_down(train_length)
    }

    pub(crate) fn is_at(&self, row: &ResultRow) -> bool {
        row.settings.length == self.length(row.settings.train_length)
    }

    pub(crate) fn text(&self) -> String {
        self.words.join(", ")
    }
}
