//! What is read: the documents of a split, or text made from them.

use longwave_data::{Questions, TokenFile};
use longwave_position::layout::TextLayout;
use std::ops::Range;

#[derive(Clone, Debug)]
pub struct Text {
    tokens: TokenFile,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Material {
    /// Text as it was written.
    Documents,
    /// The same, read while attention is looked at.
    Watched,
    /// Passages, each repeated.
    Repeated,
    /// Sequences of a task, of which the answers are scored.
    Answers,
}

impl Material {
    /// One of what errors are taken over and readings are paired by: a document, or a sequence.
    pub fn unit(self) -> &'static str {
        if self == Self::Answers { "sequence" } else { "document" }
    }
}

#[derive(Clone, Debug)]
enum Form {
    Documents,
    /// Passages of so many tokens, each repeated to a window of `length + 1`, see
    /// [`crate::protocols::repeated_text::repeated_text`].
    Tiled {
        passage: usize,
        length: usize,
    },
    /// Sequences of a task, with the answers of each that are scored, in order.
    Questions {
        answers: Vec<Vec<Range<usize>>>,
    },
}

impl Text {
    pub fn documents(tokens: TokenFile) -> Self {
        Self { tokens, form: Form::Documents }
    }

    /// Each document as its passages of `passage` tokens, side by side, each repeated until its copies fill a window of
    /// `length + 1` tokens and the last one ends it. The windows of a document follow each other; they are made when they
    /// are read.
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

    /// The answers of each sequence of a task; none in text.
    pub fn answers(&self) -> &[Vec<Range<usize>>] {
        match &self.form {
            Form::Questions { answers } => answers,
            Form::Documents | Form::Tiled { .. } => &[],
        }
    }

    /// The tokens of a range that are scored, by their places: all of a text, and those of answers of a task.
    pub fn scored(&self, document: usize, range: Range<usize>) -> impl Iterator<Item = usize> {
        let answers = self.answers().get(document);
        range.filter(move |&token| {
            answers.is_none_or(|answers| {
                let next = answers.partition_point(|answer| answer.end <= token);
                answers.get(next).is_some_and(|answer| answer.start <= token)
            })
        })
    }

    pub fn material(&self) -> Material {
        match self.form {
            Form::Documents => Material::Documents,
            Form::Tiled { .. } => Material::Repeated,
            Form::Questions { .. } => Material::Answers,
        }
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
                let skipped = passage - 1 - length % passage;
                (first..first + range.len()).map(|place| tokens[(skipped + place) % passage]).collect()
            }
        }
    }

    pub(crate) fn bos(&self) -> Option<u32> {
        self.tokens.bos()
    }

    /// Begins each row of `length` tokens, which the model reads as a text of its own, with the token that texts begin with; where a
    /// layout makes independent segments of a row, each of them.
    pub fn begin(&self, rows: &mut [u32], length: usize, layout: TextLayout) {
        let alone = if let TextLayout::Segments { length } = layout { length } else { length };
        rows.chunks_mut(length.max(1)).for_each(|row| self.tokens.begin(row, alone));
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

    /// Those of the [bytes](Self::bytes) that the tokenizer does not know or leaves out.
    ///
    /// # Panics
    /// The document has no such tokens.
    pub fn unread_bytes(&self, document: usize, range: Range<usize>) -> u64 {
        let start = self.tokens.document(document).start;
        match self.form {
            Form::Documents => self.tokens.unread_bytes(start + range.start..start + range.end),
            Form::Tiled { .. } | Form::Questions { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Window;
    use crate::protocols::repeated_text::repeated_text;

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
        let plan = repeated_text(&text.lengths(), 7, 3, 3, None);
        let window = |index: usize| {
            let Window { document, start, end, .. } = plan.windows[index];
            text.read(document, start..end)
        };
        assert_eq!(window(0), [1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(window(2), [7, 8, 6, 7, 8, 6, 7, 8]);
        assert_eq!(window(3), [101, 102, 100, 101, 102, 100, 101, 102]);
        // Whatever the length, the last copy ends the window.
        for length in 1..10 {
            let text = Text::tiled(tokens(), 3, length);
            assert_eq!(text.read(0, length..length + 1), [2]);
        }
        assert_eq!((plan.windows.len(), text.bytes(0, 0..8)), (4, 0));
        assert!(text.material() == Material::Repeated);
    }

    #[test]
    fn what_is_read_for_itself_begins_as_texts_do() {
        let text = Text::documents(tokens().with_bos(Some(99)));
        let read = |layout| {
            let mut rows: Vec<u32> = (0..14).collect();
            text.begin(&mut rows, 7, layout);
            rows
        };
        let whole = [99, 1, 2, 3, 4, 5, 6, 99, 8, 9, 10, 11, 12, 13];
        assert_eq!(read(TextLayout::Contiguous), whole);
        // A segment with a memory goes on.
        assert_eq!(read(TextLayout::Recurrent { length: 3, memory: 3 }), whole);
        // The last segment of a row is shorter.
        let each = [99, 1, 2, 99, 4, 5, 99, 99, 8, 9, 99, 11, 12, 99];
        assert_eq!(read(TextLayout::Segments { length: 3 }), each);
        assert_eq!(read(TextLayout::Segments { length: 9 }), whole);
    }

    #[test]
    fn a_question_knows_its_answers() {
        let alone = 2..3;
        let answers = vec![vec![2..3, 7..10], vec![alone]];
        let text = Text::questions(Questions { tokens: tokens(), answers: answers.clone() });
        assert_eq!(text.answers(), answers);
        assert_eq!(text.scored(0, 1..9).collect::<Vec<_>>(), [2, 7, 8]);
        assert_eq!(text.scored(0, 3..7).count(), 0);
        assert_eq!(Text::documents(tokens()).scored(0, 3..7).count(), 4);
        assert_eq!((text.read(1, 0..3), text.bytes(1, 0..3)), (vec![100, 101, 102], 0));
    }
}
