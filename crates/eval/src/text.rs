//! What is read: the documents of a split, or text made from them.

use crate::plan::Window;
use longwave_data::{Questions, TokenFile};
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
    /// [`crate::plan::repeated_text`].
    Tiled { passage: usize, length: usize },
    /// Sequences of a task, whose answers begin at these tokens and end with the document.
    Questions { answers: Vec<usize> },
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

    /// Whether the documents are read as they were written.
    pub fn is_as_written(&self) -> bool {
        matches!(self.form, Form::Documents)
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Window, repeated_text};

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
        assert!(!text.is_as_written());
    }

    #[test]
    fn a_question_is_one_window_with_its_answer_as_target() {
        let text = Text::questions(Questions { tokens: tokens(), answers: vec![7, 2] });
        let windows: Vec<_> =
            text.answer_windows().iter().map(|w| [w.document, w.start, w.first, w.end]).collect();
        assert_eq!(windows, [[0, 0, 7, 10], [1, 0, 2, 3]]);
        assert_eq!((text.read(1, 0..3), text.bytes(1, 0..3)), (vec![100, 101, 102], 0));
    }
}
