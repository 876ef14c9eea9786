//! One line of `results.jsonl`, and the file itself.
//!
//! # The format
//! A line is one JSON object, and [`FORMAT`] is its version, in the field `format`. A new optional
//! field, or a new name among protocols, encodings and extensions, leaves the version as it is:
//! readers ignore fields they do not know. A field that goes, changes its name, its unit or its
//! meaning raises it, and a reader refuses a line of a newer version than its own rather than
//! misread it. Older versions stay readable.
//!
//! A line ends with the field `checksum`, see [`longwave_core::sealed_line`]; lines of other programs have none.
//!
//! # The file
//! A row's identity is everything but its measured values and the machine it was measured on. A file holds one row of each
//! identity: measuring again replaces the row in its place, and all other lines stay byte for byte as they are.
//!
//! A value that was chosen from a list and an equal one that was given are two rows: the mean of the given one is over all seeds, also over
//! those that chose it. On the validation split every candidate is one row, chosen or not.

pub mod columns;
#[doc(hidden)]
pub mod example;
mod store;

pub use store::{line, read_rows, read_rows_left, record_count, replace_rows, write_rows};

use crate::bigram::BigramRow;
use crate::metrics::{DifferenceFacts, DocumentSums, Facts, Metric, PositionRow, Values};
use crate::number;
use crate::protocols::{Keys, Protocol};
use crate::scored_tokens::ScoredTokens;
use crate::statistics::{Mean, paired_difference};
use crate::task_keys::TaskKeys;
use longwave_core::{Error, Result, canonical};
use longwave_data::{MANY_UNKNOWN, Scoring, Split};
use longwave_train::run::CheckpointId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the row format that this program writes.
pub const FORMAT: u32 = 1;

/// The field of what a row was chosen among.
const CHOSEN_AMONG: &str = "chosen_among";

/// The fields that a measurement fills in besides those of metrics; all others tell which row it is.
const MEASURED: [&str; 18] = [
    "format",
    "corpus",
    "text_hash",
    "key_tokens_file",
    "tokens",
    "documents",
    "skipped_documents",
    "bytes",
    "unknown_tokens",
    "unread_bytes",
    "bigrams",
    "positions",
    "per_document",
    "difference",
    "device",
    "repeatable",
    "threads",
    "version",
];

/// One measurement: one trained model, read with one extension at one length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Version of the row format, [`FORMAT`].
    pub format: u32,
    /// Name of the run, as its config has it.
    pub run: String,
    /// Hash of what the model was trained with.
    pub config_hash: String,
    pub seed: u64,
    /// Kind of the encoding that the model was trained with.
    pub encoding: String,
    /// Kind of the extension it was read with, or `window_baseline`.
    pub extend: String,
    /// The extension's config with its defaults filled in. It does not depend on the length: a scale
    /// that follows from the length is no part of it, so one extension has one config at all lengths.
    #[serde(default)]
    pub extend_config: Value,
    /// What the extension's values were chosen among on the validation split: the keys that were given as lists,
    /// with their lists, or the search that found them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_among: Option<Value>,
    /// Which checkpoint was read: `last`, `previous`, `best`, the end of a stage such as `stage-0`, or a step that was kept,
    /// such as `step-100`.
    pub checkpoint: String,
    /// Training step of that checkpoint, counted through all stages.
    pub step: u64,
    /// Stage of that checkpoint: 0 is `[train]`, n the n-th `[[stage]]`.
    #[serde(default)]
    pub stage: usize,
    /// Protocol, split and lengths.
    #[serde(flatten)]
    pub settings: Settings,
    /// The corpus that was read, as written, or the task; absent from rows of other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// SHA-256 of the text of the split, wherever it lay and however it was tokenized; of a task, of what it asks; absent from
    /// rows of other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_hash: Option<String>,
    /// The file of key tokens as written, where these alone were scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_tokens_file: Option<String>,
    /// Scored tokens.
    pub tokens: u64,
    pub documents: usize,
    /// Documents too short for a window.
    pub skipped_documents: usize,
    /// Bytes of text of the scored tokens.
    pub bytes: u64,
    /// Scored tokens that stand for text which the tokenizer does not know; absent where there is none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unknown_tokens: u64,
    /// Those of the bytes that the tokenizer does not know or leaves out; absent where there is none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unread_bytes: u64,
    /// The values of the metrics, see [`Metric`]; `nll` and `ppl` are always there, and `null` in the file where they
    /// are no finite numbers.
    #[serde(flatten, with = "crate::metrics::fields")]
    pub values: Values,
    /// The loss by where the bigram that ends in the token was last seen; absent where what is read is
    /// no text as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bigrams: Option<Vec<BigramRow>>,
    /// The loss by position, under the protocol `by_position`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<Vec<PositionRow>>,
    /// What paired differences need; absent from rows of other programs, and of more than
    /// [`DocumentSums::MOST`] documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_document: Option<DocumentSums>,
    /// The loss minus that of another reading of the model, see [`reference`](crate::reference); absent of that reading
    /// itself, and where nothing can be paired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<ReferenceDifference>,
    pub device: String,
    /// `false` where that device gave other bits when it computed the same twice, so that measuring again gives this row but
    /// for rounding; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeatable: Option<bool>,
    /// Threads it was measured with.
    pub threads: usize,
    pub version: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Which windows are read and which of their tokens are scored.
    pub protocol: Protocol,
    pub split: Split,
    /// Identifies the text where it is not the corpus of the run's config; absent where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus_hash: Option<String>,
    /// The hash of the file of key tokens, where these alone were scored; absent where all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_tokens: Option<String>,
    /// The token that every text began with; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bos: Option<String>,
    /// Values that the evaluation gave keys of the run's task; absent for none.
    #[serde(default, skip_serializing_if = "TaskKeys::is_empty")]
    pub task: TaskKeys,
    /// Of a task whose sequences have several answers, which of them were scored; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Scoring>,
    /// Tokens of a training sequence of the first stage: L.
    pub train_length: usize,
    /// Tokens of context.
    pub length: usize,
    /// The keys of the protocol.
    #[serde(flatten, with = "crate::protocols::fields")]
    pub keys: Keys,
    /// `window_baseline`: whether every target had a reading of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<bool>,
}

/// The loss of a row minus that of another reading of its model, paired by document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReferenceDifference {
    /// The other reading: `window_baseline`, or the config of its extension.
    pub against: Value,
    /// The difference, in nats per token; below 0 this row is better.
    #[serde(with = "number")]
    pub nll: f64,
    /// Its standard error over documents; absent for fewer than two documents.
    #[serde(default)]
    pub nll_se: Option<f64>,
}

impl ResultRow {
    /// Whether it is of a checkpoint along the training, which `train.keep_checkpoints` names.
    pub fn is_of_kept_step(&self) -> bool {
        matches!(self.checkpoint.parse(), Ok(CheckpointId::Step(_)))
    }

    /// What its values were chosen among; `None` on the validation split, where every candidate has rows of its own.
    pub fn choice(&self) -> Option<&Value> {
        self.chosen_among.as_ref().filter(|_| self.settings.split != Split::Valid)
    }

    /// What tells this row from others: the row without its measured values.
    pub fn identity(&self) -> Result<String> {
        self.described(self.settings.split != Split::Valid)
    }

    /// What tells the measurement from others: rows that differ only in what they were chosen among hold the same numbers.
    pub(crate) fn measurement(&self) -> Result<String> {
        self.described(false)
    }

    fn described(&self, with_choice: bool) -> Result<String> {
        let value = serde_json::to_value(self).map_err(|error| store::unwritable(&error))?;
        let Value::Object(mut fields) = value else {
            return Err(Error::failed("a result row is no JSON object"));
        };
        fields.retain(|key, _| {
            let is_measured = MEASURED.contains(&key.as_str()) || Metric::is_column(key);
            if key == CHOSEN_AMONG { with_choice } else { !is_measured }
        });
        Ok(canonical::text(Value::Object(fields)))
    }

    /// Checks what every reader of a row relies on.
    fn check(&self) -> std::result::Result<(), String> {
        const LONGEST: usize = 1 << 53;
        let Settings { train_length, length, .. } = self.settings;
        for (name, tokens) in [("train_length", train_length), ("length", length)] {
            if !(1..=LONGEST).contains(&tokens) {
                return Err(format!("`{name} = {tokens}` is no length of a text"));
            }
        }
        if let Some(bucket) = self.settings.protocol.bucket(&self.settings.keys)
            && !(1..=LONGEST).contains(&bucket)
        {
            return Err(format!("`bucket = {bucket}` is no number of places"));
        }
        let places = self.positions.iter().flatten();
        if let Some(place) = places.clone().find(|place| place.position >= length) {
            return Err(format!("`position = {}` is no place in a text of {length} tokens", place.position));
        }
        let sum = |sum: u64, tokens: u64| sum.checked_add(tokens).filter(|sum| *sum <= LONGEST as u64);
        if places.map(|place| place.tokens).try_fold(0, sum).is_none() {
            return Err("`tokens` of `positions` are more than any text has".to_owned());
        }
        match &self.per_document {
            Some(sums) => sums.check(),
            None => Ok(()),
        }
    }

    /// The share of the scored text that the tokenizer does not know or leaves out, in bytes, where it is too large for losses to
    /// measure the model. Of rows without it, and of repeated text, it is the share of unknown tokens.
    pub fn many_unknown(&self) -> Option<f64> {
        let share = match self.unread_bytes {
            0 if self.bytes > 0 && self.unknown_tokens == 0 => 0.0,
            0 => self.unknown_tokens as f64 / self.tokens.max(1) as f64,
            unread => unread as f64 / self.bytes.max(1) as f64,
        };
        (share >= MANY_UNKNOWN).then_some(share)
    }

    /// The value of a metric; `None` where the row does not hold it.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        metric.value(&self.facts(None))
    }

    pub fn error(&self, metric: Metric) -> Option<f64> {
        metric.error(&self.facts(None))
    }

    /// The 95% interval of a metric that has a better one than its standard error gives.
    pub fn interval(&self, metric: Metric) -> Option<(f64, f64)> {
        metric.interval(&self.facts(None))
    }

    /// What a constant guess reaches, in a metric of tasks.
    pub fn chance(&self, metric: Metric) -> Option<f64> {
        metric.chance(&self.facts(None))
    }

    /// One of what its errors are over: a document, a sequence of a task, or a block of the one document.
    pub fn unit(&self) -> &'static str {
        match &self.per_document {
            Some(sums) if sums.blocks => "block",
            _ => self.settings.protocol.material().unit(),
        }
    }

    /// Mean negative log likelihood, in nats per token; NaN where the model gave none.
    pub fn nll(&self) -> f64 {
        self.values.get("nll").unwrap_or(f64::NAN)
    }

    /// The perplexity; infinite where it is too large for a number, NaN where the loss is none.
    pub fn ppl(&self) -> f64 {
        self.value(Metric::Perplexity).unwrap_or(f64::NAN)
    }

    /// The row with another value in a metric's column.
    #[must_use]
    pub fn with(mut self, column: &'static str, value: impl Into<Option<f64>>) -> Self {
        self.values.set(column, value.into());
        self
    }

    /// The facts that metrics are made of; `baseline` is the window baseline of the same run and length.
    pub fn facts<'a>(&'a self, baseline: Option<&'a Self>) -> Facts<'a> {
        Facts {
            tokens: self.tokens,
            bytes: self.bytes,
            values: &self.values,
            per_document: self.per_document.as_ref(),
            difference: self.difference.as_ref().map(|difference| DifferenceFacts {
                against: &difference.against,
                nll: difference.nll,
                nll_se: difference.nll_se,
            }),
            baseline: baseline.map(|row| (&row.values, row.per_document.as_ref())),
        }
    }

    /// Whether both rows say that they read the same part of the same text: by its content where both hold a hash of
    /// it, and by its name where they are of other programs. A row that does not even name its text may have read any.
    pub fn same_text(&self, other: &Self) -> bool {
        let (a, b) = (&self.settings, &other.settings);
        if a.split != b.split {
            return false;
        }
        if let (Some(text), Some(other)) = (&self.text_hash, &other.text_hash) {
            return text == other;
        }
        let same_name = self.corpus.is_none() || other.corpus.is_none() || self.corpus == other.corpus;
        a.corpus_hash == b.corpus_hash && (a.corpus_hash.is_some() || same_name)
    }

    /// Whether both rows scored the same tokens of the same documents, as far as they say.
    pub fn same_tokens(&self, other: &Self) -> bool {
        let of = |row: &Self| {
            // The same places of copies of other passages hold other tokens.
            let Settings { key_tokens, keys, .. } = &row.settings;
            (row.tokens, row.documents, row.bytes, key_tokens.clone(), keys.passage())
        };
        // Windows of other lengths may be dealt to blocks of a document in another way.
        let known = self.per_document.as_ref().zip(other.per_document.as_ref());
        of(self) == of(other) && known.is_none_or(|(a, b)| a.blocks && b.blocks || a.tokens == b.tokens)
    }

    /// The loss of this row minus that of another, in nats per token, paired by document; `None` unless
    /// both scored the same tokens of the same documents and say so.
    pub fn minus(&self, other: &Self) -> Option<Mean> {
        let (a, b) = (self.per_document.as_ref()?, other.per_document.as_ref()?);
        let same_tokens = self.settings.key_tokens == other.settings.key_tokens && a.tokens == b.tokens;
        (self.same_text(other) && same_tokens)
            .then(|| paired_difference(&a.get("nll")?, &b.get("nll")?, &a.tokens))
            .flatten()
    }
}

impl Settings {
    pub fn tokens(&self) -> ScoredTokens {
        if self.key_tokens.is_some() { ScoredTokens::Key } else { ScoredTokens::All }
    }

    /// The settings that readings of one text have in common: without the length and what follows from it.
    #[must_use]
    pub fn without_length(&self) -> Self {
        let mut settings = Self { length: 0, exact: None, ..self.clone() };
        if let Some(key) = self.protocol.key_of_length() {
            settings.keys.remove(key);
        }
        settings
    }

    /// What an evaluation asks for, whatever run it reads, how long its texts are and what its task is asked with.
    #[must_use]
    pub fn of_evaluation(&self) -> Self {
        Self { bos: None, score: None, ..self.of_table() }
    }

    /// The settings that rows of one table have in common, whatever the task was asked with: lines name that.
    #[must_use]
    pub fn of_table(&self) -> Self {
        Self { task: TaskKeys::default(), ..self.without_length() }
    }
}

#[cfg(test)]
mod tests;
