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
//! - [`recall`]: retrieval, induction and recall.
//!
//! The papers do not fix how a task is written for a decoder; the forms here are our own.

mod arithmetic;
mod recall;
mod strings;

use crate::batch::Batch;
use crate::split::Split;
use crate::tokens::TokenFile;
use longwave_core::random::Stream;
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fills a training sequence after its answer; it is never scored.
const PADDING: u8 = b'\n';
/// Most symbols a string is drawn from: the small letters.
const LETTERS: usize = 26;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// `abca=abca`.
    Copy,
    /// `abca=abcaabca`.
    DuplicateString,
    /// `abca=acba`.
    ReverseString,
    /// `abcde=acebd`: the first, third, .. symbols, then the others.
    OddsFirst,
    /// `caba=aabc`.
    BucketSort,
    /// `abcab?=c`: the symbol missing from a string written twice.
    MissingDuplicate,
    /// `abba=1`: whether as many neighbours read `ab` as `ba`, which is whether both ends are alike.
    EvenPairs,
    /// `abba=1`: whether `b` occurs an even number of times.
    ParityCheck,
    /// `+-+0=1`: where steps on a circle of five places end.
    CycleNavigation,
    /// `ab|-B.=Ba.`: a stack, bottom first, and what is done to it (`-` pops, a capital is pushed);
    /// the answer is the stack, top first.
    StackManipulation,
    /// `1+2*3=2`: modulo 5, products first.
    ModularArithmetic,
    /// `((-1)+(2*3))=0`: modulo 5, with brackets.
    ModularArithmeticBrackets,
    /// `(1+(x-3))=2:4`: the `x` that makes it true modulo 5; without products, so that there is one.
    SolveEquation,
    /// `101+110=1101`: least digit first.
    BinaryAddition,
    /// `101*110=111100`: least digit first.
    BinaryMultiplication,
    /// `10001=100`: the whole root of a number, largest digit first.
    ComputeSqrt,
    /// A number stands in filler text and is asked for at the end (Mohtashami and Jaggi 2023,
    /// arXiv:2305.16300; the form of Chen et al. 2023, arXiv:2306.15595, shortened).
    Passkey,
    /// `qzk#4f..#4`: the digit after the only other `#` in random letters.
    Needle,
    /// `dqzabqz`: a letter that occurred once before is followed by what followed it.
    Induction,
    /// `abcdefgh=e`: the symbol `offset` places before the `=`.
    FixedOffset,
    /// `ab1 cd2 ef3 ?cd2`: the value of a key.
    AssocRecall,
    /// `a1b2a3?a3`: the last value of a key that may have had several.
    DupKeyRecall,
}

/// How long training sequences are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// As long as fits into a length drawn for each sequence, every one from the shortest to
    /// `train.length` equally likely.
    #[default]
    Uniform,
    /// As long as fits into `train.length`.
    Full,
}

/// `data.task`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskConfig {
    /// What is asked.
    pub kind: TaskKind,
    /// Symbols that strings, or keys, are drawn from, 2 to 26. Default: 8 for the kinds on strings, but 5 for
    /// `bucket_sort`; 26 for `induction`, `fixed_offset`, `assoc_recall` and `dup_key_recall`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<usize>,
    /// `passkey`: digits of the number. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digits: Option<usize>,
    /// `fixed_offset`: how far back the symbol stands. Default: 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// How long training sequences are.
    #[serde(default)]
    pub sizes: Sizes,
    /// Decides the sequences of tests and validations, which are those of every run with this number.
    #[serde(default)]
    pub seed: u64,
}

/// A prompt and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Episode {
    prompt: Vec<u8>,
    answer: Vec<u8>,
}

impl Episode {
    fn new(prompt: impl Into<Vec<u8>>, answer: impl Into<Vec<u8>>) -> Self {
        Self { prompt: prompt.into(), answer: answer.into() }
    }

    fn len(&self) -> usize {
        self.prompt.len() + self.answer.len()
    }
}

/// Sequences for a test, one per document.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Prompts with their answers.
    pub tokens: TokenFile,
    /// Where the answer begins in each document `[documents]`; it ends with the document.
    pub answers: Vec<usize>,
}

impl TaskConfig {
    /// The task of a kind with every key at its default.
    pub fn new(kind: TaskKind) -> Self {
        Self { kind, alphabet: None, digits: None, offset: None, sizes: Sizes::default(), seed: 0 }
    }

    /// The kind as configs write it.
    pub fn name(&self) -> String {
        // A kind without fields is written as its name.
        serde_json::to_value(self.kind)
            .ok()
            .and_then(|name| name.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Symbols of strings or keys, with the kind's default; `None` where the kind has its own symbols.
    fn alphabet(&self) -> Option<usize> {
        use TaskKind as K;
        let default = match self.kind {
            K::Copy | K::DuplicateString | K::ReverseString | K::OddsFirst | K::MissingDuplicate => 8,
            K::BucketSort => 5,
            K::Induction | K::FixedOffset | K::AssocRecall | K::DupKeyRecall => LETTERS,
            _ => return None,
        };
        Some(self.alphabet.unwrap_or(default))
    }

    fn digits(&self) -> usize {
        self.digits.unwrap_or(5)
    }

    fn offset(&self) -> usize {
        self.offset.unwrap_or(8)
    }

    /// Checks every value.
    pub fn validate(&self) -> Result<()> {
        let name = self.name();
        let keys = [
            ("alphabet", self.alphabet, self.alphabet().is_some(), 2..=LETTERS),
            ("digits", self.digits, self.kind == TaskKind::Passkey, 1..=100),
            ("offset", self.offset, self.kind == TaskKind::FixedOffset, 1..=1_000_000),
        ];
        for (key, value, has_meaning, allowed) in keys {
            let Some(value) = value else { continue };
            let key = format!("data.task.{key}");
            if !has_meaning {
                return Err(Error::value(&key, value, format!("it has no meaning for `kind = \"{name}\"`"))
                    .hint("remove it"));
            }
            if !allowed.contains(&value) {
                let text = format!("it must lie between {} and {}", allowed.start(), allowed.end());
                return Err(Error::value(&key, value, text).hint("leave it out for the default"));
            }
        }
        Ok(())
    }

    /// The least tokens a sequence has.
    pub fn shortest(&self) -> usize {
        use TaskKind as K;
        match self.kind {
            K::EvenPairs
            | K::ParityCheck
            | K::CycleNavigation
            | K::ModularArithmetic
            | K::ModularArithmeticBrackets
            | K::Copy
            | K::ReverseString
            | K::OddsFirst
            | K::BucketSort => 3,
            K::DuplicateString | K::MissingDuplicate | K::ComputeSqrt | K::Needle | K::Induction => 4,
            K::StackManipulation | K::DupKeyRecall => 5,
            K::BinaryAddition | K::BinaryMultiplication => 6,
            K::AssocRecall => 8,
            K::SolveEquation => 9,
            K::Passkey => recall::PASSKEY_TEXT + 2 * self.digits(),
            K::FixedOffset => self.offset() + 2,
        }
    }

    /// Rejects lengths that hold no sequence of the task, or more of it than it has symbols for.
    pub fn check_length(&self, key: &str, length: usize) -> Result<()> {
        let tokens = length + 1;
        if tokens < self.shortest() {
            let allowed = format!("a sequence of `{}` has at least {} tokens", self.name(), self.shortest());
            return Err(
                Error::value(key, length, allowed).hint(format!("use {} or more", self.shortest() - 1))
            );
        }
        let most = recall::most_pairs(self.alphabet().unwrap_or(LETTERS));
        if self.kind == TaskKind::AssocRecall && recall::pairs(tokens) > most {
            let allowed =
                format!("`assoc_recall` has {most} keys, enough for {} tokens", recall::tokens(most));
            return Err(Error::value(key, length, allowed).hint("use a shorter length, or `dup_key_recall`"));
        }
        Ok(())
    }

    /// One sequence, as long as fits into `tokens`.
    fn episode(&self, stream: &mut Stream, tokens: usize) -> Episode {
        use TaskKind as K;
        let alphabet = self.alphabet().unwrap_or(2);
        match self.kind {
            K::Copy => strings::copy(stream, tokens, alphabet),
            K::DuplicateString => strings::duplicate(stream, tokens, alphabet),
            K::ReverseString => strings::reverse(stream, tokens, alphabet),
            K::OddsFirst => strings::odds_first(stream, tokens, alphabet),
            K::BucketSort => strings::bucket_sort(stream, tokens, alphabet),
            K::MissingDuplicate => strings::missing_duplicate(stream, tokens, alphabet),
            K::EvenPairs => strings::even_pairs(stream, tokens),
            K::ParityCheck => strings::parity(stream, tokens),
            K::CycleNavigation => strings::cycle(stream, tokens),
            K::StackManipulation => strings::stack(stream, tokens),
            K::ModularArithmetic => arithmetic::modular(stream, tokens),
            K::ModularArithmeticBrackets => arithmetic::brackets(stream, tokens),
            K::SolveEquation => arithmetic::equation(stream, tokens),
            K::BinaryAddition => arithmetic::addition(stream, tokens),
            K::BinaryMultiplication => arithmetic::multiplication(stream, tokens),
            K::ComputeSqrt => arithmetic::root(stream, tokens),
            K::Passkey => recall::passkey(stream, tokens, self.digits()),
            K::Needle => recall::needle(stream, tokens),
            K::Induction => recall::induction(stream, tokens, alphabet),
            K::FixedOffset => recall::fixed_offset(stream, tokens, alphabet, self.offset()),
            K::AssocRecall => recall::assoc(stream, tokens, alphabet),
            K::DupKeyRecall => recall::dup_key(stream, tokens, alphabet),
        }
    }

    /// The training batch of `step`: `batch` sequences in rows of `length` inputs and, one token further,
    /// their targets, of which those of answers are scored. A pure function of its arguments.
    pub fn batch(&self, seed: u64, step: u64, batch: usize, length: usize) -> Result<Batch> {
        self.rows(Stream::new(seed, "task", step), batch, length)
    }

    pub fn validation(&self, index: u64, batch: usize, length: usize) -> Result<Batch> {
        self.rows(Stream::new(self.seed, "task validation", index), batch, length)
    }

    fn rows(&self, mut stream: Stream, batch: usize, length: usize) -> Result<Batch> {
        if batch == 0 {
            return Err(Error::usage("a batch of 0 sequences is empty")
                .hint("set the number of tokens of a batch to at least `train.length`"));
        }
        self.check_length("train.length", length)?;
        let (mut inputs, mut targets, mut scored) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..batch {
            let tokens = match self.sizes {
                Sizes::Full => length + 1,
                Sizes::Uniform => {
                    let shortest = self.shortest();
                    shortest + stream.below((length + 2 - shortest) as u64) as usize
                }
            };
            let episode = self.episode(&mut stream, tokens);
            let answer = episode.prompt.len()..episode.len();
            let mut row: Vec<u32> =
                episode.prompt.iter().chain(&episode.answer).map(|&byte| u32::from(byte)).collect();
            row.resize(length + 1, u32::from(PADDING));
            inputs.extend_from_slice(&row[..length]);
            targets.extend_from_slice(&row[1..]);
            scored.extend((1..=length).map(|token| answer.contains(&token)));
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
        let mut documents = Vec::with_capacity(count);
        let mut answers = Vec::with_capacity(count);
        for index in 0..count {
            let mut stream = Stream::new(self.seed, &format!("task {split} {length}"), index as u64);
            let episode = self.episode(&mut stream, length + 1);
            answers.push(episode.prompt.len());
            let tokens: Vec<u32> =
                [episode.prompt, episode.answer].concat().into_iter().map(u32::from).collect();
            documents.push((index.to_string(), tokens));
        }
        let documents: Vec<(&str, &[u32])> =
            documents.iter().map(|(name, tokens)| (name.as_str(), tokens.as_slice())).collect();
        Ok(Questions { tokens: TokenFile::from_documents(&documents), answers })
    }
}

fn letters(stream: &mut Stream, count: usize, alphabet: usize) -> Vec<u8> {
    (0..count).map(|_| b'a' + below(stream, alphabet) as u8).collect()
}

fn below(stream: &mut Stream, bound: usize) -> usize {
    stream.below(bound as u64) as usize
}

#[cfg(test)]
mod tests;
