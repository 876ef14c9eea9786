//! Key tokens: those that only a long context makes likely, so that a loss over them alone says whether a model uses it.
//!
//! `LongPPL` (Fang et al. 2024, arXiv:2410.23771, `longppl.py` of PKU-ML/LongPPL) is the perplexity over the key tokens of a text. Which
//! they are is decided once, by a reference run that was trained on longer texts ([`rule`]), and kept as a file; no model chooses its own. The
//! file names the tokens by their places, and what it is about by hashes: of the tokenizer, the text, the reference's weights and its own
//! lines. A protocol says which tokens are scored; with key tokens those of them are that are key. A document without one has no
//! value.

pub mod rule;

pub use rule::Rule;

use crate::metrics::Score;
use crate::plan::{Plan, Window};
use crate::source::Source;
use longwave_core::config::without_types;
use longwave_core::{Error, Result, file, sealed_line, written};
use longwave_data::Split;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub(crate) const FORMAT: u32 = 1;
/// Hexadecimal digits by which rows name a file.
const DIGITS: usize = 16;

/// The key tokens of a text, as a file holds them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyTokens {
    pub format: u32,
    pub reference: ReferenceRun,
    pub rule: Rule,
    /// SHA-256 of the tokenizer.
    pub tokenizer: String,
    pub corpus: String,
    pub split: Split,
    /// SHA-256 of the text, as rows have it.
    pub text: String,
    pub documents: Vec<Document>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceRun {
    pub run: String,
    pub config_hash: String,
    pub checkpoint: String,
    pub step: u64,
    /// SHA-256 of the checkpoint's file.
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub tokens: usize,
    /// The places of its key tokens, ascending, from 0.
    pub key: Vec<usize>,
}

/// Key tokens that were read from a file, for the text at hand.
#[derive(Clone, Debug)]
pub(crate) struct OpenedKeys {
    pub(crate) keys: KeyTokens,
    pub(crate) hash: String,
}

impl KeyTokens {
    /// Writes a file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let line = written::json("key tokens", self)?;
        file::write(path, (sealed_line::seal(&line) + "\n").as_bytes())
    }

    /// Reads a file; gives the hash by which rows name it too.
    pub fn read(path: &Path) -> Result<(Self, String)> {
        let text = file::read_text(path)?;
        let shown = path.display();
        let hint = "write it again: `longwave key-tokens RUN FILE`";
        let no_file =
            |why: &str| Error::failed(format!("`{shown}` is no file of key tokens: {why}")).hint(hint);
        sealed_line::check(&text).map_err(no_file)?;
        let wrong = |error: serde_json::Error| no_file(&without_types(&error.to_string()));
        let mut value: serde_json::Value = serde_json::from_str(&text).map_err(wrong)?;
        if let Some(format) = value.get("format").and_then(serde_json::Value::as_u64)
            && format > u64::from(FORMAT)
        {
            return Err(Error::failed(format!(
                "`{shown}` has format {format} of key tokens, and this program reads {FORMAT}"
            ))
            .hint("read it with the version of longwave that wrote it"));
        }
        value.as_object_mut().and_then(|fields| fields.remove("checksum"));
        let keys: Self = serde_json::from_value(value).map_err(wrong)?;
        let in_order = |it: &Document| {
            it.key.is_sorted_by(|a, b| a < b) && it.key.last().is_none_or(|last| *last < it.tokens)
        };
        if !keys.documents.iter().all(in_order) {
            return Err(no_file("places of a document are out of order, or past its end"));
        }
        Ok((keys, file::sha256_of(text.as_bytes())[..DIGITS].to_owned()))
    }

    pub fn count(&self) -> usize {
        self.documents.iter().map(|document| document.key.len()).sum()
    }

    /// How many tokens may be one: those that have a short context before them.
    pub fn candidates(&self) -> usize {
        self.documents.iter().map(|document| document.tokens.saturating_sub(self.rule.short)).sum()
    }

    /// What of a plan was scored at key tokens: each in a window of its own that begins where it was read from.
    pub fn only(&self, plan: &Plan, scores: &[Vec<Score>]) -> (Plan, Vec<Vec<Score>>) {
        let mut only = Plan { windows: Vec::new(), skipped_documents: plan.skipped_documents };
        let mut kept = Vec::new();
        for (window, scores) in plan.windows.iter().zip(scores) {
            for token in self.among(window) {
                only.windows.push(Window { first: token, end: token + 1, ..*window });
                kept.push(vec![scores[token - window.first]]);
            }
        }
        (only, kept)
    }

    fn among(&self, window: &Window) -> impl Iterator<Item = usize> {
        let key = &self.documents[window.document].key;
        let [first, end] =
            [window.first, window.end].map(|place| key.partition_point(|token| *token < place));
        key[first..end].iter().copied()
    }

    /// Refuses a plan that scores no key token.
    pub(crate) fn check_plan(&self, plan: &Plan, section: &str, file: &str) -> Result<()> {
        if plan.windows.iter().any(|window| self.among(window).next().is_some()) {
            return Ok(());
        }
        let allowed =
            format!("none of its {} key tokens is among those that the protocol scores", self.count());
        Err(named(section, file, allowed).hint(
            "score more tokens (`target`, `window_stride`, `windows_per_document`), or write a file with a smaller `--alpha`",
        ))
    }

    /// Refuses to score the run that chose them.
    pub(crate) fn check_model(&self, config_hash: &str, section: &str, file: &str) -> Result<()> {
        if config_hash != self.reference.config_hash {
            return Ok(());
        }
        let allowed = format!(
            "`{}` chose these key tokens, and no model is scored by its own choice",
            self.reference.run
        );
        Err(named(section, file, allowed)
            .hint("score other runs with it; leave `tokens = \"key\"` out for this one"))
    }

    fn check_text(&self, source: &Source<'_>, section: &str, file: &str) -> Result<()> {
        let hint = |again: &str| {
            format!(
                "choose key tokens of {again}: `longwave key-tokens RUN FILE`, with a reference run of its tokenizer"
            )
        };
        if source.tokenizer_hash()? != self.tokenizer {
            return Err(named(section, file, "its places are those of another tokenizer's tokens")
                .hint(hint("this run's tokens")));
        }
        let lengths = source.documents().lengths();
        let same = self.documents.iter().map(|document| document.tokens).eq(lengths);
        if source.text_hash.as_deref() != Some(self.text.as_str()) || !same {
            let allowed = format!("it is about another text, the {} split of `{}`", self.split, self.corpus);
            return Err(named(section, file, allowed).hint(hint("this text")));
        }
        Ok(())
    }
}

impl OpenedKeys {
    /// Reads the file that a block names, and checks that it is about the block's text.
    pub(crate) fn open(name: &str, section: &str, source: &Source<'_>) -> Result<Self> {
        let (keys, hash) = KeyTokens::read(Path::new(name))?;
        keys.check_text(source, section, name)?;
        Ok(Self { keys, hash })
    }
}

fn named(section: &str, file: &str, allowed: impl std::fmt::Display) -> Error {
    Error::value(&format!("{section}.key_tokens"), format!("\"{file}\""), allowed)
}

#[cfg(test)]
mod tests;
