//! Synthetic tasks: sequences made by a rule, whose answers are scored.
//!
//! `[data] task = { kind = "copy" }` stands in place of a corpus. A sequence is a prompt and its answer,
//! written in bytes (`abba=abba`); the loss is taken on the answer's tokens only, in training too. Every
//! training step draws new sequences as a pure function of (seed, step), so that nothing is learned by
//! heart and a run resumes without saved state. The sequences of a test depend on the task's own `seed`, the
//! split and the length alone: every model, encoding and seed of a run answers the same questions.
//!
//! - [`strings`], [`arithmetic`]: the tasks of Delétang et al. 2023 ("Neural networks and the Chomsky
//!   hierarchy", arXiv:2207.02098), also used with randomised positions (Ruoss et al. 2023,
//!   arXiv:2305.16843).
//! - [`recall`]: induction and recall; [`haystack`]: something that stands out from filler; [`mqar`]: several keys asked for.
//! - [`names`]: what a bit or a name stands for by now; [`symbols`]: symbols picked by what they are or where they stand.
//!
//! Sequences of some tasks have several answers; `score` says whether every one is scored or the last alone.
//! The papers do not fix how a task is written for a decoder; the forms here are our own.

mod arithmetic;
mod config;
mod haystack;
mod kind;
mod mqar;
mod names;
mod recall;
mod strings;
mod symbols;

pub use config::{Scoring, Sizes, TaskConfig};
pub use haystack::Filler;
pub use kind::TaskKind;

use crate::batch::Batch;
use crate::split::Split;
use crate::tokens::TokenFile;
use longwave_core::random::Stream;
use longwave_core::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;

/// Fills a training sequence after its answer; it is never scored.
const PADDING: u8 = b'\n';
/// Most symbols a string is drawn from: the small letters.
const LETTERS: usize = 26;

/// A sequence, and the parts of it that answer what stands before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Episode {
    tokens: Vec<u8>,
    /// In order, none empty.
    answers: Vec<Range<usize>>,
}

impl Episode {
    /// A prompt and its answer.
    fn new(prompt: impl Into<Vec<u8>>, answer: impl Into<Vec<u8>>) -> Self {
        let mut tokens = prompt.into();
        let start = tokens.len();
        tokens.extend(answer.into());
        let answer = start..tokens.len();
        Self { tokens, answers: Vec::from([answer]) }
    }
}

/// Sequences for a test, one per document.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Prompts with their answers.
    pub tokens: TokenFile,
    /// The answers of each document that are scored `[documents]`, in order; the last one ends the document.
    pub answers: Vec<Vec<Range<usize>>>,
}

impl TaskConfig {
    /// One sequence, as long as fits into `tokens`, with the answers that are scored.
    fn episode(&self, stream: &mut Stream, tokens: usize) -> Episode {
        let mut episode = (self.kind.rule().sequence)(self, stream, tokens);
        if self.scoring() == Some(Scoring::Last) {
            episode.answers.drain(..episode.answers.len() - 1);
        }
        episode
    }

    /// The training batch of `step`: `batch` sequences in rows of `length` inputs and, one token further,
    /// their targets, of which those of answers are scored. A pure function of its arguments.
    pub fn batch(&self, seed: u64, step: u64, batch: usize, length: usize) -> Result<Batch> {
        let mut stream = Stream::new(seed, "task", step);
        self.rows(batch, length, |_| self.drawn(&mut stream, length))
    }

    /// Sequences for validation by their numbers, as a batch has them: each is drawn for itself, so that it does not matter how many
    /// are read at once.
    pub fn validation(&self, numbers: Range<usize>, length: usize) -> Result<Batch> {
        self.rows(numbers.len(), length, |row| {
            let number = (numbers.start + row) as u64;
            self.drawn(&mut Stream::new(self.seed, "task validation", number), length)
        })
    }

    /// A sequence of `length` inputs at most, and the token after them.
    fn drawn(&self, stream: &mut Stream, length: usize) -> Episode {
        let tokens = match self.sizes {
            Sizes::Full => length + 1,
            Sizes::Uniform => {
                let smallest = self.smallest();
                smallest + stream.below((length + 2 - smallest) as u64) as usize
            }
        };
        self.episode(stream, tokens)
    }

    fn rows(&self, batch: usize, length: usize, mut sequence: impl FnMut(usize) -> Episode) -> Result<Batch> {
        if batch == 0 {
            return Err(Error::usage("a batch of 0 sequences is empty")
                .hint("set the number of tokens of a batch to at least `train.length`"));
        }
        self.check_length("train.length", length)?;
        let (mut inputs, mut targets, mut scored) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..batch {
            let episode = sequence(row);
            let mut row: Vec<u32> = episode.tokens.iter().map(|&byte| u32::from(byte)).collect();
            row.resize(length + 1, u32::from(PADDING));
            inputs.extend_from_slice(&row[..length]);
            targets.extend_from_slice(&row[1..]);
            let before = scored.len();
            scored.resize(before + length, false);
            for token in episode.answers.into_iter().flatten() {
                scored[before + token - 1] = true;
            }
        }
        Ok(Batch {
            inputs,
            targets,
            starts: Vec::new(),
            scored: Some(scored),
            continues: false,
            batch,
            length,
        })
    }

    /// The sequences of a split's test at `length`, each as long as fits into `length + 1` tokens; those of every
    /// split and length are drawn for themselves.
    pub fn questions(&self, split: Split, count: usize, length: usize) -> Result<Questions> {
        self.check_length("evaluate.lengths", length)?;
        let one = |index: usize| {
            let mut stream = Stream::new(self.seed, &format!("task {split} {length}"), index as u64);
            let Episode { tokens, answers } = self.episode(&mut stream, length + 1);
            ((index.to_string(), tokens.into_iter().map(u32::from).collect::<Vec<_>>()), answers)
        };
        let (documents, answers): (Vec<_>, Vec<_>) = (0..count).map(one).unzip();
        let documents: Vec<(&str, &[u32])> =
            documents.iter().map(|(name, tokens)| (name.as_str(), tokens.as_slice())).collect();
        Ok(Questions { tokens: TokenFile::from_documents(&documents), answers })
    }
}

fn letters(stream: &mut Stream, count: usize, alphabet: usize) -> Vec<u8> {
    (0..count).map(|_| b'a' + below(stream, alphabet) as u8).collect()
}

fn digit(stream: &mut Stream) -> u8 {
    b'0' + below(stream, 10) as u8
}

/// So many different numbers below `all`, each choice and each order equally likely: the beginning of a shuffle.
fn distinct(stream: &mut Stream, count: usize, all: usize) -> Vec<usize> {
    // Only what was moved is kept: keys of several letters are many.
    let mut moved: HashMap<usize, usize> = HashMap::new();
    let mut draw = |index: usize| {
        let other = index + below(stream, all - index);
        let [here, there] = [index, other].map(|place| moved.get(&place).copied().unwrap_or(place));
        moved.insert(other, here);
        there
    };
    (0..count).map(&mut draw).collect()
}

/// So many places of `all`, in order, each choice equally likely.
fn chosen(stream: &mut Stream, count: usize, all: usize) -> Vec<usize> {
    let mut places = distinct(stream, count, all);
    places.sort_unstable();
    places
}

fn below(stream: &mut Stream, bound: usize) -> usize {
    stream.below(bound as u64) as usize
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_keys;
