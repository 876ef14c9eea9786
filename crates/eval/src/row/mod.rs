//! One line of `results.jsonl`, and the file itself.
//!
//! # The format
//! A line is one JSON object, and [`FORMAT`] is its version, in the field `format`. A new optional
//! field, or a new name among protocols, encodings and extensions, leaves the version as it is:
//! readers ignore fields they do not know. A field that goes, changes its name, its unit or its
//! meaning raises it, and a reader refuses a line of a newer version than its own rather than
//! misread it. Older versions stay readable.
//!
//! # The file
//! A row's identity is everything but its measured values, what it was chosen among, and the machine it was
//! measured on. A file holds one row of each identity: measuring again replaces the row in its place, and all
//! other lines stay byte for byte as they are.

#[doc(hidden)]
pub mod example;
mod number;
mod store;

pub use store::{read_rows, write_rows};

use crate::bigram::LastSeen;
use crate::block::Protocol;
use crate::statistics::{Mean, paired_difference};
use longwave_core::{Error, Result, canonical};
use longwave_data::Split;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the row format that this program writes.
pub const FORMAT: u32 = 1;

/// The fields that a measurement fills in; all others tell which measurement it is.
const MEASURED: [&str; 22] = [
    "format",
    "chosen_among",
    "corpus",
    "tokens",
    "documents",
    "skipped_documents",
    "bytes",
    "nll",
    "nll_se",
    "ppl",
    "bpb",
    "accuracy",
    "accuracy_se",
    "exact_match",
    "exact_match_se",
    "bigrams",
    "positions",
    "per_document",
    "difference",
    "device",
    "threads",
    "version",
];

/// One measurement: one trained model, read with one extension at one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Version of the row format, [`FORMAT`].
    pub format: u32,
    /// Name of the run, as its config has it.
    pub run: String,
    /// Hash of what the model was trained with.
    pub config_hash: String,
    /// Seed of the run.
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
    /// Which checkpoint was read: `last`, `best`, or the end of a stage such as `stage-0`.
    pub checkpoint: String,
    /// Training step of that checkpoint, counted through all stages.
    pub step: u64,
    /// Stage of that checkpoint: 0 is `[train]`, n the n-th `[[stage]]`.
    #[serde(default)]
    pub stage: usize,
    /// Protocol, split and lengths.
    #[serde(flatten)]
    pub settings: Settings,
    /// The corpus that was read, as written, or the task; absent from rows of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// Scored tokens.
    pub tokens: u64,
    /// Documents with a scored token.
    pub documents: usize,
    /// Documents too short for a window.
    pub skipped_documents: usize,
    /// Bytes of text of the scored tokens.
    pub bytes: u64,
    /// Mean negative log likelihood, in nats per token. Not a number (`null` in the file) where the
    /// model gave none.
    #[serde(with = "number")]
    pub nll: f64,
    /// Standard error of `nll` over documents; absent for fewer than two documents.
    #[serde(default)]
    pub nll_se: Option<f64>,
    /// `exp(nll)`; `null` in the file where that is no finite number.
    #[serde(with = "number")]
    pub ppl: f64,
    /// Bits per byte; absent where tokens are no text.
    #[serde(default)]
    pub bpb: Option<f64>,
    /// Share of the scored tokens that the model held most likely: next-token accuracy. Absent from rows
    /// of earlier programs.
    #[serde(default)]
    pub accuracy: Option<f64>,
    /// Standard error of `accuracy` over documents; absent for fewer than two documents.
    #[serde(default)]
    pub accuracy_se: Option<f64>,
    /// `task`: share of the sequences whose answer the model held most likely token by token, each after
    /// the right ones before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_match: Option<f64>,
    /// Standard error of `exact_match` over sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_match_se: Option<f64>,
    /// The loss by where the bigram that ends in the token was last seen; absent where what is read is
    /// no text as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bigrams: Option<Vec<BigramRow>>,
    /// The loss by position, under the protocol `by_position`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<Vec<PositionRow>>,
    /// What paired differences need; absent from rows of earlier programs, and of more than
    /// [`DocumentSums::MOST`] documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_document: Option<DocumentSums>,
    /// The loss minus that of another reading of the model, see [`reference`](crate::reference); absent of that reading
    /// itself, and where nothing can be paired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// The device it was measured on, in words.
    pub device: String,
    /// Threads it was measured with.
    pub threads: usize,
    /// Version of the program.
    pub version: String,
}

/// Protocol, split and lengths of a measurement; what has no meaning under the protocol is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Which windows are read and which of their tokens are scored.
    pub protocol: Protocol,
    /// The part of the corpus that was read.
    pub split: Split,
    /// Identifies the text where it is not the corpus of the run's config; absent where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus_hash: Option<String>,
    /// Tokens of a training sequence of the first stage: L.
    pub train_length: usize,
    /// Tokens of context.
    pub length: usize,
    /// `fixed_target`: scored tokens of each window.
    pub target: Option<usize>,
    /// `fixed_target`: length that the windows are laid out for.
    pub max_length: Option<usize>,
    /// `fixed_target`: tokens from one window's beginning to the next.
    pub window_stride: Option<usize>,
    /// Windows kept of each document; `None` keeps all.
    pub windows_per_document: Option<usize>,
    /// `sliding`: tokens that a window advances by; `non_overlapping`: the length.
    pub stride: Option<usize>,
    /// `by_position`: places per bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<usize>,
    /// `repeated_text`: tokens of a passage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passage: Option<usize>,
    /// `task`: sequences asked at each length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<usize>,
    /// `window_baseline`: whether every target had a reading of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<bool>,
}

/// Sums of each document, in the order of the split; skipped documents have zeros.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentSums {
    /// Scored tokens `[documents]`.
    pub tokens: Vec<u64>,
    /// Sum of the negative log likelihoods in nats `[documents]`; `null` in the file where it is no
    /// finite number.
    #[serde(with = "number::list")]
    pub nll: Vec<f64>,
    /// Scored tokens that the model held most likely `[documents]`; absent from rows of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correct: Option<Vec<u64>>,
}

impl DocumentSums {
    /// Rows keep the sums of up to so many documents, about 250 kB a row.
    pub const MOST: usize = 10_000;
}

/// The mean loss of the tokens whose bigram was last seen so far back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BigramRow {
    /// How far back: `within` L tokens, `beyond` L tokens, or `never`.
    pub last_seen: LastSeen,
    /// Scored tokens.
    pub tokens: u64,
    /// Mean negative log likelihood, in nats per token.
    #[serde(with = "number")]
    pub nll: f64,
    /// Standard error of `nll` over documents; absent for fewer than two documents.
    #[serde(default)]
    pub nll_se: Option<f64>,
    /// Share of the tokens that the model held most likely.
    pub accuracy: f64,
}

/// The loss of a row minus that of another reading of its model, paired by document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The other reading: `window_baseline`, or the config of its extension.
    pub against: Value,
    /// The difference, in nats per token; below 0 this row is better.
    #[serde(with = "number")]
    pub nll: f64,
    /// Its standard error over documents; absent for fewer than two documents.
    #[serde(default)]
    pub nll_se: Option<f64>,
}

/// The mean loss of some places of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PositionRow {
    /// First place of the bucket, from 0; its target has `position + 1` tokens of context.
    pub position: usize,
    /// Scored tokens.
    pub tokens: u64,
    /// Mean negative log likelihood, in nats per token.
    #[serde(with = "number")]
    pub nll: f64,
}

impl ResultRow {
    /// What tells this measurement from others: the row without its measured values.
    ///
    /// # Errors
    /// A value has no JSON form.
    pub fn identity(&self) -> Result<String> {
        let value = serde_json::to_value(self).map_err(|error| store::unwritable(&error))?;
        let Value::Object(mut fields) = value else {
            return Err(Error::failed("a result row is no JSON object"));
        };
        fields.retain(|key, _| !MEASURED.contains(&key.as_str()));
        Ok(canonical::text(Value::Object(fields)))
    }

    /// Standard error of the perplexity by the delta method: `ppl * nll_se`.
    pub fn ppl_se(&self) -> Option<f64> {
        self.nll_se.map(|error| self.ppl * error).filter(|error| error.is_finite())
    }

    /// Whether both rows say that they read the same part of the same text. A row of an earlier program that
    /// does not name its text may have read any.
    pub fn same_text(&self, other: &Self) -> bool {
        let named = self.corpus.is_none() || other.corpus.is_none() || self.corpus == other.corpus;
        let (a, b) = (&self.settings, &other.settings);
        named && a.split == b.split && a.corpus_hash == b.corpus_hash
    }

    /// The loss of this row minus that of another, in nats per token, paired by document; `None` unless
    /// both scored the same tokens of the same documents and say so.
    pub fn minus(&self, other: &Self) -> Option<Mean> {
        let (a, b) = (self.per_document.as_ref()?, other.per_document.as_ref()?);
        (self.same_text(other) && a.tokens == b.tokens)
            .then(|| paired_difference(&a.nll, &b.nll, &a.tokens))
            .flatten()
    }
}

#[cfg(test)]
mod tests;
