//! What a protocol says of itself.

use super::keys::{Key, Keys, MAX_LENGTH, WINDOWS_PER_DOCUMENT};
use crate::metrics::Metric;
use crate::plan::Plan;
use crate::source::Source;
use crate::text::{Material, Text};
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_model::resolved::Resolved;
use std::fmt::Display;
use std::ops::Range;

/// A protocol: its keys, their checks, the windows that it reads, and its words in tables.
///
/// Two documents, read at 256 tokens by the default protocol, which scores the last `target` tokens of each window:
///
/// ```
/// use longwave_eval::Protocol;
/// use longwave_eval::protocols::{Documents, Given, Keys};
/// use longwave_data::Split;
///
/// let protocol = Protocol::FixedTarget;
/// let keys = protocol.fill_in(&Given {
///     section: "evaluate[0]",
///     train_length: 128,
///     shortest: 128,
///     longest: 256,
///     keys: &Keys::default(),
///     corpus: None,
///     split: Split::Test,
/// })?;
/// let plan = protocol.plan(&keys, 256, &Documents { tokens: &[600, 100], answers: &[] });
/// // The second document is too short. Both windows of the first read 256 tokens and score 128 of them.
/// assert_eq!((plan.skipped_documents, plan.windows.len()), (1, 2));
/// assert!(plan.windows.iter().all(|window| (window.reading(), window.targets()) == (256, 128)));
/// assert!(protocol.same_tokens_at_every_length(&keys, &[128, 256]));
/// # Ok::<(), longwave_core::Error>(())
/// ```
pub trait Rules: Sync {
    /// What it reads and scores, for the schema.
    fn description(&self) -> &'static str;

    /// The keys that it reads.
    fn keys(&self) -> &'static [Key] {
        &[WINDOWS_PER_DOCUMENT]
    }

    /// Checks the keys that are given, and fills in the others; [`MAX_LENGTH`] is filled in already.
    ///
    /// # Errors
    /// A value that is not allowed, named by its key.
    fn resolve(&self, block: &Given<'_>) -> Result<Keys> {
        Ok(block.keys.clone())
    }

    /// Checks the keys that every protocol shares, such as `corpus`.
    ///
    /// # Errors
    /// One of them has no meaning here.
    fn check_shared(&self, _block: &Given<'_>) -> Result<()> {
        Ok(())
    }

    /// What its texts are made of.
    fn material(&self) -> Material {
        Material::Documents
    }

    /// What is read at a length.
    ///
    /// # Errors
    /// The source has no such text, or it does not fit the length.
    fn text(&self, _keys: &Keys, _length: usize, source: &Source<'_>) -> Result<Text> {
        Ok(source.documents())
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan;

    /// The length that a document must have for one window, and the key that sets it.
    fn least(&self, keys: &Keys, length: usize) -> (usize, &'static str) {
        keys.max_length().map_or((length, "length"), |max_length| (max_length, MAX_LENGTH.name))
    }

    /// The error where no document has a window; the longest document has `longest` tokens.
    fn too_short(&self, keys: &Keys, length: usize, split: Split, longest: usize) -> Error {
        let (least, key) = self.least(keys, length);
        let error = Error::failed(format!(
            "no document of the {split} split is as long as {} tokens (`{key} = {least}` and one to predict): the \
             longest has {longest}",
            least + 1,
        ));
        let most = longest.saturating_sub(1);
        error.hint(format!(
            "read lengths up to {most}, with `--lengths {most}` behind `eval` or `explain` and `--set 'evaluate.lengths=[{most}]'` \
             behind `train`, or use a corpus of longer documents"
        ))
    }

    /// The keys that each of its rows has, those of other programs too.
    fn keys_of_rows(&self) -> &'static [Key] {
        &[]
    }

    /// The key whose value follows from the length, and which rows record all the same.
    fn key_of_length(&self) -> Option<Key> {
        None
    }

    /// The keys for a search that measures at one length.
    ///
    /// # Errors
    /// Why the length is too short.
    fn at_one_length(&self, keys: &Keys, length: usize) -> std::result::Result<Keys, &'static str> {
        let keys = keys.clone();
        Ok(if keys.max_length().is_some() { keys.with(MAX_LENGTH, length) } else { keys })
    }

    /// Places of a window whose loss is averaged into one point of a curve; `None` without such a curve.
    fn bucket(&self, _keys: &Keys) -> Option<usize> {
        None
    }

    /// Checks that texts that are made for a length fit in memory, before they are made; `free` is in bytes.
    ///
    /// # Errors
    /// They do not fit.
    fn check_memory(
        &self,
        _keys: &Keys,
        _length: usize,
        _model: &Resolved,
        _free: Option<u64>,
    ) -> Result<()> {
        Ok(())
    }

    /// The metrics of its tables, one table each; charts show the first.
    fn shown(&self) -> &'static [Metric] {
        &[Metric::Perplexity]
    }

    /// Whether all of `lengths` score the same tokens, so that a difference between two columns of a table is the
    /// effect of the length.
    fn same_tokens_at_every_length(&self, keys: &Keys, lengths: &[usize]) -> bool;

    /// The tokens of the windows that are scored, in words.
    fn in_words(&self, keys: &Keys) -> String;
}

#[derive(Clone, Copy, Debug)]
pub struct Documents<'a> {
    pub tokens: &'a [usize],
    /// The answers of each sequence of a task, in order; empty for text.
    pub answers: &'a [Vec<Range<usize>>],
}

impl Documents<'_> {
    /// The tokens of each document that every length may score: `kept` of a document that is long enough for a window
    /// of `max_length`, none of the others.
    pub(super) fn scored_at_every_length(
        &self,
        max_length: usize,
        kept: impl Fn(usize) -> usize,
    ) -> Vec<usize> {
        let cut = |&tokens: &usize| if tokens > max_length { kept(tokens).min(tokens) } else { 0 };
        self.tokens.iter().map(cut).collect()
    }
}

/// The largest multiple of the training length that people read, more or less.
const LARGEST_MULTIPLE: usize = 32;

/// A block of a config while its keys are checked.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The place of the block in the file, such as `evaluate[0]`.
    pub section: &'a str,
    /// Tokens of a training sequence of the first stage: L.
    pub train_length: usize,
    pub shortest: usize,
    pub longest: usize,
    pub keys: &'a Keys,
    pub corpus: Option<&'a str>,
    pub split: Split,
}

impl Given<'_> {
    /// The value of a key; `None` where it is not given.
    pub fn get(&self, key: Key) -> Option<usize> {
        self.keys.get(key.name)
    }

    /// The length of the windows whose tokens every length scores: [`MAX_LENGTH`], or the longest of the lengths.
    ///
    /// # Errors
    /// It is less than one of the lengths.
    pub fn max_length(&self) -> Result<usize> {
        let max_length = self.get(MAX_LENGTH).unwrap_or(self.longest);
        if self.longest > max_length {
            let allowed = format!("it must be at least the longest of `lengths`, {}", self.longest);
            return Err(self
                .error(MAX_LENGTH.name, max_length, allowed)
                .hint("leave it out to lay the windows out for the longest length"));
        }
        Ok(max_length)
    }

    /// The multiple of the training length that the shortest length was probably meant as, in words: `8` for `"8L"`.
    pub fn meant_multiple(&self) -> Option<String> {
        let (times, train_length) = (self.shortest, self.train_length);
        if times >= train_length || times > LARGEST_MULTIPLE {
            return None;
        }
        let tokens = times * train_length;
        Some(if times == 1 {
            format!("`\"L\"` is the training length, {tokens} tokens")
        } else {
            format!("`\"{times}L\"` is {times} times the training length, {tokens} tokens")
        })
    }

    pub fn error(&self, key: &str, value: impl Display, allowed: impl Display) -> Error {
        Error::value(&format!("{}.{key}", self.section), value, allowed)
    }
}
