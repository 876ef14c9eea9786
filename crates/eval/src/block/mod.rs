//! One `[[evaluate]]` block: what the file says, and the same checked with its defaults filled in.

mod check;

use crate::plan::{
    Plan, WINDOW_BASELINE, by_position, fixed_target, non_overlapping, repeated_text, sliding,
};
use crate::row::Settings;
use crate::source::Source;
use crate::text::Text;
use check::Block;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Split};
use longwave_position::{Lengths, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use toml::Value;

/// Which windows are read and which of their tokens are scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The same last tokens of the same windows at every length; only the prefix grows.
    #[default]
    FixedTarget,
    /// Windows side by side, every token scored. Tokens early in a window have little context, and
    /// longer windows have fewer of them.
    NonOverlapping,
    /// Windows that advance by `stride` tokens, each scoring what no earlier one has.
    Sliding,
    /// Windows side by side, and the loss at every place of the window.
    ByPosition,
    /// A passage repeated to the length, its last copy scored: what a reader gains from a copy that lies
    /// in its context.
    RepeatedText,
    /// Sequences of the run's task, their answers scored.
    Task,
}

impl Protocol {
    /// The name in configs and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::FixedTarget => "fixed_target",
            Self::NonOverlapping => "non_overlapping",
            Self::Sliding => "sliding",
            Self::ByPosition => "by_position",
            Self::RepeatedText => "repeated_text",
            Self::Task => "task",
        }
    }
}

impl Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One `[[evaluate]]` block, as written. Every length is a number of tokens or a multiple of the training length L,
/// such as `"2L"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluateConfig {
    /// Context lengths to read the test at. Default: `["L", "2L", "4L", "8L"]`.
    #[serde(default = "lengths")]
    pub lengths: Vec<Tokens>,
    /// Extensions to read with, each a kind (`"yarn"`) or a table (`{ kind = "yarn", ramp = "paper" }`). A list in
    /// the place of a value (`window = ["L/4", "L/2"]`) tries each on the validation split and reads this block's split
    /// with the best. Default: `["direct"]`.
    #[serde(default = "direct")]
    #[schemars(with = "Vec<crate::extend_schema::ExtendSchema>")]
    pub extend: Vec<Value>,
    /// The reading that the others are compared with, paired by document: `window_baseline`, or one of `extend` by its
    /// kind or as a table. Default: `window_baseline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::extend_schema::ReferenceSchema>")]
    pub against: Option<Value>,
    /// Which windows are read and which of their tokens are scored. Default: `fixed_target`.
    #[serde(default)]
    pub protocol: Protocol,
    /// Other text to read than the corpus of `[data]`, in tokens of the run's tokenizer: a folder, a glob
    /// or a file as there. Without folders `train`, `valid` and `test` all of it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// The part of the corpus to read. Default: `test`.
    #[serde(default)]
    pub split: Split,
    /// `fixed_target`: scored tokens of each window. Default: `"L"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Tokens>,
    /// `fixed_target`: length that the windows are laid out for. Default: the longest of `lengths`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<Tokens>,
    /// `fixed_target`: tokens from one window's beginning to the next. Default: `max_length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_stride: Option<Tokens>,
    /// Keeps the first so many windows of each document. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_per_document: Option<usize>,
    /// `sliding`: tokens that a window advances by, at every length. Default: half of `train.length`
    /// or of the shortest of `lengths`, whichever is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<Tokens>,
    /// `by_position`: places that are averaged into one point. Default: `"L/8"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Tokens>,
    /// `repeated_text`: tokens of a passage. Default: `train.length` or half of the shortest of
    /// `lengths`, whichever is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passage: Option<Tokens>,
    /// `task`: sequences asked at each length. Default: 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<usize>,
    /// The window baseline gives every target exactly `train.length` tokens of context, at one reading
    /// per target, instead of reading blocks of `train.length / 8` targets together. Default: false.
    #[serde(default)]
    pub exact: bool,
}

fn lengths() -> Vec<Tokens> {
    [1.0, 2.0, 4.0, 8.0].map(Tokens::times).to_vec()
}

fn direct() -> Vec<Value> {
    vec![Value::String("direct".into())]
}

/// One `[[evaluate]]` block with everything filled in; a key without a meaning for the protocol is
/// `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedEvaluate {
    /// Context lengths, in tokens, as listed.
    pub lengths: Vec<usize>,
    /// Extensions as written: strings, or tables with a `kind`.
    pub extend: Vec<Value>,
    /// Which windows are read and which of their tokens are scored.
    pub protocol: Protocol,
    /// Other text to read than the corpus of the run.
    pub corpus: Option<String>,
    /// The part of the corpus to read.
    pub split: Split,
    /// Length of the first training stage, in tokens.
    pub train_length: usize,
    /// `fixed_target`: scored tokens of each window.
    pub target: Option<usize>,
    /// `fixed_target`: length that the windows are laid out for.
    pub max_length: Option<usize>,
    /// `fixed_target`: tokens from one window's beginning to the next.
    pub window_stride: Option<usize>,
    /// Windows kept of each document; `None` keeps all.
    pub windows_per_document: Option<usize>,
    /// `sliding`: tokens that a window advances by.
    pub stride: Option<usize>,
    /// `by_position`: places per bucket.
    pub bucket: Option<usize>,
    /// `repeated_text`: tokens of a passage.
    pub passage: Option<usize>,
    /// `task`: sequences asked at each length.
    pub sequences: Option<usize>,
    /// Whether the window baseline reads every target for itself.
    pub exact: bool,
}

/// The block where nothing is written: how the test split is read as trained, at up to eight times L.
impl Default for EvaluateConfig {
    fn default() -> Self {
        Self {
            lengths: lengths(),
            extend: direct(),
            against: None,
            protocol: Protocol::default(),
            corpus: None,
            split: Split::default(),
            target: None,
            max_length: None,
            window_stride: None,
            windows_per_document: None,
            stride: None,
            bucket: None,
            passage: None,
            sequences: None,
            exact: false,
        }
    }
}

impl EvaluateConfig {
    /// The same block with every length as a number of tokens: what resolved configs hold, so that a run is
    /// identified by what it reads, however that is written.
    ///
    /// # Errors
    /// A length is less than one token.
    pub fn in_tokens(&self, section: &str, train_length: usize) -> Result<Self> {
        let lengths = Lengths { train: train_length, length: train_length };
        let count =
            |key: &str, tokens: Tokens| tokens.whole(&format!("{section}.{key}"), lengths).map(Tokens::Count);
        let if_given =
            |key: &str, tokens: Option<Tokens>| tokens.map(|tokens| count(key, tokens)).transpose();
        let listed = self.lengths.iter().enumerate();
        let listed = listed.map(|(index, tokens)| count(&format!("lengths[{index}]"), *tokens));
        Ok(Self {
            lengths: listed.collect::<Result<_>>()?,
            target: if_given("target", self.target)?,
            max_length: if_given("max_length", self.max_length)?,
            window_stride: if_given("window_stride", self.window_stride)?,
            stride: if_given("stride", self.stride)?,
            bucket: if_given("bucket", self.bucket)?,
            passage: if_given("passage", self.passage)?,
            ..self.clone()
        })
    }

    /// Checks the block and fills in its defaults.
    ///
    /// `section` is its place in the file (`evaluate[0]`), `train_length` the tokens of a training
    /// sequence of the first stage.
    ///
    /// # Errors
    /// A value out of range, or a key that means nothing under the protocol.
    pub fn validate(&self, section: &str, train_length: usize) -> Result<ResolvedEvaluate> {
        let block = Block { config: &self.in_tokens(section, train_length)?, section, train_length };
        let lengths = block.lengths();
        let (shortest, longest) = block.ends(&lengths)?;
        block.extend()?;
        block.keys_of_other_protocols()?;
        block.not_zero("windows_per_document", self.windows_per_document)?;
        let mut resolved = ResolvedEvaluate {
            lengths,
            extend: self.extend.clone(),
            protocol: self.protocol,
            corpus: self.corpus.clone(),
            split: self.split,
            train_length,
            target: None,
            max_length: None,
            window_stride: None,
            windows_per_document: self.windows_per_document,
            stride: None,
            bucket: None,
            passage: None,
            sequences: None,
            exact: self.exact,
        };
        match self.protocol {
            Protocol::FixedTarget => block.fixed_target(shortest, longest, &mut resolved)?,
            Protocol::NonOverlapping => {}
            Protocol::Sliding => resolved.stride = Some(block.stride(shortest)?),
            Protocol::ByPosition => resolved.bucket = Some(block.bucket()),
            Protocol::RepeatedText => resolved.passage = Some(block.passage(shortest)?),
            Protocol::Task => resolved.sequences = Some(block.sequences()?),
        }
        Ok(resolved)
    }
}

impl ResolvedEvaluate {
    /// Where its documents come from.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn source<'a>(&self, dataset: &'a Dataset) -> Result<Source<'a>> {
        Source::open(dataset, self.corpus.as_deref(), self.split)
    }

    /// What is read at one of the lengths.
    ///
    /// # Errors
    /// The protocol asks a task and there is none, or it does not fit the length.
    pub fn text(&self, length: usize, source: &Source<'_>) -> Result<Text> {
        match (self.sequences, self.passage) {
            (Some(count), _) => source.questions(count, length),
            (_, Some(passage)) => Ok(source.tiled(passage, length)),
            _ => Ok(source.documents()),
        }
    }

    /// The windows of one of the lengths in the text of that length.
    ///
    /// # Errors
    /// No document is long enough for one window.
    pub fn windows(&self, length: usize, text: &Text) -> Result<Plan> {
        if self.protocol == Protocol::Task {
            return Ok(Plan { windows: text.answer_windows(), skipped_documents: 0 });
        }
        self.plan(length, &text.lengths())
    }

    /// The windows of one of the lengths, for documents of so many tokens each.
    ///
    /// # Errors
    /// No document is long enough for one window.
    pub fn plan(&self, length: usize, documents: &[usize]) -> Result<Plan> {
        let limit = self.windows_per_document;
        let plan = match self.protocol {
            Protocol::FixedTarget => {
                let max_length = self.max_length.unwrap_or(length);
                let target = self.target.unwrap_or(length);
                let stride = self.window_stride.unwrap_or(max_length);
                fixed_target(documents, length, target, max_length, stride, limit)
            }
            Protocol::NonOverlapping => non_overlapping(documents, length, limit),
            Protocol::Sliding => sliding(documents, length, self.stride.unwrap_or(length), limit),
            Protocol::ByPosition => by_position(documents, length, limit),
            Protocol::RepeatedText => repeated_text(documents, length, self.passage.unwrap_or(length), limit),
            // Its windows are the sequences themselves.
            Protocol::Task => Plan::default(),
        };
        if plan.windows.is_empty() { Err(self.too_short(length, documents)) } else { Ok(plan) }
    }

    /// What a result row says of the protocol, but for the hash of other text, when one of the lengths is
    /// read with an extension.
    pub fn settings(&self, length: usize, extend: &str) -> Settings {
        Settings {
            protocol: self.protocol,
            split: self.split,
            corpus_hash: None,
            train_length: self.train_length,
            length,
            target: self.target,
            max_length: self.max_length,
            window_stride: self.window_stride,
            windows_per_document: self.windows_per_document,
            stride: if self.protocol == Protocol::NonOverlapping { Some(length) } else { self.stride },
            bucket: self.bucket,
            passage: self.passage,
            sequences: self.sequences,
            exact: (extend == WINDOW_BASELINE).then_some(self.exact),
        }
    }

    fn too_short(&self, length: usize, documents: &[usize]) -> Error {
        let longest = documents.iter().copied().max().unwrap_or(0);
        if let Some(passage) = self.passage {
            return Error::failed(format!(
                "no document of the {} split holds a passage of {passage} tokens: the longest has {longest}",
                self.split
            ))
            .hint("set a shorter `passage`, or use a corpus of longer documents");
        }
        let (needed, key) = match self.max_length {
            Some(max_length) => (max_length, "max_length"),
            None => (length, "length"),
        };
        let error = Error::failed(format!(
            "no document of the {} split is as long as {} tokens (`{key} = {needed}` and one to \
             predict): the longest has {longest}",
            self.split,
            needed + 1,
        ));
        if longest < 2 {
            return error.hint("the split holds no text to score; check the corpus");
        }
        error.hint(format!("evaluate lengths up to {}, or use a corpus of longer documents", longest - 1))
    }
}

#[cfg(test)]
mod tests;
