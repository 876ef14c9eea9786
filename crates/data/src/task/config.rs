//! `data.task`: the keys of a task, their defaults and their checks.

use super::haystack::{self, Filler};
use super::kind::TaskKind;
use super::{LETTERS, mqar, names, recall};
use longwave_core::config::read;
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use toml::{Table, Value};

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

/// Which answers of a sequence are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scoring {
    /// Each of them.
    Every,
    /// The last one alone.
    Last,
}

/// `data.task`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskConfig {
    /// What is asked.
    pub kind: TaskKind,
    /// Symbols that strings, or keys, are drawn from, 2 to 26. Default: 8 for the kinds on strings, `selective_copy` and
    /// `argmax`, but 5 for `bucket_sort`; 16 for `n_back`; 26 for `induction`, `fixed_offset`, `assoc_recall`,
    /// `dup_key_recall`, `mqar` and `variable_tracking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<usize>,
    /// `passkey`: digits of the number. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digits: Option<usize>,
    /// `fixed_offset`, `n_back`: how far back the symbol stands. Default: 8, and 2 for `n_back`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// `passkey`, `needle`, `assoc_recall`: where what is asked for stands, from 0 (at the beginning) to 1 (just before the
    /// question). Default: anywhere, each place equally likely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<f64>,
    /// `needle`: other keys with digits of their own. Each key then has a name, a capital letter: `..#K4..#B7..#K4`.
    /// Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distractors: Option<usize>,
    /// `needle`, `passkey`: what stands around it. Default: `random`, and `repeated` for `passkey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filler: Option<Filler>,
    /// `flip_flop`: the share of the instructions that are to be ignored; of the others half write and half read. Default: 0.8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore: Option<f64>,
    /// `mqar`: key-value pairs; shorter training sequences have as many as fit beside their questions. Default: 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// `mqar`: the share of a sequence that pairs fill, in the place of their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<f64>,
    /// `mqar`: pairs that are asked for, each once. Default: 4, or all where there are fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<usize>,
    /// `mqar`: letters of a key. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_len: Option<usize>,
    /// `mqar`: digits of a value. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_len: Option<usize>,
    /// `variable_tracking`: names between the one that is asked for and its digit. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<usize>,
    /// `variable_tracking`: chains of names, one of which is asked for. Default: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chains: Option<usize>,
    /// `selective_copy`: letters among the blanks. Default: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<usize>,
    /// `flip_flop`, `mqar`, `n_back`, whose sequences have several answers: which of them are scored, in training and in
    /// evaluation. An evaluation may say otherwise. Default: `every`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Scoring>,
    /// How long training sequences are.
    #[serde(default)]
    pub sizes: Sizes,
    /// Decides the sequences of tests and validations, which are those of every run with this number.
    #[serde(default)]
    pub seed: u64,
}

impl TaskConfig {
    /// The task of a kind with every key at its default.
    pub fn new(kind: TaskKind) -> Self {
        Self {
            kind,
            alphabet: None,
            digits: None,
            offset: None,
            depth: None,
            distractors: None,
            filler: None,
            ignore: None,
            pairs: None,
            fill: None,
            queries: None,
            key_len: None,
            value_len: None,
            hops: None,
            chains: None,
            items: None,
            score: None,
            sizes: Sizes::default(),
            seed: 0,
        }
    }

    /// The kind as configs write it.
    pub fn name(&self) -> String {
        // A kind without fields is written as its name.
        serde_json::to_value(self.kind)
            .ok()
            .and_then(|name| name.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// The task with other values of some keys, checked; `section` is the place of these in the file.
    ///
    /// # Errors
    /// A key that no task has, or that an evaluation does not change, and a value that is not allowed.
    pub fn with(&self, keys: &Table, section: &str) -> Result<Self> {
        for key in ["kind", "sizes"] {
            if let Some(value) = keys.get(key) {
                let allowed = "an evaluation asks the task that was trained, at lengths of its own";
                return Err(Error::value(&format!("{section}.{key}"), value, allowed).hint("remove it"));
            }
        }
        let mut table = Table::try_from(self)
            .map_err(|error| Error::failed(format!("`data.task` cannot be written as TOML: {error}")))?;
        // One of both says how many pairs there are.
        for (key, other) in [("fill", "pairs"), ("pairs", "fill")] {
            if keys.contains_key(key) && !keys.contains_key(other) {
                table.remove(other);
            }
        }
        table.extend(keys.iter().map(|(key, value)| (key.clone(), value.clone())));
        let task: Self = read(&table, section)?;
        task.check(section)?;
        Ok(task)
    }

    /// Symbols of strings or keys, with the kind's default; `None` where the kind has its own symbols.
    pub(super) fn alphabet(&self) -> Option<usize> {
        use TaskKind as K;
        let default = match self.kind {
            K::Copy
            | K::DuplicateString
            | K::ReverseString
            | K::OddsFirst
            | K::MissingDuplicate
            | K::SelectiveCopy
            | K::Argmax => 8,
            K::BucketSort => 5,
            K::NBack => 16,
            K::Induction
            | K::FixedOffset
            | K::AssocRecall
            | K::DupKeyRecall
            | K::Mqar
            | K::VariableTracking => LETTERS,
            _ => return None,
        };
        Some(self.alphabet.unwrap_or(default))
    }

    pub(super) fn digits(&self) -> usize {
        self.digits.unwrap_or(5)
    }

    pub(super) fn offset(&self) -> usize {
        self.offset.unwrap_or(if self.kind == TaskKind::NBack { 2 } else { 8 })
    }

    pub(super) fn ignore(&self) -> f64 {
        self.ignore.unwrap_or(0.8)
    }

    pub(super) fn items(&self) -> usize {
        self.items.unwrap_or(4)
    }

    pub(super) fn hay(&self) -> haystack::Hay {
        let default = if self.kind == TaskKind::Passkey { Filler::Repeated } else { Filler::Random };
        haystack::Hay {
            filler: self.filler.unwrap_or(default),
            depth: self.depth,
            distractors: self.distractors.unwrap_or(0),
        }
    }

    pub(super) fn mqar(&self) -> mqar::Form {
        let pairs = self.pairs.unwrap_or(8);
        let most = if self.fill.is_some() { usize::MAX } else { pairs };
        mqar::Form {
            pairs,
            fill: self.fill,
            queries: self.queries.unwrap_or(4.min(most)),
            alphabet: self.alphabet().unwrap_or(LETTERS),
            key_len: self.key_len.unwrap_or(1),
            value_len: self.value_len.unwrap_or(1),
        }
    }

    pub(super) fn chains(&self) -> names::Chains {
        names::Chains {
            count: self.chains.unwrap_or(2),
            hops: self.hops.unwrap_or(1),
            names: self.alphabet().unwrap_or(LETTERS),
        }
    }

    /// Which answers are scored; `None` where a sequence has one alone.
    pub fn scoring(&self) -> Option<Scoring> {
        let has_several = matches!(self.kind, TaskKind::FlipFlop | TaskKind::Mqar | TaskKind::NBack);
        has_several.then(|| self.score.unwrap_or(Scoring::Every))
    }

    /// Checks every value.
    pub fn validate(&self) -> Result<()> {
        self.check("data.task")
    }

    fn check(&self, section: &str) -> Result<()> {
        use TaskKind as K;
        let of = KeyPlace { section, name: &self.name() };
        let mqar = self.kind == K::Mqar;
        let tracks = self.kind == K::VariableTracking;
        let offsets = matches!(self.kind, K::FixedOffset | K::NBack);
        let wholes = [
            ("alphabet", self.alphabet, self.alphabet().is_some(), 2, LETTERS),
            ("digits", self.digits, self.kind == K::Passkey, 1, 100),
            ("offset", self.offset, offsets, 1, 1_000_000),
            ("distractors", self.distractors, self.kind == K::Needle, 0, LETTERS - 1),
            ("pairs", self.pairs, mqar, 1, 1_000_000),
            ("queries", self.queries, mqar, 1, 1_000_000),
            ("key_len", self.key_len, mqar, 1, 8),
            ("value_len", self.value_len, mqar, 1, 100),
            ("hops", self.hops, tracks, 1, LETTERS - 1),
            ("chains", self.chains, tracks, 1, LETTERS / 2),
            ("items", self.items, self.kind == K::SelectiveCopy, 1, 1_000_000),
        ];
        for (key, value, has_meaning, least, most) in wholes {
            let is_allowed = |value: &usize| (least..=most).contains(value);
            of.check(
                key,
                value,
                has_meaning,
                is_allowed,
                &format!("it must lie between {least} and {most}"),
            )?;
        }
        let has_depth = matches!(self.kind, K::Passkey | K::Needle | K::AssocRecall);
        let below = "it must be a share of at least 0 and below 1";
        let within = "it must lie between 0 and 1";
        of.check("depth", self.depth, has_depth, |it| (0.0..=1.0).contains(it), within)?;
        of.check("ignore", self.ignore, self.kind == K::FlipFlop, |it| (0.0..1.0).contains(it), below)?;
        let part = "it must be a share above 0 and below 1";
        of.check("fill", self.fill, mqar, |it| *it > 0.0 && *it < 1.0, part)?;
        let around = matches!(self.kind, K::Needle | K::Passkey);
        let word = |value: &Value| value.to_string();
        let filler = self.filler.and_then(|it| Value::try_from(it).ok()).as_ref().map(word);
        of.check("filler", filler, around, |_| true, "")?;
        let score = self.score.and_then(|it| Value::try_from(it).ok()).as_ref().map(word);
        of.check("score", score, self.scoring().is_some(), |_| true, "")?;
        if mqar {
            self.mqar().check(section, self.pairs.is_some())?;
        }
        if tracks {
            self.chains().check(section)?;
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
            K::DuplicateString
            | K::MissingDuplicate
            | K::ComputeSqrt
            | K::Induction
            | K::FlipFlop
            | K::Argmax => 4,
            K::StackManipulation | K::DupKeyRecall => 5,
            K::BinaryAddition | K::BinaryMultiplication => 6,
            K::AssocRecall => 8,
            K::SolveEquation => 9,
            K::Needle => self.hay().shortest_needle(),
            K::Passkey => haystack::PASSKEY_TEXT + 2 * self.digits(),
            K::FixedOffset => self.offset() + 2,
            K::NBack => 2 * self.offset() + 2,
            K::Mqar => self.mqar().shortest(),
            K::VariableTracking => self.chains().shortest(),
            K::SelectiveCopy => 2 * self.items() + 1,
        }
    }

    /// The least tokens of a training sequence where sizes vary.
    pub(super) fn smallest(&self) -> usize {
        if self.kind == TaskKind::Mqar { self.mqar().smallest() } else { self.shortest() }
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
        let form = self.mqar();
        if self.kind == TaskKind::Mqar && form.pairs_of(tokens) > form.most_pairs() {
            let (pairs, most) = (form.pairs_of(tokens), form.most_pairs());
            let allowed = format!("`mqar` has {most} keys, and `fill` asks for {pairs} pairs at that length");
            return Err(
                Error::value(key, length, allowed).hint("use a shorter length, or a longer `key_len`")
            );
        }
        Ok(())
    }
}

/// Where a key stands, and of which kind.
struct KeyPlace<'a> {
    section: &'a str,
    name: &'a str,
}

impl KeyPlace<'_> {
    /// Checks a key that may be given.
    fn check<T: Display>(
        &self,
        key: &str,
        value: Option<T>,
        has_meaning: bool,
        is_allowed: impl Fn(&T) -> bool,
        allowed: &str,
    ) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let (place, name) = (format!("{}.{key}", self.section), self.name);
        if !has_meaning {
            let allowed = format!("it has no meaning for `kind = \"{name}\"`");
            return Err(Error::value(&place, value, allowed).hint("remove it"));
        }
        if is_allowed(&value) {
            return Ok(());
        }
        Err(Error::value(&place, value, allowed).hint("leave it out for the default"))
    }
}
