//! Where the documents of a measurement come from.

use crate::task_keys::TaskKeys;
use crate::text::Text;
use longwave_core::file::sha256_of;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Note, OtherText, Scoring, Split, TaskConfig, TokenFile};

/// Where documents come from: a split of the run's corpus, other text, or a task.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    dataset: &'a Dataset,
    tokens: TokenFile,
    split: Split,
    task: Option<TaskConfig>,
    /// The corpus as written, or the task.
    pub name: String,
    /// Identifies other text than the corpus of the run's config.
    pub hash: Option<String>,
    /// Identifies the text whoever reads it, see [`Dataset::text_hash`], or the run's task, see [`TaskConfig::hash`].
    pub text_hash: Option<String>,
    pub notes: Vec<Note>,
}

impl<'a> Source<'a> {
    /// A split of the run's corpus or of another one, in tokens of the run's tokenizer.
    pub fn open(dataset: &'a Dataset, corpus: Option<&str>, split: Split) -> Result<Self> {
        Ok(match corpus {
            None => {
                dataset.check_text()?;
                let (tokens, name) = (dataset.tokens(split).clone(), dataset.name());
                let notes = dataset.notes();
                let task = dataset.task().cloned();
                let of_task = task.as_ref().map(TaskConfig::hash).transpose()?;
                let text_hash = of_task.or_else(|| dataset.text_hash(split).map(str::to_owned));
                Self { dataset, tokens, split, task, name, hash: None, text_hash, notes }
            }
            Some(corpus) => {
                let OtherText { tokens, content_hash, text_hash, notes } =
                    dataset.other_text(corpus, split)?;
                let (name, hash) = (corpus.to_owned(), Some(content_hash));
                let task = dataset.task().cloned();
                Self { dataset, tokens, split, task, name, hash, text_hash, notes }
            }
        })
    }

    /// What begins each document, as rows record it; `None` where nothing does.
    pub fn bos(&self) -> Option<String> {
        Some(self.dataset.bos().to_owned()).filter(|bos| !bos.is_empty())
    }

    /// Whether the run's task can be asked here.
    pub fn has_task(&self) -> bool {
        self.task.is_some()
    }

    /// The same with other values for keys of the task.
    pub fn asking(&self, keys: &TaskKeys) -> Result<Self> {
        let task = self.task.as_ref().filter(|_| !keys.is_empty());
        let task = task.map(|task| keys.applied(task)).transpose()?;
        Ok(Self { task: task.or_else(|| self.task.clone()), ..self.clone() })
    }

    /// Which answers of a task's sequences are scored; `None` where they have one alone.
    pub fn scoring(&self) -> Option<Scoring> {
        self.task.as_ref().and_then(TaskConfig::scoring)
    }

    /// Whether this is other text than what the run was trained on.
    pub fn is_other_text(&self) -> bool {
        self.hash.is_some()
    }

    /// The token that stands for what the tokenizer does not know.
    pub fn unknown_token(&self) -> Option<u32> {
        self.dataset.tokenizer().unknown()
    }

    pub fn tokenizer_hash(&self) -> Result<String> {
        Ok(sha256_of(self.dataset.tokenizer().to_json()?.as_bytes()))
    }

    pub fn documents(&self) -> Text {
        Text::documents(self.tokens.clone())
    }

    /// The documents' passages, repeated; see [`Text::tiled`].
    pub fn tiled(&self, passage: usize, length: usize) -> Text {
        Text::tiled(self.tokens.clone(), passage, length)
    }

    /// Sequences of the run's task, others in every split.
    pub fn questions(&self, count: usize, length: usize) -> Result<Text> {
        match &self.task {
            Some(task) => Ok(Text::questions(task.questions(self.split, count, length)?)),
            None => Err(Error::failed("a run that was trained on a corpus has no task to ask")),
        }
    }
}
