//! Multi-query associative recall: pairs of keys and values, then keys again, each with its value.
//!
//! Arora et al. 2023 ("Zoology", arXiv:2312.04927, section 3): the pairs stand at the beginning, and the gaps to their questions
//! follow a power law, so that most questions come soon. The place of a question is drawn with a chance of `1 / n` for the n-th
//! place, their law `n^(a - 1)` with `a = 0.01` but for the exponent. Here the last question ends the text, so that a longer text always
//! asks further back, and blanks stand between questions, where the paper has random symbols. Answers are part of the text: were every
//! key asked for, the last answers would follow from the others without recall, and small models learn that first. So four
//! keys are asked for, of eight, unless `queries` or `pairs` says otherwise. With `fill` the pairs take a share of the text, and with longer keys and values it is the recall of several
//! tokens of Vasylenko et al. 2025 (arXiv:2506.16640): `fill = 0.8`, `key_len = 2`, `value_len = 2`, 4 questions.

use super::{Episode, TaskConfig, digit, distinct};
use longwave_core::random::Stream;
use longwave_core::{Error, Result};

/// Between questions.
const BLANK: u8 = b'.';

#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) pairs: usize,
    pub(super) fill: Option<f64>,
    pub(super) queries: usize,
    pub(super) alphabet: usize,
    pub(super) key_len: usize,
    pub(super) value_len: usize,
}

impl Form {
    /// Checks what a sequence of any length needs; `is_given` tells whether the number of pairs is.
    pub(super) fn check(&self, section: &str, is_given: bool) -> Result<()> {
        let key = |name: &str| format!("{section}.{name}");
        if let (Some(fill), true) = (self.fill, is_given) {
            return Err(Error::value(&key("fill"), fill, "`pairs` says already how many pairs there are")
                .hint("give one of both"));
        }
        if self.fill.is_none() && self.queries > self.pairs {
            let allowed = format!("there are {} pairs, and each is asked for once", self.pairs);
            return Err(Error::value(&key("queries"), self.queries, allowed)
                .hint("set more `pairs`, or leave it out"));
        }
        if self.fill.is_none() && self.pairs > self.most_pairs() {
            let allowed = format!(
                "{} letters make {} different keys with `key_len = {}`",
                self.alphabet,
                self.most_pairs(),
                self.key_len
            );
            return Err(Error::value(&key("pairs"), self.pairs, allowed).hint("use a longer `key_len`"));
        }
        Ok(())
    }

    /// Tokens of a pair, and of a question with its answer.
    fn pair(&self) -> usize {
        self.key_len + self.value_len
    }

    /// Different keys.
    pub(super) fn most_pairs(&self) -> usize {
        self.alphabet.saturating_pow(u32::try_from(self.key_len).unwrap_or(u32::MAX))
    }

    pub(super) fn shortest(&self) -> usize {
        let pairs = if self.fill.is_some() { self.queries } else { self.pairs };
        (pairs + self.queries) * self.pair()
    }

    /// The least tokens of a training sequence: a pair and its question, unless the pairs are a share.
    pub(super) fn smallest(&self) -> usize {
        if self.fill.is_some() { self.shortest() } else { 2 * self.pair() }
    }

    /// Pairs of a sequence that fits into so many tokens. A short one has fewer than are asked for, and fewer questions in
    /// proportion: small models learn to recall one of two long before one of eight.
    pub(super) fn pairs_of(&self, tokens: usize) -> usize {
        let room = tokens / self.pair();
        match self.fill {
            None if tokens >= self.shortest() => self.pairs,
            None => self.pairs.min(room.div_ceil(2)).min(room - 1),
            Some(fill) => {
                let wanted = (fill * tokens as f64) as usize / self.pair();
                wanted.min(room - self.queries).max(self.queries)
            }
        }
    }

    /// Questions of a sequence of so many pairs, with places for so many.
    fn questions_of(&self, pairs: usize, places: usize) -> usize {
        if self.fill.is_some() || pairs == self.pairs {
            return self.queries.min(places);
        }
        (self.queries * pairs / self.pairs).clamp(1, places)
    }
}

pub(super) fn mqar(task: &TaskConfig, stream: &mut Stream, tokens: usize) -> Episode {
    let form = task.mqar();
    let count = form.pairs_of(tokens);
    let keys = distinct(stream, count, form.most_pairs());
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = keys
        .into_iter()
        .map(|key| (name(key, form), (0..form.value_len).map(|_| digit(stream)).collect()))
        .collect();
    let mut text = Vec::with_capacity(tokens);
    for (key, value) in &pairs {
        text.extend(key.iter().chain(value));
    }
    let slots = tokens / form.pair() - count;
    let wanted = form.questions_of(count, slots);
    let mut asked = distinct(stream, wanted, count).into_iter();
    let mut answers = Vec::with_capacity(wanted);
    for is_question in questions(stream, wanted, slots) {
        match is_question.then(|| asked.next()).flatten() {
            None => text.extend(std::iter::repeat_n(BLANK, form.pair())),
            Some(index) => {
                let (key, value) = &pairs[index];
                text.extend(key);
                answers.push(text.len()..text.len() + value.len());
                text.extend(value);
            }
        }
    }
    Episode { tokens: text, answers }
}

/// The letters of a key, counted in the base of the alphabet.
fn name(key: usize, form: Form) -> Vec<u8> {
    let mut rest = key;
    let letter = |_| {
        let letter = b'a' + (rest % form.alphabet) as u8;
        rest /= form.alphabet;
        letter
    };
    (0..form.key_len).map(letter).collect()
}

/// Which of the places after the pairs hold a question: the last, and others with a chance of `1 / n` each.
fn questions(stream: &mut Stream, count: usize, slots: usize) -> Vec<bool> {
    let mut holds = vec![false; slots];
    holds[slots - 1] = true;
    let mut weights: Vec<f64> = (1..slots).map(|place| 1.0 / place as f64).collect();
    for _ in 1..count {
        let mut at = stream.uniform() * weights.iter().sum::<f64>();
        let free = || (0..weights.len()).filter(|&slot| weights[slot] > 0.0);
        // Rounding may leave a rest past the last.
        let found = free().find(|&slot| {
            at -= weights[slot];
            at < 0.0
        });
        let Some(slot) = found.or_else(|| free().next_back()) else { break };
        (weights[slot], holds[slot]) = (0.0, true);
    }
    holds
}
