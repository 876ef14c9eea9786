//! The measure of `metric = "needle"`: the loss of tokens that only the beginning of a long text tells.
//!
//! `LongRoPE2` measures a search by "needle-driven" perplexity, since the loss of all tokens is mostly that of tokens which
//! their neighbours tell (arXiv:2502.20082, section 3.3). A run with a task has needles already: the answers of the task. In a
//! corpus, a window of the validation text begins with the needle, its first 32 tokens (a quarter of the window at most),
//! and ends with the needle once more. The second half of that repetition is scored: the first half asks for it.

use super::Search;
use crate::block::ResolvedEvaluate;
use crate::measure::{Counter, Progress, Subject};
use crate::memory_check;
use crate::parts::Parts;
use crate::plan::{Plan, Window};
use crate::scorer::Scorer;
use crate::source::Source;
use crate::text::{Material, Text};
use longwave_core::memory_check::available;
use longwave_core::{Error, Result};
use longwave_data::{Questions, TokenFile};
use longwave_model::Size;
use longwave_model::resolved::Resolved;
use longwave_position::Reading;

/// Tokens of a needle, where the window is long enough.
const NEEDLE: usize = 32;

/// Windows that ask for their beginnings.
#[derive(Debug)]
pub(super) struct Needles {
    text: Text,
    plan: Plan,
}

impl Needles {
    /// Those of a text: up to `windows` windows of each document, which the model reads at `length` tokens.
    pub(super) fn new(tokens: &Text, windows: usize, length: usize) -> Self {
        let needle = NEEDLE.min(length / 4) / 2 * 2;
        let passage = length + 1 - needle;
        let mut documents: Vec<(&str, Vec<u32>)> = Vec::new();
        for (document, tokens_of) in tokens.lengths().into_iter().enumerate() {
            for window in 0..(tokens_of / passage).min(windows) {
                let start = window * passage;
                let mut read = tokens.read(document, start..start + passage);
                read.extend_from_within(0..needle);
                documents.push((tokens.name(document), read));
            }
        }
        let answers = length + 1 - needle / 2..length + 1;
        let listed: Vec<(&str, &[u32])> =
            documents.iter().map(|(name, tokens)| (*name, tokens.as_slice())).collect();
        let of = |document| Window { document, start: 0, first: answers.start, end: answers.end };
        let plan = Plan { windows: (0..listed.len()).map(of).collect(), skipped_documents: 0 };
        let answers = vec![vec![answers]; listed.len()];
        let tokens = TokenFile::from_documents(&listed).with_bos(tokens.bos());
        Self { text: Text::questions(Questions { tokens, answers }), plan }
    }

    /// The mean loss of the answers, in nats per token.
    pub(super) fn loss(
        &self,
        subject: &Subject<'_>,
        reading: &Reading,
        show: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<f64> {
        let mut counter = Counter::new(self.plan.tokens_read(), show);
        let scorer = Scorer { model: subject.model, text: &self.text, device: subject.device };
        scorer.mean_loss(&self.plan, reading, &Parts::default(), &mut |tokens| counter.read(tokens))
    }
}

impl Search {
    /// The windows that ask for needles, where the search is measured by them and the run has no task, whose answers serve
    /// as they are.
    pub(crate) fn check_needles(
        &self,
        block: &ResolvedEvaluate,
        source: &Source<'_>,
        resolved: &Resolved,
    ) -> Result<()> {
        let Some(needles) = self.needles(block, source) else { return Ok(()) };
        let length = self.length(block);
        memory_check::check(length, Size::reading_bytes(resolved, length, NEEDLE), available())?;
        if needles.plan.windows.is_empty() {
            let key = format!("{}.search.metric", self.section);
            return Err(Error::value(
                &key,
                "\"needle\"",
                format!("no document of the validation split fills a window of {length} tokens"),
            )
            .hint("search at a shorter `length`, or leave `metric` out"));
        }
        Ok(())
    }

    /// The same, without checks.
    pub(super) fn needles(&self, block: &ResolvedEvaluate, source: &Source<'_>) -> Option<Needles> {
        if !self.measures_needles() || block.protocol.material() == Material::Answers {
            return None;
        }
        let windows = self.config.windows_per_document;
        Some(Needles::new(&source.documents(), windows, self.length(block)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_with_its_beginning() {
        let [long, short]: [Vec<u32>; 2] = [(0..200).collect(), (0..60).collect()];
        let text = Text::documents(TokenFile::from_documents(&[("a", &long), ("b", &short)]));
        let needles = Needles::new(&text, 2, 64);
        // A needle of 16 tokens: a document gives 49.
        let windows = &needles.plan.windows;
        assert_eq!(windows.len(), 3);
        let read = |index: usize| needles.text.read(index, 0..65);
        assert_eq!(read(0)[..49], long[..49]);
        assert_eq!(read(0)[49..], long[..16]);
        assert_eq!(read(1)[..49], long[49..98]);
        assert_eq!(read(2)[49..], short[..16]);
        for window in windows {
            assert_eq!((window.start, window.reading(), window.first, window.end), (0, 64, 57, 65));
        }
        assert!(Needles::new(&text, 2, 512).plan.windows.is_empty());
        // What texts begin with, these windows begin with too.
        assert_eq!(needles.text.bos(), None);
        let begun = TokenFile::from_documents(&[("a", &long)]).with_bos(Some(7));
        assert_eq!(Needles::new(&Text::documents(begun), 2, 64).text.bos(), Some(7));
        assert_eq!(Needles::new(&text, 1, 150).plan.windows[0].targets(), 16);
    }
}
