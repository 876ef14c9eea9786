//! `data.task`: the keys of a task, their defaults and their checks.

use super::haystack::{self, Filler};
use super::kind::TaskKind;
use super::{LETTERS, mqar, names, recall};
use longwave_core::config::read;
use longwave_core::file::sha256_of;
use longwave_core::{Error, Result, written};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table with a `kind`")]
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
    /// question) of the text between; `distractors` at the same place follow it. Default: anywhere, each place equally likely.
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
    /// `mqar`: key-value pairs; shorter training sequences have as many as fill half of them. Default: 8.
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
        Self { kind, ..Self::default() }
    }

    /// The kind as configs write it.
    pub fn name(&self) -> String {
        // A kind without fields is written as its name.
        serde_json::to_value(self.kind)
            .ok()
            .and_then(|name| name.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Identifies the questions, whoever asks them: neither how long training sequences are changes them, nor which answers are scored.
    pub fn hash(&self) -> Result<String> {
        let asked = Self { sizes: Sizes::default(), score: None, ..self.clone() };
        Ok(sha256_of(written::toml("`data.task`", &asked)?.as_bytes()))
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
        let mut table = written::toml_table("`data.task`", self)?;
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

    /// Symbols of strings or keys; those of kinds that have their own play no part.
    pub(super) fn symbols(&self) -> usize {
        self.alphabet.or(self.kind.rule().alphabet).unwrap_or(LETTERS)
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
            alphabet: self.symbols(),
            key_len: self.key_len.unwrap_or(1),
            value_len: self.value_len.unwrap_or(1),
        }
    }

    pub(super) fn chains(&self) -> names::Chains {
        names::Chains { count: self.chains.unwrap_or(2), hops: self.hops.unwrap_or(1), names: self.symbols() }
    }

    /// Which answers are scored; `None` where a sequence has one alone.
    pub fn scoring(&self) -> Option<Scoring> {
        let has_several = self.kind.rule().keys.contains(&"score");
        has_several.then(|| self.score.unwrap_or(Scoring::Every))
    }

    pub fn validate(&self) -> Result<()> {
        self.check("data.task")
    }

    fn check(&self, section: &str) -> Result<()> {
        let whole = |key, value: Option<usize>, least, most| {
            let is_allowed = value.is_none_or(|value| (least..=most).contains(&value));
            let allowed = format!("it must lie between {least} and {most}");
            (key, value.map(|value| value.to_string()), is_allowed, allowed)
        };
        let share = |key, value: Option<f64>, is_allowed: fn(f64) -> bool, allowed: &str| {
            (key, value.map(|value| value.to_string()), value.is_none_or(is_allowed), allowed.to_owned())
        };
        let word = |key, value: Option<Value>| (key, value.map(|word| word.to_string()), true, String::new());
        let rule = self.kind.rule();
        for (key, value, is_allowed, allowed) in [
            whole("alphabet", self.alphabet, 2, LETTERS),
            whole("digits", self.digits, 1, 100),
            whole("offset", self.offset, 1, 1_000_000),
            whole("distractors", self.distractors, 0, LETTERS - 1),
            whole("pairs", self.pairs, 1, 1_000_000),
            whole("queries", self.queries, 1, 1_000_000),
            whole("key_len", self.key_len, 1, 8),
            whole("value_len", self.value_len, 1, 100),
            whole("hops", self.hops, 1, LETTERS - 1),
            whole("chains", self.chains, 1, LETTERS / 2),
            whole("items", self.items, 1, 1_000_000),
            share("depth", self.depth, |it| (0.0..=1.0).contains(&it), "it must lie between 0 and 1"),
            share(
                "ignore",
                self.ignore,
                |it| (0.0..1.0).contains(&it),
                "it must be a share of at least 0 and below 1",
            ),
            share("fill", self.fill, |it| it > 0.0 && it < 1.0, "it must be a share above 0 and below 1"),
            word("filler", self.filler.and_then(|it| Value::try_from(it).ok())),
            word("score", self.score.and_then(|it| Value::try_from(it).ok())),
        ] {
            let Some(value) = value else { continue };
            let has_meaning = rule.keys.contains(&key) || (key == "alphabet" && rule.alphabet.is_some());
            let (allowed, hint) = match (has_meaning, is_allowed) {
                (true, true) => continue,
                (true, false) => (allowed, "leave it out for the default"),
                (false, _) => (format!("it has no meaning for `kind = \"{}\"`", self.name()), "remove it"),
            };
            return Err(Error::value(&format!("{section}.{key}"), value, allowed).hint(hint));
        }
        match self.kind {
            TaskKind::Mqar => self.mqar().check(section, self.pairs.is_some()),
            TaskKind::VariableTracking => self.chains().check(section),
            _ => Ok(()),
        }
    }

    /// The least tokens a sequence has.
    pub fn shortest(&self) -> usize {
        (self.kind.rule().shortest)(self)
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
        let most = recall::most_pairs(self.symbols());
        if self.kind == TaskKind::AssocRecall && recall::pairs(tokens) > most {
            // A sequence has one token more than the model reads of it.
            let longest = recall::tokens(most) - 1;
            let allowed = format!("`assoc_recall` has {most} keys, enough for a length of {longest}");
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
