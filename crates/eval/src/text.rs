//! What is read: the documents of a split, or text made from them.

use crate::bigram::{LastSeen, last_seen};
use crate::config::Protocol;
use crate::protocol::{Plan, Window};
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Questions, Split, TokenFile};
use std::ops::Range;

/// The documents that a measurement reads.
#[derive(Clone, Debug)]
pub struct Text {
    tokens: TokenFile,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// As they are.
    Documents,
    /// Passages of so many tokens, each repeated to a window of `length + 1`, see
    /// [`crate::protocol::repeated_text`].
    Tiled { passage: usize, length: usize },
    /// Sequences of a task, whose answers begin at these tokens and end with the document.
    Questions { answers: Vec<usize> },
}

/// Where documents come from: a split of the run's corpus, other text, or a task.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    dataset: &'a Dataset,
    tokens: TokenFile,
    split: Split,
    /// The corpus as written, or the task.
    pub name: String,
    /// Identifies other text than the corpus of the run's config.
    pub hash: Option<String>,
}

impl<'a> Source<'a> {
    /// A split of the run's corpus or of another one, in tokens of the run's tokenizer.
    ///
    /// # Errors
    /// The other corpus cannot be read, or has no such split.
    pub fn open(dataset: &'a Dataset, corpus: Option<&str>, split: Split) -> Result<Self> {
        let (tokens, name, hash) = match corpus {
            None => (dataset.tokens(split).clone(), dataset.name(), None),
            Some(corpus) => {
                let (tokens, hash) = dataset.other_text(corpus, split)?;
                (tokens, corpus.to_owned(), Some(hash))
            }
        };
        Ok(Self { dataset, tokens, split, name, hash })
    }

    /// Refuses a protocol that has nothing to read here.
    ///
    /// # Errors
    /// A task is asked as text is read, or the other way round.
    pub fn check(&self, protocol: Protocol) -> Result<()> {
        match (self.dataset.task(), protocol, &self.hash) {
            (Some(_), Protocol::Task, _) | (Some(_), _, Some(_)) => Ok(()),
            (None, Protocol::Task, _) => {
                Err(Error::value("protocol", "\"task\"", "the run was trained on a corpus and asks no task")
                    .hint("leave `protocol` out, or train on a `data.task`"))
            }
            (Some(_), _, None) => Err(Error::value(
                "protocol",
                format!("\"{protocol}\""),
                "the run was trained on a task, and that has answers to score",
            )
            .hint("use `protocol = \"task\"`, or name text with `corpus`")),
            (None, ..) => Ok(()),
        }
    }

    /// The documents as they are.
    pub fn documents(&self) -> Text {
        Text::documents(self.tokens.clone())
    }

    /// The documents' passages, repeated; see [`Text::tiled`].
    pub fn tiled(&self, passage: usize, length: usize) -> Text {
        Text::tiled(self.tokens.clone(), passage, length)
    }

    /// Sequences of the run's task, others in every split.
    ///
    /// # Errors
    /// The run was trained on a corpus, or the task does not fit the length.
    pub fn questions(&self, count: usize, length: usize) -> Result<Text> {
        match self.dataset.task() {
            Some(task) => Ok(Text::questions(task.questions(self.split, count, length)?)),
            None => self.check(Protocol::Task).map(|()| self.documents()),
        }
    }
}

impl Text {
    /// The documents as they are.
    pub fn documents(tokens: TokenFile) -> Self {
        Self { tokens, form: Form::Documents }
    }

    /// Each document as its passages of `passage` tokens, side by side, each repeated from its beginning
    /// until it fills a window of `length + 1` tokens. The windows of a document follow each other; they
    /// are made when they are read.
    ///
    /// # Panics
    /// `passage` is 0.
    pub fn tiled(tokens: TokenFile, passage: usize, length: usize) -> Self {
        assert!(passage > 0, "nothing repeated is nothing");
        Self { tokens, form: Form::Tiled { passage, length } }
    }

    /// Sequences of a task, one per document.
    pub fn questions(Questions { tokens, answers }: Questions) -> Self {
        Self { tokens, form: Form::Questions { answers } }
    }

    /// One window per sequence of a task, as long as it is, whose targets are the answer.
    pub fn answer_windows(&self) -> Vec<Window> {
        let Form::Questions { answers } = &self.form else { return Vec::new() };
        let end = |document: usize| self.tokens.document(document).len();
        let window =
            |(document, &first): (usize, &usize)| Window { document, start: 0, first, end: end(document) };
        answers.iter().enumerate().map(window).collect()
    }

    /// Tokens of each document, before passages of it are repeated.
    pub fn lengths(&self) -> Vec<usize> {
        (0..self.tokens.documents()).map(|index| self.tokens.document(index).len()).collect()
    }

    /// The name of a document.
    ///
    /// # Panics
    /// There is no such document.
    pub fn name(&self, document: usize) -> &str {
        self.tokens.document_name(document)
    }

    /// Tokens of a document, counted from its beginning; where passages are repeated, of one window.
    ///
    /// # Panics
    /// The document has no such tokens.
    pub fn read(&self, document: usize, range: Range<usize>) -> Vec<u32> {
        let start = self.tokens.document(document).start;
        match self.form {
            Form::Documents | Form::Questions { .. } => {
                self.tokens.read(start + range.start..start + range.end)
            }
            Form::Tiled { passage, length } => {
                let (window, first) = (range.start / (length + 1), range.start % (length + 1));
                let tokens = self.tokens.read(start + window * passage..start + (window + 1) * passage);
                (first..first + range.len()).map(|place| tokens[place % passage]).collect()
            }
        }
    }

    /// Bytes that tokens of a document stand for; 0 where they are no text as written.
    ///
    /// # Panics
    /// The document has no such tokens.
    pub fn bytes(&self, document: usize, range: Range<usize>) -> u64 {
        let start = self.tokens.document(document).start;
        match self.form {
            Form::Documents => self.tokens.bytes(start + range.start..start + range.end),
            Form::Tiled { .. } | Form::Questions { .. } => 0,
        }
    }

    /// Where the bigram of every token was last seen, for each document as far as the plans score it;
    /// `None` where the documents are no text as written.
    pub fn last_seen(&self, plans: &[&Plan], train_length: usize) -> Option<Vec<Vec<LastSeen>>> {
        let Form::Documents = self.form else { return None };
        let mut ends = vec![0; self.tokens.documents()];
        for window in plans.iter().flat_map(|plan| &plan.windows) {
            ends[window.document] = window.end.max(ends[window.document]);
        }
        let seen = |(document, &end): (usize, &usize)| last_seen(&self.read(document, 0..end), train_length);
        Some(ends.iter().enumerate().map(seen).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Window, repeated_text};

    fn tokens() -> TokenFile {
        let (a, b): (Vec<u32>, Vec<u32>) = ((0..10).collect(), (100..103).collect());
        TokenFile::from_documents(&[("a", &a), ("b", &b)])
    }

    #[test]
    fn documents_are_read_from_their_beginning() {
        let text = Text::documents(tokens());
        assert_eq!((text.read(1, 1..3), text.bytes(1, 1..3)), (vec![101, 102], 2));
        assert_eq!((text.lengths(), text.name(1)), (vec![10, 3], "b"));
    }

    #[test]
    fn a_passage_is_repeated_until_it_fills_its_window() {
        let text = Text::tiled(tokens(), 3, 7);
        let plan = repeated_text(&text.lengths(), 7, 3, None);
        let window = |index: usize| {
            let Window { document, start, end, .. } = plan.windows[index];
            text.read(document, start..end)
        };
        assert_eq!(window(0), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(window(2), [6, 7, 8, 6, 7, 8, 6, 7]);
        assert_eq!(window(3), [100, 101, 102, 100, 101, 102, 100, 101]);
        assert_eq!((plan.windows.len(), text.bytes(0, 0..8)), (4, 0));
        assert!(text.last_seen(&[&plan], 4).is_none());
    }

    #[test]
    fn a_question_is_one_window_with_its_answer_as_target() {
        let text = Text::questions(Questions { tokens: tokens(), answers: vec![7, 2] });
        let windows: Vec<_> =
            text.answer_windows().iter().map(|w| [w.document, w.start, w.first, w.end]).collect();
        assert_eq!(windows, [[0, 0, 7, 10], [1, 0, 2, 3]]);
        assert_eq!((text.read(1, 0..3), text.bytes(1, 0..3)), (vec![100, 101, 102], 0));
    }

    #[test]
    fn bigrams_are_looked_up_as_far_as_anything_is_scored() {
        let plan =
            Plan { windows: vec![Window { document: 0, start: 0, first: 2, end: 4 }], skipped_documents: 1 };
        let seen = Text::documents(tokens()).last_seen(&[&plan], 4).unwrap();
        assert_eq!((seen[0].len(), seen[1].len()), (4, 0));
    }
}
