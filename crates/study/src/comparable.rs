//! What can be compared with what: losses per token only where the same tokens were scored, everything else only where the
//! same text was read.

use crate::axis::label_of;
use crate::plan::job::{Job, data_text};
use longwave_core::Error;
use longwave_data::{DataConfig, TaskConfig, TokenizerConfig};
use longwave_eval::text::Material;
use longwave_eval::{Metric, ResolvedEvaluate, ResultRow};
use std::collections::BTreeMap;
use toml::Value;

/// Why a metric of two rows cannot be compared, where it cannot.
pub fn obstacle(a: &ResultRow, b: &ResultRow, metric: Metric) -> Option<Error> {
    let named = |row: &ResultRow| row.corpus.clone().unwrap_or_else(|| "an unnamed text".to_owned());
    let of_task = [a, b].iter().all(|row| row.settings.protocol.material() == Material::Answers);
    if !a.same_text(b) {
        let (a, b) = (named(a), named(b));
        return Some(if of_task {
            Error::failed(format!("the two runs were asked different questions: those of `{a}` and of `{b}`"))
                .hint("their `data.task` must be the same, `sizes` and `score` aside")
        } else {
            Error::failed(format!("the two runs read different text: `{a}` and `{b}`"))
                .hint("read both on one text: `longwave eval RUN --corpus PATH`")
        });
    }
    // A task asks other sequences at another length; how many are right is asked of both alike.
    let asks_alike = metric.is_share() && a.settings.length != b.settings.length && of_task;
    (!metric.spans_tokenizers() && !asks_alike && !a.same_tokens(b)).then(|| {
        Error::failed(format!(
            "the two runs scored different tokens of `{}` at length {}: {} tokens of {} bytes, and {} of {}",
            named(a),
            a.settings.length,
            a.tokens,
            a.bytes,
            b.tokens,
            b.bytes
        ))
        .hint("their tokenizers or texts differ; `--metric bits_per_byte` compares across tokenizers")
    })
}

/// What a planned evaluation scores at a length, as far as the plan tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored<'a> {
    /// What the run was trained on, with its tokenizer.
    pub(crate) data: &'a DataConfig,
    /// The hash of that corpus and its tokens.
    pub(crate) content: Option<&'a String>,
    pub(crate) block: &'a ResolvedEvaluate,
    pub(crate) length: usize,
}

impl<'a> Scored<'a> {
    /// `contents` are the plan's.
    pub(crate) fn new(
        contents: &'a BTreeMap<String, String>,
        job: &'a Job,
        block: &'a ResolvedEvaluate,
        length: usize,
    ) -> Self {
        let data = &job.config.run.data;
        Self { data, content: contents.get(&data_text(data)), block, length }
    }

    /// Whether it is scored as another one is, but for the extensions.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let of = |it: &Self| {
            let ResolvedEvaluate { protocol, split, keys, corpus, key_tokens, tasks, .. } = it.block;
            let text = (corpus.clone(), key_tokens.clone(), tasks.clone());
            (it.length, *protocol, *split, keys.clone(), text)
        };
        self.data == other.data && of(self) == of(other)
    }

    fn material(&self) -> Material {
        self.block.protocol.material()
    }

    fn text(&self) -> String {
        let own = || self.data.task.as_ref().map_or_else(|| self.data.corpus.clone(), TaskConfig::name);
        self.block.corpus.clone().unwrap_or_else(own)
    }

    fn identity(&self) -> (Option<&String>, String) {
        let own =
            DataConfig { tokenizer: TokenizerConfig::default(), cache: String::new(), ..self.data.clone() };
        (
            self.block.corpus.as_ref(),
            if self.block.corpus.is_some() { String::new() } else { data_text(&own) },
        )
    }

    fn same_text(&self, other: &Self) -> bool {
        let own = [self, other].iter().all(|it| it.block.corpus.is_none());
        self.identity() == other.identity()
            || (own && self.content.is_some() && self.content == other.content)
    }

    /// A tokenizer is another one where it was trained on other text.
    fn same_tokenizer(&self, other: &Self) -> bool {
        let is_trained = matches!(self.data.tokenizer, TokenizerConfig::Bpe { .. });
        self.data.tokenizer == other.data.tokenizer
            && (!is_trained
                || self.content.is_some() && self.content == other.content
                || self.data == other.data)
    }

    /// The targets in documents of some lengths, as ranges that follow each other.
    fn targets(&self) -> Vec<(usize, usize, usize)> {
        let longest = self.block.keys.max_length().unwrap_or(self.length).max(self.length);
        let documents = [longest + 1, 2 * longest + 7, 5 * longest + 3];
        let windows = self.block.plan(self.length, &documents).map(|plan| plan.windows).unwrap_or_default();
        let mut ranges: Vec<(usize, usize, usize)> = Vec::new();
        for window in windows {
            match ranges.last_mut() {
                Some((document, _, end)) if (*document, *end) == (window.document, window.first) => {
                    *end = window.end;
                }
                _ => ranges.push((window.document, window.first, window.end)),
            }
        }
        ranges
    }

    fn same_targets(&self, other: &Self) -> bool {
        self.block.keys.passage() == other.block.keys.passage() && self.targets() == other.targets()
    }

    /// Whether both score the same tokens of one text.
    pub(crate) fn same_tokens(&self, other: &Self) -> bool {
        self.same_tokenizer(other)
            && self.block.key_tokens == other.block.key_tokens
            && (self.material() != Material::Answers || self.length == other.length)
            && self.same_targets(other)
    }

    /// Why a metric of two planned measurements would not compare, and a hint.
    pub(crate) fn obstacle(&self, other: &Self, metric: Metric) -> Option<(String, String)> {
        if !self.same_text(other) {
            let why =
                format!("it compares readings of different text, `{}` and `{}`", self.text(), other.text());
            return Some((why, "read all on one text, with `corpus` of an `[[evaluate]]`".to_owned()));
        }
        if metric.spans_tokenizers() {
            return None;
        }
        if self.material() == Material::Answers {
            let alike = self.length == other.length || metric.is_share();
            return (!alike).then(|| {
                let why =
                    format!("a task asks other answers at {} tokens than at {}", self.length, other.length);
                (why, "compare a share of right answers, as `metric = \"exact_match\"`".to_owned())
            });
        }
        let why = if !self.same_tokenizer(other) {
            let name =
                |it: &Self| Value::try_from(&it.data.tokenizer).map(|it| label_of(&it)).unwrap_or_default();
            let (a, b) = (name(self), name(other));
            let apart = if a == b { " trained on two texts" } else { "" };
            format!("it compares `{}` over different tokens, those of `{a}` and `{b}`{apart}", metric.name())
        } else if self.block.key_tokens != other.block.key_tokens {
            let name = |it: &Self| {
                it.block
                    .key_tokens
                    .as_ref()
                    .map_or("all tokens".into(), |file| format!("key tokens of `{file}`"))
            };
            format!("it compares `{}` over {} with {}", metric.name(), name(self), name(other))
        } else if !self.same_targets(other) {
            format!(
                "it compares `{}` over different tokens: at {} and at {} tokens, `{}` does not score the same",
                metric.name(),
                self.length,
                other.length,
                self.block.protocol
            )
        } else {
            return None;
        };
        let spans = Metric::BitsPerByte.is_of(self.material());
        let hint = if spans {
            "`metric = \"bits_per_byte\"` compares across tokens of one text"
        } else {
            "give both the same tokens"
        };
        Some((why, hint.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::tests::{row, set_key};
    use longwave_eval::Protocol;

    #[test]
    fn other_passages_are_other_tokens() {
        let of = |passage: usize| {
            let mut row = row("direct", 128, 0, &[1.0, 2.0]);
            row.settings.protocol = Protocol::RepeatedText;
            set_key(&mut row, "passage", passage);
            row
        };
        assert!(of(33).same_tokens(&of(33)) && !of(33).same_tokens(&of(65)));
        for metric in [Metric::Loss, Metric::Accuracy] {
            assert!(obstacle(&of(33), &of(65), metric).is_some(), "{}", metric.name());
        }
    }
}
