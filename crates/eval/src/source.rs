//! Where the documents of a measurement come from.

use crate::text::Text;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, OtherText, Split, TokenFile};

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
    /// Identifies the text whoever reads it, see [`Dataset::text_hash`].
    pub text_hash: Option<String>,
}

impl<'a> Source<'a> {
    /// A split of the run's corpus or of another one, in tokens of the run's tokenizer.
    ///
    /// # Errors
    /// The run's own text is not found, or the other corpus cannot be read or has no such split.
    pub fn open(dataset: &'a Dataset, corpus: Option<&str>, split: Split) -> Result<Self> {
        Ok(match corpus {
            None => {
                dataset.check_text()?;
                let text_hash = dataset.text_hash(split).map(str::to_owned);
                let (tokens, name) = (dataset.tokens(split).clone(), dataset.name());
                Self { dataset, tokens, split, name, hash: None, text_hash }
            }
            Some(corpus) => {
                let OtherText { tokens, content_hash, text_hash } = dataset.other_text(corpus, split)?;
                let (name, hash) = (corpus.to_owned(), Some(content_hash));
                Self { dataset, tokens, split, name, hash, text_hash }
            }
        })
    }

    /// Whether the run's task can be asked here.
    pub fn has_task(&self) -> bool {
        self.dataset.task().is_some()
    }

    /// Whether this is other text than what the run was trained on.
    pub fn is_other_text(&self) -> bool {
        self.hash.is_some()
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
            None => Err(Error::failed("a run that was trained on a corpus has no task to ask")),
        }
    }
}
